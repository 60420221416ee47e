// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/function_runtime.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/notification.h"
#include "base/stack.h"
#include "compile/optimize/inline_cleanup.h"
#include "graph/function_gradient.h"
#include "graph/function_names.h"
#include "kernel/blocking_kernel.h"
#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "step/run_workers.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

// Whether a kernel of the op itself may wait. Ops that call functions wait if those do.
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

namespace {

// See FunctionCaller::Function::forwarded_args.
std::vector<int> ForwardedArgs(const FunctionBody& body) {
  if (!body.control_rets.empty()) return {};
  for (const Node* node : body.graph->OpNodes()) {
    const bool is_end = node->op_name() == "_Arg" || node->op_name() == "_Retval";
    if (node->op_def().is_stateful && !is_end) return {};
  }
  std::vector<int> forwarded;
  for (const Node* ret : body.rets) {
    const Node* from = ret;
    do {
      // One input, and nothing else to wait for.
      if (from->in_edges().size() != 1 || from->in_edges()[0]->IsControl()) return {};
      from = from->in_edges()[0]->src;
    } while (from->traits().forwards);
    const auto arg = std::ranges::find(body.args, from);
    if (arg == body.args.end()) return {};
    forwarded.push_back(static_cast<int>(arg - body.args.begin()));
  }
  return forwarded;
}

}  // namespace

struct FunctionRuntime::Instance : FunctionCaller::Function {
  std::string key;
  NameAttrList f;
  std::string device;
  std::unique_ptr<CompiledStep> step;

  void SetTypes(const FunctionBody& body) {
    arg_types_ = body.arg_types;
    ret_types_ = body.ret_types;
    forwarded_args_ = ForwardedArgs(body);
  }
};

FunctionRuntime::FunctionRuntime() = default;
FunctionRuntime::~FunctionRuntime() = default;

Status FunctionRuntime::AddFunctions(const FunctionLibrary& library) {
  MutexLock lock(mu_);
  return library_.Merge(library);
}

bool FunctionRuntime::MayWait(const NameAttrList& f) {
  // Nodes without a device may be placed on another task.
  if (compiler_ != nullptr && compiler_->has_other_tasks()) return true;
  if (devices_work_later_) return true;
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

Status FunctionRuntime::ExportFunctions(std::span<const std::string> names,
                                        tensorflow::FunctionDefLibrary* library) {
  FunctionNames pending(names.begin(), names.end()), seen;
  MutexLock lock(mu_);
  while (!pending.empty()) {
    const std::string name = *pending.begin();
    pending.erase(pending.begin());
    const tensorflow::FunctionDef* def = library_.Find(name);
    if (def == nullptr && std::ranges::find(names, name) != names.end())
      return errors::NotFound("Function ", name, " is not defined.");
    // An op may be used in place of a function.
    if (def == nullptr || !seen.insert(name).second) continue;
    if (const std::string gradient = library_.FindGradient(name); !gradient.empty()) pending.insert(gradient);
    CollectFunctions(*def, library_, &pending);
  }
  library_.Only(seen).Export(library);
  return Status();
}

Status FunctionRuntime::ImportFunctions(const tensorflow::FunctionDefLibrary& library) {
  FunctionLibrary more;
  MR_RETURN_IF_ERROR(more.AddLibrary(library));
  return AddFunctions(more);
}

const FunctionRuntime::Instance* FunctionRuntime::Find(const NameAttrList& f, std::string_view device) const {
  const auto [begin, end] = instances_.equal_range(FunctionKey(f));
  for (auto it = begin; it != end; ++it) {
    if (it->second->device == device && it->second->f == f) return it->second.get();
  }
  return nullptr;
}

StatusOr<const FunctionCaller::Function*> FunctionRuntime::Instantiate(const NameAttrList& f,
                                                                       const std::string& device) {
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

StatusOr<std::unique_ptr<FunctionRuntime::Instance>> FunctionRuntime::Compile(
    const FunctionLibrary& library, const NameAttrList& f, const std::string& device) const {
  if (compiler_ == nullptr) return errors::Internal("No compiler for functions");
  const DeviceDescription* const described = compiler_->devices().Find(device);
  if (described == nullptr)
    return errors::InvalidArgument("Function '", f.name, "': no device '", device, "'");
  MR_ASSIGN_OR_RETURN(FunctionBody body, InstantiateCallee(library, OpRegistry::Global(), f));
  CleanUpBody(&body);
  auto instance = std::make_unique<Instance>();
  instance->key = FunctionKey(f);
  instance->f = f;
  instance->device = device;
  instance->SetTypes(body);
  auto step =
      compiler_->CompileFunction(std::move(body), *described, StrCat(instance->key, "@", device, "/"));
  if (!step.ok()) return step.status().WithContext(StrCat("; in function '", f.name, "'"));
  instance->step = *std::move(step);
  return instance;
}

StatusOr<std::string> FunctionRuntime::FindDevice(std::string_view name) {
  MR_ASSIGN_OR_RETURN(const DeviceName wanted, DeviceName::Parse(name));
  if (compiler_ == nullptr) return errors::Internal("No compiler for functions");
  const auto matching = compiler_->devices().Matching(wanted);
  if (!matching.empty()) return matching.front()->name();
  return errors::InvalidArgument("Device '", name, "' is not one of this ",
                                 compiler_->has_other_tasks() ? "cluster" : "process");
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
                                     kMaxDepth, ": infinite recursion?");
  }
  return Status();
}

