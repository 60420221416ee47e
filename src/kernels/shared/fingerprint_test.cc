// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/shared/fingerprint.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

// Values computed by FarmHash's own library.
TEST(FingerprintTest, FarmHashOfEveryRangeOfLengths) {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  const std::string longer = text + text + text;
  const auto of = [&](size_t n) { return FarmFingerprint64(std::string_view(longer).substr(0, n)); };
  EXPECT_EQ(of(0), 11160318154034397263u);
  EXPECT_EQ(of(3), 9622071900453499901u);
  EXPECT_EQ(of(5), 8805132910519014279u);
  EXPECT_EQ(of(12), 16046829537012271495u);
  EXPECT_EQ(of(20), 14682102640708416407u);
  EXPECT_EQ(of(43), 12375473906752639284u);
  EXPECT_EQ(of(64), 8722969050936010342u);
  EXPECT_EQ(of(65), 6733649807463825925u);
  EXPECT_EQ(of(129), 7943048688984171807u);
  EXPECT_EQ(FarmFingerprint64("a"), 12917804110809363939u);
}

// Values in TensorFlow's documents.
TEST(FingerprintTest, MurmurHashHasTensorFlowsSeed) {
  EXPECT_EQ(MurmurHash64("a"), 2996632905371535868u);
  EXPECT_EQ(MurmurHash64("b"), 5795986006276551370u);
  EXPECT_EQ(MurmurHash64("c"), 14899841994519054197u);
}

// The vector in SipHash's paper, and values in TensorFlow's documents.
TEST(FingerprintTest, SipHash) {
  std::string bytes;
  for (char c = 0; c < 15; ++c) bytes += c;
  EXPECT_EQ(SipHash(0x0706050403020100u, 0x0f0e0d0c0b0a0908u, bytes), 0xa129ca6149be45e5u);
  EXPECT_EQ(SipHash(98765, 132, "a"), 7157389809176466784u);
  EXPECT_EQ(SipHash(98765, 132, "b"), 15805638358933211562u);
}

}  // namespace
}  // namespace millrace
