// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Tensor arrays and the ops on them, in the three versions, which differ in the form of the handle.
#include <atomic>
#include <limits>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"
#include "kernels/cpu/step_resource.h"
#include "kernels/cpu/tensor_array/tensor_array.h"

namespace millrace {
namespace {

constexpr char kContainer[] = "_tensor_arrays";

StatusOr<RefPtr<TensorArray>> FindArray(const KernelContext& context) {
  return FindStepResource<TensorArray>(context, 0,
                                       "Tensor array handle must be 2-element vector, but had shape: ");
}

Status CheckDtype(const TensorArray& array, DataType dtype, std::string_view wants) {
  if (array.dtype() == dtype) [[likely]]
    return Status();
  return errors::InvalidArgument("TensorArray dtype is ", DataTypeName(array.dtype()), " but Op ", wants, " ",
                                 DataTypeName(dtype), ".");
}

Status SetHandle(KernelContext& context, const std::string& name) {
  return SetStepHandle<TensorArray>(context, 0, kContainer, name);
}

// Checks that a tensor is a vector.
Status CheckVector(const Tensor& t, std::string_view what) {
  if (t.shape().IsVector()) return Status();
  return errors::InvalidArgument("Expected ", what, " to be a vector, but received shape: ", t.shape());
}

TensorShape WithFirst(int64_t first, const TensorShape& rest) {
  TensorShape shape = rest;
  shape.InsertDim(0, first);
  return shape;
}

class TensorArrayKernel final : public OpKernel {
 public:
  explicit TensorArrayKernel(KernelConstruction& c)
      : OpKernel(c), name_(c.Attr<std::string>("tensor_array_name")) {
    options_.dtype = c.Attr<DataType>("dtype");
    options_.element_shape = c.Attr<PartialShape>("element_shape");
    if (c.HasAttr("identical_element_shapes")) {
      options_.identical_element_shapes = c.Attr<bool>("identical_element_shapes");
    }
    options_.dynamic_size = c.Attr<bool>("dynamic_size");
    options_.clear_after_read = c.Attr<bool>("clear_after_read");
    if (name_.empty()) name_ = name();
  }
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(ResourceManager * container, StepContainer(context));
    const Tensor& size = context.input(0);
    if (!size.shape().IsScalar()) {
      return errors::InvalidArgument("TensorArray size must be scalar, but had shape: ", size.shape());
    }
    TensorArray::Options options = options_;
    options.size = size.scalar<int32_t>();
    if (options.size < 0) return errors::InvalidArgument("Size should be >= 0.");
    // Each execution makes a separate array, also in iterations of a loop.
    static std::atomic<int64_t> counter{0};
    const std::string unique = StrCat(name_, "_", counter.fetch_add(1, std::memory_order_relaxed));
    MR_RETURN_IF_ERROR(
        container->Create(kContainer, unique, MakeRef<TensorArray>(unique, std::move(options))));
    MR_RETURN_IF_ERROR(SetHandle(context, unique));
    if (num_outputs() > 1) context.set_output(1, Tensor::Scalar(0.0f));
    return Status();
  }

 private:
  TensorArray::Options options_;
  std::string name_;
};

// TensorArrayGrad and TensorArrayGradWithShape.
class TensorArrayGradKernel final : public OpKernel {
 public:
  explicit TensorArrayGradKernel(KernelConstruction& c)
      : OpKernel(c), source_(c.Attr<std::string>("source")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(ResourceManager * container, StepContainer(context));
    MR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, FindArray(context));
    const std::string name = StrCat(array->name(), "@", source_);
    TensorShape prepend;
    if (context.num_inputs() > 2) {
      MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, IntVector(context.input(2)));
      MR_ASSIGN_OR_RETURN(prepend, TensorShape::Make(dims));
    }
    const auto create = [&] { return array->MakeGradient(name, prepend); };
    MR_RETURN_IF_ERROR(container->LookupOrCreate<TensorArray>(kContainer, name, create).status());
    MR_RETURN_IF_ERROR(SetHandle(context, name));
    if (num_outputs() > 1) context.set_output(1, context.TakeInput(1));
    return Status();
  }

 private:
  static StatusOr<std::vector<int64_t>> IntVector(const Tensor& t) {
    if (t.rank() > 1)
      return errors::InvalidArgument("shape_to_prepend must be a vector, got shape ", t.shape());
    return std::vector<int64_t>(t.flat<int32_t>().begin(), t.flat<int32_t>().end());
  }
  const std::string source_;
};

