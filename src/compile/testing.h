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

// Computes float scalars node by node: the naive reference for what passes may change. Placeholder
// and _Arg take their values from `feeds` by node name and index. Results by "name:output"; _Retval by
// "retval:index".
StatusOr<std::map<std::string, float>> Interpret(const Graph& graph,
                                                 const std::map<std::string, float>& feeds);

// The same for the parts of a graph, between which _Send and _Recv hand over what they name alike. An error
// when nothing more can run although not everything has.
StatusOr<std::map<std::string, float>> InterpretParts(const std::vector<const Graph*>& parts,
                                                      const std::map<std::string, float>& feeds);

// Evaluates with Interpret, and keeps what it was asked.
class FakeEvaluator : public ConstantEvaluator {
 public:
  StatusOr<std::vector<Tensor>> Evaluate(std::unique_ptr<Graph> graph, int num_outputs) override;
  int calls = 0;
  std::string last_graph;
  Status error;  // returned instead of values when set
};

}  // namespace millrace
