// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.h"

#include <algorithm>

#include "data/monitor.h"
#include "tensor/variant.h"

namespace millrace::data {

Status CancelledStatus() { return errors::Cancelled("Iterator was cancelled"); }

StatusOr<std::unique_ptr<Iterator>> Dataset::NewIterator(const Context& ctx) const {
  Context inner = ctx;
  const Context::Reader self{this, ctx.readers};
  inner.readers = &self;
  if (ctx.meter == nullptr) return MakeIterator(inner);
  inner.meter = ctx.meter->monitor.Input(*ctx.meter, *this);
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> iterator, MakeIterator(inner));
  return Measured(std::move(iterator), *inner.meter);
}

Status Iterator::GetRows(Context& /*ctx*/, int64_t /*n*/, Element* /*out*/, int64_t* /*got*/) {
  return errors::Internal("elements come one by one");
}

Status Iterator::GetTexts(Context& ctx, int64_t n, TextSink& sink, int64_t* got) {
  Element rows;
  MR_RETURN_IF_ERROR(GetRows(ctx, n, &rows, got));
  if (*got == 0) return Status();
  if (rows.size() != 1 || rows[0].dtype() != DataType::kString || rows[0].num_elements() != *got) {
    return errors::InvalidArgument("Elements are not single strings");
  }
  for (const std::string& text : rows[0].flat<std::string>()) sink.Add(text);
  return Status();
}

Status Iterator::GetNextTexts(Context& /*ctx*/, TextSink& /*sink*/, bool* /*end*/) {
  return errors::Internal("elements come as tensors");
}

int64_t ManyTimes(int64_t n, int64_t factor) {
  int64_t product = 0;
  return n < 0 || factor < 0 || __builtin_mul_overflow(n, factor, &product) ? INT64_MAX : product;
}

Tensor DatasetToTensor(RefPtr<const Dataset> dataset) {
  Tensor out(DataType::kVariant, TensorShape());
  if (out.IsInitialized()) out.scalar<Variant>() = DatasetVariant{std::move(dataset)};
  return out;
}

StatusOr<RefPtr<const Dataset>> DatasetFromTensor(const Tensor& tensor) {
  if (tensor.dtype() != DataType::kVariant || !tensor.shape().IsScalar() || !tensor.IsInitialized()) {
    return errors::InvalidArgument("Dataset tensor must be a scalar of dtype DT_VARIANT.");
  }
  const auto* held = tensor.scalar<Variant>().get<DatasetVariant>();
  if (held == nullptr || held->dataset == nullptr) {
    return errors::InvalidArgument("Tensor must be a Dataset object.");
  }
  return held->dataset;
}

Status CheckTypes(const std::vector<DataType>& expected, const std::vector<DataType>& got) {
  if (expected.size() != got.size()) {
    return errors::InvalidArgument("Number of components does not match: expected ", expected.size(),
                                   " types but got ", got.size(), ".");
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == got[i]) continue;
    return errors::InvalidArgument("Data type mismatch at component ", i, ": expected ",
                                   DataTypeName(expected[i]), " but got ", DataTypeName(got[i]), ".");
  }
  return Status();
}

Status CheckSignature(const Dataset::Signature& expected, const Dataset::Signature& got) {
  MR_RETURN_IF_ERROR(CheckTypes(expected.types, got.types));
  if (expected.shapes.size() != got.shapes.size()) {
    return errors::InvalidArgument("Number of components does not match: expected ", expected.shapes.size(),
                                   " shapes but got ", got.shapes.size(), ".");
  }
  for (size_t i = 0; i < expected.shapes.size(); ++i) {
    if (expected.shapes[i].IsCompatibleWith(got.shapes[i])) continue;
    return errors::InvalidArgument("Incompatible shapes at component ", i, ": expected ", expected.shapes[i],
                                   " but got ", got.shapes[i], ".");
  }
  return Status();
}

Status CheckElement(const Dataset::Signature& expected, const Element& element) {
  if (expected.types.size() != element.size()) {
    return errors::InvalidArgument("Number of components does not match: expected ", expected.types.size(),
                                   " types but got ", element.size(), ".");
  }
  for (size_t i = 0; i < element.size(); ++i) {
    if (expected.types[i] != element[i].dtype()) {
      return errors::InvalidArgument("Data type mismatch at component ", i, ": expected ",
                                     DataTypeName(expected.types[i]), " but got ",
                                     DataTypeName(element[i].dtype()), ".");
    }
    if (i < expected.shapes.size() && !expected.shapes[i].IsCompatibleWith(element[i].shape())) {
      return errors::InvalidArgument("Incompatible shapes at component ", i, ": expected ",
                                     expected.shapes[i], " but got ", element[i].shape(), ".");
    }
  }
  return Status();
}

}  // namespace millrace::data
