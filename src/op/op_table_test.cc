// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/op_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "op/op_registry.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kTable = R"(
First
  in x: N*T
  in handle: Ref(string)
  out y: T
  attr N: int >= 2 = 3
  attr T: {half, float} = DT_FLOAT
  flag is_commutative is_aggregate
Second
  attr mode: {'a b', 'c'} = 'c'
  attr shapes: list(shape) >= 1
  flag is_stateful allows_uninitialized_input deprecated@7
  why Use Third
Third
)";

std::string ErrorOf(std::string_view table) {
  const auto ops = ParseOpTable(table);
  return ops.ok() ? "" : std::string(ops.status().message());
}

TEST(OpTable, GivesTheSameOpsAsTheBuilder) {
  const auto ops = ParseOpTable(kTable);
  ASSERT_TRUE(ops.ok()) << ops.status();
  ASSERT_EQ(ops->size(), 3u);
  const auto first = OpBuilder("First")
                         .Input("x: N * T")
                         .Input("handle: Ref(string)")
                         .Output("y: T")
                         .Attr("N: int >= 2 = 3")
                         .Attr("T: {half, float} = DT_FLOAT")
                         .Commutative()
                         .Aggregate()
                         .Finalize();
  EXPECT_EQ((*ops)[0].def, first->def);
  EXPECT_FALSE((*ops)[0].traits.has_side_effects);
  const auto second = OpBuilder("Second")
                          .Attr("mode: {'a b', 'c'} = 'c'")
                          .Attr("shapes: list(shape) >= 1")
                          .Stateful()
                          .AllowsUninitializedInput()
                          .Deprecated(7, "Use Third")
                          .Finalize();
  EXPECT_EQ((*ops)[1].def, second->def);
  EXPECT_TRUE((*ops)[1].traits.has_side_effects);
  EXPECT_EQ((*ops)[2].def, OpBuilder("Third").Finalize()->def);
}

TEST(OpTable, ErrorsNameTheirPlace) {
  EXPECT_THAT(ErrorOf("  in x: T\nA\n"), HasSubstr("begins with '  in x: T'"));
  EXPECT_THAT(ErrorOf("A\n  inn x: T\n"), HasSubstr("unknown part 'inn'; in line '  inn x: T'"));
  EXPECT_THAT(ErrorOf("A\n  flag is_big\n"), HasSubstr("unknown flag 'is_big'"));
  EXPECT_THAT(ErrorOf("A\n  flag deprecated@x\n"), HasSubstr("unknown flag"));
  EXPECT_THAT(ErrorOf("A\n  in x: T\nB\n"), HasSubstr("A"));
  EXPECT_EQ(ErrorOf(""), "");
}

TEST(OpRegistryDeclarations, AreFoundWhenNothingIsRegisteredUnderTheName) {
  OpRegistry registry;
  ASSERT_EQ(registry.Register(OpBuilder("First").Output("y: int32")), Status::Ok());
  registry.Declare(kTable);
  ASSERT_TRUE(registry.LookUp("Second").ok());
  EXPECT_EQ((*registry.LookUp("Second"))->def.deprecated_explanation, "Use Third");
  EXPECT_TRUE((*registry.LookUp("First"))->def.inputs.empty());
  EXPECT_THAT(registry.LookUp("Fourth").status().message(), HasSubstr("Op type not registered 'Fourth'"));
  EXPECT_EQ(registry.All().size(), 1u);
  ASSERT_EQ(registry.Declared().size(), 2u);
  EXPECT_EQ(registry.Declared()[0]->def.name, "Second");
  // Later registrations come first, too; a holder of the old declaration keeps it.
  const OpRegistration* declared = *registry.LookUp("Third");
  ASSERT_EQ(registry.Register(OpBuilder("Third").Output("y: int32")), Status::Ok());
  EXPECT_EQ((*registry.LookUp("Third"))->def.outputs.size(), 1u);
  EXPECT_THAT(declared->def.outputs, IsEmpty());
  EXPECT_EQ(registry.Declared().size(), 1u);
}

TEST(OpRegistryDeclarations, TheSameTableTwiceIsFine) {
  OpRegistry registry;
  registry.Declare(kTable);
  const OpRegistration* first = *registry.LookUp("First");
  registry.Declare(kTable);
  EXPECT_EQ(*registry.LookUp("First"), first);
  EXPECT_EQ(registry.Declared().size(), 3u);
}

TEST(OpRegistryDeclarations, ManyThreadsMayBeTheFirstToAsk) {
  OpRegistry registry;
  registry.Declare(kTable);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&registry] {
      EXPECT_TRUE(registry.LookUp("Second").ok());
      EXPECT_FALSE(registry.LookUp("Fourth").ok());
      EXPECT_EQ(registry.Declared().size(), 3u);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace millrace
