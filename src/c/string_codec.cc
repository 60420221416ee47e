// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "c/string_codec.h"

#include <cstdint>
#include <cstring>

#include "c/internal.h"

namespace millrace::c_api {
namespace {

size_t VarintSize(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

char* PutVarint(uint64_t value, char* out) {
  for (; value >= 0x80; value >>= 7) *out++ = static_cast<char>(value | 0x80);
  *out++ = static_cast<char>(value);
  return out;
}

// The bytes of the varint at the front of `bytes`; 0 when there is none.
size_t GetVarint(std::string_view bytes, uint64_t* value) {
  *value = 0;
  for (size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (i == 9 && byte > 1) return 0;
    *value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) return i + 1;
  }
  return 0;
}

size_t EncodedSize(size_t length) { return VarintSize(length) + length; }

char* Encode(std::string_view text, char* out) {
  out = PutVarint(text.size(), out);
  if (!text.empty()) std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

// The string at the front of `bytes`, and how many of them it takes.
StatusOr<std::string_view> Decode(std::string_view bytes, size_t* used) {
  uint64_t length = 0;
  const size_t header = GetVarint(bytes, &length);
  if (header == 0 || length > bytes.size() - header) {
    return errors::InvalidArgument("invalid string encoding or truncated src buffer");
  }
  *used = header + static_cast<size_t>(length);
  return bytes.substr(header, static_cast<size_t>(length));
}

}  // namespace

size_t EncodedStringsSize(std::span<const std::string> strings) {
  size_t size = strings.size() * sizeof(uint64_t);
  for (const std::string& text : strings) size += EncodedSize(text.size());
  return size;
}

void EncodeStrings(std::span<const std::string> strings, char* out) {
  char* const data = out + strings.size() * sizeof(uint64_t);
  char* next = data;
  for (const std::string& text : strings) {
    const auto offset = static_cast<uint64_t>(next - data);
    std::memcpy(out, &offset, sizeof(offset));
    out += sizeof(offset);
    next = Encode(text, next);
  }
}

StatusOr<Tensor> DecodeStrings(std::string_view bytes, const TensorShape& shape) {
  const auto count = static_cast<size_t>(shape.num_elements());
  if (count > bytes.size() / sizeof(uint64_t)) {
    return errors::InvalidArgument("Malformed TF_STRING tensor; too short to hold number of elements");
  }
  const std::string_view data = bytes.substr(count * sizeof(uint64_t));
  MR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(DataType::kString, shape));
  for (size_t i = 0; i < count; ++i) {
    uint64_t offset = 0;
    std::memcpy(&offset, bytes.data() + i * sizeof(offset), sizeof(offset));
    if (offset >= data.size()) {
      return errors::InvalidArgument("Malformed TF_STRING tensor; element ", i, " out of range");
    }
    size_t used = 0;
    MR_ASSIGN_OR_RETURN(const std::string_view text, Decode(data.substr(static_cast<size_t>(offset)), &used));
    tensor.data<std::string>()[i] = text;
  }
  return tensor;
}

}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

size_t TF_StringEncodedSize(size_t len) { return millrace::c_api::EncodedSize(len); }

size_t TF_StringEncode(const char* src, size_t src_len, char* dst, size_t dst_len, TF_Status* status) {
  const size_t size = EncodedSize(src_len);
  const bool ok = Enter(status, [&]() -> millrace::Status {
    if (dst == nullptr || (src == nullptr && src_len > 0)) return NullArgument("A string");
    if (size < src_len || dst_len < size) {
      return millrace::errors::InvalidArgument("dst_len (", dst_len, ") too small to encode a ", src_len,
                                               "-byte string");
    }
    Encode({src, src_len}, dst);
    return millrace::Status();
  });
  return ok ? size : 0;
}

size_t TF_StringDecode(const char* src, size_t src_len, const char** dst, size_t* dst_len,
                       TF_Status* status) {
  size_t used = 0;
  Enter(status, [&]() -> millrace::Status {
    if (dst == nullptr || dst_len == nullptr || (src == nullptr && src_len > 0)) {
      return NullArgument("A string");
    }
    MR_ASSIGN_OR_RETURN(const std::string_view text, Decode({src, src_len}, &used));
    *dst = text.data();
    *dst_len = text.size();
    return millrace::Status();
  });
  return used;
}
