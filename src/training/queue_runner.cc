// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/queue_runner.h"

#include <algorithm>
#include <atomic>

#include "base/logging.h"
#include "millrace/meta_graph.h"
#include "millrace/ops.h"
#include "tensorflow/core/protobuf/queue_runner.pb.h"

namespace millrace {
namespace {

constexpr ErrorCode kEndOfInput[] = {ErrorCode::kOutOfRange};

// The state that the threads of one queue share.
struct Filling {
  bool IsEnd(const Status& status) const {
    const auto& codes = runner.queue_closed_codes;
    const std::span<const ErrorCode> ends = codes.empty() ? kEndOfInput : std::span<const ErrorCode>(codes);
    return std::find(ends.begin(), ends.end(), status.code()) != ends.end();
  }

  const QueueRunner runner;
  Session& session;
  Coordinator& coordinator;
  std::atomic<int> running;
};

// The body of a thread: enqueues until the input ends or the coordinator stops.
Status Fill(Filling& filling, const std::string& enqueue_op) {
  Session& session = filling.session;
  auto callable =
      session.MakeCallable({.feeds = {}, .fetches = {}, .targets = {enqueue_op}, .run_options = {}});
  Status status = callable.status();
  while (status.ok() && !filling.coordinator.ShouldStop()) {
    status = session.RunCallable(*callable, {}, nullptr, nullptr);
  }
  if (callable.ok()) session.ReleaseCallable(*callable).IgnoreError("the session may be closed");
  const bool at_end = !status.ok() && filling.IsEnd(status);
  if (filling.running.fetch_sub(1) == 1 && at_end) {
    const Status closed = session.Run({}, {}, {filling.runner.close_op_name}, nullptr);
    closed.IgnoreError("the session may be closed already, and the queue with it");
  }
  if (at_end) return Status();
  // A queue that was cancelled because of the stop is not an error.
  return filling.coordinator.ShouldStop() ? Status() : status;
}

}  // namespace

QueueRunner QueueRunner::Make(const Scope& scope, const Output& queue,
                              const std::vector<Operation>& enqueue_ops) {
  if (enqueue_ops.empty()) {
    scope.UpdateStatus(errors::InvalidArgument("Must provide queue and enqueue_ops."));
  }
  if (!scope.ok()) return {};
  QueueRunner runner{.queue_name = Scope::NameOf(queue),
                     .enqueue_op_names = {},
                     .close_op_name = {},
                     .cancel_op_name = {},
                     .queue_closed_codes = {std::begin(kEndOfInput), std::end(kEndOfInput)}};
  for (const Operation& op : enqueue_ops) runner.enqueue_op_names.push_back(Scope::NameOf(op));
  const std::string own_name = runner.queue_name.substr(runner.queue_name.rfind('/') + 1);
  const Scope beside = scope.WithNoControlDependencies().WithOpName(own_name + "_Close");
  runner.close_op_name = Scope::NameOf(Operation(ops::QueueCloseV2(beside, queue)));
  runner.cancel_op_name = Scope::NameOf(
      Operation(ops::QueueCloseV2(beside, queue, ops::QueueCloseV2::CancelPendingEnqueues(true))));
  return runner;
}

std::string QueueRunner::SerializeAsString() const {
  tensorflow::QueueRunnerDef def;
  def.set_queue_name(queue_name);
  for (const std::string& name : enqueue_op_names) def.add_enqueue_op_name(name);
  def.set_close_op_name(close_op_name);
  def.set_cancel_op_name(cancel_op_name);
  for (const ErrorCode code : queue_closed_codes) {
    def.add_queue_closed_exception_types(static_cast<tensorflow::error::Code>(code));
  }
  return def.SerializeAsString();
}

StatusOr<QueueRunner> QueueRunner::Parse(std::string_view bytes) {
  tensorflow::QueueRunnerDef def;
  if (!def.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return errors::InvalidArgument("not a QueueRunnerDef");
  }
  if (def.enqueue_op_name().empty() || def.close_op_name().empty() || def.cancel_op_name().empty()) {
    return errors::InvalidArgument("the runner of queue '", def.queue_name(),
                                   "' lacks the name of an enqueue, close or cancel op");
  }
  QueueRunner runner{.queue_name = def.queue_name(),
                     .enqueue_op_names = {def.enqueue_op_name().begin(), def.enqueue_op_name().end()},
                     .close_op_name = def.close_op_name(),
                     .cancel_op_name = def.cancel_op_name()};
  for (const int code : def.queue_closed_exception_types()) {
    runner.queue_closed_codes.push_back(static_cast<ErrorCode>(code));
  }
  return runner;
}

Status QueueRunner::Start(Session& session, Coordinator& coordinator) const {
  if (enqueue_op_names.empty()) return errors::InvalidArgument("Must provide queue and enqueue_ops.");
  const auto filling = std::shared_ptr<Filling>(
      new Filling{*this, session, coordinator, static_cast<int>(enqueue_op_names.size())});
  for (const std::string& op : enqueue_op_names) {
    coordinator.StartThread(StrCat("QueueRunnerThread-", queue_name, "-", op),
                            [filling, op] { return Fill(*filling, op); });
  }
  coordinator.StartThread(StrCat("QueueRunnerThread-", queue_name, "-close_on_stop"), [filling] {
    filling->coordinator.WaitForStop();
    const Status cancelled = filling->session.Run({}, {}, {filling->runner.cancel_op_name}, nullptr);
    cancelled.IgnoreError("the session may be closed already, and the queue with it");
    return Status();
  });
  return Status();
}

void AddQueueRunner(const Scope& scope, const QueueRunner& runner, const std::string& collection) {
  if (!scope.ok()) return;
  CollectionDef& entries = Collections(scope)[collection];
  if (std::holds_alternative<std::monostate>(entries)) entries = BytesList();
  if (auto* const bytes = std::get_if<BytesList>(&entries)) {
    bytes->value.push_back(runner.SerializeAsString());
  } else {
    scope.UpdateStatus(errors::InvalidArgument("collection '", collection, "' is not a list of messages"));
  }
}

StatusOr<std::vector<QueueRunner>> QueueRunners(const Scope& scope, const std::string& collection) {
  std::vector<QueueRunner> runners;
  const auto& collections = Collections(scope);
  const auto found = collections.find(collection);
  if (found == collections.end()) return runners;
  const auto* const bytes = std::get_if<BytesList>(&found->second);
  if (bytes == nullptr) {
    return errors::InvalidArgument("collection '", collection, "' is not a list of messages");
  }
  for (const std::string& entry : bytes->value) {
    auto runner = QueueRunner::Parse(entry);
    if (!runner.ok()) return runner.status().WithContext(StrCat("; in collection '", collection, "'"));
    runners.push_back(*std::move(runner));
  }
  return runners;
}

Status StartQueueRunners(const Scope& scope, Session& session, Coordinator& coordinator,
                         const std::string& collection) {
  MR_ASSIGN_OR_RETURN(const auto runners, QueueRunners(scope, collection));
  for (const QueueRunner& runner : runners) MR_RETURN_IF_ERROR(runner.Start(session, coordinator));
  return Status();
}

}  // namespace millrace
