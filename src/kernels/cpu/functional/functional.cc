// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Calls of functions, including conditional ones.
#include "kernels/cpu/functional/functional.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "kernels/cpu/kernel_util.h"
#include "op/function_attrs.h"

namespace millrace {
namespace {

std::string TypesText(std::span<const DataType> types) {
  std::string out = "[";
  for (const DataType t : types) out += StrCat(out.size() > 1 ? ", " : "", DataTypeName(t));
  return out + "]";
}

// The function that a kernel calls, selected by its first input, and the index of the first argument.
struct Callee {
  const BoundFunction* function = nullptr;
  int first_arg = 0;
};

class CallLogic {
 public:
  explicit CallLogic(KernelConstruction& c) : function_(c, Name(c)) {}
  StatusOr<Callee> Choose(const KernelContext&) const { return Callee{&function_, 0}; }

 private:
  static NameAttrList Name(KernelConstruction& c) {
    NameAttrList f = c.Attr<NameAttrList>("f");
    if (c.props()->op->def.name != "SymbolicGradient") return f;
    AttrMap attrs{{"f", std::move(f)},
                  {"Tin", c.Attr<std::vector<DataType>>("Tin")},
                  {"Tout", c.Attr<std::vector<DataType>>("Tout")}};
    const AttrValue* scope = c.props()->attrs.Find(kGradientScopeAttr);
    if (scope != nullptr) attrs.Set(kGradientScopeAttr, *scope);
    return {"SymbolicGradient", std::make_shared<const AttrMap>(std::move(attrs))};
  }
  const BoundFunction function_;
};

class IfLogic {
 public:
  explicit IfLogic(KernelConstruction& c)
      : then_(c, c.Attr<NameAttrList>("then_branch")), else_(c, c.Attr<NameAttrList>("else_branch")) {}
  StatusOr<Callee> Choose(const KernelContext& context) const {
    MR_ASSIGN_OR_RETURN(const bool condition, ToBool(context.input(0)));
    return Callee{condition ? &then_ : &else_, 1};
  }

 private:
  const BoundFunction then_;
  const BoundFunction else_;
};

class CaseLogic {
 public:
  explicit CaseLogic(KernelConstruction& c) {
    for (NameAttrList& f : c.Attr<std::vector<NameAttrList>>("branches"))
      branches_.emplace_back(c, std::move(f));
  }
  // An index without a branch selects the last one.
  StatusOr<Callee> Choose(const KernelContext& context) const {
    MR_RETURN_IF_ERROR(RequireScalar(context.input(0), "branch_index"));
    const int32_t index = context.input(0).scalar<int32_t>();
    const bool valid = index >= 0 && static_cast<size_t>(index) < branches_.size();
    return Callee{&branches_[valid ? static_cast<size_t>(index) : branches_.size() - 1], 1};
  }

 private:
  std::deque<BoundFunction> branches_;  // a deque: they cannot be moved
};

// The device is an input of the call.
class RemoteCallLogic {
 public:
  explicit RemoteCallLogic(KernelConstruction& c) : caller_(c.functions()), f_(c.Attr<NameAttrList>("f")) {
    if (caller_ == nullptr) c.SetError(errors::Internal("No function library is provided."));
  }
  StatusOr<const FunctionCaller::Function*> Find(const KernelContext& context) const {
    MR_RETURN_IF_ERROR(RequireScalar(context.input(0), "target"));
    MR_ASSIGN_OR_RETURN(const std::string device,
                        caller_->FindDevice(context.input(0).scalar<std::string>()));
    return caller_->Instantiate(f_, device);
  }

