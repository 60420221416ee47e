// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/records.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tensorflow/core/example/example.pb.h"

namespace millrace {
namespace {

std::string Path(const std::string& name) { return testing::TempDir() + "/" + name; }

TEST(RecordFilesTest, WhatIsWrittenIsRead) {
  for (const RecordCompression compression :
       {RecordCompression::kNone, RecordCompression::kZlib, RecordCompression::kGzip}) {
    const std::string path = Path("records");
    auto writer = RecordWriter::Open(path, compression);
    ASSERT_TRUE(writer.ok()) << writer.status();
    const std::vector<std::string> records = {"first", "", std::string(100000, '\0')};
    for (const std::string& record : records) ASSERT_EQ((*writer)->Write(record), Status());
    EXPECT_EQ((*writer)->Flush(), Status());
    EXPECT_EQ((*writer)->Close(), Status());
    EXPECT_EQ((*writer)->Close(), Status());
    EXPECT_TRUE(errors::IsFailedPrecondition((*writer)->Write("late")));
    EXPECT_TRUE(errors::IsFailedPrecondition((*writer)->Flush()));

    auto reader = RecordReader::Open(path, compression);
    ASSERT_TRUE(reader.ok()) << reader.status();
    std::string record;
    uint64_t second = 0;
    for (size_t i = 0; i < records.size(); ++i) {
      ASSERT_EQ((*reader)->Read(&record), Status());
      EXPECT_EQ(record, records[i]);
      if (i == 0) second = (*reader)->offset();
    }
    EXPECT_TRUE(errors::IsOutOfRange((*reader)->Read(&record)));
    EXPECT_EQ(second, 8u + 4 + 5 + 4);  // length, its checksum, the data, their checksum
    auto again = RecordReader::Open(path, compression);
    ASSERT_TRUE(again.ok());
    ASSERT_EQ((*again)->SkipTo(second), Status());
    ASSERT_EQ((*again)->Read(&record), Status());
    EXPECT_EQ(record, "");
  }
}

TEST(ExampleTest, ListsMayBeWrittenOut) {
  Example example;
  example.Set("ints", {1, 2}).Set("large", {int64_t{1} << 40, int64_t{2}}).Set("floats", {0.5f, 1.5f});
  example.Set("doubles", {0.25, 2.0}).Set("texts", {"a", "bc"});
  EXPECT_EQ(*example.Ints("ints"), std::vector<int64_t>({1, 2}));
  EXPECT_EQ(*example.Ints("large"), std::vector<int64_t>({int64_t{1} << 40, 2}));
  EXPECT_EQ(*example.Floats("floats"), std::vector<float>({0.5f, 1.5f}));
  EXPECT_EQ(*example.Floats("doubles"), std::vector<float>({0.25f, 2.0f}));
  EXPECT_EQ(*example.Strings("texts"), std::vector<std::string>({"a", "bc"}));
}

TEST(RecordFilesTest, ErrorsNameTheFile) {
  EXPECT_TRUE(errors::IsNotFound(RecordReader::Open(Path("no/such/file")).status()));
  EXPECT_FALSE(RecordWriter::Open(Path("no/such/folder/file")).ok());
  const std::string path = Path("broken");
  std::ofstream(path) << "this is no file of records at all";
  auto reader = RecordReader::Open(path);
  ASSERT_TRUE(reader.ok());
  std::string record;
  const Status status = (*reader)->Read(&record);
  EXPECT_TRUE(errors::IsDataLoss(status)) << status;
  EXPECT_NE(status.ToString().find(path), std::string::npos) << status;
}

TEST(ExampleTest, BytesAreThoseOfTheMessage) {
  Example example;
  example.Set("label", 7)
      .Set("name", "seven")
      .Set("pixels", std::vector<float>{0.5f, -1})
      .Set("weight", 0.25);
  example.Set("none", std::vector<int64_t>());
  tensorflow::Example message;
  ASSERT_TRUE(message.ParseFromString(example.Serialize()));
  const auto& features = message.features().feature();
  ASSERT_EQ(features.size(), 5u);
  EXPECT_EQ(features.at("label").int64_list().value(0), 7);
  EXPECT_EQ(features.at("name").bytes_list().value(0), "seven");
  EXPECT_EQ(features.at("pixels").float_list().value(1), -1);
  EXPECT_EQ(features.at("weight").float_list().value(0), 0.25f);
  EXPECT_TRUE(features.at("none").has_int64_list());
  EXPECT_EQ(features.at("none").int64_list().value_size(), 0);
  EXPECT_EQ(example.Serialize(), Example(example).Serialize());
}

TEST(ExampleTest, ParsedExamplesAreEqual) {
  Example example;
  EXPECT_EQ(example.Serialize(), std::string("\x0a\0", 2));  // field 1, empty
  example.Set("long", std::string(1000, 'x')).Set("ids", std::vector<int64_t>{1, -2, int64_t{1} << 40});
  const auto parsed = Example::Parse(example.Serialize());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, example);
  EXPECT_EQ(*parsed->Ints("ids"), (std::vector<int64_t>{1, -2, int64_t{1} << 40}));
  EXPECT_EQ(parsed->Strings("long")->front().size(), 1000u);
  EXPECT_TRUE(errors::IsNotFound(parsed->Floats("weights").status()));
  EXPECT_TRUE(errors::IsInvalidArgument(parsed->Floats("ids").status()));
}

TEST(ExampleTest, AnyBytesGiveAStatus) {
  EXPECT_TRUE(errors::IsDataLoss(Example::Parse("\xff\xff\xff").status()));
  const auto empty = Example::Parse("");
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(empty->features().empty());
  // A feature without any kind set.
  const auto parsed = Example::Parse(std::string("\x0a\x07\x0a\x05\x0a\x01k\x12\0", 9));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->Floats("k")->empty());
  EXPECT_TRUE(parsed->Ints("k")->empty());
}

}  // namespace
}  // namespace millrace
