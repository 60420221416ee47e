// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "kernel/kernel_context.h"
#include "kernel/resource.h"
#include "millrace/shape.h"
#include "millrace/tensor.h"

namespace millrace {

// An array of tensors that one step writes and reads element by element; it is in the step's container.
// Elements take memory once they are written, so the size itself costs nothing. Thread-safe.
class TensorArray : public Resource {
 public:
  struct Options {
    DataType dtype = DataType::kInvalid;
    PartialShape element_shape;
    int64_t size = 0;
    bool identical_element_shapes = false;
    bool dynamic_size = false;
    bool clear_after_read = true;
    // The array holds gradients: several writes to an element are summed, and an element that was never
    // written reads as zeros.
    bool is_gradient = false;
  };

  TensorArray(std::string name, Options options)
      : name_(std::move(name)),
        dtype_(options.dtype),
        is_gradient_(options.is_gradient),
        clear_after_read_(options.clear_after_read),
        identical_element_shapes_(options.identical_element_shapes),
        element_shape_(std::move(options.element_shape)),
        size_(options.size),
        dynamic_size_(options.dynamic_size) {}

  const std::string& name() const { return name_; }
  DataType dtype() const { return dtype_; }
  bool is_gradient() const { return is_gradient_; }

  StatusOr<int64_t> Size() MR_EXCLUDES(mu_);
  // The number of elements of a stack of all. For gradients it is the number that the forward array had when
  // all were written at once: elements written later have separate gradients.
  StatusOr<int64_t> SizeOfWhole() MR_EXCLUDES(mu_);
  // Records that `size` elements were written at once. Gradients keep the number of their forward array.
  void MarkWhole(int64_t size) MR_EXCLUDES(mu_);
  StatusOr<PartialShape> ElementShape() MR_EXCLUDES(mu_);
  // Merges `shape` into the known shape of elements.
  Status MergeElementShape(const PartialShape& shape) MR_EXCLUDES(mu_);
  // REQUIRES of the caller: value.dtype() == dtype() (else InvalidArgument).
  Status Write(KernelContext& context, int64_t index, Tensor value) MR_EXCLUDES(mu_);
  StatusOr<Tensor> Read(KernelContext& context, int64_t index) MR_EXCLUDES(mu_);
  // Resizes to at least `size` elements if the array may grow; InvalidArgument if it may not.
  Status Grow(int64_t size) MR_EXCLUDES(mu_);
  bool dynamic_size() MR_EXCLUDES(mu_);
  // The array of the gradients of this one, whose size is fixed from now on. Elements have the shapes of this
  // array's elements.
  StatusOr<RefPtr<TensorArray>> MakeGradient(std::string name, const TensorShape& shape_to_prepend)
      MR_EXCLUDES(mu_);
  // Drops the elements; every later use is an error.
  void Close() MR_EXCLUDES(mu_);

  std::string DebugString() const override;

 private:
  struct Element {
    Tensor tensor;  // without a buffer: zeros of `shape`
    TensorShape shape;
    bool has_value = false;  // `tensor` holds the element
    bool written = false;
    bool read = false;
    bool cleared = false;
  };
  Status CheckOpen() const MR_REQUIRES(mu_);
  Status CheckWrite(const Tensor& value, int64_t index) MR_REQUIRES(mu_);
  Status Accumulate(KernelContext& context, Element& element, int64_t index, const Tensor& value)
      MR_REQUIRES(mu_);
  StatusOr<Tensor> ReadUnwrittenGradient(KernelContext& context, int64_t index) MR_REQUIRES(mu_);

  const std::string name_;
  const DataType dtype_;
  const bool is_gradient_;
  const bool clear_after_read_;
  const bool identical_element_shapes_;
  Mutex mu_;
  // Guarded by mu_.
  PartialShape element_shape_ MR_GUARDED_BY(mu_);
  int64_t size_ MR_GUARDED_BY(mu_);
  bool dynamic_size_ MR_GUARDED_BY(mu_);
  int64_t whole_ MR_GUARDED_BY(mu_) = -1;  // as set by MarkWhole; of gradients that of the forward array
  bool closed_ MR_GUARDED_BY(mu_) = false;
  std::unordered_map<int64_t, Element> elements_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
