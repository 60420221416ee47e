// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/record_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/checkpoint/coding.h"
#include "io/crc32c.h"

namespace millrace::io {
namespace {

using ::testing::HasSubstr;

std::string RecordsFile(MemEnv& env, const std::vector<std::string>& records,
                        Compression compression = Compression::kNone, const std::string& path = "/f") {
  auto file = env.NewWritableFile(path);
  EXPECT_TRUE(file.ok());
  RecordWriter writer(**file, compression);
  for (const std::string& record : records) EXPECT_TRUE(writer.Write(record).ok());
  EXPECT_TRUE(writer.Close().ok());
  EXPECT_TRUE((*file)->Close().ok());
  return *ReadFileToString(env, path);
}

std::vector<std::string> ManyRecords() {
  std::vector<std::string> records;
  for (int i = 0; i < 200; ++i)
    records.push_back(std::string(static_cast<size_t>(i * 37 % 300), 'a' + i % 26));
  return records;
}

std::string WithSum(std::string bytes) {
  PutFixed32(MaskCrc(Crc32c(bytes)), &bytes);
  return bytes;
}

class RecordIndexCompressionTest : public ::testing::TestWithParam<Compression> {};

TEST_P(RecordIndexCompressionTest, FindsEveryRecordInAnyOrder) {
  MemEnv env;
  const std::vector<std::string> records = ManyRecords();
  RecordsFile(env, records, GetParam());
  auto index = RecordIndex::Build(env, "/f", GetParam());
  ASSERT_TRUE(index.ok()) << index.status();
  ASSERT_EQ(index->size(), records.size());
  ASSERT_TRUE(index->Save(env, "/f.idx").ok());
  auto loaded = RecordIndex::Load(env, "/f.idx");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  uint64_t data_bytes = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(loaded->length(i), records[i].size());
    EXPECT_EQ(loaded->offset(i), data_bytes + 16 * i);
    data_bytes += records[i].size();
  }
  EXPECT_EQ(loaded->data_bytes(), data_bytes);
  auto reader = IndexedRecordReader::Open(env, "/f", *std::move(loaded));
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (size_t i = 0; i < records.size(); ++i) {
    const size_t at = i * 77 % records.size();
    std::string record;
    ASSERT_TRUE((*reader)->Read(at, &record).ok());
    EXPECT_EQ(record, records[at]) << at;
  }
  std::string record = "x";
  EXPECT_EQ((*reader)->Read(records.size(), &record).code(), ErrorCode::kOutOfRange);
  EXPECT_EQ(record, "");
}

INSTANTIATE_TEST_SUITE_P(All, RecordIndexCompressionTest,
                         ::testing::Values(Compression::kNone, Compression::kZlib, Compression::kGzip));

TEST(RecordIndexTest, AnEmptyFileHasNoRecords) {
  MemEnv env;
  RecordsFile(env, {});
  const auto index = RecordIndex::Build(env, "/f", Compression::kNone);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->size(), 0u);
  EXPECT_EQ(index->data_bytes(), 0u);
  EXPECT_TRUE(RecordIndex::Parse(index->Bytes(), "x").ok());
}

TEST(RecordIndexTest, ATruncatedFileIsRefusedWithTheOffset) {
  MemEnv env;
  const std::string bytes = RecordsFile(env, {"one", "two"});
  for (size_t n = bytes.size() / 2 + 1; n < bytes.size(); ++n) {
    ASSERT_TRUE(WriteFileAtomically(env, "/f", bytes.substr(0, n)).ok());
    const Status status = RecordIndex::Build(env, "/f", Compression::kNone).status();
    EXPECT_EQ(status.code(), ErrorCode::kDataLoss) << n;
    EXPECT_THAT(status.message(), HasSubstr("truncated record at 19")) << n;
  }
}

