// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "io/checkpoint/checkpoint_testing.h"
#include "io/checkpoint/snappy.h"

namespace millrace::io {
namespace {

using ::testing::HasSubstr;
using testing_bytes::Block;
using testing_bytes::Entries;
using testing_bytes::Handle;
using testing_bytes::LittleEndian;
using testing_bytes::Stored;
using testing_bytes::Varint;

using Contents = std::map<std::string, std::string>;

class TableTest : public ::testing::Test {
 protected:
  std::string Written(const Contents& contents) {
    const auto file = env_.NewWritableFile("/t");
    TableWriter writer(**file);
    for (const auto& [key, value] : contents) EXPECT_EQ(writer.Add(key, value), Status::Ok());
    EXPECT_EQ(writer.Finish(), Status::Ok());
    EXPECT_EQ((*file)->Close(), Status::Ok());
    return *ReadFileToString(env_, "/t");
  }
  StatusOr<std::unique_ptr<TableReader>> Open(const std::string& bytes) {
    EXPECT_EQ(WriteFileAtomically(env_, "/r", bytes), Status::Ok());
    return TableReader::Open(env_, "/r");
  }
  StatusOr<Contents> Walk(const std::string& bytes) {
    MR_ASSIGN_OR_RETURN(const auto table, Open(bytes));
    MR_RETURN_IF_ERROR(table->Start());
    Contents contents;
    while (true) {
      MR_ASSIGN_OR_RETURN(const bool there, table->Next());
      if (!there) return contents;
      contents.emplace(table->key(), table->value());
    }
  }
  std::string Error(const std::string& bytes) { return Walk(bytes).status().ToString(); }

