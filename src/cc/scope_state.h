// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"
#include "graph/shape_refiner.h"
#include "millrace/scope.h"
#include "op/op_registry.h"

namespace millrace {

// A variable in a graph: the node that holds it, the op that gives it its first value, and a tensor to read.
struct VariableRecord {
  Output ref;
  Output value;
  Operation initializer;
  bool trainable = true;
};

// What all scopes of one graph share.
struct [[gnu::visibility("hidden")]] Scope::State {
  State() : graph(OpRegistry::Global()), shapes(graph) {}

  // `wanted`, or `wanted`_1, … : the first name that neither a node nor a scope has.
  std::string UniqueName(const std::string& wanted);
  bool IsTaken(const std::string& name) const {
    return graph.FindNode(name) != nullptr || scope_names.contains(name);
  }

  Graph graph;
  ShapeRefiner shapes;
  Status status;
  std::unordered_set<std::string> scope_names;
  std::unordered_map<std::string, int> name_counters;
  std::vector<VariableRecord> variables;  // in the order of their making
};

// True for "a", "a_1", "layer/w.x-y": what TensorFlow accepts as the name of a node.
bool IsValidNodeName(std::string_view name);

}  // namespace millrace
