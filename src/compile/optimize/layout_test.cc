// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compile/all_ops_testing.h"
#include "graph/testing.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr DataType kFloat = DataType::kFloat;

class LayoutTest : public testing::Test {
 protected:
  LayoutTest() {
    Add("x", "Placeholder", {}, {{"dtype", kFloat}, {"shape", PartialShape({2, 3, 8, 8})}});
    Add("b", "Placeholder", {}, {{"dtype", kFloat}, {"shape", PartialShape({32})}});
    Filter("w", 3, 32);
  }
  Node* Add(std::string_view name, std::string_view op, const std::vector<std::string>& inputs,
            AttrMap attrs = {{"T", kFloat}}) {
    return AddTestNode(&graph_, name, op, inputs, std::move(attrs));
  }
  void Filter(std::string_view name, int64_t in, int64_t out) {
    Add(name, "Placeholder", {}, {{"dtype", kFloat}, {"shape", PartialShape({3, 3, in, out})}});
  }
  void Ints(std::string_view name, const std::vector<int32_t>& values, const TensorShape& shape) {
    Add(name, "Const", {}, {{"dtype", DataType::kInt32}, {"value", Tensor::From<int32_t>(values, shape)}});
  }
  void Vector(std::string_view name, const std::vector<int32_t>& values) {
    Ints(name, values, TensorShape({static_cast<int64_t>(values.size())}));
  }
  void Conv(std::string_view name, const std::vector<std::string>& inputs, const char* format = "NCHW") {
    Add(name, "Conv2D", inputs,
        {{"T", kFloat},
         {"strides", std::vector<int64_t>{1, 1, 2, 3}},
         {"padding", std::string("SAME")},
         {"data_format", std::string(format)}});
  }
  void MaxPool(std::string_view name, const std::string& input) {
    Add(name, "MaxPool", {input},
        {{"T", kFloat},
         {"ksize", std::vector<int64_t>{1, 1, 3, 4}},
         {"strides", std::vector<int64_t>{1, 1, 2, 1}},
         {"padding", std::string("SAME")},
         {"data_format", std::string("NCHW")}});
  }
  void Transpose(std::string_view name, const std::string& input, const std::vector<int32_t>& order) {
    const std::string perm = std::string(name) + "_order";
    Vector(perm, order);
    Add(name, "Transpose", {input, perm}, {{"T", kFloat}, {"Tperm", DataType::kInt32}});
  }
  int Run() {
    // A _Retval takes the fetched tensor, and preserves it.
    graph_.FixupSourceAndSinkEdges();
    const CompileOptions compile;
    OptimizeOptions options{compile};
    options.preserve = preserve_;
    const int changed = ConvertLayouts(&graph_, options);
    EXPECT_TRUE(graph_.Validate().ok()) << graph_.Validate();
    return changed;
  }
  void Fetch(const std::string& name, int index = 0) {
    Add("fetch" + std::to_string(index), "_Retval", {name},
        {{"T", kFloat}, {"index", static_cast<int64_t>(index)}});
  }
  std::string Text() const { return GraphText(graph_); }
  std::vector<int64_t> List(const char* node, const char* attr) {
    return *graph_.FindNode(node)->Attr<std::vector<int64_t>>(attr);
  }

  Graph graph_{AllOps()};
  std::set<std::string, std::less<>> preserve_;
};

TEST_F(LayoutTest, TransposesStandAtTheEndsOnly) {
  Conv("c", {"x", "w"});
  Add("biased", "BiasAdd", {"c", "b"}, {{"T", kFloat}, {"data_format", std::string("NCHW")}});
  Add("relu", "Relu", {"biased"});
  MaxPool("pool", "relu");
  Fetch("pool");
  EXPECT_EQ(Run(), 4);
  EXPECT_THAT(Text(), HasSubstr("c/nhwc_input = Transpose(x, "));
  EXPECT_THAT(Text(), HasSubstr("c/nhwc = Conv2D(c/nhwc_input, w)"));
  EXPECT_THAT(Text(), HasSubstr("biased/nhwc = BiasAdd(c/nhwc, b)"));
  EXPECT_THAT(Text(), HasSubstr("relu/nhwc = Relu(biased/nhwc)"));
  EXPECT_THAT(Text(), HasSubstr("pool/nhwc = MaxPool(relu/nhwc)"));
  EXPECT_THAT(Text(), HasSubstr("pool/nchw = Transpose(pool/nhwc, "));
  EXPECT_THAT(Text(), HasSubstr("fetch0 = _Retval(pool/nchw)"));
  EXPECT_THAT(List("c/nhwc", "strides"), ElementsAre(1, 2, 3, 1));
  EXPECT_THAT(List("pool/nhwc", "ksize"), ElementsAre(1, 3, 4, 1));
  EXPECT_EQ(*graph_.FindNode("c/nhwc")->Attr<std::string>("data_format"), "NHWC");
}

TEST_F(LayoutTest, TransposesOfTheGraphGo) {
  Add("image", "Placeholder", {}, {{"dtype", kFloat}, {"shape", PartialShape({2, 8, 8, 3})}});
  Transpose("in", "image", {0, 3, 1, 2});
  Conv("c", {"in", "w"});
  Transpose("out", "c", {0, 2, 3, 1});
  Fetch("out");
  EXPECT_EQ(Run(), 1);
  EXPECT_THAT(Text(), HasSubstr("c/nhwc = Conv2D(image, w)"));
  EXPECT_THAT(Text(), HasSubstr("fetch0 = _Retval(c/nhwc)"));
}

