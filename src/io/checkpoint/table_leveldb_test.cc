// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Our tables and those of LevelDB's own library, each read by the other.
#include <gtest/gtest.h>
#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>
#include <leveldb/table_builder.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <random>

#include "io/checkpoint/table.h"

namespace millrace::io {
namespace {

using Contents = std::map<std::string, std::string>;

Contents RandomContents(uint32_t seed, size_t n) {
  std::mt19937 rng(seed);
  Contents contents;
  while (contents.size() < n) {
    std::string key =
        "layer" + std::to_string(rng() % 50) + std::string(rng() % 3, '\xff') + std::to_string(rng());
    key.resize(rng() % key.size());
    // A part of the values can be compressed.
    std::string value(rng() % 700, static_cast<char>(rng() % 4));
    for (size_t i = 0; i < value.size(); i += 1 + rng() % 40) value[i] = static_cast<char>(rng());
    contents[key] = value;
  }
  return contents;
}

class TableLeveldbTest : public ::testing::Test {
 protected:
  ~TableLeveldbTest() override { Env::Posix().DeleteFile(path_).IgnoreError("temporary"); }
  const std::string path_ = StrCat(::testing::TempDir(), "table_leveldb_test.", ::getpid());
};

TEST_F(TableLeveldbTest, LevelDbReadsOurs) {
  for (const size_t n : {1, 20, 5000}) {
    const Contents contents = RandomContents(1, n);
    const auto file = Env::Posix().NewWritableFile(path_);
    TableWriter writer(**file);
    for (const auto& [key, value] : contents) ASSERT_EQ(writer.Add(key, value), Status::Ok());
    ASSERT_EQ(writer.Finish(), Status::Ok());
    ASSERT_EQ((*file)->Close(), Status::Ok());
    leveldb::RandomAccessFile* raw_file = nullptr;
    ASSERT_TRUE(leveldb::Env::Default()->NewRandomAccessFile(path_, &raw_file).ok());
    const std::unique_ptr<leveldb::RandomAccessFile> input(raw_file);
    leveldb::Table* raw_table = nullptr;
    leveldb::Options options;
    options.paranoid_checks = true;
    ASSERT_TRUE(
        leveldb::Table::Open(options, input.get(), Env::Posix().Stat(path_)->length, &raw_table).ok());
    const std::unique_ptr<leveldb::Table> table(raw_table);
    leveldb::ReadOptions read;
    read.verify_checksums = true;
    const std::unique_ptr<leveldb::Iterator> it(table->NewIterator(read));
    Contents found;
    for (it->SeekToFirst(); it->Valid(); it->Next())
      found.emplace(it->key().ToString(), it->value().ToString());
    ASSERT_TRUE(it->status().ok()) << it->status().ToString();
    EXPECT_EQ(found, contents);
  }
}

TEST_F(TableLeveldbTest, WeReadLevelDbs) {
  for (const size_t block_size : {200, 4096, 256 << 10}) {
    for (const auto compression : {leveldb::kNoCompression, leveldb::kSnappyCompression}) {
      const Contents contents = RandomContents(2, 3000);
      leveldb::WritableFile* raw_file = nullptr;
      ASSERT_TRUE(leveldb::Env::Default()->NewWritableFile(path_, &raw_file).ok());
      const std::unique_ptr<leveldb::WritableFile> output(raw_file);
      leveldb::Options options;
      options.block_size = block_size;
      options.compression = compression;
      leveldb::TableBuilder builder(options, output.get());
      for (const auto& [key, value] : contents) builder.Add(key, value);
      ASSERT_TRUE(builder.Finish().ok());
      ASSERT_TRUE(output->Close().ok());
      const auto table = TableReader::Open(Env::Posix(), path_);
      ASSERT_TRUE(table.ok()) << table.status();
      for (const auto& [key, value] : contents) {
        const auto found = (*table)->Get(key);
        ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
        ASSERT_EQ(**found, value);
      }
      Contents walked;
      ASSERT_EQ((*table)->Start(), Status::Ok());
      while (true) {
        const auto there = (*table)->Next();
        ASSERT_TRUE(there.ok()) << there.status();
        if (!*there) break;
        walked.emplace((*table)->key(), (*table)->value());
      }
      EXPECT_EQ(walked, contents);
    }
  }
}

}  // namespace
}  // namespace millrace::io
