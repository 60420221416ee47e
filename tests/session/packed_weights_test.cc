// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Weights that kernels prepare once and keep: results always use the weights of the step. All numbers are
// small integers, so that sums are exact and expected results are known.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/session/def_builder.h"

namespace millrace {
namespace {

constexpr int64_t kChannels = 48;

// y = relu(conv(x, w)), with w a variable of either kind or a constant; every element of w has the same value
// v, so every y in the middle is v times the sum of the window.
class Model {
 public:
  enum class Kind { kConstant, kReference, kResource };
  explicit Model(Kind kind) {
    graph_.Placeholder("x");
    graph_.Placeholder("new");
    std::string weights = "w";
    if (kind == Kind::kConstant) {
      graph_.Const("w", Filter(1));
    } else if (kind == Kind::kReference) {
      SetShape(graph_.Add("w", "VariableV2", {}));
      Assignment("set", "Assign");
      Assignment("add", "AssignAdd");
    } else {
      tensorflow::NodeDef* handle = graph_.Add("handle", "VarHandleOp", {});
      SetShape(handle);
      (*handle->mutable_attr())["shared_name"].set_s("weights");
      (*graph_.Add("w", "ReadVariableOp", {"handle"})->mutable_attr())["dtype"].set_type(
          tensorflow::DT_FLOAT);
      for (const auto& [name, op] : {std::pair{"set", "AssignVariableOp"}, {"add", "AssignAddVariableOp"}}) {
        (*graph_.Add(name, op, {"handle", "new"})->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
      }
    }
    tensorflow::NodeDef* conv = graph_.Float("conv", "Conv2D", {"x", weights});
    for (int i = 0; i < 4; ++i) (*conv->mutable_attr())["strides"].mutable_list()->add_i(1);
    (*conv->mutable_attr())["padding"].set_s("VALID");
    graph_.Float("y", "Relu", {"conv"});
    session_ = SessionWith(graph_, SessionOptions());
  }

  static Tensor Filter(float value) {
    Tensor t(DataType::kFloat, {3, 3, kChannels, kChannels});
    for (float& x : t.flat<float>()) x = value;
    return t;
  }
  // Images of ones: results are 9 * kChannels * v.
  static Tensor Image(int64_t side) {
    Tensor t(DataType::kFloat, {1, side, side, kChannels});
    for (float& x : t.flat<float>()) x = 1;
    return t;
  }

  void Change(const char* how, float value) {
    const Status status = session_->Run({{"new", Filter(value)}}, {}, {how}, nullptr);
    ASSERT_TRUE(status.ok()) << status;
  }
  // The value of the weights in a step; -1 if the results do not have a common one.
  float Seen(int64_t side = 6) {
    std::vector<Tensor> results;
    const Status status = session_->Run({{"x", Image(side)}}, {"y"}, {}, &results);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return -1;
    const float first = results[0].data<float>()[0];
    for (const float y : results[0].flat<float>()) {
      if (y != first) return -1;
    }
    return first / (9 * kChannels);
  }

 private:
  void SetShape(tensorflow::NodeDef* node) {
    (*node->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
    auto* shape = (*node->mutable_attr())["shape"].mutable_shape();
    for (const int64_t size : {int64_t{3}, int64_t{3}, kChannels, kChannels})
      shape->add_dim()->set_size(size);
  }
  void Assignment(const char* name, const char* op) { graph_.Float(name, op, {"w", "new"}); }

  DefBuilder graph_;
  std::unique_ptr<Session> session_;
};

class PackedWeightsTest : public testing::TestWithParam<Model::Kind> {};

TEST_P(PackedWeightsTest, EveryStepUsesTheWeightsOfItsTime) {
  Model model(GetParam());
  model.Change("set", 1);
  float value = 1;
  // Enough steps without a change for the preparation, then changes at various distances.
  for (int steps : {5, 1, 2, 3, 1, 1, 4, 20, 1, 40, 2}) {
    for (int i = 0; i < steps; ++i) ASSERT_EQ(model.Seen(), value) << steps << " " << i;
    model.Change("add", 1);
    ++value;
  }
  ASSERT_EQ(model.Seen(), value);
  model.Change("set", 2);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(model.Seen(), 2);
}

TEST_P(PackedWeightsTest, ImagesOfOtherSizesUseTheSameWeights) {
  Model model(GetParam());
  model.Change("set", 3);
  for (int i = 0; i < 12; ++i) ASSERT_EQ(model.Seen(3 + i % 4), 3);
  for (const int64_t side : {40, 6, 60, 6, 6, 6}) ASSERT_EQ(model.Seen(side), 3);
}

TEST_P(PackedWeightsTest, SessionsKeepTheirOwn) {
  Model one(GetParam()), other(GetParam());
  one.Change("set", 1);
  other.Change("set", 2);
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(one.Seen(), 1);
    ASSERT_EQ(other.Seen(), 2);
  }
  one.Change("set", 5);
  ASSERT_EQ(one.Seen(), 5);
  ASSERT_EQ(other.Seen(), 2);
}

TEST_P(PackedWeightsTest, ChangesWhileStepsRunAreSeenWholeAndNeverBackwards) {
  Model model(GetParam());
  model.Change("set", 1);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  readers.reserve(2);
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      float last = 1;
      while (!stop) {
        const float seen = model.Seen();
        EXPECT_GE(seen, last);
        if (seen < last) return;
        last = seen;
      }
    });
  }
  for (int i = 0; i < 60; ++i) {
    model.Change("add", 1);
    for (int k = 0; k < i % 7; ++k) EXPECT_EQ(model.Seen(), static_cast<float>(i + 2));
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  for (int i = 0; i < 4; ++i) ASSERT_EQ(model.Seen(), 61);
}

INSTANTIATE_TEST_SUITE_P(Variables, PackedWeightsTest,
                         testing::Values(Model::Kind::kReference, Model::Kind::kResource));

TEST(PackedWeights, ConstantsGiveTheSameInEveryStep) {
  Model model(Model::Kind::kConstant);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(model.Seen(4 + i / 5), 1);
}

// The caller may overwrite a fed tensor afterwards.
TEST(PackedWeights, FedWeightsAreReadInEveryStep) {
  DefBuilder graph;
  graph.Placeholder("x");
  graph.Placeholder("w");
  tensorflow::NodeDef* conv = graph.Float("conv", "Conv2D", {"x", "w"});
  for (int i = 0; i < 4; ++i) (*conv->mutable_attr())["strides"].mutable_list()->add_i(1);
  (*conv->mutable_attr())["padding"].set_s("VALID");
  graph.Float("y", "Relu", {"conv"});
  const auto session = SessionWith(graph, SessionOptions());
  Tensor weights = Model::Filter(1);
  for (int i = 1; i < 8; ++i) {
    for (float& x : weights.flat<float>()) x = static_cast<float>(i);
    std::vector<Tensor> results;
    const Status status = session->Run({{"x", Model::Image(5)}, {"w", weights}}, {"y"}, {}, &results);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(results[0].data<float>()[0], static_cast<float>(9 * kChannels * i));
  }
}

}  // namespace
}  // namespace millrace
