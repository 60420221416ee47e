// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;

// Ops on lists of doubles.
class Lists {
 public:
  explicit Lists(GraphBuilder& b) : b_(b) {}
  Expr Int(int i) const { return Scalar(b_, DataType::kInt32, i); }
  Expr Ints(const std::vector<int64_t>& values) const { return Vector(b_, DataType::kInt32, values); }
  Expr Longs(const std::vector<int64_t>& values) const { return Vector(b_, DataType::kInt64, values); }

  Expr Empty() const { return Op("EmptyTensorList", {Int(-1), Int(-1)}, Both()); }
  Expr Reserve(int size) const { return Op("TensorListReserve", {Int(-1), Int(size)}, Both()); }
  Expr FromTensor(const Expr& x) const { return Op("TensorListFromTensor", {x, Int(-1)}); }
  Expr Push(const Expr& list, const Expr& x) const { return Op("TensorListPushBack", {list, x}); }
  Expr Pop(const Expr& list) const { return Op("TensorListPopBack", {list, Int(-1)}, Dtype()); }
  Expr Get(const Expr& list, int i) const {
    return Op("TensorListGetItem", {list, Int(i), Int(-1)}, Dtype());
  }
  Expr Set(const Expr& list, int i, const Expr& x) const {
    return Op("TensorListSetItem", {list, Int(i), x});
  }
  Expr Stack(const Expr& list, const std::vector<int64_t>& shape) const {
    return Op("TensorListStack", {list, Ints(shape)}, Dtype());
  }
  Expr Gather(const Expr& list, const std::vector<int64_t>& indices) const {
    return Op("TensorListGather", {list, Ints(indices), Int(-1)}, Dtype());
  }
  Expr Resize(const Expr& list, int size) const { return Op("TensorListResize", {list, Int(size)}); }
  static AttrMap Dtype() { return {{"element_dtype", DataType::kDouble}}; }
  static AttrMap Both() { return {{"element_dtype", DataType::kDouble}, {"shape_type", DataType::kInt32}}; }

 private:
  GraphBuilder& b_;
};

Exprs PushedAndPopped(GraphBuilder& b, const Exprs& x) {
  const Lists l(b);
  const Expr two = l.Push(l.Push(l.Empty(), x[0] * x[0]), x[1]);
  const Expr popped = l.Pop(two);
  const Expr again = l.Pop(popped);
  return {popped.Sibling(1) * again.Sibling(1), l.Pop(two).Sibling(1)};
}

// Only the second-to-last element is used.
Exprs PoppedOnly(GraphBuilder& b, const Exprs& x) {
  const Lists l(b);
  const Expr rest = l.Pop(l.Push(l.Push(l.Empty(), x[0]), x[1]));
  const Expr y = l.Get(rest, 0);
  return {y * y};
}

Exprs SetAndGot(GraphBuilder& b, const Exprs& x) {
  const Lists l(b);
  const Expr list = l.Set(l.Set(l.FromTensor(x[0]), 1, x[1] * x[1]), 2, x[1]);
  return {l.Get(list, 0) * l.Get(list, 1), l.Get(list, 1) * l.Get(list, 2)};
}

Exprs Stacked(GraphBuilder& b, const Exprs& x) {
  const Lists l(b);
  const Expr y = l.Stack(l.Set(l.Reserve(3), 1, x[1]), {2});
  const Expr z = l.Stack(l.FromTensor(x[0]), {-1});
  return {y * z, z};
}

Exprs GatheredAndScattered(GraphBuilder& b, const Exprs& x) {
  const Lists l(b);
  const Expr list = Op("TensorListScatter", {x[0], l.Ints({2, 0, 3}), l.Int(-1)});
  const Expr sized = Op("TensorListScatterV2", {x[0], l.Ints({2, 0, 3}), l.Int(-1), l.Int(5)});
  const Expr y = l.Gather(list, {0, 2});
  const Expr into = Op("TensorListScatterIntoExistingList", {l.FromTensor(x[0]), x[1], l.Ints({1, 3})});
  return {y * y, l.Gather(sized, {4, 3, 2}) * x[0], l.Stack(into, {2})};
}

Exprs Resized(GraphBuilder& b, const Exprs& x) {
  const Lists l(b);
  const Expr shorter = l.Stack(l.Resize(l.FromTensor(x[0]), 2), {2});
  const Expr longer = l.Stack(l.Resize(l.FromTensor(x[0]), 5), {2});
  return {shorter * shorter, longer * longer};
}

Exprs SplitAndJoined(GraphBuilder& b, const Exprs& x) {
  const Lists l(b);
  const Expr list = Op("TensorListSplit", {x[0], l.Ints({-1, 2}), l.Longs({1, 0, 2})});
  const Expr y = Op("TensorListConcat", {list}, Lists::Dtype());
  const Expr some = l.Set(l.Reserve(2), 1, x[1]);
  const Expr z = Op("TensorListConcatV2", {some, l.Ints({-1, 2}), l.Longs({1, 5})}, Lists::Both());
  return {y * y, z * x[0]};
}

using Build = Exprs (*)(GraphBuilder&, const Exprs&);

GradientCase Case(const std::string& op, std::vector<Tensor> xs, Build build) {
  return {.op = op, .label = "", .xs = std::move(xs), .ys = build};
}

std::vector<GradientCase> TensorListCases() {
  std::vector<GradientCase> cases;
  const Tensor rows = Values({3, 2}), row = Values({2}, -1, 1, 2), two_rows = Values({2, 2}, -1, 1, 3);
  cases.push_back(Case("TensorListPushBack", {row, row}, PushedAndPopped));
  cases.push_back(Case("TensorListPopBack", {row, row}, PoppedOnly));
  for (const char* op : {"TensorListSetItem", "TensorListGetItem"})
    cases.push_back(Case(op, {rows, row}, SetAndGot));
  for (const char* op : {"TensorListStack", "TensorListFromTensor"})
    cases.push_back(Case(op, {rows, row}, Stacked));
  for (const char* op : {"TensorListGather", "TensorListScatter", "TensorListScatterV2",
                         "TensorListScatterIntoExistingList"}) {
    cases.push_back(Case(op, {rows, two_rows}, GatheredAndScattered));
  }
  cases.push_back(Case("TensorListResize", {rows}, Resized));
  for (const char* op : {"TensorListSplit", "TensorListConcat", "TensorListConcatV2"})
    cases.push_back(Case(op, {rows, two_rows}, SplitAndJoined));
  return cases;
}
const GradientCaseList kTensorListCases(TensorListCases);

}  // namespace
}  // namespace millrace
