// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "cc/scope_state.h"
#include "millrace/scope.h"

namespace millrace {
namespace {

// Copies all elements of `from` into `to` from element `begin` on. REQUIRES: types agree, room is there.
void CopyElements(const Tensor& from, int64_t begin, Tensor& to) {
  if (from.dtype() == DataType::kString) {
    std::copy_n(from.data<std::string>(), from.num_elements(), to.data<std::string>() + begin);
    return;
  }
  const size_t size = DataTypeSize(from.dtype());
  if (from.num_elements() == 0) return;
  std::memcpy(static_cast<char*>(to.raw_data()) + static_cast<size_t>(begin) * size, from.raw_data(),
              static_cast<size_t>(from.num_elements()) * size);
}

StatusOr<Tensor> Stack(std::initializer_list<Literal> rows) {
  const Tensor& first = rows.begin()->tensor();
  for (const Literal& row : rows) {
    MR_RETURN_IF_ERROR(row.status());
    if (row.tensor().dtype() != first.dtype()) {
      return errors::InvalidArgument("the values of a list differ in type: ", first.dtype(), " and ",
                                     row.tensor().dtype());
    }
    if (!(row.tensor().shape() == first.shape())) {
      return errors::InvalidArgument("the rows of a list differ in shape: ", first.shape(), " and ",
                                     row.tensor().shape());
    }
  }
  if (first.dtype() != DataType::kString && DataTypeSize(first.dtype()) == 0) {
    return errors::InvalidArgument("no list of ", first.dtype());
  }
  TensorShape shape = first.shape();
  if (shape.rank() == TensorShape::kMaxRank) return errors::InvalidArgument("a list is nested too deeply");
  shape.InsertDim(0, static_cast<int64_t>(rows.size()));
  MR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(first.dtype(), shape));
  int64_t begin = 0;
  for (const Literal& row : rows) {
    CopyElements(row.tensor(), begin, tensor);
    begin += first.num_elements();
  }
  return tensor;
}

StatusOr<Tensor> Spread(const Literal& value, const TensorShape& shape) {
  MR_RETURN_IF_ERROR(value.status());
  const Tensor& given = value.tensor();
  if (given.num_elements() == shape.num_elements()) return given.Reshape(shape);
  if (given.num_elements() != 1) {
    return errors::InvalidArgument("a constant of shape ", shape, " from ", given.num_elements(), " values");
  }
  if (given.dtype() != DataType::kString && DataTypeSize(given.dtype()) == 0) {
    return errors::InvalidArgument("no constant of ", given.dtype());
  }
  MR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(given.dtype(), shape));
  for (int64_t i = 0; i < shape.num_elements(); ++i) CopyElements(given, i, tensor);
  return tensor;
}

}  // namespace

Literal::Literal(std::initializer_list<Literal> rows) {
  if (rows.size() == 0) return;
  auto tensor = Stack(rows);
  if (tensor.ok()) {
    tensor_ = *std::move(tensor);
  } else {
    status_ = tensor.status();
  }
}

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
