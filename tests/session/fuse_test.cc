// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Fused products and convolutions, compared with the nodes that they replace. Fetching intermediate results
// prevents fusion.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/session/def_builder.h"

namespace millrace {
namespace {

class Fusion {
 public:
  explicit Fusion(uint32_t seed) : random_(seed) {}

  Tensor Values(const std::vector<int64_t>& dims, float low = -1) {
    Tensor t(DataType::kFloat, TensorShape(dims));
    std::uniform_real_distribution<float> uniform(low, 1);
    for (float& x : t.flat<float>()) x = uniform(random_);
    return t;
  }
  int64_t Int(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool Coin() { return Int(0, 1) == 1; }

  // Adds a node, which becomes the end of the chain.
  tensorflow::NodeDef* Step(const std::string& op, std::vector<std::string> inputs) {
    inputs.insert(inputs.begin(), names.back());
    names.push_back(op + std::to_string(names.size()));
    return graph.Float(names.back(), op, inputs);
  }
  std::string Const(const std::vector<int64_t>& dims, float low = -1) {
    std::string name = "c" + std::to_string(constants_++);
    graph.Const(name, Values(dims, low));
    return name;
  }

  void MatMul(bool trans_a, bool trans_b) {
    output = {Int(1, 40), Int(1, 70)};
    const int64_t k = Int(0, 60);
    names = {trans_a ? Const({k, output[0]}) : Const({output[0], k})};
    tensorflow::NodeDef* node = Step("MatMul", {trans_b ? Const({output[1], k}) : Const({k, output[1]})});
    (*node->mutable_attr())["transpose_a"].set_b(trans_a);
    (*node->mutable_attr())["transpose_b"].set_b(trans_b);
    names.erase(names.begin());
  }

  // With `pad`, a Pad and a convolution without padding.
  void Conv(bool nchw, bool pad = false) {
    nchw_ = nchw;
    const int64_t n = Int(1, 3), h = Int(1, 9), w = Int(1, 9), c = Int(1, 20), o = Int(1, 40),
                  stride = Int(1, 2);
    const int64_t side = Int(1, 3), top = Int(0, 3), left = Int(0, 3), bottom = Int(side, 3),
                  right = Int(side, 3);
    const auto size = [&](int64_t in, int64_t margins) {
      return pad ? (in + margins - side) / stride + 1 : (in + stride - 1) / stride;
    };
    const int64_t oh = size(h, top + bottom), ow = size(w, left + right);
    output = nchw ? std::vector<int64_t>{n, o, oh, ow} : std::vector<int64_t>{n, oh, ow, o};
    names = {nchw ? Const({n, c, h, w}) : Const({n, h, w, c})};
    if (pad) {
      std::vector<int32_t> amounts(8, 0);
      const size_t row = nchw ? 4 : 2;
      amounts[row] = static_cast<int32_t>(top), amounts[row + 1] = static_cast<int32_t>(bottom);
      amounts[row + 2] = static_cast<int32_t>(left), amounts[row + 3] = static_cast<int32_t>(right);
      graph.Const("amounts", Tensor::From<int32_t>(amounts, {4, 2}));
      Step("Pad", {"amounts"});
    }
    tensorflow::NodeDef* node = Step("Conv2D", {Const({side, side, c, o})});
    auto* strides = (*node->mutable_attr())["strides"].mutable_list();
    for (int i = 0; i < 4; ++i) {
      strides->add_i(i == (nchw ? 2 : 1) || i == (nchw ? 3 : 2) ? stride : 1);
    }
    (*node->mutable_attr())["padding"].set_s(pad ? "VALID" : "SAME");
    SetFormat(node);
    names.erase(names.begin());
  }

  void SetFormat(tensorflow::NodeDef* node) {
    (*node->mutable_attr())["data_format"].set_s(nchw_ ? "NCHW" : "NHWC");
  }

  int64_t channels() const { return nchw_ ? output[1] : output.back(); }

  std::vector<Tensor> Run(const std::vector<std::string>& fetches) const {
    SessionOptions options;
    options.fold_constants = false;
    std::vector<Tensor> results, again;
    const auto session = SessionWith(graph, options);
    const Status status = session->Run({}, fetches, {}, &results);
    EXPECT_TRUE(status.ok()) << status;
    // Later steps use the preparations of the first ones, and compute the same bits.
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(session->Run({}, fetches, {}, &again).ok());
      for (size_t k = 0; k < std::min(results.size(), again.size()); ++k) {
        EXPECT_EQ(std::memcmp(results[k].raw_data(), again[k].raw_data(), results[k].num_bytes()), 0);
      }
    }
    return results;
  }

