// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/local_session.h"

#include <atomic>
#include <type_traits>
#include <utility>

#include "base/asymmetric_fence.h"
#include "distributed/task.h"
#include "session/reclaimer.h"

namespace millrace {
namespace {

// Calls find the master's session without a lock. After Close the last one that has begun before frees it.
class LocalTaskSession : public Session {
 public:
  LocalTaskSession(std::shared_ptr<Task> task, Master::SessionPtr session)
      : task_(std::move(task)), owned_(std::move(session)), session_(owned_.get()) {}
  ~LocalTaskSession() override { Close().IgnoreError("closing cannot fail"); }

  Status Create(const tensorflow::GraphDef& graph) override {
    return With([&](DirectSession& s) { return s.Create(graph); });
  }
  Status Create(tensorflow::GraphDef&& graph) override {
    return With([&](DirectSession& s) { return s.Create(std::move(graph)); });
  }
  Status Extend(const tensorflow::GraphDef& graph) override {
    return With([&](DirectSession& s) { return s.Extend(graph); });
  }
  Status Extend(tensorflow::GraphDef&& graph) override {
    return With([&](DirectSession& s) { return s.Extend(std::move(graph)); });
  }
  Status ExtendFrom(const Graph& graph) override {
    return With([&](DirectSession& s) { return s.ExtendFrom(graph); });
  }
  using Session::Run;
  Status Run(const RunOptions& options, const Feeds& feeds, const std::vector<std::string>& fetches,
             const std::vector<std::string>& targets, std::vector<Tensor>* outputs,
             RunMetadata* metadata) override {
    return With([&](DirectSession& s) { return s.Run(options, feeds, fetches, targets, outputs, metadata); });
  }
  StatusOr<CallableHandle> MakeCallable(const CallableOptions& options) override {
    return With([&](DirectSession& s) { return s.MakeCallable(options); });
  }
  Status RunCallable(CallableHandle handle, std::span<const Tensor> feeds, std::vector<Tensor>* outputs,
                     RunMetadata* metadata) override {
    return With([&](DirectSession& s) { return s.RunCallable(handle, feeds, outputs, metadata); });
  }
  Status ReleaseCallable(CallableHandle handle) override {
    return With([&](DirectSession& s) { return s.ReleaseCallable(handle); });
  }
  StatusOr<std::string> PRunSetup(const std::vector<std::string>& feeds,
                                  const std::vector<std::string>& fetches,
                                  const std::vector<std::string>& targets) override {
    return With([&](DirectSession& s) { return s.PRunSetup(feeds, fetches, targets); });
  }
  Status PRun(const std::string& handle, const Feeds& feeds, const std::vector<std::string>& fetches,
              std::vector<Tensor>* outputs) override {
    return With([&](DirectSession& s) { return s.PRun(handle, feeds, fetches, outputs); });
  }
  StatusOr<std::vector<DeviceInfo>> ListDevices() override {
    return With([&](DirectSession& s) { return s.ListDevices(); });
  }
  Status Close() override;
  void CancelSteps() override {
    const Reclaimer::Reader reader(reclaimer_);
    if (MasterSession* const session = session_.load(std::memory_order_acquire); session != nullptr)
      session->session().CancelSteps();
  }

 private:
  template <typename Call>
  std::invoke_result_t<Call, DirectSession&> With(const Call& call);
  void FreeUnlessUsed();

  const std::shared_ptr<Task> task_;  // outlives the session
  Reclaimer reclaimer_;               // of the session
  Mutex mu_;
  Master::SessionPtr owned_ MR_GUARDED_BY(mu_);  // null after Close
  std::atomic<MasterSession*> session_;          // the same, for calls
};

const Status& StatusOf(const Status& status) { return status; }
template <typename T>
const Status& StatusOf(const StatusOr<T>& result) {
  return result.status();
}

template <typename Call>
std::invoke_result_t<Call, DirectSession&> LocalTaskSession::With(const Call& call) {
  using Result = std::invoke_result_t<Call, DirectSession&>;
  Result result = [&]() -> Result {
    const Reclaimer::Reader reader(reclaimer_);
    // Acquire pairs with the release in Close.
    MasterSession* const session = session_.load(std::memory_order_acquire);
    if (session == nullptr) [[unlikely]]
      return errors::Cancelled("Session has been closed.");
    if (session->ended()) [[unlikely]]
      return session->end();
    Result made = call(session->session());
    if (!made.ok()) [[unlikely]]
      return session->Explain(StatusOf(made));
    return made;
  }();
  LightFence();  // pairs with the heavy fence of Retire: either that sees the end of this call, or this sees
                 // Close
  if (session_.load(std::memory_order_relaxed) == nullptr) [[unlikely]]
    FreeUnlessUsed();
  return result;
}

void LocalTaskSession::FreeUnlessUsed() {
  if (reclaimer_.num_retired() > 0) reclaimer_.Retire(nullptr);
}

Status LocalTaskSession::Close() {
  Master::SessionPtr session;
  {
    MutexLock lock(mu_);
    session = std::move(owned_);
    session_.store(nullptr, std::memory_order_release);
  }
  if (session == nullptr) return Status();
  task_->master().CloseSession(session->handle()).IgnoreError("a reset may have closed it");
  reclaimer_.Retire(std::move(session));
  return Status();
}

}  // namespace

std::unique_ptr<Session> MakeLocalSession(std::shared_ptr<Task> task, Master::SessionPtr session) {
  return std::make_unique<LocalTaskSession>(std::move(task), std::move(session));
}

}  // namespace millrace
