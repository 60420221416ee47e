// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/data/nested.h"

#include "base/strings.h"

namespace millrace::data {

StatusOr<std::unique_ptr<Nested>> Nested::Open(Context& ctx, const Callable& f, Element args,
                                               const std::vector<DataType>& types) {
  Element rets;
  MR_RETURN_IF_ERROR(f.Call(ctx, args, &rets));
  if (rets.size() != 1 || rets[0].dtype() != DataType::kVariant || !rets[0].shape().IsScalar()) {
    return errors::InvalidArgument("Function must return a single scalar of dtype DT_VARIANT.");
  }
  auto nested = std::make_unique<Nested>();
  nested->args_ = std::move(args);
  MR_ASSIGN_OR_RETURN(nested->dataset_, DatasetFromTensor(rets[0]));
  MR_RETURN_IF_ERROR(CheckTypes(types, nested->dataset_->types()));
  MR_ASSIGN_OR_RETURN(nested->iterator_, nested->dataset_->NewIterator(ctx));
  return nested;
}

Status Nested::Save(Context& ctx, std::string_view name, StateWriter& state) {
  state.WriteElement(StrCat(name, ".args"), args_);
  return state.Save(ctx, name, iterator_.get());
}

StatusOr<std::unique_ptr<Nested>> Nested::Restore(Context& ctx, std::string_view name,
                                                  const StateReader& state, const Callable& f,
                                                  const std::vector<DataType>& types) {
  MR_ASSIGN_OR_RETURN(Element args, state.ReadElement(StrCat(name, ".args")));
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Nested> nested, Open(ctx, f, std::move(args), types));
  MR_RETURN_IF_ERROR(state.Restore(ctx, name, *nested->iterator_));
  return nested;
}

}  // namespace millrace::data
