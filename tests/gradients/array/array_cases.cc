// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

constexpr DataType kInt32 = DataType::kInt32;
using Exprs = std::vector<Expr>;

Expr Constant(GraphBuilder& b, const Tensor& value) { return Expr(b, b.Constant(value)); }
Tensor Ints(const std::vector<int32_t>& values) { return Tensor::Vector<int32_t>(values); }
Tensor Ints2(const std::vector<int32_t>& values, int64_t rows) {
  return Tensor::From<int32_t>(values, TensorShape({rows, static_cast<int64_t>(values.size()) / rows}));
}

Exprs AllOutputs(const Expr& first) {
  Exprs outputs;
  for (int i = 0; first.IsSet() && i < first.output().node->num_outputs(); ++i)
    outputs.push_back(first.Sibling(i));
  return outputs;
}

// An op whose first input is x and whose other inputs are constants.
GradientCase WithConstants(const char* op, const char* label, const Tensor& x, std::vector<Tensor> constants,
                           AttrMap attrs = {}) {
  GradientCase c{.op = op, .label = label, .xs = {x}, .ys = {}};
  c.ys = [=](GraphBuilder& b, const Exprs& e) -> Exprs {
    std::vector<InputArg> inputs = {{{e[0].output()}, false}};
    for (const Tensor& constant : constants) inputs.push_back({{b.Constant(constant)}, false});
    return AllOutputs(Expr(b, {b.Add(op, std::move(inputs), attrs), 0}));
  };
  return c;
}

void AddConcatCases(std::vector<GradientCase>* cases) {
  for (const int axis : {0, 1, -1}) {
    for (const bool equal : {true, false}) {
      const TensorShape other = equal       ? TensorShape({2, 2})
                                : axis == 0 ? TensorShape({3, 2})
                                            : TensorShape({2, 3});
      const std::vector<Tensor> xs = {Values({2, 2}), Values(other, -1, 1, 2), Values({2, 2}, -1, 1, 3)};
      const std::string label = StrCat("axis", axis, equal ? " equal" : "");
      cases->push_back({.op = "ConcatV2", .label = label, .xs = xs, .ys = [=](GraphBuilder& b, auto& x) {
                          return Exprs{Op("ConcatV2", {Operand(x), Scalar(b, DataType::kInt64, axis)})};
                        }});
      if (axis < 0) continue;  // the first version does not count from the end
      cases->push_back({.op = "Concat", .label = label, .xs = xs, .ys = [=](GraphBuilder& b, auto& x) {
                          return Exprs{Op("Concat", {Scalar(b, kInt32, axis), Operand(x)})};
                        }});
    }
  }
}

void AddSplitCases(std::vector<GradientCase>* cases) {
  for (const int axis : {0, 1, -1}) {
    const Tensor x = Values({4, 4});
    cases->push_back(
        {.op = "Split", .label = StrCat("axis", axis), .xs = {x}, .ys = [=](GraphBuilder& b, auto& e) {
           return AllOutputs(Op("Split", {Scalar(b, kInt32, axis), e[0]}, {{"num_split", 2}}));
         }});
    cases->push_back(
        WithConstants("SplitV", "", x, {Ints({1, 3}), Tensor::Scalar<int32_t>(axis)}, {{"num_split", 2}}));
    cases->back().label = StrCat("axis", axis);
  }
  cases->push_back(
      {.op = "Split", .label = "one part used", .xs = {Values({4})}, .ys = [](GraphBuilder& b, auto& e) {
         return Exprs{Op("Split", {Scalar(b, kInt32, 0), e[0]}, {{"num_split", 2}}).Sibling(1)};
       }});
  cases->push_back(
      {.op = "Split", .label = "in one", .xs = {Values({4})}, .ys = [](GraphBuilder& b, auto& e) {
         return Exprs{Op("Split", {Scalar(b, kInt32, 0), e[0]}, {{"num_split", 1}})};
       }});
  for (const int axis : {0, 1, -1}) {
    cases->push_back({.op = "Pack",
                      .label = StrCat("axis", axis),
                      .xs = {Values({2}), Values({2}, -1, 1, 2), Values({2}, -1, 1, 3)},
                      .ys = [=](GraphBuilder&, auto& x) {
                        return Exprs{Op("Pack", {Operand(x)}, {{"axis", axis}})};
                      }});
    cases->push_back(WithConstants("Unpack", "", Values({2, 2}), {}, {{"num", 2}, {"axis", axis}}));
    cases->back().label = StrCat("axis", axis);
  }
  cases->push_back(
      {.op = "Unpack", .label = "one part used", .xs = {Values({2, 3})}, .ys = [](GraphBuilder&, auto& x) {
         return Exprs{Op("Unpack", {x[0]}, {{"num", 2}}).Sibling(1)};
       }});
}

