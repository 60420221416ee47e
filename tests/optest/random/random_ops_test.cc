// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Random ops other than plain fills: orders and samples by their definitions from the stream, moments, and
// the same numbers with any number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "base/random/philox_stream.h"
#include "base/thread_pool.h"
#include "kernel/testing.h"
#include "tensor/resource_handle.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

Tensor Shape(std::vector<int64_t> dims) { return Tensor::Vector<int64_t>(dims); }

TEST(RandomOpsTest, AShuffleSwapsEachPlaceWithOneThatTheStreamPicks) {
  for (const bool matrix : {false, true}) {
    KernelRunner runner("RandomShuffle");
    Tensor in(DataType::kInt32, matrix ? TensorShape({50, 2}) : TensorShape({100}));
    std::iota(in.data<int32_t>(), in.data<int32_t>() + 100, 0);
    runner.Attr("seed", int64_t{87654321}).Attr("seed2", int64_t{42}).Input(in);
    const int rows = matrix ? 50 : 100;
    for (int run = 0; run < 2; ++run) {
      PhiloxRandom generator(87654321, 42);
      generator.Skip(static_cast<uint64_t>(run * ((rows - 1 + 3) / 4)));
      std::vector<uint32_t> words;
      while (words.size() < 100) {
        for (const uint32_t word : generator()) words.push_back(word);
      }
      std::vector<int> order(static_cast<size_t>(rows));
      std::iota(order.begin(), order.end(), 0);
      for (int i = 0; i + 1 < rows; ++i) {
        std::swap(order[i], order[i + static_cast<int>(words[i] % static_cast<uint32_t>(rows - i))]);
      }
      auto out = runner.RunOne();
      ASSERT_TRUE(out.ok()) << out.status();
      for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(out->data<int32_t>()[i], matrix ? 2 * order[i / 2] + i % 2 : order[i]);
      }
    }
  }
}

TEST(RandomOpsTest, ShufflesOfStringsAndOfNothing) {
  auto strings = KernelRunner("RandomShuffle").Input(Tensor::Vector<std::string>({"a", "b", "c"})).RunOne();
  ASSERT_TRUE(strings.ok());
  std::set<std::string> seen(strings->data<std::string>(), strings->data<std::string>() + 3);
  EXPECT_EQ(seen.size(), 3u);
  for (const TensorShape& shape :
       {TensorShape(), TensorShape({0}), TensorShape({1, 3}), TensorShape({3, 0})}) {
    auto out = KernelRunner("RandomShuffle").Input(Tensor(DataType::kFloat, shape)).RunOne();
    ASSERT_TRUE(out.ok());
    EXPECT_EQ(out->shape(), shape);
  }
}

TEST(RandomOpsTest, CategoriesAreDrawnByTheirWeights) {
  ThreadPool pool("random", 4);
  Tensor logits(DataType::kFloat, TensorShape({40, 3}));
  for (int i = 0; i < 40; ++i) {
    const float row[] = {std::log(0.2f), std::log(0.5f), std::log(0.3f)};
    std::copy_n(row, 3, logits.data<float>() + 3 * i);
  }
  std::vector<Tensor> outs;
  for (ThreadPool* threads : {static_cast<ThreadPool*>(nullptr), &pool}) {
    KernelRunner runner("Multinomial");
    runner.Attr("seed", int64_t{3}).Input(logits).Input(Tensor::Scalar(int32_t{1001})).Pool(threads);
    auto out = runner.RunOne();
    ASSERT_TRUE(out.ok()) << out.status();
    outs.push_back(*out);
  }
  EXPECT_TRUE(TensorsEqual(outs[0], outs[1]));
  double counts[3] = {};
  for (int64_t i = 0; i < outs[0].num_elements(); ++i) counts[outs[0].data<int64_t>()[i]] += 1;
  EXPECT_NEAR(counts[0] / 40040, 0.2, 0.01);
  EXPECT_NEAR(counts[1] / 40040, 0.5, 0.01);
  // The first samples by definition.
  PhiloxRandom generator(3, 0);
  const PhiloxRandom::Block x = generator();
  for (int i = 0; i < 2; ++i) {
    const double u = UnitDouble(x[2 * i], x[2 * i + 1]);
    EXPECT_EQ(outs[0].data<int64_t>()[i], u < 0.2 ? 0 : u < 0.7 ? 1 : 2);
  }
}

TEST(RandomOpsTest, GammaAndPoissonSamplesHaveTheirMoments) {
  ThreadPool pool("random", 4);
  const Tensor parameters = Tensor::Vector<double>({0.5, 1, 3, 25});
  for (const char* op : {"RandomGamma", "RandomPoissonV2"}) {
    std::vector<Tensor> outs;
    for (ThreadPool* threads : {static_cast<ThreadPool*>(nullptr), &pool}) {
      KernelRunner runner(op);
      runner.Attr("seed", int64_t{5}).Attr("seed2", int64_t{6}).Input(Shape({20000})).Input(parameters);
      if (std::string_view(op) == "RandomPoissonV2") runner.Attr("dtype", DataType::kDouble);
      runner.Pool(threads);
      auto out = runner.RunOne();
      ASSERT_TRUE(out.ok()) << out.status();
      ASSERT_EQ(out->shape(), TensorShape({20000, 4}));
      outs.push_back(*out);
    }
    EXPECT_TRUE(TensorsEqual(outs[0], outs[1]));
    for (int p = 0; p < 4; ++p) {
      double sum = 0, squares = 0;
      for (int i = 0; i < 20000; ++i) {
        const double x = outs[0].data<double>()[i * 4 + p];
        sum += x;
        squares += x * x;
      }
      const double mean = sum / 20000, wanted = parameters.data<double>()[p];
      EXPECT_NEAR(mean, wanted, 6 * std::sqrt(wanted / 20000)) << op;  // mean and variance are the parameter
      EXPECT_NEAR(squares / 20000 - mean * mean, wanted, 0.1 * wanted + 0.03) << op;
    }
  }
}

TEST(RandomOpsTest, StrangeParametersEnd) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor strange = Tensor::Vector<double>({std::nan(""), inf, -inf, -3, 0, 1e300, 1e-300});
  for (const DataType dtype : {DataType::kInt32, DataType::kInt64, DataType::kHalf, DataType::kDouble}) {
    auto out =
        KernelRunner("RandomPoissonV2").Attr("dtype", dtype).Input(Shape({50})).Input(strange).RunOne();
    ASSERT_TRUE(out.ok()) << out.status();
    for (int i = 1; i < 350; i += 7) {  // for the infinite rate
      if (dtype == DataType::kInt32) {
        ASSERT_EQ(out->data<int32_t>()[i], INT32_MAX);
      }
      if (dtype == DataType::kInt64) {
        ASSERT_EQ(out->data<int64_t>()[i], INT64_MAX);
      }
      if (dtype == DataType::kHalf) {
        ASSERT_EQ(float(out->data<half>()[i]), inf);
      }
      if (dtype == DataType::kDouble) {
        ASSERT_EQ(out->data<double>()[i], inf);
      }
    }
  }
  EXPECT_TRUE(KernelRunner("RandomGamma").Input(Shape({3})).Input(strange).RunOne().ok());
  auto empty = KernelRunner("RandomGamma")
                   .Input(Shape({3}))
                   .Input(Tensor(DataType::kFloat, TensorShape({0})))
                   .RunOne();
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->shape(), TensorShape({3, 0}));
}

TEST(RandomOpsTest, TruncatedNormalsKeepTheirBounds) {
  struct Row {
    double mean, deviation, low, high;
  };
  for (const Row& r : {Row{0, 1, -2, 2}, Row{0, 1, 3, 4}, Row{0, 1, 3, 1e9}, Row{5, 2, -1e9, 4.9},
                       Row{0, 1, -5, -4}, Row{0, 1, -0.1, 0.1}, Row{0, 1, 20, HUGE_VAL}}) {
    for (const DataType dtype : {DataType::kFloat, DataType::kDouble}) {
      const auto parameter = [&](double v) {
        return dtype == DataType::kFloat ? Tensor::Scalar(static_cast<float>(v)) : Tensor::Scalar(v);
      };
      KernelRunner runner("ParameterizedTruncatedNormal");
      runner.Attr("seed", int64_t{2}).Input(Shape({20, 50}));
      for (const double v : {r.mean, r.deviation, r.low, r.high}) runner.Input(parameter(v));
      auto out = runner.RunOne();
      ASSERT_TRUE(out.ok()) << out.status();
      std::set<double> values;
      for (int i = 0; i < 1000; ++i) {
        const double x = dtype == DataType::kFloat ? out->data<float>()[i] : out->data<double>()[i];
        ASSERT_GE(x, r.low - 1e-5);
        ASSERT_LE(x, r.high + 1e-5);
        values.insert(x);
      }
      EXPECT_GT(values.size(), 500u);
    }
  }
  KernelRunner bad("ParameterizedTruncatedNormal");
  bad.Input(Shape({2}));
  for (const float v : {0.0f, 1.0f, 2.0f, 1.0f}) bad.Input(Tensor::Scalar(v));
  EXPECT_EQ(bad.RunOne().status(), errors::InvalidArgument("Invalid parameters"));
}

