// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Bundles whose bytes are written by hand, by the definition of the format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "io/checkpoint/bundle.h"
#include "io/checkpoint/checkpoint_testing.h"
#include "tensor/testing.h"

namespace millrace::io {
namespace {

using ::testing::HasSubstr;
using testing_bytes::BundleHeader;
using testing_bytes::Entries;
using testing_bytes::Field;
using testing_bytes::LittleEndian;
using testing_bytes::MaskedCrc;
using testing_bytes::Varint;

constexpr int kFloat = 1, kInt32 = 3, kString = 7, kComplex64 = 8, kVariant = 21;

std::string Floats(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += LittleEndian(std::bit_cast<uint32_t>(value), 4);
  return bytes;
}

// The bytes of a tensor of strings, and the checksum of its entry.
std::string Strings(const std::vector<std::string>& values, uint32_t* crc) {
  std::string lengths, summed, text;
  for (const std::string& value : values) {
    lengths += Varint(value.size());
    summed += LittleEndian(value.size(), 4);
    text += value;
  }
  const std::string sum = LittleEndian(MaskedCrc(summed), 4);
  *crc = MaskedCrc(summed + sum + text);
  return lengths + sum + text;
}

class BundleGoldenTest : public ::testing::Test {
 protected:
  void Put(const std::string& path, const std::string& bytes) {
    ASSERT_EQ(WriteFileAtomically(env_, path, bytes), Status::Ok());
  }
  StatusOr<Tensor> Read(const std::string& name) {
    MR_ASSIGN_OR_RETURN(const auto reader, BundleReader::Open(env_, "/p"));
    return reader->Read(name);
  }
  std::string Error(const std::string& name) { return Read(name).status().ToString(); }
  // A checkpoint of one tensor "t".
  void PutOne(int dtype, const std::vector<int64_t>& dims, const std::string& data, uint32_t crc,
              bool big_endian = false) {
    Put("/p.data-00000-of-00001", data);
    Put("/p.index",
        testing_bytes::Table(Entries{{"", BundleHeader(big_endian)},
                                     {"t", testing_bytes::BundleEntry(dtype, dims, 0, data, crc)}}));
  }

