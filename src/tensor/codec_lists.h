// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "millrace/dtype.h"
#include "millrace/status.h"
#include "tensor/resource_handle.h"
#include "tensor/variant.h"
#include "tensorflow/core/framework/tensor.pb.h"

// The field of a TensorProto with the values of each element type, and its form. For tensor_codec.cc.
namespace millrace::codec_internal {

template <typename T>
struct ListField;

#define MR_LIST_FIELD(field)                                                             \
  static const auto& Get(const tensorflow::TensorProto& proto) { return proto.field(); } \
  static auto* Mutable(tensorflow::TensorProto* proto) { return proto->mutable_##field(); }
#define MR_PLAIN_LIST(Cpp, field)                             \
  template <>                                                 \
  struct ListField<Cpp> {                                     \
    static constexpr int kPerElement = 1;                     \
    MR_LIST_FIELD(field)                                      \
    template <typename List>                                  \
    static Cpp FromList(const List& list, int64_t i) {        \
      return static_cast<Cpp>(list.Get(static_cast<int>(i))); \
    }                                                         \
    template <typename List>                                  \
    static void AddTo(Cpp value, List* list) {                \
      list->Add(value);                                       \
    }                                                         \
  };
MR_PLAIN_LIST(float, float_val)
MR_PLAIN_LIST(double, double_val)
MR_PLAIN_LIST(int32_t, int_val)
MR_PLAIN_LIST(int16_t, int_val)
MR_PLAIN_LIST(int8_t, int_val)
MR_PLAIN_LIST(uint16_t, int_val)
MR_PLAIN_LIST(uint8_t, int_val)
MR_PLAIN_LIST(int64_t, int64_val)
MR_PLAIN_LIST(bool, bool_val)
MR_PLAIN_LIST(uint32_t, uint32_val)
MR_PLAIN_LIST(uint64_t, uint64_val)

template <typename Int, int kTag>
struct ListField<Quantized<Int, kTag>> {
  static constexpr int kPerElement = 1;
  MR_LIST_FIELD(int_val)
  template <typename List>
  static Quantized<Int, kTag> FromList(const List& list, int64_t i) {
    return {static_cast<Int>(list.Get(static_cast<int>(i)))};
  }
  template <typename List>
  static void AddTo(Quantized<Int, kTag> value, List* list) {
    list->Add(value.value);
  }
};

// half and bfloat16: the bits as a number.
template <typename T>
requires(std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) struct ListField<T> {
  static constexpr int kPerElement = 1;
  MR_LIST_FIELD(half_val)
  template <typename List>
  static T FromList(const List& list, int64_t i) {
    T value;
    value.bits = static_cast<uint16_t>(list.Get(static_cast<int>(i)));
    return value;
  }
  template <typename List>
  static void AddTo(T value, List* list) {
    list->Add(value.bits);
  }
};

// Complex numbers: real and imaginary parts in turn.
#define MR_COMPLEX_LIST(Cpp, field)                                                      \
  template <>                                                                            \
  struct ListField<Cpp> {                                                                \
    static constexpr int kPerElement = 2;                                                \
    MR_LIST_FIELD(field)                                                                 \
    template <typename List>                                                             \
    static Cpp FromList(const List& list, int64_t i) {                                   \
      return {list.Get(static_cast<int>(2 * i)), list.Get(static_cast<int>(2 * i + 1))}; \
    }                                                                                    \
    template <typename List>                                                             \
    static void AddTo(Cpp value, List* list) {                                           \
      list->Add(value.real());                                                           \
      list->Add(value.imag());                                                           \
    }                                                                                    \
  };
MR_COMPLEX_LIST(complex64, scomplex_val)
MR_COMPLEX_LIST(complex128, dcomplex_val)

template <>
struct ListField<std::string> {
  static constexpr int kPerElement = 1;
  MR_LIST_FIELD(string_val)
  template <typename List>
  static std::string FromList(const List& list, int64_t i) {
    return list.Get(static_cast<int>(i));
  }
  template <typename List>
  static void AddTo(const std::string& value, List* list) {
    *list->Add() = value;
  }
};
template <>
struct ListField<ResourceHandle> {
  static constexpr int kPerElement = 1;
  MR_LIST_FIELD(resource_handle_val)
};
template <>
struct ListField<Variant> {
  static constexpr int kPerElement = 1;
  MR_LIST_FIELD(variant_val)
};
#undef MR_PLAIN_LIST
#undef MR_COMPLEX_LIST
#undef MR_LIST_FIELD

// The memory of one more copy of entry i, in addition to the element itself.
inline size_t MemoryOf(const google::protobuf::RepeatedPtrField<std::string>& list, int64_t i) {
  return list.Get(static_cast<int>(i)).size();
}
template <typename Message>
size_t MemoryOf(const google::protobuf::RepeatedPtrField<Message>& list, int64_t i) {
  // In memory the parts of a message are several times as large as on the wire.
  return 64 + 8 * list.Get(static_cast<int>(i)).ByteSizeLong();
}

// Equal as bits: -0 differs from 0, and a NaN equals itself.
template <typename T>
bool SameBits(const T& a, const T& b) {
  if constexpr (std::is_trivially_copyable_v<T>) {
    return std::memcmp(&a, &b, sizeof(T)) == 0;
  } else {
    return a == b;
  }
}

inline void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

// Reads n varint lengths and then the bytes of n strings, and nothing else. Views of the input.
class StringListReader {
 public:
  static StatusOr<StringListReader> Make(std::string_view bytes, int64_t n) {
    StringListReader reader;
    reader.lengths_ = bytes;
    uint64_t total = 0;
    std::string_view rest = bytes;
    for (int64_t i = 0; i < n; ++i) {
      uint64_t length;
      if (!ReadVarint32(&rest, &length)) {
        return errors::InvalidArgument("tensor_content ends within the lengths of its strings");
      }
      total += length;  // n is at most the number of bytes, so this cannot overflow
    }
    if (total != rest.size()) {
      return errors::InvalidArgument("tensor_content has ", rest.size(),
                                     " bytes of strings, their lengths add up to ", total);
    }
    reader.bytes_ = rest;
    return reader;
  }
  // REQUIRES: fewer than n calls so far.
  std::string_view Next() {
    uint64_t length = 0;
    ReadVarint32(&lengths_, &length);
    const std::string_view result = bytes_.substr(0, length);
    bytes_.remove_prefix(result.size());
    return result;
  }

 private:
  static bool ReadVarint32(std::string_view* in, uint64_t* value) {
    uint64_t result = 0;
    for (int shift = 0; shift < 35 && !in->empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(in->front());
      in->remove_prefix(1);
      result |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) {
        *value = result;
        return result <= UINT32_MAX;
      }
    }
    return false;
  }

  std::string_view lengths_;
  std::string_view bytes_;
};

}  // namespace millrace::codec_internal
