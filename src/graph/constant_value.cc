// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Values that are known from the graph alone. Computations of shapes are evaluated here: constants, the
// metadata of tensors of known shape, and the ops that split and assemble shapes. Other ops are run, if an
// evaluator supports them, when all their inputs are known.
#include "graph/constant_value.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace millrace {
namespace {

using Sizes = std::vector<int64_t>;  // -1: not known
constexpr int64_t kUnknown = -1;

// One question. Work is bounded, so that neither a long chain nor shared inputs (which are followed once per
// use) can make it slow or deep; values beyond the bound are unknown.
class Finder {
 public:
  explicit Finder(const ShapeRefiner* shapes) : shapes_(shapes) {}

  std::optional<Tensor> Value(const Node& node, int output);
  std::optional<Sizes> Vector(const Node& node, int output);

 private:
  static constexpr int kMaxVisits = 1024;
  static constexpr int kMaxDepth = 256;
  static constexpr int64_t kMaxElements = 1024;  // of tensors that take part in running an op

  // Holds one level of recursion.
  class Level {
   public:
    explicit Level(Finder* finder) : finder_(finder) {
      ++finder_->depth_;
      ++finder_->visits_;
    }
    ~Level() { --finder_->depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    bool too_far() const { return finder_->depth_ > kMaxDepth || finder_->visits_ > kMaxVisits; }

   private:
    Finder* const finder_;
  };

  std::optional<int64_t> Scalar(const Node& node, int output);
  PartialShape ShapeOf(const Edge* edge) const;
  PartialShape ShapeOf(const Node& node, int output) const;
  std::optional<Sizes> VectorOfInput(const Node& node, int input);
  bool CanRun(const Node& node) const;
  // The result of running the node.
  std::optional<Tensor> Run(const Node& node, int output);
  std::optional<Sizes> RunForIntegers(const Node& node, int output, int rank);
  std::optional<Sizes> UnknownVector(const Node& node, int output) const;
  std::optional<Sizes> VectorByOp(const Node& node, int output);
  std::optional<Sizes> Pack(const Node& node);
  std::optional<Sizes> Concat(const Node& node, int first, int end, int axis);
  std::optional<Sizes> Slice(const Node& node);
  std::optional<Sizes> StridedSlice(const Node& node, bool wants_scalar);