  MemEnv env_;
};

TEST_F(BundleGoldenTest, FilesMadeByHandAreRead) {
  uint32_t string_crc;
  const std::string w = Floats({1.5f, -2, 0, 3e30f, 5, 6}),
                    s = Strings({"", "ab", std::string(300, 'x')}, &string_crc);
  Put("/p.data-00000-of-00001", w + s);
  Put("/p.index", testing_bytes::Table(Entries{
                      {"", BundleHeader()},
                      {"empty", testing_bytes::BundleEntry(kFloat, {0, 4}, 0, "", 0xa282ead8)},
                      {"s", testing_bytes::BundleEntry(kString, {3}, w.size(), s, string_crc)},
                      {"w", testing_bytes::BundleEntry(kFloat, {2, 3}, 0, w, MaskedCrc(w))},
                  }));
  const auto read_w = Read("w");
  ASSERT_TRUE(read_w.ok()) << read_w.status();
  ExpectTensorEqual(AsTensor<float>({1.5f, -2, 0, 3e30f, 5, 6}, TensorShape({2, 3})), *read_w);
  const auto read_s = Read("s");
  ASSERT_TRUE(read_s.ok()) << read_s.status();
  ExpectTensorEqual(AsTensor<std::string>({"", "ab", std::string(300, 'x')}), *read_s);
  const auto empty = Read("empty");
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->shape(), TensorShape({0, 4}));
  EXPECT_THAT(Error("v"), HasSubstr("Not found: Key v not found in checkpoint"));
  EXPECT_THAT(Error(""), HasSubstr("Not found: Key  not found in checkpoint"));
}

TEST_F(BundleGoldenTest, TheWrittenBytesMatchTheFormat) {
  const auto writer = BundleWriter::Open(env_, "/p");
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::vector<std::string> texts{"a", std::string(200, 'b'), ""};
  ASSERT_EQ((*writer)->Add("w", AsTensor<float>({1, 2})), Status::Ok());
  ASSERT_EQ((*writer)->Add("t", AsTensor<std::string>(texts)), Status::Ok());
  ASSERT_EQ((*writer)->Add("z", AsScalar<float>(7)), Status::Ok());
  ASSERT_EQ((*writer)->Finish(), Status::Ok());
  uint32_t string_crc;
  const std::string w = Floats({1, 2}), t = Strings(texts, &string_crc), z = Floats({7});
  EXPECT_EQ(*ReadFileToString(env_, "/p.data-00000-of-00001"), w + t + z);
  // Short keys without common prefixes, and one restart point.
  const Entries entries{{"", BundleHeader()},
                        {"t", testing_bytes::BundleEntry(kString, {3}, w.size(), t, string_crc)},
                        {"w", testing_bytes::BundleEntry(kFloat, {2}, 0, w, MaskedCrc(w))},
                        {"z", testing_bytes::BundleEntry(kFloat, {}, w.size() + t.size(), z, MaskedCrc(z))}};
  std::string block;
  for (const auto& [key, value] : entries) {
    block += Varint(0) + Varint(key.size()) + Varint(value.size()) + key + value;
  }
  block += LittleEndian(0, 4) + LittleEndian(1, 4);
  EXPECT_EQ(*ReadFileToString(env_, "/p.index"),
            testing_bytes::TableOfBlocks({std::pair(std::string("{"), testing_bytes::Stored(block))}));
  EXPECT_THAT(*env_.GetChildren("/"), ::testing::ElementsAre("p.data-00000-of-00001", "p.index"));
}

TEST_F(BundleGoldenTest, VariantsAreMessagesWithSums) {
  // VariantTensorDataProto { type_name, metadata }.
  std::string data, summed;
  for (const char* metadata : {"one", ""}) {
    const std::string message =
        Field(1, std::string("test::Kind")) + (*metadata != 0 ? Field(2, std::string(metadata)) : "");
    data += Varint(message.size()) + message;
    summed += LittleEndian(message.size(), 8) + message;
    const std::string sum = LittleEndian(MaskedCrc(summed), 4);
    data += sum;
    summed += sum;
  }
  PutOne(kVariant, {2}, data, MaskedCrc(summed));
  const auto read = Read("t");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->data<Variant>()[0].TypeName(), "test::Kind");
  EXPECT_EQ(read->data<Variant>()[0].Encode().metadata, "one");
  EXPECT_EQ(read->data<Variant>()[1].Encode().metadata, "");
  // Writing the entries again gives the same bytes.
  const auto writer = BundleWriter::Open(env_, "/q");
  ASSERT_EQ((*writer)->Add("t", *read), Status::Ok());
  ASSERT_EQ((*writer)->Finish(), Status::Ok());
  EXPECT_EQ(*ReadFileToString(env_, "/q.data-00000-of-00001"), data);
  EXPECT_THAT(*ReadFileToString(env_, "/q.index"),
              HasSubstr(testing_bytes::BundleEntry(kVariant, {2}, 0, data, MaskedCrc(summed))));
}

TEST_F(BundleGoldenTest, TheOtherByteOrderIsRead) {
  std::string complex = Floats({1, 2, 3, 4});
  for (size_t i = 0; i < complex.size(); i += 4) std::reverse(complex.begin() + i, complex.begin() + i + 4);
  PutOne(kComplex64, {2}, complex, MaskedCrc(complex), /*big_endian=*/true);
  auto read = Read("t");
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectTensorEqual(AsTensor<complex64>({{1, 2}, {3, 4}}), *read);

  const std::string lengths("\0\0\0\1\0\0\0\2", 8);
  std::string sum = LittleEndian(MaskedCrc(lengths), 4);
  std::reverse(sum.begin(), sum.end());
  PutOne(kString, {2}, "\1\2" + sum + "abc", MaskedCrc(lengths + sum + "abc"), /*big_endian=*/true);
  read = Read("t");
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectTensorEqual(AsTensor<std::string>({"a", "bc"}), *read);
}

