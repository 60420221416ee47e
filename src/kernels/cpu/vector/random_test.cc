// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/random.h"

#include <fstream>
#include <sstream>
#include <string>

#include "kernels/cpu/vector/cast.h"
#include "kernels/cpu/vector/vector_testing.h"

namespace millrace::cpu {
namespace {

class RandomTest : public VectorTest {};

struct Golden {
  std::string op, type;
  int64_t lo = 0, hi = 0, seed = 0, seed2 = 0, elements = 0;
  struct Sample {
    int64_t index;
    double value;
  };
  std::vector<Sample> runs[2];
};

std::vector<Golden> LoadGolden() {
  std::ifstream file(MR_TEST_DATA "/random_golden.txt");
  std::vector<Golden> all;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream head(line);
    Golden golden;
    head >> golden.op >> golden.type >> golden.lo >> golden.hi >> golden.seed >> golden.seed2 >>
        golden.elements;
    for (auto& run : golden.runs) {
      std::getline(file, line);
      std::istringstream text(line);
      size_t count = 0;
      text >> count;
      run.resize(count);
      for (Golden::Sample& sample : run) text >> sample.index >> sample.value;
    }
    all.push_back(std::move(golden));
  }
  return all;
}

std::vector<float> Floats(const Golden& golden, const PhiloxRandom& base) {
  std::vector<float> out(static_cast<size_t>(golden.elements));
  if (golden.op == "RandomUniform") FillRandomUniform(base, DataType::kFloat, out.data(), 0, golden.elements);
  if (golden.op == "RandomStandardNormal")
    FillRandomNormal(base, DataType::kFloat, out.data(), 0, golden.elements);
  if (golden.op == "TruncatedNormal")
    FillTruncatedNormal(base, DataType::kFloat, out.data(), 0, golden.elements);
  return out;
}

template <typename T>
std::vector<T> Integers(const Golden& golden, DataType type, const PhiloxRandom& base) {
  std::vector<T> out(static_cast<size_t>(golden.elements));
  FillRandomUniformInt(base, type, golden.lo, golden.hi, out.data(), 0, golden.elements);
  return out;
}

TEST_P(RandomTest, EqualSeedsGiveTensorFlowsNumbersInBothRuns) {
  const std::vector<Golden> all = LoadGolden();
  ASSERT_EQ(all.size(), 52u);
  for (const Golden& golden : all) {
    GuardedPhilox generator(golden.seed, golden.seed2);
    for (const auto& run : golden.runs) {
      const PhiloxRandom base = generator.Reserve(golden.elements);
      ASSERT_FALSE(run.empty());
      if (golden.type == "DT_FLOAT") {
        const std::vector<float> got = Floats(golden, base);
        for (const Golden::Sample& sample : run) {
          // Nine digits identify a float. Uniforms are exact; a normal may differ in its last bit if another
          // library computes the logarithm and the sine.
          const auto want = static_cast<float>(sample.value);
          const double bound = golden.op == "RandomUniform" ? 0 : std::fabs(want) * 2.4e-7;
          ASSERT_NEAR(got[static_cast<size_t>(sample.index)], want, bound)
              << golden.op << " " << golden.seed << " " << golden.seed2 << " at " << sample.index;
        }
      } else if (golden.type == "DT_INT32") {
        const auto got = Integers<int32_t>(golden, DataType::kInt32, base);
        for (const Golden::Sample& sample : run)
          ASSERT_EQ(got[static_cast<size_t>(sample.index)], sample.value);
      } else {
        const auto got = Integers<int64_t>(golden, DataType::kInt64, base);
        for (const Golden::Sample& sample : run) {
          ASSERT_EQ(static_cast<double>(got[static_cast<size_t>(sample.index)]), sample.value);
        }
      }
    }
  }
}

using Fill = void (*)(const PhiloxRandom&, DataType, void*, int64_t, int64_t);

void ExpectSplitsAgree(Fill fill, DataType type, size_t size) {
  const PhiloxRandom base(0x123456789, 0xffffffffffffffff);
  const int64_t n = 1001;
  std::vector<char> whole(static_cast<size_t>(n) * size), split(whole.size());
  fill(base, type, whole.data(), 0, n);
  for (const int64_t step : {1, 3, 4, 7, 64, 250}) {
    std::fill(split.begin(), split.end(), 0);
    for (int64_t i = 0; i < n; i += step) fill(base, type, split.data(), i, std::min(n, i + step));
    ASSERT_EQ(whole, split) << "type " << int(type) << " step " << step;
  }
}

TEST_P(RandomTest, AnySplitGivesTheSameNumbers) {
  for (const Fill fill : {FillRandomUniform, FillRandomNormal, FillTruncatedNormal}) {
    ExpectSplitsAgree(fill, DataType::kFloat, 4);
    ExpectSplitsAgree(fill, DataType::kDouble, 8);
    ExpectSplitsAgree(fill, DataType::kHalf, 2);
    ExpectSplitsAgree(fill, DataType::kBfloat16, 2);
  }
  const Fill integers = [](const PhiloxRandom& base, DataType type, void* out, int64_t begin, int64_t end) {
    FillRandomUniformInt(base, type, -3, 1 << 20, out, begin, end);
  };
  ExpectSplitsAgree(integers, DataType::kInt32, 4);
  ExpectSplitsAgree(integers, DataType::kInt64, 8);
}

TEST_P(RandomTest, TheVectorisedUniformCrossesTheEndOfTheLowerCounter) {
  PhiloxRandom base(5, 6);
  base.Skip(0xffffffffffffffffu - 4);
  std::vector<float> out(64);
  FillRandomUniform(base, DataType::kFloat, out.data(), 0, 64);
  for (size_t i = 0; i < 64; i += 4) {
    const PhiloxRandom::Block block = base();
    for (size_t j = 0; j < 4; ++j) {
      ASSERT_EQ(out[i + j], static_cast<float>(block[j] & 0x7fffff) * 0x1p-23f) << i;
    }
  }
}

TEST_P(RandomTest, OtherTypesUseTheBitsThatTheirDefinitionNames) {
  const PhiloxRandom base(77, 3);
  PhiloxRandom blocks = base;
  uint16_t half[8], bfloat[8], normal_half[8];
  double uniform[4], normal[4];
  float normal_float[8];
  FillRandomUniform(base, DataType::kHalf, half, 0, 8);
  FillRandomUniform(base, DataType::kBfloat16, bfloat, 0, 8);
  FillRandomUniform(base, DataType::kDouble, uniform, 0, 4);
  FillRandomNormal(base, DataType::kDouble, normal, 0, 4);
  FillRandomNormal(base, DataType::kFloat, normal_float, 0, 8);
  FillRandomNormal(base, DataType::kHalf, normal_half, 0, 8);
  uint16_t narrowed[8];
  FindCast(DataType::kFloat, DataType::kHalf)(normal_float, narrowed, 8);
  float wide_half[8], wide_bfloat[8];
  FindCast(DataType::kHalf, DataType::kFloat)(half, wide_half, 8);
  FindCast(DataType::kBfloat16, DataType::kFloat)(bfloat, wide_bfloat, 8);
  for (size_t g = 0; g < 2; ++g) {
    const PhiloxRandom::Block x = blocks();
    for (size_t j = 0; j < 4; ++j) {
      EXPECT_EQ(wide_half[4 * g + j], static_cast<float>(x[j] & 0x3ff) / 1024);
      EXPECT_EQ(wide_bfloat[4 * g + j], static_cast<float>(x[j] & 0x7f) / 128);
      EXPECT_EQ(normal_half[4 * g + j], narrowed[4 * g + j]);
    }
    double unit[2];
    for (size_t j = 0; j < 2; ++j) {
      const uint64_t mantissa = (uint64_t{x[2 * j] & 0xfffff} << 32) | x[2 * j + 1];
      unit[j] = static_cast<double>(mantissa) * 0x1p-52;
      EXPECT_EQ(uniform[2 * g + j], unit[j]);
    }
    const double radius = std::sqrt(-2 * std::log(unit[0]));
    EXPECT_NEAR(normal[2 * g], std::sin(2 * M_PI * unit[1]) * radius, 1e-14);
    EXPECT_NEAR(normal[2 * g + 1], std::cos(2 * M_PI * unit[1]) * radius, 1e-14);
  }
}

TEST_P(RandomTest, TruncatedNormalsStayWithinTwoAndHaveTheRightSpread) {
  const int64_t n = 40000;
  std::vector<double> x(static_cast<size_t>(n));
  FillTruncatedNormal(PhiloxRandom(9, 9), DataType::kDouble, x.data(), 0, n);
  double sum = 0, squares = 0;
  for (const double v : x) {
    ASSERT_LT(std::fabs(v), 2);
    sum += v;
    squares += v * v;
  }
  EXPECT_NEAR(sum / static_cast<double>(n), 0, 0.02);
  EXPECT_NEAR(squares / static_cast<double>(n), 0.7737, 0.02);  // 1 - 4 phi(2) / (2 Phi(2) - 1)
}

TEST_P(RandomTest, IntegersCoverTheWholeRangeOfTheirType) {
  std::vector<int32_t> narrow(4000);
  FillRandomUniformInt(PhiloxRandom(4, 4), DataType::kInt32, std::numeric_limits<int32_t>::min(),
                       std::numeric_limits<int32_t>::max(), narrow.data(), 0, 4000);
  EXPECT_LT(*std::min_element(narrow.begin(), narrow.end()), -2000000000);
  EXPECT_GT(*std::max_element(narrow.begin(), narrow.end()), 2000000000);
  std::vector<int64_t> wide(4000);
  FillRandomUniformInt(PhiloxRandom(4, 4), DataType::kInt64, std::numeric_limits<int64_t>::min(),
                       std::numeric_limits<int64_t>::max(), wide.data(), 0, 4000);
  EXPECT_LT(*std::min_element(wide.begin(), wide.end()), -9000000000000000000);
  EXPECT_GT(*std::max_element(wide.begin(), wide.end()), 9000000000000000000);
}

INSTANTIATE_TEST_SUITE_P(Isa, RandomTest, EachIsa(), IsaName);

}  // namespace
}  // namespace millrace::cpu
