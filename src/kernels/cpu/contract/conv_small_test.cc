// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Small images, several of which are computed together, and filters whose rows fill vectors.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cpu/contract/conv_testing.h"

namespace millrace::cpu {
namespace {

// Images that a filter beyond the caches is packed for once: all of a batch, and two units of them.
std::vector<ConvParams> LargeFilters() {
  ConvParams units{.batch = 11, .in_h = 4, .in_w = 5, .in_c = 1024, .filter_h = 1, .filter_w = 3};
  units.out_c = 96;
  PadSame(units);
  ConvParams inside = Same(5, 5, 160, 3, 200, 1);
  inside.out_h = inside.out_w = 3, inside.pad_top = inside.pad_left = 0;
  return {units, Same(5, 4, 256, 3, 128, 1), Same(3, 5, 140, 3, 220, 2), inside};
}

// A few images at a time, the last ones fewer.
std::vector<ConvParams> ManySmallImages() {
  ConvParams dilated = Same(37, 6, 9, 3, 18, 1);
  dilated.dilation_h = dilated.dilation_w = 2;
  PadSame(dilated);
  ConvParams inside = Same(50, 7, 6, 2, 30, 2);
  inside.out_h = inside.out_w = 3, inside.pad_top = inside.pad_left = 0;
  ConvParams nchw = Same(35, 5, 8, 3, 24, 1);
  nchw.layout = ImageLayout::kNchw;
  return {Same(49, 7, 5, 4, 24, 2), dilated, inside, nchw, Same(33, 2, 12, 3, 17, 2)};
}

TEST(ConvOfSmallImages, EqualsTheDefinition) {
  uint32_t seed = 1;
  for (const ConvParams& p : LargeFilters()) CheckAgainstDefinition<float>(p, seed++);
  for (const ConvParams& p : ManySmallImages()) CheckAgainstDefinition<float>(p, seed++);
  CheckAgainstDefinition<double>(Same(3, 4, 176, 3, 168, 1), seed++);
  CheckAgainstDefinition<double>(Same(40, 5, 8, 3, 12, 2), seed++);
}

TEST(ConvOfSmallImages, IsTheSameBitsForEveryNumberOfThreads) {
  std::vector<ConvParams> shapes = ManySmallImages();
  shapes.push_back(Same(3, 5, 140, 3, 220, 2));
  shapes.push_back(Same(1, 6, 200, 3, 140, 1));  // threads share the channels
  for (const ConvParams& p : shapes) {
    ForEachIsa([&](Isa) {
      Random random(9);
      const Tensors<float> tensors(random, p);
      SerialParallel serial;
      const Results<float> want = RunAll(p, tensors, serial);
      for (int count = 2; count <= 3; ++count) {
        ThreadedParallel threads(count);
        const Results<float> got = RunAll(p, tensors, threads);
        EXPECT_TRUE(SameBits(got.output, want.output)) << Describe(p);
        EXPECT_TRUE(SameBits(got.fused, want.fused)) << Describe(p);
        EXPECT_TRUE(SameBits(got.in_grad, want.in_grad)) << Describe(p);
        EXPECT_TRUE(SameBits(got.filter_grad, want.filter_grad)) << Describe(p);
      }
    });
  }
}

// Those of an image alone, wherever in the batch it lies.
TEST(ConvOfSmallImages, IsTheSameBitsInEveryBatch) {
  std::vector<ConvParams> shapes = ManySmallImages();
  shapes.push_back(Same(5, 4, 256, 3, 128, 1));
  ConvParams pixel = Same(40, 1, 30, 3, 20, 1);  // one result an image
  pixel.filter_h = 1;
  PadSame(pixel);
  shapes.push_back(pixel);
  for (const ConvParams& p : shapes) {
    ForEachIsa([&](Isa) {
      Random random(10);
      const Tensors<float> tensors(random, p);
      SerialParallel serial;
      const Results<float> all = RunAll(p, tensors, serial);
      ConvParams one = p;
      one.batch = 1;
      const int64_t in = InputSize(one), out = OutputSize(one);
      const ConvPlan plan(one);
      for (const int64_t image : {int64_t{0}, p.batch / 2, p.batch - 1}) {
        std::vector<float> output(static_cast<size_t>(out)), in_grad(static_cast<size_t>(in));
        plan.Forward(tensors.input.data() + image * in, tensors.filter.data(), output.data(), serial);
        plan.BackpropInput(tensors.filter.data(), tensors.grad.data() + image * out, in_grad.data(), serial);
        const auto part = [&](const std::vector<float>& from, int64_t size) {
          return std::vector<float>(from.begin() + image * size, from.begin() + (image + 1) * size);
        };
        EXPECT_TRUE(SameBits(output, part(all.output, out))) << Describe(p) << " image " << image;
        EXPECT_TRUE(SameBits(in_grad, part(all.in_grad, in))) << Describe(p) << " image " << image;
      }
    });
  }
}

// Rows of the filter around the edges of one to four vectors, outputs around those of tiles.
TEST(ConvGradient, ForFiltersWithLongRowsEqualsTheDefinition) {
  uint32_t seed = 1;
  for (const int64_t out_c : {6, 7, 9, 12, 13, 20, 25}) {
    for (const int64_t in_c : {4, 5, 8, 12, 15})
      CheckAgainstDefinition<float>(Same(3, 9, in_c, 4, out_c, 2), seed++);
  }
  for (const int64_t batch : {1, 2, 16, 17, 35}) {
    CheckAgainstDefinition<float>(Same(batch, 8, 8, 4, 12, 1), seed++);
    CheckAgainstDefinition<double>(Same(batch, 8, 5, 3, 7, 1), seed++);
  }
  Random random(5);
  for (int i = 0; i < 60; ++i) {
    ConvParams p = RandomParams(random, 12);
    p.in_w = random.Int(5, 20), p.in_c = random.Int(3, 12), p.out_c = random.Int(6, 15);
    p.filter_w = random.Int(2, 6), p.dilation_w = 1, p.stride_w = random.Int(1, 2);
    if (random.Coin()) {
      PadSame(p);
    } else {
      p.pad_left = random.Int(0, 3), p.out_w = (p.in_w + p.pad_left + 3 - p.filter_w) / p.stride_w + 1;
    }
    CheckAgainstDefinition<float>(p, seed++);
  }
}

}  // namespace
}  // namespace millrace::cpu
