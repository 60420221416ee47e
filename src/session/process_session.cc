// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/process_session.h"

#include <utility>

#include "base/fork.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

class ProcessSession final : public Session {
 public:
  explicit ProcessSession(std::unique_ptr<Session> session) : session_(std::move(session)) {}
  ~ProcessSession() override {
    if (!mark_.is_of_this_process())
      session_.release();  // NOLINT(bugprone-unused-return-value): left as it is
  }

  Status Create(const tensorflow::GraphDef& graph) override {
    MR_RETURN_IF_ERROR(Check());
    return session_->Create(graph);
  }
  Status Extend(const tensorflow::GraphDef& graph) override {
    MR_RETURN_IF_ERROR(Check());
    return session_->Extend(graph);
  }
  Status Create(tensorflow::GraphDef&& graph) override {
    MR_RETURN_IF_ERROR(Check());
    return session_->Create(std::move(graph));
  }
  Status Extend(tensorflow::GraphDef&& graph) override {
    MR_RETURN_IF_ERROR(Check());
    return session_->Extend(std::move(graph));
  }
  Status ExtendFrom(const Graph& graph) override {
    MR_RETURN_IF_ERROR(Check());
    return session_->ExtendFrom(graph);
  }
  using Session::Run;
  Status Run(const RunOptions& options, const Feeds& feeds, const std::vector<std::string>& fetches,
             const std::vector<std::string>& targets, std::vector<Tensor>* outputs,
             RunMetadata* metadata) override {
    MR_RETURN_IF_ERROR(Check());
    return session_->Run(options, feeds, fetches, targets, outputs, metadata);
  }
  StatusOr<CallableHandle> MakeCallable(const CallableOptions& options) override {
    MR_RETURN_IF_ERROR(Check());
    return session_->MakeCallable(options);
  }
  Status RunCallable(CallableHandle handle, std::span<const Tensor> feeds, std::vector<Tensor>* outputs,
                     RunMetadata* metadata) override {
    MR_RETURN_IF_ERROR(Check());
    return session_->RunCallable(handle, feeds, outputs, metadata);
  }
  Status ReleaseCallable(CallableHandle handle) override {
    MR_RETURN_IF_ERROR(Check());
    return session_->ReleaseCallable(handle);
  }
  StatusOr<std::string> PRunSetup(const std::vector<std::string>& feeds,
                                  const std::vector<std::string>& fetches,
                                  const std::vector<std::string>& targets) override {
    MR_RETURN_IF_ERROR(Check());
    return session_->PRunSetup(feeds, fetches, targets);
  }
  Status PRun(const std::string& handle, const Feeds& feeds, const std::vector<std::string>& fetches,
              std::vector<Tensor>* outputs) override {
    MR_RETURN_IF_ERROR(Check());
    return session_->PRun(handle, feeds, fetches, outputs);
  }
  StatusOr<std::vector<DeviceInfo>> ListDevices() override {
    MR_RETURN_IF_ERROR(Check());
    return session_->ListDevices();
  }
  Status Close() override { return mark_.is_of_this_process() ? session_->Close() : Status(); }
  void CancelSteps() override {
    if (mark_.is_of_this_process()) session_->CancelSteps();
  }

 private:
  Status Check() const {
    if (mark_.is_of_this_process()) [[likely]]
      return Status();
    return errors::FailedPrecondition(
        "The session belongs to the process from which this one was forked; make another session here");
  }

  const ForkMark mark_;
  std::unique_ptr<Session> session_;
};

}  // namespace

std::unique_ptr<Session> MakeProcessSession(std::unique_ptr<Session> session) {
  return std::make_unique<ProcessSession>(std::move(session));
}

}  // namespace millrace