TEST(RandomOpsTest, StatelessOpsAreFunctionsOfTheirSeeds) {
  const auto draw = [](const char* op, int64_t a, int64_t b) {
    auto out = KernelRunner(op).Input(Shape({1000})).Input(Shape({a, b})).RunOne();
    EXPECT_TRUE(out.ok()) << out.status();
    return *out;
  };
  for (const char* op : {"StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"}) {
    EXPECT_TRUE(TensorsEqual(draw(op, 1, 2), draw(op, 1, 2)));
    EXPECT_FALSE(TensorsEqual(draw(op, 1, 2), draw(op, 2, 1)));
    EXPECT_FALSE(TensorsEqual(draw(op, 1, 2), draw(op, 1, 3)));
  }
  // By definition: the seeds are the counter of a generator with a fixed key, whose first block is the key
  // and the counter.
  PhiloxRandom mixer(0x02461e293ec8f720u, 7);
  mixer.Skip(5);
  const auto x = mixer();
  PhiloxRandom generator(x[0] | uint64_t{x[1]} << 32, x[2] | uint64_t{x[3]} << 32);
  const auto words = generator();
  const Tensor uniform = draw("StatelessRandomUniform", 5, 7);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(uniform.data<float>()[i], UnitFloat(words[i]));
  EXPECT_EQ(KernelRunner("StatelessRandomUniform").Input(Shape({1})).Input(Shape({1})).RunOne().status(),
            errors::InvalidArgument("seed must have shape [2], not [1]"));
}

TEST(RandomOpsTest, AGeneratorInAVariableMovesOn) {
  ResourceManager resources{std::string(KernelRunner::kDeviceName)};
  auto variable = MakeRef<Variable>(DataType::kInt64);
  variable->tensor() = Tensor::Vector<int64_t>({7, 9, 11});
  variable->is_initialized = true;
  ASSERT_TRUE(resources.Create<Variable>("", "rng", variable).ok());
  const auto handle = Tensor::Scalar(resources.MakeHandle<Variable>("", "rng"));
  KernelRunner runner("StatefulUniform");
  runner.Resources(&resources)
      .Input(handle)
      .Input(Tensor::Scalar(int64_t{1}))
      .Input(Shape({6}))
      .Attr("dtype", DataType::kFloat);
  for (int run = 0; run < 2; ++run) {
    PhiloxRandom generator(11, 9);
    generator.Skip(static_cast<uint64_t>(7 + run * 6 * 256));
    auto out = runner.RunOne();
    ASSERT_TRUE(out.ok()) << out.status();
    const auto words = generator();
    for (int i = 0; i < 4; ++i) EXPECT_EQ(out->data<float>()[i], UnitFloat(words[i]));
  }
  EXPECT_EQ(variable->tensor().data<int64_t>()[0], 7 + 2 * 6 * 256);
  KernelRunner skip("RngSkip");
  skip.Resources(&resources)
      .Input(handle)
      .Input(Tensor::Scalar(int64_t{1}))
      .Input(Tensor::Scalar(int64_t{2}));
  ASSERT_TRUE(skip.Run().ok());
  EXPECT_EQ(variable->tensor().data<int64_t>()[0], 7 + 2 * 6 * 256 + 2 * 256);
}

TEST(RandomOpsTest, AllStatefulOpsDrawFromTheVariable) {
  ResourceManager resources{std::string(KernelRunner::kDeviceName)};
  auto variable = MakeRef<Variable>(DataType::kInt64);
  variable->is_initialized = true;
  ASSERT_TRUE(resources.Create<Variable>("", "rng", variable).ok());
  const auto draw = [&](const char* op, DataType dtype, std::vector<Tensor> arguments) {
    KernelRunner runner(op);
    runner.Resources(&resources).Attr("dtype", dtype);
    runner.Input(Tensor::Scalar(resources.MakeHandle<Variable>("", "rng")));
    for (Tensor& t : arguments) runner.Input(std::move(t));
    return runner.RunOne();
  };
  const Tensor philox = Tensor::Scalar(int64_t{1}), shape = Shape({2, 4});
  for (const char* op : {"StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal"}) {
    variable->tensor() = Tensor::Vector<int64_t>({0, 0, 5});
    auto first = draw(op, DataType::kDouble, {philox, shape}),
         second = draw(op, DataType::kDouble, {philox, shape});
    ASSERT_TRUE(first.ok() && second.ok()) << first.status();
    EXPECT_EQ(first->shape(), TensorShape({2, 4}));
    EXPECT_FALSE(TensorsEqual(*first, *second));
    variable->tensor() = Tensor::Vector<int64_t>({0, 0, 5});
    EXPECT_TRUE(TensorsEqual(*first, *draw(op, DataType::kDouble, {philox, shape})));
  }
  // The first version has the algorithm in the variable.
  variable->tensor() = Tensor::Vector<int64_t>({1, 0, 0, 5});
  const auto old = draw("StatefulStandardNormal", DataType::kFloat, {shape});
  variable->tensor() = Tensor::Vector<int64_t>({0, 0, 5});
  const auto now = draw("StatefulStandardNormalV2", DataType::kFloat, {philox, shape});
  ASSERT_TRUE(old.ok() && now.ok()) << old.status() << now.status();
  EXPECT_TRUE(TensorsEqual(*old, *now));
  PhiloxRandom generator(5, 0);
  generator.Skip(8 * 256);
  const auto words = generator();
  auto bits = draw("StatefulUniformFullInt", DataType::kUint64, {philox, Shape({2})});
  ASSERT_TRUE(bits.ok()) << bits.status();
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(bits->data<uint64_t>()[i], words[2 * i] | uint64_t{words[2 * i + 1]} << 32);
  auto bounded = draw("StatefulUniformInt", DataType::kInt64,
                      {philox, Shape({100}), Tensor::Scalar(int64_t{-3}), Tensor::Scalar(int64_t{2})});
  ASSERT_TRUE(bounded.ok()) << bounded.status();
  const auto* values = bounded->data<int64_t>();
  EXPECT_EQ(*std::min_element(values, values + 100), -3);
  EXPECT_EQ(*std::max_element(values, values + 100), 1);
  EXPECT_EQ(draw("StatefulUniform", DataType::kFloat, {Tensor::Scalar(int64_t{2}), shape}).status(),
            errors::InvalidArgument("Unsupported algorithm id: 2"));
  variable->tensor() = Tensor::Vector<int64_t>({0, 0});
  EXPECT_EQ(draw("StatefulUniform", DataType::kFloat, {philox, shape}).status(),
            errors::InvalidArgument("For the Philox algorithm, the size of state must be at least 3; got 2"));
}

TEST(RandomOpsTest, OtherStatelessDraws) {
  auto integers = KernelRunner("StatelessRandomUniformInt")
                      .Input(Shape({50}))
                      .Input(Shape({1, 2}))
                      .Input(Tensor::Scalar(int32_t{3}))
                      .Input(Tensor::Scalar(int32_t{5}))
                      .RunOne();
  ASSERT_TRUE(integers.ok()) << integers.status();
  for (int i = 0; i < 50; ++i) {
    EXPECT_GE(integers->data<int32_t>()[i], 3);
    EXPECT_LT(integers->data<int32_t>()[i], 5);
  }
  const Tensor logits = Tensor::From<float>({0, -1e30f, 0, -1e30f}, TensorShape({2, 2}));
  auto samples = KernelRunner("StatelessMultinomial")
                     .Input(logits)
                     .Input(Tensor::Scalar(int32_t{9}))
                     .Input(Shape({3, 4}))
                     .RunOne();
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->shape(), TensorShape({2, 9}));
  for (int i = 0; i < 18; ++i) EXPECT_EQ(samples->data<int64_t>()[i], 0);
  auto poisson = KernelRunner("RandomPoisson").Input(Shape({5})).Input(Tensor::Scalar(3.0f)).RunOne();
  ASSERT_TRUE(poisson.ok()) << poisson.status();
  EXPECT_EQ(poisson->shape(), TensorShape({5}));
  KernelRunner chance("NonDeterministicInts");
  chance.Input(Shape({3})).Attr("dtype", DataType::kUint32);
  const auto one = chance.RunOne(), other = chance.RunOne();
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_FALSE(TensorsEqual(*one, *other));
  EXPECT_GT(KernelRunner("Timestamp").RunOne()->scalar<double>(), 1.7e9);
}

}  // namespace
}  // namespace millrace
