// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "autodiff/add_gradients.h"
#include "c/internal.h"

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::Edge;
using millrace::Graph;
using millrace::MutexLock;
using millrace::Node;
using millrace::Output;
using millrace::Status;
namespace errors = millrace::errors;

namespace {

// The ops that TensorFlow's C++ API lets gradients end at, and OnesLike, which the second gradient needs. Its
// other ops without a gradient are errors.
const std::unordered_set<std::string_view>& OpsWithoutGradient() {
  static const auto* const ops = new std::unordered_set<std::string_view>{"ApproximateEqual",
                                                                          "BroadcastGradientArgs",
                                                                          "Const",
                                                                          "ConcatOffset",
                                                                          "EditDistance",
                                                                          "Equal",
                                                                          "Floor",
                                                                          "Greater",
                                                                          "GreaterEqual",
                                                                          "InvertPermutation",
                                                                          "Less",
                                                                          "LessEqual",
                                                                          "LogicalAnd",
                                                                          "LogicalNot",
                                                                          "LogicalOr",
                                                                          "NotEqual",
                                                                          "OneHot",
                                                                          "OnesLike",
                                                                          "Rank",
                                                                          "Shape",
                                                                          "ShapeN",
                                                                          "Size",
                                                                          "StopGradient",
                                                                          "ZerosLike"};
  return *ops;
}

millrace::StatusOr<std::vector<Output>> Read(const Graph& graph, const TF_Output* tensors, int count) {
  std::vector<Output> result;
  if (count > 0 && tensors == nullptr) return NullArgument("An array of tensors");
  for (int i = 0; i < count; ++i) {
    MR_RETURN_IF_ERROR(CheckOutput(&graph, tensors[i]));
    result.push_back({NodeOf(tensors[i].oper), tensors[i].index});
  }
  return result;
}

// Which nodes the ys depend on, by id.
std::vector<bool> Ancestors(const Graph& graph, const std::vector<Output>& ys) {
  std::vector<bool> seen(static_cast<size_t>(graph.num_node_ids()), false);
  std::vector<const Node*> stack;
  const auto visit = [&](const Node* node) {
    const auto id = static_cast<size_t>(node->id());
    if (!seen[id]) stack.push_back(node);
    seen[id] = true;
  };
  for (const Output& y : ys) visit(y.node);
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    for (const Edge* edge : node->data_in_edges()) {
      if (edge != nullptr) visit(edge->src);
    }
  }
  return seen;
}

// The prefix of the names of new nodes, made unique.
Status CheckPrefix(const Graph& graph, const std::string& prefix) {
  for (const Node* node : graph.OpNodes()) {
    if (node->name() == prefix || node->name().starts_with(prefix + "/")) {
      return errors::InvalidArgument(
          "prefix [", prefix, "] conflicts with existing node in the graph named [", node->name(), "]");
    }
  }
  return Status();
}

Status Differentiate(TF_Graph* g, const char* prefix, const TF_Output* y, int ny, const TF_Output* x, int nx,
                     const TF_Output* dx, TF_Output* dy) MR_REQUIRES(g->mu) {
  MR_ASSIGN_OR_RETURN(const std::vector<Output> ys, Read(g->graph, y, ny));
  MR_ASSIGN_OR_RETURN(const std::vector<Output> xs, Read(g->graph, x, nx));
  std::vector<Output> given;
  if (dx != nullptr) {
    MR_ASSIGN_OR_RETURN(given, Read(g->graph, dx, ny));
  }
  millrace::GradientOptions options;
  options.shapes = &g->refiner;
  options.registry = &g->gradients;
  // As TensorFlow's C++ API.
  options.names = millrace::GradientNames::kOp;
  options.integers = true;
  options.not_differentiable = &OpsWithoutGradient();
  if (prefix != nullptr) {
    MR_RETURN_IF_ERROR(CheckPrefix(g->graph, prefix));
    options.scope = prefix;
  }
  const std::vector<bool> reached = Ancestors(g->graph, ys);
  for (const Output& tensor : xs) {
    if (!reached[static_cast<size_t>(tensor.node->id())]) {
      return errors::InvalidArgument("Cannot compute the partial derivative for node '", tensor.node->name(),
                                     "' as it's unreachable from the output node(s).");
    }
  }
  std::vector<Output> grads;
  MR_RETURN_IF_ERROR(millrace::AddGradients(&g->graph, ys, xs, given, options, &grads));
  for (int i = 0; i < nx; ++i) {
    const Output& grad = grads[static_cast<size_t>(i)];
    dy[i] = grad.IsSet() ? TF_Output{OperationOf(grad.node), grad.index} : TF_Output{nullptr, -1};
  }
  return Status();
}

}  // namespace

void TF_AddGradientsWithPrefix(TF_Graph* g, const char* prefix, TF_Output* y, int ny, TF_Output* x, int nx,
                               TF_Output* dx, TF_Status* status, TF_Output* dy) {
  Enter(status, [&]() -> Status {
    if (g == nullptr) return NullArgument("The graph");
    if (ny < 0 || nx < 0 || (nx > 0 && dy == nullptr)) return NullArgument("An array of tensors");
    const GraphHold hold(g);
    MutexLock lock(g->mu);
    g->AwaitTurn();
    Status added = Differentiate(g, prefix, y, ny, x, nx, dx, dy);
    g->PublishNodes();
    return added;
  });
}

void TF_AddGradients(TF_Graph* g, TF_Output* y, int ny, TF_Output* x, int nx, TF_Output* dx,
                     TF_Status* status, TF_Output* dy) {
  TF_AddGradientsWithPrefix(g, nullptr, y, ny, x, nx, dx, status, dy);
}
