// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/sound/wav.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace millrace::io {
namespace {

using testing::HasSubstr;

std::string Bytes(std::initializer_list<int> bytes) {
  std::string out;
  for (const int b : bytes) out.push_back(static_cast<char>(b));
  return out;
}

// 44100 Hz, one channel of four samples.
std::string Small() {
  return "RIFF" + Bytes({44, 0, 0, 0}) + "WAVEfmt " + Bytes({16, 0, 0, 0, 1, 0, 1, 0}) +
         Bytes({0x44, 0xac, 0, 0, 0x88, 0x58, 1, 0, 2, 0, 16, 0}) + "data" +
         Bytes({8, 0, 0, 0, 0, 0, 0xff, 0x7f, 0, 0, 0, 0x80});
}

std::vector<float> Samples(const WavView& wav) {
  std::vector<float> out;
  for (int64_t i = 0; i < wav.frames * wav.channels; ++i) out.push_back(wav.Sample(i));
  return out;
}

TEST(WavTest, SamplesAreFractionsOfTheLargest) {
  const std::string bytes = Small();
  const auto wav = ReadWav(bytes);
  ASSERT_TRUE(wav.ok()) << wav.status();
  EXPECT_EQ(wav->sample_rate, 44100u);
  EXPECT_EQ(wav->channels, 1);
  EXPECT_EQ(wav->frames, 4);
  EXPECT_THAT(Samples(*wav), testing::ElementsAre(0.0f, 32767.0f / 32768.0f, 0.0f, -1.0f));
}

TEST(WavTest, OtherChunksArePassedOver) {
  std::string bytes = Small();
  bytes.insert(36, "LIST" + Bytes({3, 0, 0, 0}) + "abc");
  bytes += "tail" + Bytes({200, 0, 0, 0}) + "cut off";
  const auto wav = ReadWav(bytes);
  ASSERT_TRUE(wav.ok()) << wav.status();
  EXPECT_EQ(wav->frames, 4);
}

TEST(WavTest, ALongerFormatIsRead) {
  std::string bytes = Small();
  bytes[16] = 18;
  bytes.insert(36, Bytes({0, 0}));
  EXPECT_TRUE(ReadWav(bytes).ok()) << ReadWav(bytes).status();
}

void ExpectError(size_t at, int value, const char* text) {
  std::string bytes = Small();
  bytes[at] = static_cast<char>(value);
  const auto wav = ReadWav(bytes);
  ASSERT_FALSE(wav.ok()) << text;
  EXPECT_EQ(wav.status().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(wav.status().message(), HasSubstr(text));
}

TEST(WavTest, HeaderErrorsAreReported) {
  ExpectError(0, 'X', "Header mismatch: Expected RIFF but found XIFF");
  ExpectError(8, 'X', "Header mismatch: Expected WAVE but found XAVE");
  ExpectError(16, 17, "Bad format chunk size for WAV: Expected 16 or 18, but got17");
  ExpectError(20, 3, "Bad audio format for WAV: Expected 1 (PCM), but got3");
  ExpectError(22, 0, "Bad number of channels for WAV: Expected at least 1, but got 0");
  ExpectError(22, 2, "Bad bytes per sample in WAV header: Expected 4 but got 2");
  ExpectError(28, 0x89, "Bad bytes per second in WAV header: Expected 88200 but got 88201");
  ExpectError(34, 8, "Can only read 16-bit WAV files, but received 8");
  ExpectError(36, 'x', "No data chunk found in WAV");
  ExpectError(40, 10, "Data too short");
  ExpectError(43, 0x80, "is too large: 2147483656 bytes");
}

TEST(WavTest, EveryCutIsAnError) {
  const std::string bytes = Small();
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(ReadWav(bytes.substr(0, n)).ok()) << n;
}

TEST(WavTest, TwoDataChunksAreRefused) {
  const auto wav = ReadWav(Small() + "data" + Bytes({0, 0, 0, 0}));
  ASSERT_FALSE(wav.ok());
  EXPECT_THAT(wav.status().message(), HasSubstr("More than one data chunk found in WAV"));
}

TEST(WavTest, WrittenFilesAreReadAgain) {
  const std::vector<float> samples = {
      0.0f, 0.5f, -0.25f, -1.0f, 2.0f, -3.0f, std::numeric_limits<float>::quiet_NaN(), 1e-6f};
  const auto bytes = WriteWav(samples, 2, 16000);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto wav = ReadWav(*bytes);
  ASSERT_TRUE(wav.ok()) << wav.status();
  EXPECT_EQ(wav->sample_rate, 16000u);
  EXPECT_EQ(wav->channels, 2);
  EXPECT_THAT(Samples(*wav),
              testing::ElementsAre(0.0f, 0.5f, -0.25f, -1.0f, 32767.0f / 32768.0f, -1.0f, 0.0f, 0.0f));
}

TEST(WavTest, TheSmallestFileIsAsOthersWriteIt) {
  const std::vector<float> samples = {0.0f, 1.0f, 0.0f, -1.0f};
  const auto bytes = WriteWav(samples, 1, 44100);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, Small());
}

TEST(WavTest, InvalidSoundsAreErrors) {
  const std::vector<float> one = {0.0f};
  EXPECT_THAT(WriteWav(one, 1, 0).status().message(), HasSubstr("sample_rate must be in (0, 2^32), got: 0"));
  EXPECT_THAT(WriteWav(one, 65536, 1).status().message(), HasSubstr("num_channels must be in (0, 2^16)"));
  EXPECT_THAT(WriteWav({}, 1, 1).status().message(), HasSubstr("num_frames must be positive."));
}

}  // namespace
}  // namespace millrace::io
