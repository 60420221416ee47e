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

// The results are those of the single image, at any position in the batch.
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

// Whole filters around the edges of vectors, whose rows don't fill them.
TEST(ConvGradient, ForFiltersWithShortRowsEqualsTheDefinition) {
  uint32_t seed = 1;
  for (const int64_t filter : {3, 4, 5, 6}) {
    for (const int64_t in_c : {1, 2, 3, 4}) {
      for (const int64_t stride : {1, 2}) {
        const int64_t out_c = 6 + static_cast<int64_t>(seed) % 5;
        CheckAgainstDefinition<float>(Same(3, 9, in_c, filter, out_c, stride), seed++);
        CheckAgainstDefinition<double>(Same(2, 8, in_c, filter, out_c, stride), seed++);
      }
    }
  }
  for (const int64_t batch : {1, 15, 16, 17, 40})
    CheckAgainstDefinition<float>(Same(batch, 6, 1, 6, 6, 1), seed++);
  Random random(8);
  for (int i = 0; i < 60; ++i) {
    ConvParams p = RandomParams(random, 4);
    p.in_h = random.Int(5, 20), p.out_c = random.Int(6, 12), p.dilation_h = p.dilation_w = 1;
    if (random.Coin()) {
      PadSame(p);
    } else {
      p.pad_top = random.Int(0, 6), p.out_h = (p.in_h + p.pad_top + 5) / p.stride_h;
    }
    CheckAgainstDefinition<float>(p, seed++);
  }
}

// Filters of one pixel, with pixels in one part and in several, and with strides.
std::vector<ConvParams> FiltersOfAPixel() {
  ConvParams inside = Same(3, 31, 64, 1, 80, 3);
  inside.in_h = 33, inside.in_w = 32;  // pixels at the ends that no result reads
  ConvParams nchw = Same(2, 17, 72, 1, 64, 1);
  nchw.layout = ImageLayout::kNchw;
  return {Same(2, 17, 64, 1, 96, 1), Same(1, 46, 104, 1, 48, 1), Same(5, 33, 40, 1, 130, 2), inside, nchw,
          Same(3, 20, 136, 1, 64, 1)};
}

TEST(ConvGradient, ForFiltersOfAPixelEqualsTheDefinition) {
  uint32_t seed = 1;
  for (const ConvParams& p : FiltersOfAPixel()) CheckAgainstDefinition<float>(p, seed++);
  CheckAgainstDefinition<double>(Same(2, 17, 64, 1, 72, 1), seed++);
  // Products of many rows, whose columns are packed beforehand.
  CheckAgainstDefinition<float>(Same(1, 33, 64, 1, 520, 1), seed++);
  CheckAgainstDefinition<float>(Same(1, 33, 260, 1, 130, 1), seed++);
}

// Filters whose sides are multiples of the strides, for images of few channels.
std::vector<ConvParams> FiltersOfWholeStrides() {
  std::vector<ConvParams> shapes = {Same(3, 14, 12, 4, 24, 2), Same(7, 14, 8, 4, 12, 2),
                                    Same(2, 9, 5, 2, 7, 2), Same(2, 13, 4, 6, 9, 3),
                                    Same(17, 10, 6, 4, 20, 2)};
  for (const int64_t pad : {0, 1, 2, 3, 5}) {
    ConvParams p = Same(2, 12, 7, 4, 10, 2);
    p.pad_top = pad, p.pad_left = 5 - pad, p.in_w = 15;
    p.out_h = (p.in_h + pad + 2 - 4) / 2 + 1, p.out_w = (p.in_w + p.pad_left - 4) / 2 + 1;
    shapes.push_back(p);
  }
  ConvParams wide = Same(2, 10, 6, 4, 9, 1);
  wide.stride_w = 4;
  PadSame(wide);
  ConvParams nchw = shapes[0];
  nchw.layout = ImageLayout::kNchw;
  shapes.push_back(wide);
  shapes.push_back(nchw);
  return shapes;
}

TEST(ConvGradient, ForFiltersOfWholeStridesEqualsTheDefinition) {
  uint32_t seed = 1;
  for (const ConvParams& p : FiltersOfWholeStrides()) {
    CheckAgainstDefinition<float>(p, seed++);
    CheckAgainstDefinition<double>(p, seed++);
  }
}

TEST(ConvGradient, OfSpecialFiltersIsTheSameBitsForEveryNumberOfThreads) {
  std::vector<ConvParams> shapes = FiltersOfAPixel();
  for (const ConvParams& p : FiltersOfWholeStrides()) shapes.push_back(p);
  shapes.push_back(Same(20, 9, 2, 5, 7, 1));
  for (const ConvParams& p : shapes) {
    ForEachIsa([&](Isa) {
      Random random(11);
      const Tensors<float> tensors(random, p);
      SerialParallel serial;
      ThreadedParallel threads(3);
      const Results<float> want = RunAll(p, tensors, serial), got = RunAll(p, tensors, threads);
      EXPECT_TRUE(SameBits(got.in_grad, want.in_grad)) << Describe(p);
      EXPECT_TRUE(SameBits(got.filter_grad, want.filter_grad)) << Describe(p);
    });
  }
}

}  // namespace
}  // namespace millrace::cpu
