// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/simulated_cluster.h"

#include <algorithm>

#include "base/strings.h"
#include "device/device.h"
#include "distributed/cluster_tasks.h"
#include "distributed/device_message.h"
#include "distributed/remote_worker.h"
#include "distributed/tensor_message.h"
#include "millrace/tensor.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

constexpr const char* kJob = "worker";

bool IsBroadcast(Method method) {
  return method == Method::kGetStatus || method == Method::kCreateWorkerSession ||
         method == Method::kRegisterGraph || method == Method::kRunGraph;
}

int NumberOf(const std::string& task) {
  const StatusOr<DeviceName> name = DeviceName::Parse(task);
  return name.ok() ? name->task.value_or(0) : 0;
}

MessageBytes ResponseTo(const RemoteCall& call) {
  if (call.method == Method::kGetStatus) {
    tensorflow::GetStatusResponse response;
    DeviceAttributes device;
    device.name = StrCat(call.task, "/device:CPU:0");
    device.type = "CPU";
    device.incarnation = static_cast<uint64_t>(NumberOf(call.task)) + 1;
    AttributesToProto(device, response.add_device_attributes());
    return MessageBytes::Of(response);
  }
  if (call.method == Method::kRegisterGraph) {
    tensorflow::RegisterGraphResponse response;
    response.set_graph_handle("graph");
    return MessageBytes::Of(response);
  }
  if (call.method == Method::kRunGraph) {
    tensorflow::RunGraphResponse response;
    response.set_cleaned_up(true);
    return MessageBytes::Of(response);
  }
  if (call.method != Method::kRecvTensor) return {};
  return TensorToResponse(Tensor::Scalar(static_cast<float>(NumberOf(call.task))), false, 1)
      .value_or(MessageBytes());
}

}  // namespace

SimulatedNetwork::SimulatedNetwork(const SimulatedNetworkOptions& options)
    : options_(options), watch_([this] { EndLateBroadcasts(); }) {}

SimulatedNetwork::~SimulatedNetwork() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
    stopping_.NotifyAll();
  }
  watch_.join();
}

void SimulatedNetwork::Start(RemoteCall call, Reply reply) {
  if (!IsBroadcast(call.method)) return reply(Status(), ResponseTo(call));
  std::vector<Held> complete;
  {
    MutexLock lock(mu_);
    if (held_.empty()) held_since_ = std::chrono::steady_clock::now();
    held_.push_back({std::move(call), std::move(reply)});
    if (held_.size() < static_cast<size_t>(options_.num_tasks)) return;
    complete.swap(held_);
  }
  Answer(std::move(complete));
}

void SimulatedNetwork::Answer(std::vector<Held> calls) {
  Broadcast broadcast{calls.front().call.method};
  broadcast.timeout_in_ms = calls.front().call.timeout_in_ms;
  std::vector<MessageBytes> responses;
  for (const Held& held : calls) {
    broadcast.bytes += static_cast<int64_t>(held.call.request.size());
    responses.push_back(ResponseTo(held.call));
    const int64_t timeout = held.call.timeout_in_ms;
    const bool bounded = broadcast.timeout_in_ms > 0 && timeout > 0;
    broadcast.timeout_in_ms = bounded ? std::max(broadcast.timeout_in_ms, timeout) : 0;
    // Requests are sent one after the other; the tasks work and answer independently.
    const double sent_us = static_cast<double>(broadcast.bytes) / options_.bytes_per_second * 1e6;
    const double back_us = static_cast<double>(responses.back().size()) / options_.bytes_per_second * 1e6;
    broadcast.network_us =
        std::max(broadcast.network_us, sent_us + options_.task_us + 2 * options_.latency_us + back_us);
  }
  {
    MutexLock lock(mu_);
    broadcasts_.push_back(broadcast);
  }
  for (size_t i = 0; i < calls.size(); ++i) calls[i].reply(Status(), std::move(responses[i]));
}

void SimulatedNetwork::EndLateBroadcasts() {
  const std::chrono::milliseconds patience(options_.patience_in_ms);
  mu_.Lock();
  while (!stopped_) {
    const auto now = std::chrono::steady_clock::now();
    if (held_.empty() || now < held_since_ + patience) {
      stopping_.WaitUntil(mu_, held_.empty() ? now + patience : held_since_ + patience);
      continue;
    }
    std::vector<Held> late;
    late.swap(held_);
    mu_.Unlock();
    for (Held& held : late) {
      held.reply(errors::DeadlineExceeded(MethodName(held.call.method), " has reached ", late.size(), " of ",
                                          options_.num_tasks, " tasks"),
                 {});
    }
    mu_.Lock();
  }
  mu_.Unlock();
}

std::vector<SimulatedNetwork::Broadcast> SimulatedNetwork::broadcasts() const {
  MutexLock lock(mu_);
  return broadcasts_;
}

StatusOr<std::unique_ptr<SimulatedCluster>> SimulatedCluster::Make(const SimulatedNetworkOptions& options) {
  std::unique_ptr<SimulatedCluster> made(new SimulatedCluster(options));
  Master::Environment master;
  master.task = TaskName("master", 0);
  MR_RETURN_IF_ERROR(master.cluster.AddTask("master", 0, "localhost:1"));
  for (int i = 0; i < options.num_tasks; ++i)
    MR_RETURN_IF_ERROR(master.cluster.AddTask(kJob, i, StrCat("host", i, ":2222")));
  DeviceOptions devices;
  devices.name_prefix = master.task;
  MR_ASSIGN_OR_RETURN(auto own, DeviceFactoryRegistry::Global().CreateDevices(devices));
  master.devices = std::make_shared<LocalDevices>(std::move(own));
  master.steps = std::make_shared<TaskSteps>(
      master.task,
      [network = &made->network_](std::string_view from, int64_t step_id, const Rendezvous::Key& key,
                                  CancellationManager& cancellation, Rendezvous::RecvDone done) {
        RecvTensorFrom(*network, nullptr, from, step_id, key, &cancellation, std::move(done));
      });
  master.transport = &made->network_;
  master.session_creation_timeout_in_ms = options.patience_in_ms;
  made->master_ = std::make_unique<Master>(std::move(master));
  return made;
}

tensorflow::GraphDef SimulatedGraph(int num_tasks, int nodes_per_task) {
  tensorflow::GraphDef graph;
  const auto add = [&graph](std::string name, const char* op, int task) -> tensorflow::NodeDef& {
    tensorflow::NodeDef& node = *graph.add_node();
    node.set_name(std::move(name));
    node.set_op(op);
    node.set_device(StrCat(TaskName(kJob, task), "/device:CPU:0"));
    return node;
  };
  for (int i = 0; i < num_tasks; ++i) {
    add(StrCat("empty", i), "NoOp", i);
    for (int k = 0; k < nodes_per_task; ++k) {
      tensorflow::NodeDef& node = add(StrCat("node", i, "_", k),
                                      k == 0   ? "VariableV2"
                                      : k == 1 ? "Add"
                                               : "Tanh",
                                      i);
      (*node.mutable_attr())[k == 0 ? "dtype" : "T"].set_type(tensorflow::DT_FLOAT);
      if (k == 0) (*node.mutable_attr())["shape"].mutable_shape();
      if (k > 0) node.add_input(StrCat("node", i, "_", k - 1));
      if (k == 1) node.add_input(StrCat("node", (i + num_tasks - 1) % num_tasks, "_0"));
    }
  }
  return graph;
}

}  // namespace millrace
