// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/session/def_builder.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "op/attr_codec.h"
#include "tensor/tensor_codec.h"

namespace millrace {

tensorflow::NodeDef* DefBuilder::Add(const std::string& name, const std::string& op,
                                     const std::vector<std::string>& inputs) {
  tensorflow::NodeDef* node = def_.add_node();
  node->set_name(name);
  node->set_op(op);
  for (const std::string& input : inputs) node->add_input(input);
  return node;
}

tensorflow::NodeDef* DefBuilder::Node(const std::string& name, const std::string& op,
                                      const std::vector<std::string>& inputs, const AttrMap& attrs) {
  tensorflow::NodeDef* node = Add(name, op, inputs);
  AttrMapToProto(attrs, node->mutable_attr());
  return node;
}

tensorflow::NodeDef* DefBuilder::Float(const std::string& name, const std::string& op,
                                       const std::vector<std::string>& inputs) {
  tensorflow::NodeDef* node = Add(name, op, inputs);
  (*node->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  return node;
}

tensorflow::NodeDef* DefBuilder::Const(const std::string& name, const Tensor& value) {
  tensorflow::NodeDef* node = Add(name, "Const", {});
  (*node->mutable_attr())["dtype"].set_type(static_cast<tensorflow::DataType>(value.dtype()));
  TensorToProto(value, (*node->mutable_attr())["value"].mutable_tensor());
  return node;
}

tensorflow::NodeDef* DefBuilder::Placeholder(const std::string& name, tensorflow::DataType dtype) {
  tensorflow::NodeDef* node = Add(name, "Placeholder", {});
  (*node->mutable_attr())["dtype"].set_type(dtype);
  (*node->mutable_attr())["shape"].mutable_shape()->set_unknown_rank(true);
  return node;
}

tensorflow::NodeDef* DefBuilder::ShapedPlaceholder(const std::string& name,
                                                   const std::vector<int64_t>& dims) {
  tensorflow::NodeDef* node = Placeholder(name);
  auto* shape = (*node->mutable_attr())["shape"].mutable_shape();
  shape->set_unknown_rank(false);
  for (const int64_t d : dims) shape->add_dim()->set_size(d);
  return node;
}

void DefBuilder::Variable(const std::string& name, float value) {
  tensorflow::NodeDef* node = Add(name, "VariableV2", {});
  (*node->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  (*node->mutable_attr())["shape"].mutable_shape();
  Const(name + "/initial_value", Tensor::Scalar(value));
  Float(name + "/Assign", "Assign", {name, name + "/initial_value"});
}

void DefBuilder::Function(const FunctionBuilder& function) {
  const Status status = function.Build(def_.mutable_library()->add_function());
  EXPECT_TRUE(status.ok()) << status;
}

std::unique_ptr<Session> SessionWith(const DefBuilder& graph, const SessionOptions& options) {
  auto session = NewSession(options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return nullptr;
  const Status created = (*session)->Create(graph.def());
  EXPECT_TRUE(created.ok()) << created;
  return *std::move(session);
}

bool PassesAreOff() { return std::getenv("MILLRACE_DISABLE_PASSES") != nullptr; }

bool NodesAreSpread() {
  const char* config = std::getenv("MILLRACE_TEST_CONFIG");
  if (config == nullptr) return false;
  const std::string_view items = config;
  return InCluster() || items.find("two_cpus") != items.npos || items.find("device") != items.npos;
}

bool OnFakeDevices() {
  const char* config = std::getenv("MILLRACE_TEST_CONFIG");
  return config != nullptr && std::string_view(config).find("device") != std::string_view::npos;
}

std::string DeviceOfSharedState() { return OnFakeDevices() ? "/cpu:0" : ""; }

bool InCluster() {
  const char* config = std::getenv("MILLRACE_TEST_CONFIG");
  return config != nullptr && std::string_view(config).find("cluster") != std::string_view::npos;
}

}  // namespace millrace
