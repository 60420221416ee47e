// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/fault_injector.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/notification.h"
#include "graph/function_library.h"
#include "graph/graph.h"
#include "kernel/kernel_context.h"
#include "kernel/resource.h"
#include "op/op_registry.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

// Stateful by declaration, but the state belongs to the step or there is none.
bool IsStateOfTheStep(std::string_view op) {
  return op == "_Arg" || op == "_Retval" || op == "Assert" || op == "TensorArrayV3" || op == "StackV2";
}

bool IsRepeatableOp(const OpDef& op) { return !op.is_stateful || IsStateOfTheStep(op.name); }

}  // namespace

// The runs of one kernel, and the delays before them: frequent at first, then rare, so that short tests have
// some and long loops end.
class FaultInjector::Calls {
 public:
  Calls(FaultInjector& faults, const std::string& name)
      : faults_(faults), seed_(Hash64(name, faults.options_.seed)) {}

  Status Before(const KernelContext& context) {
    if (faults_.options_.delays) Delay();
    return faults_.AbortIfDue(context);
  }
  void Delay() {
    using std::chrono::microseconds;
    const uint64_t random = Next();
    const uint64_t rarity = 4 + std::min<uint64_t>(count_.load(std::memory_order_relaxed), 1020);
    if (random % rarity == 0) {
      std::this_thread::sleep_for(microseconds((random >> 32) % 300));
    } else if (random % rarity < 3) {
      std::this_thread::yield();
    }
  }
  bool FlipCoin() { return faults_.options_.delays && (Next() & 1) != 0; }

 private:
  // Relaxed: any order of the numbers is allowed.
  uint64_t Next() { return HashCombine(seed_, count_.fetch_add(1, std::memory_order_relaxed)); }

  FaultInjector& faults_;
  const uint64_t seed_;
  std::atomic<uint64_t> count_{0};
};

class FaultInjector::SyncKernel : public OpKernel {
 public:
  SyncKernel(KernelConstruction& c, std::shared_ptr<OpKernel> kernel, FaultInjector& faults)
      : OpKernel(c), kernel_(std::move(kernel)), calls_(faults, name()) {}
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(calls_.Before(context));
    return kernel_->Compute(context);
  }

 private:
  const std::shared_ptr<OpKernel> kernel_;
  Calls calls_;
};

class FaultInjector::AsyncKernel : public AsyncOpKernel {
 public:
  AsyncKernel(KernelConstruction& c, std::shared_ptr<OpKernel> kernel, FaultInjector& faults)
      : AsyncOpKernel(c), kernel_(std::move(kernel)), inner_(*kernel_->AsAsync()), calls_(faults, name()) {}
  bool tries() const override { return inner_.tries(); }
  bool TryCompute(KernelContext& context, Status& status) override {
    if (calls_.FlipCoin()) return false;
    status = calls_.Before(context);
    return !status.ok() || inner_.TryCompute(context, status);
  }
  void ComputeAsync(KernelContext& context, Done done) override {
    if (Status status = calls_.Before(context); !status.ok()) return done(std::move(status));
    inner_.ComputeAsync(context, [this, finish = std::move(done)](Status status) mutable {
      if (calls_.FlipCoin()) calls_.Delay();
      finish(std::move(status));
    });
  }

 private:
  const std::shared_ptr<OpKernel> kernel_;
  AsyncOpKernel& inner_;
  Calls calls_;
};

// A partition whose steps run twice: first one that is aborted, whose results are dropped.
class FaultInjector::AbortedFirst : public InstalledPartition {
 public:
  AbortedFirst(std::unique_ptr<InstalledPartition> partition, FaultInjector& faults)
      : partition_(std::move(partition)), faults_(faults) {}

  void Run(StepArgs& args, Done done) override {
    // Bodies of functions are aborted with their callers; partial runs get each of their feeds once. This is
    // only one partition of a step on several tasks.
    if (args.info.call_depth == 0 && !args.info.several_tasks && args.rendezvous == nullptr && IsTurn()) {
      if (Status status = RunAborted(args); !status.ok()) return done(std::move(status));
    }
    partition_->Run(args, std::move(done));
  }
  std::vector<std::string> SerializedGraphs() const override { return partition_->SerializedGraphs(); }
  void AppendCosts(const CostModel& model, std::vector<CostNode>* nodes) const override {
    partition_->AppendCosts(model, nodes);
  }

