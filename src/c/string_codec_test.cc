// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "c/string_codec.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace millrace::c_api {
namespace {

std::string Encoded(const std::vector<std::string>& strings) {
  std::string bytes(EncodedStringsSize(strings), '\x7e');
  EncodeStrings(strings, bytes.data());
  return bytes;
}

TEST(StringCodecTest, LayoutIsThatOfTensorFlow) {
  const std::string bytes = Encoded({"ab", "", std::string(130, 'x')});
  ASSERT_EQ(bytes.size(), 3 * 8 + (1 + 2) + 1 + (2 + 130));
  uint64_t offsets[3];
  std::memcpy(offsets, bytes.data(), sizeof offsets);
  EXPECT_EQ(offsets[0], 0U);
  EXPECT_EQ(offsets[1], 3U);
  EXPECT_EQ(offsets[2], 4U);
  EXPECT_EQ(bytes.substr(24, 4), std::string("\2ab\0", 4));
  EXPECT_EQ(bytes.substr(28, 3), "\x82\x01x") << "the length, 130, in groups of seven bits";
}

TEST(StringCodecTest, StringsComeBack) {
  const std::vector<std::string> strings = {"", std::string("a\0b", 3), std::string(300, '\xff'), "end"};
  const auto tensor = DecodeStrings(Encoded(strings), TensorShape({2, 2}));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  for (size_t i = 0; i < strings.size(); ++i) EXPECT_EQ(tensor->data<std::string>()[i], strings[i]);
  EXPECT_TRUE(DecodeStrings("", TensorShape({0})).ok());
}

TEST(StringCodecTest, WrongBytesAreErrors) {
  const std::string good = Encoded({"abc", "de"});
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_TRUE(errors::IsInvalidArgument(DecodeStrings(good.substr(0, size), TensorShape({2})).status()))
        << size;
  }
  EXPECT_TRUE(errors::IsInvalidArgument(DecodeStrings(good, TensorShape({int64_t{1} << 60})).status()));
  std::string endless = good;
  std::memset(endless.data() + 16, 0xff, endless.size() - 16);  // a length without end
  EXPECT_TRUE(errors::IsInvalidArgument(DecodeStrings(endless, TensorShape({2})).status()));
}

TEST(StringCodecTest, NoBytesAreReadBeyondTheEnd) {
  std::minstd_rand random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 64, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % 7 == 0 ? random() : random() % 40);
    const std::vector<char> exact(bytes.begin(), bytes.end());  // so that a sanitizer sees its end
    DecodeStrings({exact.data(), exact.size()}, TensorShape({static_cast<int64_t>(random() % 5)}))
        .status()
        .IgnoreError("any result is acceptable");
  }
}

}  // namespace
}  // namespace millrace::c_api