 private:
  FunctionCaller* const caller_;
  const NameAttrList f_;
};

// Finds the function to call, and checks its arguments and results against those of the node.
template <typename Logic>
StatusOr<std::pair<const FunctionCaller::Function*, int>> FindFunction(const Logic& logic,
                                                                       const KernelContext& context) {
  const NodeProps& props = context.kernel().props();
  if constexpr (requires { logic.Find(context); }) {
    MR_ASSIGN_OR_RETURN(const FunctionCaller::Function* function, logic.Find(context));
    if (!std::ranges::equal(function->arg_types(), std::span(props.input_types).subspan(1)) ||
        function->ret_types() != props.output_types) {
      return errors::InvalidArgument("The function takes ", TypesText(function->arg_types()), " and returns ",
                                     TypesText(function->ret_types()), ", called with ",
                                     TypesText(std::span(props.input_types).subspan(1)), " for ",
                                     TypesText(props.output_types));
    }
    return std::pair(function, 1);
  } else {
    MR_ASSIGN_OR_RETURN(const Callee callee, logic.Choose(context));
    const auto args = std::span(props.input_types).subspan(static_cast<size_t>(callee.first_arg));
    MR_ASSIGN_OR_RETURN(const FunctionCaller::Function* function,
                        callee.function->Get(args, props.output_types));
    return std::pair(function, callee.first_arg);
  }
}

ArgPointers ArgsFrom(const KernelContext& context, int first) {
  ArgPointers args;
  for (int i = first; i < context.num_inputs(); ++i) args.push_back(&context.input(i));
  return args;
}

template <typename Logic>
class SyncCallKernel final : public OpKernel {
 public:
  explicit SyncCallKernel(KernelConstruction& c) : OpKernel(c), caller_(c.functions()), logic_(c) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const auto callee, FindFunction(logic_, context));
    const ArgPointers args = ArgsFrom(context, callee.second);
    CallResults results(static_cast<size_t>(context.num_outputs()));
    MR_RETURN_IF_ERROR(caller_->Call(*callee.first, context.step(), args, results.tensors()));
    results.SetOutputs(context);
    return Status();
  }

 private:
  FunctionCaller* const caller_;
  const Logic logic_;
};

template <typename Logic>
class AsyncCallKernel final : public AsyncOpKernel {
 public:
  explicit AsyncCallKernel(KernelConstruction& c) : AsyncOpKernel(c), caller_(c.functions()), logic_(c) {}
  void ComputeAsync(KernelContext& context, Done done) override {
    auto callee = FindFunction(logic_, context);
    if (!callee.ok()) return done(callee.status());
    struct Call {
      Call(ArgPointers a, size_t num_results, Done d)
          : args(std::move(a)), results(num_results), done(std::move(d)) {}
      ArgPointers args;
      CallResults results;
      Done done;
    };
    auto* call = new Call(ArgsFrom(context, callee->second), static_cast<size_t>(context.num_outputs()),
                          std::move(done));
    caller_->CallAsync(*callee->first, context.step(), call->args, call->results.tensors(),
                       [call, &context](const Status& status) {
                         const std::unique_ptr<Call> owned(call);
                         if (status.ok()) owned->results.SetOutputs(context);
                         owned->done(status);
                       });
  }

 private:
  FunctionCaller* const caller_;
  const Logic logic_;
};

// A placeholder for a value that is never used: unknown sizes are 0.
class FakeParamKernel final : public OpKernel {
 public:
  explicit FakeParamKernel(KernelConstruction& c) : OpKernel(c) {
    const PartialShape shape = c.Attr<PartialShape>("shape");
    Dims dims;
    if (shape.unknown_rank()) {
      dims.push_back(0);
    } else {
      for (const int64_t d : shape.dims()) dims.push_back(std::max<int64_t>(d, 0));
    }
    auto made = TensorShape::Make(dims);
    c.SetError(made.status());
    if (made.ok()) shape_ = *std::move(made);
  }
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape_));
    // It should not be read; it holds zeros.
    if (DataTypeSize(out->dtype()) > 0 && out->num_elements() > 0)
      std::memset(out->raw_data(), 0, out->num_bytes());
    return Status();
  }

 private:
  TensorShape shape_;
};

class PassListKernel final : public OpKernel {
 public:
  explicit PassListKernel(KernelConstruction& c) : OpKernel(c) {
    if (c.props()->input_types != c.props()->output_types) {
      c.SetError(errors::InvalidArgument("The types of the inputs, ", TypesText(c.props()->input_types),
                                         ", are not those of the outputs, ",
                                         TypesText(c.props()->output_types)));
    }
  }
  Status Compute(KernelContext& context) override {
    for (int i = 0; i < context.num_inputs(); ++i) context.set_output(i, context.TakeInput(i));
    return Status();
  }
};

}  // namespace

