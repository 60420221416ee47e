// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Conversions between tensors and lists.
#include <limits>
#include <vector>

#include "kernel/kernel_registry.h"
#include "kernels/cpu/move.h"
#include "kernels/cpu/tensor_list/tensor_list.h"

namespace millrace {
namespace {

// The limit of elements of one op: a tensor may have any number of rows without elements.
constexpr int64_t kMostRows = int64_t{1} << 24;

Status CheckRows(const Tensor& tensor) {
  if (tensor.rank() < 1)
    return errors::InvalidArgument("Tensor must be at least a vector, but saw shape: ", tensor.shape());
  if (tensor.dim(0) > kMostRows) {
    return errors::ResourceExhausted("A tensor of ", tensor.dim(0), " rows can't become a list; at most ",
                                     kMostRows);
  }
  return Status();
}

TensorShape RowShape(const Tensor& tensor) {
  TensorShape shape = tensor.shape();
  shape.RemoveDim(0);
  return shape;
}

// Rows [begin, end) of `tensor`; `shape` may omit the dimension of a single row.
Tensor Rows(const Tensor& tensor, int64_t begin, int64_t end, const TensorShape& shape) {
  return tensor.Slice(begin, end).WithShape(shape);
}

Status CheckType(DataType op, const TensorList& list) {
  if (op == list.element_dtype) return Status();
  return errors::InvalidArgument("Invalid data types; op elements ", DataTypeName(op), " but list elements ",
                                 DataTypeName(list.element_dtype));
}

class FromTensorKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor tensor = context.input(0);
    MR_RETURN_IF_ERROR(CheckRows(tensor));
    MR_ASSIGN_OR_RETURN(PartialShape element, ElementShapeArgument(context.input(1)));
    const TensorShape shape = RowShape(tensor);
    if (!element.IsCompatibleWith(shape)) {
      return errors::InvalidArgument("Specified a list with shape ", element, " from a tensor with shape ",
                                     shape);
    }
    TensorList list(tensor.dtype(), std::move(element));
    list.Resize(tensor.dim(0));
    for (int64_t i = 0; i < tensor.dim(0); ++i)
      MR_RETURN_IF_ERROR(list.Set(i, Rows(tensor, i, i + 1, shape)));
    return SetOutputList(context, 0, std::move(list));
  }
};

// Scatter, ScatterV2 and ScatterIntoExistingList.
class ScatterKernel final : public OpKernel {
 public:
  explicit ScatterKernel(KernelConstruction& c)
      : OpKernel(c), existing_(op_name() == "TensorListScatterIntoExistingList") {}
  Status Compute(KernelContext& context) override {
    const Tensor tensor = context.input(existing_ ? 1 : 0);
    const Tensor indices = context.input(existing_ ? 2 : 1);
    if (!indices.shape().IsVector())
      return errors::InvalidArgument("Expected indices to be a vector, but received shape: ",
                                     indices.shape());
    MR_RETURN_IF_ERROR(CheckRows(tensor));
    if (indices.num_elements() != tensor.dim(0)) {
      return errors::InvalidArgument("Expected len(indices) == tensor.shape[0], but saw: ",
                                     indices.num_elements(), " vs. ", tensor.dim(0));
    }
    return existing_ ? IntoExisting(context, tensor, indices) : IntoNew(context, tensor, indices);
  }

