// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "compile/optimize/dataset_functions.h"
#include "compile/optimize/rewriter.h"
#include "graph/function_body.h"
#include "graph/function_library.h"
#include "graph/function_writer.h"
#include "op/elementwise_kind.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

using Names = std::set<std::string_view>;

// Functions of one element that have no such trait, because they may fail or change the last dimension.
bool IsUnary(const Node& node) {
  static const Names& ops = *new Names{"StringToNumber",         "StringLower", "StringStrip", "StringLength",
                                       "StringToHashBucketFast", "AsString",    "Bitcast"};
  return ops.contains(node.op_name());
}

bool IsReduction(const Node& node) {
  static const Names& ops = *new Names{"Sum", "Mean", "Prod", "Min", "Max", "Any", "All"};
  return ops.contains(node.op_name());
}

// Builds the graph of a function for batches, node by node.
class Vectorizer {
 public:
  Vectorizer(const FunctionBody& body, size_t num_elements, const std::vector<PartialShape>& elements)
      : body_(body),
        num_elements_(num_elements),
        shapes_of_elements_(elements),
        out_(body.graph->ops()),
        shapes_(*body.graph) {}

  // False if there is no such form.
  bool Run(FunctionParts* parts) {
    const auto order = TopologicalOrder(*body_.graph);
    if (!order.ok()) return false;
    for (Node* node : *order) {
      if (node->IsOp() && !Visit(*node)) return false;
    }
    for (const Node* node : out_.OpNodes()) {
      if (node->op_name() != "Placeholder") parts->body.push_back(node);
    }
    for (const TensorRef& arg : args_) parts->inputs.push_back({arg.node, arg.output});
    for (const TensorRef& ret : rets_) parts->outputs.push_back({ret.node, ret.output});
    return true;
  }

 private:
  // A tensor of the new graph: a batch of those of the old one, or a tensor that is the same for all of them.
  struct Value {
    TensorRef tensor;
    bool stacked = false;
  };

  bool Visit(const Node& node) {
    if (!shapes_.AddNode(node).ok()) return false;
    if (node.op_name() == "_Arg") return VisitArg(node);
    if (node.op_name() == "_Retval") return VisitRet(node);
    if (node.op_def().is_stateful || HasControlInputs(node) || node.traits().is_control_flow) return false;
    bool stacked = false;
    inputs_.clear();
    for (int i = 0; i < node.num_inputs(); ++i) {
      const TensorRef from = InputOf(node, i);
      inputs_.push_back(values_.at({from.node->id(), from.output}));
      stacked = stacked || inputs_.back().stacked;
    }
    if (!stacked) return Copy(node, node.attrs(), false);
    return Convert(node);
  }

  bool VisitArg(const Node& node) {
    const auto index = node.Attr<int64_t>("index");
    if (!index.ok()) return false;
    const auto at = static_cast<size_t>(*index);
    const bool stacked = at < num_elements_;
    if (stacked && !shapes_.MergeOutput(node, 0, shapes_of_elements_[at]).ok()) return false;
    const auto made = out_.AddNode(StrCat("__arg", at), "Placeholder", {{"dtype", node.output_type(0)}});
    if (!made.ok()) return false;
    values_[{node.id(), 0}] = {{*made, 0}, stacked};
    if (args_.size() <= at) args_.resize(at + 1);
    args_[at] = {*made, 0};
    return true;
  }

  bool VisitRet(const Node& node) {
    const auto index = node.Attr<int64_t>("index");
    const TensorRef from = InputOf(node, 0);
    const Value& value = values_.at({from.node->id(), from.output});
    if (!index.ok() || !value.stacked) return false;
    const auto at = static_cast<size_t>(*index);
    if (rets_.size() <= at) rets_.resize(at + 1);
    const auto made = out_.AddNode(StrCat("__ret", at), "Identity", {{"T", node.input_type(0)}});
    if (!made.ok()) return false;
    out_.AddEdge(value.tensor.node, value.tensor.output, *made, 0);
    rets_[at] = {*made, 0};
    return true;
  }

