// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "digit_generator.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace millrace::mnist {
namespace {

Dataset Small(uint64_t seed, int threads = 1) {
  return GenerateDigits({.seed = seed, .train_size = 2000, .test_size = 300, .threads = threads});
}

TEST(DigitGeneratorTest, TheSeedDecidesEveryPixelAndTheThreadsNone) {
  const Dataset one = Small(5, 1), three = Small(5, 3), other = Small(6, 1);
  EXPECT_EQ(one.train.images, three.train.images);
  EXPECT_EQ(one.train.labels, three.train.labels);
  EXPECT_EQ(one.test.images, three.test.images);
  EXPECT_NE(one.train.images, other.train.images);
}

TEST(DigitGeneratorTest, TheDefaultDigitsAreTheSameOnEveryMachine) {
  const Dataset data = GenerateDigits({.seed = 0, .train_size = 0, .test_size = 500, .threads = 1});
  const Examples& test = data.test;
  std::vector<uint8_t> bytes(test.labels);
  for (const float pixel : test.images) bytes.push_back(static_cast<uint8_t>(std::lround(pixel * 255.0f)));
  EXPECT_EQ(crc32(0, bytes.data(), static_cast<uInt>(bytes.size())), 785825952u);
}

TEST(DigitGeneratorTest, PixelsAreInRangeAndEveryImageHasInk) {
  const Dataset data = Small(1);
  for (int64_t i = 0; i < data.train.size(); ++i) {
    float ink = 0;
    for (const float pixel : data.train.image(i)) {
      ASSERT_TRUE(pixel >= 0.0f && pixel <= 1.0f) << pixel;
      ink += pixel;
    }
    EXPECT_GT(ink, 8.0f) << "image " << i;
    EXPECT_LT(ink, 400.0f) << "image " << i;
  }
}

TEST(DigitGeneratorTest, DigitsSitInTheMiddle) {
  const Dataset data = Small(2);
  for (int64_t i = 0; i < data.train.size(); ++i) {
    double ink = 0, x = 0, y = 0;
    const auto image = data.train.image(i);
    for (int p = 0; p < kPixels; ++p) {
      ink += image[p];
      x += image[p] * (p % kImageSide);
      y += image[p] * (p / kImageSide);
    }
    EXPECT_NEAR(x / ink, 13.5, 5) << "image " << i;
    EXPECT_NEAR(y / ink, 13.5, 5) << "image " << i;
  }
}

TEST(DigitGeneratorTest, TheClassesAreBalanced) {
  const Dataset data = Small(3);
  std::array<int, kClasses> count{};
  for (const uint8_t label : data.train.labels) ++count.at(label);
  for (const int n : count) EXPECT_NEAR(n, 200, 60);
}

TEST(DigitGeneratorTest, NoTwoImagesAreEqual) {
  const Dataset data = Small(4);
  std::set<std::vector<float>> images;
  for (const Examples* set : {&data.train, &data.test}) {
    for (int64_t i = 0; i < set->size(); ++i) images.emplace(set->image(i).begin(), set->image(i).end());
  }
  EXPECT_EQ(images.size(), 2300u);
}

// A classifier by only the mean image of each digit gets most of the digits right and far from all:
// the drawings carry their labels, and are not so uniform that there is nothing to learn.
TEST(DigitGeneratorTest, TheNearestMeanIsOftenButNotAlwaysRight) {
  const Dataset data = Small(8);
  std::vector<std::array<double, kPixels>> mean(kClasses);
  std::array<double, kClasses> count{};
  for (int64_t i = 0; i < data.train.size(); ++i) {
    const uint8_t label = data.train.labels[static_cast<size_t>(i)];
    count[label] += 1;
    for (int p = 0; p < kPixels; ++p) mean[label][p] += data.train.image(i)[p];
  }
  int right = 0;
  for (int64_t i = 0; i < data.test.size(); ++i) {
    int best = 0;
    double least = INFINITY;
    for (int digit = 0; digit < kClasses; ++digit) {
      double distance = 0;
      for (int p = 0; p < kPixels; ++p) {
        const double d = data.test.image(i)[p] - mean[digit][p] / count[digit];
        distance += d * d;
      }
      if (distance < least) least = distance, best = digit;
    }
    right += best == data.test.labels[static_cast<size_t>(i)];
  }
  EXPECT_GT(right, 300 * 0.55);
  EXPECT_LT(right, 300 * 0.93);
}

}  // namespace
}  // namespace millrace::mnist
