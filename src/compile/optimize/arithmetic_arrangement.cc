// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Rewrites of ops that move elements without computing with them, and of conversions.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "compile/optimize/arithmetic_rules.h"
#include "op/shape_inference.h"

namespace millrace::arithmetic {
namespace {

bool IsIdentity(const std::vector<int64_t>& permutation) {
  for (size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

bool IsPermutation(std::vector<int64_t> order) {
  std::sort(order.begin(), order.end());
  return IsIdentity(order);
}

Tensor IndexTensor(const std::vector<int64_t>& values, DataType type) {
  const TensorShape shape({static_cast<int64_t>(values.size())});
  if (type == DataType::kInt64) return Tensor::From<int64_t>(values, shape);
  return Tensor::From<int32_t>(std::vector<int32_t>(values.begin(), values.end()), shape);
}

// A node may only be removed if running it could not have been an error: errors must be reported with and
// without the pass. The functions below decide that from shapes and constants alone.

// Whether the rank is known and the one that the constant indices are for.
bool HasRank(Rewriter& rewriter, const TensorRef& tensor, size_t rank) {
  const PartialShape shape = rewriter.ShapeOf(tensor);
  return !shape.unknown_rank() && static_cast<size_t>(shape.rank()) == rank;
}

bool IsKnown(const PartialShape& shape) { return shape.ToTensorShape().ok(); }

// A Reshape to constant sizes: all sizes are known and were compared by shape inference, or one size is
// inferred and the known sizes of the input are a multiple of the others.
bool ReshapeCannotFail(Rewriter& rewriter, const Node& node) {
  const auto sizes = ConstIntegers(InputOf(node, 1));
  const PartialShape in = rewriter.ShapeOf(InputOf(node, 0));
  if (!sizes || in.unknown_rank()) return false;
  int64_t wanted = 1, known = 1;
  bool open = false;
  for (const int64_t size : *sizes) {
    if (size == 0 || size < -1 || (size == -1 && open)) return false;
    if (size == -1) {
      open = true;
    } else if (__builtin_mul_overflow(wanted, size, &wanted)) {
      return false;
    }
  }
  bool all_known = true;
  for (int i = 0; i < in.rank(); ++i) {
    if (in.dim(i) < 0) {
      all_known = false;
    } else if (__builtin_mul_overflow(known, in.dim(i), &known)) {
      return false;
    }
  }
  return open ? known % wanted == 0 : all_known && known == wanted;
}

bool SqueezeCannotFail(Rewriter& rewriter, const Node& node) {
  const auto axes = node.Attr<std::vector<int64_t>>("squeeze_dims");
  if (!axes.ok()) return false;
  const PartialShape in = rewriter.ShapeOf(InputOf(node, 0));
  return axes->empty() || (!in.unknown_rank() && std::all_of(axes->begin(), axes->end(), [&](int64_t axis) {
           if (axis < 0) axis += in.rank();
           return axis >= 0 && axis < in.rank() && in.dim(static_cast<int>(axis)) == 1;
         }));
}

bool ExpandDimsCannotFail(Rewriter& rewriter, const Node& node) {
  const auto axis = ConstIntegers(InputOf(node, 1));
  const PartialShape in = rewriter.ShapeOf(InputOf(node, 0));
  return axis && axis->size() == 1 && !in.unknown_rank() && axis->front() >= -in.rank() - 1 &&
         axis->front() <= in.rank();
}

bool ReshapingCannotFail(Rewriter& rewriter, const Node& node) {
  const std::string& op = node.op_name();
  if (op == "Reshape") return ReshapeCannotFail(rewriter, node);
  if (op == "Squeeze") return SqueezeCannotFail(rewriter, node);
  return op == "ExpandDims" && ExpandDimsCannotFail(rewriter, node);
}

// Simplifies a transpose, also of another transpose.
bool Transpose(Rewriter& rewriter, Node* node) {
  const TensorRef x = InputOf(*node, 0);
  const TensorRef perm = InputOf(*node, 1);
  const auto outer = ConstIntegers(perm);
  if (!outer || !IsPermutation(*outer) || !HasRank(rewriter, x, outer->size())) return false;
  if (IsIdentity(*outer)) return rewriter.TryReplace(node, {x}, {perm});
  if (x.node->op_name() != "Transpose" || !IsPlain(*x.node)) return false;
  const auto inner = ConstIntegers(InputOf(*x.node, 1));
  if (!inner || !IsPermutation(*inner) || !HasRank(rewriter, InputOf(*x.node, 0), inner->size()))
    return false;
  std::vector<int64_t> both;
  for (const int64_t axis : *outer) both.push_back((*inner)[static_cast<size_t>(axis)]);
  const TensorRef source = InputOf(*x.node, 0);
  const TensorRef inner_perm = InputOf(*x.node, 1);
  if (IsIdentity(both)) return rewriter.TryReplace(node, {source}, {perm, inner_perm});
  if (!IsPlainWithOneUse(*x.node)) return false;
  Node* order =
      rewriter.AddConst(*node, "perm", IndexTensor(both, node->input_type(1)), WaitsOf({perm, inner_perm}));
  if (order == nullptr) return false;
  Node* one = rewriter.Add(*node, "both", "Transpose", node->attrs(), {source, {order, 0}});
  if (one == nullptr) {
    rewriter.RemoveUnused(order);
    return false;
  }
  rewriter.Substitute(node, one);
  return true;
}

// A reshape of a reshaped tensor: the elements and their order are the same.
bool Reshape(Rewriter& rewriter, Node* node) {
  const TensorRef x = InputOf(*node, 0);
  if (!IsPlain(*x.node) || !ReshapingCannotFail(rewriter, *x.node)) return false;
  std::vector<TensorRef> dropped;
  for (int i = 1; i < x.node->num_inputs(); ++i) {
    dropped.push_back(InputOf(*x.node, i));
    if (ConstTensorOf(*dropped.back().node) == nullptr) return false;
  }
  const TensorRef source = InputOf(*x.node, 0);
  if (IsRefType(source.node->output_type(source.output))) return false;
  for (Node* wait : WaitsOf(dropped)) rewriter.graph().AddControlEdge(wait, node);
  rewriter.graph().UpdateInput(node, 0, source.node, source.output);
  rewriter.RemoveUnused(x.node);
  return true;
}

int Bits(DataType type) { return static_cast<int>(DataTypeSize(type)) * 8; }

bool IsSigned(DataType type) { return type != DataType::kUint8 && type != DataType::kUint16; }

bool IsReal(DataType type) {
  return type == DataType::kFloat || type == DataType::kDouble || type == DataType::kHalf ||
         type == DataType::kBfloat16;
}

int DigitsOf(DataType type) {
  switch (type) {
    case DataType::kDouble:
      return 53;
    case DataType::kFloat:
      return 24;
    case DataType::kHalf:
      return 11;
    default:
      return 8;
  }
}

// Whether each value of `from` is a value of `to`.
bool LosesNothing(DataType from, DataType to) {
  if (from == to || from == DataType::kBool) return from == to || IsExact(to) || IsReal(to);
  if (to == DataType::kBool) return false;
  if (IsExact(from) && IsExact(to)) {
    if (IsSigned(from) && !IsSigned(to)) return false;
    return Bits(to) > Bits(from) || (Bits(to) == Bits(from) && IsSigned(to) == IsSigned(from));
  }
  if (IsExact(from) && (to == DataType::kFloat || to == DataType::kDouble)) {
    return Bits(from) - (IsSigned(from) ? 1 : 0) <= DigitsOf(to);
  }
  // Half and bfloat16 have different ranges.
  return IsReal(from) && (to == DataType::kDouble || (to == DataType::kFloat && from != DataType::kDouble));
}

// Skips a first conversion to a type that holds all values. Conversions of fractions to integers are kept,
// because each type treats values out of range differently.
bool Cast(Rewriter& rewriter, Node* node) {
  const TensorRef x = InputOf(*node, 0);
  if (x.node->op_name() != "Cast" || !IsPlain(*x.node)) return false;
  const DataType from = x.node->input_type(0);
  const DataType by = x.node->output_type(0);
  const DataType to = node->output_type(0);
  if (!LosesNothing(from, by)) return false;
  const TensorRef source = InputOf(*x.node, 0);
  if (from == to) return rewriter.TryReplace(node, {source});
  if (!IsReal(to) && (IsReal(from) || IsReal(by))) return false;
  if (!IsReal(to) && !IsExact(to)) return false;
  if (!IsPlainWithOneUse(*x.node)) return false;
  AttrMap attrs = node->attrs();
  attrs.Set("SrcT", from);
  Node* one = rewriter.Add(*node, "both", "Cast", std::move(attrs), {source});
  if (one == nullptr) return false;
  rewriter.Substitute(node, one);
  return true;
}

// Whether each axis is one of the tensor's, and none is repeated.
bool HasValidAxes(Rewriter& rewriter, const TensorRef& tensor, std::vector<int64_t> axes) {
  const PartialShape shape = rewriter.ShapeOf(tensor);
  if (shape.unknown_rank()) return false;
  for (int64_t& axis : axes) {
    if (axis < -shape.rank() || axis >= shape.rank()) return false;
    if (axis < 0) axis += shape.rank();
  }
  std::sort(axes.begin(), axes.end());
  return std::adjacent_find(axes.begin(), axes.end()) == axes.end();
}

bool Reverse(Rewriter& rewriter, Node* node) {
  const TensorRef x = InputOf(*node, 0);
  if (x.node->op_name() != "ReverseV2" || !IsPlain(*x.node)) return false;
  const auto outer = ConstIntegers(InputOf(*node, 1));
  const auto inner = ConstIntegers(InputOf(*x.node, 1));
  if (!outer || !inner || *outer != *inner || !HasValidAxes(rewriter, InputOf(*x.node, 0), *outer))
    return false;
  return rewriter.TryReplace(node, {InputOf(*x.node, 0)}, {InputOf(*node, 1), InputOf(*x.node, 1)});
}

bool SameAxis(const Node& a, const Node& b) {
  const auto of_a = a.Attr<int64_t>("axis");
  const auto of_b = b.Attr<int64_t>("axis");
  return of_a.ok() && of_b.ok() && *of_a == *of_b;
}

// Unpack of a Pack: its inputs.
bool Unpack(Rewriter& rewriter, Node* node) {
  const TensorRef x = InputOf(*node, 0);
  if (x.node->op_name() != "Pack" || !IsPlain(*x.node) || !SameAxis(*node, *x.node)) return false;
  if (x.node->num_inputs() != node->num_outputs()) return false;
  if (x.node->num_inputs() == 0) return false;
  const PartialShape first = rewriter.ShapeOf(InputOf(*x.node, 0));
  const int64_t axis = *node->Attr<int64_t>("axis");
  if (first.unknown_rank() || axis < -first.rank() - 1 || axis > first.rank()) return false;
  std::vector<TensorRef> parts;
  for (int i = 0; i < node->num_outputs(); ++i) {
    parts.push_back(InputOf(*x.node, i));
    // For parts of different shapes the Pack is an error.
    if (i > 0 && (!IsKnown(first) || !(rewriter.ShapeOf(parts.back()) == first))) return false;
  }
  return rewriter.TryReplace(node, parts);
}

// Pack of the outputs of an Unpack: its input.
bool Pack(Rewriter& rewriter, Node* node) {
  Node* parts = InputOf(*node, 0).node;
  if (parts->op_name() != "Unpack" || !IsPlain(*parts) || !SameAxis(*node, *parts)) return false;
  if (parts->num_outputs() != node->num_inputs()) return false;
  for (int i = 0; i < node->num_inputs(); ++i) {
    if (InputOf(*node, i) != TensorRef{parts, i}) return false;
  }
  const TensorRef whole = InputOf(*parts, 0);
  const PartialShape shape = rewriter.ShapeOf(whole);
  if (shape.unknown_rank() || shape.rank() == 0) return false;
  int64_t axis = *node->Attr<int64_t>("axis");
  if (axis < 0) axis += shape.rank();
  if (axis < 0 || axis >= shape.rank() || shape.dim(static_cast<int>(axis)) != node->num_inputs())
    return false;
  return rewriter.TryReplace(node, {whole});
}

// A slice of all elements.
bool Slice(Rewriter& rewriter, Node* node) {
  const auto begin = ConstIntegers(InputOf(*node, 1));
  if (!begin || std::any_of(begin->begin(), begin->end(), [](int64_t b) { return b != 0; })) return false;
  const auto in = rewriter.ShapeOf(InputOf(*node, 0)).ToTensorShape();
  const auto out = rewriter.ShapeOf({node, 0}).ToTensorShape();
  if (!in.ok() || !out.ok() || !(*in == *out)) return false;
  return rewriter.TryReplace(node, {InputOf(*node, 0)}, {InputOf(*node, 1), InputOf(*node, 2)});
}

// A split into one part.
bool Split(Rewriter& rewriter, Node* node, int value) {
  if (node->num_outputs() != 1) return false;
  std::vector<TensorRef> dropped;
  for (int i = 0; i < node->num_inputs(); ++i) {
    if (i == value) continue;
    dropped.push_back(InputOf(*node, i));
    // Only constants may be dropped: other nodes may have errors.
    if (ConstTensorOf(*dropped.back().node) == nullptr) return false;
  }
  const auto in = rewriter.ShapeOf(InputOf(*node, value)).ToTensorShape();
  const auto out = rewriter.ShapeOf({node, 0}).ToTensorShape();
  if (!in.ok() || !out.ok() || !(*in == *out)) return false;
  return rewriter.TryReplace(node, {InputOf(*node, value)}, dropped);
}

}  // namespace

bool SimplifyArrangement(Rewriter& rewriter, Node* node) {
  const std::string& op = node->op_name();
  if (op == "Transpose") return Transpose(rewriter, node);
  if (op == "Reshape") return Reshape(rewriter, node);
  if (op == "Cast") return Cast(rewriter, node);
  if (op == "ReverseV2") return Reverse(rewriter, node);
  if (op == "Unpack") return Unpack(rewriter, node);
  if (op == "Pack") return Pack(rewriter, node);
  if (op == "Slice") return Slice(rewriter, node);
  if (op == "Split") return Split(rewriter, node, 1);
  if (op == "SplitV") return Split(rewriter, node, 0);
  return false;
}

}  // namespace millrace::arithmetic
