// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A cluster of two tasks, here in one process: the variable lives on the parameter server, the worker trains.
#include <iostream>

#include "millrace/client_session.h"
#include "millrace/cluster.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "millrace/replicas.h"

namespace mr = millrace;
namespace ops = millrace::ops;

mr::Status Run() {
  // Each task knows the addresses of all. Elsewhere these are programs on other machines, each with
  // Server::Make for its own task; the port 0 stands for a free one.
  mr::ServerOptions options;
  MR_ASSIGN_OR_RETURN(options.cluster, mr::ClusterSpec::Parse("ps=localhost:0,worker=localhost:0"));
  MR_ASSIGN_OR_RETURN(const auto servers, mr::Server::MakeAll(options));
  for (const auto& server : servers) {
    MR_RETURN_IF_ERROR(server->Start());
    std::cout << "started " << server->task() << '\n';
  }

  // The function chooses the device of each node: variables go to the parameter servers.
  const mr::Scope scope = mr::Scope::NewRootScope().WithDeviceFunction(
      mr::ReplicaDeviceSetter({.ps_tasks = 1, .worker_device = "/job:worker/task:0"}));
  const mr::GraphVariable w(scope.WithOpName("w"), 0.f);
  const mr::Output loss = ops::SquaredDifference(scope, w, 2.f);
  const mr::Operation train = mr::GradientDescentOptimizer(0.25f).Minimize(scope, loss);
  const mr::Operation init = mr::GlobalVariablesInitializer(scope);

  // The worker is the master of this session. A step that needs a task which is gone ends with Unavailable.
  mr::SessionOptions session_options;
  session_options.target = servers[1]->target();
  const mr::ClientSession session(scope, session_options);
  std::vector<mr::Tensor> outputs;
  MR_RETURN_IF_ERROR(session.Run({}, {}, {init}, nullptr));
  for (int step = 0; step < 3; ++step) {
    MR_RETURN_IF_ERROR(session.Run({}, {}, {train}, nullptr));
    MR_RETURN_IF_ERROR(session.Run({w}, &outputs));
    std::cout << "w = " << outputs[0] << '\n';
  }
  // The trace of a step says where its nodes ran.
  mr::RunMetadata metadata;
  MR_RETURN_IF_ERROR(
      session.Run({.trace_level = mr::RunOptions::TraceLevel::kFull}, {}, {loss}, {}, &outputs, &metadata));
  for (const mr::DeviceStats& device : metadata.devices) {
    for (const mr::NodeStats& node : device.nodes)
      if (node.node == "w" || node.node == "SquaredDifference")
        std::cout << node.node << " ran on " << device.device << '\n';
  }
  return mr::Status();
}

int main() {
  const mr::Status status = Run();
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
