// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Tensor arrays and stacks of the first two versions, whose handles are names.
#include <gmock/gmock.h>

#include "tensor/testing.h"
#include "tests/session/state_testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// The parameter is the suffix of the ops.
class NamedArrayTest : public StateTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    graph_.Const("flow", Tensor::Scalar(0.0f));
    for (const int i : {0, 1, 2, 3}) graph_.Const(StrCat(i), Tensor::Scalar(i));
    graph_.Const("x", Tensor::Vector<float>({1, 2}));
    graph_.Const("y", Tensor::Vector<float>({3, 4}));
  }
  std::string Op(const char* what) const { return StrCat("TensorArray", what, GetParam()); }
  void Array(const std::string& name, const std::string& size, bool dynamic = false) {
    graph_.Node(name, Op(""), {size}, {{"dtype", DataType::kFloat}, {"dynamic_size", dynamic}});
  }
  void Use(const std::string& name, const char* what, const std::vector<std::string>& inputs,
           AttrMap attrs = {}) {
    // The handles of V2 are strings: other tasks have no array of that name, so that programs colocate.
    if (std::string_view(GetParam()) == "V2")
      attrs.Set("_class", std::vector<std::string>{StrCat("loc:@", inputs[0])});
    graph_.Node(name, Op(what), inputs, attrs);
  }
  void Read(const std::string& name, const char* what, const std::vector<std::string>& inputs) {
    Use(name, what, inputs, {{"dtype", DataType::kFloat}});
  }
  void Write(const std::string& name, const char* what, const std::vector<std::string>& inputs) {
    Use(name, what, inputs, {{"T", DataType::kFloat}});
  }
};

TEST_P(NamedArrayTest, ElementsAreWrittenAndRead) {
  Array("a", "2");
  Write("w1", "Write", {"a", "1", "x", "flow"});
  Write("w0", "Write", {"a", "0", "y", "w1"});
  Read("r1", "Read", {"a", "1", "w0"});
  Read("r0", "Read", {"a", "0", "w0"});
  Use("size", "Size", {"a", "w0"});
  const auto out = Get({"r0", "r1", "size", "a"});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual(Tensor::Vector<float>({3, 4}), (*out)[0]);
  ExpectTensorEqual(Tensor::Vector<float>({1, 2}), (*out)[1]);
  ExpectTensorEqual(Tensor::Scalar(2), (*out)[2]);
  EXPECT_EQ((*out)[3].shape(), TensorShape({2})) << "container and name";
  EXPECT_EQ((*out)[3].dtype(), DataType::kString);
}

TEST_P(NamedArrayTest, RowsAreScatteredAndGathered) {
  graph_.Const("indices", Tensor::Vector<int32_t>({3, 1}));
  graph_.Const("back", Tensor::Vector<int32_t>({1, 3}));
  Array("a", "0", /*dynamic=*/true);
  Write("w", "Scatter", {"a", "indices", "x", "flow"});
  Read("r", "Gather", {"a", "back", "w"});
  ExpectTensorEqual(Tensor::Vector<float>({2, 1}), GetOne("r"));
}

TEST_P(NamedArrayTest, PiecesAreSplitAndConcatenated) {
  graph_.Const("lengths", Tensor::Vector<int64_t>({0, 2}));
  Array("a", "2");
  Write("w", "Split", {"a", "x", "lengths", "flow"});
  Read("r", "Concat", {"a", "w"});
  ExpectTensorEqual(Tensor::Vector<float>({1, 2}), GetOne("r:0"));
  ExpectTensorEqual(Tensor::Vector<int64_t>({0, 2}), GetOne("r:1"));
}

TEST_P(NamedArrayTest, GradientsOfOneSourceAreOneArrayAndAddUp) {
  Array("a", "1");
  Write("w", "Write", {"a", "0", "x", "flow"});
  Use("g", "Grad", {"a", "w"}, {{"source", "s"}});
  Use("same", "Grad", {"a", "gw"}, {{"source", "s"}});
  Write("gw", "Write", {"g", "0", "x", "flow"});
  Write("gw2", "Write", {"same", "0", "y", "gw"});
  Read("r", "Read", {"same", "0", "gw2"});
  ExpectTensorEqual(Tensor::Vector<float>({4, 6}), GetOne("r"));
}

