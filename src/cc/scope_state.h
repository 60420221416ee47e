// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/shape_refiner.h"
#include "kernel/op_evaluator.h"
#include "millrace/meta_graph.h"
#include "millrace/scope.h"
#include "op/op_registry.h"

namespace millrace {

struct SaveSliceInfo;
class VariableStore;

// A variable in a graph: its node, the op that assigns its initial value, and a tensor to read.
struct VariableRecord {
  Output ref;  // or the handle of a resource variable
  Output value;
  Operation initializer;
  bool trainable = true;
  std::vector<std::string> collections = {"variables"};  // except that of the trainable ones
  std::shared_ptr<const SaveSliceInfo> slice = nullptr;  // null: not part of a partitioned variable

  bool IsIn(std::string_view collection) const {
    return std::find(collections.begin(), collections.end(), collection) != collections.end();
  }
};

// State shared by all scopes of one graph.
struct [[gnu::visibility("hidden")]] Scope::State {
  State() : State(std::make_unique<Graph>(OpRegistry::Global())) {}
  // Of a graph with another owner.
  State(Graph & g, ShapeRefiner & s) : graph(g), shapes(s) {}

  // `wanted`, or `wanted`_1, … : the first name that neither a node nor a scope has.
  std::string UniqueName(const std::string& wanted);
  bool IsTaken(const std::string& name) const {
    return graph.FindNode(name) != nullptr || scope_names.contains(name);
  }

  // InvalidArgument when `tensor` belongs to a loop that does not contain `by` (null: no context).
  Status CheckUse(const Output& tensor, const Scope::Context* by, const std::string& user) const;

  const std::unique_ptr<Graph> own_graph;
  const std::unique_ptr<ShapeRefiner> own_shapes;
  Graph& graph;
  ShapeRefiner& shapes;
  Status status;
  bool finalized = false;  // no node may be added any more
  // For the body of a function: brings in a tensor of the enclosing graph. Null: such tensors are errors.
  std::function<StatusOr<Output>(const Output&)> capture;
  std::unordered_set<std::string> scope_names;
  std::unordered_map<std::string, int> name_counters;
  std::vector<VariableRecord> variables;  // in the order of creation
  std::map<std::string, CollectionDef> collections;
  std::shared_ptr<VariableStore> variable_store;  // null: no variable scope was entered yet
  std::optional<int64_t> random_seed;
  // The branch or loop in which a node was made; others have none.
  std::unordered_map<const Node*, Scope::Context*> contexts;
  std::vector<std::shared_ptr<Scope::Context>> all_contexts;

 private:
  explicit State(std::unique_ptr<Graph> g)
      : own_graph(std::move(g)),
        own_shapes(std::make_unique<ShapeRefiner>(*own_graph, EvaluateOp)),
        graph(*own_graph),
        shapes(*own_shapes) {}
};

// True for "a", "a_1", "layer/w.x-y": the names of nodes that TensorFlow accepts.
bool IsValidNodeName(std::string_view name);

}  // namespace millrace