 private:
  static Status IntoExisting(KernelContext& context, const Tensor& tensor, const Tensor& indices) {
    MR_ASSIGN_OR_RETURN(const TensorList* list, InputList(context, 0));
    MR_RETURN_IF_ERROR(CheckType(tensor.dtype(), *list));
    const TensorShape shape = RowShape(tensor);
    if (!list->element_shape.IsCompatibleWith(shape)) {
      return errors::InvalidArgument(
          "TensorListScatter: element shapes are incompatible. Tensor's elements have shape ", shape,
          ", list elements shape ", list->element_shape);
    }
    MR_ASSIGN_OR_RETURN(const int64_t end, EndOf(indices));
    MR_ASSIGN_OR_RETURN(TensorList * out, OutputListLike(context, 0));
    if (end > out->size()) out->Resize(end);
    return Fill(tensor, indices, out);
  }
  static Status IntoNew(KernelContext& context, const Tensor& tensor, const Tensor& indices) {
    MR_ASSIGN_OR_RETURN(PartialShape element, ElementShapeArgument(context.input(2)));
    const TensorShape shape = RowShape(tensor);
    if (!element.IsCompatibleWith(shape)) {
      return errors::InvalidArgument("Specified a list with shape ", element, " from a tensor with shape ",
                                     shape);
    }
    int64_t size = -1;
    if (context.num_inputs() > 3) {
      MR_RETURN_IF_ERROR(RequireScalar(context.input(3), "num_elements"));
      size = IntValue(context.input(3));
    }
    if (size < -1)
      return errors::InvalidArgument("TensorListScatter expects num_elements >= -1, found: ", size);
    MR_ASSIGN_OR_RETURN(const int64_t end, EndOf(indices));
    if (size == -1) size = end;
    if (end > size) {
      return errors::InvalidArgument("TensorListScatter: Trying to scatter at index ", end - 1,
                                     " in list with size ", size);
    }
    TensorList list(tensor.dtype(), std::move(element));
    list.Resize(size);
    MR_RETURN_IF_ERROR(Fill(tensor, indices, &list));
    return SetOutputList(context, 0, std::move(list));
  }
  // The largest index plus one.
  static StatusOr<int64_t> EndOf(const Tensor& indices) {
    int64_t end = 0;
    for (const int32_t index : indices.flat<int32_t>()) {
      if (index < 0) {
        return errors::InvalidArgument("Indices in TensorListScatter must all be non-negative.");
      }
      end = std::max<int64_t>(end, int64_t{index} + 1);
    }
    if (end > TensorList::kMaxSize) return errors::InvalidArgument("Index ", end - 1, " is too large");
    return end;
  }
  static Status Fill(const Tensor& tensor, const Tensor& indices, TensorList* list) {
    const TensorShape shape = RowShape(tensor);
    for (int64_t i = 0; i < tensor.dim(0); ++i)
      MR_RETURN_IF_ERROR(list->Set(indices.data<int32_t>()[i], Rows(tensor, i, i + 1, shape)));
    return Status();
  }

  const bool existing_;
};

// Stack, and Gather of the elements with the indices in its second input.
class StackListKernel final : public OpKernel {
 public:
  explicit StackListKernel(KernelConstruction& c)
      : OpKernel(c),
        dtype_(c.Attr<DataType>("element_dtype")),
        gathers_(op_name() == "TensorListGather"),
        num_elements_(gathers_ ? -1 : c.Attr<int64_t>("num_elements")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorList* list, InputList(context, 0));
    MR_RETURN_IF_ERROR(CheckType(dtype_, *list));
    if (num_elements_ != -1 && num_elements_ != list->size()) {
      return errors::InvalidArgument("Operation expected a list with ", num_elements_,
                                     " elements but got a list with ", list->size(), " elements.");
    }
    if (gathers_) MR_RETURN_IF_ERROR(CheckIndices(context.input(1), *list));
    const int64_t count = gathers_ ? context.input(1).num_elements() : list->size();
    MR_ASSIGN_OR_RETURN(const TensorShape element, ElementShape(context, *list, count));
    std::vector<int64_t> dims = {count};
    dims.insert(dims.end(), element.dims().begin(), element.dims().end());
    MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(dims));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return Status();
    return Fill(context, *list, element, out);
  }

 private:
  static Status CheckIndices(const Tensor& indices, const TensorList& list) {
    if (!indices.shape().IsVector())
      return errors::InvalidArgument("Expected indices to be a vector, but received shape: ",
                                     indices.shape());
    for (const int32_t index : indices.flat<int32_t>()) {
      if (index < 0 || index >= list.size()) {
        return errors::InvalidArgument("Trying to gather element ", index, " in a list with ", list.size(),
                                       " elements.");
      }
    }
    return Status();
  }
  StatusOr<TensorShape> ElementShape(KernelContext& context, const TensorList& list, int64_t count) const {
    MR_ASSIGN_OR_RETURN(PartialShape shape, ElementShapeArgument(context.input(gathers_ ? 2 : 1)));
    MR_ASSIGN_OR_RETURN(shape, shape.MergeWith(list.element_shape));
    const char* const what = gathers_ ? "gather" : "stack";
    if (!shape.IsFullyDefined() && count == 0) {
      return errors::InvalidArgument(
          "Tried to ", what, " elements of an empty list with non-fully-defined element_shape: ", shape);
    }
    if (!shape.IsFullyDefined()) {
      MR_ASSIGN_OR_RETURN(const PartialShape merged, list.MergedShape());
      MR_ASSIGN_OR_RETURN(shape, shape.MergeWith(merged));
    }
    if (!shape.IsFullyDefined()) {
      return errors::InvalidArgument("Tried to ", what,
                                     " list which only contains uninitialized tensors and has a "
                                     "non-fully-defined element_shape: ",
                                     shape);
    }
    return shape.ToTensorShape();
  }
  Status Fill(KernelContext& context, const TensorList& list, const TensorShape& element, Tensor* out) const {
    ContextParallel parallel(context);
    const int64_t size = element.num_elements(), count = out->dim(0);
    const auto put = [&](int64_t at, const Tensor& value) -> Status {
      if (value.shape() != element) {
        return errors::InvalidArgument("Tried to ", gathers_ ? "gather" : "stack", " an element of shape ",
                                       value.shape(), " among elements of shape ", element);
      }
      MoveElements(dtype_, value.raw_data(), ElementAt(out->raw_data(), dtype_, at * size), size, parallel);
      return Status();
    };
    if (gathers_) {
      for (int64_t i = 0; i < count; ++i) {
        const Tensor* const value = list.Find(context.input(1).data<int32_t>()[i]);
        if (value != nullptr) {
          MR_RETURN_IF_ERROR(put(i, *value));
        } else {
          ZeroElements(dtype_, ElementAt(out->raw_data(), dtype_, i * size), size, parallel);
        }
      }
      return Status();
    }
    int64_t next = 0;  // the first element that has not been written
    const auto zero_until = [&](int64_t end) {
      ZeroElements(dtype_, ElementAt(out->raw_data(), dtype_, next * size), (end - next) * size, parallel);
    };
    MR_RETURN_IF_ERROR(list.ForEach([&](int64_t i, const Tensor& value) {
      if (next < i) zero_until(i);
      next = i + 1;
      return put(i, value);
    }));
    if (next < count) zero_until(count);
    return Status();
  }

  const DataType dtype_;
  const bool gathers_;
  const int64_t num_elements_;
};