  MemEnv env_;
};

TEST_F(TableTest, WhatIsWrittenIsFoundAndWalked) {
  std::mt19937 rng(7);
  for (const size_t n : {0, 1, 16, 17, 3000}) {
    Contents contents;
    for (size_t i = 0; i < n; ++i) {
      const std::string key = std::string(rng() % 30, 'a') + std::to_string(rng() % 100000) + '\xff';
      contents[i == 0 ? "" : key] = std::string(rng() % 500, static_cast<char>(i));
    }
    const std::string bytes = Written(contents);
    const auto walked = Walk(bytes);
    ASSERT_TRUE(walked.ok()) << walked.status();
    EXPECT_EQ(*walked, contents);
    const auto table = Open(bytes);
    for (const auto& [key, value] : contents) {
      const auto found = (*table)->Get(key);
      ASSERT_TRUE(found.ok() && found->has_value()) << key;
      EXPECT_EQ(**found, value);
      const auto missing = (*table)->Get(key + '\0');
      ASSERT_TRUE(missing.ok()) << missing.status();
      EXPECT_FALSE(missing->has_value());
    }
  }
}

TEST_F(TableTest, KeysMustRiseAndBeOfBoundedLength) {
  const auto file = env_.NewWritableFile("/t");
  TableWriter writer(**file);
  EXPECT_EQ(writer.Add("b", ""), Status::Ok());
  EXPECT_TRUE(errors::IsFailedPrecondition(writer.Add("b", "")));
  EXPECT_TRUE(errors::IsFailedPrecondition(writer.Add("a", "")));
  EXPECT_TRUE(errors::IsInvalidArgument(writer.Add(std::string(kMaxTableKey + 1, 'c'), "")));
}

TEST_F(TableTest, TablesMadeByHandAreRead) {
  const auto one = Walk(testing_bytes::Table(Entries{{"", "0"}, {"a", "1"}, {"ab", ""}}));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(*one, (Contents{{"", "0"}, {"a", "1"}, {"ab", ""}}));
  // Keys that share prefixes with the key before, as LevelDB writes them, and two blocks.
  const std::string shared = Varint(0) + Varint(3) + Varint(1) + "abcX" + Varint(2) + Varint(1) + Varint(1) +
                             "dY" + LittleEndian(0, 4) + LittleEndian(1, 4);
  const auto two =
      Walk(testing_bytes::TableOfBlocks({{"abd", Stored(shared)}, {"z", Stored(Block({{"b", "Z"}}))}}));
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(*two, (Contents{{"abc", "X"}, {"abd", "Y"}, {"b", "Z"}}));
}

TEST_F(TableTest, CompressedBlocksAreRead) {
  const std::string block = Block({{"k", "abcdabcdabcd"}});
  // A literal of 16 bytes, then a copy of 8 bytes from offset 4 that overlaps itself, then the rest.
  const size_t at = block.find("abcd") + 4;
  const std::string rest = block.substr(at + 8);
  const std::string packed = Varint(block.size()) + static_cast<char>((at - 1) << 2) + block.substr(0, at) +
                             static_cast<char>(1 | (8 - 4) << 2) + static_cast<char>(4) +
                             static_cast<char>((rest.size() - 1) << 2) + rest;
  const auto walked = Walk(testing_bytes::TableOfBlocks({std::pair(std::string("k"), Stored(packed, 1))}));
  ASSERT_TRUE(walked.ok()) << walked.status();
  EXPECT_EQ(*walked, (Contents{{"k", "abcdabcdabcd"}}));
}

TEST_F(TableTest, SnappyIsBoundedAndChecked) {
  EXPECT_EQ(*UnpackSnappy(std::string("\0", 1), 10), "");
  EXPECT_EQ(*UnpackSnappy("\x03\x08"
                          "abc",
                          10),
            "abc");
  // Copies with offsets of two and of four bytes.
  EXPECT_EQ(*UnpackSnappy(std::string("\x05\x04"
                                      "ab"
                                      "\x0a\x02\x00",
                                      7),
                          10),
            "ababa");
  EXPECT_EQ(*UnpackSnappy(std::string("\x05\x04"
                                      "ab"
                                      "\x0b\x02\x00\x00\x00",
                                      9),
                          10),
            "ababa");
  // A literal whose length has a byte of its own.
  EXPECT_EQ(*UnpackSnappy("\x46\xf0\x45" + std::string(70, 'x'), 100), std::string(70, 'x'));
  for (const std::string bad : {"", "\x03",
                                "\x03\x08"
                                "ab",
                                "\x04\x08"
                                "abc",
                                "\x02\x08"
                                "abc",
                                "\x05\x04"
                                "ab\x0a\x03",
                                "\x05\x04"
                                "ab\x05\x03",
                                "\x05\x04"
                                "ab\x05",
                                "\xff\xff\xff\xff\xff\x7f",
                                "\x7f\x04"
                                "ab\xf0"}) {
    EXPECT_FALSE(UnpackSnappy(bad, 1000).ok()) << testing_bytes::Varint(bad.size());
  }
  EXPECT_TRUE(errors::IsResourceExhausted(UnpackSnappy("\x0b\x00", 10).status()));
}

TEST_F(TableTest, BrokenTablesAreErrors) {
  const std::string good = testing_bytes::Table(Entries{{"a", "1"}, {"b", "2"}});
  EXPECT_THAT(Error(""), HasSubstr("file is too short to be an sstable"));
  EXPECT_THAT(Error(std::string(100, 'x')), HasSubstr("not an sstable (bad magic number)"));
  const auto with_index = [&](const std::string& handle) {
    return good + testing_bytes::Footer(Handle(0, 0), handle);
  };
  EXPECT_THAT(Error(with_index(Handle(0, UINT64_MAX))), HasSubstr("truncated block read"));
  EXPECT_THAT(Error(with_index(Handle(UINT64_MAX - 3, 8))), HasSubstr("truncated block read"));
  EXPECT_THAT(Error(with_index(Handle(0, 1000000))), HasSubstr("truncated block read"));
  EXPECT_THAT(Error(with_index(Handle(0, 8))), HasSubstr("block checksum mismatch"));
  EXPECT_THAT(
      Error(testing_bytes::TableOfBlocks({std::pair(std::string("a"), Stored(Block({{"a", ""}}), 2))})),
      HasSubstr("bad block type"));
  for (const std::string& block :
       {std::string("abc"), LittleEndian(0xffffffff, 4), LittleEndian(2, 4) + LittleEndian(2, 4),
        Block({{"b", ""}, {"a", ""}}), Block({}),
        Varint(1) + Varint(1) + Varint(0) + "a" + LittleEndian(0, 8),
        Varint(0) + Varint(9) + Varint(0) + "a" + LittleEndian(0, 8),
        Varint(0) + Varint(UINT32_MAX) + Varint(UINT32_MAX) + "a" + LittleEndian(0, 8)}) {
    EXPECT_THAT(Error(testing_bytes::TableOfBlocks({std::pair(std::string("z"), Stored(block))})),
                HasSubstr("Data loss"));
  }
  // Index entries that name the same blocks again, so that a small table would have endlessly many entries.
  const std::string twice = Stored(Block({{"a", ""}}));
  EXPECT_THAT(Error(testing_bytes::TableOfBlocks({{"a", twice}, {"b", twice}})), HasSubstr("bad entry"));
}

TEST_F(TableTest, NoChangedByteGoesUnnoticed) {
  const Contents contents{{"", "header"}, {"abc", "1"}, {"abd", "22"}, {"b", std::string(40, 'x')}};
  const std::string bytes = Written(contents);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x41);
    const auto walked = Walk(changed);
    // The footer has no checksum: changes of handles with superfluous bytes, or of the empty block, go
    // unnoticed.
    EXPECT_TRUE(i + 48 >= bytes.size() || !walked.ok() || *walked == contents) << i;
    EXPECT_FALSE(Walk(bytes.substr(0, i)).ok()) << i;
  }
}

TEST_F(TableTest, AnyBlockWithAValidChecksumGivesAStatus) {
  std::mt19937 rng(3);
  const std::string block = Block({{"a", "1"}, {"abc", "2"}, {"b", "3"}});
  for (int i = 0; i < 3000; ++i) {
    std::string changed = block;
    for (uint32_t n = 1 + rng() % 3; n > 0; --n) changed[rng() % changed.size()] = static_cast<char>(rng());
    if (rng() % 4 == 0) changed.resize(rng() % changed.size());
    const bool in_index = rng() % 2 == 0;
    const std::string bytes =
        in_index ? Stored(changed) + testing_bytes::Footer(Handle(0, 0), Handle(0, changed.size()))
                 : testing_bytes::TableOfBlocks({std::pair(std::string("z"), Stored(changed))});
    const auto table = Open(bytes);
    if (!table.ok()) continue;
    for (const char* key : {"", "a", "abb", "zz"})
      (*table)->Get(key).status().IgnoreError("any status will do");
    Walk(bytes).status().IgnoreError("any status will do");
  }
}

}  // namespace
}  // namespace millrace::io
