// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ensembles of trees: growth, prediction and serialization.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "boosted_testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr char kRight[] = "inequality_default_right";
constexpr char kEquality[] = "equality_default_right";

class EnsembleTest : public ::testing::Test {
 protected:
  EnsembleTest() {
    KernelRunner runner("BoostedTreesEnsembleResourceHandleOp");
    handle_ = *runner.Name("trees").Resources(&resources_).RunOne();
  }
  StatusOr<Tensors> Run(const char* op, const Tensors& inputs, const AttrMap& attrs = {}) {
    KernelRunner runner(op);
    runner.Resources(&resources_).Input(handle_);
    for (const Tensor& in : inputs) runner.Input(in);
    for (const auto& [name, value] : attrs) runner.Attr(name, value);
    return runner.Run();
  }
  Status Create(const std::string& serialized = "", int64_t stamp = 0) {
    return Run("BoostedTreesCreateEnsemble", {Tensor::Scalar(stamp), Tensor::Scalar(serialized)}).status();
  }
  // A split of the single feature for each node.
  Status Update(const Ints& nodes, const Floats& gains, const Ints& thresholds, const Floats& left,
                const Floats& right, int32_t max_depth, float learning_rate = 1, int64_t pruning = 0) {
    const int64_t n = static_cast<int64_t>(nodes.size());
    return Run("BoostedTreesUpdateEnsemble",
               {Tensor::Vector<int32_t>({0}), Tensor::Vector<int32_t>(nodes), Tensor::Vector<float>(gains),
                Tensor::Vector<int32_t>(thresholds), Tensor::From(left, TensorShape({n, 1})),
                Tensor::From(right, TensorShape({n, 1})), Tensor::Scalar(max_depth),
                Tensor::Scalar(learning_rate)},
               {{"pruning_mode", pruning}, {"num_features", int64_t{1}}})
        .status();
  }
  // stamp, trees, finalized trees, layers, first and last node of the layer
  std::vector<int64_t> States() {
    const auto out = Run("BoostedTreesGetEnsembleStates", {});
    EXPECT_TRUE(out.ok()) << out.status();
    if (!out.ok()) return {};
    const int32_t* range = (*out)[4].data<int32_t>();
    return {(*out)[0].scalar<int64_t>(),
            (*out)[1].scalar<int32_t>(),
            (*out)[2].scalar<int32_t>(),
            (*out)[3].scalar<int32_t>(),
            range[0],
            range[1]};
  }
  StatusOr<Tensors> Predict(const Ints& feature, int64_t logits = 1) {
    return Run("BoostedTreesPredict", {Tensor::Vector<int32_t>(feature)}, {{"logits_dimension", logits}});
  }
  StatusOr<Tensors> TrainingPredict(const Ints& trees, const Ints& nodes, const Ints& feature) {
    return Run(
        "BoostedTreesTrainingPredict",
        {Tensor::Vector<int32_t>(trees), Tensor::Vector<int32_t>(nodes), Tensor::Vector<int32_t>(feature)},
        {{"logits_dimension", int64_t{1}}});
  }
  std::string Serialized() { return (*Run("BoostedTreesSerializeEnsemble", {}))[1].scalar<std::string>(); }

  ResourceManager resources_{std::string(KernelRunner::kDeviceName)};
  Tensor handle_;
};

TEST_F(EnsembleTest, ExistsAfterItWasMade) {
  EXPECT_FALSE((*Run("IsBoostedTreesEnsembleInitialized", {}))[0].scalar<bool>());
  EXPECT_EQ(Predict({0}).status().code(), ErrorCode::kNotFound);
  ASSERT_EQ(Create("", 7), Status());
  EXPECT_TRUE((*Run("IsBoostedTreesEnsembleInitialized", {}))[0].scalar<bool>());
  EXPECT_EQ(Create("", 9), Status());  // unchanged
  EXPECT_THAT(States(), testing::ElementsAre(7, 0, 0, 0, 0, 1));
  auto out = Predict({0, 1});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectNear((*out)[0], {0, 0});
  auto training = TrainingPredict({0, 0}, {-1, -1}, {0, 1});
  ASSERT_TRUE(training.ok()) << training.status();
  ExpectTensorEqual((*training)[2], Tensor::Vector<int32_t>({0, 0}));
}

