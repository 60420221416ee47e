// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/leased_session.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "millrace/coordinator.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLookSecs = 0.1;
constexpr double kLongestPauseSecs = 1;

// Whether the session belongs to the chief.
using Role = std::shared_ptr<std::atomic<bool>>;

class LeasedSessionCreator final : public SessionCreator {
 public:
  LeasedSessionCreator(const std::shared_ptr<Scaffold>& scaffold,
                       const MonitoredTrainingSessionOptions& options, std::shared_ptr<SaveGuard> guard,
                       Role role)
      : options_(options),
        guard_(std::move(guard)),
        role_(std::move(role)),
        pause_(std::min(options.recovery_wait_secs, kLongestPauseSecs)),
        one_look_(scaffold, {.session = options.session, .max_wait_secs = 0, .recovery_wait_secs = pause_}),
        chief_(scaffold, {.session = options.session, .checkpoint_dir = options.checkpoint_dir}) {}

  StatusOr<std::unique_ptr<ClientSession>> CreateSession() override {
    const auto begin = Clock::now();
    for (;;) {
      *role_ = options_.lease->IsChief();
      if (*role_ && guard_ != nullptr) MR_RETURN_IF_ERROR(guard_->Take());
      // Existing variables are newer than those of the checkpoint.
      auto session = one_look_.CreateSession();
      if (session.ok() || !errors::IsDeadlineExceeded(session.status())) return session;
      if (*role_) return chief_.CreateSession();
      if (std::chrono::duration<double>(Clock::now() - begin).count() > options_.max_wait_secs)
        return session.status().WithContext(
            StrCat("; nobody has initialised or restored the model for ", options_.max_wait_secs, " s"));
      std::this_thread::sleep_for(std::chrono::duration<double>(pause_));
    }
  }

 private:
  const MonitoredTrainingSessionOptions options_;
  const std::shared_ptr<SaveGuard> guard_;
  const Role role_;
  const double pause_;
  WorkerSessionCreator one_look_;
  ChiefSessionCreator chief_;
};

// Calls another hook while this worker is the chief.
class ChiefHook final : public SessionRunHook {
 public:
  ChiefHook(std::shared_ptr<SessionRunHook> hook, Role role)
      : hook_(std::move(hook)), role_(std::move(role)) {}
  Status Begin(const Scope& scope) override { return hook_->Begin(scope); }
  Status AfterCreateSession(ClientSession& session, Coordinator& coordinator) override {
    return *role_ ? hook_->AfterCreateSession(session, coordinator) : Status();
  }
  StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& context) override {
    return *role_ ? hook_->BeforeRun(context) : SessionRunArgs();
  }
  Status AfterRun(SessionRunContext& context, const SessionRunValues& values) override {
    return *role_ ? hook_->AfterRun(context, values) : Status();
  }
  Status End(ClientSession& session) override { return *role_ ? hook_->End(session) : Status(); }

 private:
  const std::shared_ptr<SessionRunHook> hook_;
  const Role role_;
};

// Ends the session after a change of the role, with an error after which a new one is created.
class RoleHook final : public SessionRunHook {
 public:
  RoleHook(std::shared_ptr<ChiefLease> lease, Role role) : lease_(std::move(lease)), role_(std::move(role)) {}
  Status AfterCreateSession(ClientSession& session, Coordinator& coordinator) override {
    coordinator.StartThread("ChiefLease",
                            [lease = lease_, role = role_, own = session.session(), &coordinator] {
                              while (!coordinator.WaitForStop(kLookSecs)) {
                                const Status changed = Changed(*lease, *role);
                                if (changed.ok()) continue;
                                coordinator.RequestStop(changed);
                                // A step may wait, or be about to, for the chief that is gone.
                                for (int i = 0; i < 10; ++i) {
                                  own->CancelSteps();
                                  std::this_thread::sleep_for(std::chrono::milliseconds(10));
                                }
                              }
                              return Status();
                            });
    return Status();
  }
  StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& /*context*/) override {
    MR_RETURN_IF_ERROR(Changed(*lease_, *role_));
    return SessionRunArgs();
  }

 private:
  static Status Changed(const ChiefLease& lease, bool was_chief) {
    if (lease.IsChief() == was_chief) return Status();
    return errors::Aborted(was_chief ? "This worker is not the chief any more"
                                     : "This worker is the chief now");
  }

  const std::shared_ptr<ChiefLease> lease_;
  const Role role_;
};

}  // namespace

StatusOr<std::unique_ptr<MonitoredSession>> MakeLeasedSession(const Scope& scope,
                                                              const MonitoredTrainingSessionOptions& options,
                                                              const std::shared_ptr<Scaffold>& scaffold,
                                                              const std::shared_ptr<SaveGuard>& guard,
                                                              const Hooks& chief_hooks, const Hooks& hooks) {
  const Role role = std::make_shared<std::atomic<bool>>(false);
  Hooks all = {std::make_shared<RoleHook>(options.lease, role)};
  for (const auto& hook : chief_hooks) {
    if (hook == nullptr) return errors::InvalidArgument("a hook is null");
    all.push_back(std::make_shared<ChiefHook>(hook, role));
  }
  all.insert(all.end(), hooks.begin(), hooks.end());
  return MonitoredSession::Make(scope, std::make_shared<LeasedSessionCreator>(scaffold, options, guard, role),
                                std::move(all), options.monitored);
}

}  // namespace millrace
