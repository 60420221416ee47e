// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The random ops return TensorFlow's numbers in each run, with any number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

struct Golden {
  std::string op, type;
  int64_t low = 0, high = 0, seed = 0, seed2 = 0, elements = 0;
  std::vector<std::pair<int64_t, double>> runs[2];  // index and value
};

std::vector<Golden> LoadGolden() {
  std::ifstream file(MR_TEST_DATA "/random_golden.txt");
  std::vector<Golden> all;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    Golden g;
    std::istringstream(line) >> g.op >> g.type >> g.low >> g.high >> g.seed >> g.seed2 >> g.elements;
    for (auto& run : g.runs) {
      std::getline(file, line);
      std::istringstream text(line);
      size_t count = 0;
      text >> count;
      run.resize(count);
      for (auto& [index, value] : run) text >> index >> value;
    }
    all.push_back(std::move(g));
  }
  return all;
}

double ValueAt(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case DataType::kFloat:
      return t.data<float>()[i];
    case DataType::kInt32:
      return t.data<int32_t>()[i];
    default:
      return static_cast<double>(t.data<int64_t>()[i]);
  }
}

void Prepare(const Golden& g, KernelRunner* runner) {
  runner->Attr("seed", g.seed).Attr("seed2", g.seed2).Input(Tensor::Vector<int64_t>({g.elements}));
  if (g.op != "RandomUniformInt") {
    runner->Attr("dtype", DataType::kFloat);
  } else if (g.type == "DT_INT32") {
    runner->Input(Tensor::Scalar(static_cast<int32_t>(g.low)))
        .Input(Tensor::Scalar(static_cast<int32_t>(g.high)));
  } else {
    runner->Input(Tensor::Scalar(g.low)).Input(Tensor::Scalar(g.high));
  }
}

TEST(RandomGoldenTest, TwoRunsGiveTensorFlowsNumbersAtAnyThreadCount) {
  const std::vector<Golden> all = LoadGolden();
  ASSERT_GE(all.size(), 50u);
  ThreadPool pool("golden", 4);
  for (const Golden& g : all) {
    for (ThreadPool* threads : {static_cast<ThreadPool*>(nullptr), &pool}) {
      SCOPED_TRACE(g.op + " " + g.type + " seeds " + std::to_string(g.seed) + " " + std::to_string(g.seed2) +
                   " of " + std::to_string(g.elements) + (threads == nullptr ? "" : ", four threads"));
      KernelRunner runner(g.op);
      Prepare(g, &runner);
      runner.Pool(threads);
      for (const auto& samples : g.runs) {
        auto out = runner.RunOne();
        ASSERT_TRUE(out.ok()) << out.status();
        ASSERT_EQ(out->num_elements(), g.elements);
        for (const auto& [index, value] : samples) {
          // The table has nine digits.
          EXPECT_NEAR(ValueAt(*out, index), value, 1e-8 + 1e-6 * std::abs(value)) << "at " << index;
        }
      }
    }
  }
}

TEST(RandomGoldenTest, AllTypesAreInRangeAndDependOnTheSeed) {
  for (const DataType dtype : {DataType::kHalf, DataType::kFloat, DataType::kDouble}) {
    std::vector<Tensor> by_seed;
    for (const int64_t seed : {1, 2}) {
      KernelRunner runner("RandomUniform");
      runner.Attr("seed", seed).Attr("dtype", dtype).Input(Tensor::Vector<int32_t>({10, 100}));
      auto out = runner.RunOne();
      ASSERT_TRUE(out.ok()) << out.status();
      EXPECT_EQ(out->shape(), TensorShape({10, 100}));
      for (int64_t i = 0; i < 1000; ++i) {
        const double v = dtype == DataType::kHalf    ? double{float(out->data<half>()[i])}
                         : dtype == DataType::kFloat ? double{out->data<float>()[i]}
                                                     : out->data<double>()[i];
        ASSERT_GE(v, 0);
        ASSERT_LT(v, 1);
      }
      by_seed.push_back(*out);
    }
    EXPECT_FALSE(TensorsEqual(by_seed[0], by_seed[1]));
  }
}

TEST(RandomGoldenTest, BadArgumentsAreRefused) {
  const auto fails = [](const char* op, std::vector<Tensor> inputs) {
    KernelRunner runner(op);
    if (std::string_view(op) != "RandomUniformInt") runner.Attr("dtype", DataType::kFloat);
    for (Tensor& t : inputs) runner.Input(std::move(t));
    return runner.Run().status();
  };
  const auto one = Tensor::Vector<int32_t>({1});
  EXPECT_EQ(fails("RandomUniform", {Tensor::Scalar(int32_t{1})}),
            errors::InvalidArgument("shape must be a vector of {int32,int64}, got shape []"));
  EXPECT_EQ(fails("TruncatedNormal", {Tensor::Vector<int32_t>({-1})}),
            errors::InvalidArgument("Dimension -1 must be >= 0"));
  EXPECT_EQ(fails("RandomUniformInt", {one, Tensor::Scalar(int32_t{5}), Tensor::Scalar(int32_t{5})}),
            errors::InvalidArgument("Need minval < maxval, got 5 >= 5"));
  EXPECT_EQ(fails("RandomUniformInt", {one, Tensor::Vector<int32_t>({5}), Tensor::Scalar(int32_t{5})}),
            errors::InvalidArgument("minval must be 0-D, got shape [1]"));
  EXPECT_EQ(fails("RandomUniformInt", {one, Tensor::Scalar(int32_t{5}), Tensor::Vector<int32_t>({5})}),
            errors::InvalidArgument("maxval must be 0-D, got shape [1]"));
}

}  // namespace
}  // namespace millrace
