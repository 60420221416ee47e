// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/tensor_array/tensor_array.h"

#include <algorithm>

#include "kernels/cpu/state/variable_util.h"

namespace millrace {
namespace {

StatusOr<Tensor> Zeros(KernelContext& context, DataType dtype, const TensorShape& shape) {
  MR_ASSIGN_OR_RETURN(Tensor zeros, context.AllocateTemp(dtype, shape));
  ContextParallel parallel(context);
  ZeroElements(dtype, zeros.raw_data(), zeros.num_elements(), parallel);
  return zeros;
}

}  // namespace

Status TensorArray::CheckOpen() const {
  if (!closed_) [[likely]]
    return Status();
  return errors::InvalidArgument("TensorArray ", name_, " has already been closed.");
}

StatusOr<int64_t> TensorArray::Size() {
  MutexLock lock(mu_);
  MR_RETURN_IF_ERROR(CheckOpen());
  return size_;
}

StatusOr<PartialShape> TensorArray::ElementShape() {
  MutexLock lock(mu_);
  MR_RETURN_IF_ERROR(CheckOpen());
  return element_shape_;
}

bool TensorArray::dynamic_size() {
  MutexLock lock(mu_);
  return dynamic_size_;
}

StatusOr<int64_t> TensorArray::SizeOfWhole() {
  MutexLock lock(mu_);
  MR_RETURN_IF_ERROR(CheckOpen());
  return is_gradient_ && whole_ >= 0 ? whole_ : size_;
}

void TensorArray::MarkWhole(int64_t size) {
  MutexLock lock(mu_);
  if (!is_gradient_) whole_ = size;
}

Status TensorArray::MergeElementShape(const PartialShape& shape) {
  MutexLock lock(mu_);
  MR_RETURN_IF_ERROR(CheckOpen());
  MR_ASSIGN_OR_RETURN(element_shape_, element_shape_.MergeWith(shape));
  return Status();
}

Status TensorArray::CheckWrite(const Tensor& value, int64_t index) {
  if (index < 0 || (!dynamic_size_ && index >= size_)) {
    return errors::InvalidArgument("TensorArray ", name_, ": Tried to write to index ", index,
                                   " but array is not resizeable and size is: ", size_);
  }
  if (value.dtype() != dtype_) {
    return errors::InvalidArgument("TensorArray ", name_, ": Could not write to TensorArray index ", index,
                                   " because the value dtype is ", DataTypeName(value.dtype()),
                                   " but TensorArray dtype is ", DataTypeName(dtype_), ".");
  }
  if (!element_shape_.IsCompatibleWith(value.shape())) {
    return errors::InvalidArgument("TensorArray ", name_, ": Could not write to TensorArray index ", index,
                                   " because the value shape is ", value.shape(),
                                   " which is incompatible with the TensorArray's inferred element shape: ",
                                   element_shape_, " (consider setting infer_shape=False).");
  }
  return Status();
}

Status TensorArray::Write(KernelContext& context, int64_t index, Tensor value) {
  MutexLock lock(mu_);
  MR_RETURN_IF_ERROR(CheckOpen());
  MR_RETURN_IF_ERROR(CheckWrite(value, index));
  if (identical_element_shapes_ && !element_shape_.IsFullyDefined()) element_shape_ = value.shape();
  Element& element = elements_[index];
  size_ = std::max(size_, index + 1);
  if (element.read) {
    return errors::InvalidArgument("TensorArray ", name_, ": Could not write to TensorArray index ", index,
                                   " because it has already been read.");
  }
  if (element.written) {
    if (is_gradient_) return Accumulate(context, element, index, value);
    return errors::InvalidArgument("TensorArray ", name_, ": Could not write to TensorArray index ", index,
                                   " because it has already been written to.");
  }
  element.shape = value.shape();
  element.tensor = std::move(value);
  element.written = element.has_value = true;
  return Status();
}

Status TensorArray::Accumulate(KernelContext& context, Element& element, int64_t index, const Tensor& value) {
  if (element.shape != value.shape()) {
    return errors::InvalidArgument("TensorArray ", name_, ": Could not aggregate to TensorArray index ",
                                   index, " because the existing shape is ", element.shape,
                                   " but the new input shape is ", value.shape(), ".");
  }
  if (!element.has_value) {
    element.tensor = value;
    element.has_value = true;
    return Status();
  }
  const cpu::BinaryFns* add = cpu::FindBinary(cpu::BinaryOp::kAdd, dtype_);
  if (add == nullptr) {
    return errors::InvalidArgument("TensorArray ", name_, ": Could not aggregate to TensorArray index ",
                                   index, " because values of type ", DataTypeName(dtype_),
                                   " can't be added.");
  }
  return UpdateBy(context, *add, element.tensor, value);
}

StatusOr<Tensor> TensorArray::ReadUnwrittenGradient(KernelContext& context, int64_t index) {
  if (!element_shape_.IsFullyDefined()) {
    return errors::InvalidArgument(
        "TensorArray ", name_, ": Could not read from gradient TensorArray index ", index,
        ".  Furthermore, the element shape is not fully defined: ", element_shape_,
        ".  It is possible you are working with a resizeable TensorArray and stop_gradients is not allowing "
        "the gradients to be written.  If you set the full element_shape property on the forward "
        "TensorArray, the proper all-zeros tensor will be returned instead of incurring this error.");
  }
  MR_ASSIGN_OR_RETURN(const TensorShape shape, element_shape_.ToTensorShape());
  return Zeros(context, dtype_, shape);
}

StatusOr<Tensor> TensorArray::Read(KernelContext& context, int64_t index) {
  MutexLock lock(mu_);
  MR_RETURN_IF_ERROR(CheckOpen());
  if (index < 0 || (!is_gradient_ && index >= size_)) {
    return errors::InvalidArgument("TensorArray ", name_, ": Tried to read from index ", index,
                                   " but array size is: ", size_);
  }
  const auto it = elements_.find(index);
  if (it == elements_.end() || !it->second.written) {
    if (is_gradient_) return ReadUnwrittenGradient(context, index);
    return errors::InvalidArgument("TensorArray ", name_, ": Could not read from TensorArray index ", index,
                                   " because it has not yet been written to.");
  }
  Element& element = it->second;
  if (element.cleared) {
    return errors::InvalidArgument(
        "TensorArray ", name_, ": Could not read index ", index,
        " twice because it was cleared after a previous read (perhaps try setting clear_after_read = "
        "false?).");
  }
  element.read = true;
  if (!element.has_value) {
    MR_ASSIGN_OR_RETURN(element.tensor, Zeros(context, dtype_, element.shape));
    element.has_value = true;
  }
  if (!clear_after_read_) return element.tensor;
  element.cleared = true;
  element.has_value = false;
  return std::exchange(element.tensor, Tensor());
}

Status TensorArray::Grow(int64_t size) {
  MutexLock lock(mu_);
  MR_RETURN_IF_ERROR(CheckOpen());
  if (size > size_) {
    if (!dynamic_size_) {
      return errors::InvalidArgument("TensorArray ", name_, " is not resizeable and its size is ", size_);
    }
    size_ = size;
  }
  return Status();
}

StatusOr<RefPtr<TensorArray>> TensorArray::MakeGradient(std::string name,
                                                        const TensorShape& shape_to_prepend) {
  MutexLock lock(mu_);
  MR_RETURN_IF_ERROR(CheckOpen());
  dynamic_size_ = false;
  const auto prepend = [&shape_to_prepend](std::span<const int64_t> dims) {
    std::vector<int64_t> all(shape_to_prepend.dims().begin(), shape_to_prepend.dims().end());
    all.insert(all.end(), dims.begin(), dims.end());
    return all;
  };
  Options options;
  options.dtype = dtype_;
  if (!element_shape_.unknown_rank()) {
    MR_ASSIGN_OR_RETURN(options.element_shape, PartialShape::Make(prepend(element_shape_.dims())));
  }
  options.size = size_;
  options.identical_element_shapes = identical_element_shapes_;
  options.is_gradient = true;
  // The gradient of the sum of several writes is read once for each of them.
  options.clear_after_read = !is_gradient_;
  auto gradient = MakeRef<TensorArray>(std::move(name), std::move(options));
  MutexLock gradient_lock(gradient->mu_);
  gradient->whole_ = whole_;
  for (const auto& [index, element] : elements_) {
    if (!element.written) continue;
    Element& zeros = gradient->elements_[index];
    MR_ASSIGN_OR_RETURN(zeros.shape, TensorShape::Make(prepend(element.shape.dims())));
    zeros.written = true;
  }
  return gradient;
}

void TensorArray::Close() {
  std::unordered_map<int64_t, Element> dropped;  // destroyed after the lock is released
  MutexLock lock(mu_);
  closed_ = true;
  dropped.swap(elements_);
}

std::string TensorArray::DebugString() const { return StrCat("TensorArray ", name_); }

}  // namespace millrace
