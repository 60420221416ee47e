// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compile/optimize/constant_evaluator.h"
#include "compile/place/placer.h"
#include "device/device.h"
#include "graph/graph.h"

namespace millrace {

// "/job:a/replica:0/task:T/device:TYPE:N" for each "T/TYPE:N".
std::unique_ptr<DeviceSet> FakeDevices(const std::vector<std::string>& devices);
std::string FakeDeviceName(std::string_view short_name);

// Every op of TestOps() has a CPU kernel, save GpuOnly; those in `gpu_ops` and GpuOnly have a GPU kernel.
HasKernelFn FakeKernels(std::vector<std::string> gpu_ops);

// Computes float scalars node by node: the naive reference for graphs that passes change. Placeholder and
// _Arg take their values from `feeds` by node name and index. Results by "name:output"; _Retval by
// "retval:index".
StatusOr<std::map<std::string, float>> Interpret(const Graph& graph,
                                                 const std::map<std::string, float>& feeds);

// The same for the partitions of a graph, in which _Send and _Recv transfer values by name. An error when
// nothing more can run although not all nodes have run.
StatusOr<std::map<std::string, float>> InterpretParts(const std::vector<const Graph*>& parts,
                                                      const std::map<std::string, float>& feeds);

// Evaluates with Interpret, and records the requests.
class FakeEvaluator : public ConstantEvaluator {
 public:
  StatusOr<std::vector<Tensor>> Evaluate(std::unique_ptr<Graph> graph, int num_outputs) override;
  int calls = 0;
  std::string last_graph;
  Status error;  // returned instead of values when set
};

}  // namespace millrace
