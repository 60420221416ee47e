// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/debug_watch.h"
#include "millrace/graph_options.h"
#include "millrace/run_metadata.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace tensorflow {
class CallableOptions;
class ConfigProto;
class GraphDef;
class RunOptions;
}  // namespace tensorflow

namespace millrace {

class Graph;

// Threads for nodes, that a Run can ask for.
struct InterOpPool {
  int num_threads = 0;  // 0: as inter_op_parallelism_threads says
  std::string
      global_name;  // sessions of the process that use one name share the threads; "": the session's own
};

// How a session is set up; with GraphOptions the fields of TensorFlow's ConfigProto that this engine honours.
struct SessionOptions : GraphOptions {
  std::string target;                       // "": in this process
  std::map<std::string, int> device_count;  // by type, {"CPU", 2}
  int intra_op_parallelism_threads = 0;     // threads within a kernel; 0: as many as there are cores
  int inter_op_parallelism_threads = 0;     // nodes at the same time; 0: as many as there are cores
  bool use_per_session_threads = false;     // otherwise sessions with as many threads share them
  std::vector<InterOpPool> inter_op_pools;  // when there are any, Runs use these, by index, for their nodes
  // Unless empty: only devices that one of these partial names describes, and the first CPU of this task.
  std::vector<std::string> device_filters;
  // > 0: CPUs allocate with a BFC allocator of that limit, which all sessions with the same limit share. 0:
  // as the environment says: TF_CPU_ALLOCATOR_USE_BFC=true, TF_CPU_BFC_MEM_LIMIT_IN_MB (65536).
  int64_t cpu_bfc_limit_bytes = 0;
  bool infer_shapes = false;            // nodes get the attribute _output_shapes, as far as shapes are known
  bool place_pruned_graph = false;      // place when a step is compiled, not when the graph is created
  int64_t operation_timeout_in_ms = 0;  // of a Run that names no timeout; 0: none
  // > 0: every so many Runs of a signature, after the first build_cost_model_after, a Run is measured for the
  // cost model and gives RunMetadata::cost_graph.
  int64_t build_cost_model = 0;
  int64_t build_cost_model_after = 0;
  bool isolate_session_state = false;  // of a session on a cluster: no other session sees its variables
  // The ConfigProto that FromProto read, which a remote master is told; fields above win.
  std::string config;

  // Unimplemented, naming the field, for what can't be honoured.
  static StatusOr<SessionOptions> FromProto(const tensorflow::ConfigProto& config);
};

// Options of one Run.
struct RunOptions {
  enum class TraceLevel { kNone = 0, kSoftware = 1, kHardware = 2, kFull = 3 };
  TraceLevel trace_level = TraceLevel::kNone;
  int64_t timeout_in_ms = 0;  // 0: the session's
  // Index in SessionOptions::inter_op_pools; -1: nodes run on the thread that calls Run.
  int inter_op_thread_pool = 0;
  bool output_partition_graphs = false;
  // An error for lack of memory lists what the nodes of the step hold. The step runs as if it were traced.
  bool report_tensor_allocations_upon_oom = false;
  // What is written to files meanwhile. Not empty: the step is compiled for this Run alone, without passes
  // that change it. Not in a session on a cluster.
  std::vector<DebugWatch> debug_watches{};

  // Unimplemented, naming the field, for what can't be honoured.
  static StatusOr<RunOptions> FromProto(const tensorflow::RunOptions& proto);
};

// What a callable takes and gives: tensors by name, in order.
struct CallableOptions {
  std::vector<std::string> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  RunOptions run_options;
  // In the callable, what reads tensor `to` gets tensor `from` instead, as if that were fed.
  struct TensorConnection {
    std::string from;
    std::string to;
    friend bool operator==(const TensorConnection&, const TensorConnection&) = default;
  };
  std::vector<TensorConnection> tensor_connections = {};
  // By tensor: the device in whose memory a fed or fetched value is. Only in a session of this process, and
  // only CPUs there. fetch_devices needs fetch_skip_sync.
  std::map<std::string, std::string> feed_devices = {};
  std::map<std::string, std::string> fetch_devices = {};
  bool fetch_skip_sync = false;

