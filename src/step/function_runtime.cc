// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/function_runtime.h"

#include <utility>

#include "compile/optimize/inline_cleanup.h"
#include "graph/function_gradient.h"
#include "graph/function_names.h"
#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

// Whether a kernel of the op may wait by itself. What calls functions waits when they do.
bool OpMayWait(const std::string& op) {
  if (const auto known = OpRegistry::Global().LookUp(op); known.ok()) {
    for (const AttrDef& attr : (*known)->def.attrs) {
      if (attr.type == "func" || attr.type == "list(func)") return false;
    }
  }
  for (const KernelDef* kernel : KernelRegistry::Global().KernelsOf(op)) {
    if (kernel->is_async()) return true;
  }
  return false;
}

}  // namespace

struct FunctionRuntime::Instance : FunctionCaller::Function {
  std::string key;
  NameAttrList f;
  const Device* device = nullptr;
  std::unique_ptr<CompiledStep> step;

  void SetTypes(const FunctionBody& body) {
    arg_types_ = body.arg_types;
    ret_types_ = body.ret_types;
  }
};

FunctionRuntime::FunctionRuntime(const DeviceSet& devices) : devices_(devices) {}
FunctionRuntime::~FunctionRuntime() = default;

Status FunctionRuntime::AddFunctions(const FunctionLibrary& library) {
  MutexLock lock(mu_);
  return library_.Merge(library);
}

bool FunctionRuntime::MayWait(const NameAttrList& f) {
  FunctionNames pending{f.name}, seen;
  if (f.attrs != nullptr) CollectFunctions(*f.attrs, &pending);
  MutexLock lock(mu_);
  while (!pending.empty()) {
    const std::string name = *pending.begin();
    pending.erase(pending.begin());
    if (!seen.insert(name).second) continue;
    if (const std::string gradient = library_.FindGradient(name); !gradient.empty()) pending.insert(gradient);
    const tensorflow::FunctionDef* def = library_.Find(name);
    if (def == nullptr) {
      if (OpMayWait(name)) return true;
      continue;
    }
    const auto [known, is_new] = waits_.try_emplace(name, false);
    CollectFunctions(*def, library_, &pending);
    for (const tensorflow::NodeDef& node : def->node_def()) {
      if (is_new) known->second |= !node.device().empty() || OpMayWait(node.op());
    }
    if (known->second) return true;
  }
  return false;
}

const FunctionRuntime::Instance* FunctionRuntime::Find(const NameAttrList& f, const Device& device) const {
  const auto [begin, end] = instances_.equal_range(FunctionKey(f));
  for (auto it = begin; it != end; ++it) {
    if (it->second->device == &device && it->second->f == f) return it->second.get();
  }
  return nullptr;
}

StatusOr<const FunctionCaller::Function*> FunctionRuntime::Instantiate(const NameAttrList& f,
                                                                       const Device& device) {
  {
    MutexLock lock(mu_);
    if (const Instance* found = Find(f, device)) return static_cast<const Function*>(found);
  }
  MutexLock compiling(compile_mu_);
  FunctionLibrary library;
  {
    MutexLock lock(mu_);
    if (const Instance* found = Find(f, device)) return static_cast<const Function*>(found);
    library = library_;
  }
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Instance> instance, Compile(library, f, device));
  const Instance* made = instance.get();
  MutexLock lock(mu_);
  instances_.emplace(made->key, std::move(instance));
  return static_cast<const Function*>(made);
}

StatusOr<std::unique_ptr<FunctionRuntime::Instance>> FunctionRuntime::Compile(const FunctionLibrary& library,
                                                                              const NameAttrList& f,
                                                                              const Device& device) const {
  if (compiler_ == nullptr) return errors::Internal("No compiler for functions");
  MR_ASSIGN_OR_RETURN(FunctionBody body, InstantiateCallee(library, OpRegistry::Global(), f));
  CleanUpBody(&body);
  auto instance = std::make_unique<Instance>();
  instance->key = FunctionKey(f);
  instance->f = f;
  instance->device = &device;
  instance->SetTypes(body);
  auto step =
      compiler_->CompileFunction(std::move(body), device, StrCat(instance->key, "@", device.name(), "/"));
  if (!step.ok()) return step.status().WithContext(StrCat("; in function '", f.name, "'"));
  instance->step = *std::move(step);
  if (instance->step->partitions.size() != 1) {
    return errors::Unimplemented("Function '", f.name, "' has nodes on devices of several tasks");
  }
  return instance;
}

StatusOr<const Device*> FunctionRuntime::FindDevice(std::string_view name) {
  MR_ASSIGN_OR_RETURN(const DeviceName wanted, DeviceName::Parse(name));
  const std::vector<Device*> matching = devices_.Matching(wanted);
  if (!matching.empty()) return static_cast<const Device*>(matching.front());
  return errors::InvalidArgument("Device '", name, "' is not one of this process");
}

Status FunctionRuntime::CheckCall(const Instance& instance, const StepServices& caller, size_t num_args,
                                  size_t num_rets) const {
  if (num_args != instance.arg_types().size() || num_rets != instance.ret_types().size()) {
    return errors::InvalidArgument("Function '", instance.f.name, "' has ", instance.arg_types().size(),
                                   " parameters and ", instance.ret_types().size(), " results, called with ",
                                   num_args, " and ", num_rets);
  }
  if (caller.call_depth >= kMaxDepth) {
    return errors::ResourceExhausted("Function '", instance.f.name, "' is called at a depth beyond ",
                                     kMaxDepth, ": a recursion without end?");
  }
  return Status();
}

namespace {

StepArgs NestedArgs(const std::string& function, const StepServices& caller,
                    std::span<const Tensor* const> args, std::span<Tensor> rets) {
  StepArgs nested;
  nested.step_id = caller.step_id;
  nested.args = args;
  nested.rets = rets;
  nested.cancellation = caller.cancellation;
  nested.inter_op_pool = caller.inter_op_pool;
  nested.intra_op_pool = caller.pool;
  nested.step_resources = caller.step_resources;
  nested.session_tensors = caller.session_tensors;
  nested.call_depth = caller.call_depth + 1;
  nested.host = caller.host;
  nested.function = function;
  return nested;
}

}  // namespace

Status FunctionRuntime::Call(const Function& f, const StepServices& caller,
                             std::span<const Tensor* const> args, std::span<Tensor> rets) {
  const auto& instance = static_cast<const Instance&>(f);
  MR_RETURN_IF_ERROR(CheckCall(instance, caller, args.size(), rets.size()));
  StepArgs nested = NestedArgs(instance.f.name, caller, args, rets);
  Status status;
  instance.step->partitions[0]->Run(nested, [&status](Status s) { status = std::move(s); });
  return status;
}

void FunctionRuntime::CallAsync(const Function& f, const StepServices& caller,
                                std::span<const Tensor* const> args, std::span<Tensor> rets, Done done) {
  const auto& instance = static_cast<const Instance&>(f);
  if (Status status = CheckCall(instance, caller, args.size(), rets.size()); !status.ok())
    return done(std::move(status));
  StepArgs nested = NestedArgs(instance.f.name, caller, args, rets);
  nested.detached = true;
  instance.step->partitions[0]->Run(nested, std::move(done));
}

size_t FunctionRuntime::num_instances_for_test() const {
  MutexLock lock(mu_);
  return instances_.size();
}

}  // namespace millrace
