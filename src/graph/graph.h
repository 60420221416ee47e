// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/small_vector.h"
#include "graph/name_table.h"
#include "graph/stable_arena.h"
#include "millrace/dtype.h"
#include "millrace/status.h"
#include "op/node_props.h"
#include "op/op_registry.h"

namespace millrace {

class FunctionLibrary;
class Graph;
class Node;

// Output `index` of node `name`; -1 names the node itself, as a control input does.
struct TensorId {
  std::string_view name;
  int index = 0;
  friend bool operator==(const TensorId&, const TensorId&) = default;
  std::string ToString() const;  // "n:1", "n" for output 0, "^n" for a control input
};
// "n", "n:0", "^n"; a text without a valid index is taken as a whole as the name of output 0.
TensorId ParseTensorId(std::string_view text);

// One dependency. Owned by the graph.
struct Edge {
  static constexpr int kControlSlot = -1;
  Node* src = nullptr;
  Node* dst = nullptr;
  int src_output = kControlSlot;
  int dst_input = kControlSlot;
  int id = -1;
  // Positions in the lists of src and dst, kept by the graph so that an edge is removed in constant time.
  int out_pos = -1;
  int in_pos = -1;
  bool IsControl() const { return src_output == kControlSlot; }
};
// True for the edge that closes a loop: from a NextIteration into a Merge.
bool IsLoopBackEdge(const Edge& edge);

// An operation in a graph. Owned by the graph; its address is stable.
class Node {
 public:
  int id() const { return id_; }
  const std::string& name() const { return name_; }
  const std::string& op_name() const { return props_->op->def.name; }
  const OpDef& op_def() const { return props_->op->def; }
  const OpRegistration& op() const { return *props_->op; }
  const OpTraits& traits() const { return props_->op->traits; }
  const AttrMap& attrs() const { return props_->attrs; }
  const NodeProps& props() const { return *props_; }
  const std::shared_ptr<const NodeProps>& shared_props() const { return props_; }
  template <typename T>
  StatusOr<T> Attr(std::string_view name) const {
    auto value = props_->attrs.Get<T>(name);
    if (!value.ok()) return value.status().WithContext(StrCat("; node '", name_, "' (op ", op_name(), ")"));
    return value;
  }
  // Copies the attributes, so not for hot loops. A list of types that only gets longer adds inputs or outputs
  // to the node; otherwise types are not inferred again.
  void SetAttr(std::string_view name, AttrValue value);
  void EraseAttr(std::string_view name);

  int num_inputs() const { return static_cast<int>(props_->input_types.size()); }
  int num_outputs() const { return static_cast<int>(props_->output_types.size()); }
  DataType input_type(int i) const { return props_->input_types[i]; }
  DataType output_type(int i) const { return props_->output_types[i]; }

  // Data edges come first, by input slot (null until connected); control edges follow. Removing an edge may
  // move the last control or out edge to its place.
  std::span<Edge* const> in_edges() const { return in_edges_; }
  std::span<Edge* const> data_in_edges() const { return in_edges().first(num_inputs()); }
  std::span<Edge* const> control_in_edges() const { return in_edges().subspan(num_inputs()); }
  std::span<Edge* const> out_edges() const { return out_edges_; }
  // The edge into input slot `i`: NotFound "not found input edge <i>" when there is none.
  StatusOr<const Edge*> InputEdge(int i) const;

  // The requested device ("" for none) and the assigned one; both survive every pass.
  const std::string& requested_device() const;
  const std::string& assigned_device() const;
  void set_requested_device(std::string_view device);
  void set_assigned_device(std::string_view device);
  bool has_assigned_device() const { return assigned_device_ != 0; }
  // Equal devices of one graph have equal indices; 0 is "".
  int requested_device_index() const { return requested_device_; }
  int assigned_device_index() const { return assigned_device_; }
  // By index in this graph's table: see Graph::InternDevice.
  void set_requested_device_index(int index) { requested_device_ = index; }
  void set_assigned_device_index(int index) { assigned_device_ = index; }

  bool IsOp() const { return id_ > 1; }
  bool IsSource() const { return id_ == 0; }
  bool IsSink() const { return id_ == 1; }
  Graph& graph() const { return *graph_; }

 private:
  friend class Graph;
  Graph* graph_ = nullptr;
  int id_ = -1;
  int requested_device_ = 0;
  int assigned_device_ = 0;
  std::string name_;
  std::shared_ptr<const NodeProps> props_;
  SmallVector<Edge*, 2> in_edges_;
  SmallVector<Edge*, 2> out_edges_;
};

struct GraphVersions {
  int producer = 24;
  int min_consumer = 0;
  std::vector<int> bad_consumers;
};

// The one representation of a computation: nodes and edges, which always
// include _SOURCE (id 0) and _SINK (id 1). Not thread-safe; const members may be called by many threads at
// once.
class Graph {
 public:
  static constexpr int kSourceId = 0;
  static constexpr int kSinkId = 1;

  // `ops` must outlive the graph.
  explicit Graph(const OpRegistry& ops);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  // A deep copy with the same ids, names, devices and edge order; nodes share their NodeProps.
  std::unique_ptr<Graph> Clone() const;
  // A copy with only the nodes for which keep[id] is true and the edges between them; ids are
  // renumbered, and edges of _SOURCE and _SINK are left out. `new_ids` gets the new id of each old one
  // (-1: dropped).
  std::unique_ptr<Graph> CloneSubset(const std::vector<bool>& keep,
                                     std::vector<int>* new_ids = nullptr) const;