 private:
  bool IsTurn() {
    const uint64_t run = runs_.fetch_add(1, std::memory_order_relaxed);  // only the number matters
    return run < 16 || run % 64 == 0;
  }
  // An error if the abort was not noticed.
  Status RunAborted(const StepArgs& args) {
    std::vector<Tensor> rets(args.rets.size());
    CancellationManager cancellation(args.cancellation);
    ResourceManager step_resources("the container of an aborted step");
    StepArgs aborted = args;
    // Relaxed: the number only has to be new.
    aborted.info.step_id = faults_.next_step_id_.fetch_sub(1, std::memory_order_relaxed);
    aborted.rets = rets;
    aborted.cancellation = &cancellation;
    aborted.metadata = nullptr;
    aborted.info.trace = false;
    aborted.step_resources = &step_resources;
    const uint64_t random = HashCombine(faults_.options_.seed, static_cast<uint64_t>(aborted.info.step_id));
    const auto kind = (random & 1) != 0 ? AbortKind::kError : AbortKind::kCancel;
    const uint64_t range = uint64_t{1} << ((random >> 1) % 8);
    faults_.AbortAt(static_cast<int64_t>((random >> 8) % range), kind, aborted.info.step_id);
    Status status;
    Notification ended;
    partition_->Run(aborted, [&](Status s) {
      status = std::move(s);
      ended.Notify();
    });
    ended.Wait();
    const bool happened = faults_.Disarm(aborted.info.step_id);
    // A step that is cancelled at its last kernel may still succeed.
    if (happened && kind == AbortKind::kError && status.ok())
      return errors::Internal("A kernel of the step failed, but the step did not");
    return Status();
  }

  const std::unique_ptr<InstalledPartition> partition_;
  FaultInjector& faults_;
  std::atomic<uint64_t> runs_{0};
};

std::shared_ptr<OpKernel> FaultInjector::Wrap(std::shared_ptr<OpKernel> kernel,
                                              KernelConstruction& construction) {
  if (kernel->ConstantOutput() != nullptr) return kernel;
  if (kernel->AsAsync() != nullptr)
    return std::make_shared<AsyncKernel>(construction, std::move(kernel), *this);
  return std::make_shared<SyncKernel>(construction, std::move(kernel), *this);
}

std::unique_ptr<InstalledPartition> FaultInjector::Wrap(std::unique_ptr<InstalledPartition> partition,
                                                        bool repeatable) {
  if (!options_.aborts || !repeatable) return partition;
  return std::make_unique<AbortedFirst>(std::move(partition), *this);
}

bool FaultInjector::IsRepeatable(const Graph& graph) {
  for (int id = 2; id < graph.num_node_ids(); ++id) {
    const Node* node = graph.node(id);
    if (node == nullptr) continue;
    if (!IsRepeatableOp(node->op_def())) return false;
    const bool is_fed_state = node->op_name() == "_Arg" && node->output_type(0) == DataType::kResource;
    if (is_fed_state) return false;
  }
  for (const std::string& name : graph.functions().Names()) {
    for (const tensorflow::NodeDef& node : graph.functions().Find(name)->node_def()) {
      const auto op = graph.LookUpOp(node.op());
      if (!op.ok() || !IsRepeatableOp((*op)->def)) return false;
    }
  }
  return true;
}

void FaultInjector::AbortAt(int64_t n, AbortKind kind, int64_t step_id) {
  MutexLock lock(mu_);
  armed_[step_id] = {.countdown = n, .kind = kind};
  num_armed_.store(static_cast<int>(armed_.size()), std::memory_order_relaxed);
}

bool FaultInjector::Disarm(int64_t step_id) {
  MutexLock lock(mu_);
  const auto it = armed_.find(step_id);
  if (it == armed_.end()) return false;
  const bool happened = it->second.happened;
  armed_.erase(it);
  num_armed_.store(static_cast<int>(armed_.size()), std::memory_order_relaxed);
  return happened;
}

Status FaultInjector::AbortIfDue(const KernelContext& context) {
  // Relaxed: the step is started after arming.
  if (num_armed_.load(std::memory_order_relaxed) == 0) return Status();
  AbortKind kind;
  {
    MutexLock lock(mu_);
    auto it = armed_.find(context.step_id());
    if (it == armed_.end() && context.step_id() > 0) it = armed_.find(kAnyStep);
    if (it == armed_.end() || it->second.happened || --it->second.countdown >= 0) return Status();
    it->second.happened = true;
    kind = it->second.kind;
  }
  if (kind == AbortKind::kError) return errors::Aborted(kAbortText);
  context.cancellation().StartCancel();
  return Status();
}

}  // namespace millrace
