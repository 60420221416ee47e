// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/conv.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/contract/conv_testing.h"

namespace millrace::cpu {
namespace {

TEST(Conv, FewChannelsEqualTheDefinitionForRandomShapes) {
  Random random(1);
  for (uint32_t i = 0; i < 250; ++i) CheckAgainstDefinition<float>(RandomParams(random, 9), i);
}

TEST(Conv, ManyChannelsEqualTheDefinitionForRandomShapes) {
  Random random(2);
  for (uint32_t i = 0; i < 60; ++i) CheckAgainstDefinition<float>(RandomParams(random, 40), i);
}

TEST(Conv, DoubleEqualsTheDefinitionForRandomShapes) {
  Random random(3);
  for (uint32_t i = 0; i < 80; ++i) CheckAgainstDefinition<double>(RandomParams(random, 20), i);
}

TEST(Conv, LayersOfTheDigitModelsEqualTheDefinition) {
  CheckAgainstDefinition<float>(Same(20, 28, 1, 5, 4, 1), 1);
  CheckAgainstDefinition<float>(Same(20, 28, 4, 5, 8, 2), 2);
  CheckAgainstDefinition<float>(Same(20, 14, 8, 4, 12, 2), 3);
  CheckAgainstDefinition<float>(Same(3, 28, 1, 6, 6, 1), 4);
  CheckAgainstDefinition<float>(Same(3, 14, 12, 4, 24, 2), 5);
}

TEST(Conv, ImagesCutIntoBandsEqualTheDefinition) {
  CheckAgainstDefinition<float>(Same(1, 90, 3, 5, 6, 1), 1);
  CheckAgainstDefinition<float>(Same(1, 90, 5, 3, 20, 2), 2);
  CheckAgainstDefinition<float>(Same(2, 60, 20, 3, 18, 1), 3);
}

TEST(Conv, ProductsOfMatricesInDisguiseEqualTheDefinition) {
  CheckAgainstDefinition<float>(Same(3, 6, 17, 1, 20, 1), 1);
  ConvParams whole{.batch = 7, .in_h = 5, .in_w = 4, .in_c = 3, .filter_h = 5, .filter_w = 4};
  whole.out_h = whole.out_w = 1, whole.out_c = 10;
  CheckAgainstDefinition<float>(whole, 2);
}

TEST(Conv, WindowLargerThanTheImageEqualsTheDefinition) {
  CheckAgainstDefinition<float>(Same(2, 3, 2, 7, 4, 1), 1);
  CheckAgainstDefinition<float>(Same(2, 2, 20, 5, 20, 2), 2);
}

TEST(Conv, StrideLargerThanTheFilterLeavesZeroGradients) {
  CheckAgainstDefinition<float>(Same(2, 11, 3, 2, 5, 4), 1);
  CheckAgainstDefinition<float>(Same(2, 11, 20, 1, 33, 3), 2);
}

TEST(Conv, HugePaddingAndDilationTakeNoMoreMemoryThanTheImages) {
  ConvParams p{
      .batch = 1, .in_h = 3, .in_w = 3, .in_c = 2, .filter_h = 2, .filter_w = 2, .out_h = 1, .out_w = 1};
  p.out_c = 3;
  p.dilation_h = p.dilation_w = int64_t{1} << 30;
  p.pad_top = p.pad_left = int64_t{1} << 30;
  CheckAgainstDefinition<float>(p, 1);
  p.stride_h = p.stride_w = int64_t{1} << 40;
  p.pad_top = p.pad_left = 0;
  CheckAgainstDefinition<float>(p, 2);
}

TEST(Conv, EmptySizesGiveZeroSums) {
  const ConvParams base = Same(2, 6, 3, 3, 4, 1);
  for (int which = 0; which < 8; ++which) {
    ConvParams p = base;
    int64_t* const sizes[] = {&p.batch,    &p.in_h,  &p.in_c,  &p.out_h,
                              &p.filter_w, &p.out_c, &p.out_w, &p.filter_h};
    *sizes[which] = 0;
    CheckAgainstDefinition<float>(p, 1);
  }
}

TEST(Conv, ResultsAreTheSameBitsForEveryNumberOfThreads) {
  ConvParams nchw = Same(5, 20, 4, 3, 8, 1);
  nchw.layout = ImageLayout::kNchw;
  for (const ConvParams& p :
       {Same(40, 28, 1, 5, 4, 1), Same(40, 28, 4, 5, 8, 2), Same(40, 14, 8, 4, 12, 2),
        Same(3, 40, 16, 3, 32, 1), Same(1, 64, 3, 7, 64, 2), Same(1, 10, 20, 3, 200, 1), nchw}) {
    ForEachIsa([&](Isa) {
      Random random(9);
      const Tensors<float> tensors(random, p);
      SerialParallel serial;
      const Results<float> want = RunAll(p, tensors, serial);
      for (int threads = 1; threads <= 3; ++threads) {
        ThreadedParallel parallel(threads);
        const Results<float> got = RunAll(p, tensors, parallel);
        EXPECT_TRUE(SameBits(got.output, want.output)) << Describe(p);
        EXPECT_TRUE(SameBits(got.fused, want.fused)) << Describe(p);
        EXPECT_TRUE(SameBits(got.in_grad, want.in_grad)) << Describe(p);
        EXPECT_TRUE(SameBits(got.filter_grad, want.filter_grad)) << Describe(p);
      }
    });
  }
}

// Packed filters give the same bits, with and without threads.
void CheckPacked(const ConvParams& p, uint32_t seed) {
  ForEachIsa([&](Isa) {
    Random random(seed);
    const Tensors<float> t(random, p);
    const ConvPlan plan(p);
    const std::optional<PackedShape> shape = plan.packing();
    EXPECT_TRUE(shape.has_value() || p.out_c % 16 != 0) << Describe(p);
    if (!shape.has_value()) return;  // otherwise vectors would be half empty
    ASSERT_FALSE(shape->winograd) << Describe(p);
    std::vector<float> packed = Filled<float>(PackedElements<float>(*shape), kUntouched);
    PackMatrix(*shape, t.filter.data(), p.out_c, false, packed.data());
    SerialParallel serial;
    ThreadedParallel threads(2);
    std::vector<float> want = Filled<float>(OutputSize(p), kUntouched), got = want;
    plan.Forward(t.input.data(), t.filter.data(), want.data(), serial, t.epilogue.Borrow());
    // Only the packed form is read.
    const std::vector<float> nothing(t.filter.size(), std::numeric_limits<float>::quiet_NaN());
    plan.Forward(t.input.data(), nothing.data(), got.data(), threads, t.epilogue.Borrow(), packed.data());
    EXPECT_TRUE(SameBits(got, want)) << Describe(p);
  });
}

TEST(Conv, PackedFiltersGiveTheSameBits) {
  uint32_t seed = 1;
  // Channels around the sizes of panels and vectors; depths done in parts, by whole runs and within runs.
  for (const int64_t out_c : {16, 33, 48, 63, 64, 65, 97, 112, 145, 200}) {
    CheckPacked(Same(2, 7, 20, 3, out_c, 1), seed++);
    CheckPacked(Same(2, 5, 50, 1, out_c, 1), seed++);
  }
  CheckPacked(Same(1, 5, 150, 3, 64, 1), seed++);
  CheckPacked(Same(2, 4, 300, 3, 130, 1), seed++);
  CheckPacked(Same(1, 14, 40, 3, 200, 2), seed++);
  CheckPacked(Same(3, 9, 64, 1, 96, 2), seed++);
  ConvParams dilated = Same(1, 9, 90, 3, 50, 1);
  dilated.dilation_h = dilated.dilation_w = 2;
  PadSame(dilated);
  CheckPacked(dilated, seed++);
  ConvParams nchw = Same(2, 7, 40, 3, 100, 1);
  nchw.layout = ImageLayout::kNchw;
  CheckPacked(nchw, seed++);
}

// Sums in double precision are the reference. Results are the same for every number of threads.
void CheckWinograd(const ConvParams& p, uint32_t seed) {
  ForEachIsa([&](Isa) {
    Random random(seed);
    const Tensors<float> t(random, p);
    const ConvPlan plan(p);
    const std::optional<PackedShape> shape = plan.packing();
    ASSERT_TRUE(shape.has_value() && shape->winograd) << Describe(p);
    std::vector<float> packed(static_cast<size_t>(PackedElements<float>(*shape)));
    PackMatrix(*shape, t.filter.data(), p.out_c, false, packed.data());
    SerialParallel serial;
    ThreadedParallel threads(3);
    std::vector<float> got = Filled<float>(OutputSize(p), kUntouched), again = got, plain = got;
    const std::vector<float> nothing(t.filter.size(), std::numeric_limits<float>::quiet_NaN());
    plan.Forward(t.input.data(), nothing.data(), got.data(), serial, t.epilogue.Borrow(), packed.data());
    plan.Forward(t.input.data(), nothing.data(), again.data(), threads, t.epilogue.Borrow(), packed.data());
    EXPECT_TRUE(SameBits(got, again)) << Describe(p);
    plan.Forward(t.input.data(), t.filter.data(), plain.data(), serial, t.epilogue.Borrow());
    const std::vector<double> input(t.input.begin(), t.input.end()), filter(t.filter.begin(), t.filter.end());
    std::vector<double> want(got.size());
    plan.Forward(input.data(), filter.data(), want.data(), serial);
    // Also without the epilogue.
    plan.Forward(t.input.data(), nothing.data(), again.data(), serial, {}, packed.data());
    const double tolerance = 2e-6 * std::sqrt(9.0 * static_cast<double>(p.in_c));
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(again[i], want[i], tolerance) << Describe(p) << " at " << i;
      ASSERT_NEAR(got[i], plain[i], 2 * tolerance) << Describe(p) << " at " << i;
    }
  });
}

TEST(Conv, WinogradsMethodEqualsTheDefinition) {
  uint32_t seed = 1;
  for (const int64_t side : {9, 10, 13, 14}) {
    CheckWinograd(Same(1, side, 32, 3, 64, 1), seed++);
    CheckWinograd(Same(3, side, 64, 3, 48, 1), seed++);
  }
  CheckWinograd(Same(1, 28, 48, 3, 112, 1), seed++);
  CheckWinograd(Same(2, 14, 256, 3, 256, 1), seed++);  // by columns
  CheckWinograd(Same(40, 7, 192, 3, 208, 1), seed++);  // by columns, in groups
  ConvParams valid = Same(2, 13, 32, 3, 32, 1);
  valid.pad_top = valid.pad_left = 0;
  valid.out_h = valid.out_w = 11;
  CheckWinograd(valid, seed++);
  ConvParams odd = Same(1, 20, 32, 3, 32, 1);
  odd.pad_top = 2, odd.pad_left = 0, odd.in_w = 17, odd.out_h = 21, odd.out_w = 15;
  CheckWinograd(odd, seed++);
}

TEST(Conv, WinogradsMethodIsForPlainFiltersOfThreeByThree) {
  const auto chosen = [](const ConvParams& p) {
    const auto shape = ConvPlan(p).packing();
    return shape.has_value() && shape->winograd;
  };
  ForEachIsa([&](Isa) {
    EXPECT_TRUE(chosen(Same(1, 14, 64, 3, 64, 1)));
    EXPECT_FALSE(chosen(Same(1, 14, 64, 3, 64, 2)));
    EXPECT_FALSE(chosen(Same(1, 14, 64, 5, 64, 1)));
    EXPECT_FALSE(chosen(Same(1, 14, 63, 3, 64, 1)));
    EXPECT_FALSE(chosen(Same(1, 14, 64, 3, 65, 1)));
    EXPECT_FALSE(chosen(Same(1, 2, 64, 3, 64, 1)));
    ConvParams p = Same(1, 14, 64, 3, 64, 1);
    p.dilation_h = p.dilation_w = 2;
    PadSame(p);
    EXPECT_FALSE(chosen(p));
    p = Same(1, 14, 64, 3, 64, 1);
    p.layout = ImageLayout::kNchw;
    EXPECT_FALSE(chosen(p));
  });
}

// Values whose differences would be NaN are computed by the plain method: same bits as without packing.
TEST(Conv, WinogradsMethodRefusesInfinitiesAndNan) {
  const ConvParams p = Same(1, 14, 32, 3, 32, 1);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float special : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), 1e38f}) {
    for (const bool in_filter : {false, true}) {
      ForEachIsa([&](Isa) {
        Random random(5);
        Tensors<float> t(random, p);
        std::vector<float>& changed = in_filter ? t.filter : t.input;
        changed[changed.size() / 2] = special;
        const ConvPlan plan(p);
        const std::optional<PackedShape> shape = plan.packing();
        ASSERT_TRUE(shape.has_value() && shape->winograd);
        std::vector<float> packed(static_cast<size_t>(PackedElements<float>(*shape)));
        PackMatrix(*shape, t.filter.data(), p.out_c, false, packed.data());
        ThreadedParallel threads(2);
        std::vector<float> want = Filled<float>(OutputSize(p), kUntouched), got = want;
        plan.Forward(t.input.data(), t.filter.data(), want.data(), threads, t.epilogue.Borrow());
        plan.Forward(t.input.data(), t.filter.data(), got.data(), threads, t.epilogue.Borrow(),
                     packed.data());
        EXPECT_TRUE(SameBits(got, want)) << special << (in_filter ? " in the filter" : " in the image");
      });
    }
  }
}