TEST_F(LayoutTest, PaddingAndReductionsCountTheirAxesAnew) {
  Ints("amounts", {0, 0, 0, 0, 1, 2, 3, 4}, TensorShape({4, 2}));
  Vector("axes", {2, -1});
  Conv("c", {"x", "w"});
  Add("padded", "Pad", {"c", "amounts"}, {{"T", kFloat}, {"Tpaddings", DataType::kInt32}});
  Add("mean", "Mean", {"padded", "axes"}, {{"T", kFloat}, {"Tidx", DataType::kInt32}, {"keep_dims", false}});
  Fetch("mean");
  EXPECT_EQ(Run(), 3);
  const auto values = [&](const char* name) {
    const Tensor t = *graph_.FindNode(name)->Attr<Tensor>("value");
    return std::vector<int32_t>(t.data<int32_t>(), t.data<int32_t>() + t.num_elements());
  };
  EXPECT_THAT(values("padded/nhwc_paddings"), ElementsAre(0, 0, 1, 2, 3, 4, 0, 0));
  EXPECT_THAT(values("mean/nhwc_axes"), ElementsAre(1, 2));
  EXPECT_THAT(Text(), HasSubstr("fetch0 = _Retval(mean/nhwc)")) << "batch and channels lie as before";
}

TEST_F(LayoutTest, ReductionsThatWouldMixAxesTakeTheTransposedImage) {
  Vector("axes", {2});
  Conv("c", {"x", "w"});
  Add("rows", "Sum", {"c", "axes"}, {{"T", kFloat}, {"Tidx", DataType::kInt32}, {"keep_dims", false}});
  Fetch("rows");
  EXPECT_EQ(Run(), 1);
  EXPECT_THAT(Text(), HasSubstr("rows = Sum(c/nchw, axes)"));
}

TEST_F(LayoutTest, ResidualsAndScalarsGoAlong) {
  Filter("w2", 32, 32);
  Add("two", "Const", {}, {{"dtype", kFloat}, {"value", Tensor::Scalar(2.0f)}});
  Conv("c1", {"x", "w"});
  Conv("c2", {"x", "w"});
  Add("sum", "Add", {"c1", "c2"});
  Add("scaled", "Mul", {"two", "sum"});
  Fetch("scaled");
  EXPECT_EQ(Run(), 4);
  EXPECT_THAT(Text(), HasSubstr("sum/nhwc = Add(c1/nhwc, c2/nhwc)"));
  EXPECT_THAT(Text(), HasSubstr("scaled/nhwc = Mul(two, sum/nhwc)"));
  EXPECT_THAT(Text(), HasSubstr("c2/nhwc = Conv2D(c1/nhwc_input, w)")) << "one transpose for both";
}

TEST_F(LayoutTest, VectorsThatAreBroadcastAlongRowsStay) {
  Conv("c", {"x", "w"});
  Add("sum", "Add", {"c", "b"});
  Fetch("sum");
  EXPECT_EQ(Run(), 1);
  EXPECT_THAT(Text(), HasSubstr("sum = Add(c/nchw, b)"));
}

TEST_F(LayoutTest, GraphsThatTrainStay) {
  Conv("c", {"x", "w"});
  Vector("sizes", {3, 3, 3, 32});
  Add("dw", "Conv2DBackpropFilter", {"x", "sizes", "c"},
      {{"T", kFloat},
       {"strides", std::vector<int64_t>{1, 1, 2, 3}},
       {"padding", std::string("SAME")},
       {"data_format", std::string("NCHW")}});
  Fetch("dw");
  EXPECT_EQ(Run(), 0);
}

TEST_F(LayoutTest, FewChannelsAndOtherLayoutsStay) {
  Filter("narrow", 3, 15);
  Filter("last", 8, 32);
  Conv("c1", {"x", "narrow"});
  Conv("c2", {"x", "last"}, "NHWC");
  Fetch("c1", 0);
  Fetch("c2", 1);
  EXPECT_EQ(Run(), 0);
  EXPECT_THAT(Text(), Not(HasSubstr("Transpose")));
}

TEST_F(LayoutTest, WhatMayNotBeAnImageStays) {
  Add("any", "Placeholder", {}, {{"dtype", kFloat}});
  Conv("c1", {"any", "w"});
  Filter("w2", 32, 32);
  Conv("c2", {"c1", "w2"});
  Fetch("c2");
  EXPECT_EQ(Run(), 1);
  EXPECT_THAT(Text(), HasSubstr("c1 = Conv2D(any, w)"));
  EXPECT_THAT(Text(), HasSubstr("c2/nhwc_input = Transpose(c1, "));
}

TEST_F(LayoutTest, NodesThatMustRunAndControlEdgesAreKept) {
  Conv("c", {"x", "w", "^b"});
  Add("relu", "Relu", {"c"});
  Add("kept", "Relu", {"relu"});
  Add("after", "Neg", {"b", "^c"});
  Fetch("relu", 0);
  Fetch("after", 1);
  preserve_ = {"kept"};
  EXPECT_EQ(Run(), 2);
  EXPECT_THAT(Text(), HasSubstr("c/nhwc = Conv2D(c/nhwc_input, w, ^b)"));
  EXPECT_THAT(Text(), HasSubstr("kept = Relu(relu/nchw)"));
  EXPECT_THAT(Text(), HasSubstr("after = Neg(b, ^c/nhwc)"));
}

}  // namespace
}  // namespace millrace
