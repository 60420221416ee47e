// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "autodiff/gradient_registry.h"
#include "base/mutex.h"
#include "graph/graph.h"
#include "graph/shape_refiner.h"
#include "kernel/op_evaluator.h"
#include "millrace/status.h"
#include "op/attr_value.h"
#include "tensorflow/c/c_api.h"

// A graph with the shapes of its tensors. Nodes may be read without the mutex: once an operation was
// returned, it does not change, except for its edges to consumers. The graph has a pointer to its handle, so
// that an operation leads to it.
struct TF_Graph {
  explicit TF_Graph(const millrace::OpRegistry& ops) : TF_Graph(std::make_unique<Owned>(ops)) {}
  // A temporary handle of a graph that has none: one of the C++ API, or the body of a function.
  TF_Graph(millrace::Graph& borrowed, millrace::ShapeRefiner& shapes) : graph(borrowed), refiner(shapes) {
    graph.set_client(this);
  }
  ~TF_Graph() { graph.set_client(nullptr); }
  TF_Graph(const TF_Graph&) = delete;
  TF_Graph& operator=(const TF_Graph&) = delete;

  struct Owned {
    explicit Owned(const millrace::OpRegistry& ops) : graph(ops), refiner(graph, millrace::EvaluateOp) {}
    millrace::Graph graph;
    millrace::ShapeRefiner refiner;
  };
  const std::unique_ptr<Owned> owned;  // null for a temporary handle

  millrace::Mutex mu;
  millrace::Graph& graph MR_GUARDED_BY(mu);
  millrace::ShapeRefiner& refiner MR_GUARDED_BY(mu);
  // The number of node ids, to be read without the mutex. Released after nodes were added, acquired by
  // sessions that check for new nodes.
  std::atomic<int> num_node_ids{2};
  // Number of sessions, unfinished operations and unfinished loops: the graph outlives them.
  int num_users MR_GUARDED_BY(mu) = 0;
  bool delete_requested MR_GUARDED_BY(mu) = false;

  // For the condition and the body of a loop under construction: its future place, and its inputs there.
  TF_Graph* parent = nullptr;
  std::vector<TF_Output> parent_inputs;

  // The definition of the newest operation: saves a look-up if the next one is alike.
  const millrace::OpRegistration* last_op MR_GUARDED_BY(mu) = nullptr;
  std::shared_ptr<const millrace::NodeProps> last_props MR_GUARDED_BY(mu);
  millrace::AttrMap last_attrs MR_GUARDED_BY(mu);
  std::unique_ptr<TF_OperationDescription> spare MR_GUARDED_BY(mu);

  // Gradient functions for this graph, which precede those for all graphs.
  millrace::GradientRegistry gradients{&millrace::GradientRegistry::Global()};
  // While a gradient function of the client runs, in the thread that computes gradients, the mutex is not
  // held but only that thread may change the graph.
  std::thread::id builder MR_GUARDED_BY(mu);
  millrace::CondVar builder_left;

  bool IsBuilder() const MR_REQUIRES(mu) { return builder == std::this_thread::get_id(); }
  // To be called before a change of the graph: waits while another thread computes gradients.
  void AwaitTurn() MR_REQUIRES(mu) {
    while (builder != std::thread::id() && !IsBuilder()) builder_left.Wait(mu);
  }

  // To be called after nodes were added or removed. Sessions see that now, or when gradients are complete.
  void PublishNodes() MR_REQUIRES(mu) {
    if (builder == std::thread::id()) num_node_ids.store(graph.num_node_ids(), std::memory_order_release);
  }
  // Whether nodes added now could not be used: the graph is deleted with its only user.
  bool IsLeft() const MR_REQUIRES(mu) { return delete_requested && num_users <= 1; }

 private:
  explicit TF_Graph(std::unique_ptr<Owned> own)
      : owned(std::move(own)), graph(owned->graph), refiner(owned->refiner) {
    graph.set_client(this);
  }
};

namespace millrace::c_api {

// Adds or removes a user of the graph; removing the last one deletes the graph, if that was requested.
void Hold(TF_Graph* graph);
void Release(TF_Graph* graph);

// A user of the graph during its lifetime.
class GraphHold {
 public:
  explicit GraphHold(TF_Graph* graph) : graph_(graph) { Hold(graph); }
  ~GraphHold() { Release(graph_); }
  GraphHold(const GraphHold&) = delete;
  GraphHold& operator=(const GraphHold&) = delete;

 private:
  TF_Graph* const graph_;
};

}  // namespace millrace::c_api

// An operation being built.
struct TF_OperationDescription {
  struct Entry {
    millrace::Node* node;
    int index;
  };
  TF_Graph* graph = nullptr;
  const millrace::OpRegistration* op = nullptr;  // null: unknown, which is the first error
  std::string op_type;
  std::string name;
  std::string device;
  std::vector<Entry> inputs;
  size_t args = 0;  // of the op that have their inputs
  std::vector<millrace::Node*> controls;
  std::vector<millrace::AttrMap::Entry> attrs;
  std::vector<std::string> colocation;
  std::vector<std::string> errors;        // of the description
  std::vector<std::string> input_errors;  // of inputs that do not exist

  void Reset(TF_Graph* owner, std::string_view op_name, std::string_view node_name);
  // Keeps the first value of an attribute; a different second one is an error.
  void SetAttr(std::string_view attr, millrace::AttrValue value);
};
