// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/batch.h"

#include <algorithm>
#include <cstring>

#include "tensor/buffer.h"
#include "tensor/dtype_table.h"
#include "tensor/resource_handle.h"

namespace millrace::data {

void CopyInto(Tensor* to, int64_t at, const Tensor& from) {
  const int64_t n = from.num_elements();
  if (n == 0) return;
  const size_t size = DataTypeSize(from.dtype());
  if (size > 0) {
    std::memcpy(static_cast<char*>(to->raw_data()) + static_cast<size_t>(at) * size, from.raw_data(),
                static_cast<size_t>(n) * size);
    return;
  }
  VisitDataType(from.dtype(), false, [&]<typename T>() {
    if constexpr (!std::is_trivially_copyable_v<T>) std::copy_n(from.data<T>(), n, to->data<T>() + at);
    return true;
  });
}

StatusOr<Element> JoinRows(std::vector<Element> parts, Allocator& allocator) {
  if (parts.size() == 1) return std::move(parts[0]);
  Element out;
  for (size_t c = 0; c < parts[0].size(); ++c) {
    TensorShape shape = parts[0][c].shape();
    int64_t rows = 0;
    for (const Element& part : parts) {
      TensorShape other = part[c].shape();
      rows += other.dim(0);
      other.SetDim(0, shape.dim(0));
      if (other == shape && part[c].dtype() == parts[0][c].dtype()) continue;
      return errors::InvalidArgument("Cannot batch tensors with different shapes in component ", c,
                                     ". Rows have shapes like those of ", shape, " and of ", part[c].shape());
    }
    shape.SetDim(0, rows);
    MR_ASSIGN_OR_RETURN(Tensor joined, Tensor::Allocate(parts[0][c].dtype(), shape, allocator));
    int64_t at = 0;
    for (const Element& part : parts) {
      CopyInto(&joined, at, part[c]);
      at += part[c].num_elements();
    }
    out.push_back(std::move(joined));
  }
  return out;
}

void Fill(Tensor* to, const Tensor& value) {
  VisitDataType(to->dtype(), false, [&]<typename T>() {
    std::fill_n(to->data<T>(), to->num_elements(), value.scalar<T>());
    return true;
  });
}

StatusOr<Tensor> Zeros(DataType dtype, const TensorShape& shape, Allocator& allocator) {
  MR_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(dtype, shape, allocator));
  if (DataTypeSize(dtype) > 0 && out.num_elements() > 0) std::memset(out.raw_data(), 0, out.num_bytes());
  return out;
}

int64_t CopyCost(const Tensor& tensor) {
  constexpr int64_t kBytesPerNanosecond = 8, kNanosecondsPerObject = 40;
  const size_t size = DataTypeSize(tensor.dtype());
  return 1 + (size > 0 ? static_cast<int64_t>(tensor.num_bytes()) / kBytesPerNanosecond
                       : tensor.num_elements() * kNanosecondsPerObject);
}

namespace {

// Whether component `i` of the elements is in one buffer, row by row, with nothing else. REQUIRES: it has one
// type and shape.
bool AreStacked(const std::vector<Element>& elements, size_t i) {
  const Tensor& first = elements[0][i];
  const Buffer* const buffer = first.buffer();
  const auto row = static_cast<size_t>(first.num_bytes());
  if (buffer == nullptr || DataTypeSize(first.dtype()) == 0 || buffer->size() != row * elements.size())
    return false;
  const char* place = static_cast<const char*>(buffer->data());
  for (const Element& e : elements) {
    if (e[i].buffer() != buffer || e[i].raw_data() != place) return false;
    place += row;
  }
  return true;
}

}  // namespace

StatusOr<Tensor> StackComponent(const std::vector<Element>& elements, size_t i, Allocator& allocator,
                                ThreadPool* pool) {
  const Tensor& first = elements[0][i];
  TensorShape shape;
  MR_RETURN_IF_ERROR(shape.TryAddDim(static_cast<int64_t>(elements.size())));
  for (const int64_t size : first.shape().dims()) MR_RETURN_IF_ERROR(shape.TryAddDim(size));
  for (size_t k = 0; k < elements.size(); ++k) {
    const Tensor& row = elements[k][i];
    if (row.shape() != first.shape()) {
      return errors::InvalidArgument("Cannot batch tensors with different shapes in component ", i,
                                     ". First element had shape ", first.shape(), " and element ", k,
                                     " had shape ", row.shape(), ".");
    }
    if (row.dtype() != first.dtype()) {
      return errors::InvalidArgument("Cannot batch tensors with different types in component ", i,
                                     ". First element had type ", DataTypeName(first.dtype()),
                                     " and element ", k, " had type ", DataTypeName(row.dtype()), ".");
    }
  }
  if (AreStacked(elements, i)) {
    return Tensor::FromBuffer(first.dtype(), shape, ShareRef(first.buffer()), first.buffer()->data());
  }
  MR_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(first.dtype(), shape, allocator));
  const auto copy = [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      CopyInto(&out, k * first.num_elements(), elements[static_cast<size_t>(k)][i]);
    }
  };
  const auto rows = static_cast<int64_t>(elements.size());
  if (pool == nullptr) {
    copy(0, rows);
  } else {
    pool->ParallelFor(rows, CopyCost(first), copy);
  }
  return out;
}

StatusOr<Element> StackElements(const std::vector<Element>& elements, Allocator& allocator,
                                ThreadPool* pool) {
  Element out;
  const size_t n = elements[0].size();
  for (const Element& e : elements) {
    if (e.size() != n)
      return errors::InvalidArgument("Cannot batch elements of different numbers of tensors");
  }
  for (size_t i = 0; i < n; ++i) {
    MR_ASSIGN_OR_RETURN(Tensor stacked, StackComponent(elements, i, allocator, pool));
    out.push_back(std::move(stacked));
  }
  return out;
}

}  // namespace millrace::data
