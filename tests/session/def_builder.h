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

// Writes GraphDefs for tests, node by node.
class DefBuilder {
 public:
  // Inputs are spelled as in a GraphDef: "x", "x:1", "^x". Returns the new node for further attributes.
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
  // A float reference variable of that value, with "<name>/Assign" to run first.
  void Variable(const std::string& name, float value);
  // A function of the library; the test fails when it can't be written.
  void Function(const FunctionBuilder& function);
  const tensorflow::GraphDef& def() const { return def_; }

 private:
  tensorflow::GraphDef def_;
};

// A session with that graph; the test fails when it can't be made.
std::unique_ptr<Session> SessionWith(const DefBuilder& graph, const SessionOptions& options = {});

// Whether MILLRACE_DISABLE_PASSES is set, as ./test --config=passes-off does: what is about a pass can't be
// tested then.
bool PassesAreOff();
// Whether MILLRACE_TEST_CONFIG strews nodes over two CPUs or over tasks, as ./test --config=two-cpus and
// cluster do: what is about nodes on one device can't be tested then.
bool NodesAreStrewn();
// Whether it gives sessions several tasks, as ./test --config=cluster and cluster-grpc do: errors say from
// which task they are, and there are more devices.
bool InCluster();
// Nodes are also on devices of the type FAKE: each value that leaves one is copied by its stream.
bool OnFakeDevices();
// For state that several functions name: a name means the state of one device, and nodes are spread by their
// own names in some of the configurations. Empty where that is not so.
std::string DeviceOfSharedState();

}  // namespace millrace