  // A copy with nodes numbered in this order. REQUIRES: `order` holds each op node once.
  std::unique_ptr<Graph> CloneInOrder(const std::vector<Node*>& order) const;

  const OpRegistry& ops() const { return ops_; }
  const FunctionLibrary& functions() const { return *functions_; }
  FunctionLibrary& functions() { return *functions_; }
  // Looks in the function library, then in the registry.
  StatusOr<const OpRegistration*> LookUpOp(std::string_view name) const;

  // Adds a node; checks attributes and infers its types. The name must be new: AlreadyExists otherwise.
  // Missing attributes get their defaults.
  StatusOr<Node*> AddNode(std::string_view name, std::string_view op, AttrMap attrs,
                          std::string_view device = {});
  // Adds a node with `props`. REQUIRES: props valid; name new.
  Node* AddNodeWithProps(std::string_view name, std::shared_ptr<const NodeProps> props);
  // Removes the node and its edges. Ids are not reused.
  void RemoveNode(Node* node);
  // Removes the newest nodes, those with ids from `first_id` on, as if they had never been added.
  void RemoveNodesFrom(int first_id);
  // REQUIRES: slots exist, types agree, the input slot is free.
  Edge* AddEdge(Node* src, int src_output, Node* dst, int dst_input);
  // Returns null when the same control edge is already there.
  Edge* AddControlEdge(Node* src, Node* dst);
  // As AddControlEdge without looking for a duplicate.
  Edge* AddControlEdgeUnchecked(Node* src, Node* dst);
  void RemoveEdge(Edge* edge);
  // Connects input `dst_input` of `dst` to another tensor.
  void UpdateInput(Node* dst, int dst_input, Node* src, int src_output);

  Node* source() const { return nodes_[kSourceId]; }
  Node* sink() const { return nodes_[kSinkId]; }
  // By id; null for removed nodes.
  Node* node(int id) const { return nodes_[id]; }
  int num_node_ids() const { return static_cast<int>(nodes_.size()); }
  int num_nodes() const { return num_nodes_; }
  int num_edge_ids() const { return static_cast<int>(edges_.size()); }
  Edge* edge(int id) const { return edges_[id]; }
  // Null when there is none.
  Node* FindNode(std::string_view name) const;
  // All existing nodes except _SOURCE and _SINK, by ascending id. Nodes added during the loop may be missed.
  std::vector<Node*> OpNodes() const;
  // `prefix`, or `prefix_1`, … : the first that is not the name of a node.
  std::string NewName(std::string_view prefix);

  // Every node without inputs gets a control edge from _SOURCE, every node without outputs one to _SINK;
  // edges from or to them that are no longer needed are removed.
  void FixupSourceAndSinkEdges();
  // Checks invariants: edges agree with slots and types, names unique, every data input connected. Internal
  // on failure.
  Status Validate() const;

  // Data of a client about this graph, not used by the engine: the handle of the C API. Copies have none.
  void* client() const { return client_; }
  void set_client(void* client) { client_ = client; }

  const GraphVersions& versions() const { return versions_; }
  void set_versions(GraphVersions v) { versions_ = std::move(v); }
  int InternDevice(std::string_view device);
  const std::string& device_name(int index) const { return device_names_[index]; }

 private:
  friend class Node;
  // A graph without _SOURCE and _SINK, which are added later.
  struct Bare {};
  Graph(const OpRegistry& ops, Bare);
  Node* NewNode(std::string_view name, std::shared_ptr<const NodeProps> props, int id);
  Node* CopyNode(const Node& node, int id);
  Edge* NewEdge(Node* src, int src_output, Node* dst, int dst_input);
  void CopySettings(const Graph& from);
  void FixupNode(Node* node);

  const OpRegistry& ops_;
  std::unique_ptr<FunctionLibrary> functions_;
  GraphVersions versions_;
  void* client_ = nullptr;
  StableArena<Node> node_arena_;
  StableArena<Edge> edge_arena_;
  std::vector<Node*> nodes_;
  std::vector<Edge*> edges_;
  std::vector<Edge*> free_edges_;
  int num_nodes_ = 0;
  NameTable by_name_;
  std::deque<std::string> device_names_;  // index 0 is ""
  std::unordered_map<std::string_view, int> device_index_;
  std::unordered_map<std::string, int> name_counters_;
  std::shared_ptr<const NodeProps> last_props_;  // consecutive equal nodes share theirs …
  AttrMap last_attrs_;  // … compared by their attributes before defaults were added
};

// Nodes ordered such that each comes after its inputs, without back edges of loops (NextIteration to Merge).
// InvalidArgument naming a node of the cycle for a cycle outside a loop. _SOURCE first, _SINK last.
StatusOr<std::vector<Node*>> TopologicalOrder(const Graph& graph);
// The same, ordered by ascending id as far as possible: inputs with larger ids come just before their first
// consumer.
StatusOr<std::vector<Node*>> TopologicalOrderById(const Graph& graph);

}  // namespace millrace
