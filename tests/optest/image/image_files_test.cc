// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The kernels that read and write image files. The pixels are tested with the readers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/image/image_testing.h"
#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

namespace ti = io::testing_images;

StatusOr<Tensor> Decode(const char* op, const std::string& bytes, int channels = 0) {
  KernelRunner runner(op);
  if (std::string(op) != "DecodeGif") runner.Attr("channels", channels);
  return runner.Input(Tensor::Scalar<std::string>(bytes)).RunOne();
}

std::string GrayPng() { return ti::Png(2, 1, 8, 0, {ti::Raw({7, 200})}); }
std::string TwoFrames() {
  const std::string palette = ti::Raw({0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  return ti::Gif("GIF89a", 1, 1, palette, {{0, 0, 1, 1, {1}}, {0, 0, 1, 1, {2}}});
}

TEST(DecodeTest, EachOpReadsAllThreeFormats) {
  for (const char* op : {"DecodeJpeg", "DecodePng"}) {
    auto png = Decode(op, GrayPng());
    ASSERT_TRUE(png.ok()) << png.status();
    ExpectTensorEqual(Tensor::From<uint8_t>({7, 200}, TensorShape({1, 2, 1})), *png);
    auto jpeg = Decode(op, ti::FlatJpeg(40), 3);
    ASSERT_TRUE(jpeg.ok()) << jpeg.status();
    ExpectTensorEqual(Tensor::From<uint8_t>(std::vector<uint8_t>(192, 40), TensorShape({8, 8, 3})), *jpeg);
    EXPECT_THAT(std::string(Decode(op, TwoFrames()).status().message()),
                testing::HasSubstr("Got 2 frames, but animated gifs can only be decoded by "));
  }
  auto png = Decode("DecodeGif", GrayPng());
  ASSERT_TRUE(png.ok()) << png.status();
  ExpectTensorEqual(Tensor::From<uint8_t>({7, 7, 7, 200, 200, 200}, TensorShape({1, 1, 2, 3})), *png);
  auto gif = Decode("DecodeGif", TwoFrames());
  ASSERT_TRUE(gif.ok()) << gif.status();
  ExpectTensorEqual(Tensor::From<uint8_t>({1, 2, 3, 4, 5, 6}, TensorShape({2, 1, 1, 3})), *gif);
}

TEST(DecodeTest, SixteenBitsAreForPngs) {
  KernelRunner wide("DecodePng");
  auto image = wide.Attr("dtype", DataType::kUint16).Input(Tensor::Scalar<std::string>(GrayPng())).RunOne();
  ASSERT_TRUE(image.ok()) << image.status();
  ExpectTensorEqual(Tensor::From<uint16_t>({7 * 257, 200 * 257}, TensorShape({1, 2, 1})), *image);
  KernelRunner jpeg("DecodePng");
  jpeg.Attr("dtype", DataType::kUint16).Input(Tensor::Scalar<std::string>(ti::FlatJpeg(1)));
  EXPECT_EQ(jpeg.Run().status(), errors::InvalidArgument("JPEG does not support uint16 output"));
}

TEST(EncodeTest, JpegOfAQualityIsThatOfTheAttribute) {
  std::vector<uint8_t> pixels;
  pixels.reserve(16 * 16 * 3);
  for (int i = 0; i < 16 * 16 * 3; ++i) pixels.push_back(static_cast<uint8_t>(i * 37));
  const Tensor image = Tensor::From<uint8_t>(pixels, TensorShape({16, 16, 3}));
  std::string before;
  for (const int quality : {10, 95}) {
    const auto fixed = KernelRunner("EncodeJpeg").Attr("quality", quality).Input(image).RunOne();
    ASSERT_TRUE(fixed.ok()) << fixed.status();
    const auto variable = KernelRunner("EncodeJpegVariableQuality")
                              .Input(image)
                              .Input(Tensor::Scalar<int32_t>(quality))
                              .RunOne();
    ASSERT_TRUE(variable.ok()) << variable.status();
    ExpectTensorEqual(*fixed, *variable);
    EXPECT_GT(variable->scalar<std::string>().size(), before.size());
    before = variable->scalar<std::string>();
  }
}

TEST(DecodeTest, BrokenFilesGetTensorFlowsWords) {
  EXPECT_THAT(std::string(Decode("DecodeJpeg", "\xff\xd8\xff").status().message()),
              testing::StartsWith("Invalid JPEG data or crop window, data size 3"));
  EXPECT_THAT(std::string(Decode("DecodePng", GrayPng().substr(0, 20)).status().message()),
              testing::StartsWith("Invalid PNG header, data size 20"));
  EXPECT_THAT(std::string(Decode("DecodeJpeg", ti::FlatJpeg(1), 4).status().message()),
              testing::StartsWith("channels must be 0, 1, or 3 for JPEG, got 4"));
}

TEST(DecodeTest, WindowsAndShapesOfJpegs) {
  KernelRunner crop("DecodeAndCropJpeg");
  crop.Input(Tensor::Scalar<std::string>(ti::FlatJpeg(40))).Input(Tensor::Vector<int32_t>({1, 2, 3, 4}));
  auto part = crop.RunOne();
  ASSERT_TRUE(part.ok()) << part.status();
  ExpectTensorEqual(Tensor::From<uint8_t>(std::vector<uint8_t>(12, 40), TensorShape({3, 4, 1})), *part);
  KernelRunner outside("DecodeAndCropJpeg");
  outside.Input(Tensor::Scalar<std::string>(ti::FlatJpeg(40))).Input(Tensor::Vector<int32_t>({6, 2, 3, 4}));
  EXPECT_THAT(std::string(outside.Run().status().message()), testing::HasSubstr("Invalid crop window"));
  KernelRunner shape("ExtractJpegShape");
  shape.Attr("output_type", DataType::kInt64).Input(Tensor::Scalar<std::string>(ti::FlatJpeg(40, 16, 8, 2)));
  auto sizes = shape.RunOne();
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  ExpectTensorEqual(Tensor::Vector<int64_t>({8, 16, 1}), *sizes);
}

TEST(EncodeTest, WhatIsWrittenIsRead) {
  const Tensor gray = Tensor::From<uint8_t>(std::vector<uint8_t>(64, 77), TensorShape({8, 8, 1}));
  for (const auto& [encode, decode] : {std::pair("EncodeJpeg", "DecodeJpeg"), {"EncodePng", "DecodePng"}}) {
    KernelRunner runner(encode);
    auto bytes = runner.Input(gray).RunOne();
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    auto back = Decode(decode, bytes->scalar<std::string>());
    ASSERT_TRUE(back.ok()) << back.status();
    ExpectTensorEqual(gray, *back);
  }
}

TEST(DecodeTest, BmpsHaveTheirChannels) {
  auto image = Decode("DecodeBmp", ti::Bmp(1, 1, 32, {ti::Raw({1, 2, 3, 4})}), 4);
  ASSERT_TRUE(image.ok()) << image.status();
  ExpectTensorEqual(Tensor::From<uint8_t>({3, 2, 1, 4}, TensorShape({1, 1, 4})), *image);
}

}  // namespace
}  // namespace millrace