TEST_F(EnsembleTest, GrowsLayerByLayer) {
  ASSERT_EQ(Create(), Status());
  ASSERT_EQ(Update({0}, {1}, {1}, {10}, {20}, 2, 0.5f), Status());
  EXPECT_THAT(States(), testing::ElementsAre(1, 1, 0, 1, 1, 3));
  auto first = TrainingPredict({0, 0, 0}, {-1, -1, -1}, {0, 2, 3});
  ASSERT_TRUE(first.ok()) << first.status();
  ExpectNear((*first)[0], {5, 10, 10});
  ExpectTensorEqual((*first)[2], Tensor::Vector<int32_t>({1, 2, 2}));
  // The second layer completes the tree, and a new one begins.
  ASSERT_EQ(Update({1, 2}, {1, 1}, {0, 2}, {1, 2}, {3, 4}, 2), Status());
  EXPECT_THAT(States(), testing::ElementsAre(2, 2, 1, 2, 0, 1));
  auto second = TrainingPredict({0, 0, 0}, {1, 2, 2}, {0, 2, 3});
  ASSERT_TRUE(second.ok()) << second.status();
  ExpectNear((*second)[0], {1, 2, 4});
  ExpectTensorEqual((*second)[1], Tensor::Vector<int32_t>({1, 1, 1}));
  ExpectTensorEqual((*second)[2], Tensor::Vector<int32_t>({0, 0, 0}));
  auto all = Predict({0, 1, 2, 3});
  ASSERT_TRUE(all.ok()) << all.status();
  ExpectNear((*all)[0], {6, 8, 12, 14});
}

TEST_F(EnsembleTest, PathsGoThroughAllTrees) {
  ASSERT_EQ(Create(), Status());
  const auto paths = [&] {
    auto out = Run("BoostedTreesExampleDebugOutputs", {Tensor::Vector<int32_t>({0, 3})},
                   {{"logits_dimension", int64_t{1}}});
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? (*out)[0] : Tensor();
  };
  ExpectTensorEqual(paths(), Tensor::Vector<std::string>({"", ""}));
  ASSERT_EQ(Update({0}, {1}, {1}, {1}, {2}, 1), Status());
  ASSERT_EQ(Update({0}, {1}, {2}, {4}, {8}, 1), Status());
  // Features 0 and 0, packed, then the logits 0, 1, 5 and 0, 2, 10.
  const auto path = [](const Floats& logits) {
    std::string out("\x0a\x02\x00\x00\x12\x0c", 6);
    for (const float x : logits) out.append(reinterpret_cast<const char*>(&x), sizeof x);
    return out;
  };
  ExpectTensorEqual(paths(), Tensor::Vector<std::string>({path({0, 1, 5}), path({0, 2, 10})}));
}

TEST_F(EnsembleTest, PrePruningTakesNoLosses) {
  ASSERT_EQ(Create(), Status());
  ASSERT_EQ(Update({0}, {-1}, {1}, {10}, {20}, 2, 1, 1), Status());
  EXPECT_THAT(States(), testing::ElementsAre(1, 1, 0, 1, 0, 1));
  ASSERT_EQ(Update({0}, {-1}, {1}, {10}, {20}, 2, 1, 0), Status());
  EXPECT_THAT(States(), testing::ElementsAre(2, 1, 0, 2, 1, 3));
  EXPECT_EQ(Update({1}, {1}, {1}, {10}, {20}, 2, 1, 3).code(), ErrorCode::kInvalidArgument);
}