StatusOr<const FunctionCaller::Function*> BoundFunction::Get(std::span<const DataType> args,
                                                             std::span<const DataType> rets) const {
  // Acquire pairs with the release below: a thread that sees the function sees its contents.
  if (const auto* known = function_.load(std::memory_order_acquire)) [[likely]]
    return known;
  MR_ASSIGN_OR_RETURN(const FunctionCaller::Function* function, caller_->Instantiate(f_, device_.name()));
  if (f_.name == "SymbolicGradient" && function->ret_types().size() != rets.size()) {
    return errors::InvalidArgument("SymGrad expects to return ", rets.size(), " tensor(s), but get ",
                                   function->ret_types().size(), " tensor(s) instead.");
  }
  if (!std::ranges::equal(function->arg_types(), args) || !std::ranges::equal(function->ret_types(), rets)) {
    return errors::InvalidArgument("Function '", f_.name, "' takes ", TypesText(function->arg_types()),
                                   " and returns ", TypesText(function->ret_types()), ", called with ",
                                   TypesText(args), " for ", TypesText(rets));
  }
  function_.store(function, std::memory_order_release);
  return function;
}

StatusOr<const FunctionCaller::Function*> BoundFunction::GetBody(std::span<const DataType> types) const {
  if (const auto* known = function_.load(std::memory_order_acquire)) return known;
  MR_ASSIGN_OR_RETURN(const FunctionCaller::Function* function, caller_->Instantiate(f_, device_.name()));
  if (function->ret_types().size() != types.size()) {
    return errors::InvalidArgument("While loop body returned ", function->ret_types().size(),
                                   " arguments. Expected: ", types.size());
  }
  return Get(types, types);
}

StatusOr<const FunctionCaller::Function*> BoundFunction::GetPredicate(std::span<const DataType> args) const {
  if (const auto* known = function_.load(std::memory_order_acquire)) return known;
  MR_ASSIGN_OR_RETURN(const FunctionCaller::Function* function, caller_->Instantiate(f_, device_.name()));
  if (function->ret_types().size() != 1) {
    return errors::InvalidArgument("Expected a single scalar return value from the condition of a loop, got ",
                                   function->ret_types().size(), " tensors.");
  }
  if (!std::ranges::equal(function->arg_types(), args)) {
    return errors::InvalidArgument("Function '", f_.name, "' takes ", TypesText(function->arg_types()),
                                   " and returns ", TypesText(function->ret_types()), ", called with ",
                                   TypesText(args), " for one result");
  }
  function_.store(function, std::memory_order_release);
  return function;
}

StatusOr<bool> ToBool(const Tensor& value) {
  if (!value.shape().IsScalar()) return value.num_elements() > 0;
  if (value.dtype() == DataType::kBool) return value.scalar<bool>();
  if (value.dtype() == DataType::kString) return !value.scalar<std::string>().empty();
  const int known =
      VisitReal(value.dtype(), -1, [&]<typename T>() -> int { return value.scalar<T>() == T(0) ? 0 : 1; });
  if (known >= 0) return known == 1;
  return errors::InvalidArgument("The ", DataTypeName(value.dtype()), " cannot be converted to a boolean");
}

bool NamesFunctionThatWaits(const KernelConstruction& c) {
  if (c.functions() == nullptr) return false;
  for (const auto& [name, value] : c.attrs()) {
    if (const auto* f = value.As<NameAttrList>()) {
      if (c.functions()->MayWait(*f)) return true;
    }
    if (const auto* list = value.As<std::vector<NameAttrList>>()) {
      for (const NameAttrList& f : *list) {
        if (c.functions()->MayWait(f)) return true;
      }
    }
  }
  return false;
}

void RegisterFunctionalKernels(KernelRegistry& registry) {
  for (const char* op : {"PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient"})
    RegisterCalling<SyncCallKernel<CallLogic>, AsyncCallKernel<CallLogic>>(registry, op);
  for (const char* op : {"If", "StatelessIf"})
    RegisterCalling<SyncCallKernel<IfLogic>, AsyncCallKernel<IfLogic>>(registry, op);
  RegisterCalling<SyncCallKernel<CaseLogic>, AsyncCallKernel<CaseLogic>>(registry, "Case");
  RegisterCalling<SyncCallKernel<RemoteCallLogic>, AsyncCallKernel<RemoteCallLogic>>(registry, "RemoteCall");
  registry.Register<FakeParamKernel>(KernelDef("FakeParam"));
  for (const char* op : {"_ListToArray", "_ArrayToList"}) registry.Register<PassListKernel>(KernelDef(op));
}

}  // namespace millrace
