// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/row_places.h"

#include <utility>

#include "data/batch.h"
#include "tensor/dtype_table.h"

namespace millrace::data {
namespace {

// For one component: smaller ones are stacked as fast, larger batches may not be completed.
constexpr size_t kLeastBytesOfRow = 16 << 10;
constexpr size_t kMostBytesOfBatch = 256 << 20;

// A tensor without elements if rows should not be placed.
Tensor BatchFor(const Tensor& row, int64_t size, Allocator& allocator) {
  const size_t bytes = row.num_bytes();
  TensorShape shape;
  if (DataTypeSize(row.dtype()) == 0 || bytes < kLeastBytesOfRow ||
      bytes > kMostBytesOfBatch / static_cast<size_t>(size) || !shape.TryAddDim(size).ok()) {
    return Tensor();
  }
  for (const int64_t d : row.shape().dims()) {
    if (!shape.TryAddDim(d).ok()) return Tensor();
  }
  auto batch = Tensor::Allocate(row.dtype(), shape, allocator);
  return batch.ok() ? *std::move(batch) : Tensor();
}

bool IsRowOf(const Tensor& batch, const Tensor& row) {
  if (batch.num_elements() == 0 || batch.dtype() != row.dtype() || batch.rank() != row.rank() + 1)
    return false;
  for (int d = 0; d < row.rank(); ++d) {
    if (batch.dim(d + 1) != row.dim(d)) return false;
  }
  return true;
}

}  // namespace

void RowPlaces::Place(int64_t row, Element* element, Allocator& allocator) {
  Element batch;
  {
    MutexLock lock(mu_);
    if (!begun_) {
      for (const Tensor& t : *element) {
        batch_.push_back(BatchFor(t, size_, allocator));
        any_ = any_ || batch_.back().num_elements() > 0;
      }
    }
    begun_ = true;
    if (!any_) return;
    batch = batch_;
  }
  for (size_t i = 0; i < element->size() && i < batch.size(); ++i) {
    Tensor& t = (*element)[i];
    if (!IsRowOf(batch[i], t)) continue;
    CopyInto(&batch[i], row * t.num_elements(), t);
    t = batch[i].Slice(row, row + 1).WithShape(t.shape());
  }
}

}  // namespace millrace::data
