// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;

// An array of doubles with the flow that orders its operations. `version`: "", "V2" or "V3".
class Array {
 public:
  Array(GraphBuilder& b, const char* version, int size)
      : b_(b),
        version_(version),
        handle_(Op(Name(""), {Scalar(b, DataType::kInt32, size)},
                   {{"dtype", DataType::kDouble}, {"clear_after_read", false}})),
        flow_(version_ == "V3" ? handle_.Sibling(1) : Scalar(b, DataType::kFloat, 0)) {}

  void Write(int index, const Expr& value) {
    flow_ = Op(Name("Write"), {handle_, Scalar(b_, DataType::kInt32, index), value, flow_});
  }
  Expr Read(int index) {
    return Op(Name("Read"), {handle_, Scalar(b_, DataType::kInt32, index), flow_},
              {{"dtype", DataType::kDouble}});
  }
  void Scatter(const std::vector<int64_t>& indices, const Expr& value) {
    flow_ = Op(Name("Scatter"), {handle_, Vector(b_, DataType::kInt32, indices), value, flow_});
  }
  Expr Gather(const std::vector<int64_t>& indices) {
    return Op(Name("Gather"), {handle_, Vector(b_, DataType::kInt32, indices), flow_},
              {{"dtype", DataType::kDouble}});
  }
  void Split(const std::vector<int64_t>& lengths, const Expr& value) {
    flow_ = Op(Name("Split"), {handle_, value, Vector(b_, DataType::kInt64, lengths), flow_});
  }
  Expr Concat() { return Op(Name("Concat"), {handle_, flow_}, {{"dtype", DataType::kDouble}}); }
  void Unpack(const Expr& value) { flow_ = Op(Name("Unpack"), {handle_, value, flow_}); }
  Expr Pack() { return Op(Name("Pack"), {handle_, flow_}, {{"dtype", DataType::kDouble}}); }

 private:
  std::string Name(const char* what) const { return StrCat("TensorArray", what, version_); }

  GraphBuilder& b_;
  const std::string version_;
  Expr handle_;
  Expr flow_;
};

Exprs WrittenAndRead(GraphBuilder& b, const char* version, const Exprs& x) {
  Array array(b, version, 2);
  array.Write(1, x[0] * x[0]);
  array.Write(0, x[1]);
  return {array.Read(1) * array.Read(0), array.Read(1)};
}

Exprs ScatteredAndGathered(GraphBuilder& b, const char* version, const Exprs& x) {
  Array array(b, version, 4);
  array.Scatter({2, 0, 3}, x[0]);
  const Expr y = array.Gather({0, 2});
  return {y * y, array.Read(3) * array.Read(0)};
}

Exprs SplitAndConcatenated(GraphBuilder& b, const char* version, const Exprs& x) {
  Array array(b, version, 3);
  array.Split({1, 0, 3}, x[0]);
  const Expr y = array.Concat();
  return {y * y};
}

Exprs UnpackedAndPacked(GraphBuilder& b, const char* version, const Exprs& x) {
  Array array(b, version, 3);
  array.Unpack(x[0]);
  const Expr y = array.Pack();
  return {y * y, array.Read(1)};
}

using Build = Exprs (*)(GraphBuilder&, const char*, const Exprs&);

GradientCase Case(const std::string& op, const char* version, std::vector<Tensor> xs, Build build) {
  return {.op = op + version,
          .label = "",
          .xs = std::move(xs),
          .ys = [build, version](GraphBuilder& b, const Exprs& x) { return build(b, version, x); }};
}

std::vector<GradientCase> TensorArrayCases() {
  std::vector<GradientCase> cases;
  for (const char* version : {"", "V2", "V3"}) {
    for (const char* op : {"TensorArrayRead", "TensorArrayWrite"}) {
      cases.push_back(Case(op, version, {Values({2, 2}), Values({2, 2}, -1, 1, 2)}, WrittenAndRead));
    }
    for (const char* op : {"TensorArrayGather", "TensorArrayScatter"}) {
      cases.push_back(Case(op, version, {Values({3, 2})}, ScatteredAndGathered));
    }
    for (const char* op : {"TensorArraySplit", "TensorArrayConcat"}) {
      cases.push_back(Case(op, version, {Values({4, 2})}, SplitAndConcatenated));
    }
  }
  cases.push_back(Case("TensorArrayGrad", "V3", {Values({2, 2}), Values({2, 2}, -1, 1, 2)}, WrittenAndRead));
  for (const char* op : {"TensorArrayPack", "TensorArrayUnpack"}) {
    cases.push_back(Case(op, "", {Values({3, 2})}, UnpackedAndPacked));
  }
  return cases;
}
const GradientCaseList kTensorArrayCases(TensorArrayCases);

}  // namespace
}  // namespace millrace
