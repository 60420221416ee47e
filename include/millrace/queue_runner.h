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

// Fills a queue: each enqueue op is run repeatedly in a thread until the end of input. The last thread
// closes the queue; if the coordinator stops, the queue is cancelled, so that waiting threads end. A value,
// with the fields of TensorFlow's QueueRunnerDef; names are those of nodes (the queue's may be that of its
// handle).
struct QueueRunner {
  std::string queue_name;
  std::vector<std::string> enqueue_op_names;
  std::string close_op_name;
  std::string cancel_op_name;
  // Errors that mean the end of input; empty: OutOfRange.
  std::vector<ErrorCode> queue_closed_codes = {};

  // For a queue: adds its close and cancel ops to the scope, "<queue>_Close" and "<queue>_Close_1".
  static QueueRunner Make(const Scope& scope, const Output& queue, const std::vector<Operation>& enqueue_ops);

  // The wire form, a serialised QueueRunnerDef. InvalidArgument for invalid bytes or a missing name.
  std::string SerializeAsString() const;
  static StatusOr<QueueRunner> Parse(std::string_view bytes);

  // Starts the threads. Errors that are not the end of input stop the coordinator. The session must have the
  // nodes, and must outlive the coordinator's threads.
  Status Start(Session& session, Coordinator& coordinator) const;

  friend bool operator==(const QueueRunner&, const QueueRunner&) = default;
};

inline constexpr char kQueueRunners[] = "queue_runners";

// Adds a runner to a collection of the scope's graph, which meta graphs contain.
void AddQueueRunner(const Scope& scope, const QueueRunner& runner,
                    const std::string& collection = kQueueRunners);
// The runners in a collection. InvalidArgument for invalid entries.
StatusOr<std::vector<QueueRunner>> QueueRunners(const Scope& scope,
                                                const std::string& collection = kQueueRunners);
// Starts all runners of a collection. Their threads end with the coordinator.
Status StartQueueRunners(const Scope& scope, Session& session, Coordinator& coordinator,
                         const std::string& collection = kQueueRunners);

}  // namespace millrace
