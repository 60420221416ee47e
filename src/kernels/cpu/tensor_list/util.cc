// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/move.h"
#include "kernels/cpu/tensor_list/tensor_list.h"
#include "kernels/cpu/vector/binary.h"

namespace millrace {

StatusOr<const TensorList*> InputList(const KernelContext& context, int i) {
  const Tensor& handle = context.input(i);
  if (!handle.shape().IsScalar()) {
    return errors::InvalidArgument("Input list must be a scalar saw: ", handle.shape());
  }
  const auto* list = handle.scalar<Variant>().get<TensorList>();
  if (list == nullptr) {
    return errors::InvalidArgument("Input handle is not a list. Saw: '", handle.scalar<Variant>().TypeName(),
                                   "'");
  }
  return list;
}

StatusOr<TensorList*> OutputListLike(KernelContext& context, int i) {
  MR_RETURN_IF_ERROR(InputList(context, i).status());
  if (Tensor* own = context.TryForward(i, 0)) return own->scalar<Variant>().get<TensorList>();
  const Tensor shared = context.input(i);
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
  out->scalar<Variant>() = shared.scalar<Variant>();
  return out->scalar<Variant>().get<TensorList>();
}

Status SetOutputList(KernelContext& context, int output, TensorList list) {
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(output, TensorShape()));
  out->scalar<Variant>() = std::move(list);
  return Status();
}

StatusOr<PartialShape> ElementShapeArgument(const Tensor& shape) {
  if (shape.shape().IsScalar()) {
    if (IntValue(shape) == -1) return PartialShape();
    return errors::InvalidArgument(
        "The only valid scalar shape tensor is the fully unknown shape specified as -1.");
  }
  if (!shape.shape().IsVector()) {
    return errors::InvalidArgument("A shape must be a vector, got shape ", shape.shape());
  }
  return PartialShape::Make(IntValues(shape));
}

StatusOr<Tensor> ZeroTensor(KernelContext& context, DataType dtype, const TensorShape& shape) {
  MR_ASSIGN_OR_RETURN(Tensor zeros, context.AllocateTemp(dtype, shape));
  ContextParallel parallel(context);
  ZeroElements(dtype, zeros.raw_data(), zeros.num_elements(), parallel);
  return zeros;
}

namespace {

// A copy of nested lists takes memory for each of their values.
constexpr int64_t kMostNestedValues = int64_t{1} << 22;

Status CheckNested(const Variant& value) {
  const auto* list = value.get<TensorList>();
  if (list == nullptr || list->element_dtype != DataType::kVariant) return Status();
  int64_t left = kMostNestedValues;
  return list->Spend(false, &left);
}

Status CheckCancelled(const KernelContext& context) {
  if (!context.cancellation().IsCancelled()) [[likely]]
    return Status();
  return errors::Cancelled("The step was cancelled while tensor lists were made");
}

StatusOr<Variant> MakeZeros(KernelContext& context, const Variant& value) {
  const auto* list = value.get<TensorList>();
  if (list == nullptr) return Variant();
  const auto zeros = [&](const Tensor& t) -> StatusOr<Tensor> {
    MR_RETURN_IF_ERROR(CheckCancelled(context));
    MR_ASSIGN_OR_RETURN(Tensor out, ZeroTensor(context, t.dtype(), t.shape()));
    if (t.dtype() != DataType::kVariant) return out;
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      MR_ASSIGN_OR_RETURN(out.data<Variant>()[i], MakeZeros(context, t.data<Variant>()[i]));
    }
    return out;
  };
  MR_ASSIGN_OR_RETURN(TensorList made, list->Map(zeros));
  return Variant(std::move(made));
}

StatusOr<Variant> Sum(KernelContext& context, const Variant& a, const Variant& b);

StatusOr<Tensor> AddTensors(KernelContext& context, const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) {
    return errors::InvalidArgument("Cannot add values of different shapes in tensor lists: ", a.shape(),
                                   " and ", b.shape());
  }
  MR_ASSIGN_OR_RETURN(Tensor sum, context.AllocateTemp(a.dtype(), a.shape()));
  if (a.dtype() == DataType::kVariant) {
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      MR_ASSIGN_OR_RETURN(sum.data<Variant>()[i], Sum(context, a.data<Variant>()[i], b.data<Variant>()[i]));
    }
    return sum;
  }
  const cpu::BinaryFns* add = cpu::FindBinary(cpu::BinaryOp::kAdd, a.dtype());
  if (add == nullptr)
    return errors::InvalidArgument("Trying to add unsupported dtype ", DataTypeName(a.dtype()));
  add->same(a.raw_data(), b.raw_data(), sum.raw_data(), a.num_elements());
  return sum;
}

StatusOr<Variant> Sum(KernelContext& context, const Variant& a, const Variant& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  const auto *x = a.get<TensorList>(), *y = b.get<TensorList>();
  if (x == nullptr || y == nullptr)
    return errors::Internal("No unary variant binary_op function found for binary variant op enum: 1");
  if (x->element_dtype != y->element_dtype) {
    return errors::InvalidArgument("Trying to add two lists of tensors of different dtypes. One is ",
                                   DataTypeName(x->element_dtype), " and the other is ",
                                   DataTypeName(y->element_dtype));
  }
  auto shape = x->element_shape.MergeWith(y->element_shape);
  if (!shape.ok()) {
    return errors::InvalidArgument(
        "Trying to add two lists of tensors with incompatible element shapes. One is ", x->element_shape,
        " and the other is ", y->element_shape);
  }
  if (x->size() != y->size()) {
    return errors::InvalidArgument("Trying to add two lists of tensors with different lengths. One is ",
                                   x->size(), " and the other is ", y->size());
  }
  TensorList sum = *x;
  sum.element_shape = *std::move(shape);
  const auto add = [&](int64_t i, const Tensor& added) -> Status {
    MR_RETURN_IF_ERROR(CheckCancelled(context));
    const Tensor* value = x->Find(i);
    if (value == nullptr) return sum.Set(i, added);
    MR_ASSIGN_OR_RETURN(Tensor both, AddTensors(context, *value, added));
    return sum.Set(i, std::move(both));
  };
  MR_RETURN_IF_ERROR(y->ForEach(add));
  return Variant(std::move(sum));
}

}  // namespace

StatusOr<Variant> ZerosLikeVariant(KernelContext& context, const Variant& value) {
  MR_RETURN_IF_ERROR(CheckNested(value));
  return MakeZeros(context, value);
}

StatusOr<Variant> AddVariants(KernelContext& context, const Variant& a, const Variant& b) {
  MR_RETURN_IF_ERROR(CheckNested(b));
  return Sum(context, a, b);
}

}  // namespace millrace