std::vector<GradientCase> ArrayCases() {
  const Tensor x = Values({2, 3});
  std::vector<GradientCase> cases = {
      WithConstants("Identity", "", x, {}),
      WithConstants("Snapshot", "", x, {}),
      WithConstants("EnsureShape", "", x, {}, {{"shape", PartialShape({2, -1})}}),
      WithConstants("PlaceholderWithDefault", "", x, {}, {{"shape", PartialShape({2, 3})}}),
      WithConstants("Reshape", "", x, {Ints({3, -1})}),
      WithConstants("Reshape", "to a scalar", Values({1, 1}), {Ints({})}),
      WithConstants("Reshape", "of nothing", Values({0, 2}), {Ints({2, 0})}),
      WithConstants("ExpandDims", "", x, {Tensor::Scalar<int32_t>(1)}),
      WithConstants("ExpandDims", "at the end", x, {Tensor::Scalar<int32_t>(-1)}),
      WithConstants("Squeeze", "", Values({2, 1, 3, 1}), {}),
      WithConstants("Squeeze", "some", Values({2, 1, 3, 1}), {},
                    {{"squeeze_dims", std::vector<int64_t>{-1}}}),
      WithConstants("Transpose", "", x, {Ints({1, 0})}),
      WithConstants("Transpose", "of rank 3", Values({2, 3, 2}), {Ints({2, 0, 1})}),
      WithConstants("Reverse", "", x, {[] {
                      Tensor flags(DataType::kBool, TensorShape({2}));
                      flags.data<bool>()[0] = false;
                      flags.data<bool>()[1] = true;
                      return flags;
                    }()}),
      WithConstants("ReverseV2", "", x, {Ints({-1, 0})}),
      WithConstants("Tile", "", x, {Ints({2, 3})}),
      WithConstants("Tile", "none", x, {Ints({0, 3})}),
      WithConstants("Tile", "of a vector", Values({3}), {Tensor::Vector<int64_t>({2})}),
      WithConstants("Pad", "", x, {Ints2({1, 0, 2, 1}, 2)}),
      WithConstants("Pad", "of a vector", Values({2}), {Tensor::From<int64_t>({1, 2}, TensorShape({1, 2}))}),
      WithConstants("BroadcastTo", "", Values({2, 1}), {Ints({4, 2, 3})}),
      WithConstants("BroadcastTo", "of a scalar", Values(TensorShape()), {Ints({2, 3})}),
      WithConstants("BroadcastTo", "of the same shape", x, {Ints({2, 3})}),
  };
  cases.push_back(
      {.op = "PadV2", .label = "", .xs = {x, Values(TensorShape())}, .ys = [](GraphBuilder& b, auto& e) {
         return Exprs{Op("PadV2", {e[0], Constant(b, Ints2({1, 0, 2, 1}, 2)), e[1]})};
       }});
  cases.push_back(
      {.op = "Fill", .label = "", .xs = {Values(TensorShape())}, .ys = [](GraphBuilder& b, auto& e) {
         return Exprs{Fill(Vector(b, kInt32, {2, 3}), e[0])};
       }});
  cases.push_back(
      {.op = "Fill", .label = "of one", .xs = {Values(TensorShape())}, .ys = [](GraphBuilder& b, auto& e) {
         return Exprs{Fill(Vector(b, kInt32, {}), e[0])};
       }});
  cases.push_back({.op = "IdentityN", .label = "", .xs = {x, Values({2})}, .ys = [](GraphBuilder&, auto& e) {
                     return AllOutputs(Op("IdentityN", {Operand(e)}));
                   }});
  AddConcatCases(&cases);
  AddSplitCases(&cases);
  return cases;
}
const GradientCaseList kArrayCases(ArrayCases);

AttrMap Masks(int begin, int end, int ellipsis, int new_axis, int shrink) {
  return {{"begin_mask", begin},
          {"end_mask", end},
          {"ellipsis_mask", ellipsis},
          {"new_axis_mask", new_axis},
          {"shrink_axis_mask", shrink}};
}

// params[indices] along an axis.
GradientCase GatherV2(const char* label, const TensorShape& params, const Tensor& indices, int axis,
                      int batch_dims) {
  return WithConstants("GatherV2", label, Values(params), {indices, Tensor::Scalar<int32_t>(axis)},
                       {{"batch_dims", batch_dims}});
}

