// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The first format of checkpoints, and readers of both.
#include "io/checkpoint/slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "io/checkpoint/checkpoint_reader.h"
#include "io/checkpoint/checkpoint_testing.h"
#include "io/checkpoint/slices_codec.h"
#include "tensor/testing.h"

namespace millrace::io {
namespace {

using ::testing::HasSubstr;
using testing_bytes::Entries;
using testing_bytes::Field;
using testing_bytes::LittleEndian;
using testing_bytes::Shape;
using testing_bytes::Slice;

// SavedTensorSlices { data { name slice data { float_val } } }.
std::string FloatRecord(const std::string& name, const std::string& slice, const std::vector<float>& values) {
  std::string list;
  for (const float value : values) list += LittleEndian(std::bit_cast<uint32_t>(value), 4);
  return Field(2, Field(1, name) + Field(2, slice) + Field(3, Field(5, list)));
}
// SavedSliceMeta { name shape type slice }.
std::string Meta(const std::string& name, const std::vector<int64_t>& dims, int dtype,
                 const std::vector<std::string>& slices) {
  std::string text = Field(1, name) + Field(2, Shape(dims)) + Field(3, static_cast<uint64_t>(dtype));
  for (const std::string& slice : slices) text += Field(4, slice);
  return Field(1, text);
}
std::string Header(const std::string& metas) { return Field(1, metas + Field(2, Field(1, 1))); }

class SlicesTest : public ::testing::Test {
 protected:
  void Put(const std::string& path, const Entries& entries) {
    ASSERT_EQ(WriteFileAtomically(env_, path, testing_bytes::Table(entries)), Status::Ok());
  }
  StatusOr<Tensor> Read(const std::string& pattern, const std::string& name, const char* slice) {
    MR_ASSIGN_OR_RETURN(const auto reader, SlicesReader::Open(env_, pattern));
    return reader->ReadSlice(name, *TensorSlice::Parse(slice));
  }
  MemEnv env_;
};

const std::string kTop = std::string("\0w\0\1\1\2\x80\x81\x80\x7f", 10),
                  kRest = std::string("\0w\0\1\1\2\x81\x82\x80\x7f", 10);

TEST_F(SlicesTest, FilesMadeByHandAreRead) {
  const std::string top = Slice({{0, 1}, {0, -1}}), rest = Slice({{1, 2}, {0, -1}});
  Put("/c/v1-00000-of-00002",
      {{"", Header(Meta("w", {3, 2}, 1, {top}))}, {kTop, FloatRecord("w", top, {1, 2})}});
  Put("/c/v1-00001-of-00002",
      {{"", Header(Meta("w", {3, 2}, 1, {rest}))}, {kRest, FloatRecord("w", rest, {3, 4, 5, 6})}});
  const auto all = Read("/c/v1-*-of-00002", "w", "-:-");
  ASSERT_TRUE(all.ok()) << all.status();
  ExpectTensorEqual(AsTensor<float>({1, 2, 3, 4, 5, 6}, TensorShape({3, 2})), *all);
  const auto column = Read("/c/v1-*-of-00002", "w", "0,2:1,1");
  ASSERT_TRUE(column.ok()) << column.status();
  ExpectTensorEqual(AsTensor<float>({2, 4}, TensorShape({2, 1})), *column);
  EXPECT_THAT(Read("/c/v1-00000*", "w", "-:-").status().ToString(), HasSubstr("Error copying slice data"));
  EXPECT_THAT(Read("/c/v1-00000*", "v", "-").status().ToString(),
              HasSubstr("v not found in checkpoint file"));
  // Slices are found in their file; missing ones are looked up in the other files.
  const auto reader = SlicesReader::Open(env_, "/c/v1-*", 1);
  EXPECT_TRUE((*reader)->ReadSlice("w", *TensorSlice::Parse("1,2:-")).ok());
  EXPECT_TRUE((*reader)->ReadSlice("w", *TensorSlice::Parse("-:-")).ok());
}

TEST_F(SlicesTest, TheWrittenBytesMatchTheFormat) {
  const std::string top = Slice({{0, 1}, {0, -1}});
  SlicesWriter writer(env_, "/d/v1");
  ASSERT_EQ(writer.Add("w", TensorShape({3, 2}), *TensorSlice::Parse("0,1:-"),
                       AsTensor<float>({7, 7}, TensorShape({1, 2}))),
            Status::Ok());
  ASSERT_EQ(writer.Finish(), Status::Ok());
  const auto table = TableReader::Open(env_, "/d/v1");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ((*table)->Get("")->value(), Header(Meta("w", {3, 2}, 1, {top})));
  // The list has every element, also equal ones at the end.
  EXPECT_EQ((*table)->Get(kTop)->value(), FloatRecord("w", top, {7, 7}));
}

TEST_F(SlicesTest, EveryTypeComesBack) {
  SlicesWriter writer(env_, "/v1");
  std::map<std::string, Tensor> tensors;
  std::mt19937 rng(1);
  for (const DataType dtype : kAllDataTypes) {
    Tensor tensor(dtype, TensorShape({3, 5}));
    if (!IsSliceType(dtype)) {
      EXPECT_THAT(writer.Add("x", TensorShape({3, 5}), TensorSlice::Full(2), tensor).ToString(),
                  HasSubstr(StrCat("Saving data type ", DataTypeName(dtype), " not yet supported")));
      continue;
    }
    for (int64_t i = 0; i < 15; ++i) {
      if (dtype == DataType::kString) {
        tensor.data<std::string>()[i].assign(rng() % 9, 'x');
      } else {
        char* const element =
            static_cast<char*>(tensor.raw_data()) + i * static_cast<int64_t>(DataTypeSize(dtype));
        for (size_t b = 0; b < DataTypeSize(dtype); ++b) element[b] = static_cast<char>(rng() % 100);
        if (dtype == DataType::kBool) *element = static_cast<char>(rng() % 2);
        if (IsIntegerType(dtype) && i % 3 == 0) element[DataTypeSize(dtype) - 1] = '\x9f';  // below zero
      }
    }
    tensors[DataTypeName(dtype)] = tensor;
    ASSERT_EQ(writer.Add(DataTypeName(dtype), TensorShape({3, 5}), TensorSlice::Full(2), tensor),
              Status::Ok());
  }
  tensors["scalar"] = AsScalar<double>(2.5);
  tensors["empty"] = Tensor(DataType::kFloat, TensorShape({0, 2}));
  for (const char* name : {"scalar", "empty"}) {
    const Tensor& tensor = tensors[name];
    ASSERT_EQ(writer.Add(name, tensor.shape(), TensorSlice::Full(tensor.rank()), tensor), Status::Ok());
  }
  EXPECT_FALSE(writer.Add("scalar", TensorShape(), TensorSlice::Full(0), AsScalar<double>(1)).ok());
  EXPECT_FALSE(writer.Add("scalar", TensorShape({1}), TensorSlice::Full(1), AsTensor<double>({1})).ok());
  EXPECT_FALSE(writer.Add("y", TensorShape({2}), TensorSlice::Full(1), AsTensor<double>({1})).ok());
  ASSERT_EQ(writer.Finish(), Status::Ok());
  const auto reader = CheckpointReader::Open(env_, "/v1");
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->variables().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const auto read = (*reader)->GetTensor(name);
    ASSERT_TRUE(read.ok()) << name << ": " << read.status();
    ExpectTensorEqual(tensor, *read);
  }
}

TEST_F(SlicesTest, TensorsMayBeReadWhenTheirTurnHasCome) {
  SlicesWriter writer(env_, "/later");
  std::string order;
  for (const char* name : {"b", "a"}) {
    ASSERT_EQ(writer.AddLater(name, TensorShape({2}), DataType::kFloat,
                              [&order, name]() -> StatusOr<Tensor> {
                                order += name;
                                return AsTensor<float>({1, 2});
                              }),
              Status::Ok());
  }
  EXPECT_EQ(order, "");
  ASSERT_EQ(writer.Finish(), Status::Ok());
  EXPECT_EQ(order, "ab");
  const auto read = Read("/later", "b", "-");
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectTensorEqual(AsTensor<float>({1, 2}), *read);

  SlicesWriter wrong(env_, "/wrong");
  const auto other = []() -> StatusOr<Tensor> { return AsTensor<float>({1, 2, 3}); };
  ASSERT_EQ(wrong.AddLater("a", TensorShape({2}), DataType::kFloat, other), Status::Ok());
  EXPECT_THAT(wrong.Finish().message(), HasSubstr("not as declared"));
  EXPECT_FALSE(env_.FileExists("/wrong"));
}

TEST_F(SlicesTest, HostileFilesEndInAStatus) {
  const std::string all = Slice({{0, -1}});
  const std::string key("\0w\0\1\1\1\x80\x7f", 8);
  const auto error = [&](const std::string& header, const std::string& record) {
    Put("/v1", {{"", header}, {key, record}});
    return Read("/v1", "w", "-").status().ToString();
  };
  const std::string good = FloatRecord("w", all, {1, 2});
  EXPECT_EQ(error(Header(Meta("w", {2}, 1, {all})), good), "OK");
  EXPECT_THAT(error(Header(Meta("w", {int64_t{1} << 40}, 1, {all})), good),
              HasSubstr("another number of elements"));
  EXPECT_THAT(error(Header(Meta("w", {3}, 1, {all})), good), HasSubstr("another number of elements"));
  EXPECT_THAT(error(Header(Meta("w", {2}, 3, {all})), good), HasSubstr("another number of elements"));
  EXPECT_THAT(error(Header(Meta("w", {2}, 77, {all})), good), HasSubstr("Invalid type or shape"));
  EXPECT_THAT(error(Header(Meta("w", {-2}, 1, {all})), good), HasSubstr("Invalid type or shape"));
  EXPECT_THAT(error(Header(Meta("w", {2}, 1, {Slice({{1, 9}})})), good),
              HasSubstr("Invalid slice of tensor w"));
  EXPECT_THAT(error(Header(Meta("w", {2}, 1, {all, all})), good), HasSubstr("Overlapping slices"));
  EXPECT_THAT(error(Header(Meta("w", {2}, 1, {})), good), HasSubstr("Error copying slice data"));
  EXPECT_THAT(error(Header(Meta("w", {2}, 1, {all})), "\xff"), HasSubstr("Failed to parse the record"));
  EXPECT_THAT(error("\xff", good), HasSubstr("Failed to find the saved tensor slices at the beginning"));
  EXPECT_THAT(error(Header(Meta("w", {2}, 1, {Slice({{0, 2}})})), good),
              HasSubstr("Failed to seek to the record"));
  EXPECT_THAT(error(Field(1, Field(2, Field(2, 9))), good), HasSubstr("Checkpoint min consumer version 9"));
  EXPECT_THAT(Read("/none*", "w", "-").status().ToString(),
              HasSubstr("Not found: Unsuccessful TensorSliceReader constructor: Failed to find any matching "
                        "files for /none*"));
  ASSERT_EQ(WriteFileAtomically(env_, "/v1", "short"), Status::Ok());
  EXPECT_THAT(Read("/v1", "w", "-").status().ToString(), HasSubstr("Unable to open table file /v1: "));
}

TEST_F(SlicesTest, CheckpointReadersKnowBothFormats) {
  const auto bundle = BundleWriter::Open(env_, "/v2");
  SlicesWriter slices(env_, "/v1");
  const TensorShape full({2, 2});
  ASSERT_EQ((*bundle)->Add("a", AsScalar<int64_t>(4)), Status::Ok());
  ASSERT_EQ(slices.Add("a", TensorShape(), TensorSlice::Full(0), AsScalar<int64_t>(4)), Status::Ok());
  for (const int row : {0, 1}) {
    const TensorSlice slice = *TensorSlice::Parse(StrCat(row, ",1:-"));
    const Tensor part = AsTensor<float>({row * 2.f, row * 2.f + 1}, TensorShape({1, 2}));
    ASSERT_EQ((*bundle)->AddSlice("w", full, slice, part), Status::Ok());
    ASSERT_EQ(slices.Add("w", full, slice, part), Status::Ok());
  }
  ASSERT_EQ((*bundle)->Finish(), Status::Ok());
  ASSERT_EQ(slices.Finish(), Status::Ok());
  for (const char* name : {"/v1", "/v2"}) {
    const auto reader = CheckpointReader::Open(env_, name);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->DebugString(), "a (DT_INT64) []\nw (DT_FLOAT) [2,2]\n");
    EXPECT_TRUE((*reader)->HasTensor("w"));
    EXPECT_FALSE((*reader)->HasTensor("b"));
    const auto w = (*reader)->GetTensor("w");
    ASSERT_TRUE(w.ok()) << w.status();
    ExpectTensorEqual(AsTensor<float>({0, 1, 2, 3}, full), *w);
    EXPECT_THAT((*reader)->GetTensor("b").status().message(), HasSubstr("not found in checkpoint"));
  }
  EXPECT_FALSE(CheckpointReader::Open(env_, "/none").ok());
}

TEST_F(SlicesTest, CheckpointReadersFindShardsByTheirPrefix) {
  for (const int shard : {0, 1}) {
    SlicesWriter writer(env_, StrCat("/model-0000", shard, "-of-00002"));
    ASSERT_EQ(writer.Add(StrCat("v", shard), TensorShape(), TensorSlice::Full(0), AsScalar<int64_t>(shard)),
              Status::Ok());
    ASSERT_EQ(writer.Finish(), Status::Ok());
  }
  const auto reader = CheckpointReader::Open(env_, "/model");
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->DebugString(), "v0 (DT_INT64) []\nv1 (DT_INT64) []\n");
}

}  // namespace
}  // namespace millrace::io
