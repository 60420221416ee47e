// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Lists of tensors in variants: ops on single elements and on whole lists.
#include "kernels/cpu/tensor_list/tensor_list.h"

#include "kernel/kernel_registry.h"

namespace millrace {
namespace {

Status CheckListType(DataType op, DataType list) {
  if (op == list) [[likely]]
    return Status();
  return errors::InvalidArgument("Invalid data types; op elements ", DataTypeName(op), " but list elements ",
                                 DataTypeName(list));
}

StatusOr<int64_t> ScalarInput(const KernelContext& context, int i, std::string_view what) {
  const Tensor& value = context.input(i);
  if (!value.shape().IsScalar()) {
    return errors::InvalidArgument(what, " expected to be a scalar but got shape: ", value.shape());
  }
  return IntValue(value);
}

Status CheckIndex(int64_t index, const TensorList& list, std::string_view what) {
  if (index >= 0 && index < list.size()) [[likely]]
    return Status();
  return errors::InvalidArgument("Trying to ", what, " element ", index, " in a list with ", list.size(),
                                 " elements.");
}

// EmptyTensorList and TensorListReserve.
class NewListKernel final : public OpKernel {
 public:
  explicit NewListKernel(KernelConstruction& c)
      : OpKernel(c), dtype_(c.Attr<DataType>("element_dtype")), empty_(op_name() == "EmptyTensorList") {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(PartialShape shape, ElementShapeArgument(context.input(0)));
    MR_ASSIGN_OR_RETURN(const int64_t count,
                        ScalarInput(context, 1, empty_ ? "max_num_elements" : "num_elements"));
    TensorList list(dtype_, std::move(shape));
    if (empty_) {
      list.max_num_elements = static_cast<int32_t>(count);
    } else if (count < 0) {
      return errors::InvalidArgument("The num_elements to reserve must be a non negative number, but got ",
                                     count);
    } else {
      list.Resize(count);
    }
    return SetOutputList(context, 0, std::move(list));
  }

 private:
  const DataType dtype_;
  const bool empty_;
};

// The error if `item` can't be appended to `list`; `at` identifies the list.
Status CheckAppend(const TensorList& list, DataType dtype, const TensorShape& item, const std::string& at) {
  if (list.element_dtype != dtype) {
    return errors::InvalidArgument("Invalid data types; list elements ", DataTypeName(list.element_dtype),
                                   " but tried to append ", DataTypeName(dtype), at);
  }
  if (!list.element_shape.IsCompatibleWith(item)) {
    return errors::InvalidArgument("Tried to append a tensor with incompatible shape to a list", at,
                                   ". Op element shape: ", item, " list shape: ", list.element_shape);
  }
  if (list.max_num_elements >= 0 && list.size() >= list.max_num_elements) {
    return errors::InvalidArgument("Tried to push item into a full list", at, " list size: ", list.size(),
                                   " max_num_elements: ", list.max_num_elements);
  }
  if (list.size() >= TensorList::kMaxSize)
    return errors::InvalidArgument("A tensor list can't have more elements", at);
  return Status();
}

Status Append(TensorList* list, Tensor item) {
  list->Resize(list->size() + 1);
  return list->Set(list->size() - 1, std::move(item));
}

class PushBackKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorList* list, InputList(context, 0));
    Tensor item = context.input(1);
    MR_RETURN_IF_ERROR(CheckAppend(*list, item.dtype(), item.shape(), ""));
    MR_ASSIGN_OR_RETURN(TensorList * out, OutputListLike(context, 0));
    return Append(out, std::move(item));
  }
};

class PushBackBatchKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& handles = context.input(0);
    const Tensor& rows = context.input(1);
    if (rows.rank() < 1) {
      return errors::InvalidArgument("Expected tensor to be at least a vector, but saw shape: ",
                                     rows.shape());
    }
    if (handles.num_elements() != rows.dim(0)) {
      return errors::InvalidArgument("Expected len(input_handles) == tensor.shape[0], but saw: ",
                                     handles.num_elements(), " vs. ", rows.dim(0));
    }
    TensorShape shape = rows.shape();
    shape.RemoveDim(0);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, handles.shape()));
    for (int64_t i = 0; i < handles.num_elements(); ++i) {
      const auto* list = handles.data<Variant>()[i].get<TensorList>();
      if (list == nullptr) {
        return errors::InvalidArgument("Input handle at index ", i, " is not a list. Saw: '",
                                       handles.data<Variant>()[i].TypeName(), "'");
      }
      MR_RETURN_IF_ERROR(CheckAppend(*list, rows.dtype(), shape, StrCat(" at index ", i)));
      TensorList longer = *list;
      MR_RETURN_IF_ERROR(Append(&longer, rows.Slice(i, i + 1).WithShape(shape)));
      out->data<Variant>()[i] = std::move(longer);
    }
    return Status();
  }
};