// A tree whose splits below the left node have no gain: they are removed, cached predictions adjusted.
TEST_F(EnsembleTest, PostPruningTakesLossesBack) {
  ASSERT_EQ(Create(), Status());
  ASSERT_EQ(Update({0}, {5}, {1}, {10}, {20}, 3, 1, 2), Status());                // nodes 1, 2
  ASSERT_EQ(Update({1, 2}, {-1, 3}, {0, 2}, {1, 2}, {3, 4}, 3, 1, 2), Status());  // 3 and 4, 5 and 6
  const Ints feature = {0, 1, 2, 3};
  auto before = TrainingPredict({0, 0, 0, 0}, {-1, -1, -1, -1}, feature);
  ASSERT_TRUE(before.ok()) << before.status();
  ExpectNear((*before)[0], {11, 13, 22, 24});
  ExpectTensorEqual((*before)[2], Tensor::Vector<int32_t>({3, 4, 5, 6}));
  // The last layer: node 3 and 6 are split, both with a loss; so is 4, with a gain.
  ASSERT_EQ(Update({3, 4, 6}, {-2, 1, -3}, {0, 0, 2}, {100, 5, 200}, {300, 7, 400}, 3, 1, 2), Status());
  EXPECT_THAT(States(), testing::ElementsAre(3, 2, 1, 3, 0, 1));
  // 0 -> 1 -> 3; 1 -> 1 -> 4, whose children stay and keep its parent; 2 -> 5; 3 -> 6.
  auto all = Predict(feature);
  ASSERT_TRUE(all.ok()) << all.status();
  ExpectNear((*all)[0], {11, 20, 22, 24});
  auto after = TrainingPredict({0, 0, 0, 0}, {3, 4, 5, 6}, feature);
  ASSERT_TRUE(after.ok()) << after.status();
  ExpectNear((*after)[0], {0, 7, 0, 0});
  ExpectTensorEqual((*after)[1], Tensor::Vector<int32_t>({1, 1, 1, 1}));
  // The values of the removed leaves.
  auto gone = TrainingPredict({0, 0, 0}, {7, 8, 12}, {0, 0, 3});
  ASSERT_TRUE(gone.ok()) << gone.status();
  ExpectNear((*gone)[0], {-100, -300, -400});
  EXPECT_EQ(TrainingPredict({0}, {13}, {0}).status().code(), ErrorCode::kInvalidArgument);
  // The same after serialization.
  ASSERT_EQ(Run("BoostedTreesDeserializeEnsemble",
                {Tensor::Scalar<int64_t>(3), Tensor::Scalar(std::string(Serialized()))})
                .status(),
            Status());
  ExpectNear((*TrainingPredict({0, 0, 0}, {7, 8, 12}, {0, 0, 3}))[0], {-100, -300, -400});
}

// If all splits up to the root are losses, one leaf is left.
TEST_F(EnsembleTest, PostPruningOfAWholeTree) {
  ASSERT_EQ(Create(), Status());
  ASSERT_EQ(Update({0}, {-1}, {1}, {10}, {20}, 2, 1, 2), Status());
  ASSERT_EQ(Update({1, 2}, {-1, -1}, {0, 2}, {1, 2}, {3, 4}, 2, 1, 2), Status());
  ExpectNear((*Predict({0, 1, 2, 3}))[0], {0, 0, 0, 0});
  auto after = TrainingPredict({0, 0, 0}, {1, 4, 6}, {0, 1, 3});
  ASSERT_TRUE(after.ok()) << after.status();
  ExpectNear((*after)[0], {-10, -13, -24});
}

TEST_F(EnsembleTest, TheLargestGainWinsAndThenTheSmallestNumber) {
  for (const auto& [gain, winner] : {std::pair{1.0f, 3}, {2.0f, 5}, {0.5f, 3}}) {
    resources_.Clear();
    ASSERT_EQ(Create(), Status());
    const Tensor node = Tensor::Vector<int32_t>({0}), threshold = Tensor::Vector<int32_t>({0});
    const Tensor leaf = Tensor::From<float>({1}, TensorShape({1, 1}));
    ASSERT_EQ(Run("BoostedTreesUpdateEnsemble",
                  {Tensor::Vector<int32_t>({5, 3}), node, node, Tensor::Vector<float>({gain}),
                   Tensor::Vector<float>({1}), threshold, threshold, leaf, leaf, leaf, leaf,
                   Tensor::Scalar(1), Tensor::Scalar(1.0f)},
                  {{"pruning_mode", int64_t{0}}, {"num_features", int64_t{2}}})
                  .status(),
              Status());
    EXPECT_THAT(std::string(Predict({0}).status().message()), HasSubstr(StrCat("of feature ", winner)));
  }
}