  const ShapeRefiner* const shapes_;
  std::set<const Node*> not_run_;  // whose inputs are not known, or that cannot be run
  int depth_ = 0;
  int visits_ = 0;
};

bool IsInteger(DataType type) { return type == DataType::kInt32 || type == DataType::kInt64; }

bool PassesThrough(const Node& node) {
  return node.op_name() == "Identity" || (node.op_name() == "Cast" && IsInteger(node.input_type(0)));
}

const Tensor* ConstTensor(const Node& node) {
  if (node.op_name() != "Const") return nullptr;
  const AttrValue* value = node.attrs().Find("value");
  const auto* tensor = value == nullptr ? nullptr : value->As<std::shared_ptr<const Tensor>>();
  return tensor == nullptr ? nullptr : tensor->get();
}

// Integers as a tensor of type `dtype`; nothing when one does not fit.
std::optional<Tensor> MakeTensor(const Sizes& values, DataType dtype, const TensorShape& shape) {
  if (dtype == DataType::kInt64) return Tensor::From<int64_t>(values, shape);
  if (dtype != DataType::kInt32) return std::nullopt;
  std::vector<int32_t> narrow;
  for (const int64_t v : values) {
    if (v < INT32_MIN || v > INT32_MAX) return std::nullopt;
    narrow.push_back(static_cast<int32_t>(v));
  }
  return Tensor::From<int32_t>(narrow, shape);
}

bool AllKnown(const Sizes& sizes) { return std::find(sizes.begin(), sizes.end(), kUnknown) == sizes.end(); }

int64_t IntAttr(const Node& node, std::string_view name, int64_t missing) {
  return node.attrs().Get<int64_t>(name).value_or(missing);
}

PartialShape Finder::ShapeOf(const Node& node, int output) const {
  return shapes_ == nullptr ? PartialShape() : shapes_->OutputShape(node, output);
}

PartialShape Finder::ShapeOf(const Edge* edge) const {
  return edge == nullptr ? PartialShape() : ShapeOf(*edge->src, edge->src_output);
}

std::optional<Tensor> Finder::Value(const Node& node, int output) {
  const Level level(this);
  if (level.too_far()) return std::nullopt;
  if (const Tensor* tensor = ConstTensor(node); tensor != nullptr) return *tensor;
  if (node.op_name() == "Identity") {
    const Edge* edge = node.in_edges()[0];
    return edge == nullptr ? std::nullopt : Value(*edge->src, edge->src_output);
  }
  if (output < 0 || output >= node.num_outputs()) return std::nullopt;
  if (!IsInteger(node.output_type(output))) return Run(node, output);
  // A value of -1 can't be distinguished from an unknown one and counts as unknown.
  if (const auto scalar = Scalar(node, output); scalar && *scalar != kUnknown) {
    return MakeTensor({*scalar}, node.output_type(output), TensorShape());
  }
  const std::optional<Sizes> sizes = Vector(node, output);
  if (!sizes || !AllKnown(*sizes)) return Run(node, output);
  return MakeTensor(*sizes, node.output_type(output), TensorShape({static_cast<int64_t>(sizes->size())}));
}

std::optional<int64_t> Finder::Scalar(const Node& node, int output) {
  const Level level(this);
  if (level.too_far() || output < 0 || output >= node.num_outputs()) return std::nullopt;
  if (const Tensor* tensor = ConstTensor(node); tensor != nullptr) {
    if (!IsInteger(tensor->dtype()) || tensor->rank() != 0) return std::nullopt;
    const auto values = IntegerValues(*tensor);
    return values.ok() && values->size() == 1 ? std::optional((*values)[0]) : std::nullopt;
  }
  if (node.num_inputs() == 0 || !IsInteger(node.output_type(output))) return std::nullopt;
  const Edge* edge = node.in_edges()[0];
  if (edge == nullptr) return std::nullopt;
  if (PassesThrough(node)) return Scalar(*edge->src, edge->src_output);
  if (node.op_name() == "Rank" || node.op_name() == "Size") {
    const PartialShape shape = ShapeOf(edge);
    if (node.op_name() == "Rank")
      return shape.unknown_rank() ? std::nullopt : std::optional<int64_t>(shape.rank());
    const auto full = shape.ToTensorShape();
    return full.ok() ? std::optional<int64_t>(full->num_elements()) : std::nullopt;
  }
  if (node.op_name() == "StridedSlice") {
    const std::optional<Sizes> element = StridedSlice(node, true);
    if (element && element->size() == 1) return element->front();
  }
  const std::optional<Sizes> value = RunForIntegers(node, output, 0);
  return value ? std::optional(value->front()) : std::nullopt;
}

// Ops that compute numbers from few numbers, and whose result has a known and small size.
bool Finder::CanRun(const Node& node) const {
  constexpr int kMaxArguments = 64;
  const OpTraits& t = node.traits();
  if (node.op_def().is_stateful || t.never_fold || t.has_side_effects || t.is_control_flow || t.is_variable ||
      t.is_send || t.is_recv || t.only_checks || t.metadata_only || WritesDumps(node))
    return false;
  if (node.num_inputs() == 0 || node.num_inputs() > kMaxArguments || node.num_outputs() > kMaxArguments)
    return false;
  const auto is_number = [](DataType type) { return !IsRefType(type) && DataTypeSize(type) > 0; };
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (!is_number(node.input_type(i)) || node.in_edges()[i] == nullptr) return false;
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    const auto shape = ShapeOf(node, i).ToTensorShape();
    if (!is_number(node.output_type(i)) || !shape.ok() || shape->num_elements() > kMaxElements) return false;
  }
  return true;
}

std::optional<Tensor> Finder::Run(const Node& node, int output) {
  if (shapes_ == nullptr || !shapes_->evaluates()) return std::nullopt;
  const std::vector<Tensor>* values = shapes_->Evaluated(node);
  if (values == nullptr) {
    if (!not_run_.insert(&node).second || !CanRun(node)) return std::nullopt;
    std::vector<Tensor> inputs;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Edge* edge = node.in_edges()[i];
      std::optional<Tensor> input = Value(*edge->src, edge->src_output);
      if (!input || input->num_elements() > kMaxElements || !input->IsInitialized()) return std::nullopt;
      inputs.push_back(*std::move(input));
    }
    values = shapes_->Evaluate(node, inputs);
    if (values == nullptr) return std::nullopt;
  }
  return (*values)[static_cast<size_t>(output)];
}