// GetItem, and PopBack with its two outputs.
class GetItemKernel final : public OpKernel {
 public:
  explicit GetItemKernel(KernelConstruction& c)
      : OpKernel(c), dtype_(c.Attr<DataType>("element_dtype")), pops_(op_name() == "TensorListPopBack") {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorList* list, InputList(context, 0));
    MR_RETURN_IF_ERROR(CheckListType(dtype_, list->element_dtype));
    int64_t index = list->size() - 1;
    if (pops_) {
      if (index < 0) return errors::InvalidArgument("Trying to pop from an empty list.");
    } else {
      MR_ASSIGN_OR_RETURN(index, ScalarInput(context, 1, "index"));
      MR_RETURN_IF_ERROR(CheckIndex(index, *list, "access"));
    }
    const Tensor* const value = list->Find(index);
    if (value != nullptr) {
      context.set_output(pops_ ? 1 : 0, *value);
    } else {
      MR_ASSIGN_OR_RETURN(Tensor zeros, NoValue(context, *list));
      context.set_output(pops_ ? 1 : 0, std::move(zeros));
    }
    if (!pops_) return Status();
    MR_ASSIGN_OR_RETURN(TensorList * out, OutputListLike(context, 0));
    out->Resize(index);
    return Status();
  }

 private:
  // The value of an element without a value.
  StatusOr<Tensor> NoValue(KernelContext& context, const TensorList& list) const {
    MR_ASSIGN_OR_RETURN(PartialShape shape, ElementShapeArgument(context.input(pops_ ? 1 : 2)));
    MR_ASSIGN_OR_RETURN(shape, shape.MergeWith(list.element_shape));
    if (!shape.IsFullyDefined()) {
      MR_ASSIGN_OR_RETURN(const PartialShape merged, list.MergedShape());
      MR_ASSIGN_OR_RETURN(shape, shape.MergeWith(merged));
    }
    if (!shape.IsFullyDefined()) {
      return errors::InvalidArgument(
          "Trying to read an uninitialized element but element_shape is not fully defined", shape);
    }
    MR_ASSIGN_OR_RETURN(const TensorShape full, shape.ToTensorShape());
    return ZeroTensor(context, dtype_, full);
  }

  const DataType dtype_;
  const bool pops_;
};

class SetItemKernel final : public OpKernel {
 public:
  explicit SetItemKernel(KernelConstruction& c) : OpKernel(c), dtype_(c.Attr<DataType>("element_dtype")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorList* list, InputList(context, 0));
    MR_RETURN_IF_ERROR(CheckListType(dtype_, list->element_dtype));
    MR_ASSIGN_OR_RETURN(const int64_t index, ScalarInput(context, 1, "index"));
    MR_RETURN_IF_ERROR(CheckIndex(index, *list, "modify"));
    Tensor item = context.input(2);
    if (!list->element_shape.IsCompatibleWith(item.shape())) {
      return errors::InvalidArgument(
          "Tried to set a tensor with incompatible shape at a list index. Item element shape: ", item.shape(),
          " list shape: ", list->element_shape);
    }
    MR_ASSIGN_OR_RETURN(TensorList * out, OutputListLike(context, 0));
    return out->Set(index, std::move(item));
  }

 private:
  const DataType dtype_;
};

class LengthKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorList* list, InputList(context, 0));
    context.set_output(0, Tensor::Scalar(static_cast<int32_t>(list->size())));
    return Status();
  }
};

class ElementShapeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorList* list, InputList(context, 0));
    const PartialShape& shape = list->element_shape;
    if (output_type(0) == DataType::kInt32) return Put<int32_t>(context, shape);
    return Put<int64_t>(context, shape);
  }

 private:
  template <typename T>
  static Status Put(KernelContext& context, const PartialShape& shape) {
    if (shape.unknown_rank()) {
      context.set_output(0, Tensor::Scalar<T>(-1));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape({shape.rank()})));
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape.dim(i) > std::numeric_limits<T>::max()) {
        return errors::InvalidArgument("Size ", shape.dim(i), " of elements does not fit into int32");
      }
      out->template data<T>()[i] = static_cast<T>(shape.dim(i));
    }
    return Status();
  }
};

class ResizeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(InputList(context, 0).status());
    MR_ASSIGN_OR_RETURN(const int64_t size, ScalarInput(context, 1, "size"));
    if (size < 0)
      return errors::InvalidArgument("TensorListSlice expects size to be non-negative. Got: ", size);
    MR_ASSIGN_OR_RETURN(TensorList * out, OutputListLike(context, 0));
    out->Resize(size);
    return Status();
  }
};

// The most list values that one op may copy to other lists.
constexpr int64_t kMostValues = int64_t{1} << 24;

class ConcatListsKernel final : public OpKernel {
 public:
  explicit ConcatListsKernel(KernelConstruction& c)
      : OpKernel(c), dtype_(c.Attr<DataType>("element_dtype")) {}
  Status Compute(KernelContext& context) override {
    const Tensor &a = context.input(0), &b = context.input(1);
    if (a.shape() != b.shape()) {
      return errors::InvalidArgument("Incompatible input TensorList tensor shapes: ", a.shape(), " vs. ",
                                     b.shape());
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, a.shape()));
    int64_t values = 0;
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      MR_ASSIGN_OR_RETURN(const TensorList* first, ListAt(a, i, "input_a"));
      MR_ASSIGN_OR_RETURN(const TensorList* second, ListAt(b, i, "input_b"));
      if (first->element_shape != second->element_shape) {
        return errors::InvalidArgument(
            "input_a and input_b TensorList element shapes are not identical at index ", i, ".  Saw ",
            first->element_shape, " vs. ", second->element_shape);
      }
      if (first->size() + second->size() > TensorList::kMaxSize)
        return errors::InvalidArgument("A tensor list can't have so many elements at index ", i);
      TensorList both = *first;
      both.Resize(first->size() + second->size());
      MR_RETURN_IF_ERROR(second->ForEach([&](int64_t at, const Tensor& value) {
        if (++values > kMostValues) {
          return errors::ResourceExhausted("More than ", kMostValues, " elements of tensor lists to append");
        }
        return both.Set(first->size() + at, value);
      }));
      out->data<Variant>()[i] = std::move(both);
    }
    return Status();
  }

 private:
  StatusOr<const TensorList*> ListAt(const Tensor& handles, int64_t i, const char* name) const {
    const Variant& handle = handles.data<Variant>()[i];
    const auto* list = handle.get<TensorList>();
    if (list == nullptr) {
      return errors::InvalidArgument(name, " is not a TensorList at index ", i, ".  Saw: '",
                                     handle.TypeName(), "'");
    }
    if (list->element_dtype != dtype_) {
      return errors::InvalidArgument(name, "[", i,
                                     "].dtype != element_dtype.  Saw: ", DataTypeName(list->element_dtype),
                                     " vs. ", DataTypeName(dtype_));
    }
    return list;
  }

  const DataType dtype_;
};

}  // namespace

void RegisterTensorListKernels(KernelRegistry& registry) {
  static const Status decoder = RegisterVariantType<TensorList>();  // once per process
  registry.Register<NewListKernel>(KernelDef("EmptyTensorList"));
  registry.Register<NewListKernel>(KernelDef("TensorListReserve"));
  registry.Register<PushBackKernel>(KernelDef("TensorListPushBack"));
  registry.Register<PushBackBatchKernel>(KernelDef("TensorListPushBackBatch"));
  registry.Register<GetItemKernel>(KernelDef("TensorListPopBack"));
  registry.Register<GetItemKernel>(KernelDef("TensorListGetItem"));
  registry.Register<SetItemKernel>(KernelDef("TensorListSetItem"));
  registry.Register<LengthKernel>(KernelDef("TensorListLength"));
  registry.Register<ElementShapeKernel>(KernelDef("TensorListElementShape"));
  registry.Register<ResizeKernel>(KernelDef("TensorListResize"));
  registry.Register<ConcatListsKernel>(KernelDef("TensorListConcatLists"));
}

}  // namespace millrace
