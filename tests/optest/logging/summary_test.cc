// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The messages of the summary ops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "io/image/png.h"
#include "kernel/testing.h"
#include "tensor/tensor_codec.h"
#include "tensor/testing.h"
#include "tensorflow/core/framework/summary.pb.h"

namespace millrace {
namespace {

using tensorflow::Summary;
using testing::HasSubstr;

Tensor Text(const std::string& text) { return Tensor::Scalar<std::string>(text); }

Summary Parsed(const StatusOr<Tensor>& out) {
  EXPECT_TRUE(out.ok()) << out.status();
  Summary summary;
  if (out.ok()) {
    EXPECT_TRUE(out->shape().IsScalar());
    EXPECT_TRUE(summary.ParseFromString(out->scalar<std::string>()));
  }
  return summary;
}

Summary Summarize(const char* op, const std::vector<Tensor>& inputs) {
  KernelRunner runner(op);
  for (const Tensor& t : inputs) runner.Input(t);
  return Parsed(runner.RunOne());
}

std::string Error(const char* op, const std::vector<Tensor>& inputs) {
  KernelRunner runner(op);
  runner.Name("node");
  for (const Tensor& t : inputs) runner.Input(t);
  return std::string(runner.Run().status().message());
}

TEST(ScalarSummaryTest, EachTagHasItsValue) {
  const Summary summary = Summarize(
      "ScalarSummary", {Tensor::Vector<std::string>({"a", "b"}), Tensor::Vector<double>({1.5, -2})});
  ASSERT_EQ(summary.value_size(), 2);
  EXPECT_EQ(summary.value(1).tag(), "b");
  EXPECT_EQ(summary.value(1).simple_value(), -2);
  EXPECT_EQ(Summarize("ScalarSummary", {Text("n"), Tensor::Scalar<int32_t>(7)}).value(0).simple_value(), 7);
  EXPECT_EQ(Error("ScalarSummary", {Text("loss"), Tensor::Vector<float>({1, 2})}),
            "tags and values not the same shape: [] != [2] (tag 'loss')");
}

TEST(HistogramSummaryTest, ValuesFallIntoTensorFlowsBuckets) {
  const Summary summary =
      Summarize("HistogramSummary", {Text("h"), Tensor::Vector<float>({0, 1, 1.05f, -3})});
  const auto& h = summary.value(0).histo();
  EXPECT_EQ(h.min(), -3);
  EXPECT_FLOAT_EQ(static_cast<float>(h.max()), 1.05f);
  EXPECT_EQ(h.num(), 4);
  EXPECT_NEAR(h.sum(), -0.95, 1e-6);
  EXPECT_NEAR(h.sum_squares(), 9 + 1 + 1.1025, 1e-6);
  // Each value is below the limit of its bucket, and not below the previous limit.
  double count = 0;
  ASSERT_EQ(h.bucket_size(), h.bucket_limit_size());
  for (int i = 0; i < h.bucket_size(); ++i) {
    count += h.bucket(i);
    if (i == 0) continue;
    EXPECT_LT(h.bucket_limit(i - 1), h.bucket_limit(i));
    // No two empty buckets in a row.
    EXPECT_GT(h.bucket(i) + h.bucket(i - 1), 0);
  }
  EXPECT_EQ(count, 4);
  // The first bucket above 1 ends at 1e-12 * 1.1^290: both 1 and 1.05 are below it.
  double limit = 1e-12;
  while (limit <= 1.05f) limit *= 1.1;
  bool found = false;
  for (int i = 0; i < h.bucket_size(); ++i) found |= h.bucket_limit(i) == limit && h.bucket(i) >= 1;
  EXPECT_TRUE(found);
}

TEST(HistogramSummaryTest, WhatIsNotFiniteIsRefusedAndNothingIsABucket) {
  EXPECT_EQ(Error("HistogramSummary", {Text("h"), Tensor::Vector<float>({1, NAN})}),
            "Nan in summary histogram for: node");
  EXPECT_EQ(Error("HistogramSummary", {Text("h"), Tensor::Vector<double>({INFINITY})}),
            "Infinity in summary histogram for: node");
  const Summary empty = Summarize("HistogramSummary", {Text("h"), Tensor::Vector<float>({})});
  EXPECT_EQ(empty.value(0).histo().num(), 0);
  EXPECT_EQ(empty.value(0).histo().bucket_size(), 1);
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ(Summarize("HistogramSummary", {Text("h"), Tensor::Scalar(most)}).value(0).histo().max(), most);
}

std::vector<int> Pixels(const Summary::Image& image) {
  std::vector<uint8_t> bytes;
  const Status status =
      io::DecodePng(image.encoded_image_string(), 0, 8, [&](const io::ImageSize& size) -> StatusOr<uint8_t*> {
        EXPECT_EQ(size.height, image.height());
        EXPECT_EQ(size.width, image.width());
        EXPECT_EQ(size.channels, image.colorspace());
        bytes.resize(static_cast<size_t>(size.pixels() * size.channels));
        return bytes.data();
      });
  EXPECT_TRUE(status.ok()) << status;
  return {bytes.begin(), bytes.end()};
}

TEST(ImageSummaryTest, BytesAreShownAsTheyAre) {
  const Tensor images = Tensor::From<uint8_t>({1, 2, 3, 4, 5, 6, 7, 8}, TensorShape({4, 1, 2, 1}));
  const Summary summary = Summarize("ImageSummary", {Text("i"), images});
  ASSERT_EQ(summary.value_size(), 3);
  EXPECT_EQ(summary.value(2).tag(), "i/image/2");
  EXPECT_THAT(Pixels(summary.value(2).image()), testing::ElementsAre(5, 6));
  KernelRunner one("ImageSummary");
  EXPECT_EQ(Parsed(one.Attr("max_images", 1).Input(Text("i")).Input(images).RunOne()).value(0).tag(),
            "i/image");
}

TEST(ImageSummaryTest, FloatsAreScaledToTheirRange) {
  const auto pixels = [](const std::vector<float>& values) {
    const Tensor image =
        Tensor::From<float>(values, TensorShape({1, 1, static_cast<int64_t>(values.size()), 1}));
    return Pixels(Summarize("ImageSummary", {Text("i"), image}).value(0).image());
  };
  EXPECT_THAT(pixels({0, 1, 2}), testing::ElementsAre(0, 127, 255));
  EXPECT_THAT(pixels({-2, 0, 1}), testing::ElementsAre(1, 128, 191));
  EXPECT_THAT(pixels({0, 0}), testing::ElementsAre(0, 0));
  // Values that are not finite get the bad colour, red; grey images get its first value.
  EXPECT_THAT(pixels({NAN, 1, INFINITY}), testing::ElementsAre(255, 255, 255));
  const Tensor colored = Tensor::From<float>({NAN, 0, 0, 1, 1, 1}, TensorShape({1, 1, 2, 3}));
  EXPECT_THAT(Pixels(Summarize("ImageSummary", {Text("i"), colored}).value(0).image()),
              testing::ElementsAre(255, 0, 0, 255, 255, 255));
}

TEST(ImageSummaryTest, ErrorsSayWhatIsWrong) {
  EXPECT_EQ(Error("ImageSummary", {Text("i"), Tensor::Vector<float>({1})}),
            "Tensor must be 4-D with last dim 1, 3, or 4, not [1]");
  KernelRunner runner("ImageSummary");
  runner.Attr("bad_color", Tensor::Vector<uint8_t>({1})).Input(Text("i"));
  runner.Input(Tensor::From<float>({1, 2, 3}, TensorShape({1, 1, 1, 3})));
  EXPECT_EQ(runner.Run().status(),
            errors::InvalidArgument("expected depth <= bad_color.size, got depth = 3, bad_color.size = 1"));
}

TEST(AudioSummaryTest, SamplesBecomeAWavFile) {
  const Tensor sound = Tensor::From<float>({0, 0.5f, 1, -1, 2, NAN}, TensorShape({1, 3, 2}));
  const Summary summary = Summarize("AudioSummaryV2", {Text("a"), sound, Tensor::Scalar(8000.0f)});
  ASSERT_EQ(summary.value_size(), 1);
  EXPECT_EQ(summary.value(0).tag(), "a/audio/0");
  const Summary::Audio& audio = summary.value(0).audio();
  EXPECT_EQ(audio.sample_rate(), 8000);
  EXPECT_EQ(audio.num_channels(), 2);
  EXPECT_EQ(audio.length_frames(), 3);
  EXPECT_EQ(audio.content_type(), "audio/wav");
  const std::string& wav = audio.encoded_audio_string();
  ASSERT_EQ(wav.size(), 44u + 12);
  EXPECT_EQ(wav.substr(0, 4) + wav.substr(8, 8) + wav.substr(36, 4), "RIFFWAVEfmt data");
  EXPECT_EQ(wav.substr(20, 16), std::string("\1\0\2\0\x40\x1f\0\0\0\x7d\0\0\4\0\x10\0", 16));
  EXPECT_EQ(wav.substr(44), std::string("\0\0\0\x40\xff\x7f\0\x80\xff\x7f\0\0", 12));
  KernelRunner old("AudioSummary");
  old.Attr("sample_rate", 44100.0f).Attr("max_outputs", 1).Input(Text("a"));
  const Summary other = Parsed(old.Input(Tensor::From<float>({0, 1}, TensorShape({1, 2}))).RunOne());
  EXPECT_EQ(other.value(0).tag(), "a/audio");
  EXPECT_EQ(other.value(0).audio().num_channels(), 1);
  EXPECT_EQ(Error("AudioSummaryV2", {Text("a"), sound, Tensor::Scalar(0.0f)}), "sample_rate must be > 0");
  EXPECT_EQ(Error("AudioSummaryV2", {Text("a"), Tensor::Scalar(1.0f), Tensor::Scalar(1.0f)}),
            "Tensor must be 3-D or 2-D, got: []");
}

TEST(MergeSummaryTest, ValuesComeTogetherAndTagsAreUnique) {
  const auto scalar = [](const char* tag) {
    KernelRunner runner("ScalarSummary");
    return *runner.Input(Text(tag)).Input(Tensor::Scalar(1.0f)).RunOne();
  };
  const Summary merged = Summarize("MergeSummary", {scalar("a"), scalar("b")});
  ASSERT_EQ(merged.value_size(), 2);
  EXPECT_EQ(merged.value(1).tag(), "b");
  EXPECT_EQ(Error("MergeSummary", {scalar("a"), scalar("a")}), "Duplicate tag a found in summary inputs");
  EXPECT_EQ(Error("MergeSummary", {Text("\x0a\xff")}), "Could not parse one of the summary inputs");
}

TEST(TensorSummaryTest, TheTensorIsInTheMessage) {
  const Tensor value = Tensor::Vector<float>({1, 2});
  const Summary summary = Summarize("TensorSummary", {value});
  EXPECT_FALSE(summary.value(0).node_name().empty());
  auto back = TensorFromProto(summary.value(0).tensor());
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectTensorEqual(value, *back);
  tensorflow::SummaryMetadata metadata;
  metadata.mutable_plugin_data()->set_plugin_name("text");
  const Tensor words = Tensor::Vector<std::string>({"x", "y"});
  const Summary v2 = Summarize("TensorSummaryV2", {Text("t"), words, Text(metadata.SerializeAsString())});
  EXPECT_EQ(v2.value(0).tag(), "t");
  EXPECT_EQ(v2.value(0).metadata().plugin_data().plugin_name(), "text");
  back = TensorFromProto(v2.value(0).tensor());
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectTensorEqual(words, *back);
  EXPECT_THAT(Error("TensorSummaryV2", {Text("t"), words, Text("\x0a\xff")}), HasSubstr("SummaryMetadata"));
}

}  // namespace
}  // namespace millrace