// Enough tiles for filters that are transformed each time, and for gradients.
std::vector<ConvParams> LargeWinogradShapes() {
  std::vector<ConvParams> shapes = {Same(5, 15, 16, 3, 48, 1), Same(8, 12, 48, 3, 16, 1),
                                    Same(1, 33, 32, 3, 64, 1), Same(7, 14, 64, 3, 32, 1)};
  ConvParams valid = Same(4, 19, 32, 3, 32, 1);
  valid.pad_top = valid.pad_left = 0;
  valid.out_h = valid.out_w = 17;
  shapes.push_back(valid);
  ConvParams odd = Same(3, 20, 32, 3, 16, 1);
  odd.pad_top = 2, odd.pad_left = 0, odd.in_w = 21, odd.out_h = 21, odd.out_w = 19;
  shapes.push_back(odd);
  return shapes;
}

// Filters whose gradients are computed in blocks of channels, the last of which are narrower.
std::vector<ConvParams> FiltersInBlocks() {
  return {Same(2, 14, 160, 3, 272, 1), Same(4, 16, 144, 3, 80, 1), Same(6, 7, 48, 3, 400, 1)};
}

TEST(Conv, GradientsByWinogradsMethodEqualTheDefinition) {
  uint32_t seed = 1;
  for (const ConvParams& p : LargeWinogradShapes()) CheckAgainstDefinition<float>(p, seed++);
  CheckAgainstDefinition<float>(Same(6, 14, 160, 3, 160, 1), seed++);  // filters beyond the second cache
  for (const ConvParams& p : FiltersInBlocks()) CheckAgainstDefinition<float>(p, seed++);
}

