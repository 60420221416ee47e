// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancellation.h"
#include "base/function.h"
#include "graph/graph.h"
#include "millrace/run_metadata.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

class CostModel;
class ResourceManager;
class Rendezvous;
class SessionTensors;
class ThreadPool;
struct StepHost;

// The part of a compiled step that one worker runs: all nodes that were placed on the devices of its task.
struct PartitionSpec {
  std::unique_ptr<Graph> graph;
  bool bfloat16_transfers = false;  // see PartitionOptions
  // Put before the names under which state is kept: nodes of different functions may be called the same.
  std::string scope = {};
};

// What one step hands to the workers. Everything is borrowed until the step is done.
struct StepArgs {
  int64_t step_id = 0;
  std::span<const Tensor* const> args;          // by feed slot
  std::span<Tensor> rets;                       // by fetch slot
  CancellationManager* cancellation = nullptr;  // never null
  ThreadPool* inter_op_pool = nullptr;          // null: nodes run one after the other
  ThreadPool* intra_op_pool = nullptr;          // null: kernels use one thread
  RunMetadata* metadata = nullptr;              // null: not traced
  bool report_allocations = false;              // of a traced step: errors for lack of memory list its nodes
  ResourceManager* step_resources = nullptr;    // of this step alone: tensor arrays, stacks
  SessionTensors* session_tensors = nullptr;    // null: the step is of no session
  Rendezvous* rendezvous = nullptr;             // null: the workers make one when they need it
  int call_depth = 0;                           // function calls in progress around this one
  const StepHost* host = nullptr;               // of the step around a call
  std::string_view function = {};               // of a call
  // Whether Run may return before `done` is called. It copies what it needs of the arguments themselves then.
  bool detached = false;
};

// A partition that a worker has taken in and made kernels for. Dropping it removes it. Thread-safe.
class InstalledPartition {
 public:
  using Done = UniqueFunction<void(Status)>;
  virtual ~InstalledPartition() = default;
  // Runs one step and calls `done` once, when nothing of it runs any more; a worker of this process does both
  // on the calling thread, unless args.detached. Cancelling args.cancellation aborts the step.
  virtual void Run(StepArgs& args, Done done) = 0;
  // Nodes per device after the last pass, for RunMetadata.
  virtual std::vector<std::string> SerializedGraphs() const = 0;
  // Appends the same nodes with their costs.
  virtual void AppendCosts(const CostModel& model, std::vector<CostNode>* nodes) const = 0;
};

// A task that can run partitions: in this process, or behind a connection. Thread-safe.
class Worker {
 public:
  virtual ~Worker() = default;
  // "/job:…/replica:…/task:…": the key of its partitions.
  virtual const std::string& task() const = 0;
  virtual StatusOr<std::unique_ptr<InstalledPartition>> Install(PartitionSpec spec) = 0;
};

}  // namespace millrace
