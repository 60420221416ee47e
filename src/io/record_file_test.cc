// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/record_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <vector>

#include "io/crc32c.h"

namespace millrace::io {
namespace {

using ::testing::HasSubstr;

// From the definition, bit by bit: the remainder by the polynomial 0x1EDC6F41 with reflected input and
// output.
uint32_t BitwiseCrc(std::string_view data) {
  uint32_t crc = 0xffffffff;
  for (const char c : data) {
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t in = (static_cast<unsigned char>(c) >> bit) & 1;
      const uint32_t top = crc >> 31;
      crc = (crc << 1) ^ (top != in ? 0x1EDC6F41u : 0);
    }
  }
  uint32_t reflected = 0;
  for (int bit = 0; bit < 32; ++bit) reflected |= ((crc >> bit) & 1) << (31 - bit);
  return ~reflected;
}

std::string LittleEndian(uint64_t v, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(v >> (8 * i));
  return out;
}

std::string Sum(std::string_view data) {
  const uint32_t crc = BitwiseCrc(data);
  return LittleEndian(((crc >> 15) | (crc << 17)) + 0xa282ead8u, 4);
}

std::string RecordBytes(const std::string& data) {
  const std::string length = LittleEndian(data.size(), 8);
  return length + Sum(length) + data + Sum(data);
}

std::string Compress(const std::string& data, int window) {
  z_stream z = {};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(compressBound(data.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  z.avail_in = static_cast<uInt>(data.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}
std::string Zlib(const std::string& data) { return Compress(data, 15); }
std::string Gzip(const std::string& data) { return Compress(data, 31); }

struct ReadAll {
  std::vector<std::string> records;
  std::vector<uint64_t> offsets;
  Status status;  // of the read after the last record
};

ReadAll Read(const std::string& bytes, Compression compression = Compression::kNone) {
  MemEnv env;
  EXPECT_TRUE(WriteFileAtomically(env, "/f", bytes).ok());
  ReadAll all;
  const auto reader = RecordReader::Open(env, "/f", compression);
  if (!reader.ok()) {
    all.status = reader.status();
    return all;
  }
  for (;;) {
    std::string record;
    all.offsets.push_back((*reader)->offset());
    all.status = (*reader)->Read(&record);
    if (compression == Compression::kNone) {
      EXPECT_LE(record.capacity(), bytes.size() + 64) << "memory follows the file";
    }
    if (!all.status.ok()) {
      EXPECT_EQ((*reader)->Read(&record), all.status) << "the same again";
      all.offsets.pop_back();
      return all;
    }
    all.records.push_back(std::move(record));
  }
}

TEST(Crc32cTest, IsTheRemainderOfTheDefinition) {
  EXPECT_EQ(BitwiseCrc("123456789"), 0xe3069283u) << "the published check value";
  std::string data;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(Crc32c(data), BitwiseCrc(data)) << i;
    EXPECT_EQ(ExtendCrc32cByTablesForTest(0, data), BitwiseCrc(data)) << i;
    EXPECT_EQ(ExtendCrc32c(Crc32c(data.substr(0, data.size() / 3)), data.substr(data.size() / 3)),
              Crc32c(data));
    data += static_cast<char>(i * 37 + i / 7);
  }
}

TEST(Crc32cTest, SumsOfManyBytesAreThoseOfTheTables) {
  std::string data(70'000, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * i * 31 + i / 251);
  for (size_t size = 1900; size < data.size(); size += 1 + size / 9) {
    for (const size_t start : {size_t{0}, size_t{1}, size_t{13}}) {
      const std::string_view part = std::string_view(data).substr(start, size);
      for (const uint32_t before : {0u, 1u, 0xdeadbeefu}) {
        ASSERT_EQ(ExtendCrc32c(before, part), ExtendCrc32cByTablesForTest(before, part))
            << start << " " << size;
      }
    }
  }
}

TEST(Crc32cTest, SumsOfPartsMakeThatOfTheWhole) {
  std::string data(5000, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 + i / 100);
  for (const size_t size : {0u, 1u, 2u, 255u, 256u, 3000u, 5000u}) {
    const std::string_view first = std::string_view(data).substr(0, data.size() - size);
    const std::string_view second = std::string_view(data).substr(first.size());
    EXPECT_EQ(ConcatCrc32c(Crc32c(first), Crc32c(second), size), Crc32c(data)) << size;
  }
}

TEST(RecordFileTest, RecordsComeBackWithTheirOffsets) {
  const std::vector<std::string> records = {"first", "", std::string(300'000, 'x'), std::string("\0\n", 2)};
  std::string bytes;
  std::vector<uint64_t> offsets;
  for (const std::string& r : records) {
    offsets.push_back(bytes.size());
    bytes += RecordBytes(r);
  }
  for (const Compression c : {Compression::kNone, Compression::kZlib, Compression::kGzip}) {
    const std::string file = c == Compression::kZlib   ? Zlib(bytes) + "ignored"
                             : c == Compression::kGzip ? Gzip(bytes.substr(0, 40)) + Gzip(bytes.substr(40))
                                                       : bytes;
    MemEnv env;
    ASSERT_TRUE(WriteFileAtomically(env, "/f", file).ok());
    auto reader = RecordReader::Open(env, "/f", c);
    ASSERT_TRUE(reader.ok());
    for (size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ((*reader)->offset(), offsets[i]);
      std::string record;
      const Status status = (*reader)->Read(&record);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(record, records[i]);
    }
    std::string record;
    EXPECT_TRUE(errors::IsOutOfRange((*reader)->Read(&record)));

    auto again = RecordReader::Open(env, "/f", c);
    ASSERT_TRUE(again.ok());
    ASSERT_TRUE((*again)->SkipTo(offsets[3]).ok());
    ASSERT_TRUE((*again)->Read(&record).ok());
    EXPECT_EQ(record, records[3]);
    EXPECT_TRUE(errors::IsInvalidArgument((*again)->SkipTo(0)));
  }
}

TEST(RecordFileTest, AnEmptyFileHasNoRecords) {
  for (const Compression c : {Compression::kNone, Compression::kZlib, Compression::kGzip}) {
    const ReadAll all = Read("", c);
    EXPECT_TRUE(all.records.empty());
    EXPECT_TRUE(errors::IsOutOfRange(all.status)) << all.status;
  }
  EXPECT_TRUE(errors::IsOutOfRange(Read(Zlib(""), Compression::kZlib).status));
}

TEST(RecordFileTest, EveryTruncationIsNoticed) {
  const std::string a = RecordBytes("ab"), b = RecordBytes("cde"), whole = a + b;
  for (size_t n = 0; n < whole.size(); ++n) {
    const ReadAll all = Read(whole.substr(0, n));
    EXPECT_EQ(all.records.size(), n >= a.size() ? 1u : 0u);
    if (n == 0 || n == a.size()) {
      EXPECT_TRUE(errors::IsOutOfRange(all.status)) << n;
    } else {
      EXPECT_TRUE(errors::IsDataLoss(all.status)) << n << all.status;
      EXPECT_THAT(std::string(all.status.message()),
                  HasSubstr(StrCat("truncated record at ", n < a.size() ? 0 : a.size())));
      EXPECT_THAT(std::string(all.status.message()), HasSubstr("/f"));
    }
  }
  for (const auto& [file, compression] :
       {std::pair(Zlib(whole), Compression::kZlib), std::pair(Gzip(whole), Compression::kGzip)}) {
    for (size_t n = 1; n < file.size(); ++n) {
      const ReadAll all = Read(file.substr(0, n), compression);
      EXPECT_TRUE(errors::IsDataLoss(all.status)) << n << " " << all.status;
    }
  }
}

TEST(RecordFileTest, EveryChangedByteIsNoticed) {
  const std::string a = RecordBytes("ab"), whole = a + RecordBytes("cde");
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int flip : {1, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      const ReadAll all = Read(bytes);
      EXPECT_TRUE(errors::IsDataLoss(all.status)) << i << " " << all.status;
      EXPECT_EQ(all.records.size(), i >= a.size() ? 1u : 0u);
    }
  }
  std::string bytes = whole;
  bytes[a.size() + 12] ^= 1;  // data of the second record
  EXPECT_THAT(std::string(Read(bytes).status.message()),
              HasSubstr(StrCat("corrupted record at ", a.size() + 12)));
  // Compressed files have their own checksums; damage that passes them must not give wrong records.
  const std::string zlib = Zlib(whole), gzip = Gzip(whole);
  for (size_t i = 0; i < zlib.size(); ++i) {
    std::string broken = zlib;
    broken[i] = static_cast<char>(broken[i] ^ 0x10);
    for (const std::string& r : Read(broken, Compression::kZlib).records)
      EXPECT_TRUE(r == "ab" || r == "cde");
  }
  for (size_t i = 0; i < gzip.size(); ++i) {
    std::string broken = gzip;
    broken[i] = static_cast<char>(broken[i] ^ 0x10);
    for (const std::string& r : Read(broken, Compression::kGzip).records)
      EXPECT_TRUE(r == "ab" || r == "cde");
  }
}

TEST(RecordFileTest, HugeLengthsTakeNoMemory) {
  for (const uint64_t length : {uint64_t{1} << 20, uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - 3}) {
    const std::string field = LittleEndian(length, 8);
    const std::string file = field + Sum(field) + "only this";
    EXPECT_TRUE(errors::IsDataLoss(Read(file).status)) << length;
    const Status packed = Read(Gzip(file), Compression::kGzip).status;
    EXPECT_TRUE(errors::IsDataLoss(packed) || errors::IsResourceExhausted(packed)) << packed;
  }
}

TEST(RecordFileTest, WhatIsWrittenIsTheFormat) {
  MemEnv env;
  std::string expected;
  for (const Compression c : {Compression::kNone, Compression::kZlib, Compression::kGzip}) {
    auto file = env.NewWritableFile("/w");
    ASSERT_TRUE(file.ok());
    expected.clear();
    {
      RecordWriter writer(**file, c);
      for (const std::string& r : {std::string("a"), std::string(), std::string(200'000, 'q')}) {
        ASSERT_TRUE(writer.Write(r).ok());
        expected += RecordBytes(r);
      }
      ASSERT_TRUE(writer.Close().ok());
      ASSERT_TRUE(writer.Close().ok());
      EXPECT_TRUE(errors::IsFailedPrecondition(writer.Write("late")));
    }
    ASSERT_TRUE((*file)->Close().ok());
    const std::string bytes = *ReadFileToString(env, "/w");
    if (c == Compression::kNone) {
      EXPECT_EQ(bytes, expected);
    } else {
      EXPECT_LT(bytes.size(), 2000u);
    }
    const ReadAll all = Read(bytes, c);
    EXPECT_EQ(all.records.size(), 3u);
    EXPECT_TRUE(errors::IsOutOfRange(all.status));
  }
}

TEST(RecordFileTest, FailuresOfTheFileAreNoRecords) {
  MemEnv mem;
  ASSERT_TRUE(WriteFileAtomically(mem, "/f", RecordBytes("a")).ok());
  FaultyEnv env(mem, [](std::string_view operation, const std::string&) {
    return operation == "read" ? errors::Unavailable("gone") : Status();
  });
  auto reader = RecordReader::Open(env, "/f", Compression::kNone);
  ASSERT_TRUE(reader.ok());
  std::string record;
  EXPECT_TRUE(errors::IsUnavailable((*reader)->Read(&record)));
  EXPECT_TRUE(errors::IsNotFound(RecordReader::Open(mem, "/none", Compression::kNone).status()));
  EXPECT_TRUE(errors::IsInvalidArgument(ParseCompression("LZMA").status()));
}

}  // namespace
}  // namespace millrace::io
