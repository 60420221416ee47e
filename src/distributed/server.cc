// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/logging.h"
#include "base/mutex.h"
#include "base/notification.h"
#include "base/strings.h"
#include "distributed/cluster_tasks.h"
#include "distributed/protocol.h"
#include "distributed/task.h"
#include "millrace/cluster.h"
#include "tensorflow/core/protobuf/tensorflow_server.pb.h"

namespace millrace {
namespace {

class TaskServer : public Server {
 public:
  TaskServer(std::unique_ptr<Listener> listener, std::shared_ptr<Task> task, std::string target,
             int64_t grace_in_ms)
      : listener_(std::move(listener)),
        task_(std::move(task)),
        target_(std::move(target)),
        grace_in_ms_(grace_in_ms) {}
  ~TaskServer() override { Stop().IgnoreError("stopping cannot fail"); }

  Status Start() override MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (state_ == State::kStarted) return Status();
    if (state_ != State::kNew)
      return errors::FailedPrecondition("The server of ", task_->name(), " has been stopped");
    LocalTasks::Get().Add(target_, task_);
    // The listener is stopped before the task is destroyed.
    Task* const task = task_.get();
    listener_->Start([task](Method method, MessageBytes request, int64_t timeout_in_ms,
                            CancellationManager& cancellation, Reply reply) {
      task->Handle(method, std::move(request), timeout_in_ms, cancellation, std::move(reply));
    });
    state_ = State::kStarted;
    return Status();
  }

  Status Stop() override MR_EXCLUDES(mu_) {
    State before = State::kNew;
    {
      MutexLock lock(mu_);
      before = state_;
      if (before == State::kNew || before == State::kStarted) state_ = State::kStopping;
    }
    // Another thread stops the server.
    if (before == State::kStopping || before == State::kStopped) return Join();
    if (before == State::kStarted) LocalTasks::Get().Remove(target_);
    if (before == State::kStarted) WaitForSteps();
    // Running steps are cancelled, and the listener only waits for the answers.
    task_->Stop();
    const int64_t answer_ms = before == State::kStarted ? kAnswerMs : 0;
    task_->StopCalls(answer_ms);
    listener_->Stop(answer_ms);
    MutexLock lock(mu_);
    state_ = State::kStopped;
    stopped_.NotifyAll();
    return Status();
  }

  using Server::Join;
  Status Join(int64_t timeout_in_ms) override MR_EXCLUDES(mu_) {
    bool is_new = false;
    {
      MutexLock lock(mu_);
      is_new = state_ == State::kNew;
    }
    if (is_new) return Stop();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_in_ms);
    MutexLock lock(mu_);
    while (state_ != State::kStopped) {
      if (timeout_in_ms <= 0) {
        stopped_.Wait(mu_);
      } else if (!stopped_.WaitUntil(mu_, deadline) && state_ != State::kStopped) {
        return errors::DeadlineExceeded("The server of ", task_->name(),
                                        " has not been stopped: Join has waited ", timeout_in_ms, " ms");
      }
    }
    return Status();
  }

  const std::string& target() const override { return target_; }
  const std::string& task() const override { return task_->name(); }

 private:
  // The time for cancelled calls to answer before their connections are closed.
  static constexpr int64_t kAnswerMs = 1000;
  enum class State { kNew, kStarted, kStopping, kStopped };

  // Waits at most for the grace period.
  void WaitForSteps() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(grace_in_ms_);
    while (task_->num_running() > 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  const std::unique_ptr<Listener> listener_;
  const std::shared_ptr<Task> task_;
  const std::string target_;
  const int64_t grace_in_ms_;
  Mutex mu_;
  CondVar stopped_;
  State state_ MR_GUARDED_BY(mu_) = State::kNew;
};

std::string ListenAddress(const ServerOptions& options) {
  if (!options.listen.empty()) return options.listen;
  const char* const variable = std::getenv("MILLRACE_LISTEN");
  return variable == nullptr || *variable == '\0' ? "127.0.0.1" : variable;
}

// A task with its bound port.
struct BoundTask {
  ServerOptions options;
  Protocol protocol;
  TransportOptions transport;
  std::unique_ptr<Listener> listener;
  std::string address() const { return StrCat("localhost:", listener->port()); }
};

// Another task with the address of this one could never be reached: this task would get its messages. Port 0
// means a different port for each task.
Status CheckOwnAddress(const ServerOptions& options, const std::string& address) {
  if (address.ends_with(":0")) return Status();
  for (const auto& [job, tasks] : options.cluster.jobs()) {
    for (const auto& [task, of_task] : tasks) {
      if (of_task != address || (job == options.job && task == options.task)) continue;
      return errors::InvalidArgument("Two tasks of the cluster have the address ", address, ": ",
                                     TaskName(options.job, options.task), " and ", TaskName(job, task));
    }
  }
  return Status();
}

StatusOr<BoundTask> Bind(const ServerOptions& options) {
  MR_ASSIGN_OR_RETURN(const Protocol protocol, FindProtocol(options.protocol));
  MR_ASSIGN_OR_RETURN(const std::string address, options.cluster.AddressOf(options.job, options.task));
  MR_RETURN_IF_ERROR(CheckOwnAddress(options, address));
  const std::string port = address.substr(address.rfind(':'));
  TransportOptions transport;
  transport.patience_in_ms = options.peer_timeout_in_ms;
  MR_ASSIGN_OR_RETURN(
      transport.security,
      LoadSecurity(options.security.empty() ? ClusterSecurity::FromEnvironment() : options.security));
  if (const std::string missing = options.MissingProtection(); !missing.empty())
    MR_LOG(Warning) << TaskName(options.job, options.task) << " is " << missing;
  auto listener = protocol.listen(ListenAddress(options) + port, transport.security);
  if (!listener.ok()) {
    return listener.status().WithContext(
        StrCat("; it is the address of ", TaskName(options.job, options.task)));
  }
  return BoundTask{options, protocol, transport, *std::move(listener)};
}

StatusOr<std::unique_ptr<Server>> MakeServer(BoundTask bound) {
  const ServerOptions& options = bound.options;
  std::map<std::string, std::string> addresses;
  for (const auto& [job, tasks] : options.cluster.jobs()) {
    for (const auto& [task, of_task] : tasks) addresses[TaskName(job, task)] = of_task;
  }
  // A port that was left open is known now.
  const std::string address = bound.address();
  addresses[TaskName(options.job, options.task)] = address;
  MR_ASSIGN_OR_RETURN(auto network, bound.protocol.connect(addresses, bound.transport));
  const Task::Network below{
      addresses, ListenAddress(options),
      !bound.transport.security.certificate.empty() || bound.transport.security.encrypts(),
      [connect = bound.protocol.connect, transport = bound.transport](
          const std::map<std::string, std::string>& others) { return connect(others, transport); }};
  MR_ASSIGN_OR_RETURN(auto task, Task::Make(options, std::move(network), below));
  return std::unique_ptr<Server>(std::make_unique<TaskServer>(std::move(bound.listener), std::move(task),
                                                              StrCat(options.protocol, "://", address),
                                                              options.stop_grace_in_ms));
}

bool IsLoopback(const std::string& listen) {
  return listen == "localhost" || listen.starts_with("127.") || listen == "[::1]" || listen == "::1";
}

}  // namespace

