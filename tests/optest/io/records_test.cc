// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Compressed strings and records of many files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/env.h"
#include "io/record_file.h"
#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

// Compressed by zlib 1.2.13 from "millrace" three times, and by gzip from "water".
const std::string& Zlib() {
  static const std::string bytes(
      "x\x9c\xcb\xcd\xcc\xc9)JLN\xcd"
      "E\xa3\x01{\xf3\x09\xdc",
      18);
  return bytes;
}
const std::string& Gzip() {
  static const std::string bytes(
      "\x1f\x8b\x08\0\0\0\0\0\x02\xff+O,I-\x02\0\xda\x14"
      "3\xfb\x05\0\0\0",
      25);
  return bytes;
}

StatusOr<Tensor> Decompress(const std::string& compression, const std::vector<std::string>& strings) {
  return KernelRunner("DecodeCompressed")
      .Attr("compression_type", compression)
      .Input(Tensor::Vector<std::string>(strings))
      .RunOne();
}

TEST(DecodeCompressedTest, UnpacksEachString) {
  auto got = Decompress("ZLIB", {Zlib(), Zlib()});
  ASSERT_TRUE(got.ok()) << got.status();
  const std::string text = "millracemillracemillrace";
  ExpectTensorEqual(Tensor::Vector<std::string>({text, text}), *got);
  got = Decompress("GZIP", {Gzip()});
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectTensorEqual(Tensor::Vector<std::string>({"water"}), *got);
  got = Decompress("", {"as it is"});
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectTensorEqual(Tensor::Vector<std::string>({"as it is"}), *got);
}

TEST(DecodeCompressedTest, RefusesWhatIsMalformedOrUnknown) {
  EXPECT_EQ(Decompress("ZLIB", {Zlib().substr(0, 9)}).status().code(), ErrorCode::kDataLoss);
  EXPECT_EQ(Decompress("GZIP", {Zlib()}).status().code(), ErrorCode::kDataLoss);
  EXPECT_EQ(Decompress("LZ4", {""}).status(),
            errors::InvalidArgument("Only ZLIB, GZIP or NONE are supported compressions"));
}

class RecordInputTest : public testing::Test {
 protected:
  RecordInputTest() : folder_(std::filesystem::path(testing::TempDir()) / "record_input_test") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~RecordInputTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::vector<std::string>& records) {
    auto file = Env::Posix().NewWritableFile((folder_ / name).string());
    ASSERT_TRUE(file.ok()) << file.status();
    io::RecordWriter writer(**file, io::Compression::kNone);
    for (const std::string& record : records) ASSERT_EQ(writer.Write(record), Status());
    ASSERT_EQ(writer.Close(), Status());
    ASSERT_EQ((*file)->Close(), Status());
  }
  std::string Pattern() const { return (folder_ / "*").string(); }

  const std::filesystem::path folder_;
};

TEST_F(RecordInputTest, EveryRecordComesOnceInEachEpoch) {
  std::multiset<std::string> all;
  for (const char* file : {"a", "b", "c", "d", "e", "f"}) {
    std::vector<std::string> records;
    records.reserve(5);
    for (int i = 0; i < 5; ++i) records.push_back(file + std::to_string(i));
    Write(file, records);
    all.insert(records.begin(), records.end());
  }
  for (const int buffer_size : {1, 4, 100}) {
    KernelRunner runner("RecordInput");
    runner.Attr("file_pattern", Pattern()).Attr("file_buffer_size", buffer_size).Attr("batch_size", 5);
    std::vector<std::vector<std::string>> epochs(2);
    for (auto& epoch : epochs) {
      for (int batch = 0; batch < 6; ++batch) {
        const auto got = runner.RunOne();
        ASSERT_TRUE(got.ok()) << got.status();
        ASSERT_EQ(got->shape(), TensorShape({5}));
        const auto values = got->flat<std::string>();
        epoch.insert(epoch.end(), values.begin(), values.end());
      }
      EXPECT_EQ(std::multiset<std::string>(epoch.begin(), epoch.end()), all) << buffer_size;
    }
    if (buffer_size > 1) {
      EXPECT_FALSE(std::is_sorted(epochs[0].begin(), epochs[0].end()));
    }
    EXPECT_NE(epochs[0], epochs[1]);
  }
}

TEST_F(RecordInputTest, NamesMissingParts) {
  const auto run = [&](int batch_size) {
    return KernelRunner("RecordInput")
        .Attr("file_pattern", Pattern())
        .Attr("batch_size", batch_size)
        .Run()
        .status();
  };
  EXPECT_EQ(run(1), errors::NotFound("Found no files at ", Pattern()));
  Write("empty", {});
  EXPECT_EQ(run(1), errors::OutOfRange("No records in the files at ", Pattern()));
  EXPECT_EQ(run(0).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace
