// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// With auto_mixed_precision, products and convolutions of floats give the results of the same graph with
// factors that were rounded to bfloat16 before, within the rounding errors of float sums: sums are floats,
// and nothing else is rounded.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/contract/bf16.h"
#include "tests/session/def_builder.h"

namespace millrace {
namespace {

Tensor RandomTensor(const TensorShape& shape, uint32_t seed) {
  Tensor t(DataType::kFloat, shape);
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& x : t.flat<float>()) x = uniform(random);
  return t;
}

Tensor Rounded(const Tensor& t) {
  Tensor out(DataType::kFloat, t.shape());
  for (int64_t i = 0; i < t.num_elements(); ++i)
    out.data<float>()[i] = static_cast<float>(bfloat16(t.data<float>()[i]));
  return out;
}

SessionOptions Mixed() {
  SessionOptions options;
  options.auto_mixed_precision = true;
  return options;
}

bool HasUnit() { return cpu::ActiveBf16Unit() != cpu::Bf16Unit::kNone; }

// One op of two factors, with optional further ops.
struct Case {
  std::string name;
  TensorShape a, b;
  void (*build)(DefBuilder& graph);  // of "a" and "b" to "y"
};

void SetImages(tensorflow::NodeDef* node) {
  for (int i = 0; i < 4; ++i) (*node->mutable_attr())["strides"].mutable_list()->add_i(1);
  (*node->mutable_attr())["padding"].set_s("SAME");
}

Tensor Sizes(const std::vector<int32_t>& sizes) { return Tensor::From<int32_t>(sizes, {4}); }

const Case kCases[] = {
    {"MatMul",
     {40, 70},
     {70, 50},
     [](DefBuilder& g) {
       g.Float("y", "MatMul", {"a", "b"});
     }},
    {"Layer",
     {40, 70},
     {70, 50},
     [](DefBuilder& g) {
       g.Const("bias", RandomTensor({50}, 7));
       g.Float("m", "MatMul", {"a", "b"});
       g.Float("biased", "BiasAdd", {"m", "bias"});
       g.Float("y", "Tanh", {"biased"});
     }},
    {"BatchMatMul",
     {5, 40, 70},
     {5, 70, 50},
     [](DefBuilder& g) {
       g.Float("y", "BatchMatMul", {"a", "b"});
     }},
    {"BatchMatMulV2",
     {5, 40, 70},
     {70, 50},
     [](DefBuilder& g) {
       g.Float("y", "BatchMatMulV2", {"a", "b"});
     }},
    {"Conv2D",
     {2, 9, 9, 32},
     {3, 3, 32, 40},
     [](DefBuilder& g) {
       SetImages(g.Float("y", "Conv2D", {"a", "b"}));
     }},
    {"ConvLayer",
     {2, 9, 9, 32},
     {3, 3, 32, 40},
     [](DefBuilder& g) {
       g.Const("bias", RandomTensor({40}, 7));
       SetImages(g.Float("c", "Conv2D", {"a", "b"}));
       g.Float("biased", "BiasAdd", {"c", "bias"});
       g.Float("y", "Relu", {"biased"});
     }},
    {"Conv2DBackpropInput",
     {3, 3, 32, 40},
     {2, 9, 9, 40},
     [](DefBuilder& g) {
       g.Const("sizes", Sizes({2, 9, 9, 32}));
       SetImages(g.Float("y", "Conv2DBackpropInput", {"sizes", "a", "b"}));
     }},
    {"Conv2DBackpropFilter",
     {2, 9, 9, 32},
     {2, 9, 9, 40},
     [](DefBuilder& g) {
       g.Const("sizes", Sizes({3, 3, 32, 40}));
       SetImages(g.Float("y", "Conv2DBackpropFilter", {"a", "sizes", "b"}));
     }},
};

double LargestDifference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i)
    largest = std::max<double>(largest, std::abs(a.data<float>()[i] - b.data<float>()[i]));
  return largest;
}

TEST(MixedPrecisionTest, FactorsAreRoundedAndNothingElse) {
  if (PassesAreOff()) GTEST_SKIP() << "tests a pass";
  for (const Case& c : kCases) {
    DefBuilder g;
    g.Placeholder("a");
    g.Placeholder("b");
    c.build(g);
    const auto plain = SessionWith(g), mixed = SessionWith(g, Mixed());
    const Tensor a = RandomTensor(c.a, 1), b = RandomTensor(c.b, 2);
    std::vector<Tensor> exact, rounded, got;
    ASSERT_TRUE(plain->Run({{"a", a}, {"b", b}}, {"y"}, {}, &exact).ok()) << c.name;
    ASSERT_TRUE(plain->Run({{"a", Rounded(a)}, {"b", Rounded(b)}}, {"y"}, {}, &rounded).ok()) << c.name;
    ASSERT_TRUE(mixed->Run({{"a", a}, {"b", b}}, {"y"}, {}, &got).ok()) << c.name;
    // Without instructions for bfloat16 the factors are not rounded.
    EXPECT_LT(LargestDifference(got[0], HasUnit() ? rounded[0] : exact[0]), 2e-5) << c.name;
    EXPECT_TRUE(!HasUnit() || LargestDifference(got[0], exact[0]) > 2e-4) << c.name;
  }
}

TEST(MixedPrecisionTest, Bfloat16TensorsAreSummedAsFloats) {
  for (const Case& c : kCases) {
    DefBuilder g;
    for (const char* name : {"a", "b"}) g.Placeholder(name, tensorflow::DT_BFLOAT16);
    DefBuilder inner;
    c.build(inner);
    if (inner.def().node(inner.def().node_size() - 1).op() == "Tanh") continue;  // has more roundings
    if (inner.def().node(inner.def().node_size() - 1).op() == "Relu") continue;
    c.build(g);
    tensorflow::GraphDef def = g.def();
    (*def.mutable_node(def.node_size() - 1)->mutable_attr())["T"].set_type(tensorflow::DT_BFLOAT16);
    DefBuilder plain;
    for (const char* name : {"a", "b"}) plain.Placeholder(name);
    c.build(plain);
    auto session = NewSession({});
    ASSERT_TRUE(session.ok() && (*session)->Create(def).ok()) << c.name;
    const Tensor a = Rounded(RandomTensor(c.a, 1)), b = Rounded(RandomTensor(c.b, 2));
    const auto halved = [](const Tensor& t) {
      Tensor out(DataType::kBfloat16, t.shape());
      for (int64_t i = 0; i < t.num_elements(); ++i) out.data<bfloat16>()[i] = bfloat16(t.data<float>()[i]);
      return out;
    };
    std::vector<Tensor> want, got;
    ASSERT_TRUE(SessionWith(plain)->Run({{"a", a}, {"b", b}}, {"y"}, {}, &want).ok()) << c.name;
    ASSERT_TRUE((*session)->Run({{"a", halved(a)}, {"b", halved(b)}}, {"y"}, {}, &got).ok()) << c.name;
    for (int64_t i = 0; i < want[0].num_elements(); ++i) {
      const float w = want[0].data<float>()[i];
      ASSERT_NEAR(static_cast<float>(got[0].data<bfloat16>()[i]), w, std::abs(w) * 0x1p-8 + 2e-5) << c.name;
    }
  }
}

TEST(MixedPrecisionTest, VariablesStayFloatsAndTheirChangesAreSeen) {
  if (PassesAreOff()) GTEST_SKIP() << "tests a pass";
  DefBuilder g;
  g.Placeholder("x");
  g.Placeholder("new");
  tensorflow::NodeDef* const w = g.Add("w", "VariableV2", {});
  (*w->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  for (const int size : {64, 32}) (*w->mutable_attr())["shape"].mutable_shape()->add_dim()->set_size(size);
  g.Float("set", "Assign", {"w", "new"});
  g.Float("m", "MatMul", {"x", "w"});
  g.Float("y", "Relu", {"m"});
  g.Float("read", "Identity", {"w"});
  const auto session = SessionWith(g, Mixed());
  Tensor x(DataType::kFloat, {40, 64});
  for (float& value : x.flat<float>()) value = 1;
  for (const float value : {1.0f, 3.0f, -1.0f, 1 + 0x1p-12f, 0.5f}) {
    Tensor weights(DataType::kFloat, {64, 32});
    for (float& v : weights.flat<float>()) v = value;
    std::vector<Tensor> out;
    ASSERT_TRUE(session->Run({{"new", weights}}, {}, {"set"}, nullptr).ok());
    for (int step = 0; step < 4; ++step) {
      ASSERT_TRUE(session->Run({{"x", x}}, {"y", "read"}, {}, &out).ok());
      const float factor = HasUnit() ? static_cast<float>(bfloat16(value)) : value;
      ASSERT_EQ(out[0].data<float>()[17], std::max(64 * factor, 0.0f)) << value << " step " << step;
      ASSERT_EQ(out[1].data<float>()[5], value);
    }
  }
}

}  // namespace
}  // namespace millrace
