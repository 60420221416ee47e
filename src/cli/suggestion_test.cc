// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/suggestion.h"

#include <gtest/gtest.h>

namespace millrace::cli {
namespace {

TEST(SuggestionTest, Distances) {
  EXPECT_EQ(EditDistance("", ""), 0U);
  EXPECT_EQ(EditDistance("", "abc"), 3U);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3U);
  EXPECT_EQ(EditDistance("shwo", "show"), 1U) << "neighbours are swapped";
  EXPECT_EQ(EditDistance("show", "show"), 0U);
}

TEST(SuggestionTest, NearestNames) {
  const std::vector<std::string> names = {"run", "show", "optimize", "ops"};
  EXPECT_EQ(NearestName("shwo", names), "show");
  EXPECT_EQ(NearestName("optimise", names), "optimize");
  EXPECT_EQ(NearestName("xyzzy", names), "");
  EXPECT_EQ(NearestName("zz", {"ab"}), "") << "all letters differ";
  EXPECT_EQ(NearestName(std::string(100000, 'a'), names), "");
}

}  // namespace
}  // namespace millrace::cli