std::optional<Sizes> Finder::RunForIntegers(const Node& node, int output, int rank) {
  const std::optional<Tensor> value = Run(node, output);
  if (!value || value->rank() != rank) return std::nullopt;
  const auto integers = IntegerValues(*value);
  return integers.ok() ? std::optional(*integers) : std::nullopt;
}

std::optional<Sizes> Finder::VectorOfInput(const Node& node, int input) {
  const Edge* edge = node.in_edges()[input];
  return edge == nullptr ? std::nullopt : Vector(*edge->src, edge->src_output);
}

// The value of an integer vector of which only the length is known.
std::optional<Sizes> Finder::UnknownVector(const Node& node, int output) const {
  const PartialShape shape = ShapeOf(node, output);
  if (shape.rank() != 1 || shape.dim(0) < 0 || shape.dim(0) > TensorShape::kMaxRank) return std::nullopt;
  return Sizes(static_cast<size_t>(shape.dim(0)), kUnknown);
}

std::optional<Sizes> Finder::Vector(const Node& node, int output) {
  const Level level(this);
  if (level.too_far() || output < 0 || output >= node.num_outputs()) return std::nullopt;
  if (!IsInteger(node.output_type(output))) return std::nullopt;
  if (const Tensor* tensor = ConstTensor(node); tensor != nullptr) {
    if (tensor->rank() != 1 || tensor->num_elements() > TensorShape::kMaxRank) return std::nullopt;
    const auto values = IntegerValues(*tensor);
    return values.ok() ? std::optional(*values) : std::nullopt;
  }
  std::optional<Sizes> sizes = VectorByOp(node, output);
  if (!sizes) sizes = RunForIntegers(node, output, 1);
  if (sizes && sizes->size() > static_cast<size_t>(TensorShape::kMaxRank)) return std::nullopt;
  return sizes ? std::move(sizes) : UnknownVector(node, output);
}

std::optional<Sizes> Finder::VectorByOp(const Node& node, int output) {
  const std::string& op = node.op_name();
  if (node.num_inputs() == 0) return std::nullopt;
  if (PassesThrough(node)) return VectorOfInput(node, 0);
  if (op == "Shape" || op == "ShapeN") {
    const PartialShape shape = ShapeOf(node.in_edges()[op == "Shape" ? 0 : output]);
    if (shape.unknown_rank()) return std::nullopt;
    return Sizes(shape.dims().begin(), shape.dims().end());
  }
  if (op == "Pack") return Pack(node);
  if (op == "Concat") return Concat(node, 1, node.num_inputs(), 0);
  if (op == "ConcatV2") return Concat(node, 0, node.num_inputs() - 1, node.num_inputs() - 1);
  if (op == "Slice") return Slice(node);
  if (op == "StridedSlice") return StridedSlice(node, false);
  return std::nullopt;
}

std::optional<Sizes> Finder::Pack(const Node& node) {
  const int64_t axis = IntAttr(node, "axis", 0);
  if ((axis != 0 && axis != -1) || node.num_inputs() > TensorShape::kMaxRank) return std::nullopt;
  Sizes sizes;
  for (const Edge* edge : node.data_in_edges()) {
    if (edge == nullptr) return std::nullopt;
    const std::optional<int64_t> element = Scalar(*edge->src, edge->src_output);
    // Elements may have unknown values, but must be scalars.
    if (!element && ShapeOf(edge).rank() != 0) return std::nullopt;
    sizes.push_back(element ? std::max(*element, kUnknown) : kUnknown);
  }
  return sizes;
}

std::optional<Sizes> Finder::Concat(const Node& node, int first, int end, int axis) {
  const Edge* axis_edge = node.in_edges()[axis];
  if (axis_edge == nullptr) return std::nullopt;
  const std::optional<int64_t> dim = Scalar(*axis_edge->src, axis_edge->src_output);
  if (!dim || (*dim != 0 && *dim != -1)) return std::nullopt;
  Sizes sizes;
  for (int i = first; i < end; ++i) {
    const std::optional<Sizes> part = VectorOfInput(node, i);
    if (!part || sizes.size() + part->size() > static_cast<size_t>(TensorShape::kMaxRank))
      return std::nullopt;
    sizes.insert(sizes.end(), part->begin(), part->end());
  }
  return sizes;
}

