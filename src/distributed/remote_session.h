// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "distributed/transport.h"
#include "millrace/session.h"

namespace google::protobuf {
class MessageLite;
}

namespace millrace {

// A master at the other end of a transport.
struct RemoteMaster {
  std::shared_ptr<Transport> transport;
  std::string name;  // its name in the transport

  // Calls and waits. Errors of the connection name the target.
  Status Call(Method method, const google::protobuf::MessageLite& request,
              google::protobuf::MessageLite* response, int64_t timeout_in_ms, int64_t patience_in_ms,
              CancellationManager* cancellation) const;
};

// Whether the options request messages even if the master is in this process.
bool WantsMessages(const SessionOptions& options);

// A session whose graph, steps and state are at a remote master. Thread-safe.
class RemoteSession : public Session {
 public:
  // How long the master may be unreachable when the session is created.
  static constexpr int64_t kConnectMs = 60'000;

  RemoteSession(RemoteMaster master, const SessionOptions& options);
  // Closes the session.
  ~RemoteSession() override;

  Status Create(const tensorflow::GraphDef& graph) override MR_EXCLUDES(mu_);
  Status Extend(const tensorflow::GraphDef& graph) override MR_EXCLUDES(mu_);
  Status ExtendFrom(const Graph& graph) override MR_EXCLUDES(mu_);
  using Session::Run;
  Status Run(const RunOptions& options, const Feeds& feeds, const std::vector<std::string>& fetches,
             const std::vector<std::string>& targets, std::vector<Tensor>* outputs,
             RunMetadata* metadata) override;
  StatusOr<CallableHandle> MakeCallable(const CallableOptions& options) override;
  Status RunCallable(CallableHandle handle, std::span<const Tensor> feeds, std::vector<Tensor>* outputs,
                     RunMetadata* metadata) override;
  Status ReleaseCallable(CallableHandle handle) override;
  StatusOr<std::string> PRunSetup(const std::vector<std::string>& feeds,
                                  const std::vector<std::string>& fetches,
                                  const std::vector<std::string>& targets) override;
  Status PRun(const std::string& handle, const Feeds& feeds, const std::vector<std::string>& fetches,
              std::vector<Tensor>* outputs) override;
  StatusOr<std::vector<DeviceInfo>> ListDevices() override;
  Status Close() override MR_EXCLUDES(mu_);
  void CancelSteps() override MR_EXCLUDES(mu_);

 private:
  StatusOr<std::string> Handle() const MR_EXCLUDES(mu_);
  Status CreateLocked(const tensorflow::GraphDef& graph) MR_REQUIRES(graph_mu_) MR_EXCLUDES(mu_);
  Status ExtendLocked(const tensorflow::GraphDef& graph) MR_REQUIRES(graph_mu_) MR_EXCLUDES(mu_);
  // Cancels the steps in progress.
  std::shared_ptr<CancellationManager> Steps() const MR_EXCLUDES(mu_);
  Status Call(Method method, const google::protobuf::MessageLite& request,
              google::protobuf::MessageLite* response, int64_t timeout_in_ms) const;
  Status DoRun(const RunOptions& options, const std::string& partial_run, const Feeds& feeds,
               const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
               std::vector<Tensor>* outputs, RunMetadata* metadata);

  const RemoteMaster master_;
  const SessionOptions options_;
  Mutex graph_mu_;  // one change of the graph at a time; before mu_
  int64_t version_ MR_GUARDED_BY(graph_mu_) = 0;
  int seen_ids_ MR_GUARDED_BY(graph_mu_) = 2;  // of the graph passed to ExtendFrom
  mutable Mutex mu_;
  std::string handle_ MR_GUARDED_BY(mu_);  // empty: not created, or closed
  bool closed_ MR_GUARDED_BY(mu_) = false;
  std::shared_ptr<CancellationManager> steps_ MR_GUARDED_BY(mu_);
};

// Reset of the containers at the tasks of the master.
Status ResetRemotely(const RemoteMaster& master, const SessionOptions& options,
                     const std::vector<std::string>& containers);

}  // namespace millrace
