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
#include "device/device_view.h"
#include "graph/graph.h"
#include "kernel/rendezvous.h"
#include "millrace/run_metadata.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

class CostModel;
class ResourceManager;
class ThreadPool;
struct StepHost;

// The part of a compiled step that one worker runs: all nodes that were placed on the devices of its task.
struct PartitionSpec {
  // On a stateful node whose outputs the client fetches: tensors that it offers are kept by the session.
  static constexpr std::string_view kFetchedAttr = "_fetched";

  std::unique_ptr<Graph> graph;
  bool bfloat16_transfers = false;  // see PartitionOptions
  // A prefix of the names of kept state: nodes of different functions may have the same name.
  std::string scope = {};
};

// The data of a step that is sent to a worker behind a connection.
struct StepInfo {
  int64_t step_id = 0;
  // Its partitions run on several tasks, which share the rendezvous of that id.
  bool several_tasks = false;
  bool trace = false;               // statistics of the nodes are collected
  bool report_allocations = false;  // of a traced step: errors for lack of memory list its nodes
  int64_t timeout_in_ms = 0;        // of the whole step; 0: none
  int call_depth = 0;               // function calls in progress around this one in this task
  int calls_elsewhere = 0;          // and those in progress in the task that started it
  // For a step with collective operations: the id that its members share (0: step_id), and the task that
  // leads their groups (empty: this one).
  int64_t collective_step = 0;
  std::string_view collective_leader = {};
  int64_t collective_id() const { return collective_step != 0 ? collective_step : step_id; }
};

// The arguments of a step for the workers: data to be sent, and objects that only a worker of this process
// can use. Feeds and fetches are sent in messages, by slot. Everything is borrowed until the step is done.
struct StepArgs {
  StepArgs() {}  // written out: see StepServices

  StepInfo info = {};
  std::span<const Tensor* const> args = {};     // by feed slot
  std::span<Tensor> rets = {};                  // by fetch slot
  CancellationManager* cancellation = nullptr;  // never null
  ThreadPool* inter_op_pool = nullptr;          // null: nodes run one after the other
  ThreadPool* intra_op_pool = nullptr;          // null: kernels use one thread
  RunMetadata* metadata = nullptr;              // null unless info.trace; each worker has its own
  ResourceManager* step_resources = nullptr;    // of this step alone: tensor arrays, stacks; null: the task's
  Rendezvous* rendezvous = nullptr;             // null: the workers make one when they need it
  const StepHost* host = nullptr;               // for a call: the services of the step around it
  std::string_view function = {};               // of a call
  // Whether Run may return before `done` is called. Then it copies the arguments that it needs.
  bool detached = false;
  bool* cleaned_up = nullptr;  // set before `done` by a worker that has dropped its state of the step itself
};

// A partition that a worker has installed with its kernels. Destroying it removes it. Thread-safe.
class InstalledPartition {
 public:
  using Done = UniqueFunction<void(Status)>;
  virtual ~InstalledPartition() = default;
  // Runs one step and calls `done` once, when nothing of it runs any more; a worker of this process does both
  // on the calling thread, unless args.detached. Cancelling args.cancellation aborts the step.
  virtual void Run(StepArgs& args, Done done) = 0;
  // Whether a detached Run is known to block the calling thread for only some microseconds.
  virtual bool is_brief() const { return false; }
  // Nodes per device after the last pass, for RunMetadata; for another process, as they were sent there.
  virtual std::vector<std::string> SerializedGraphs() const = 0;
  // Appends the same nodes with their costs.
  virtual void AppendCosts(const CostModel& model, std::vector<CostNode>* nodes) const = 0;
};

// A task that can run partitions: in this process, or behind a connection. Callbacks are called once, with no
// lock held, possibly before the call returns. Thread-safe.
class Worker {
 public:
  using Done = UniqueFunction<void(Status)>;
  using Installed = UniqueFunction<void(StatusOr<std::unique_ptr<InstalledPartition>>)>;

  virtual ~Worker() = default;
  // "/job:…/replica:…/task:…": the key of its partitions.
  virtual const std::string& task() const = 0;
  // The devices of the task.
  virtual const DeviceView& devices() const = 0;
  // Whether partitions run in this process, with the pools and on the thread of the caller.
  virtual bool in_process() const = 0;
  virtual void InstallAsync(PartitionSpec spec, Installed done) = 0;
  // A tensor that the step sends under `key` from a device of this task, once it is available.
  virtual void RecvTensor(int64_t step_id, const Rendezvous::Key& key, Rendezvous::RecvDone done) = 0;
  // Drops the task's state of a step of several tasks, which has ended on all of them.
  virtual void CleanUpStep(int64_t step_id, Done done) = 0;
  // Drops the resources of the named containers, of all when none is named.
  virtual void ClearContainers(std::vector<std::string> containers, Done done) = 0;

  // InstallAsync, and waits.
  StatusOr<std::unique_ptr<InstalledPartition>> Install(PartitionSpec spec);
};

// A unique step id: random, with the bits that TensorFlow's tasks expect, above 0.
class StepIds {
 public:
  StepIds();
  // Not thread-safe.
  int64_t Next();
  // From a generator that all threads share.
  static int64_t NextShared();

 private:
  uint64_t state_;
};

}  // namespace millrace
