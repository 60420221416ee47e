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

// A thread pool for nodes, which a Run can select.
struct InterOpPool {
  int num_threads = 0;  // 0: inter_op_parallelism_threads
  std::string
      global_name;  // sessions of the process that use one name share the threads; "": the session's own
};

// Options of a session; with GraphOptions the supported fields of TensorFlow's ConfigProto.
struct SessionOptions : GraphOptions {
  std::string target;                       // "": in this process
  std::map<std::string, int> device_count;  // by type, {"CPU", 2}
  int intra_op_parallelism_threads = 0;     // threads within a kernel; 0: number of cores
  int inter_op_parallelism_threads = 0;     // nodes at the same time; 0: number of cores
  bool use_per_session_threads = false;     // otherwise sessions with equal numbers share them
  std::vector<InterOpPool> inter_op_pools;  // if not empty, Runs use these, by index, for their nodes
  // Unless empty: only devices that match one of these partial names, and the first CPU of this task.
  std::vector<std::string> device_filters;
  // > 0: CPUs use a BFC allocator with this limit, shared by all sessions with the same limit. 0: from the
  // environment: TF_CPU_ALLOCATOR_USE_BFC=true, TF_CPU_BFC_MEM_LIMIT_IN_MB (65536).
  int64_t cpu_bfc_limit_bytes = 0;
  bool infer_shapes = false;            // nodes get the attribute _output_shapes, if shapes are known
  bool place_pruned_graph = false;      // place when a step is compiled, not when the graph is created
  int64_t operation_timeout_in_ms = 0;  // for a Run without a timeout; 0: none
  // > 0: this interval of Runs of a signature, after the first build_cost_model_after, is measured for the
  // cost model, and a measured Run sets RunMetadata::cost_graph.
  int64_t build_cost_model = 0;
  int64_t build_cost_model_after = 0;
  bool isolate_session_state = false;  // on a cluster: no other session sees its variables
  // The ConfigProto that FromProto read, for a remote master; fields above take precedence.
  std::string config;

  // Unimplemented, with the field's name, for unsupported values.
  static StatusOr<SessionOptions> FromProto(const tensorflow::ConfigProto& config);
};

// Options of one Run.
struct RunOptions {
  enum class TraceLevel { kNone = 0, kSoftware = 1, kHardware = 2, kFull = 3 };
  TraceLevel trace_level = TraceLevel::kNone;
  int64_t timeout_in_ms = 0;  // 0: the timeout of the session
  // Index in SessionOptions::inter_op_pools; -1: nodes run on the thread that calls Run.
  int inter_op_thread_pool = 0;
  bool output_partition_graphs = false;
  // An out-of-memory error lists the memory of the step's nodes. The step runs with tracing.
  bool report_tensor_allocations_upon_oom = false;
  // Tensors that are written to files. If not empty, the step is compiled for this Run only, without passes
  // that change it. Not supported on a cluster.
  std::vector<DebugWatch> debug_watches{};

  // Unimplemented, with the field's name, for unsupported values.
  static StatusOr<RunOptions> FromProto(const tensorflow::RunOptions& proto);
};

// The feeds, fetches and targets of a callable: tensors by name, in order.
struct CallableOptions {
  std::vector<std::string> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  RunOptions run_options;
  // In the callable, consumers of tensor `to` get tensor `from` instead, as if it were fed.
  struct TensorConnection {
    std::string from;
    std::string to;
    friend bool operator==(const TensorConnection&, const TensorConnection&) = default;
  };
  std::vector<TensorConnection> tensor_connections = {};
  // By tensor: the device whose memory holds a fed or fetched value. Only for a session of this process, and
  // only CPUs. fetch_devices needs fetch_skip_sync.
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

  // Sets the graph of the session. AlreadyExists if it has one.
  virtual Status Create(const tensorflow::GraphDef& graph) = 0;
  // Adds nodes; their names must be new. The first Extend is a Create.
  virtual Status Extend(const tensorflow::GraphDef& graph) = 0;
  // The same with a GraphDef that is moved: a session in this process takes ownership of the memory of large
  // constants instead of copying them.
  virtual Status Create(tensorflow::GraphDef&& graph);
  virtual Status Extend(tensorflow::GraphDef&& graph);
  // Adds the nodes of `graph` that the session does not have yet: those whose ids are above the ids of
  // earlier calls.
  virtual Status ExtendFrom(const Graph& graph) = 0;

  // Runs the nodes that fetches and targets need. outputs[i] is fetches[i]; unchanged on error. `outputs` and
  // `metadata` may be null. Error messages contain the name and op of the node.
  virtual Status Run(const RunOptions& options, const Feeds& feeds, const std::vector<std::string>& fetches,
                     const std::vector<std::string>& targets, std::vector<Tensor>* outputs,
                     RunMetadata* metadata) = 0;
  Status Run(const Feeds& feeds, const std::vector<std::string>& fetches,
             const std::vector<std::string>& targets, std::vector<Tensor>* outputs) {
    return Run(RunOptions(), feeds, fetches, targets, outputs, nullptr);
  }

  // A Run whose names are resolved once. Handles are not reused.
  virtual StatusOr<CallableHandle> MakeCallable(const CallableOptions& options) = 0;
  // InvalidArgument unless feeds.size() == options.feeds.size().
  virtual Status RunCallable(CallableHandle handle, std::span<const Tensor> feeds,
                             std::vector<Tensor>* outputs, RunMetadata* metadata) = 0;
  virtual Status ReleaseCallable(CallableHandle handle) = 0;

  // A partial run: one step that is fed and fetched in several calls. Setup names all feeds, fetches and
  // targets of the step, starts it and returns a handle; several may be in progress at once.
  virtual StatusOr<std::string> PRunSetup(const std::vector<std::string>& feeds,
                                          const std::vector<std::string>& fetches,
                                          const std::vector<std::string>& targets);
  // Feeds some of the feeds and waits for some of the fetches, each only once, at most for the session's
  // operation_timeout_in_ms. InvalidArgument, without effect, for names not in the setup, repeated ones,
  // fetches that cannot be computed yet, and unknown handles. Any other error ends the step; so do the last
  // feeds and fetches, which wait for its end.
  virtual Status PRun(const std::string& handle, const Feeds& feeds, const std::vector<std::string>& fetches,
                      std::vector<Tensor>* outputs);

  virtual StatusOr<std::vector<DeviceInfo>> ListDevices() = 0;
  // Cancels Runs in progress and refuses later ones: Cancelled "Session has been closed.". Idempotent.
  virtual Status Close() = 0;
  // Cancels the Runs in progress; later ones run. Does not wait.
  virtual void CancelSteps();
};

// Creates the session for options.target. NotFound if no factory accepts it.
StatusOr<std::unique_ptr<Session>> NewSession(const SessionOptions& options);
// Clears the named resource containers of `options.target` (all of them if none is named) and closes its
// sessions.
Status Reset(const SessionOptions& options, const std::vector<std::string>& containers);

}  // namespace millrace