// Concat takes the shape of the elements as an attribute, ConcatV2 as an input, with the first sizes of
// elements without a value.
class ConcatListKernel final : public OpKernel {
 public:
  explicit ConcatListKernel(KernelConstruction& c) : OpKernel(c), dtype_(c.Attr<DataType>("element_dtype")) {
    if (num_inputs() == 1) element_shape_ = c.Attr<PartialShape>("element_shape");
  }
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorList* list, InputList(context, 0));
    MR_RETURN_IF_ERROR(CheckType(dtype_, *list));
    MR_ASSIGN_OR_RETURN(const PartialShape rest, RowShapeOf(context, *list));
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, Lengths(context, *list));
    std::vector<int64_t> dims = {0};
    for (const int64_t length : lengths) {
      if (__builtin_add_overflow(dims[0], length, &dims[0]))
        return errors::InvalidArgument("the concatenated dimension overflows");
    }
    dims.insert(dims.end(), rest.dims().begin(), rest.dims().end());
    MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(dims));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    MR_ASSIGN_OR_RETURN(Tensor * sizes,
                        context.AllocateOutput(1, TensorShape({static_cast<int64_t>(lengths.size())})));
    std::copy(lengths.begin(), lengths.end(), sizes->data<int64_t>());
    ContextParallel parallel(context);
    int64_t at = 0;
    const int64_t row = ProductOf(shape.dims(), 1, shape.rank());
    for (size_t i = 0; i < lengths.size(); ++i) {
      void* const to = ElementAt(out->raw_data(), dtype_, at * row);
      const int64_t count = lengths[i] * row;
      at += lengths[i];
      if (count == 0) continue;
      if (const Tensor* value = list->Find(static_cast<int64_t>(i))) {
        MoveElements(dtype_, value->raw_data(), to, count, parallel);
      } else {
        ZeroElements(dtype_, to, count, parallel);
      }
    }
    return Status();
  }

 private:
  // The shape of the elements except for dimension 0: fully defined.
  StatusOr<PartialShape> RowShapeOf(KernelContext& context, const TensorList& list) const {
    PartialShape shape = element_shape_;
    if (num_inputs() > 1) {
      MR_ASSIGN_OR_RETURN(shape, ElementShapeArgument(context.input(1)));
    }
    PartialShape rest;
    for (const PartialShape& given : {shape, list.element_shape}) {
      if (given.unknown_rank()) continue;
      if (given.rank() == 0) {
        return errors::InvalidArgument(
            "Concat requires elements to be at least vectors, found scalars instead.");
      }
      MR_ASSIGN_OR_RETURN(
          rest,
          rest.MergeWith(PartialShape(std::vector<int64_t>(given.dims().begin() + 1, given.dims().end()))));
    }
    if (!rest.IsFullyDefined() && list.size() == 0) {
      return errors::InvalidArgument(
          "All except the first dimension must be fully defined when concating an "
          "empty tensor list. element_shape: ",
          shape);
    }
    MR_RETURN_IF_ERROR(list.ForEach([&](int64_t i, const Tensor& value) -> Status {
      if (value.rank() == 0) {
        return errors::InvalidArgument("Concat saw a scalar shape at index ", i,
                                       " but requires at least vectors.");
      }
      MR_ASSIGN_OR_RETURN(rest, rest.MergeWith(RowShape(value)));
      return Status();
    }));
    if (!rest.IsFullyDefined()) {
      return errors::InvalidArgument(
          "Tried to concat list which only contains uninitialized tensors and has "
          "a non-fully-defined element_shape: ",
          shape);
    }
    return rest;
  }
  StatusOr<std::vector<int64_t>> Lengths(KernelContext& context, const TensorList& list) const {
    const Tensor none(DataType::kInt64, TensorShape({0}));
    const Tensor& leading = num_inputs() > 2 ? context.input(2) : none;
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < list.size(); ++i) {
      if (const Tensor* value = list.Find(i)) {
        lengths.push_back(value->dim(0));
        continue;
      }
      if (i >= leading.num_elements()) {
        return errors::InvalidArgument("List contains uninitialized element at index ", i,
                                       " but leading_dims has only ", leading.num_elements(), " elements.");
      }
      lengths.push_back(leading.data<int64_t>()[i]);
      if (lengths.back() < 0)
        return errors::InvalidArgument("leading_dims[", i, "] is negative: ", lengths.back());
    }
    return lengths;
  }

  const DataType dtype_;
  PartialShape element_shape_;
};

class SplitListKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor tensor = context.input(0);
    const Tensor& lengths = context.input(2);
    if (!lengths.shape().IsVector())
      return errors::InvalidArgument("Expected lengths to be a vector, received shape: ", lengths.shape());
    if (tensor.rank() < 1)
      return errors::InvalidArgument("Tensor must be at least a vector, but saw shape: ", tensor.shape());
    if (lengths.num_elements() > kMostRows) {
      return errors::ResourceExhausted("A list of ", lengths.num_elements(), " parts is too long; at most ",
                                       kMostRows);
    }
    MR_ASSIGN_OR_RETURN(PartialShape element, ElementShapeArgument(context.input(1)));
    MR_RETURN_IF_ERROR(CheckShape(element, tensor));
    TensorList list(tensor.dtype(), std::move(element));
    list.Resize(lengths.num_elements());
    int64_t begin = 0;
    TensorShape shape = tensor.shape();
    for (int64_t i = 0; i < lengths.num_elements(); ++i) {
      const int64_t length = lengths.data<int64_t>()[i];
      if (length < 0) return errors::InvalidArgument("Invalid value in lengths: ", length);
      if (length > tensor.dim(0) - begin) {
        return errors::InvalidArgument("Attempting to slice [", begin, ", ",
                                       static_cast<uint64_t>(begin) + static_cast<uint64_t>(length),
                                       "] from tensor with length ", tensor.dim(0));
      }
      shape.SetDim(0, length);
      MR_RETURN_IF_ERROR(list.Set(i, Rows(tensor, begin, begin + length, shape)));
      begin += length;
    }
    if (begin != tensor.dim(0)) {
      return errors::InvalidArgument("Unused values in tensor. Length of tensor: ", tensor.dim(0),
                                     " Values used: ", begin);
    }
    return SetOutputList(context, 0, std::move(list));
  }

 private:
  // Compares all dimensions but the first.
  static Status CheckShape(const PartialShape& element, const Tensor& tensor) {
    bool fits = element.unknown_rank() || element.rank() == tensor.rank();
    for (int i = 1; fits && i < element.rank(); ++i)
      fits = element.dim(i) < 0 || element.dim(i) == tensor.dim(i);
    if (fits) return Status();
    return errors::InvalidArgument("tensor shape ", tensor.shape(), " is not compatible with element_shape ",
                                   element);
  }
};

}  // namespace

void RegisterTensorListRowKernels(KernelRegistry& registry) {
  registry.Register<FromTensorKernel>(KernelDef("TensorListFromTensor"));
  registry.Register<ScatterKernel>(KernelDef("TensorListScatter"));
  registry.Register<ScatterKernel>(KernelDef("TensorListScatterV2"));
  registry.Register<ScatterKernel>(KernelDef("TensorListScatterIntoExistingList"));
  registry.Register<StackListKernel>(KernelDef("TensorListStack"));
  registry.Register<StackListKernel>(KernelDef("TensorListGather"));
  registry.Register<ConcatListKernel>(KernelDef("TensorListConcat"));
  registry.Register<ConcatListKernel>(KernelDef("TensorListConcatV2"));
  registry.Register<SplitListKernel>(KernelDef("TensorListSplit"));
}

}  // namespace millrace
