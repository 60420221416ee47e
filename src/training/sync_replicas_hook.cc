// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "millrace/replicas.h"
#include "training/ready.h"

namespace millrace {
namespace {

// The time for a run in progress to end after a stop, and the interval of attempts to end the chief's thread.
constexpr std::chrono::seconds kGrace{5};
constexpr std::chrono::milliseconds kPause{10};

// The state shared by the chief's thread and the one that ends it, for one session.
struct Updating {
  std::atomic<bool> ended = false;
};

// Runs updates until the coordinator stops.
Status Update(Session& session, Coordinator& coordinator, const std::string& op) {
  Status status;
  while (status.ok() && !coordinator.ShouldStop()) status = session.Run({}, {}, {op}, nullptr);
  return coordinator.ShouldStop() ? Status() : status;
}

class SyncReplicasHook final : public SessionRunHook {
 public:
  SyncReplicasHook(SyncReplicasOptimizer& optimizer, std::function<bool()> is_chief, int num_tokens)
      : optimizer_(optimizer), is_chief_(std::move(is_chief)), num_tokens_(num_tokens) {}

  Status Begin(const Scope& scope) override {
    if (!optimizer_.local_step_init_op().IsSet()) {
      return errors::FailedPrecondition(
          "SyncReplicasOptimizer.apply_gradient should be called before using the hook.");
    }
    // It may become the chief later, when the graph is final.
    init_tokens_ = optimizer_.InitTokensOp(scope, num_tokens_);
    return scope.status();
  }

  Status AfterCreateSession(ClientSession& session, Coordinator& coordinator) override {
    in_run_ = false;
    const bool is_chief = is_chief_();
    const Operation& init = is_chief ? optimizer_.chief_init_op() : optimizer_.local_step_init_op();
    MR_ASSIGN_OR_RETURN(const auto missing, NotReady(session, optimizer_.ready_for_local_init_op()));
    if (missing.has_value()) {
      return errors::FailedPrecondition(
          "Init operations did not make model ready for SyncReplicasOptimizer local_init. Init op: ",
          Scope::NameOf(init), ", error: ", *missing);
    }
    MR_RETURN_IF_ERROR(session.Run({}, {}, {init}, nullptr));
    if (!is_chief) return Status();
    MR_RETURN_IF_ERROR(session.Run({}, {}, {init_tokens_}, nullptr));
    StartUpdating(*session.session(), coordinator);
    return Status();
  }

  StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& /*context*/) override {
    in_run_ = true;
    return SessionRunArgs();
  }
  Status AfterRun(SessionRunContext& /*context*/, const SessionRunValues& /*values*/) override {
    in_run_ = false;
    return Status();
  }

 private:
  // An update that waits for gradients does not notice that the coordinator stops: its run is cancelled then.
  void StartUpdating(Session& session, Coordinator& coordinator) {
    const auto updating = std::make_shared<Updating>();
    const std::string op = optimizer_.chief_queue_runner().enqueue_op_names[0];
    coordinator.StartThread("SyncReplicas-" + op, [updating, op, &session, &coordinator] {
      Status status = Update(session, coordinator, op);
      updating->ended = true;
      return status;
    });
    coordinator.StartThread("SyncReplicas-cancel", [this, updating, &session, &coordinator] {
      coordinator.WaitForStop();
      const auto stopped = std::chrono::steady_clock::now();
      while (!updating->ended) {
        if (!in_run_ || std::chrono::steady_clock::now() - stopped > kGrace) session.CancelSteps();
        std::this_thread::sleep_for(kPause);
      }
      return Status();
    });
  }

  SyncReplicasOptimizer& optimizer_;
  const std::function<bool()> is_chief_;
  const int num_tokens_;
  Operation init_tokens_;
  std::atomic<bool> in_run_ = false;
};

}  // namespace

std::shared_ptr<SessionRunHook> SyncReplicasOptimizer::MakeSessionRunHook(std::function<bool()> is_chief,
                                                                          int num_tokens) {
  return std::make_shared<SyncReplicasHook>(*this, std::move(is_chief), num_tokens);
}

}  // namespace millrace