TEST_F(EnsembleTest, SeveralLogitsAndKindsOfSplits) {
  ASSERT_EQ(Create(), Status());
  const auto update = [&](const char* type, int32_t node) {
    return Run("BoostedTreesUpdateEnsembleV2",
               {Tensor::Vector<int32_t>({0}), Tensor::Vector<int32_t>({1}), Tensor::Vector<int32_t>({node}),
                Tensor::Vector<float>({1}), Tensor::Vector<int32_t>({2}),
                Tensor::From<float>({1, 2}, TensorShape({1, 2})),
                Tensor::From<float>({3, 4}, TensorShape({1, 2})), Tensor::Vector<std::string>({type}),
                Tensor::Scalar(5), Tensor::Scalar(1.0f), Tensor::Scalar(0)},
               {{"num_features", int64_t{1}}})
        .status();
  };
  ASSERT_EQ(update(kRight, 0), Status());
  ASSERT_EQ(update(kEquality, 1), Status());
  const Tensor feature = Tensor::From<int32_t>({0, -1, 0, 1, 0, 2, 0, 3}, TensorShape({4, 2}));
  for (int round = 0; round < 2; ++round) {
    auto out = Run("BoostedTreesPredict", {feature}, {{"logits_dimension", int64_t{2}}});
    ASSERT_TRUE(out.ok()) << out.status();
    ExpectNear((*out)[0], {3, 4, 4, 6, 2, 4, 3, 4});
    // The same after it was restored.
    const std::string saved = Serialized();
    ASSERT_EQ(
        Run("BoostedTreesDeserializeEnsemble", {Tensor::Scalar<int64_t>(3), Tensor::Scalar(saved)}).status(),
        Status());
    EXPECT_EQ(Serialized(), saved);
    EXPECT_EQ(States()[0], 3);
  }
  EXPECT_THAT(std::string(Predict({0}, 2).status().message()),
              HasSubstr("splits by dimension 1 of feature 0"));
}

TEST_F(EnsembleTest, TheBiasIsCenteredUntilItStays) {
  ASSERT_EQ(Create(), Status());
  const auto center = [&](float gradient, float hessian) {
    return (*Run("BoostedTreesCenterBias", {Tensor::From<float>({gradient}, TensorShape({1, 1})),
                                            Tensor::From<float>({hessian}, TensorShape({1, 1})),
                                            Tensor::Scalar(0.0f), Tensor::Scalar(0.0f)}))[0]
        .scalar<bool>();
  };
  EXPECT_TRUE(center(-4, 2));
  ExpectNear((*Predict({0}))[0], {2});
  EXPECT_TRUE(center(-1, 2));
  ExpectNear((*Predict({0}))[0], {2.5f});
  EXPECT_FALSE(center(-0.01f, 2));
  ExpectNear((*Predict({0}))[0], {2.5f});
}