std::optional<Sizes> Finder::Slice(const Node& node) {
  const std::optional<Sizes> input = VectorOfInput(node, 0);
  const std::optional<Sizes> begin = VectorOfInput(node, 1);
  const std::optional<Sizes> size = VectorOfInput(node, 2);
  if (!input || !begin || !size || begin->size() != 1 || size->size() != 1) return std::nullopt;
  // A size of -1 means "the rest", but here it may also mean that the size is not known: only a Const
  // is unambiguous.
  const bool size_is_const = ConstTensor(*node.in_edges()[2]->src) != nullptr;
  if (size->front() == kUnknown && !size_is_const) return std::nullopt;
  const auto length = static_cast<int64_t>(input->size());
  const int64_t from = begin->front();
  if (from < 0 || from > length) return std::nullopt;
  const int64_t count = size->front() == -1 ? length - from : size->front();
  if (count < 0 || count > length - from) return std::nullopt;
  return Sizes(input->begin() + from, input->begin() + from + count);
}

// input[begin:end:stride] of a vector, or input[begin] when the index shrinks the axis.
std::optional<Sizes> Finder::StridedSlice(const Node& node, bool wants_scalar) {
  if (node.num_inputs() != 4) return std::nullopt;
  const bool shrinks = (IntAttr(node, "shrink_axis_mask", 0) & 1) != 0;
  if (shrinks != wants_scalar || IntAttr(node, "ellipsis_mask", 0) != 0 ||
      IntAttr(node, "new_axis_mask", 0) != 0) {
    return std::nullopt;
  }
  const std::optional<Sizes> input = VectorOfInput(node, 0);
  if (!input) return std::nullopt;
  int64_t index[3];  // begin, end, stride: constants, as negative values have a meaning
  for (int i = 0; i < 3; ++i) {
    const Edge* edge = node.in_edges()[i + 1];
    const Tensor* tensor = edge == nullptr ? nullptr : ConstTensor(*edge->src);
    if (tensor == nullptr || tensor->rank() != 1 || tensor->num_elements() != 1) return std::nullopt;
    const auto values = IntegerValues(*tensor);
    if (!values.ok()) return std::nullopt;
    index[i] = (*values)[0];
  }
  const auto length = static_cast<int64_t>(input->size());
  const int64_t stride = index[2];
  if (shrinks) {
    const int64_t at = index[0] < 0 ? index[0] + length : index[0];
    if (at < 0 || at >= length) return std::nullopt;
    return Sizes{(*input)[static_cast<size_t>(at)]};
  }
  // INT64_MIN has no positive counterpart, and no slice of a short vector needs a stride beyond its length.
  if (stride == 0 || stride > length + 1 || stride < -length - 1) return std::nullopt;
  const int64_t low = stride > 0 ? 0 : -1;
  const int64_t high = stride > 0 ? length : length - 1;
  const auto clamp = [&](int64_t i) { return std::clamp(i < 0 ? i + length : i, low, high); };
  const bool open_begin = (IntAttr(node, "begin_mask", 0) & 1) != 0;
  const bool open_end = (IntAttr(node, "end_mask", 0) & 1) != 0;
  const int64_t begin = open_begin ? (stride > 0 ? low : high) : clamp(index[0]);
  const int64_t end = open_end ? (stride > 0 ? high : low) : clamp(index[1]);
  Sizes sizes;
  for (int64_t i = begin; stride > 0 ? i < end : i > end; i += stride)
    sizes.push_back((*input)[static_cast<size_t>(i)]);
  return sizes;
}

}  // namespace

StatusOr<Tensor> ConstantValue(const Node& node, int output, const ShapeRefiner* shapes) {
  std::optional<Tensor> value = Finder(shapes).Value(node, output);
  if (!value) return errors::NotFound("The value of ", node.name(), ":", output, " is not known");
  return *std::move(value);
}

std::optional<PartialShape> ConstantValueAsShape(const Node& node, int output, const ShapeRefiner* shapes) {
  const std::optional<Sizes> sizes = Finder(shapes).Vector(node, output);
  if (!sizes) return std::nullopt;
  auto shape = PartialShape::Make(*sizes);
  return shape.ok() ? std::optional(*std::move(shape)) : std::nullopt;
}

bool WritesDumps(const Node& node) {
  if (!node.op_def().allows_uninitialized_input) return false;  // all debug ops, and few others
  const AttrValue* urls = node.attrs().Find("debug_urls");
  const auto* list = urls == nullptr ? nullptr : urls->As<std::vector<std::string>>();
  return list != nullptr && !list->empty();
}

}  // namespace millrace
