// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/name_table.h"

#include <random>
#include <string>
#include <unordered_map>

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(NameTableTest, AgreesWithAMapOverManyRandomInsertionsAndErasures) {
  NameTable table;
  std::unordered_map<std::string, int> reference;
  std::vector<std::string> names(300);
  for (size_t i = 0; i < names.size(); ++i) names[i] = "node_" + std::to_string(i);
  const auto name_of = [&](int i) -> const std::string& { return names[static_cast<size_t>(i)]; };
  std::mt19937 random(7);
  for (int step = 0; step < 20000; ++step) {
    const int i = static_cast<int>(random() % names.size());
    const std::string& name = names[static_cast<size_t>(i)];
    if (reference.contains(name)) {
      table.Erase(name, i);
      reference.erase(name);
    } else {
      table.Insert(name, i);
      reference.emplace(name, i);
    }
    const std::string& probe = names[random() % names.size()];
    const auto it = reference.find(probe);
    ASSERT_EQ(table.Find(probe, name_of), it == reference.end() ? -1 : it->second) << "step " << step;
  }
}

TEST(NameTableTest, EmptyTableFindsNothing) {
  const NameTable table;
  EXPECT_EQ(table.Find("a", [](int) { return std::string(); }), -1);
}

TEST(NameTableTest, ReservedTableHoldsWhatWasInsertedBefore) {
  NameTable table;
  const std::vector<std::string> names = {"", "a", std::string("a\0b", 3)};
  for (int i = 0; i < 3; ++i) table.Insert(names[static_cast<size_t>(i)], i);
  table.Reserve(1000);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(table.Find(names[static_cast<size_t>(i)], [&](int n) { return names[static_cast<size_t>(n)]; }),
              i);
  }
}

}  // namespace
}  // namespace millrace
