// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/input_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace millrace::io {
namespace {

using ::testing::ElementsAre;

// Returns a text in pieces of a given size.
class TextSource : public ByteSource {
 public:
  TextSource(std::string text, size_t piece) : text_(std::move(text)), piece_(piece) {}
  Status Next(std::string* piece) override {
    *piece = text_.substr(0, piece_);
    text_.erase(0, piece_);
    return Status();
  }
  uint64_t MostLeft() const override { return text_.size(); }

 private:
  std::string text_;
  const size_t piece_;
};

std::vector<std::string> Lines(const std::string& text, size_t piece) {
  InputStream stream(std::make_unique<TextSource>(text, piece));
  std::vector<std::string> lines;
  std::string line;
  Status status;
  while ((status = stream.ReadLine(&line)).ok()) lines.push_back(line);
  EXPECT_TRUE(errors::IsOutOfRange(status));
  EXPECT_EQ(stream.position(), text.size());
  return lines;
}

TEST(InputStreamTest, LinesWhateverThePieces) {
  for (const size_t piece : {1, 2, 3, 100}) {
    EXPECT_THAT(Lines("", piece), ElementsAre());
    EXPECT_THAT(Lines("\n", piece), ElementsAre(""));
    EXPECT_THAT(Lines("a", piece), ElementsAre("a"));
    EXPECT_THAT(Lines("a\n\nbc\n", piece), ElementsAre("a", "", "bc"));
    EXPECT_THAT(Lines("a\r\nb\rc\r\n\r\n\r", piece), ElementsAre("a", "bc", "", ""));
  }
}

TEST(InputStreamTest, BytesWhateverThePieces) {
  for (const size_t piece : {1, 3, 100}) {
    InputStream stream(std::make_unique<TextSource>("0123456789", piece));
    std::string out = "old";
    ASSERT_TRUE(stream.Read(0, &out).ok());
    EXPECT_EQ(out, "");
    ASSERT_TRUE(stream.Read(4, &out).ok());
    EXPECT_EQ(out, "0123");
    ASSERT_TRUE(stream.Skip(2).ok());
    EXPECT_EQ(stream.position(), 6u);
    EXPECT_TRUE(errors::IsOutOfRange(stream.Read(~uint64_t{0}, &out)));
    EXPECT_EQ(out, "6789");
    EXPECT_LT(out.capacity(), 100u);
    EXPECT_TRUE(errors::IsOutOfRange(stream.Skip(1)));
    EXPECT_TRUE(stream.Skip(0).ok());
  }
}

TEST(InputStreamTest, FilesFromAnOffset) {
  MemEnv env;
  ASSERT_TRUE(WriteFileAtomically(env, "/f", std::string(300'000, 'a') + "end").ok());
  const auto read = [&](uint64_t offset) {
    auto source = OpenFile(env, "/f", offset);
    EXPECT_TRUE(source.ok());
    InputStream stream(*std::move(source));
    std::string all;
    EXPECT_TRUE(errors::IsOutOfRange(stream.Read(~uint64_t{0}, &all)));
    return all;
  };
  EXPECT_EQ(read(0).size(), 300'003u);
  EXPECT_EQ(read(300'000), "end");
  EXPECT_EQ(read(400'000), "");
  EXPECT_TRUE(errors::IsNotFound(OpenFile(env, "/none").status()));
  ASSERT_TRUE(env.CreateDir("/d").ok());
  EXPECT_TRUE(errors::IsFailedPrecondition(OpenFile(env, "/d").status()));
}

}  // namespace
}  // namespace millrace::io