TEST_F(EnsembleTest, BoostingFitsWhatTreesCanSay) {
  // Squared loss: the gradient is the error, the hessian is 1. The target is a step at each bucket.
  ASSERT_EQ(Create(), Status());
  const Ints feature = {0, 1, 2, 3, 0, 1, 2, 3};
  const Floats target = {1, -2, 4, 0.5f, 1, -2, 4, 0.5f};
  Ints trees(8, 0), nodes(8, -1);
  Floats prediction(8, 0);
  for (int round = 0; round < 40; ++round) {
    auto out = TrainingPredict(trees, nodes, feature);
    ASSERT_TRUE(out.ok()) << out.status();
    Floats errors;
    Ints ids;
    for (size_t i = 0; i < 8; ++i) {
      prediction[i] += (*out)[0].data<float>()[i];
      trees[i] = (*out)[1].data<int32_t>()[i];
      nodes[i] = (*out)[2].data<int32_t>()[i];
      errors.push_back(prediction[i] - target[i]);
      ids.push_back(nodes[i]);
    }
    const std::vector<int64_t> states = States();
    KernelRunner stats("BoostedTreesMakeStatsSummary");
    stats.Attr("max_splits", int64_t{8}).Attr("num_buckets", int64_t{4}).Attr("num_features", int64_t{1});
    stats.Input(Tensor::Vector<int32_t>(ids)).Input(Tensor::From(errors, TensorShape({8, 1})));
    stats.Input(Tensor::From(Floats(8, 1), TensorShape({8, 1}))).Input(Tensor::Vector<int32_t>(feature));
    auto summary = stats.RunOne();
    ASSERT_TRUE(summary.ok()) << summary.status();
    auto best = BestGains(summary->WithShape(TensorShape({8, 4, 2})),
                          {static_cast<int32_t>(states[4]), static_cast<int32_t>(states[5])}, {});
    ASSERT_TRUE(best.ok()) << best.status();
    const auto floats = [](const Tensor& t) {
      return Floats(t.data<float>(), t.data<float>() + t.num_elements());
    };
    const auto ints = [](const Tensor& t) {
      return Ints(t.data<int32_t>(), t.data<int32_t>() + t.num_elements());
    };
    ASSERT_EQ(Update(ints((*best)[0]), floats((*best)[1]), ints((*best)[2]), floats((*best)[3]),
                     floats((*best)[4]), 2, 0.8f),
              Status());
  }
  auto all = Predict(feature);
  ASSERT_TRUE(all.ok());
  ExpectNear((*all)[0], target, 1e-3f);
  ExpectNear((*TrainingPredict(trees, nodes, feature))[0], [&] {
    Floats rest;
    for (size_t i = 0; i < 8; ++i) rest.push_back((*all)[0].data<float>()[i] - prediction[i]);
    return rest;
  }());
}

TEST_F(EnsembleTest, WrongUpdatesAndPlacesAreRefused) {
  ASSERT_EQ(Create(), Status());
  EXPECT_THAT(std::string(Update({1}, {1}, {1}, {1}, {1}, 2).message()),
              HasSubstr("Node 1 of the growing tree"));
  EXPECT_THAT(std::string(Update({-1}, {1}, {1}, {1}, {1}, 2).message()), HasSubstr("Node -1"));
  EXPECT_THAT(std::string(Update({0}, {1, 2}, {1}, {1}, {1}, 2).message()),
              HasSubstr("has 1 nodes and 2 splits"));
  ASSERT_EQ(Update({0}, {1}, {1}, {1}, {2}, 3), Status());
  EXPECT_THAT(std::string(Update({0}, {1}, {1}, {1}, {1}, 3).message()), HasSubstr("is not a leaf"));
  const auto error = [&](const Ints& trees, const Ints& nodes) {
    return std::string(TrainingPredict(trees, nodes, {0}).status().message());
  };
  EXPECT_THAT(error({0}, {3}), HasSubstr("was at node 3 of tree 0"));
  EXPECT_THAT(error({1}, {0}), HasSubstr("was at node 0 of tree 1"));
  EXPECT_THAT(error({-1}, {0}), HasSubstr("of tree -1"));
  EXPECT_THAT(error({0, 0}, {0, 0}), HasSubstr("must be of shape [1]"));
  EXPECT_THAT(std::string(Predict({0}, 2).status().message()),
              HasSubstr("leaves of 1 values, not of 2 logits"));
}

TEST_F(EnsembleTest, BytesThatAreNoEnsembleAreRefused) {
  // A tree of one node that splits into itself: field 2 of the node, left_id and right_id 0.
  const std::string to_itself("\x0a\x08\x0a\x06\x12\x04\x18\x00\x20\x00", 10);
  for (const std::string& bytes : {std::string("\xff\xff"), std::string("\x0a\x00", 2), to_itself}) {
    EXPECT_THAT(std::string(Create(bytes).message()), HasSubstr("Unable to parse tree ensemble proto."));
  }
  ASSERT_EQ(Create(), Status());
  EXPECT_THAT(std::string(Run("BoostedTreesDeserializeEnsemble",
                              {Tensor::Scalar<int64_t>(0), Tensor::Scalar(to_itself)})
                              .status()
                              .message()),
              HasSubstr("Unable to parse"));
  EXPECT_EQ(States()[1], 0);
}

}  // namespace
}  // namespace millrace
