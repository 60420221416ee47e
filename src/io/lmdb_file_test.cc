// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/lmdb_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace millrace::io {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

std::string Data(const std::string& name) { return MR_TEST_DATA "/lmdb/" + name; }

Status ReadAll(Env& env, const std::string& path, Entries* entries) {
  MR_ASSIGN_OR_RETURN(const auto file, LmdbFile::Open(env, path));
  std::string key, value;
  while (true) {
    MR_ASSIGN_OR_RETURN(const bool more, file->Next(&key, &value));
    if (!more) return Status();
    entries->emplace_back(key, value);
  }
}

std::string Digits(int i, int width) {
  std::string text = std::to_string(i);
  return std::string(static_cast<size_t>(width) - text.size(), '0') + text;
}

TEST(LmdbFile, ReadsEntriesInTheOrderOfTheirKeys) {
  Entries entries;
  const Status status = ReadAll(Env::Posix(), Data("plain.mdb"), &entries);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(entries.size(), 300u);
  for (int i = 0; i < 300; ++i) {
    std::string value(static_cast<size_t>(i == 123 ? 10000 : i % 40), 0);
    for (size_t j = 0; j < value.size(); ++j)
      value[j] = static_cast<char>((static_cast<size_t>(i) * 7 + j) % 256);
    EXPECT_EQ(entries[static_cast<size_t>(i)].first, "key" + Digits(i, 3));
    EXPECT_TRUE(entries[static_cast<size_t>(i)].second == value) << i;
  }
}

TEST(LmdbFile, ReadsAllValuesOfAKey) {
  Entries entries, expected = {{"a", "1"}, {"a", "22"}, {"a", "333"}, {"b", "only"}};
  for (int i = 0; i < 1200; ++i) expected.emplace_back("c", Digits(i, 4));
  const Status status = ReadAll(Env::Posix(), Data("dups.mdb"), &entries);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(entries, expected);
}

TEST(LmdbFile, ReadsValuesOfOneLength) {
  Entries entries, expected;
  for (int i = 0; i < 9; ++i) expected.emplace_back("a", Digits(i, 4));
  for (int i = 0; i < 2500; ++i) expected.emplace_back("b", Digits(i, 4));
  const Status status = ReadAll(Env::Posix(), Data("fixed.mdb"), &entries);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(entries, expected);
}

TEST(LmdbFile, AnEmptyDatabaseHasNoEntries) {
  Entries entries;
  const Status status = ReadAll(Env::Posix(), Data("empty.mdb"), &entries);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(entries.empty());
}

TEST(LmdbFile, AMissingFileOrOneThatIsNoDatabaseIsAnError) {
  Entries entries;
  EXPECT_TRUE(errors::IsNotFound(ReadAll(Env::Posix(), Data("none.mdb"), &entries)));
  // The folder has no data.mdb.
  EXPECT_TRUE(errors::IsNotFound(ReadAll(Env::Posix(), Data(""), &entries)));
  EXPECT_EQ(ReadAll(Env::Posix(), Data("README.md"), &entries).code(), ErrorCode::kDataLoss);
}

// With random bytes changed, most of them in the headers of pages, reading ends and stays within the file's
// pages.
TEST(LmdbFile, ChangedBytesEndInAStatus) {
  std::mt19937 random(1);
  int refused = 0;
  for (const char* name : {"plain.mdb", "dups.mdb", "fixed.mdb"}) {
    const auto sound = ReadFileToString(Env::Posix(), Data(name));
    ASSERT_TRUE(sound.ok());
    for (int round = 0; round < 3000; ++round) {
      std::string bytes = *sound;
      for (int change = 0; change < 1 + round % 4; ++change) {
        const size_t page = random() % (bytes.size() / 4096) * 4096;
        const size_t at = page + random() % (round % 2 == 0 ? 64 : 4096);
        bytes[at] = static_cast<char>(random());
      }
      if (round % 50 == 0) bytes.resize(random() % bytes.size());
      MemEnv env;
      ASSERT_TRUE(WriteFileAtomically(env, "changed.mdb", bytes).ok());
      Entries entries;
      const Status status = ReadAll(env, "changed.mdb", &entries);
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), ErrorCode::kDataLoss) << status;
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

// A branch page that is its own child: a traversal without a counter would never end.
TEST(LmdbFile, PagesInACircleAreRefused) {
  const auto sound = ReadFileToString(Env::Posix(), Data("plain.mdb"));
  ASSERT_TRUE(sound.ok());
  std::string bytes = *sound;
  int branches = 0;
  for (size_t page = 2 * 4096; page < bytes.size(); page += 4096) {
    uint16_t kind, lower;
    std::memcpy(&kind, bytes.data() + page + 10, 2);
    if (kind != 1) continue;
    ++branches;
    std::memcpy(&lower, bytes.data() + page + 12, 2);
    for (size_t i = 16; i < lower; i += 2) {
      uint16_t node;
      std::memcpy(&node, bytes.data() + page + i, 2);
      const uint64_t self = page / 4096;
      std::memcpy(bytes.data() + page + node, &self, 6);
    }
  }
  ASSERT_GE(branches, 1);
  MemEnv env;
  ASSERT_TRUE(WriteFileAtomically(env, "circle.mdb", bytes).ok());
  Entries entries;
  const Status status = ReadAll(env, "circle.mdb", &entries);
  EXPECT_EQ(status.code(), ErrorCode::kDataLoss) << status;
  EXPECT_NE(status.message().find("its pages form no tree"), std::string::npos) << status;
}

}  // namespace
}  // namespace millrace::io