TEST(Conv, GradientsByWinogradsMethodAreTheSameBitsForEveryNumberOfThreads) {
  std::vector<ConvParams> shapes = LargeWinogradShapes();
  for (const ConvParams& p : FiltersInBlocks()) shapes.push_back(p);
  for (const ConvParams& p : shapes) {
    ForEachIsa([&](Isa) {
      Random random(9);
      const Tensors<float> tensors(random, p);
      SerialParallel serial;
      ThreadedParallel threads(3);
      const Results<float> want = RunAll(p, tensors, serial), got = RunAll(p, tensors, threads);
      EXPECT_TRUE(SameBits(got.output, want.output)) << Describe(p);
      EXPECT_TRUE(SameBits(got.fused, want.fused)) << Describe(p);
      EXPECT_TRUE(SameBits(got.in_grad, want.in_grad)) << Describe(p);
      EXPECT_TRUE(SameBits(got.filter_grad, want.filter_grad)) << Describe(p);
    });
  }
}

// One infinite value: results are infinite where they are by definition, and finite elsewhere.
TEST(Conv, WinogradsMethodMakesNoNanOfInfinities) {
  const auto kind = [](auto x) { return std::isnan(x) ? 2 : std::isinf(x) ? 1 : 0; };
  for (const int which : {0, 1, 2}) {
    // Padding times an infinite filter is NaN.
    const ConvParams p = LargeWinogradShapes()[which == 1 ? 4 : 5];
    Random random(4);
    Tensors<float> t(random, p);
    std::vector<float>& changed = which == 0 ? t.input : which == 1 ? t.filter : t.grad;
    changed[changed.size() / 2] = std::numeric_limits<float>::infinity();
    const Results<double> want = Expected(p, t);
    ForEachIsa([&](Isa) {
      ThreadedParallel threads(2);
      const Results<float> got = RunAll(p, t, threads);
      const auto same = [&](const std::vector<float>& a, const std::vector<double>& b) {
        for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(kind(a[i]), kind(b[i])) << which << " at " << i;
      };
      same(got.output, want.output);
      if (which != 1) same(got.in_grad, want.in_grad);
      same(got.filter_grad, want.filter_grad);
    });
  }
}

