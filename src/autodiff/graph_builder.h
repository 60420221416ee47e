// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/shape_refiner.h"
#include "millrace/output.h"
#include "millrace/status.h"

namespace millrace {

// An input argument of an op: a tensor, or for a list argument any number of them.
struct InputArg {
  std::vector<Output> tensors;
  bool is_list = false;
};

// Infers from the inputs the attributes that they determine (types, counts) and that `attrs` does not have
// yet. InvalidArgument naming the argument when the inputs do not fit the op. Reference inputs count as their
// base type.
Status InferInputAttrs(const OpDef& op, std::span<const InputArg> inputs, AttrMap* attrs);

// Adds one node with its inputs; attributes missing in `attrs` are inferred, shapes checked. On error the
// graph is unchanged. REQUIRES: the inputs are tensors of this graph that are in `shapes`; the name is
// new.
StatusOr<Node*> AddCheckedNode(Graph& graph, ShapeRefiner& shapes, std::string_view name, std::string_view op,
                               std::span<const InputArg> inputs, AttrMap attrs, std::string_view device);

// Adds nodes to a graph under a name scope and a device, with inferred attributes and checked shapes. After
// the first error, which is kept, nothing is added and everything returned is unset. One thread.
class GraphBuilder {
 public:
  // Both must outlive the builder. The nodes that are used as inputs should be known to `shapes`.
  GraphBuilder(Graph& graph, ShapeRefiner& shapes) : graph_(graph), shapes_(shapes) {}
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  // Where the next nodes go: names are `scope`/<op name>, made unique. They are colocated with nothing.
  void SetScope(std::string scope, std::string device) {
    scope_ = std::move(scope);
    device_ = std::move(device);
    colocation_.clear();
  }
  const std::string& scope() const { return scope_; }
  const std::string& device() const { return device_; }
  // The attribute "_class" of the next nodes, up to the next SetScope: "loc:@name", …
  void SetColocation(std::vector<std::string> classes) { colocation_ = std::move(classes); }
  const std::vector<std::string>& colocation() const { return colocation_; }
  // Nodes are named as TensorFlow's Python client names those of its functions: "mul", "truediv",
  // "zeros_like".
  void UsePythonNames() { python_names_ = true; }

  // The frame of the next nodes: those without inputs run after the pivot (null: at any time); all of them
  // are appended to `added` (null: to nothing).
  struct Place {
    std::vector<Node*>* added = nullptr;
    Node* pivot = nullptr;
  };
  void SetPlace(const Place& place) { place_ = place; }
  const Place& place() const { return place_; }
  // Takes over the nodes with ids from `first_id` on, which were added to the graph by other means, as if
  // they had been added here. The client may hold references to them, so they are never removed.
  void AdoptFrom(int first_id);
  bool HasAdopted() const { return !adopted_.empty(); }
  bool IsAdopted(const Node* node) const { return adopted_.contains(node); }

  // Null after an error. `name` replaces the op name as the last part of the node's name.
  Node* Add(std::string_view op, std::vector<InputArg> inputs, AttrMap attrs = {},
            std::string_view name = {});
  Output Constant(Tensor value, std::string_view name = {});

  // The static shape of a tensor; unknown for an unset one.
  PartialShape ShapeOf(Output tensor) const;
  // The value of a tensor if it is known from the graph alone.
  StatusOr<Tensor> ValueOf(Output tensor) const;

  const Status& status() const { return status_; }
  void Fail(const Status& error) { status_.Update(error); }

  Graph& graph() const { return graph_; }
  ShapeRefiner& shapes() const { return shapes_; }

 private:
  StatusOr<Node*> TryAdd(std::string_view op, const std::vector<InputArg>& inputs, AttrMap attrs,
                         std::string_view name);

  Graph& graph_;
  ShapeRefiner& shapes_;
  std::string scope_;
  std::string device_;
  std::vector<std::string> colocation_;
  bool python_names_ = false;
  Place place_;
  std::unordered_set<const Node*> adopted_;
  Status status_;
};

}  // namespace millrace
