// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Rewrites of what moves elements without computing with them, and of conversions.
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

// Of a transpose, or one of another one.
bool Transpose(Rewriter& rewriter, Node* node) {
  const TensorRef x = InputOf(*node, 0);
  const TensorRef perm = InputOf(*node, 1);
  const auto outer = ConstIntegers(perm);
  if (!outer || !IsPermutation(*outer)) return false;
  if (IsIdentity(*outer)) return rewriter.TryReplace(node, {x}, {perm});
  if (x.node->op_name() != "Transpose" || !IsPlain(*x.node)) return false;
  const auto inner = ConstIntegers(InputOf(*x.node, 1));
  if (!inner || inner->size() != outer->size() || !IsPermutation(*inner)) return false;
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

// Of a tensor that was reshaped before: the elements and their order are the same.
bool Reshape(Rewriter& rewriter, Node* node) {
  const TensorRef x = InputOf(*node, 0);
  if (!x.node->traits().same_in_shape || !x.node->traits().aliasing || !IsPlain(*x.node)) return false;
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

// Whether each value of `from` is one of `to`.
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

// Of what was converted before, by way of a type that held all of it. Numbers with a fraction to integers
// stay: out of range each type has its own way.
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

bool Reverse(Rewriter& rewriter, Node* node) {
  const TensorRef x = InputOf(*node, 0);
  if (x.node->op_name() != "ReverseV2" || !IsPlain(*x.node)) return false;
  const auto outer = ConstIntegers(InputOf(*node, 1));
  const auto inner = ConstIntegers(InputOf(*x.node, 1));
  if (!outer || !inner || *outer != *inner) return false;
  return rewriter.TryReplace(node, {InputOf(*x.node, 0)}, {InputOf(*node, 1), InputOf(*x.node, 1)});
}

bool SameAxis(const Node& a, const Node& b) {
  const auto of_a = a.Attr<int64_t>("axis");
  const auto of_b = b.Attr<int64_t>("axis");
  return of_a.ok() && of_b.ok() && *of_a == *of_b;
}

// The parts of what was put together.
bool Unpack(Rewriter& rewriter, Node* node) {
  const TensorRef x = InputOf(*node, 0);
  if (x.node->op_name() != "Pack" || !IsPlain(*x.node) || !SameAxis(*node, *x.node)) return false;
  if (x.node->num_inputs() != node->num_outputs()) return false;
  std::vector<TensorRef> parts;
  for (int i = 0; i < node->num_outputs(); ++i) parts.push_back(InputOf(*x.node, i));
  return rewriter.TryReplace(node, parts);
}

// What was taken apart put together again.
bool Pack(Rewriter& rewriter, Node* node) {
  Node* parts = InputOf(*node, 0).node;
  if (parts->op_name() != "Unpack" || !IsPlain(*parts) || !SameAxis(*node, *parts)) return false;
  if (parts->num_outputs() != node->num_inputs()) return false;
  for (int i = 0; i < node->num_inputs(); ++i) {
    if (InputOf(*node, i) != TensorRef{parts, i}) return false;
  }
  return rewriter.TryReplace(node, {InputOf(*parts, 0)});
}

// All of a tensor.
bool Slice(Rewriter& rewriter, Node* node) {
  const auto begin = ConstIntegers(InputOf(*node, 1));
  if (!begin || std::any_of(begin->begin(), begin->end(), [](int64_t b) { return b != 0; })) return false;
  const auto in = rewriter.ShapeOf(InputOf(*node, 0)).ToTensorShape();
  const auto out = rewriter.ShapeOf({node, 0}).ToTensorShape();
  if (!in.ok() || !out.ok() || !(*in == *out)) return false;
  return rewriter.TryReplace(node, {InputOf(*node, 0)}, {InputOf(*node, 1), InputOf(*node, 2)});
}

// Into one part.
bool Split(Rewriter& rewriter, Node* node, int value) {
  if (node->num_outputs() != 1) return false;
  std::vector<TensorRef> dropped;
  for (int i = 0; i < node->num_inputs(); ++i) {
    if (i == value) continue;
    dropped.push_back(InputOf(*node, i));
    // Its errors stay.
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