TEST(Conv, DeepFiltersThatAreReadInPartsEqualTheDefinition) {
  CheckAgainstDefinition<float>(Same(1, 4, 150, 3, 50, 1), 1);
  CheckAgainstDefinition<float>(Same(1, 4, 300, 3, 20, 1), 2);
  CheckAgainstDefinition<float>(Same(1, 12, 90, 3, 17, 1), 3);
  CheckAgainstDefinition<double>(Same(1, 4, 300, 3, 20, 2), 4);
}

TEST(Conv, WindowsInsideTheImageEqualTheDefinition) {
  for (const int64_t stride : {1, 2, 3}) {
    ConvParams p{.batch = 2, .in_h = 11, .in_w = 9, .in_c = 18, .filter_h = 3, .filter_w = 2};
    p.stride_h = stride, p.stride_w = 1;
    p.out_h = (p.in_h - 3) / stride + 1, p.out_w = 8, p.out_c = 20;
    CheckAgainstDefinition<float>(p, 1);
    p.dilation_h = 2, p.dilation_w = 3, p.out_h = (p.in_h - 5) / stride + 1, p.out_w = 6;
    CheckAgainstDefinition<float>(p, 2);
  }
}

TEST(Conv, NanReachesTheOutputsThatSeeIt) {
  const ConvParams p = Same(1, 8, 1, 3, 4, 1);
  ForEachIsa([&](Isa) {
    std::vector<float> input(64, 1), filter(36, 1), output(256);
    input[3 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
    SerialParallel serial;
    ConvPlan(p).Forward(input.data(), filter.data(), output.data(), serial);
    for (int64_t i = 0; i < 64; ++i) {
      const bool sees = std::abs(i / 8 - 3) <= 1 && std::abs(i % 8 - 3) <= 1;
      EXPECT_EQ(std::isnan(output[i * 4]), sees) << i;
    }
  });
}

}  // namespace
}  // namespace millrace::cpu
