// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/coordinator.h"
#include "millrace/scope.h"
#include "millrace/session.h"
#include "millrace/status.h"

namespace millrace {

// Fills a queue: one thread for each enqueue op runs it until the end of input. The last thread that gets
// there closes the queue; when the coordinator stops the queue is cancelled, so that threads that wait on it
// end. A value, with the fields of TensorFlow's QueueRunnerDef; names are those of nodes (the queue's may be
// that of its handle).
struct QueueRunner {
  std::string queue_name;
  std::vector<std::string> enqueue_op_names;
  std::string close_op_name;
  std::string cancel_op_name;
  // Errors that mean the end of input; empty: OutOfRange.
  std::vector<ErrorCode> queue_closed_codes = {};

  // Of a queue: adds the ops that close and cancel it to the scope, "<queue>_Close" and "<queue>_Close_1".
  static QueueRunner Make(const Scope& scope, const Output& queue, const std::vector<Operation>& enqueue_ops);

  // The wire form, a serialised QueueRunnerDef. InvalidArgument for what is none or lacks a name.
  std::string SerializeAsString() const;
  static StatusOr<QueueRunner> Parse(std::string_view bytes);

  // Starts the threads. Errors that are not the end of input stop the coordinator. The session must have the
  // nodes, and must be there as long as the coordinator has threads.
  Status Start(Session& session, Coordinator& coordinator) const;

  friend bool operator==(const QueueRunner&, const QueueRunner&) = default;
};

inline constexpr char kQueueRunners[] = "queue_runners";

// Adds a runner to a collection of the scope's graph, which meta graphs keep.
void AddQueueRunner(const Scope& scope, const QueueRunner& runner,
                    const std::string& collection = kQueueRunners);
// Those of a collection. InvalidArgument for entries that are none.
StatusOr<std::vector<QueueRunner>> QueueRunners(const Scope& scope,
                                                const std::string& collection = kQueueRunners);
// Starts them all. Their threads end with the coordinator.
Status StartQueueRunners(const Scope& scope, Session& session, Coordinator& coordinator,
                         const std::string& collection = kQueueRunners);

}  // namespace millrace