TEST(RecordIndexTest, AHugeLengthIsATruncatedRecord) {
  MemEnv env;
  std::string header;
  PutFixed64(UINT64_MAX - 3, &header);
  ASSERT_TRUE(WriteFileAtomically(env, "/f", WithSum(header) + "rest").ok());
  EXPECT_EQ(RecordIndex::Build(env, "/f", Compression::kNone).status().code(), ErrorCode::kDataLoss);
}

TEST(RecordIndexTest, BrokenDataIsFoundWhenTheRecordIsRead) {
  MemEnv env;
  std::string bytes = RecordsFile(env, {"one", "two"});
  bytes[19 + 12] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(env, "/f", bytes).ok());
  auto index = RecordIndex::Build(env, "/f", Compression::kNone);
  ASSERT_TRUE(index.ok()) << index.status();
  auto reader = IndexedRecordReader::Open(env, "/f", *std::move(index));
  std::string record;
  EXPECT_TRUE((*reader)->Read(0, &record).ok());
  const Status status = (*reader)->Read(1, &record);
  EXPECT_EQ(status.code(), ErrorCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("corrupted record at 19 (in file /f)"));
}

TEST(RecordIndexTest, AnIndexOfAnotherFileIsNoticed) {
  MemEnv env;
  RecordsFile(env, {"one", "three"});
  RecordsFile(env, {"three", "one"}, Compression::kNone, "/same_size");
  RecordsFile(env, {"one"}, Compression::kNone, "/shorter");
  const auto index = RecordIndex::Build(env, "/f", Compression::kNone);
  EXPECT_EQ(IndexedRecordReader::Open(env, "/shorter", *index).status().code(),
            ErrorCode::kFailedPrecondition);
  auto reader = IndexedRecordReader::Open(env, "/same_size", *index);
  ASSERT_TRUE(reader.ok());
  std::string record;
  EXPECT_THAT((*reader)->Read(0, &record).message(), HasSubstr("its index says 3"));
  EXPECT_EQ((*reader)->Read(1, &record).code(), ErrorCode::kDataLoss);
}

TEST(RecordIndexTest, BrokenIndexesAreRefused) {
  MemEnv env;
  RecordsFile(env, ManyRecords());
  const std::string good = RecordIndex::Build(env, "/f", Compression::kNone)->Bytes();
  EXPECT_EQ(RecordIndex::Parse("", "x").status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(RecordIndex::Parse("MRRECIX0", "x").status().code(), ErrorCode::kInvalidArgument);
  for (size_t n = 8; n < good.size(); ++n) {
    EXPECT_EQ(RecordIndex::Parse(good.substr(0, n), "x").status().code(), ErrorCode::kDataLoss) << n;
    std::string flipped = good;
    flipped[n] ^= 4;
    EXPECT_EQ(RecordIndex::Parse(flipped, "x").status().code(), ErrorCode::kDataLoss) << n;
    // The same with a correct checksum.
    if (n + 4 < good.size()) {
      EXPECT_FALSE(RecordIndex::Parse(WithSum(good.substr(0, n)), "x").ok()) << n;
    }
  }
}

TEST(RecordIndexTest, NumbersOfAHostileIndexAreChecked) {
  const auto parse = [](std::initializer_list<uint64_t> numbers) {
    std::string bytes = "MRRECIX1";
    for (const uint64_t number : numbers) PutVarint(number, &bytes);
    return RecordIndex::Parse(WithSum(bytes), "x").status().ToString();
  };
  EXPECT_THAT(parse({0, 17, 1, 1}), "OK");
  EXPECT_THAT(parse({0, 18, 1, 1}), HasSubstr("do not fill the file"));
  EXPECT_THAT(parse({3, 17, 1, 1}), HasSubstr("unknown compression"));
  EXPECT_THAT(parse({0, 17, uint64_t{1} << 60, 1}), HasSubstr("ends early"));
  EXPECT_THAT(parse({1, 17, 2, UINT64_MAX - 16, 1}), HasSubstr("too long"));
  EXPECT_THAT(parse({1, 17, 1, 1, 1}), HasSubstr("bytes after its end"));
}

}  // namespace
}  // namespace millrace::io