std::vector<GradientCase> ArrayIndexingCases() {
  const Tensor x = Values({3, 4});
  std::vector<GradientCase> cases = {
      WithConstants("Slice", "", x, {Ints({1, 0}), Ints({2, 2})}),
      WithConstants("Slice", "to the end", x,
                    {Tensor::Vector<int64_t>({0, 1}), Tensor::Vector<int64_t>({-1, -1})}),
      WithConstants("Slice", "empty", x, {Ints({1, 1}), Ints({0, 2})}),
      WithConstants("StridedSlice", "", x, {Ints({0, 3}), Ints({3, 0}), Ints({2, -1})}),
      WithConstants("StridedSlice", "with masks", x, {Ints({1, 0, 0}), Ints({2, 0, 3}), Ints({1, 1, 2})},
                    Masks(4, 4, 0, 2, 1)),
      WithConstants("StridedSlice", "with ellipsis", Values({2, 2, 3}),
                    {Ints({0, 1}), Ints({0, 2}), Ints({1, 1})}, Masks(0, 0, 1, 0, 2)),
      WithConstants("StridedSlice", "to a number", Values({3}), {Ints({-1}), Ints({0}), Ints({1})},
                    Masks(0, 0, 0, 0, 1)),
      WithConstants("Gather", "", x, {Ints({2, 0, 2})}),
      WithConstants("Gather", "by a scalar", x, {Tensor::Scalar<int64_t>(1)}),
      WithConstants("Gather", "by a matrix", x, {Ints2({2, 0, 2, 1}, 2)}),
      WithConstants("Gather", "none", x, {Ints({})}),
      WithConstants("Gather", "from a vector", Values({3}), {Ints({1, 1})}),
      GatherV2("axis 0", {3, 2}, Ints({2, 0, 2}), 0, 0),
      GatherV2("axis 1", {2, 3, 2}, Ints({2, 0, 2}), 1, 0),
      GatherV2("last axis by a matrix", {2, 3}, Ints2({2, 0, 2, 1}, 2), -1, 0),
      GatherV2("by a scalar", {2, 3}, Tensor::Scalar<int32_t>(1), 1, 0),
      GatherV2("batch", {2, 3, 2}, Ints2({2, 0, 2, 1}, 2), 1, 1),
      GatherV2("batch and middle", {2, 2, 3}, Ints2({2, 0, 2, 1}, 2), 2, 1),
      GatherV2("batch from the end", {2, 3}, Ints2({2, 0, 2, 1}, 2), 1, -1),
      WithConstants("GatherNd", "of numbers", x, {Ints2({2, 0, 2, 1, 2, 0}, 3)}),
      WithConstants("GatherNd", "of rows", x, {Ints2({2, 0, 2}, 3)}),
  };
  cases.push_back(
      {.op = "ScatterNd", .label = "", .xs = {Values({3, 2})}, .ys = [](GraphBuilder& b, auto& e) {
         return Exprs{Op("ScatterNd", {Constant(b, Ints2({2, 0, 2}, 3)), e[0], Vector(b, kInt32, {4, 2})})};
       }});
  cases.push_back(
      {.op = "StridedSliceGrad", .label = "", .xs = {Values({2, 1})}, .ys = [](GraphBuilder& b, auto& e) {
         return Exprs{Op("StridedSliceGrad", {Vector(b, kInt32, {3, 4}), Vector(b, kInt32, {0, 3}),
                                              Vector(b, kInt32, {3, 2}), Vector(b, kInt32, {2, -1}), e[0]})};
       }});
  for (const TensorShape& value : {TensorShape({2, 1}), TensorShape()}) {
    cases.push_back({.op = "TensorStridedSliceUpdate",
                     .label = value.rank() == 0 ? "of a number" : "",
                     .xs = {Values({3, 4}), Values(value, -1, 1, 2)},
                     .ys = [](GraphBuilder& b, auto& e) {
                       return Exprs{
                           Op("TensorStridedSliceUpdate",
                              {Op("Sigmoid", e[0]), Vector(b, kInt32, {0, 3}), Vector(b, kInt32, {3, 2}),
                               Vector(b, kInt32, {2, -1}), Op("Sigmoid", e[1])})};
                     }});
  }
  return cases;
}
const GradientCaseList kArrayIndexingCases(ArrayIndexingCases);

}  // namespace
}  // namespace millrace
