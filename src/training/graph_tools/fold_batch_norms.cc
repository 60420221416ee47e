// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "training/graph_tools/graph_tools.h"
#include "training/graph_tools/node_index.h"

namespace millrace {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

std::string StringAttr(const NodeDef& node, const std::string& name, const std::string& otherwise) {
  const auto* value = FindAttr(node, name);
  return value == nullptr ? otherwise : value->s();
}

// y = x * scale + offset, by channel; in double, so that float weights are rounded once.
struct Affine {
  std::vector<double> scale;
  std::vector<double> offset;  // empty: 0
};

// A product with constant weights, and optional nodes between it and its scaling.
struct Product {
  int node = -1;
  int bias = -1;  // node that adds `bias_values`; -1: none
  Tensor weights;
  std::vector<double> bias_values;
  int64_t channels = 0;
  int rank = 4;          // of the result
  int channel_axis = 3;  // of the result
  std::string data_format = "NHWC";
  bool transposed = false;  // weights [channels, n] rather than […, channels]
};

template <typename F>
bool VisitFloats(DataType type, F&& f) {
  if (type == DataType::kFloat) {
    f.template operator()<float>();
  } else if (type == DataType::kDouble) {
    f.template operator()<double>();
  } else {
    return false;
  }
  return true;
}

std::optional<std::vector<double>> Numbers(const Tensor& tensor) {
  std::vector<double> numbers;
  const bool ok = VisitFloats(tensor.dtype(), [&]<typename T>() {
    numbers.assign(tensor.flat<T>().begin(), tensor.flat<T>().end());
  });
  return ok ? std::optional(std::move(numbers)) : std::nullopt;
}

Tensor TensorOf(DataType type, const std::vector<double>& numbers) {
  Tensor tensor(type, TensorShape({static_cast<int64_t>(numbers.size())}));
  VisitFloats(type, [&]<typename T>() {
    std::transform(numbers.begin(), numbers.end(), tensor.flat<T>().begin(),
                   [](double v) { return static_cast<T>(v); });
  });
  return tensor;
}

void ScaleWeights(const Product& product, const std::vector<double>& scale, Tensor* weights) {
  const int64_t n = weights->num_elements();
  const int64_t row = product.transposed ? n / product.channels : 1;  // weights in a row of one channel
  VisitFloats(weights->dtype(), [&]<typename T>() {
    T* w = weights->data<T>();
    for (int64_t i = 0; i < n; ++i) {
      w[i] = static_cast<T>(w[i] * scale[static_cast<size_t>(i / row % product.channels)]);
    }
  });
}

// One pass over a graph. Each node takes part in at most one rewrite; the next pass sees the results of a
// rewrite.
class BatchNormFolder {
 public:
  BatchNormFolder(const std::vector<std::string>& outputs, const NodeIndex& index, GraphDef* graph)
      : index_(index), graph_(*graph) {
    for (const std::string& output : outputs) protect_.emplace(ParseTensorId(output).name);
  }

  // The number of folded norms.
  int Run() {
    int folded = 0;
    const int size = graph_.node_size();
    for (int i = 0; i < size; ++i) folded += Fold(i) ? 1 : 0;
    for (NodeDef& node : added_) *graph_.add_node() = std::move(node);
    return folded;
  }

 private:
  bool Fold(int i) {
    const NodeDef& node = graph_.node(i);
    if (node.op() == "Mul") return FoldMul(i, 0) || FoldMul(i, 1);
    if (node.op() != "FusedBatchNorm" && node.op() != "FusedBatchNormV2" && node.op() != "FusedBatchNormV3" &&
        node.op() != "BatchNormWithGlobalNormalization") {
      return false;
    }
    if (!OnlyOutput0IsUsed(i)) return false;
    const auto product = FindProduct(i, 0);
    if (!product) return false;
    const auto affine = BatchNormOf(node, *product);
    if (!affine) return false;
    Rewrite(*product, *affine, i);
    return true;
  }

  bool FoldMul(int i, int constant_input) {
    const NodeDef& node = graph_.node(i);
    if (node.input_size() < 2) return false;
    const auto constant = Constant(node, constant_input);
    if (!constant) return false;
    const auto product = FindProduct(i, 1 - constant_input);
    if (!product) return false;
    const auto scale = ByChannel(*constant, *product);
    if (!scale) return false;
    Rewrite(*product, {*scale, {}}, i);
    return true;
  }

