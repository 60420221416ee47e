// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Forwarded references, temporary variables in loops, and the op that ends the process.
#include <gmock/gmock.h>

#include <cstdlib>

#include "tensor/testing.h"
#include "tests/session/state_testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class ReferenceTest : public StateTest {
 protected:
  void Bool(const std::string& name, bool v) { graph_.Const(name, Tensor::Scalar(v)); }
  AttrMap FloatAttrs(AttrMap more = {}) {
    more.Set("T", DataType::kFloat);
    return more;
  }
};

TEST_F(ReferenceTest, RefSelectChoosesTheVariableThatIsChanged) {
  graph_.Variable("a", 1);
  graph_.Variable("b", 2);
  graph_.Placeholder("i", tensorflow::DT_INT32);
  graph_.Const("ten", Tensor::Scalar(10.0f));
  graph_.Node("chosen", "RefSelect", {"i", "a", "b"}, FloatAttrs({{"N", 2}}));
  graph_.Float("add", "AssignAdd", {"chosen", "ten"});
  for (const char* init : {"a/Assign", "b/Assign"}) ASSERT_EQ(Do(init), Status());
  ASSERT_EQ(Do("add", {{"i", Tensor::Scalar(1)}}), Status());
  ExpectTensorEqual(Tensor::Scalar(1.0f), GetOne("a"));
  ExpectTensorEqual(Tensor::Scalar(12.0f), GetOne("b"));
  for (const int bad : {-1, 2}) {
    EXPECT_THAT(Do("add", {{"i", Tensor::Scalar(bad)}}).ToString(),
                HasSubstr(StrCat("Index must be in the range [0, 2) but got ", bad)));
  }
  EXPECT_THAT(Do("add", {{"i", Tensor::Vector<int32_t>({0})}}).ToString(),
              HasSubstr("Index must be a scalar, but it has shape [1]"));
}

TEST_F(ReferenceTest, RefIdentityHandsOnEvenWhatHasNoValue) {
  graph_.Variable("a", 1);
  graph_.Node("same", "RefIdentity", {"a"}, FloatAttrs());
  graph_.Const("ten", Tensor::Scalar(10.0f));
  graph_.Float("set", "Assign", {"same", "ten"});
  graph_.Float("read", "Identity", {"same"});
  EXPECT_TRUE(errors::IsFailedPrecondition(Do("read")));
  ASSERT_EQ(Do("set"), Status());
  ExpectTensorEqual(Tensor::Scalar(10.0f), GetOne("a"));
}

// while (i < n) { t = TemporaryVariable; sum += t.assign(i).destroy(); ++i }
class TemporaryInLoopTest : public ReferenceTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    options_.inter_op_parallelism_threads = options_.intra_op_parallelism_threads = GetParam();
    graph_.Const("zero", Tensor::Scalar(0.0f));
    graph_.Const("one", Tensor::Scalar(1.0f));
    graph_.Placeholder("n");
    const auto enter = [&](const char* name, const char* of, bool constant) {
      graph_.Node(name, "Enter", {of}, FloatAttrs({{"frame_name", "loop"}, {"is_constant", constant}}));
    };
    enter("limit", "n", true);
    enter("step", "one", true);
    for (const std::string v : {"i", "sum"}) {
      enter((v + "/enter").c_str(), "zero", false);
      graph_.Node(v, "Merge", {v + "/enter", v + "/next"}, FloatAttrs({{"N", 2}}));
      graph_.Node(v + "/switch", "Switch", {v, "more"}, FloatAttrs());
      graph_.Node(v + "/exit", "Exit", {v + "/switch"}, FloatAttrs());
    }
    graph_.Node("less", "Less", {"i", "limit"}, FloatAttrs());
    graph_.Node("more", "LoopCond", {"less"}, {});
    graph_.Node("i/plus", "Add", {"i/switch:1", "step"}, FloatAttrs());
    graph_.Node("t", "TemporaryVariable", {"^i/plus"},
                {{"dtype", DataType::kFloat}, {"shape", TensorShape()}});
    graph_.Node("t/set", "Assign", {"t", "i/switch:1"}, FloatAttrs());
    graph_.Node("t/add", "AssignAdd", {"t/set", "step"}, FloatAttrs());
    graph_.Node("t/out", "DestroyTemporaryVariable", {"t/add"}, FloatAttrs({{"var_name", "t"}}));
    graph_.Node("sum/plus", "Add", {"sum/switch:1", "t/out"}, FloatAttrs());
    graph_.Node("i/next", "NextIteration", {"i/plus"}, FloatAttrs());
    graph_.Node("sum/next", "NextIteration", {"sum/plus"}, FloatAttrs());
  }
};

TEST_P(TemporaryInLoopTest, IterationsAtTheSameTimeHaveTheirOwn) {
  for (int run = 0; run < 20; ++run) {
    ExpectTensorEqual(Tensor::Scalar(5050.0f), GetOne("sum/exit", {{"n", Tensor::Scalar(100.0f)}}));
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, TemporaryInLoopTest, ::testing::Values(1, 4));

using AbortDeathTest = ReferenceTest;

TEST_F(AbortDeathTest, AbortEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  graph_.Node("die", "Abort", {}, {{"error_msg", "on purpose"}});
  graph_.Node("leave", "Abort", {}, {{"error_msg", "done"}, {"exit_without_error", true}});
  EXPECT_DEATH(Do("die").IgnoreError("never comes back"), "Abort_op intentional failure; on purpose");
  EXPECT_EXIT(Do("leave").IgnoreError("never comes back"), ::testing::ExitedWithCode(EXIT_SUCCESS),
              "Exiting the process: done");
}

}  // namespace
}  // namespace millrace