TEST_P(NamedArrayTest, AClosedArrayIsNotUsedAgain) {
  Array("a", "1");
  Use("close", "Close", {"a"});
  Write("w", "Write", {"a", "0", "x", "flow"});
  Use("late", "Size", {"a", "flow", "^close"});
  EXPECT_EQ(Do("close"), Status());
  EXPECT_THAT(Do("late").ToString(), HasSubstr("has already been closed."));
}

TEST_P(NamedArrayTest, NamesOfNothingAreRefused) {
  graph_.Placeholder("given", tensorflow::DT_STRING);
  graph_.Node("names", "VariableV2", {}, {{"dtype", DataType::kString}, {"shape", PartialShape()}});
  graph_.Node("assign", "Assign", {"names", "given"}, {{"T", DataType::kString}, {"validate_shape", false}});
  graph_.Node("size", Op("Size"), {"assign", "flow"}, {});
  EXPECT_THAT(Do("size", {{"given", Tensor::Vector<std::string>({"_tensor_arrays", "b"})}}).ToString(),
              HasSubstr("does not exist"));
  EXPECT_THAT(Do("size", {{"given", Tensor::Vector<std::string>({"_stacks", "b"})}}).ToString(),
              HasSubstr("does not exist"));
  EXPECT_TRUE(errors::IsInvalidArgument(Do("size", {{"given", Tensor::Scalar<std::string>("a")}})));
}

INSTANTIATE_TEST_SUITE_P(Versions, NamedArrayTest, ::testing::Values("", "V2"));

using WholeArrayTest = NamedArrayTest;

TEST_P(WholeArrayTest, RowsAreUnpackedAndPacked) {
  Array("a", "2");
  Write("w", "Unpack", {"a", "x", "flow"});
  Read("r", "Pack", {"a", "w"});
  ExpectTensorEqual(Tensor::Vector<float>({1, 2}), GetOne("r"));
}

TEST_P(WholeArrayTest, AnArrayOfAnotherSizeIsRefusedUnlessItGrows) {
  Array("a", "3");
  Write("w", "Unpack", {"a", "x", "flow"});
  Array("growing", "0", /*dynamic=*/true);
  Write("wg", "Unpack", {"growing", "x", "flow"});
  Read("r", "Pack", {"growing", "wg"});
  EXPECT_THAT(Do("w").ToString(),
              HasSubstr("Input value must have first dimension equal to the array size (2 vs. 3)"));
  ExpectTensorEqual(Tensor::Vector<float>({1, 2}), GetOne("r"));
}

INSTANTIATE_TEST_SUITE_P(FirstVersion, WholeArrayTest, ::testing::Values(""));

class NamedStackTest : public StateTest {
 protected:
  void SetUp() override {
    graph_.Const("x", Tensor::Scalar(1.5f));
    graph_.Const("y", Tensor::Scalar(2.5f));
    graph_.Node("s", "Stack", {}, {{"elem_type", DataType::kFloat}});
    graph_.Node("px", "StackPush", {"s", "x"}, {{"T", DataType::kFloat}});
    graph_.Node("py", "StackPush", {"s", "y", "^px"}, {{"T", DataType::kFloat}});
    graph_.Node("first", "StackPop", {"s", "^py"}, {{"elem_type", DataType::kFloat}});
    graph_.Node("second", "StackPop", {"s", "^first"}, {{"elem_type", DataType::kFloat}});
    graph_.Node("third", "StackPop", {"s", "^second"}, {{"elem_type", DataType::kFloat}});
    graph_.Node("close", "StackClose", {"s", "^py"}, {});
    graph_.Node("late", "StackPop", {"s", "^close"}, {{"elem_type", DataType::kFloat}});
  }
};

TEST_F(NamedStackTest, WhatWasPushedLastComesFirst) {
  const auto out = Get({"first", "second", "py"});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual(Tensor::Scalar(2.5f), (*out)[0]);
  ExpectTensorEqual(Tensor::Scalar(1.5f), (*out)[1]);
  ExpectTensorEqual(Tensor::Scalar(2.5f), (*out)[2]);
}

TEST_F(NamedStackTest, NothingComesFromAnEmptyOrClosedStack) {
  EXPECT_THAT(Do("third").ToString(), HasSubstr("is empty when calling Pop()."));
  EXPECT_EQ(Do("close"), Status());
  EXPECT_THAT(Do("late").ToString(), HasSubstr("has already been closed."));
}

}  // namespace
}  // namespace millrace