StatusOr<int64_t> IndexInput(const KernelContext& context) {
  const Tensor& index = context.input(1);
  if (!index.shape().IsScalar()) {
    return errors::InvalidArgument("TensorArray index must be scalar, but had shape: ", index.shape());
  }
  return index.scalar<int32_t>();
}

class TensorArrayReadKernel final : public OpKernel {
 public:
  explicit TensorArrayReadKernel(KernelConstruction& c) : OpKernel(c), dtype_(c.Attr<DataType>("dtype")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const int64_t index, IndexInput(context));
    MR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, FindArray(context));
    MR_RETURN_IF_ERROR(CheckDtype(*array, dtype_, "is trying to read dtype"));
    MR_ASSIGN_OR_RETURN(Tensor value, array->Read(context, index));
    context.set_output(0, std::move(value));
    return Status();
  }

 private:
  const DataType dtype_;
};

class TensorArrayWriteKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const int64_t index, IndexInput(context));
    MR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, FindArray(context));
    MR_RETURN_IF_ERROR(CheckDtype(*array, context.input(2).dtype(), "is trying to write dtype"));
    MR_RETURN_IF_ERROR(array->Write(context, index, context.TakeInput(2)));
    context.set_output(0, context.TakeInput(3));
    return Status();
  }
};

// Reads elements and concatenates them along a new or along their first dimension.
class Joiner {
 public:
  Joiner(KernelContext& context, DataType dtype) : context_(context), dtype_(dtype) {}
  std::vector<Tensor>& elements() { return elements_; }

  // Concatenates the elements to output 0, of shape `shape`.
  Status Join(const TensorShape& shape) {
    MR_ASSIGN_OR_RETURN(Tensor * out, context_.AllocateOutput(0, shape));
    ContextParallel parallel(context_);
    int64_t offset = 0;
    for (const Tensor& element : elements_) {
      MoveElements(dtype_, element.raw_data(), ElementAt(out->raw_data(), dtype_, offset),
                   element.num_elements(), parallel);
      offset += element.num_elements();
    }
    return Status();
  }

 private:
  KernelContext& context_;
  const DataType dtype_;
  std::vector<Tensor> elements_;
};