TEST_F(BundleGoldenTest, SlicesStandUnderTheirOrderedCode) {
  const std::string top = Floats({1, 2, 3}), rest = Floats({4, 5, 6, 7, 8, 9});
  Put("/p.data-00000-of-00001", rest + top);
  const std::string list =
      Field(7, testing_bytes::Slice({{0, 1}, {0, -1}})) + Field(7, testing_bytes::Slice({{1, 2}, {0, -1}}));
  Put("/p.index", testing_bytes::Table(Entries{
                      {"", BundleHeader()},
                      {std::string("\0w\0\1\1\2\x80\x81\x80\x7f", 10),
                       testing_bytes::BundleEntry(kFloat, {1, 3}, rest.size(), top, MaskedCrc(top))},
                      {std::string("\0w\0\1\1\2\x81\x82\x80\x7f", 10),
                       testing_bytes::BundleEntry(kFloat, {2, 3}, 0, rest, MaskedCrc(rest))},
                      {"w", testing_bytes::BundleEntry(kFloat, {3, 3}, 0, "", 0, list)},
                  }));
  const auto all = Read("w");
  ASSERT_TRUE(all.ok()) << all.status();
  ExpectTensorEqual(AsTensor<float>({1, 2, 3, 4, 5, 6, 7, 8, 9}, TensorShape({3, 3})), *all);
  const auto reader = BundleReader::Open(env_, "/p");
  const auto part = (*reader)->ReadSlice("w", *TensorSlice::Parse("0,2:1,2"));
  ASSERT_TRUE(part.ok()) << part.status();
  ExpectTensorEqual(AsTensor<float>({2, 3, 5, 6}, TensorShape({2, 2})), *part);
  // The writer's list of slices is the same.
  const auto writer = BundleWriter::Open(env_, "/q");
  const TensorShape full({3, 3});
  ASSERT_EQ((*writer)->AddSlice("w", full, *TensorSlice::Parse("0,1:-"),
                                AsTensor<float>({1, 2, 3}, TensorShape({1, 3}))),
            Status::Ok());
  ASSERT_EQ((*writer)->AddSlice("w", full, *TensorSlice::Parse("1,2:-"),
                                AsTensor<float>({4, 5, 6, 7, 8, 9}, TensorShape({2, 3}))),
            Status::Ok());
  ASSERT_EQ((*writer)->Finish(), Status::Ok());
  EXPECT_THAT(*ReadFileToString(env_, "/q.index"),
              HasSubstr(testing_bytes::BundleEntry(kFloat, {3, 3}, 0, "", 0, list)));
}

