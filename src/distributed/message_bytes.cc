// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/message_bytes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <climits>
#include <utility>

namespace millrace {
namespace {

class PieceStream : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit PieceStream(const std::vector<MessageBytes::Piece>& pieces) : pieces_(pieces) {}
  bool Next(const void** data, int* size) override {
    while (piece_ < pieces_.size() && at_ == pieces_[piece_].bytes.size()) {
      ++piece_;
      at_ = 0;
    }
    if (piece_ == pieces_.size()) return false;
    const std::string_view rest = pieces_[piece_].bytes.substr(at_);
    const size_t given = std::min<size_t>(rest.size(), INT_MAX);
    *data = rest.data();
    *size = static_cast<int>(given);
    at_ += given;
    count_ += static_cast<int64_t>(given);
    return true;
  }
  void BackUp(int count) override {
    at_ -= static_cast<size_t>(count);
    count_ -= count;
  }
  bool Skip(int count) override {
    const void* data = nullptr;
    int size = 0;
    while (count > 0) {
      if (!Next(&data, &size)) return false;
      if (size > count) BackUp(size - count);
      count -= std::min(size, count);
    }
    return true;
  }
  int64_t ByteCount() const override { return count_; }

 private:
  const std::vector<MessageBytes::Piece>& pieces_;
  size_t piece_ = 0;
  size_t at_ = 0;
  int64_t count_ = 0;
};

}  // namespace

MessageBytes MessageBytes::Of(const google::protobuf::MessageLite& message) {
  return MessageBytes(message.SerializeAsString());
}

void MessageBytes::Append(std::string bytes) {
  if (bytes.empty()) return;
  auto kept = std::make_shared<const std::string>(std::move(bytes));
  const std::string_view view = *kept;
  Append(view, std::move(kept));
}

void MessageBytes::Append(std::string_view bytes, std::shared_ptr<const void> owner) {
  if (bytes.empty()) return;
  size_ += bytes.size();
  pieces_.push_back({bytes, std::move(owner)});
}

std::string MessageBytes::ToString() const {
  std::string all;
  all.reserve(size_);
  for (const Piece& piece : pieces_) all.append(piece.bytes);
  return all;
}

bool MessageBytes::ParseInto(google::protobuf::MessageLite* message) const {
  if (size_ > INT_MAX) return false;
  if (pieces_.size() == 1) {
    return message->ParseFromArray(pieces_[0].bytes.data(), static_cast<int>(size_));
  }
  PieceStream stream(pieces_);
  return message->ParseFromZeroCopyStream(&stream);
}

}  // namespace millrace
