// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;

// An array of doubles with the flow that orders what is done to it.
class Array {
 public:
  Array(GraphBuilder& b, int size)
      : b_(b),
        handle_(Op("TensorArrayV3", {Scalar(b, DataType::kInt32, size)},
                   {{"dtype", DataType::kDouble}, {"clear_after_read", false}})),
        flow_(handle_.Sibling(1)) {}

  void Write(int index, const Expr& value) {
    flow_ = Op("TensorArrayWriteV3", {handle_, Scalar(b_, DataType::kInt32, index), value, flow_});
  }
  Expr Read(int index) {
    return Op("TensorArrayReadV3", {handle_, Scalar(b_, DataType::kInt32, index), flow_},
              {{"dtype", DataType::kDouble}});
  }
  void Scatter(const std::vector<int64_t>& indices, const Expr& value) {
    flow_ = Op("TensorArrayScatterV3", {handle_, Vector(b_, DataType::kInt32, indices), value, flow_});
  }
  Expr Gather(const std::vector<int64_t>& indices) {
    return Op("TensorArrayGatherV3", {handle_, Vector(b_, DataType::kInt32, indices), flow_},
              {{"dtype", DataType::kDouble}});
  }
  void Split(const std::vector<int64_t>& lengths, const Expr& value) {
    flow_ = Op("TensorArraySplitV3", {handle_, value, Vector(b_, DataType::kInt64, lengths), flow_});
  }
  Expr Concat() { return Op("TensorArrayConcatV3", {handle_, flow_}, {{"dtype", DataType::kDouble}}); }

 private:
  GraphBuilder& b_;
  Expr handle_;
  Expr flow_;
};

Exprs WrittenAndRead(GraphBuilder& b, const Exprs& x) {
  Array array(b, 2);
  array.Write(1, x[0] * x[0]);
  array.Write(0, x[1]);
  return {array.Read(1) * array.Read(0), array.Read(1)};
}

Exprs ScatteredAndGathered(GraphBuilder& b, const Exprs& x) {
  Array array(b, 4);
  array.Scatter({2, 0, 3}, x[0]);
  const Expr y = array.Gather({0, 2});
  return {y * y, array.Read(3) * array.Read(0)};
}

Exprs SplitAndConcatenated(GraphBuilder& b, const Exprs& x) {
  Array array(b, 3);
  array.Split({1, 0, 3}, x[0]);
  const Expr y = array.Concat();
  return {y * y};
}

GradientCase Case(const char* op, const Tensor& x, Exprs (*ys)(GraphBuilder&, const Exprs&)) {
  return {.op = op, .label = "", .xs = {x}, .ys = ys};
}

}  // namespace

std::vector<GradientCase> TensorArrayCases() {
  std::vector<GradientCase> cases;
  for (const char* op : {"TensorArrayReadV3", "TensorArrayWriteV3", "TensorArrayGradV3"}) {
    cases.push_back(
        {.op = op, .label = "", .xs = {Values({2, 2}), Values({2, 2}, -1, 1, 2)}, .ys = WrittenAndRead});
  }
  for (const char* op : {"TensorArrayGatherV3", "TensorArrayScatterV3"}) {
    cases.push_back(Case(op, Values({3, 2}), ScatteredAndGathered));
  }
  for (const char* op : {"TensorArraySplitV3", "TensorArrayConcatV3"}) {
    cases.push_back(Case(op, Values({4, 2}), SplitAndConcatenated));
  }
  return cases;
}

}  // namespace millrace