  // Copies the node with other attributes, for the current inputs.
  bool Copy(const Node& node, const AttrMap& attrs, bool stacked) {
    const auto made = out_.AddNode(node.name(), node.op_name(), attrs);
    return made.ok() && Connect(node, *made, stacked);
  }
  bool Connect(const Node& node, Node* made, bool stacked) {
    if (static_cast<size_t>(made->num_inputs()) != inputs_.size()) return false;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const TensorRef& in = inputs_[i].tensor;
      if (in.node->output_type(in.output) != made->input_type(static_cast<int>(i))) return false;
      out_.AddEdge(in.node, in.output, made, static_cast<int>(i));
    }
    for (int i = 0; i < node.num_outputs(); ++i) values_[{node.id(), i}] = {{made, i}, stacked};
    return true;
  }
  bool Copy(const Node& node) { return Copy(node, node.attrs(), true); }
  bool CopyWith(const Node& node, std::string_view attr, AttrValue value) {
    AttrMap attrs = node.attrs();
    attrs.Set(attr, std::move(value));
    return Copy(node, attrs, true);
  }
  // Replaces input `i` by a constant.
  bool SetConst(size_t i, Tensor value) {
    const DataType dtype = value.dtype();
    const auto made =
        out_.AddNode(out_.NewName("__c"), "Const", {{"dtype", dtype}, {"value", std::move(value)}});
    if (!made.ok()) return false;
    inputs_[i] = {{*made, 0}, false};
    return true;
  }
  bool SetInts(const Node& node, size_t i, const std::vector<int64_t>& values, bool scalar = false) {
    if (node.input_type(static_cast<int>(i)) == DataType::kInt64) {
      return SetConst(i, scalar ? Tensor::Scalar(values[0]) : Tensor::Vector(values));
    }
    const std::vector<int32_t> narrow(values.begin(), values.end());
    return SetConst(i, scalar ? Tensor::Scalar(narrow[0]) : Tensor::Vector(narrow));
  }

  PartialShape ShapeOfInput(const Node& node, int i) const {
    const TensorRef from = InputOf(node, i);
    return shapes_.OutputShape(*from.node, from.output);
  }
  // The rank of a row; -1 if unknown.
  int RankOf(const Node& node, int i) const {
    const PartialShape shape = ShapeOfInput(node, i);
    return shape.unknown_rank() ? -1 : shape.rank();
  }
  // The values of input `i`, if it is a constant of integers.
  std::optional<std::vector<int64_t>> Ints(const Node& node, int i) const {
    const Tensor* const value = ConstTensorOf(*InputOf(node, i).node);
    if (value == nullptr || inputs_[static_cast<size_t>(i)].stacked) return std::nullopt;
    std::vector<int64_t> ints;
    if (value->dtype() == DataType::kInt32) {
      for (const int32_t v : value->flat<int32_t>()) ints.push_back(v);
    } else if (value->dtype() == DataType::kInt64) {
      for (const int64_t v : value->flat<int64_t>()) ints.push_back(v);
    } else {
      return std::nullopt;
    }
    return ints;
  }
  bool OnlyFirstStacked() const {
    return inputs_[0].stacked &&
           std::none_of(inputs_.begin() + 1, inputs_.end(), [](const Value& v) { return v.stacked; });
  }
  bool AllStacked() const {
    return std::ranges::all_of(inputs_, [](const Value& v) { return v.stacked; });
  }

  bool Convert(const Node& node) {
    const std::string& op = node.op_name();
    switch (ElementwiseKindOf(node.op())) {
      case ElementwiseKind::kOne:
        return Copy(node);
      case ElementwiseKind::kBroadcasts:
        return ConvertBroadcast(node);
      case ElementwiseKind::kSameShape:
        return AllStacked() && SameShapes(node) && Copy(node);
      case ElementwiseKind::kNone:
        break;
    }
    if (IsUnary(node)) return Copy(node);
    if (IsReduction(node)) return ConvertAxes(node, 1);
    if (op == "Select") return AllStacked() && SameShapes(node) && Copy(node);
    if (op == "DecodeRaw") return Copy(node);
    if (op == "Reshape") return ConvertReshape(node);
    if (op == "Transpose") return ConvertTranspose(node);
    if (op == "ExpandDims") return ConvertAxes(node, 1);
    if (op == "Squeeze") return ConvertSqueeze(node);
    if (op == "Pack" || op == "Unpack") return AllStacked() && ConvertAxisAttr(node);
    if (op == "Slice") return ConvertSlice(node);
    if (op == "StridedSlice") return ConvertStridedSlice(node);
    if (op == "OneHot")
      return OnlyFirstStacked() && node.attrs().Get<int64_t>("axis").value_or(0) == -1 && Copy(node);
    if (op == "ParseSingleExample") return ConvertParse(node);
    return false;
  }

  bool SameShapes(const Node& node) const {
    for (int i = 0; i < node.num_inputs(); ++i) {
      const PartialShape shape = ShapeOfInput(node, i);
      if (!shape.IsFullyDefined() || shape != ShapeOfInput(node, 0)) return false;
    }
    return true;
  }

  // Rows must have equal ranks, and unbatched inputs at most that rank.
  bool ConvertBroadcast(const Node& node) {
    const int a = RankOf(node, 0), b = RankOf(node, 1);
    if (a < 0 || b < 0) return false;
    if (AllStacked() ? a != b : inputs_[0].stacked ? b > a : a > b) return false;
    return Copy(node);
  }

  // Axes that count from the first one are increased by one.
  bool ConvertAxes(const Node& node, int input) {
    auto axes = Ints(node, input);
    if (!axes || !OnlyFirstStacked() || RankOf(node, 0) < 0) return false;
    for (int64_t& axis : *axes) axis += axis >= 0 ? 1 : 0;
    const bool scalar = ShapeOfInput(node, input).rank() == 0;
    return SetInts(node, static_cast<size_t>(input), *axes, scalar) && Copy(node);
  }

  bool ConvertAxisAttr(const Node& node) {
    const int64_t axis = node.attrs().Get<int64_t>("axis").value_or(0);
    return CopyWith(node, "axis", axis >= 0 ? axis + 1 : axis);
  }

  bool ConvertReshape(const Node& node) {
    const PartialShape rows = shapes_.OutputShape(node, 0);
    if (!OnlyFirstStacked() || !rows.IsFullyDefined()) return false;
    std::vector<int64_t> dims = {-1};
    for (const int64_t d : rows.dims()) {
      if (d == 0) return false;  // the number of rows would be ambiguous
      dims.push_back(d);
    }
    return SetInts(node, 1, dims) && Copy(node);
  }

  bool ConvertTranspose(const Node& node) {
    const auto perm = Ints(node, 1);
    if (!perm || !OnlyFirstStacked()) return false;
    std::vector<int64_t> axes = {0};
    for (const int64_t axis : *perm) axes.push_back(axis + 1);
    return SetInts(node, 1, axes) && Copy(node);
  }

  bool ConvertSqueeze(const Node& node) {
    auto axes = node.attrs().Get<std::vector<int64_t>>("squeeze_dims").value_or({});
    const PartialShape shape = ShapeOfInput(node, 0);
    if (!shape.IsFullyDefined()) return false;
    if (axes.empty()) {
      for (int i = 0; i < shape.rank(); ++i) {
        if (shape.dim(i) == 1) axes.push_back(i);
      }
      // With an empty list, all axes would be removed.
      if (axes.empty()) return false;
    }
    for (int64_t& axis : axes) axis += axis >= 0 ? 1 : 0;
    return CopyWith(node, "squeeze_dims", axes);
  }

  bool ConvertSlice(const Node& node) {
    auto begin = Ints(node, 1), size = Ints(node, 2);
    if (!begin || !size || !OnlyFirstStacked()) return false;
    begin->insert(begin->begin(), 0);
    size->insert(size->begin(), -1);
    return SetInts(node, 1, *begin) && SetInts(node, 2, *size) && Copy(node);
  }

  bool ConvertStridedSlice(const Node& node) {
    auto begin = Ints(node, 1), end = Ints(node, 2), strides = Ints(node, 3);
    if (!begin || !end || !strides || !OnlyFirstStacked()) return false;
    begin->insert(begin->begin(), 0);
    end->insert(end->begin(), 0);
    strides->insert(strides->begin(), 1);
    AttrMap attrs = node.attrs();
    for (const char* mask :
         {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"}) {
      const bool is_open = std::string_view(mask) == "begin_mask" || std::string_view(mask) == "end_mask";
      attrs.Set(mask, attrs.Get<int64_t>(mask).value_or(0) * 2 + (is_open ? 1 : 0));
    }
    return SetInts(node, 1, *begin) && SetInts(node, 2, *end) && SetInts(node, 3, *strides) &&
           Copy(node, attrs, true);
  }

  // Examples without sparse features, whose dense ones have known shapes.
  bool ConvertParse(const Node& node) {
    const AttrMap& old = node.attrs();
    const auto keys = old.Get<std::vector<std::string>>("dense_keys");
    const auto types = old.Get<std::vector<DataType>>("Tdense");
    const auto shapes = old.Get<std::vector<PartialShape>>("dense_shapes");
    if (!OnlyFirstStacked() || old.Get<int64_t>("num_sparse").value_or(1) != 0) return false;
    if (!keys.ok() || !types.ok() || !shapes.ok()) return false;
    for (const PartialShape& shape : *shapes) {
      if (!shape.IsFullyDefined()) return false;
    }
    const std::vector<Value> defaults(inputs_.begin() + 1, inputs_.end());
    inputs_.resize(2 + keys->size());
    if (!SetConst(1, Tensor(DataType::kString, TensorShape({0})))) return false;
    for (size_t i = 0; i < keys->size(); ++i) {
      if (!SetConst(2 + i, Tensor::Scalar((*keys)[i]))) return false;
    }
    inputs_.insert(inputs_.end(), defaults.begin(), defaults.end());
    const auto made = out_.AddNode(node.name(), "ParseExample",
                                   {{"Nsparse", int64_t{0}},
                                    {"Ndense", static_cast<int64_t>(keys->size())},
                                    {"sparse_types", std::vector<DataType>()},
                                    {"Tdense", *types},
                                    {"dense_shapes", *shapes}});
    return made.ok() && (*made)->num_outputs() == node.num_outputs() && Connect(node, *made, true);
  }

  const FunctionBody& body_;
  const size_t num_elements_;
  const std::vector<PartialShape>& shapes_of_elements_;
  Graph out_;
  ShapeRefiner shapes_;  // of the old graph: those of rows
  std::map<std::pair<int, int>, Value> values_;
  std::vector<Value> inputs_;  // of the current node
  std::vector<TensorRef> args_, rets_;

 public:
  const Graph& graph() const { return out_; }
};

}  // namespace

std::optional<NameAttrList> VectorizeFunction(Graph* graph, const ElementFunction& f,
                                              const std::vector<PartialShape>& elements) {
  const auto body = InstantiateFunction(graph->functions(), graph->ops(), f.f);
  if (!body.ok() || !body->control_rets.empty() || body->rets.empty()) return std::nullopt;
  if (body->args.size() != elements.size() + f.captured.size()) return std::nullopt;
  for (const PartialShape& shape : elements) {
    if (!shape.IsFullyDefined()) return std::nullopt;
  }
  Vectorizer vectorizer(*body, elements.size(), elements);
  FunctionParts parts;
  parts.name = StrCat("__vectorized_", f.f.name);
  parts.append_hash = true;
  tensorflow::FunctionDef def;
  if (!vectorizer.Run(&parts) || !WriteFunction(parts, &def).ok()) return std::nullopt;
  if (!graph->functions().Add(def).ok()) return std::nullopt;
  return NameAttrList{def.signature().name(), std::make_shared<const AttrMap>()};
}

}  // namespace millrace
