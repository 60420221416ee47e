// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class MessageLite;
}

namespace millrace {

// A serialised message in pieces, each held by its owner: elements are sent from the memory of the tensor,
// and read from the network's buffers. Copies share the memory. One thread at a time.
class MessageBytes {
 public:
  struct Piece {
    std::string_view bytes;
    std::shared_ptr<const void> owner;
  };

  MessageBytes() = default;
  MessageBytes(std::string bytes) { Append(std::move(bytes)); }  // NOLINT(google-explicit-constructor)
  static MessageBytes Of(const google::protobuf::MessageLite& message);

  void Append(std::string bytes);
  // `owner` holds the bytes.
  void Append(std::string_view bytes, std::shared_ptr<const void> owner);
  const std::vector<Piece>& pieces() const { return pieces_; }
  size_t size() const { return size_; }
  std::string ToString() const;
  // False when the bytes are not such a message.
  bool ParseInto(google::protobuf::MessageLite* message) const;

 private:
  std::vector<Piece> pieces_;
  size_t size_ = 0;
};

}  // namespace millrace
