// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls that run something, always with a deadline.
#include <algorithm>

#include "tensorflow/core/protobuf/config.pb.h"
#include "tests/fuzz/c_api_world.h"

namespace millrace::c_api_fuzz {
namespace {

constexpr int kDeadlineMs = 20;

void NewSession(World& w) {
  TF_Graph* graph = w.in.Rarely() ? nullptr : w.AnyGraph();
  const TF_SessionOptions* options = w.options.Any(w.in);
  if (options == nullptr) return;  // the options of a session without any have no deadline
  w.sessions.Add(TF_NewSession(graph, options, w.status));
}

void Configure(World& w) {
  TF_SessionOptions* options = w.options.Any(w.in);
  if (w.in.Sometimes()) {
    std::string bytes = w.in.Raw(16);
    if (tensorflow::ConfigProto config; config.ParseFromString(bytes)) {
      config.set_operation_timeout_in_ms(kDeadlineMs);
      config.set_intra_op_parallelism_threads(2);
      config.set_inter_op_parallelism_threads(2);
      bytes = config.SerializeAsString();
    }
    return TF_SetConfig(options, bytes.data(), bytes.size(), w.status);
  }
  TF_SetTarget(options, w.in.Sometimes() ? w.AnyName() : "");
}

// The arrays of one call, with handles and names of the graph that most of it belongs to.
struct Step {
  explicit Step(World& w) : graph(w.AnyGraph()) {
    feeds = w.OutputsOf(graph, 3);
    fetches = w.OutputsOf(graph, 3);
    for (int n = w.in.Sometimes() ? w.in.Below(3) : 0; n > 0; --n) targets.push_back(w.OutputOf(graph).oper);
    values = w.AnyTensors(feeds.size());
    fetched.resize(std::max<size_t>(fetches.size(), 1));
    for (const TF_Output& feed : feeds) feed_names.push_back(TF_OperationName(feed.oper));
    for (const TF_Output& fetch : fetches) fetch_names.push_back(TF_OperationName(fetch.oper));
    for (const TF_Operation* op : targets) {
      target_names.push_back(TF_OperationName(const_cast<TF_Operation*>(op)));
    }
  }
  void Keep(World& w) {
    for (TF_Tensor* tensor : fetched) w.tensors.Add(tensor);
  }
  int num_feeds() const { return static_cast<int>(feeds.size()); }
  int num_fetches() const { return static_cast<int>(fetches.size()); }
  int num_targets() const { return static_cast<int>(targets.size()); }

