// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Steps with and without the fusion of chains of element-wise nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/session/def_builder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using Feeds = std::vector<std::pair<std::string, Tensor>>;

Tensor Values(const TensorShape& shape, uint32_t seed = 1) {
  Tensor t(DataType::kFloat, shape);
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-2, 2);
  for (float& x : t.flat<float>()) x = uniform(random);
  return t;
}

class ElementwiseTest : public testing::Test {
 protected:
  // To be called after the graph was built.
  void Make() {
    SessionOptions options;
    fused_ = SessionWith(g_, options);
    options.disabled_passes = {"elementwise"};
    apart_ = SessionWith(g_, options);
  }
  void ExpectSameBits(const Feeds& feeds, const std::vector<std::string>& fetches) {
    std::vector<Tensor> a, b;
    const Status fused = fused_->Run(feeds, fetches, {}, &a), apart = apart_->Run(feeds, fetches, {}, &b);
    ASSERT_TRUE(fused.ok() && apart.ok()) << fused << apart;
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].shape(), b[i].shape());
      EXPECT_EQ(std::memcmp(a[i].raw_data(), b[i].raw_data(), a[i].num_bytes()), 0) << fetches[i];
    }
  }
  // The ops of the nodes that a step runs.
  std::string TracedOps(const Feeds& feeds, const std::string& fetch) {
    RunOptions run;
    run.trace_level = RunOptions::TraceLevel::kFull;
    RunMetadata metadata;
    std::vector<Tensor> out;
    EXPECT_TRUE(fused_->Run(run, feeds, {fetch}, {}, &out, &metadata).ok());
    std::string ops;
    for (const DeviceStats& device : metadata.devices) {
      for (const NodeStats& node : device.nodes) ops += node.op + " ";
    }
    return ops;
  }

  DefBuilder g_;
  std::unique_ptr<Session> fused_, apart_;
};

TEST_F(ElementwiseTest, ShapesMayChangeFromRunToRun) {
  g_.Placeholder("x");
  g_.Placeholder("y");
  g_.Float("a", "Exp", {"x"});
  g_.Float("b", "Mul", {"a", "y"});
  g_.Float("c", "Tanh", {"b"});
  g_.Float("d", "Sub", {"c", "a"});
  Make();
  if (!PassesAreOff() && !NodesAreSpread()) {
    const std::string ops = TracedOps({{"x", Values({3})}, {"y", Values({3})}}, "d");
    EXPECT_THAT(ops, HasSubstr("_FusedElementwise"));
    EXPECT_THAT(ops, testing::Not(HasSubstr("Tanh")));
  }
  for (const auto& [x, y] : std::vector<std::pair<TensorShape, TensorShape>>{{{}, {}},
                                                                             {{5}, {}},
                                                                             {{}, {5}},
                                                                             {{4, 300}, {300}},
                                                                             {{4, 1}, {7}},
                                                                             {{0}, {1}},
                                                                             {{100000}, {100000}}}) {
    const Feeds feeds = {{"x", Values(x)}, {"y", Values(y, 2)}};
    ExpectSameBits(feeds, {"d"});
    ExpectSameBits(feeds, {"d", "b"});
    ExpectSameBits(feeds, {"a", "c", "d", "b"});
  }
}

TEST_F(ElementwiseTest, ErrorsHaveTheWordsOfTheOp) {
  g_.Placeholder("x");
  g_.Placeholder("y");
  g_.Float("a", "Add", {"x", "y"});
  g_.Float("b", "Neg", {"a"});
  Make();
  std::vector<Tensor> out;
  const Status status = fused_->Run({{"x", Values({2})}, {"y", Values({3})}}, {"b"}, {}, &out);
  EXPECT_TRUE(errors::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("Incompatible shapes: [2] vs. [3]"));
}

TEST_F(ElementwiseTest, WhatIsFedIsNotOverwritten) {
  g_.Placeholder("x");
  g_.Float("a", "Neg", {"x"});
  g_.Float("b", "Exp", {"a"});
  Make();
  const Tensor x = Values({64});
  const Feeds feeds = {{"x", x}};
  std::vector<Tensor> out;
  ASSERT_TRUE(fused_->Run(feeds, {"b"}, {}, &out).ok());
  EXPECT_EQ(std::memcmp(x.raw_data(), Values({64}).raw_data(), x.num_bytes()), 0);
  EXPECT_FALSE(out[0].SharesBufferWith(x));
}

TEST_F(ElementwiseTest, VariablesKeepTheirValuesWhileAStepUsesThem) {
  g_.Variable("v", 3);
  g_.Float("read", "Identity", {"v"});
  g_.Float("a", "Square", {"read"});
  g_.Float("b", "Neg", {"a"});
  g_.Float("c", "Add", {"b", "read"});
  Make();
  for (Session* session : {fused_.get(), apart_.get()}) {
    ASSERT_TRUE(session->Run({}, {}, {"v/Assign"}, nullptr).ok());
    for (int i = 0; i < 3; ++i) {
      std::vector<Tensor> out;
      ASSERT_TRUE(session->Run({}, {"c", "v"}, {}, &out).ok());
      EXPECT_EQ(out[0].scalar<float>(), -6);
      EXPECT_EQ(out[1].scalar<float>(), 3);
    }
  }
}

TEST_F(ElementwiseTest, TheBranchNotTakenIsDead) {
  g_.Placeholder("x");
  g_.Placeholder("p", tensorflow::DT_BOOL);
  g_.Float("s", "Switch", {"x", "p"});
  g_.Float("a", "Exp", {"s:1"});
  g_.Float("b", "Neg", {"a"});
  g_.Float("c", "Square", {"s"});
  g_.Float("d", "Neg", {"c"});
  g_.Node("m", "Merge", {"b", "d"}, {{"T", DataType::kFloat}, {"N", 2}});
  g_.Float("e", "Neg", {"m"});
  g_.Float("f", "Exp", {"e"});
  Make();
  for (const bool p : {false, true}) ExpectSameBits({{"x", Values({9})}, {"p", Tensor::Scalar(p)}}, {"f"});
  std::vector<Tensor> out;
  const Status dead = fused_->Run({{"x", Values({9})}, {"p", Tensor::Scalar(false)}}, {"b"}, {}, &out);
  EXPECT_THAT(std::string(dead.message()), HasSubstr("Retval")) << dead;
}

}  // namespace
}  // namespace millrace
