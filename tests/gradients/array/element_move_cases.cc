// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;

Expr Constant(GraphBuilder& b, const Tensor& t) { return Expr(b, b.Constant(t)); }
Tensor Ints(const std::vector<int32_t>& values) { return Tensor::Vector<int32_t>(values); }

// An op that moves elements, with the integers that determine how.
GradientCase Move(const std::string& op, const TensorShape& shape, const AttrMap& attrs,
                  const std::vector<Tensor>& how) {
  return {.op = op, .label = shape.ToString(), .xs = {Values(shape)}, .ys = [=](GraphBuilder& b, auto& x) {
            std::vector<Expr> args;
            for (const Tensor& t : how) {
              const AttrMap value = {{"value", t}, {"dtype", t.dtype()}};
              args.emplace_back(b, Output{b.Add("Const", {}, value, "how"), 0});
            }
            return Exprs{how.empty()       ? Op(op, {x[0]}, attrs)
                         : how.size() == 1 ? Op(op, {x[0], args[0]}, attrs)
                                           : Op(op, {x[0], args[0], args[1]}, attrs)};
          }};
}

Tensor Pairs(const std::vector<int32_t>& values) {
  return Tensor::From<int32_t>(values, TensorShape({static_cast<int64_t>(values.size()) / 2, 2}));
}

void AddMoves(std::vector<GradientCase>* cases) {
  for (const char* mode : {"REFLECT", "SYMMETRIC"}) {
    cases->push_back(Move("MirrorPad", {3, 4}, {{"mode", mode}}, {Pairs({1, 2, 0, 3})}));
    cases->push_back(Move("MirrorPadGrad", {6, 7}, {{"mode", mode}}, {Pairs({1, 2, 0, 3})}));
  }
  const Tensor block = Tensor::Vector<int32_t>({2, 3});
  cases->push_back(Move("SpaceToBatchND", {1, 3, 4, 2}, {}, {block, Pairs({1, 0, 2, 0})}));
  cases->push_back(Move("BatchToSpaceND", {6, 2, 2, 1}, {}, {block, Pairs({1, 0, 2, 1})}));
  cases->push_back(Move("SpaceToBatch", {1, 3, 4, 2}, {{"block_size", 2}}, {Pairs({1, 0, 0, 2})}));
  cases->push_back(Move("BatchToSpace", {4, 2, 3, 1}, {{"block_size", 2}}, {Pairs({1, 0, 0, 2})}));
  for (const char* format : {"NHWC", "NCHW"}) {
    const bool nhwc = *format == 'N' && format[1] == 'H';
    const AttrMap attrs = {{"block_size", 2}, {"data_format", format}};
    cases->push_back(
        Move("SpaceToDepth", nhwc ? TensorShape{1, 4, 2, 3} : TensorShape{1, 3, 4, 2}, attrs, {}));
    cases->push_back(
        Move("DepthToSpace", nhwc ? TensorShape{1, 2, 1, 8} : TensorShape{1, 8, 2, 1}, attrs, {}));
  }
}

void AddPatches(std::vector<GradientCase>* cases) {
  for (const char* padding : {"SAME", "VALID"}) {
    for (const int64_t rate : {1, 2}) {
      const AttrMap attrs = {{"ksizes", std::vector<int64_t>{1, 2, 2, 1}},
                             {"strides", std::vector<int64_t>{1, 1, 2, 1}},
                             {"rates", std::vector<int64_t>{1, rate, 1, 1}},
                             {"padding", padding}};
      cases->push_back(OneOp("ExtractImagePatches", {Values({2, 4, 5, 2})}, attrs));
      cases->back().label = StrCat(padding, " rate ", rate);
    }
  }
}

void AddPartitionCases(std::vector<GradientCase>* cases) {
  const auto partition = [&](const char* label, const Tensor& x, const Tensor& partitions, bool all) {
    cases->push_back(
        {.op = "DynamicPartition", .label = label, .xs = {x}, .ys = [=](GraphBuilder& b, const Exprs& e) {
           const Expr first =
               Op("DynamicPartition", {e[0], Constant(b, partitions)}, {{"num_partitions", 3}});
           if (!all) return Exprs{first.Sibling(1)};
           return Exprs{first, first.Sibling(1), first.Sibling(2)};
         }});
  };
  partition("of rows", Values({4, 2}), Ints({2, 0, 2, 1}), true);
  partition("by a matrix", Values({2, 2}), Tensor::From<int32_t>({1, 0, 0, 1}, TensorShape({2, 2})), true);
  partition("one part used", Values({4}), Ints({2, 1, 2, 1}), false);
  for (const char* op : {"DynamicStitch", "ParallelDynamicStitch"}) {
    cases->push_back({.op = op,
                      .label = "",
                      .xs = {Values({2, 2}), Values({2, 1, 2}, -1, 1, 2)},
                      .ys = [=](GraphBuilder& b, const Exprs& e) {
                        const Expr first = Constant(b, Ints({4, 0}));
                        const Expr second = Constant(b, Tensor::From<int32_t>({1, 2}, TensorShape({2, 1})));
                        return Exprs{Op(op, {Operand(Exprs{first, second}), Operand(e)})};
                      }});
  }
}

std::vector<GradientCase> ElementMoveCases() {
  std::vector<GradientCase> cases;
  const auto add = [&](const char* op, const char* label, std::vector<Tensor> xs,
                       std::function<Expr(GraphBuilder&, const Exprs&)> y) {
    cases.push_back(
        {.op = op, .label = label, .xs = std::move(xs), .ys = [y](GraphBuilder& b, const Exprs& x) {
           return Exprs{y(b, x)};
         }});
  };
  AddMoves(&cases);
  AddPatches(&cases);
  AddPartitionCases(&cases);
  cases.push_back(OneOp("CheckNumerics", {Values({2, 3})}, {{"message", "m"}}));
  const Tensor x = Values({2, 3});
  add("ReverseSequence", "", {x}, [](GraphBuilder& b, const Exprs& e) {
    return Op("ReverseSequence", {e[0], Constant(b, Ints({2, 3}))}, {{"seq_dim", int64_t{1}}});
  });
  add("Roll", "", {x}, [](GraphBuilder& b, const Exprs& e) {
    return Op("Roll", {e[0], Constant(b, Ints({1, 2})), Constant(b, Ints({0, 1}))});
  });
  add("GuaranteeConst", "", {x}, [](GraphBuilder&, const Exprs& e) { return Op("GuaranteeConst", e[0]); });
  for (const char* op :
       {"ScatterNdNonAliasingAdd", "TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub"}) {
    add(op, "", {Values({4}), Values({2}, -1, 1, 2)}, [op](GraphBuilder& b, const Exprs& e) {
      const Expr indices = Reshape(Constant(b, Ints({3, 1})), Constant(b, Ints({2, 1})));
      return Op(op, {e[0], indices, e[1]});
    });
  }
  for (const Tensor& matrix : {Values({2, 3}), ComplexValues({2, 3})}) {
    add("ConjugateTranspose", matrix.dtype() == DataType::kDouble ? "" : "complex", {matrix},
        [](GraphBuilder& b, const Exprs& e) {
          return Op("ConjugateTranspose", {e[0], Vector(b, DataType::kInt32, {1, 0})});
        });
  }
  return cases;
}
const GradientCaseList kElementMoveCases(ElementMoveCases);

}  // namespace
}  // namespace millrace