// TensorArrayGather, and TensorArrayPack, which takes all elements.
class TensorArrayGatherKernel final : public OpKernel {
 public:
  explicit TensorArrayGatherKernel(KernelConstruction& c)
      : OpKernel(c),
        dtype_(c.Attr<DataType>("dtype")),
        element_shape_(c.Attr<PartialShape>("element_shape")),
        all_(num_inputs() == 2) {}
  Status Compute(KernelContext& context) override {
    if (!all_) MR_RETURN_IF_ERROR(CheckVector(context.input(1), "indices"));
    MR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, FindArray(context));
    MR_RETURN_IF_ERROR(CheckDtype(*array, dtype_, "requested dtype"));
    MR_RETURN_IF_ERROR(array->MergeElementShape(element_shape_));
    MR_ASSIGN_OR_RETURN(const int64_t size, array->SizeOfWhole());
    const int64_t count = all_ ? size : context.input(1).num_elements();
    if (count == 0) return GatherNothing(context, *array);
    Joiner joiner(context, dtype_);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = all_ ? i : context.input(1).data<int32_t>()[i];
      MR_ASSIGN_OR_RETURN(Tensor element, array->Read(context, index));
      joiner.elements().push_back(std::move(element));
    }
    const TensorShape& shape = joiner.elements()[0].shape();
    for (size_t i = 1; i < joiner.elements().size(); ++i) {
      if (joiner.elements()[i].shape() == shape) continue;
      return errors::InvalidArgument("TensorArray has inconsistent shapes.  Index 0 has shape: ", shape,
                                     " but index ", i, " has shape: ", joiner.elements()[i].shape());
    }
    MR_ASSIGN_OR_RETURN(const TensorShape joined, Joined(count, shape));
    return joiner.Join(joined);
  }

 private:
  static StatusOr<TensorShape> Joined(int64_t n, const TensorShape& shape) {
    std::vector<int64_t> dims = {n};
    dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
    return TensorShape::Make(dims);
  }
  static Status GatherNothing(KernelContext& context, TensorArray& array) {
    MR_ASSIGN_OR_RETURN(const PartialShape known, array.ElementShape());
    if (!known.IsFullyDefined()) {
      return errors::Unimplemented("TensorArray has size zero, but element shape ", known,
                                   " is not fully defined. Currently only static shapes are supported when "
                                   "packing zero-size TensorArrays.");
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, known.ToTensorShape());
    MR_ASSIGN_OR_RETURN(const TensorShape joined, Joined(0, shape));
    return context.AllocateOutput(0, joined).status();
  }

  const DataType dtype_;
  const PartialShape element_shape_;
  const bool all_;
};

class TensorArrayConcatKernel final : public OpKernel {
 public:
  explicit TensorArrayConcatKernel(KernelConstruction& c)
      : OpKernel(c),
        dtype_(c.Attr<DataType>("dtype")),
        element_shape_except0_(c.Attr<PartialShape>("element_shape_except0")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, FindArray(context));
    MR_RETURN_IF_ERROR(CheckDtype(*array, dtype_, "requested dtype"));
    MR_ASSIGN_OR_RETURN(const int64_t size, array->SizeOfWhole());
    if (size == 0) return ConcatNothing(context);
    Joiner joiner(context, dtype_);
    for (int64_t i = 0; i < size; ++i) {
      MR_ASSIGN_OR_RETURN(Tensor element, array->Read(context, i));
      joiner.elements().push_back(std::move(element));
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, CheckElements(joiner.elements()));
    MR_ASSIGN_OR_RETURN(Tensor * lengths, context.AllocateOutput(1, TensorShape({size})));
    for (int64_t i = 0; i < size; ++i) {
      lengths->data<int64_t>()[i] = joiner.elements()[static_cast<size_t>(i)].dim(0);
    }
    return joiner.Join(shape);
  }

 private:
  // The shape of the concatenation.
  StatusOr<TensorShape> CheckElements(const std::vector<Tensor>& elements) const {
    std::vector<int64_t> first;  // except for dimension 0
    int64_t rows = 0;
    for (size_t i = 0; i < elements.size(); ++i) {
      const TensorShape& shape = elements[i].shape();
      if (shape.IsScalar()) {
        return errors::InvalidArgument("Concat saw a scalar shape at index ", i,
                                       " but requires at least vectors.  Did you mean to call pack?");
      }
      const std::vector<int64_t> rest(shape.dims().begin() + 1, shape.dims().end());
      if (i == 0) {
        first = rest;
        const PartialShape got(first);
        if (!element_shape_except0_.IsCompatibleWith(got)) {
          return errors::InvalidArgument("TensorArray was passed element_shape_except0 ",
                                         element_shape_except0_,
                                         " but index 0 has (excepting dimension 0) shape: ", got);
        }
      } else if (rest != first) {
        return errors::InvalidArgument(
            "TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: ",
            PartialShape(first), " but index ", i,
            " has (excepting dimension 0) shape: ", PartialShape(rest));
      }
      if (__builtin_add_overflow(rows, shape.dim(0), &rows)) {
        return errors::InvalidArgument("the concatenated dimension overflows");
      }
    }
    first.insert(first.begin(), rows);
    return TensorShape::Make(first);
  }
  Status ConcatNothing(KernelContext& context) const {
    if (!element_shape_except0_.IsFullyDefined()) {
      return errors::Unimplemented("TensorArray has size zero, but element_shape_except0 ",
                                   element_shape_except0_,
                                   " is not fully defined. Currently only static shapes are supported when "
                                   "concatenating zero-size TensorArrays.");
    }
    MR_ASSIGN_OR_RETURN(const TensorShape rest, element_shape_except0_.ToTensorShape());
    if (rest.rank() == TensorShape::kMaxRank) return errors::InvalidArgument("too many dimensions");
    MR_RETURN_IF_ERROR(context.AllocateOutput(0, WithFirst(0, rest)).status());
    return context.AllocateOutput(1, TensorShape({0})).status();
  }

  const DataType dtype_;
  const PartialShape element_shape_except0_;
};

class TensorArrayScatterKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(1);
    const Tensor& value = context.input(2);
    if (value.rank() < 1) {
      return errors::InvalidArgument("Input value for unpack must be at least a vector but received shape: ",
                                     value.shape());
    }
    MR_RETURN_IF_ERROR(CheckVector(indices, "indices"));
    if (indices.num_elements() != value.dim(0)) {
      return errors::InvalidArgument("Expected len(indices) == values.shape[0], but saw: ",
                                     indices.num_elements(), " vs. ", value.dim(0));
    }
    MR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, FindArray(context));
    MR_RETURN_IF_ERROR(CheckDtype(*array, value.dtype(), "is trying to write dtype"));
    MR_RETURN_IF_ERROR(CheckRoom(*array, indices));
    TensorShape shape = value.shape();
    shape.RemoveDim(0);
    for (int64_t i = 0; i < value.dim(0); ++i) {
      const int64_t index = indices.data<int32_t>()[i];
      MR_RETURN_IF_ERROR(array->Write(context, index, value.Slice(i, i + 1).WithShape(shape)));
    }
    context.set_output(0, context.TakeInput(3));
    return Status();
  }

 private:
  static Status CheckRoom(TensorArray& array, const Tensor& indices) {
    int64_t max_index = -1;
    for (const int32_t index : indices.flat<int32_t>()) max_index = std::max<int64_t>(max_index, index);
    MR_ASSIGN_OR_RETURN(const int64_t size, array.Size());
    if (max_index < size || array.dynamic_size()) return Status();
    return errors::InvalidArgument("Max scatter index must be < array size (", max_index, " vs. ", size, ")");
  }
};

// Row `i` of the value becomes element `i`.
class TensorArrayUnpackKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& value = context.input(1);
    if (value.rank() < 1) {
      return errors::InvalidArgument("Input value for unpack must be at least a vector but received shape: ",
                                     value.shape());
    }
    MR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, FindArray(context));
    MR_RETURN_IF_ERROR(CheckDtype(*array, value.dtype(), "is trying to write dtype"));
    MR_ASSIGN_OR_RETURN(const int64_t size, array->Size());
    if (value.dim(0) != size && !(array->dynamic_size() && size < value.dim(0))) {
      return errors::InvalidArgument("Input value must have first dimension equal to the array size (",
                                     value.dim(0), " vs. ", size, ")");
    }
    TensorShape shape = value.shape();
    shape.RemoveDim(0);
    for (int64_t i = 0; i < value.dim(0); ++i) {
      MR_RETURN_IF_ERROR(array->Write(context, i, value.Slice(i, i + 1).WithShape(shape)));
    }
    array->MarkWhole(value.dim(0));
    context.set_output(0, context.TakeInput(2));
    return Status();
  }
};

class TensorArraySplitKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& value = context.input(1);
    const Tensor& lengths = context.input(2);
    if (value.rank() < 1) {
      return errors::InvalidArgument("Expected value to be at least a vector, but received shape: ",
                                     value.shape());
    }
    if (!lengths.shape().IsVector()) {
      return errors::InvalidArgument("Expected lengths to be a vector, received shape: ", lengths.shape());
    }
    MR_RETURN_IF_ERROR(CheckSum(value, lengths));
    MR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, FindArray(context));
    MR_RETURN_IF_ERROR(CheckDtype(*array, value.dtype(), "is trying to write dtype"));
    const int64_t n = lengths.num_elements();
    MR_ASSIGN_OR_RETURN(const int64_t size, array->Size());
    if (size != n && !(array->dynamic_size() && size < n)) {
      return errors::InvalidArgument("TensorArray's size is not equal to the size of lengths (", size,
                                     " vs. ", n,
                                     "), and the TensorArray is not marked as dynamically resizeable");
    }
    int64_t begin = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t end = begin + lengths.data<int64_t>()[i];
      MR_RETURN_IF_ERROR(array->Write(context, i, value.Slice(begin, end)));
      begin = end;
    }
    array->MarkWhole(n);
    context.set_output(0, context.TakeInput(3));
    return Status();
  }

 private:
  static Status CheckSum(const Tensor& value, const Tensor& lengths) {
    int64_t sum = 0;
    for (const int64_t length : lengths.flat<int64_t>()) {
      if (length < 0) return errors::InvalidArgument("Expected lengths to be >= 0, but saw: ", length);
      if (__builtin_add_overflow(sum, length, &sum)) sum = std::numeric_limits<int64_t>::max();
    }
    if (sum == value.dim(0)) return Status();
    return errors::InvalidArgument(
        "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is ", sum,
        " and value's shape is: ", value.shape());
  }
};

class TensorArraySizeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, FindArray(context));
    MR_ASSIGN_OR_RETURN(const int64_t size, array->Size());
    if (size > std::numeric_limits<int32_t>::max()) {
      return errors::ResourceExhausted("TensorArray ", array->name(),
                                       " has more elements than int32 can say");
    }
    context.set_output(0, Tensor::Scalar(static_cast<int32_t>(size)));
    return Status();
  }
};

class TensorArrayCloseKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, FindArray(context));
    array->Close();
    return Status();
  }
};

}  // namespace

void RegisterTensorArrayKernels(KernelRegistry& registry) {
  for (const char* version : {"", "V2", "V3"}) {
    const auto def = [&](const char* op) { return KernelDef(StrCat(op, version)); };
    registry.Register<TensorArrayKernel>(def("TensorArray"));
    registry.Register<TensorArrayGradKernel>(def("TensorArrayGrad"));
    registry.Register<TensorArrayReadKernel>(def("TensorArrayRead"));
    registry.Register<TensorArrayWriteKernel>(def("TensorArrayWrite"));
    registry.Register<TensorArrayGatherKernel>(def("TensorArrayGather"));
    registry.Register<TensorArrayScatterKernel>(def("TensorArrayScatter"));
    registry.Register<TensorArraySplitKernel>(def("TensorArraySplit"));
    registry.Register<TensorArrayConcatKernel>(def("TensorArrayConcat"));
    registry.Register<TensorArraySizeKernel>(def("TensorArraySize"));
    registry.Register<TensorArrayCloseKernel>(def("TensorArrayClose"));
  }
  registry.Register<TensorArrayGradKernel>(KernelDef("TensorArrayGradWithShape"));
  registry.Register<TensorArrayGatherKernel>(KernelDef("TensorArrayPack"));
  registry.Register<TensorArrayUnpackKernel>(KernelDef("TensorArrayUnpack"));
}

}  // namespace millrace
