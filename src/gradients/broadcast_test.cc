// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "gradients/broadcast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::gradients {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

TEST(RepeatedAxesTest, EqualShapesRepeatNothing) {
  EXPECT_THAT(RepeatedAxes({2, 3}, {2, 3}), Optional(IsEmpty()));
  EXPECT_THAT(RepeatedAxes(PartialShape({}), PartialShape({})), Optional(IsEmpty()));
  EXPECT_THAT(RepeatedAxes({1, 0}, {1, 0}), Optional(IsEmpty()));
}

TEST(RepeatedAxesTest, MissingDimensionsAreRepeated) {
  EXPECT_THAT(RepeatedAxes({3}, {4, 2, 3}), Optional(ElementsAre(0, 1)));
  EXPECT_THAT(RepeatedAxes({4, 2, 3}, {3}), Optional(IsEmpty()));
  EXPECT_THAT(RepeatedAxes(PartialShape({}), {5}), Optional(ElementsAre(0)));
  EXPECT_THAT(RepeatedAxes({10}, {-1, 10}), Optional(ElementsAre(0)));
}

TEST(RepeatedAxesTest, SizeOneIsRepeatedAgainstAnythingElse) {
  EXPECT_THAT(RepeatedAxes({1, 3}, {2, 3}), Optional(ElementsAre(0)));
  EXPECT_THAT(RepeatedAxes({1, 3}, {0, 3}), Optional(ElementsAre(0)));
  EXPECT_THAT(RepeatedAxes({2, 1}, {4, 2, 5}), Optional(ElementsAre(0, 2)));
  EXPECT_THAT(RepeatedAxes({1, 3}, {-1, 3}), Optional(ElementsAre(0)));
}

TEST(RepeatedAxesTest, UnknownSizesAreReturnedOnlyIfTheOtherIsOneOrMissing) {
  EXPECT_THAT(RepeatedAxes({-1, 10}, {10}), Optional(IsEmpty()));
  EXPECT_THAT(RepeatedAxes({-1, 10}, {1, 10}), Optional(IsEmpty()));
  EXPECT_EQ(RepeatedAxes({-1, 10}, {-1, 10}), std::nullopt);
  EXPECT_EQ(RepeatedAxes({-1}, {5}), std::nullopt);
  EXPECT_THAT(RepeatedAxes({5}, {-1}), Optional(IsEmpty()));
}

TEST(RepeatedAxesTest, OfUnknownRanksOnlyScalarsTell) {
  EXPECT_THAT(RepeatedAxes(PartialShape(), PartialShape({})), Optional(IsEmpty()));
  EXPECT_EQ(RepeatedAxes(PartialShape({}), PartialShape()), std::nullopt);
  EXPECT_EQ(RepeatedAxes({2}, PartialShape()), std::nullopt);
}

}  // namespace
}  // namespace millrace::gradients
