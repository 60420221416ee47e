// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/function_def_builder.h"
#include "millrace/session.h"
#include "millrace/tensor.h"
#include "op/attr_value.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {

// Builds GraphDefs for tests, node by node.
class DefBuilder {
 public:
  // Inputs are written as in a GraphDef: "x", "x:1", "^x". Returns the new node for further attributes.
  tensorflow::NodeDef* Add(const std::string& name, const std::string& op,
                           const std::vector<std::string>& inputs);
  tensorflow::NodeDef* Node(const std::string& name, const std::string& op,
                            const std::vector<std::string>& inputs, const AttrMap& attrs);
  // An op whose attr T is float.
  tensorflow::NodeDef* Float(const std::string& name, const std::string& op,
                             const std::vector<std::string>& inputs);
  tensorflow::NodeDef* Const(const std::string& name, const Tensor& value);
  tensorflow::NodeDef* Placeholder(const std::string& name,
                                   tensorflow::DataType dtype = tensorflow::DT_FLOAT);
  // A placeholder of known shape; -1 for unknown sizes.
  tensorflow::NodeDef* ShapedPlaceholder(const std::string& name, const std::vector<int64_t>& dims);
  // A float reference variable with that value, and "<name>/Assign" to be run first.
  void Variable(const std::string& name, float value);
  // A function of the library; the test fails if it is invalid.
  void Function(const FunctionBuilder& function);
  const tensorflow::GraphDef& def() const { return def_; }
  tensorflow::GraphDef* mutable_def() { return &def_; }

 private:
  tensorflow::GraphDef def_;
};

// A session with that graph; the test fails if it can't be created.
std::unique_ptr<Session> SessionWith(const DefBuilder& graph, const SessionOptions& options = {});

// Whether MILLRACE_DISABLE_PASSES is set, as by ./test --config=passes-off: tests of passes must be skipped
// then.
bool PassesAreOff();
// Whether MILLRACE_TEST_CONFIG spreads nodes over two CPUs or over tasks, as do ./test --config=two-cpus and
// cluster: tests of nodes on one device must be skipped then.
bool NodesAreSpread();
// Whether sessions have several tasks, as with ./test --config=cluster and cluster-grpc: errors name the task
// that they are from, and there are more devices.
bool InCluster();
// Whether nodes are also on devices of type FAKE: each value that leaves one is copied by its stream.
bool OnFakeDevices();
// The device for state that several functions share: a name identifies state on one device, and some of the
// configurations spread nodes by their own names. Empty in the other ones.
std::string DeviceOfSharedState();

}  // namespace millrace
