// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/random/philox.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using Block = PhiloxRandom::Block;

// From the known answers that the authors of the generator publish.
TEST(PhiloxTest, GivesTheAuthorsKnownAnswers) {
  EXPECT_EQ(PhiloxRandom(0, 0)(), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  PhiloxRandom ones(0xffffffffffffffff, 0xffffffffffffffff);
  ones.Skip(0xffffffffffffffff);
  EXPECT_EQ(ones(), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  PhiloxRandom pi(0x299f31d0a4093822, 0x0370734413198a2e);
  pi.Skip(0x85a308d3243f6a88);
  EXPECT_EQ(pi(), (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, SkippingEqualsDrawing) {
  PhiloxRandom drawn(3, 4), skipped(3, 4);
  drawn.Skip(0xfffffffffffffffe);
  skipped.Skip(0xfffffffffffffffe);
  for (int i = 0; i < 5; ++i) drawn();
  skipped.Skip(5);
  EXPECT_EQ(drawn(), skipped());
  EXPECT_EQ(drawn.counter_hi(), 5u);
}

TEST(PhiloxTest, ReservationsFollowEachOther) {
  GuardedPhilox generator(1, 2);
  const PhiloxRandom first = generator.Reserve(10), second = generator.Reserve(1, 4);
  EXPECT_EQ(first.counter_lo(), 0u);
  EXPECT_EQ(second.counter_lo(), 2560u);
  EXPECT_EQ(generator.ReserveBlocks(0).counter_lo(), 2564u);
}

TEST(PhiloxTest, NegativeSeedsKeepTheirBits) {
  GuardedPhilox generator(-1, -3);
  EXPECT_EQ(generator.Reserve(0).key(), 0xffffffffffffffffu);
  EXPECT_EQ(generator.Reserve(0).counter_hi(), 0xfffffffffffffffdu);
}

TEST(PhiloxTest, ZeroSeedsAreChosenAtRandom) {
  GuardedPhilox a(0, 0), b(0, 0);
  EXPECT_NE(a.Reserve(1).key(), b.Reserve(1).key());
  GuardedPhilox seeded(0, 7);
  EXPECT_EQ(seeded.Reserve(1).key(), 0u);
}

}  // namespace
}  // namespace millrace
