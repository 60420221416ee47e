// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/function.h"

#include <algorithm>

#include "base/small_vector.h"
#include "base/strings.h"
#include "device/device.h"
#include "kernel/kernel_context.h"

namespace millrace::data {
namespace {

std::string TypesText(std::span<const DataType> types) {
  std::string out = "[";
  for (const DataType t : types) out += StrCat(out.size() > 1 ? ", " : "", DataTypeName(t));
  return out + "]";
}

}  // namespace

StatusOr<std::unique_ptr<Callable>> CapturedFunction::Bind(const Context& ctx, std::span<const DataType> args,
                                                           const std::vector<DataType>* rets) const {
  FunctionCaller* const caller = ctx.runtime->functions;
  if (caller == nullptr) return errors::Internal("No function library is provided.");
  MR_ASSIGN_OR_RETURN(const FunctionCaller::Function* const function,
                      caller->Instantiate(f_, ctx.runtime->device_name));
  std::vector<DataType> given(args.begin(), args.end());
  for (const Tensor& t : captured_) given.push_back(t.dtype());
  if (function->arg_types() != given || (rets != nullptr && function->ret_types() != *rets)) {
    return errors::InvalidArgument("Function '", f_.name, "' takes ", TypesText(function->arg_types()),
                                   " and returns ", TypesText(function->ret_types()), ", called with ",
                                   TypesText(given),
                                   rets == nullptr ? "" : StrCat(" for ", TypesText(*rets)));
  }
  return std::unique_ptr<Callable>(new Callable(*this, *function, caller->MayWait(f_)));
}

Callable::~Callable() { delete spare_.load(); }

Status Callable::Call(Context& ctx, const Element& args, Element* rets) const {
  static const Element none;
  return Call(ctx, args, none, rets);
}

Status Callable::Call(Context& ctx, const Element& args, const Element& more, Element* rets) const {
  SmallVector<const Tensor*, 8> all;
  for (const Tensor& t : args) all.push_back(&t);
  for (const Tensor& t : more) all.push_back(&t);
  for (const Tensor& t : f_.captured_) all.push_back(&t);
  return Run(ctx, all, rets);
}

bool Callable::HandsOn(size_t n) const {
  const std::span<const int> forwarded = function_.forwarded_args();
  return !forwarded.empty() &&
         std::ranges::all_of(forwarded, [n](int i) { return static_cast<size_t>(i) < n; });
}

Status Callable::CallTaking(Context& ctx, Element* args, Element* rets) const {
  const std::span<const int> forwarded = function_.forwarded_args();
  if (forwarded.empty()) return Call(ctx, *args, rets);
  if (args->size() + f_.captured_.size() != function_.arg_types().size()) {
    return errors::InvalidArgument("Function '", f_.name(), "' got ", args->size(), " arguments");
  }
  Element out;
  out.reserve(forwarded.size());
  for (size_t i = 0; i < forwarded.size(); ++i) {
    const auto from = static_cast<size_t>(forwarded[i]);
    if (from >= args->size()) {
      out.push_back(f_.captured_[from - args->size()]);
      continue;
    }
    const bool again = std::find(forwarded.begin() + static_cast<ptrdiff_t>(i) + 1, forwarded.end(),
                                 forwarded[i]) != forwarded.end();
    out.push_back(again ? (*args)[from] : std::move((*args)[from]));
  }
  *rets = std::move(out);
  return Status();
}

Status Callable::Run(Context& ctx, std::span<const Tensor* const> args, Element* rets) const {
  if (ctx.cancelled()) return CancelledStatus();
  // acq_rel: the thread that takes it sees that the last call has ended.
  std::unique_ptr<ResourceManager> resources(spare_.exchange(nullptr, std::memory_order_acq_rel));
  if (resources == nullptr) resources = std::make_unique<ResourceManager>(ctx.runtime->device_name);
  StepServices step;
  step.UseDevice(*ctx.runtime->device);
  step.resources = ctx.runtime->resources;
  step.cancellation = ctx.cancellation;
  step.pool = ctx.pool;
  step.step_resources = resources.get();
  step.call_depth = ctx.call_depth;
  Element results(function_.ret_types().size());
  Status status = ctx.runtime->functions->Call(function_, step, args, results);
  if (!resources->unused()) resources->Clear();
  std::unique_ptr<ResourceManager> other(spare_.exchange(resources.release(), std::memory_order_acq_rel));
  if (status.ok()) *rets = std::move(results);
  return status;
}

StatusOr<bool> BoolOf(const Element& rets, std::string_view what) {
  if (rets.size() == 1 && rets[0].dtype() == DataType::kBool && rets[0].num_elements() == 1) {
    return rets[0].scalar<bool>();
  }
  return errors::InvalidArgument(what, " must return a scalar bool.");
}

StatusOr<int64_t> Int64Of(const Element& rets, std::string_view what) {
  if (rets.size() == 1 && rets[0].dtype() == DataType::kInt64 && rets[0].num_elements() == 1) {
    return rets[0].scalar<int64_t>();
  }
  return errors::InvalidArgument(what, " must return a scalar int64.");
}

}  // namespace millrace::data
