// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/arithmetic.h"

#include <algorithm>
#include <utility>

#include "compile/optimize/arithmetic_rules.h"
#include "op/shape_inference.h"

namespace millrace {
namespace arithmetic {
namespace {

// The elements of larger constants are not examined.
constexpr int64_t kMaxElements = 65536;

template <typename T>
bool AllEqual(const Tensor& tensor, double value) {
  const T wanted = static_cast<T>(static_cast<float>(value));
  const auto elements = tensor.flat<T>();
  return std::all_of(elements.begin(), elements.end(), [&](const T& e) { return e == wanted; });
}

template <typename T>
std::optional<double> AllTheSame(const Tensor& tensor) {
  const auto elements = tensor.flat<T>();
  for (const T& e : elements) {
    if (!(e == elements[0])) return std::nullopt;
  }
  return static_cast<double>(elements[0]);
}

// The unit as a number for IsAll; nullopt for kNone.
std::optional<double> Number(Unit unit) {
  if (unit == Unit::kNone) return std::nullopt;
  return unit == Unit::kOne ? 1 : 0;
}

// f(unit, x) or f(x, unit).
bool DropUnit(Rewriter& rewriter, Node* node, int unit_input, Unit unit) {
  const std::optional<double> number = Number(unit);
  if (!number) return false;
  const TensorRef constant = InputOf(*node, unit_input);
  const TensorRef x = InputOf(*node, 1 - unit_input);
  const Tensor* value = ConstTensorOf(*constant.node);
  if (value == nullptr || !IsAll(*value, *number) || !KeepsShape(rewriter, x, constant)) return false;
  return rewriter.TryReplace(node, {x}, {constant});
}

// f(x, absorber), exact unless x is NaN or infinite.
bool Absorb(Rewriter& rewriter, Node* node, int input) {
  const std::optional<double> number = Number(node->traits().absorber);
  const TensorRef constant = InputOf(*node, input);
  const TensorRef x = InputOf(*node, 1 - input);
  const Tensor* value = ConstTensorOf(*constant.node);
  if (!number || value == nullptr || !IsAll(*value, *number) || !Rewriter::CanDrop(x)) return false;
  const DataType type = node->output_type(0);
  if (!IsExact(type) && !rewriter.options().compile.aggressive_arithmetic) return false;
  const auto shape = rewriter.ShapeOf({node, 0}).ToTensorShape();
  if (!shape.ok() || shape->num_elements() > rewriter.options().compile.max_folded_constant_bytes / 16)
    return false;
  Tensor absorbed(type, *shape);
  if (!absorbed.IsInitialized() || DataTypeSize(type) == 0) return false;
  const std::optional<Tensor> scalar = ScalarOf(type, *number);
  if (!scalar) return false;
  const size_t size = DataTypeSize(type);
  auto* to = static_cast<char*>(absorbed.raw_data());
  const auto* from = static_cast<const char*>(scalar->raw_data());
  for (int64_t i = 0; i < absorbed.num_elements(); ++i)
    std::copy_n(from, size, to + static_cast<size_t>(i) * size);
  Node* result = rewriter.AddConst(*node, "absorbed", std::move(absorbed), {});
  if (result == nullptr) return false;
  rewriter.Substitute(node, result, {x, constant});
  return true;
}

// Whether both shapes are known and equal. For ops that only rearrange elements, one size may be unknown: it
// is equal, too.
bool KeepsItsShape(Rewriter& rewriter, Node* node) {
  const PartialShape in = rewriter.ShapeOf(InputOf(*node, 0));
  const PartialShape out = rewriter.ShapeOf({node, 0});
  if (in.unknown_rank() || out.unknown_rank() || in.rank() != out.rank()) return false;
  int unknown = 0;
  for (int i = 0; i < in.rank(); ++i) {
    const int64_t size = in.dim(i);
    if ((size < 0) != (out.dim(i) < 0)) return false;  // with an unknown size on one side shapes may differ
    if (size < 0) {
      ++unknown;
    } else if (size != out.dim(i)) {
      return false;
    }
  }
  if (unknown == 0) return true;
  const auto dims = in.dims();
  const bool empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  // The parameters must be known, too, as they could be invalid.
  for (int i = 1; i < node->num_inputs(); ++i) {
    if (ConstTensorOf(*InputOf(*node, i).node) == nullptr) return false;
  }
  return unknown == 1 && !empty && node->traits().aliasing;
}

bool ApplyUnaryLaws(Rewriter& rewriter, Node* node) {
  const OpTraits& traits = node->traits();
  const TensorRef input = InputOf(*node, 0);
  if (&input.node->op() != &node->op() || node->num_inputs() != 1 || !IsPlain(*input.node)) return false;
  if (traits.involution) return rewriter.TryReplace(node, {InputOf(*input.node, 0)});
  return traits.idempotent && rewriter.TryReplace(node, {input});
}

}  // namespace

bool ApplyLaws(Rewriter& rewriter, Node* node) {
  const OpTraits& traits = node->traits();
  if (node->num_inputs() == 0 || node->num_outputs() != 1) return false;
  if (node->input_type(0) != node->output_type(0)) return false;
  if (traits.same_in_shape && KeepsItsShape(rewriter, node)) {
    std::vector<TensorRef> dropped;
    for (int i = 1; i < node->num_inputs(); ++i) dropped.push_back(InputOf(*node, i));
    return rewriter.TryReplace(node, {InputOf(*node, 0)}, dropped);
  }
  if (!traits.elementwise) return false;
  if (node->num_inputs() == 1) return ApplyUnaryLaws(rewriter, node);
  if (node->num_inputs() != 2 || node->input_type(1) != node->output_type(0)) return false;
  if (traits.idempotent && InputOf(*node, 0) == InputOf(*node, 1))
    return rewriter.TryReplace(node, {InputOf(*node, 0)});
  return DropUnit(rewriter, node, 1, traits.right_unit) || DropUnit(rewriter, node, 0, traits.left_unit) ||
         Absorb(rewriter, node, 0) || Absorb(rewriter, node, 1);
}

bool IsExact(DataType type) {
  switch (type) {
    case DataType::kBool:
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kUint8:
    case DataType::kUint16:
      return true;
    default:
      return false;
  }
}

bool IsPlain(const Node& node) { return IsPure(node) && !HasControlInputs(node); }

bool IsPlainWithOneUse(const Node& node) {
  const auto uses = std::count_if(node.out_edges().begin(), node.out_edges().end(),
                                  [](const Edge* e) { return e->dst->IsOp(); });
  return uses == 1 && IsPlain(node);
}

bool IsAll(const Tensor& tensor, double value) {
  if (tensor.num_elements() == 0 || tensor.num_elements() > kMaxElements) return false;
  switch (tensor.dtype()) {
    case DataType::kFloat:
      return AllEqual<float>(tensor, value);
    case DataType::kDouble:
      return AllEqual<double>(tensor, value);
    case DataType::kHalf:
      return AllEqual<half>(tensor, value);
    case DataType::kBfloat16:
      return AllEqual<bfloat16>(tensor, value);
    case DataType::kInt8:
      return AllEqual<int8_t>(tensor, value);
    case DataType::kInt16:
      return AllEqual<int16_t>(tensor, value);
    case DataType::kInt32:
      return AllEqual<int32_t>(tensor, value);
    case DataType::kInt64:
      return AllEqual<int64_t>(tensor, value);
    case DataType::kUint8:
      return AllEqual<uint8_t>(tensor, value);
    case DataType::kUint16:
      return AllEqual<uint16_t>(tensor, value);
    case DataType::kBool:
      return AllEqual<bool>(tensor, value);
    case DataType::kComplex64:
      return AllEqual<complex64>(tensor, value);
    case DataType::kComplex128:
      return AllEqual<complex128>(tensor, value);
    default:
      return false;
  }
}

std::optional<double> UniformValue(const Tensor& tensor) {
  if (tensor.num_elements() == 0 || tensor.num_elements() > kMaxElements) return std::nullopt;
  switch (tensor.dtype()) {
    case DataType::kFloat:
      return AllTheSame<float>(tensor);
    case DataType::kDouble:
      return AllTheSame<double>(tensor);
    case DataType::kInt32:
      return AllTheSame<int32_t>(tensor);
    case DataType::kInt64:
      return AllTheSame<int64_t>(tensor);
    default:
      return std::nullopt;
  }
}

std::optional<Tensor> ScalarOf(DataType type, double value) {
  switch (type) {
    case DataType::kFloat:
      return Tensor::Scalar(static_cast<float>(value));
    case DataType::kDouble:
      return Tensor::Scalar(value);
    case DataType::kHalf:
      return Tensor::Scalar(static_cast<half>(static_cast<float>(value)));
    case DataType::kBfloat16:
      return Tensor::Scalar(static_cast<bfloat16>(static_cast<float>(value)));
    case DataType::kInt8:
      return Tensor::Scalar(static_cast<int8_t>(value));
    case DataType::kInt16:
      return Tensor::Scalar(static_cast<int16_t>(value));
    case DataType::kInt32:
      return Tensor::Scalar(static_cast<int32_t>(value));
    case DataType::kInt64:
      return Tensor::Scalar(static_cast<int64_t>(value));
    case DataType::kUint8:
      return Tensor::Scalar(static_cast<uint8_t>(value));
    case DataType::kUint16:
      return Tensor::Scalar(static_cast<uint16_t>(value));
    case DataType::kBool:
      return Tensor::Scalar(value != 0);
    case DataType::kComplex64:
      return Tensor::Scalar(complex64(static_cast<float>(value)));
    case DataType::kComplex128:
      return Tensor::Scalar(complex128(value));
    default:
      return std::nullopt;
  }
}

bool KeepsShape(Rewriter& rewriter, const TensorRef& x, const TensorRef& other) {
  const PartialShape of_other = rewriter.ShapeOf(other);
  if (of_other.unknown_rank()) return false;
  if (of_other.rank() == 0) return true;
  const PartialShape of_x = rewriter.ShapeOf(x);
  if (of_x.unknown_rank() || of_x.rank() < of_other.rank()) return false;
  for (int i = 1; i <= of_other.rank(); ++i) {
    const int64_t size = of_other.dim(of_other.rank() - i);
    if (size != 1 && (size < 0 || of_x.dim(of_x.rank() - i) != size)) return false;
  }
  return true;
}

std::vector<Node*> WaitsOf(const std::vector<TensorRef>& constants) {
  std::vector<Node*> waits;
  for (const TensorRef& constant : constants) {
    if (!IsFreeConst(*constant.node)) waits.push_back(constant.node);
  }
  return waits;
}

std::optional<std::vector<int64_t>> ConstIntegers(const TensorRef& tensor) {
  const Tensor* value = ConstTensorOf(*tensor.node);
  if (value == nullptr || value->num_elements() > TensorShape::kMaxRank) return std::nullopt;
  const auto integers = IntegerValues(*value);
  return integers.ok() ? std::optional(*integers) : std::nullopt;
}

AttrMap TypeAttr(const Node& node) {
  AttrMap attrs;
  attrs.Set("T", node.input_type(0));
  return attrs;
}

}  // namespace arithmetic

StatusOr<int> SimplifyArithmetic(Graph* graph, const OptimizeOptions& options) {
  MR_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(*graph));
  Rewriter rewriter(graph, options);
  int changes = 0;
  for (Node* node : order) {
    // Nodes may have been removed together with others. New nodes may be rewritten again in the next round.
    if (!node->IsOp() || node->num_inputs() == 0 || rewriter.MustStay(*node) || !IsPure(*node)) continue;
    if (arithmetic::ApplyLaws(rewriter, node) || arithmetic::SimplifyArrangement(rewriter, node) ||
        arithmetic::SimplifySums(rewriter, node)) {
      ++changes;
    }
  }
  if (changes > 0) graph->FixupSourceAndSinkEdges();
  return changes;
}

}  // namespace millrace