  // The value of a constant, possibly through identities.
  std::optional<Tensor> Constant(const NodeDef& node, int input) const {
    if (input >= node.input_size()) return std::nullopt;
    int source = DataSource(node.input(input));
    for (int steps = 0; source >= 0 && steps < graph_.node_size(); ++steps) {
      const NodeDef& from = graph_.node(source);
      if (from.op() == "Const") {
        auto value = ConstValue(from);
        return value.ok() ? std::optional(*std::move(value)) : std::nullopt;
      }
      if (from.op() != "Identity" || from.input_size() == 0) return std::nullopt;
      source = DataSource(from.input(0));
    }
    return std::nullopt;
  }

  // The node whose output 0 the input is; -1: none.
  int DataSource(const std::string& input) const {
    const TensorId id = ParseTensorId(input);
    return id.index == 0 ? index_.Find(id.name) : -1;
  }

  bool OnlyOutput0IsUsed(int i) const {
    const auto& uses = index_.UsesOf(i);
    return std::all_of(uses.begin(), uses.end(), [](const auto& use) { return use.output <= 0; });
  }

  // Whether a node may be changed together with its only consumer.
  bool IsOurs(int i) const {
    return i >= 0 && index_.UsesOf(i).size() == 1 && !protect_.contains(graph_.node(i).name()) &&
           !changed_.contains(i);
  }

  std::optional<Product> FindProduct(int reader, int input) const {
    if (changed_.contains(reader)) return std::nullopt;
    const NodeDef& node = graph_.node(reader);
    if (input >= node.input_size()) return std::nullopt;
    const int source = DataSource(node.input(input));
    if (!IsOurs(source)) return std::nullopt;
    if (auto product = AsProduct(source)) return product;
    return BehindBias(source);
  }

  std::optional<Product> BehindBias(int i) const {
    const NodeDef& node = graph_.node(i);
    const bool is_bias_add = node.op() == "BiasAdd";
    if ((!is_bias_add && node.op() != "Add" && node.op() != "AddV2") || node.input_size() < 2) {
      return std::nullopt;
    }
    for (int constant_input = 1; constant_input >= (is_bias_add ? 1 : 0); --constant_input) {
      const auto constant = Constant(node, constant_input);
      const int source = DataSource(node.input(1 - constant_input));
      if (!constant || !IsOurs(source)) continue;
      auto product = AsProduct(source);
      if (!product) continue;
      const auto values = is_bias_add ? BiasOf(node, *constant, *product) : ByChannel(*constant, *product);
      if (!values) continue;
      product->bias = i;
      product->bias_values = *values;
      return product;
    }
    return std::nullopt;
  }

  static std::optional<std::vector<double>> BiasOf(const NodeDef& node, const Tensor& bias,
                                                   const Product& product) {
    const bool fits = bias.shape() == TensorShape({product.channels}) &&
                      (product.rank == 2 || StringAttr(node, "data_format", "NHWC") == product.data_format);
    return fits ? Numbers(bias) : std::nullopt;
  }

  std::optional<Product> AsProduct(int i) const {
    const NodeDef& node = graph_.node(i);
    const bool depthwise = node.op() == "DepthwiseConv2dNative";
    const bool is_matmul = node.op() == "MatMul";
    if (!depthwise && !is_matmul && node.op() != "Conv2D") return std::nullopt;
    auto weights = Constant(node, 1);
    if (!weights || weights->rank() != (is_matmul ? 2 : 4) || weights->num_elements() == 0)
      return std::nullopt;
    if (!VisitFloats(weights->dtype(), []<typename T>() {})) return std::nullopt;
    Product product;
    product.node = i;
    if (is_matmul) {
      const auto* transposed = FindAttr(node, "transpose_b");
      product.transposed = transposed != nullptr && transposed->b();
      product.channels = weights->dim(product.transposed ? 0 : 1);
      product.rank = 2;
      product.channel_axis = 1;
    } else {
      product.channels = weights->dim(3) * (depthwise ? weights->dim(2) : 1);
      product.data_format = StringAttr(node, "data_format", "NHWC");
      if (product.data_format != "NHWC" && product.data_format != "NCHW") return std::nullopt;
      product.channel_axis = product.data_format == "NHWC" ? 3 : 1;
    }
    product.weights = *std::move(weights);
    return product;
  }

  // A constant that broadcasting applies along the channels: one number for each, or one for all.
  static std::optional<std::vector<double>> ByChannel(const Tensor& constant, const Product& product) {
    const int rank = constant.rank();
    if (rank > product.rank || constant.num_elements() == 0) return std::nullopt;
    for (int i = 0; i < rank; ++i) {
      const bool is_channel = product.rank - rank + i == product.channel_axis;
      const int64_t dim = constant.dim(i);
      if (dim != 1 && (!is_channel || dim != product.channels)) return std::nullopt;
    }
    auto values = Numbers(constant);
    if (values && values->size() == 1) values->assign(static_cast<size_t>(product.channels), values->front());
    return values;
  }

