// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/slices_codec.h"

#include <type_traits>

#include "tensor/codec_lists.h"
#include "tensor/dtype_table.h"

namespace millrace::io {
namespace {

using codec_internal::ListField;

template <typename T>
inline constexpr bool kInLists = !std::is_same_v<T, ResourceHandle> && !std::is_same_v<T, Variant>;

}  // namespace

bool IsSliceType(DataType dtype) {
  return VisitDataType(dtype, false, []<typename T>() { return kInLists<T>; });
}

uint64_t MostListBytes(const Tensor& tensor) {
  const auto n = static_cast<uint64_t>(tensor.num_elements());
  if (tensor.dtype() != DataType::kString) {
    // Varints of negative numbers take 10 bytes; other types take their size in memory.
    const bool fixed = IsComplexType(tensor.dtype()) || tensor.dtype() == DataType::kFloat ||
                       tensor.dtype() == DataType::kDouble || tensor.dtype() == DataType::kBool;
    return n * (fixed ? DataTypeSize(tensor.dtype()) : 10);
  }
  uint64_t total = 0;
  for (const std::string& value : tensor.flat<std::string>()) total += value.size() + 11;
  return total;
}

void ElementsToList(const Tensor& tensor, tensorflow::TensorProto* proto) {
  VisitDataType(tensor.dtype(), false, [&]<typename T>() {
    if constexpr (kInLists<T>) {
      auto* const list = ListField<T>::Mutable(proto);
      list->Reserve(static_cast<int>(tensor.num_elements() * ListField<T>::kPerElement));
      for (const T& value : tensor.flat<T>()) ListField<T>::AddTo(value, list);
    }
    return true;
  });
}

bool ListHasElements(const tensorflow::TensorProto& proto, DataType dtype, int64_t n) {
  return VisitDataType(dtype, false, [&]<typename T>() {
    if constexpr (kInLists<T>) {
      const int64_t size = ListField<T>::Get(proto).size();
      return size % ListField<T>::kPerElement == 0 && size / ListField<T>::kPerElement == n;
    } else {
      return false;
    }
  });
}

void ElementsFromList(const tensorflow::TensorProto& proto, Tensor* tensor) {
  VisitDataType(tensor->dtype(), false, [&]<typename T>() {
    if constexpr (kInLists<T>) {
      const auto& list = ListField<T>::Get(proto);
      int64_t i = 0;
      for (T& value : tensor->flat<T>()) value = ListField<T>::FromList(list, i++);
    }
    return true;
  });
}

}  // namespace millrace::io