std::string ServerOptions::MissingProtection() const {
  if (IsLoopback(ListenAddress(*this))) return "";
  const ClusterSecurity used = security.empty() ? ClusterSecurity::FromEnvironment() : security;
  if (used.token_file.empty() && (used.certificate_file.empty() || used.ca_file.empty()))
    return "open to everybody who reaches it: there is neither a token nor a check of certificates";
  return used.certificate_file.empty() ? "unencrypted: its token can be read on the network" : "";
}

StatusOr<ServerOptions> ServerOptions::FromProto(const tensorflow::ServerDef& def) {
  ServerOptions options;
  MR_ASSIGN_OR_RETURN(options.cluster, ClusterSpec::FromProto(def.cluster()));
  options.job = def.job_name();
  options.task = def.task_index();
  options.protocol = def.protocol();
  const tensorflow::ServerProtection& protection = def.protection();
  options.listen = protection.listen();
  options.security = {.token_file = protection.token_file(),
                      .ca_file = protection.ca_file(),
                      .certificate_file = protection.certificate_file(),
                      .key_file = protection.key_file()};
  options.denied_ops.assign(protection.denied_op().begin(), protection.denied_op().end());
  MR_ASSIGN_OR_RETURN(options.session, SessionOptions::FromProto(def.default_session_config()));
  return options;
}

StatusOr<std::unique_ptr<Server>> Server::Make(const ServerOptions& options) {
  MR_ASSIGN_OR_RETURN(BoundTask bound, Bind(options));
  return MakeServer(std::move(bound));
}

StatusOr<std::vector<std::unique_ptr<Server>>> Server::MakeAll(const ServerOptions& options) {
  std::vector<BoundTask> bound;
  ClusterSpec known;
  for (const auto& [job, tasks] : options.cluster.jobs()) {
    for (const auto& [task, address] : tasks) {
      ServerOptions own = options;
      own.job = job;
      own.task = task;
      MR_ASSIGN_OR_RETURN(bound.emplace_back(), Bind(own));
      MR_RETURN_IF_ERROR(
          known.AddTask(job, task, address.ends_with(":0") ? bound.back().address() : address));
    }
  }
  std::vector<std::unique_ptr<Server>> servers;
  for (BoundTask& task : bound) {
    task.options.cluster = known;
    MR_ASSIGN_OR_RETURN(servers.emplace_back(), MakeServer(std::move(task)));
  }
  return servers;
}

StatusOr<std::string> DescribeCluster(const std::string& target, int64_t timeout_in_ms) {
  const size_t end = target.find("://");
  if (end == std::string::npos)
    return errors::InvalidArgument("A target is written \"grpc://host:port\", not \"", target, "\"");
  MR_ASSIGN_OR_RETURN(const Protocol protocol, FindProtocol(target.substr(0, end)));
  TransportOptions options;
  options.patience_in_ms = timeout_in_ms;
  MR_ASSIGN_OR_RETURN(options.security, LoadSecurity(ClusterSecurity::FromEnvironment()));
  MR_ASSIGN_OR_RETURN(const auto transport, protocol.connect({{target, target.substr(end + 3)}}, options));
  RemoteCall call{target, Method::kDescribe, MessageBytes("cluster")};
  call.timeout_in_ms = timeout_in_ms;
  Status status;
  std::string text;
  Notification answered;
  transport->Start(std::move(call), [&](Status s, const MessageBytes& bytes) {
    status = std::move(s);
    text = bytes.ToString();
    answered.Notify();
  });
  answered.Wait();
  MR_RETURN_IF_ERROR(status);
  return text;
}

}  // namespace millrace
