// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/message_memory.h"

#include <algorithm>
#include <climits>

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>

namespace millrace {
namespace {

namespace pb = google::protobuf;

// Overheads: of the allocator and the parent's list of pointers per object; of a string; of a map's entry.
constexpr int64_t kOverhead = 24;
constexpr int64_t kTextBytes = 48;
// A message: without fields, for each singular field, for each repeated or map field.
constexpr int64_t kMessageBytes = 24;
constexpr int64_t kFieldBytes = 8;
constexpr int64_t kListBytes = 24;
constexpr int64_t kMapEntryBytes = 64;
constexpr int64_t kMostBytesPerByte = 8;  // packed numbers of one byte each
// The memory for a "{" in text format, and for other characters.
constexpr int64_t kBytesPerBrace = 128;
constexpr int64_t kBytesPerCharacter = 4;
// The nesting limit of protobuf's parser.
constexpr int kMaxNesting = 100;

Status TooMuch(uint64_t size) {
  return errors::ResourceExhausted("A message of ", size, " bytes needs more memory than ",
                                   kMessageMemoryFactor, " times that");
}

// Visits the tags of a message and sums the memory that the parser will allocate.
class Counter {
 public:
  Counter(pb::io::CodedInputStream& in, int64_t limit) : in_(in), limit_(limit) {}

  // False if the bytes are malformed or need too much: see exceeded().
  bool Count(const pb::Descriptor& type, int depth) {
    if (depth > kMaxNesting) return false;
    if (!Add(BytesOf(type))) return false;
    while (const uint32_t tag = in_.ReadTag()) {
      if (!CountField(type, tag, depth)) return false;
    }
    return true;
  }
  bool exceeded() const { return total_ > limit_; }

 private:
  bool Add(int64_t bytes) {
    total_ += bytes;
    return !exceeded();
  }
  static int64_t BytesOf(const pb::Descriptor& type) {
    int64_t bytes = kOverhead + kMessageBytes;
    for (int i = 0; i < type.field_count(); ++i)
      bytes += type.field(i)->is_repeated() ? kListBytes : kFieldBytes;
    return type.options().map_entry() ? bytes + kMapEntryBytes : bytes;
  }
  bool CountField(const pb::Descriptor& type, uint32_t tag, int depth) {
    const pb::FieldDescriptor* field = type.FindFieldByNumber(static_cast<int>(tag >> 3));
    uint64_t number = 0;
    switch (tag & 7) {
      case 0:
        return in_.ReadVarint64(&number) && Add(kMostBytesPerByte);
      case 1:
        return in_.Skip(8) && Add(16);
      case 2:
        return CountDelimited(field, depth);
      case 5:
        return in_.Skip(4) && Add(16);
      default:  // groups are not in use
        return false;
    }
  }
  bool CountDelimited(const pb::FieldDescriptor* field, int depth) {
    uint32_t length = 0;
    if (!in_.ReadVarint32(&length) || length > INT_MAX) return false;
    if (field != nullptr && field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      const auto outer = in_.PushLimit(static_cast<int>(length));
      const bool ok = Count(*field->message_type(), depth + 1) && in_.BytesUntilLimit() == 0;
      in_.PopLimit(outer);
      return ok;
    }
    const bool is_text = field == nullptr || field->cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING;
    const int64_t bytes = is_text ? kOverhead + kTextBytes + int64_t{length} : kMostBytesPerByte * length;
    return in_.Skip(static_cast<int>(length)) && Add(bytes);
  }

  pb::io::CodedInputStream& in_;
  const int64_t limit_;
  int64_t total_ = 0;
};

}  // namespace

Status CheckBinaryMemory(pb::io::ZeroCopyInputStream* bytes, uint64_t size, const pb::Message& message,
                         int64_t base) {
  if (size > INT_MAX) return TooMuch(size);
  pb::io::CodedInputStream in(bytes);
  in.SetTotalBytesLimit(INT_MAX);
  Counter counter(in, base + kMessageMemoryFactor * static_cast<int64_t>(size));
  counter.Count(*message.GetDescriptor(), 0);
  return counter.exceeded() ? TooMuch(size) : Status::Ok();
}

Status CheckTextMemory(std::string_view text, int64_t base) {
  const int64_t braces = std::count_if(text.begin(), text.end(), [](char c) { return c == '{' || c == '<'; });
  const auto size = static_cast<int64_t>(text.size());
  if (braces * kBytesPerBrace + size * kBytesPerCharacter <= base + kMessageMemoryFactor * size) {
    return Status::Ok();
  }
  return TooMuch(text.size());
}

}  // namespace millrace
