// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The value of a tensor that depends on constants only: the nodes behind it are run in a session of their
// own.
#include <map>
#include <memory>
#include <optional>

#include "c/internal.h"
#include "graph/function_library.h"
#include "millrace/session.h"

using millrace::Status;
using millrace::StatusOr;
using millrace::Tensor;

namespace millrace::c_api {
namespace {

// With more nodes than that evaluation is too slow while a graph is built.
constexpr size_t kMaxNodes = 10'000;
constexpr int64_t kMostMs = 10'000;  // of computing it

// Copies what a tensor depends on into a graph without inputs.
class ConstantGraph {
 public:
  explicit ConstantGraph(const TF_Graph& from) MR_NO_THREAD_SAFETY_ANALYSIS : from_(from.graph),
                                                                              shapes_(from.refiner),
                                                                              graph_(from.graph.ops()) {}

  // Nothing when the tensor is not constant.
  StatusOr<bool> Add(const Node& wanted) {
    std::vector<std::pair<const Node*, size_t>>
        path;  // nodes whose inputs are being added, with the next one
    path.emplace_back(&wanted, 0);
    while (!path.empty()) {
      const Node* node = path.back().first;
      if (path.back().second == 0 && (!IsPure(*node) || graph_.num_nodes() > static_cast<int>(kMaxNodes))) {
        return false;
      }
      const size_t next = path.back().second++;
      if (next < node->data_in_edges().size()) {
        const Edge* edge = node->data_in_edges()[next];
        if (edge == nullptr) return false;
        MR_ASSIGN_OR_RETURN(const bool known, AddKnown(*edge));
        if (!known && !copies_.contains(edge->src)) path.emplace_back(edge->src, 0);
        if (path.size() > kMaxNodes) return false;
        continue;
      }
      path.pop_back();
      if (!copies_.contains(node)) MR_RETURN_IF_ERROR(Copy(*node));
    }
    return true;
  }

  const Graph& graph() const { return graph_; }
  // The name of a node in this graph. REQUIRES: it was added.
  const std::string& NameOf(const Node& node) const { return copies_.at(&node)->name(); }

 private:
  bool IsPure(const Node& node) const {
    const OpTraits& traits = node.traits();
    return !node.op_def().is_stateful && !traits.never_fold && !traits.is_control_flow && !traits.is_send &&
           !traits.is_recv && !traits.is_variable && !traits.has_side_effects &&
           from_.functions().Find(node.op_name()) == nullptr;
  }

  // A tensor that is known without computing becomes a Const.
  StatusOr<bool> AddKnown(const Edge& edge) {
    const std::pair<const Node*, int> key(edge.src, edge.src_output);
    if (known_.contains(key)) return true;
    auto value = ConstantValue(*edge.src, edge.src_output, &shapes_);
    if (!value.ok()) return false;
    AttrMap attrs{{"dtype", value->dtype()}, {"value", *value}};
    MR_ASSIGN_OR_RETURN(known_[key],
                        graph_.AddNode(graph_.NewName("known/value"), "Const", std::move(attrs)));
    return true;
  }

  Status Copy(const Node& node) {
    Node* copy = graph_.AddNodeWithProps(graph_.NewName(node.name()), node.shared_props());
    copies_[&node] = copy;
    for (const Edge* edge : node.data_in_edges()) {
      const auto known = known_.find({edge->src, edge->src_output});
      if (known != known_.end()) {
        graph_.AddEdge(known->second, 0, copy, edge->dst_input);
      } else {
        graph_.AddEdge(copies_.at(edge->src), edge->src_output, copy, edge->dst_input);
      }
    }
    return Status();
  }

  const Graph& from_;
  const ShapeRefiner& shapes_;
  Graph graph_;
  std::map<std::pair<const Node*, int>, Node*> known_;
  std::map<const Node*, Node*> copies_;
};

// The value if the graph determines it, or else the constants that it is computed from; null if it depends on
// anything else.
StatusOr<std::unique_ptr<ConstantGraph>> Look(TF_Graph& graph, const TF_Output& output,
                                              std::optional<Tensor>* value) {
  MutexLock lock(graph.mu);
  MR_RETURN_IF_ERROR(CheckOutput(&graph.graph, output));
  const Node& node = *NodeOf(output.oper);
  if (auto known = ConstantValue(node, output.index, &graph.refiner); known.ok()) {
    *value = known->DeepCopy();
    return nullptr;
  }
  auto constants = std::make_unique<ConstantGraph>(graph);
  MR_ASSIGN_OR_RETURN(const bool constant, constants->Add(node));
  if (!constant) constants.reset();
  return constants;
}

// Kernels run here, so no mutex is held.
StatusOr<std::optional<Tensor>> Evaluate(TF_Graph& graph, const TF_Output& output) {
  std::optional<Tensor> value;
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<ConstantGraph> constants, Look(graph, output, &value));
  if (constants == nullptr) return value;
  SessionOptions options;
  options.inter_op_parallelism_threads = options.intra_op_parallelism_threads = 1;
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, NewSession(options));
  MR_RETURN_IF_ERROR(session->ExtendFrom(constants->graph()));
  RunOptions run;
  run.timeout_in_ms = kMostMs;
  std::vector<Tensor> fetched;
  const std::string fetch = StrCat(constants->NameOf(*NodeOf(output.oper)), ":", output.index);
  if (session->Run(run, {}, {fetch}, {}, &fetched, nullptr).ok()) value = std::move(fetched[0]);
  return value;
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

unsigned char TF_TryEvaluateConstant(TF_Graph* graph, TF_Output output, TF_Tensor** result,
                                     TF_Status* status) {
  if (result != nullptr) *result = nullptr;
  bool known = false;
  const bool ok = Enter(status, [&]() -> Status {
    if (graph == nullptr || result == nullptr) return NullArgument("The graph or the result");
    MR_ASSIGN_OR_RETURN(const std::optional<Tensor> value, Evaluate(*graph, output));
    known = value.has_value();
    if (known) {
      MR_ASSIGN_OR_RETURN(*result, FromTensor(*value));
    }
    return Status();
  });
  return ok && known ? 1 : 0;
}
