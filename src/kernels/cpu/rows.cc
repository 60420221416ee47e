// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "kernels/cpu/row_function.h"
#include "tensor/dtype_table.h"
#include "tensor/resource_handle.h"
#include "tensor/variant.h"

namespace millrace {
namespace {

template <typename T>
void Copy(const T* src, std::span<const int64_t> rows, int64_t row, T* dst, bool take) {
  // The processor executes short copies ahead by itself.
  constexpr size_t kLine = 64;
  const size_t bytes = static_cast<size_t>(row) * sizeof(T);
  const size_t prefetched = bytes < kLine || rows.size() < kPrefetchRows ? 0 : rows.size() - kPrefetchRows;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto own = static_cast<int64_t>(i);
    if (i < prefetched) {
      const int64_t other = rows[i + kPrefetchRows] * row;
      PrefetchRow(take ? static_cast<const void*>(src + other) : dst + other, bytes);
    }
    std::copy_n(src + (take ? rows[i] : own) * row, row, dst + (take ? own : rows[i]) * row);
  }
}

void CopyRows(DataType dtype, const void* src, std::span<const int64_t> rows, int64_t row, void* dst,
              bool take) {
  const auto as = [&]<typename T>() {
    Copy(static_cast<const T*>(src), rows, row, static_cast<T*>(dst), take);
  };
  if (row == 0) return;
  if (dtype == DataType::kString) return as.template operator()<std::string>();
  if (dtype == DataType::kResource) return as.template operator()<ResourceHandle>();
  if (dtype == DataType::kVariant) return as.template operator()<Variant>();
  const size_t size = ElementSize(dtype);
  if (row == 1 && size == 4) return as.template operator()<uint32_t>();
  if (row == 1 && size == 8) return as.template operator()<uint64_t>();
  if (row == 2 && size == 8) {  // indices of matrices
    row = 1;
    return as.template operator()<std::array<uint64_t, 2>>();
  }
  row *= static_cast<int64_t>(size);
  as.template operator()<char>();
}

}  // namespace

void TakeRows(DataType dtype, const void* src, std::span<const int64_t> rows, int64_t row, void* dst) {
  CopyRows(dtype, src, rows, row, dst, true);
}

void PutRows(DataType dtype, const void* src, std::span<const int64_t> rows, int64_t row, void* dst) {
  CopyRows(dtype, src, rows, row, dst, false);
}

}  // namespace millrace
