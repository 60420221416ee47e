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

// A serialised message in pieces, each kept by its owner: elements of a tensor are sent from the
// tensor, and read from where the network has put them. Copies share the memory. One thread at a time.
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
  // `owner` keeps the bytes.
  void Append(std::string_view bytes, std::shared_ptr<const void> owner);
  const std::vector<Piece>& pieces() const { return pieces_; }
  size_t size() const { return size_; }
  std::string ToString() const;
  // False when the bytes are no such message.
  bool ParseInto(google::protobuf::MessageLite* message) const;

 private:
  std::vector<Piece> pieces_;
  size_t size_ = 0;
};

}  // namespace millrace
