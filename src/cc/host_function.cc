// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <new>
#include <utility>

#include "base/mutex.h"
#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "millrace/functions.h"
#include "op/op_builder.h"
#include "op/op_registry.h"

namespace millrace {
namespace {

constexpr char kOp[] = "HostFunction";

// The functions that nodes of this process call, by number. They stay, as nodes may be copied at any time.
class HostFunctions {
 public:
  static HostFunctions& Global() {
    static HostFunctions& all = *new HostFunctions;
    return all;
  }
  int64_t Add(HostFn fn) {
    MutexLock lock(mu_);
    functions_.push_back(std::make_shared<const HostFn>(std::move(fn)));
    return static_cast<int64_t>(functions_.size()) - 1;
  }
  // Null when there is none: the graph is of another process.
  std::shared_ptr<const HostFn> Find(int64_t number) {
    MutexLock lock(mu_);
    if (number < 0 || number >= static_cast<int64_t>(functions_.size())) return nullptr;
    return functions_[static_cast<size_t>(number)];
  }

 private:
  Mutex mu_;
  std::vector<std::shared_ptr<const HostFn>> functions_ MR_GUARDED_BY(mu_);
};

class HostFunctionKernel final : public OpKernel {
 public:
  explicit HostFunctionKernel(KernelConstruction& c)
      : OpKernel(c), fn_(HostFunctions::Global().Find(c.Attr<int64_t>("number"))) {
    if (fn_ == nullptr) c.SetError(errors::NotFound("The C++ function of this node is in another process"));
  }
  Status Compute(KernelContext& context) override {
    std::vector<Tensor> inputs;
    inputs.reserve(static_cast<size_t>(context.num_inputs()));
    for (int i = 0; i < context.num_inputs(); ++i) inputs.push_back(context.input(i));
    MR_ASSIGN_OR_RETURN(std::vector<Tensor> results, Call(inputs));
    if (results.size() != static_cast<size_t>(num_outputs())) {
      return errors::InvalidArgument("A C++ function returns ", results.size(), " tensors, expected ",
                                     num_outputs());
    }
    for (int i = 0; i < num_outputs(); ++i) {
      Tensor& result = results[static_cast<size_t>(i)];
      if (result.dtype() != context.output_type(i) || !result.IsInitialized()) {
        return errors::InvalidArgument("Result ", i, " of a C++ function is ", DataTypeName(result.dtype()),
                                       result.IsInitialized() ? "" : " without a value", ", expected ",
                                       DataTypeName(context.output_type(i)));
      }
      context.set_output(i, std::move(result));
    }
    return Status();
  }

 private:
  // The function is the user's and may throw; a std::bad_alloc ends the step as that of any kernel does.
  StatusOr<std::vector<Tensor>> Call(const std::vector<Tensor>& inputs) const {
    try {
      return (*fn_)(inputs);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& e) {
      return errors::Internal("A C++ function threw an exception: ", e.what());
    } catch (...) {
      return errors::Internal("A C++ function threw an object that is not a std::exception");
    }
  }

  const std::shared_ptr<const HostFn> fn_;
};

// The op and its kernel, in the registries of the process.
Status RegisterOnce() {
  static const Status status = [] {
    const OpBuilder op = OpBuilder("HostFunction: Calls a C++ function of the process that made the node.")
                             .Input("input: Tin")
                             .Output("output: Tout")
                             .Attr("number: int")
                             .Attr("Tin: list(type) >= 0")
                             .Attr("Tout: list(type) >= 0")
                             .Stateful();
    Status added = OpRegistry::Global().Register(op);
    if (added.ok()) KernelRegistry::Global().Register<HostFunctionKernel>(KernelDef(kOp).Device("CPU"));
    return added;
  }();
  return status;
}

}  // namespace

std::vector<Output> CallHostFunction(const Scope& scope, HostFn fn, const std::vector<Output>& inputs,
                                     const std::vector<DataType>& types,
                                     const std::vector<PartialShape>& shapes) {
  std::vector<Output> results(types.size());
  scope.UpdateStatus(RegisterOnce());
  if (fn == nullptr) scope.UpdateStatus(errors::InvalidArgument("CallHostFunction: the function is null"));
  if (!shapes.empty() && shapes.size() != types.size()) {
    scope.UpdateStatus(errors::InvalidArgument("CallHostFunction: ", shapes.size(), " shapes for ",
                                               types.size(), " results"));
  }
  if (!scope.ok()) return results;
  OpMaker maker(scope, kOp, {});
  maker.Add(InputList(inputs));
  maker.SetAttr("number", HostFunctions::Global().Add(std::move(fn)));
  maker.SetAttr("Tout", types);
  if (maker.Finish() == nullptr) return results;
  for (size_t i = 0; i < types.size(); ++i) {
    results[i] = maker.output(static_cast<int>(i));
    if (shapes.empty() || shapes[i].unknown_rank()) continue;
    // Checked with each call.
    OpMaker checked(scope, "EnsureShape", {});
    checked.Add(Input(results[i]));
    checked.SetAttr("shape", shapes[i]);
    results[i] = checked.Finish() == nullptr ? Output() : checked.output(0);
  }
  return results;
}

}  // namespace millrace