namespace {

// Arguments of a function call on several tasks. Other tasks may not have the caller's step, or may be
// executing another call of the same function for it, so the call is a separate step there.
StepArgs NestedArgs(const std::string& function, bool several_tasks, const StepServices& caller,
                    std::span<const Tensor* const> args, std::span<Tensor> rets) {
  StepArgs nested;
  nested.info.step_id = caller.step_id;
  if (several_tasks) nested.info.step_id = StepIds::NextShared();
  nested.info.several_tasks = several_tasks;
  nested.args = args;
  nested.rets = rets;
  nested.cancellation = caller.cancellation;
  nested.inter_op_pool = caller.inter_op_pool;
  nested.intra_op_pool = caller.pool;
  nested.step_resources = caller.step_resources;
  nested.info.call_depth = caller.call_depth + 1;
  nested.host = caller.host;
  nested.function = function;
  return nested;
}

// Whether a call may exhaust the stack of the calling thread. Programs run steps in threads whose stacks can
// be much smaller than ours. Most calls nest little, and those have no extra cost.
bool NeedsAnotherStack(const StepServices& caller) {
  constexpr int kFewCalls = 8;
  constexpr size_t kMinStackLeft = 256 << 10;
  return caller.call_depth >= kFewCalls && StackLeft() < kMinStackLeft;
}

// Calls `body` in a thread with a separate stack, without waiting. The error: no thread can be created.
Status OnAnotherStack(UniqueFunction<void()> body) {
  if (RunInBlockingThread(body)) return Status();
  return errors::ResourceExhausted(
      "Could not start a thread for a function call that is nested too deeply for the stack");
}

}  // namespace

Status FunctionRuntime::Call(const Function& f, const StepServices& caller,
                             std::span<const Tensor* const> args, std::span<Tensor> rets) {
  const auto& instance = static_cast<const Instance&>(f);
  MR_RETURN_IF_ERROR(CheckCall(instance, caller, args.size(), rets.size()));
  StepArgs nested = NestedArgs(instance.f.name, instance.step->several_tasks, caller, args, rets);
  if (instance.step->several_tasks) return RunOnWorkers(*instance.step, nested);
  Status status;
  const auto run = [&] {
    instance.step->partitions[0]->Run(nested, [&status](Status s) { status = std::move(s); });
  };
  if (!NeedsAnotherStack(caller)) {
    run();
    return status;
  }
  Notification ended;
  MR_RETURN_IF_ERROR(OnAnotherStack([&] {
    run();
    ended.Notify();
  }));
  ended.Wait();
  return status;
}

void FunctionRuntime::CallAsync(const Function& f, const StepServices& caller,
                                std::span<const Tensor* const> args, std::span<Tensor> rets, Done done) {
  const auto& instance = static_cast<const Instance&>(f);
  if (Status status = CheckCall(instance, caller, args.size(), rets.size()); !status.ok())
    return done(std::move(status));
  StepArgs nested = NestedArgs(instance.f.name, instance.step->several_tasks, caller, args, rets);
  nested.detached = true;
  if (instance.step->several_tasks) return StartOnWorkers(*instance.step, nested, std::move(done));
  if (!NeedsAnotherStack(caller)) return instance.step->partitions[0]->Run(nested, std::move(done));
  auto shared_done = std::make_shared<Done>(std::move(done));
  Status status = OnAnotherStack([&instance, nested, shared_done]() mutable {
    instance.step->partitions[0]->Run(nested, std::move(*shared_done));
  });
  if (!status.ok()) (*shared_done)(std::move(status));
}

void FunctionRuntime::DropInstances() {
  decltype(instances_) dropped;  // destroyed after the lock is released
  MutexLock lock(mu_);
  dropped.swap(instances_);
}

size_t FunctionRuntime::num_instances_for_test() const {
  MutexLock lock(mu_);
  return instances_.size();
}

}  // namespace millrace
