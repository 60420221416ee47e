// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cc/scope_state.h"
#include "millrace/scope.h"
#include "tensor/copy_elements.h"

namespace millrace {
namespace {

StatusOr<Tensor> Spread(const Literal& value, const TensorShape& shape) {
  MR_RETURN_IF_ERROR(value.status());
  const Tensor& given = value.tensor();
  if (given.num_elements() == shape.num_elements()) return given.Reshape(shape);
  if (given.num_elements() != 1) {
    return errors::InvalidArgument("a constant of shape ", shape, " from ", given.num_elements(), " values");
  }
  if (given.dtype() != DataType::kString && DataTypeSize(given.dtype()) == 0) {
    return errors::InvalidArgument("constants of type ", given.dtype(), " are not supported");
  }
  MR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(given.dtype(), shape));
  for (int64_t i = 0; i < shape.num_elements(); ++i) CopyElements(given, i, tensor);
  return tensor;
}

}  // namespace

namespace ops {

Output Const(const Scope& scope, const Literal& value) {
  if (!value.status().ok()) {
    scope.UpdateStatus(value.status().WithContext(StrCat("; in a constant of scope '", scope.path(), "'")));
    return {};
  }
  OpMaker maker(scope, "Const", {});
  maker.SetAttr("dtype", value.tensor().dtype());
  maker.SetAttr("value", value.tensor());
  return {maker.Finish(), 0};
}

Output Const(const Scope& scope, const Literal& value, const TensorShape& shape) {
  auto tensor = Spread(value, shape);
  if (tensor.ok()) return Const(scope, Literal(*std::move(tensor)));
  scope.UpdateStatus(tensor.status().WithContext(StrCat("; in a constant of scope '", scope.path(), "'")));
  return {};
}

}  // namespace ops
}  // namespace millrace