  TF_Graph* graph;
  std::vector<TF_Output> feeds, fetches;
  std::vector<const TF_Operation*> targets;
  std::vector<TF_Tensor*> values, fetched;
  std::vector<const char*> feed_names, fetch_names, target_names;
};

void Run(World& w) {
  Step step(w);
  TF_SessionRun(w.sessions.Any(w.in), nullptr, step.feeds.data(), step.values.data(), step.num_feeds(),
                step.fetches.data(), step.fetched.data(), step.num_fetches(), step.targets.data(),
                step.num_targets(), nullptr, w.status);
  step.Keep(w);
}

// With options, including a deadline.
void RunWithOptions(World& w) {
  Step step(w);
  std::string bytes = w.in.Raw(12);
  if (tensorflow::RunOptions run; run.ParseFromString(bytes)) {
    run.set_timeout_in_ms(kDeadlineMs);
    bytes = run.SerializeAsString();
  }
  TF_Buffer* options = TF_NewBufferFromString(bytes.data(), bytes.size());
  TF_Buffer* metadata = w.in.Sometimes() ? nullptr : TF_NewBuffer();
  TF_SessionRun(w.sessions.Any(w.in), options, step.feeds.data(), step.values.data(), step.num_feeds(),
                step.fetches.data(), step.fetched.data(), step.num_fetches(), step.targets.data(),
                step.num_targets(), metadata, w.status);
  step.Keep(w);
  TF_DeleteBuffer(options);
  w.buffers.Add(metadata);
}

void PartialRun(World& w) {
  Step step(w);
  TF_Session* session = w.sessions.Any(w.in);
  if (w.handles.objects().empty() || w.in.Sometimes()) {
    const char* handle = nullptr;
    TF_SessionPRunSetup(session, step.feeds.data(), step.num_feeds(), step.fetches.data(), step.num_fetches(),
                        step.targets.data(), step.num_targets(), &handle, w.status);
    w.handles.Add(handle);
    if (handle == nullptr || w.in.Sometimes()) return;
    TF_SessionPRun(session, handle, step.feeds.data(), step.values.data(), step.num_feeds(),
                   step.fetches.data(), step.fetched.data(), step.num_fetches(), step.targets.data(),
                   step.num_targets(), w.status);
  } else {
    TF_SessionPRun(session, w.handles.Any(w.in), step.feeds.data(), step.values.data(), step.num_feeds(),
                   step.fetches.data(), step.fetched.data(), step.num_fetches(), step.targets.data(),
                   step.num_targets(), w.status);
  }
  step.Keep(w);
}

void EndSession(World& w) {
  if (w.in.Sometimes()) return TF_CloseSession(w.sessions.Any(w.in), w.status);
  if (w.in.Sometimes()) TF_DeleteSession(w.sessions.TakeAny(w.in), w.status);
}

void ListDevices(World& w) {
  TF_DeviceList* list = w.in.Sometimes() ? TF_DeprecatedSessionListDevices(w.deprecated.Any(w.in), w.status)
                                         : TF_SessionListDevices(w.sessions.Any(w.in), w.status);
  const int at = w.in.Below(4) - 1;
  TF_DeviceListCount(list);
  TF_DeviceListName(list, at, w.status), TF_DeviceListType(list, at, w.status);
  TF_DeviceListMemoryBytes(list, at, w.status), TF_DeviceListIncarnation(list, at, w.status);
  w.devices.Add(list);
}

void LoadModel(World& w) {
  const char* const tags[] = {"serve", w.AnyName()};
  w.sessions.Add(TF_LoadSessionFromSavedModel(w.options.Any(w.in), nullptr, "/nowhere", tags,
                                              w.in.Below(4) - 1, w.AnyGraph(), w.buffers.Any(w.in),
                                              w.status));
}

void ExtendDeprecated(World& w) {
  if (w.deprecated.objects().empty() || w.in.Rarely()) {
    const TF_SessionOptions* options = w.options.Any(w.in);
    if (options == nullptr) return;
    w.deprecated.Add(TF_NewDeprecatedSession(options, w.status));
  }
  TF_Buffer* def = TF_NewBuffer();
  TF_GraphToGraphDef(w.AnyGraph(), def, w.status);
  TF_ExtendGraph(w.deprecated.Any(w.in), def->data, def->length, w.status);
  w.buffers.Add(def);
}

void RunDeprecated(World& w) {
  Step step(w);
  TF_DeprecatedSession* session = w.deprecated.Any(w.in);
  if (w.in.Sometimes()) {
    const char* handle = nullptr;
    TF_PRunSetup(session, step.feed_names.data(), step.num_feeds(), step.fetch_names.data(),
                 step.num_fetches(), step.target_names.data(), step.num_targets(), &handle, w.status);
    TF_PRun(session, handle, step.feed_names.data(), step.values.data(), step.num_feeds(),
            step.fetch_names.data(), step.fetched.data(), step.num_fetches(), step.target_names.data(),
            step.num_targets(), w.status);
    w.handles.Add(handle);
  } else {
    TF_Run(session, nullptr, step.feed_names.data(), step.values.data(), step.num_feeds(),
           step.fetch_names.data(), step.fetched.data(), step.num_fetches(), step.target_names.data(),
           step.num_targets(), nullptr, w.status);
  }
  step.Keep(w);
  if (w.in.Rarely()) TF_CloseDeprecatedSession(session, w.status);
}

void ResetContainers(World& w) {
  const char* containers[] = {"", w.AnyName()};
  TF_Reset(w.options.Any(w.in), containers, w.in.Below(4) - 1, w.status);
}

}  // namespace

const std::vector<Call>& SessionCalls() {
  static const auto* const calls = new std::vector<Call>{{"NewSession", 6, NewSession},
                                                         {"Configure", 2, Configure},
                                                         {"Run", 40, Run},
                                                         {"RunWithOptions", 6, RunWithOptions},
                                                         {"PartialRun", 6, PartialRun},
                                                         {"EndSession", 3, EndSession},
                                                         {"ListDevices", 2, ListDevices},
                                                         {"LoadModel", 1, LoadModel},
                                                         {"ExtendDeprecated", 3, ExtendDeprecated},
                                                         {"RunDeprecated", 4, RunDeprecated},
                                                         {"ResetContainers", 1, ResetContainers}};
  return *calls;
}

}  // namespace millrace::c_api_fuzz
