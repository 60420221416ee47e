// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include "base/strings.h"
#include "millrace/tensor.h"
#include "tensor/copy_elements.h"

namespace millrace {
namespace {

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
    if (!row.tensor().IsInitialized()) {
      return errors::InvalidArgument("a row of a list, of type ", first.dtype(), " and shape ", first.shape(),
                                     ", is not initialized");
    }
  }
  if (first.dtype() != DataType::kString && DataTypeSize(first.dtype()) == 0) {
    return errors::InvalidArgument("no list of ", first.dtype());
  }
  if (first.rank() == TensorShape::kMaxRank) return errors::InvalidArgument("a list is nested too deeply");
  std::vector<int64_t> dims = {static_cast<int64_t>(rows.size())};
  dims.insert(dims.end(), first.shape().dims().begin(), first.shape().dims().end());
  MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(dims));
  MR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(first.dtype(), shape));
  int64_t begin = 0;
  for (const Literal& row : rows) {
    CopyElements(row.tensor(), begin, tensor);
    begin += first.num_elements();
  }
  return tensor;
}

}  // namespace

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

Literal::Literal(std::initializer_list<Literal> rows) {
  if (rows.size() == 0) return;
  auto tensor = Stack(rows);
  if (tensor.ok()) {
    tensor_ = *std::move(tensor);
  } else {
    status_ = tensor.status();
  }
}

StatusOr<Tensor> Tensor::Of(const Literal& value) {
  MR_RETURN_IF_ERROR(value.status());
  return value.tensor();
}

}  // namespace millrace