TEST_F(BundleGoldenTest, ErrorsHaveTheMessagesOfTensorFlow) {
  const std::string data = LittleEndian(5, 4);
  PutOne(kInt32, {}, data, MaskedCrc(data));
  EXPECT_EQ(Read("t")->scalar<int32_t>(), 5);
  PutOne(kInt32, {}, data, MaskedCrc(data) + 1);
  EXPECT_THAT(Error("t"),
              HasSubstr("Data loss: TensorBundle at /p shard 0 (4 bytes): Checksum does not match: stored "));
  EXPECT_THAT(Error("t"), HasSubstr(" vs. calculated on the restored bytes "));
  PutOne(kInt32, {2}, data, MaskedCrc(data));
  EXPECT_THAT(Error("t"), HasSubstr("Invalid size in bundle entry"));
  PutOne(kInt32, {-1}, data, MaskedCrc(data));
  EXPECT_THAT(Error("t"), HasSubstr("Invalid tensor shape: t"));
  PutOne(99, {}, data, MaskedCrc(data));
  EXPECT_THAT(Error("t"), HasSubstr("Invalid dtype: t"));
  PutOne(kInt32 + 100, {}, data, MaskedCrc(data));
  EXPECT_THAT(Error("t"), HasSubstr("Invalid dtype: t"));
  PutOne(20, {}, data, MaskedCrc(data));
  EXPECT_THAT(Error("t"), HasSubstr("Restoring data type resource not yet supported"));
  PutOne(kInt32, {int64_t{1} << 40}, data, MaskedCrc(data));
  EXPECT_THAT(Error("t"), HasSubstr("Data loss"));
  PutOne(kString, {1 << 30}, data, MaskedCrc(data));
  EXPECT_THAT(Error("t"), HasSubstr("too few"));
  uint32_t crc;
  std::string text = Strings({"abc"}, &crc);
  text[1] = static_cast<char>(text[1] ^ 1);
  PutOne(kString, {1}, text, crc);
  EXPECT_THAT(Error("t"), HasSubstr("The length checksum does not match: expected "));
  PutOne(kString, {1}, std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12), 0);
  EXPECT_THAT(Error("t"), HasSubstr("malformed"));

  PutOne(kInt32, {}, data, MaskedCrc(data));
  Put("/p.data-00000-of-00001", "abc");
  EXPECT_THAT(Error("t"), HasSubstr("truncated"));
  ASSERT_EQ(env_.DeleteFile("/p.data-00000-of-00001"), Status::Ok());
  EXPECT_THAT(Error("t"), HasSubstr("/p.data-00000-of-00001; No such file"));
  Put("/p.index", testing_bytes::Table(Entries{{"a", ""}}));
  EXPECT_THAT(Error("t"),
              HasSubstr("Unable to read file (/p.index). Perhaps the file is corrupt or was produced by a "
                        "newer version of TensorFlow with format changes (failed to seek to header entry)"));
  Put("/p.index", testing_bytes::Table(Entries{{"", "\xff"}}));
  EXPECT_THAT(Error("t"), HasSubstr("unable to parse header"));
  Put("/p.index", testing_bytes::Table(Entries{{"", Field(1, 1) + Field(3, Field(1, 9) + Field(2, 7))}}));
  EXPECT_THAT(Error("t"), HasSubstr("Checkpoint min consumer version 7 above current version 1"));
  Put("/p.index", testing_bytes::Table(Entries{{"", Field(1, 1) + Field(3, Field(1, 9) + Field(3, 1))}}));
  EXPECT_THAT(Error("t"), HasSubstr("Checkpoint disallows consumer version 1"));
  Put("/p.index",
      testing_bytes::Table(Entries{{"", BundleHeader()}, {"t", Field(1, 1) + Field(2, "") + Field(3, 5)}}));
  EXPECT_THAT(Error("t"), HasSubstr("an entry is in shard 5 of 1"));
}

TEST_F(BundleGoldenTest, HostileSlicesTakeNoMemory) {
  // 1000 rows of 1 MB each that are all the same 1 MB of the file.
  constexpr int64_t kRow = 1 << 20;
  const std::string row(kRow, 'x');
  Entries entries{{"", BundleHeader()}};
  std::string list;
  for (int64_t i = 0; i < 1000; ++i) {
    list += Field(7, testing_bytes::Slice({{i, 1}, {0, -1}}));
    entries.emplace_back(SliceKey("w", *TensorSlice::Parse(StrCat(i, ",1:-"))),
                         testing_bytes::BundleEntry(4, {1, kRow}, 0, row, 1));
  }
  std::sort(entries.begin(), entries.end());
  entries.emplace_back("w", testing_bytes::BundleEntry(4, {1000, kRow}, 0, "", 0, list));
  Put("/p.data-00000-of-00001", row);
  Put("/p.index", testing_bytes::Table(entries));
  EXPECT_THAT(Error("w"), HasSubstr("overlap in the data files"));
}

}  // namespace
}  // namespace millrace::io