  // Errors of RunOptions::FromProto.
  static StatusOr<CallableOptions> FromProto(const tensorflow::CallableOptions& proto);
};

struct DeviceInfo {
  std::string name;
  std::string type;
  int64_t memory_limit = 0;
  uint64_t incarnation = 0;
};

// A connection to an engine that holds a graph and its state. Thread-safe: many Runs may be in progress at
// once. Names: "node:output" or "node" (output 0) for feeds and fetches, "node" for targets.
class Session {
 public:
  using Feeds = std::vector<std::pair<std::string, Tensor>>;
  using CallableHandle = int64_t;

  virtual ~Session() = default;

  // Gives the session its graph. AlreadyExists when it has one.
  virtual Status Create(const tensorflow::GraphDef& graph) = 0;
  // Adds nodes; their names must be new. The first Extend is a Create.
  virtual Status Extend(const tensorflow::GraphDef& graph) = 0;
  // The same, of a GraphDef that the caller gives away: a session in this process takes the memory of large
  // constants over instead of copying them.
  virtual Status Create(tensorflow::GraphDef&& graph);
  virtual Status Extend(tensorflow::GraphDef&& graph);
  // Adds the nodes of `graph` that the session does not have yet: those with id >= what earlier calls have
  // seen.
  virtual Status ExtendFrom(const Graph& graph) = 0;

  // Runs what the fetches and targets need. outputs[i] is fetches[i]; unchanged on error. `outputs` and
  // `metadata` may be null. Error texts name the node and op at fault.
  virtual Status Run(const RunOptions& options, const Feeds& feeds, const std::vector<std::string>& fetches,
                     const std::vector<std::string>& targets, std::vector<Tensor>* outputs,
                     RunMetadata* metadata) = 0;
  Status Run(const Feeds& feeds, const std::vector<std::string>& fetches,
             const std::vector<std::string>& targets, std::vector<Tensor>* outputs) {
    return Run(RunOptions(), feeds, fetches, targets, outputs, nullptr);
  }

  // A Run whose names are looked up once. Handles are never used twice.
  virtual StatusOr<CallableHandle> MakeCallable(const CallableOptions& options) = 0;
  // REQUIRES of the caller: feeds.size() == options.feeds.size() (InvalidArgument otherwise).
  virtual Status RunCallable(CallableHandle handle, std::span<const Tensor> feeds,
                             std::vector<Tensor>* outputs, RunMetadata* metadata) = 0;
  virtual Status ReleaseCallable(CallableHandle handle) = 0;

  // A partial run: one step that is fed and fetched in several calls. Setup names all feeds, fetches and
  // targets of the step, starts it and gives a handle; several may be in progress at once.
  virtual StatusOr<std::string> PRunSetup(const std::vector<std::string>& feeds,
                                          const std::vector<std::string>& fetches,
                                          const std::vector<std::string>& targets);
  // Feeds some of the feeds and waits for some of the fetches, each once, at most for the session's
  // operation_timeout_in_ms. InvalidArgument, and no change, for what was not named, comes twice or can't be
  // computed yet, and for unknown handles. Any other error ends the step, as do the last feeds and fetches,
  // which wait for its end.
  virtual Status PRun(const std::string& handle, const Feeds& feeds, const std::vector<std::string>& fetches,
                      std::vector<Tensor>* outputs);

  virtual StatusOr<std::vector<DeviceInfo>> ListDevices() = 0;
  // Cancels Runs in progress and refuses later ones: Cancelled "Session has been closed.". Idempotent.
  virtual Status Close() = 0;
  // Runs in progress end with Cancelled; later ones run. Does not wait.
  virtual void CancelSteps();
};

// Makes a session of the kind that options.target asks for. NotFound when no factory accepts it.
StatusOr<std::unique_ptr<Session>> NewSession(const SessionOptions& options);
// Clears the named resource containers of `options.target` (all of them when none is named) and closes its
// sessions.
Status Reset(const SessionOptions& options, const std::vector<std::string>& containers);

}  // namespace millrace
