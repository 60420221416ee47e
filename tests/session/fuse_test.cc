// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Fused products and convolutions against the nodes that they stand for. Fetching what lies in between, too,
// keeps nodes apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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

  // A node that becomes the end of the chain.
  tensorflow::NodeDef* Step(const std::string& op, std::vector<std::string> inputs) {
    inputs.insert(inputs.begin(), names.back());
    names.push_back(op + std::to_string(names.size()));
    return graph.Float(names.back(), op, inputs);
  }
  std::string Const(const std::vector<int64_t>& dims, float low = -1) {
    const std::string name = "c" + std::to_string(constants_++);
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

  void Conv(bool nchw) {
    nchw_ = nchw;
    const int64_t n = Int(1, 3), h = Int(1, 9), w = Int(1, 9), c = Int(1, 20), o = Int(1, 40),
                  stride = Int(1, 2);
    const int64_t oh = (h + stride - 1) / stride, ow = (w + stride - 1) / stride, side = Int(1, 3);
    output = nchw ? std::vector<int64_t>{n, o, oh, ow} : std::vector<int64_t>{n, oh, ow, o};
    names = {nchw ? Const({n, c, h, w}) : Const({n, h, w, c})};
    tensorflow::NodeDef* node = Step("Conv2D", {Const({side, side, c, o})});
    auto* strides = (*node->mutable_attr())["strides"].mutable_list();
    for (int i = 0; i < 4; ++i) {
      strides->add_i(i == (nchw ? 2 : 1) || i == (nchw ? 3 : 2) ? stride : 1);
    }
    (*node->mutable_attr())["padding"].set_s("SAME");
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
    std::vector<Tensor> results;
    const Status status = SessionWith(graph, options)->Run({}, fetches, {}, &results);
    EXPECT_TRUE(status.ok()) << status;
    return results;
  }

  // Both ways agree within what rounding may do.
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
  if (PassesAreOff()) GTEST_SKIP() << "is about what a pass does";
  if (NodesAreStrewn()) GTEST_SKIP() << "nodes on two devices are not fused";
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