  std::optional<Affine> BatchNormOf(const NodeDef& node, const Product& product) const {
    const bool old = node.op() == "BatchNormWithGlobalNormalization";
    if (product.rank != 4 || StringAttr(node, "data_format", "NHWC") != product.data_format) {
      return std::nullopt;
    }
    if (const auto* training = FindAttr(node, "is_training");
        !old && (training == nullptr || training->b())) {
      return std::nullopt;
    }
    // t, m, v, beta, gamma; x, scale, offset, mean, variance
    const int mean_at = old ? 1 : 3;
    const int variance_at = old ? 2 : 4;
    const int offset_at = old ? 3 : 2;
    const int scale_at = old ? 4 : 1;
    std::vector<double> parts[5];
    for (int i = 1; i < 5; ++i) {
      const auto constant = Constant(node, i);
      if (!constant || constant->shape() != TensorShape({product.channels})) return std::nullopt;
      auto numbers = Numbers(*constant);
      if (!numbers) return std::nullopt;
      parts[i] = *std::move(numbers);
    }
    const auto* epsilon_attr = FindAttr(node, old ? "variance_epsilon" : "epsilon");
    if (old && epsilon_attr == nullptr) return std::nullopt;
    const double epsilon = epsilon_attr == nullptr ? 0.0001f : epsilon_attr->f();
    const auto* scaled = FindAttr(node, "scale_after_normalization");
    const bool use_scale = !old || (scaled != nullptr && scaled->b());
    Affine affine;
    for (size_t c = 0; c < static_cast<size_t>(product.channels); ++c) {
      const double scale = (use_scale ? parts[scale_at][c] : 1) / std::sqrt(parts[variance_at][c] + epsilon);
      affine.scale.push_back(scale);
      affine.offset.push_back(parts[offset_at][c] - parts[mean_at][c] * scale);
    }
    return affine;
  }

  // Scales the weights of the product, and replaces `last`, the scaling node, by the addition of the offset.
  void Rewrite(const Product& product, const Affine& affine, int last) {
    NodeDef& linear = *graph_.mutable_node(product.node);
    NodeDef& node = *graph_.mutable_node(last);
    const DataType type = product.weights.dtype();
    Tensor weights = product.weights.DeepCopy();
    ScaleWeights(product, affine.scale, &weights);
    linear.set_input(1, AddConst(linear.name() + "/folded_weights", linear.device(), weights));
    std::vector<double> offset = affine.offset;
    if (product.bias >= 0) {
      offset.resize(static_cast<size_t>(product.channels));
      for (size_t c = 0; c < offset.size(); ++c) offset[c] += product.bias_values[c] * affine.scale[c];
    }
    std::vector<std::string> control;
    for (const std::string& input : node.input()) {
      if (input.starts_with('^')) control.push_back(input);
    }
    if (product.bias >= 0) {
      for (const std::string& input : graph_.node(product.bias).input()) {
        if (input.starts_with('^')) control.push_back(input);
      }
      changed_.insert(product.bias);
    }
    changed_.insert({product.node, last});
    node.set_op(offset.empty() ? "Identity" : "BiasAdd");
    node.clear_input();
    node.clear_attr();
    node.add_input(linear.name());
    (*node.mutable_attr())["T"].set_type(DataTypeToProto(type));
    if (!offset.empty()) {
      node.add_input(AddConst(node.name() + "/folded_offset", node.device(), TensorOf(type, offset)));
      (*node.mutable_attr())["data_format"].set_s(product.data_format);
    }
    for (const std::string& input : control) node.add_input(input);
  }

  std::string AddConst(const std::string& name, const std::string& device, const Tensor& value) {
    NodeDef& node = added_.emplace_back();
    node.set_name(FreshName(name, index_, &added_names_));
    node.set_device(device);
    MakeConst(value, &node);
    return node.name();
  }

  const NodeIndex& index_;
  GraphDef& graph_;
  std::set<std::string, std::less<>> protect_;
  std::set<int> changed_;
  std::vector<NodeDef> added_;
  std::vector<std::string> added_names_;
};

}  // namespace

Status FoldBatchNorms(const std::vector<std::string>& outputs, GraphDef* graph) {
  MR_RETURN_IF_ERROR(ExtractSubGraph(outputs, graph));
  // Each pass simplifies the rest; chains of products with constants are short.
  for (int pass = 0; pass < 16; ++pass) {
    MR_ASSIGN_OR_RETURN(const NodeIndex index, NodeIndex::Make(*graph));
    if (BatchNormFolder(outputs, index, graph).Run() == 0) break;
  }
  return ExtractSubGraph(outputs, graph);
}

}  // namespace millrace