  // Both ways agree within rounding errors.
  void Check() const {
    const std::vector<Tensor> apart = Run(names);
    const std::vector<Tensor> fused = Run({names.back()});
    ASSERT_EQ(fused.size(), 1u);
    ASSERT_EQ(apart.size(), names.size());
    ASSERT_EQ(fused[0].shape(), apart.back().shape());
    for (int64_t i = 0; i < fused[0].num_elements(); ++i) {
      const float want = apart.back().data<float>()[i];
      ASSERT_NEAR(fused[0].data<float>()[i], want, 1e-5 * (1 + std::abs(want)))
          << names.back() << " at " << i;
    }
  }

  DefBuilder graph;
  std::vector<std::string> names;  // of the chain
  std::vector<int64_t> output;     // shape

 private:
  std::mt19937 random_;
  int constants_ = 0;
  bool nchw_ = false;
};

constexpr const char* kActivations[] = {"Relu", "Relu6", "Elu", "Sigmoid", "Tanh"};

TEST(Fusion, ProductsEqualTheNodesTheyStandFor) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    Fusion f(seed);
    f.MatMul(f.Coin(), f.Coin());
    if (f.Coin()) f.Step("BiasAdd", {f.Const({f.channels()})});
    if (f.Coin()) f.Step("Add", {f.Const(f.output)});
    if (seed % 6 < 5) f.Step(kActivations[seed % 6], {});
    f.Check();
  }
}

TEST(Fusion, ConvolutionsEqualTheNodesTheyStandFor) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Fusion f(seed);
    f.Conv(f.Coin());
    if (f.Coin()) f.SetFormat(f.Step("BiasAdd", {f.Const({f.channels()})}));
    if (f.Coin()) f.Step("Add", {f.Const(f.output)});
    if (seed % 6 < 5) f.Step(kActivations[seed % 6], {});
    f.Check();
  }
}

TEST(Fusion, PaddedConvolutionsEqualTheNodesTheyStandFor) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    Fusion f(seed);
    f.Conv(f.Coin(), /*pad=*/true);
    if (f.Coin()) f.SetFormat(f.Step("BiasAdd", {f.Const({f.channels()})}));
    if (f.Coin()) f.Step("Relu", {});
    f.Check();
  }
}

TEST(Fusion, AVectorThatIsAddedEqualsTheNodesItStandsFor) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Fusion f(seed);
    if (f.Coin()) {
      f.MatMul(false, f.Coin());
    } else {
      f.Conv(f.Coin());
    }
    f.Step("Add", {f.Const({f.output.back()})});
    if (f.Coin()) f.Step("Relu", {});
    f.Check();
  }
}

TEST(Fusion, FoldedBatchNormEqualsTheNodesItStandsFor) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    Fusion f(seed);
    f.Conv(f.Coin());
    const std::vector<int64_t> c = {f.channels()};
    tensorflow::NodeDef* norm =
        f.Step("FusedBatchNorm", {f.Const(c), f.Const(c), f.Const(c), f.Const(c, 0.1f)});
    (*norm->mutable_attr())["is_training"].set_b(false);
    f.SetFormat(norm);
    if (f.Coin()) f.Step("Add", {f.Const(f.output)});
    if (seed % 6 < 5) f.Step(kActivations[seed % 6], {});
    f.Check();
  }
}

TEST(Fusion, AResidualThatIsBroadcastGivesTheWiderShape) {
  Fusion f(1);
  f.MatMul(false, false);
  f.Step("Add", {f.Const({3, f.output[0], 1})});
  f.Step("Tanh", {});
  f.Check();
}

TEST(Fusion, ABadBiasIsAnErrorThatNamesTheNode) {
  if (PassesAreOff()) GTEST_SKIP() << "tests a pass";
  if (NodesAreSpread()) GTEST_SKIP() << "nodes on two devices are not fused";
  Fusion f(1);
  f.MatMul(false, false);
  f.graph.Placeholder("bias");
  f.Step("BiasAdd", {"bias"});
  f.Step("Relu", {});
  SessionOptions options;
  options.fold_constants = false;
  std::vector<Tensor> results;
  const Status status = SessionWith(f.graph, options)
                            ->Run({{"bias", f.Values({f.channels() + 1})}}, {f.names.back()}, {}, &results);
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::HasSubstr("Must provide as many biases as the last"));
  EXPECT_THAT(status.message(), testing::HasSubstr("Relu"));
}

}  // namespace
}  // namespace millrace
