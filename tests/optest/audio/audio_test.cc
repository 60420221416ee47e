// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The kernels that read and write WAV files. Errors of files are tested with the reader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "io/sound/wav.h"
#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

// Two frames of two channels: -1, 0.5; 0.25, 0.
std::string Stereo() { return *io::WriteWav(std::vector<float>{-1.0f, 0.5f, 0.25f, 0.0f}, 2, 8000); }

StatusOr<std::vector<Tensor>> Decode(const std::string& bytes, int64_t channels, int64_t samples) {
  KernelRunner runner("DecodeWav");
  return runner.Attr("desired_channels", channels)
      .Attr("desired_samples", samples)
      .Input(Tensor::Scalar<std::string>(bytes))
      .Run();
}

void ExpectDecoded(int64_t channels, int64_t samples, const std::vector<float>& values,
                   const TensorShape& shape) {
  const auto outputs = Decode(Stereo(), channels, samples);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ExpectTensorEqual(Tensor::From<float>(values, shape), (*outputs)[0]);
  ExpectTensorEqual(Tensor::Scalar<int32_t>(8000), (*outputs)[1]);
}

TEST(DecodeWavTest, ChannelsAndSamplesAreThoseOfTheFileOrTheRequestedOnes) {
  ExpectDecoded(-1, -1, {-1.0f, 0.5f, 0.25f, 0.0f}, {2, 2});
  ExpectDecoded(1, -1, {-1.0f, 0.25f}, {2, 1});
  ExpectDecoded(3, 1, {-1.0f, 0.5f, 0.5f}, {1, 3});
  ExpectDecoded(1, 4, {-1.0f, 0.25f, 0.0f, 0.0f}, {4, 1});
  ExpectDecoded(0, -1, {}, {2, 0});
  ExpectDecoded(-1, 0, {}, {0, 2});
}

TEST(DecodeWavTest, BrokenFilesAndImpossibleSizesAreErrors) {
  EXPECT_EQ(Decode("", -1, -1).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Decode(Stereo().substr(0, 47), -1, -1).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(Decode(Stereo(), -2, -1).ok());
  EXPECT_FALSE(Decode(Stereo(), int64_t{1} << 40, int64_t{1} << 40).ok());
}

TEST(EncodeWavTest, WritesWhatDecodeWavReads) {
  KernelRunner runner("EncodeWav");
  const auto bytes = runner.Input(Tensor::From<float>({-1.0f, 0.5f, 0.25f, 0.0f}, TensorShape({2, 2})))
                         .Input(Tensor::Scalar<int32_t>(8000))
                         .RunOne();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->scalar<std::string>(), Stereo());
}

}  // namespace
}  // namespace millrace
