// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/flops.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "graph/graph.h"
#include "graph/graph_import.h"
#include "graph/shape_refiner.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace::cli {
namespace {

constexpr int64_t kMostTensorBytes = int64_t{64} << 20;  // beyond ten times those of the graph

// As doubles: a product of sizes may be anything.
double Elements(const TensorShape& shape) {
  double product = 1;
  for (const int64_t dim : shape.dims()) product *= static_cast<double>(dim);
  return product;
}

// Shapes of a node's inputs and outputs; nothing when one is not known.
struct NodeShapes {
  std::vector<TensorShape> inputs, outputs;
  double in(size_t i) const { return i < inputs.size() ? Elements(inputs[i]) : 0; }
  double out(size_t i) const { return i < outputs.size() ? Elements(outputs[i]) : 0; }
};

double WindowSize(const Node& node) {
  const auto window = node.Attr<std::vector<int64_t>>("ksize");
  double size = 1;
  if (window.ok()) {
    for (const int64_t w : *window) size *= static_cast<double>(w);
  }
  return size;
}

bool Transposes(const Node& node, const char* attr) {
  const auto value = node.Attr<bool>(attr);
  return value.ok() && *value;
}

// Products of matrices: two operations for each element of the result and each element of the inner
// dimension.
double MatMulFlops(const Node& node, const NodeShapes& s) {
  if (s.inputs.empty() || s.inputs[0].rank() < 2 || s.outputs.empty()) return 0;
  const int rank = s.inputs[0].rank();
  const bool transposed = Transposes(node, "transpose_a") || Transposes(node, "adj_x");
  const double inner = static_cast<double>(s.inputs[0].dim(transposed ? rank - 2 : rank - 1));
  return 2 * s.out(0) * inner;
}

// FLOPs of a convolution: two for each element of the result and each weight that contributes to it.
double ConvolutionFlops(double results, const TensorShape& filter, bool depthwise) {
  const int rank = filter.rank();
  if (rank < 3) return 0;
  double weights = 1;
  for (int i = 0; i < rank - 2; ++i) weights *= static_cast<double>(filter.dim(i));
  return 2 * results * weights * (depthwise ? 1 : static_cast<double>(filter.dim(rank - 2)));
}

// FLOPs of the ops that are fused to a product: one for each result and op. No other op has any.
double EpilogueFlops(const Node& node, const NodeShapes& s) {
  const auto ops = node.Attr<std::vector<std::string>>("fused_ops");
  return ops.ok() ? s.out(0) * static_cast<double>(ops->size()) : 0;
}

bool IsFloating(const Node& node) {
  return node.num_outputs() > 0 &&
         (IsFloatingType(BaseType(node.output_type(0))) || IsComplexType(BaseType(node.output_type(0))));
}

bool Counts(const Node& node) {
  if (node.props().op->flop_rule != FlopRule::kElements) return true;
  // Copies are element-wise by name only.
  const OpTraits& traits = node.traits();
  return traits.elementwise && !traits.forwards && !traits.aliasing && IsFloating(node);
}

double FlopsOf(const Node& node, const NodeShapes& s) {
  const auto convolution = [&](double results, const std::vector<TensorShape>& shapes, size_t filter) {
    const bool depthwise = node.props().op->flop_rule == FlopRule::kDepthwiseConvolution;
    return filter < shapes.size() ? ConvolutionFlops(results, shapes[filter], depthwise) : 0;
  };
  const double factor = node.props().op->flop_factor;
  switch (node.props().op->flop_rule) {
    case FlopRule::kElements:
    case FlopRule::kOutputs:
      return s.out(0) * factor;
    case FlopRule::kInputs:
      return s.in(0) * factor;
    case FlopRule::kTerms:
      return s.out(0) * static_cast<double>(s.inputs.size() - std::min<size_t>(s.inputs.size(), 1));
    case FlopRule::kWindows:
      return s.out(0) * WindowSize(node);
    case FlopRule::kMatMul:
      return MatMulFlops(node, s) + EpilogueFlops(node, s);
    case FlopRule::kConvolution:
    case FlopRule::kDepthwiseConvolution:
      return convolution(s.out(0), s.inputs, 1) + EpilogueFlops(node, s);
    case FlopRule::kConvolutionInput:
      return convolution(s.in(2), s.inputs, 1);
    case FlopRule::kConvolutionFilter:
      return convolution(s.in(2), s.outputs, 0);
  }
  return 0;
}

std::optional<NodeShapes> ShapesOf(const Node& node, const std::vector<std::vector<PartialShape>>& shapes) {
  NodeShapes result;
  const auto known = [&](const Node& from, int output) -> std::optional<TensorShape> {
    const auto& of_node = shapes[static_cast<size_t>(from.id())];
    if (static_cast<size_t>(output) >= of_node.size()) return std::nullopt;
    const auto full = of_node[static_cast<size_t>(output)].ToTensorShape();
    return full.ok() ? std::optional(*full) : std::nullopt;
  };
  for (const Edge* edge : node.data_in_edges()) {
    const auto shape = edge == nullptr ? std::nullopt : known(*edge->src, edge->src_output);
    if (!shape.has_value()) return std::nullopt;
    result.inputs.push_back(*shape);
  }
  if (node.num_outputs() == 0) return result;
  const auto output = known(node, 0);
  if (!output.has_value()) return std::nullopt;
  result.outputs.push_back(*output);
  return result;
}

// A copy of the graph in which placeholders have whole shapes.
tensorflow::GraphDef WithSizes(const tensorflow::GraphDef& graph, int64_t batch) {
  tensorflow::GraphDef sized = graph;
  for (auto& node : *sized.mutable_node()) {
    node.clear_device();
    if (!node.op().starts_with("Placeholder")) continue;
    const auto attr = node.mutable_attr()->find("shape");
    if (attr == node.mutable_attr()->end()) continue;
    for (auto& dim : *attr->second.mutable_shape()->mutable_dim()) {
      if (dim.size() < 0) dim.set_size(batch);
    }
  }
  return sized;
}

}  // namespace

StatusOr<FlopCount> CountFlops(const tensorflow::GraphDef& graph_def, int64_t batch) {
  Graph graph(OpRegistry::Global());
  ImportOptions import;
  import.allow_internal_ops = true;
  import.validate_shapes = false;
  // A small file can declare any number of elements.
  import.max_tensor_bytes = kMostTensorBytes + 10 * static_cast<int64_t>(graph_def.ByteSizeLong());
  MR_RETURN_IF_ERROR(ImportGraphDef(WithSizes(graph_def, batch), import, &graph));
  MR_ASSIGN_OR_RETURN(const auto shapes, InferShapes(graph));
  FlopCount count;
  std::map<std::string, double> by_op;
  for (const Node* node : graph.OpNodes()) {
    if (!Counts(*node)) continue;
    const auto of_node = ShapesOf(*node, shapes);
    if (!of_node.has_value()) {
      ++count.unknown_nodes;
      continue;
    }
    const double flops = FlopsOf(*node, *of_node);
    by_op[node->op_name()] += flops;
    count.total += flops;
  }
  count.by_op.assign(by_op.begin(), by_op.end());
  std::stable_sort(count.by_op.begin(), count.by_op.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return count;
}

}  // namespace millrace::cli
