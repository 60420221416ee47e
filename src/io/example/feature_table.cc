// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/example/example_parser.h"

namespace millrace::io {
namespace {

bool IsFeatureType(DataType dtype) {
  return dtype == DataType::kFloat || dtype == DataType::kInt64 || dtype == DataType::kString;
}

// Sets the members that follow from the shape.
Status SetRow(FeatureTable::Feature* f) {
  const PartialShape& shape = f->shape;
  bool known = !shape.unknown_rank();
  for (int i = 1; known && i < shape.rank(); ++i) known = shape.dim(i) >= 0;
  if (!known) {
    return errors::InvalidArgument("Shape of feature ", f->key,
                                   " has unknown rank or unknown inner dimensions: ", shape);
  }
  f->is_variable = shape.rank() > 0 && shape.dim(0) < 0;
  MR_ASSIGN_OR_RETURN(f->row_shape, TensorShape::Make(shape.dims().subspan(f->is_variable ? 1 : 0)));
  f->row_elements = f->row_shape.num_elements();
  return Status();
}

Status CheckDefault(const FeatureTable::Feature& f) {
  const Tensor& value = f.default_value;
  const bool none = value.num_elements() == 0;
  if (!none && value.dtype() != f.dtype) {
    return errors::InvalidArgument("Default of feature ", f.key, " is ", DataTypeName(value.dtype()),
                                   " and not ", DataTypeName(f.dtype));
  }
  if (f.is_variable && value.num_elements() != 1) {
    return errors::InvalidArgument("Feature ", f.key, " is of variable length: ", f.shape,
                                   ", therefore its default must contain a single element, but its shape is ",
                                   value.shape());
  }
  if (!f.is_variable && !none && value.num_elements() != f.row_elements) {
    return errors::InvalidArgument("Default of feature ", f.key, " has shape ", value.shape(),
                                   " which is not compatible with ", f.shape);
  }
  return Status();
}

}  // namespace

StatusOr<FeatureTable> FeatureTable::Make(std::vector<FeatureSpec> specs) {
  FeatureTable table;
  table.features_.reserve(specs.size());
  for (FeatureSpec& spec : specs) {
    if (!IsFeatureType(spec.dtype)) {
      return errors::InvalidArgument("Invalid config dtype: ", DataTypeName(spec.dtype));
    }
    Feature f;
    static_cast<FeatureSpec&>(f) = std::move(spec);
    if (!f.is_sparse) {
      MR_RETURN_IF_ERROR(SetRow(&f));
      MR_RETURN_IF_ERROR(CheckDefault(f));
    }
    if (!table.places_.emplace(f.key, table.size()).second) {
      return errors::InvalidArgument("Feature key '", f.key, "' occurs twice");
    }
    table.features_.push_back(std::move(f));
  }
  return table;
}

}  // namespace millrace::io
