// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "io/image/bmp.h"
#include "io/image/gif.h"
#include "io/image/image_testing.h"
#include "io/image/jpeg.h"
#include "io/image/png.h"

namespace millrace::io {
namespace {

namespace ti = testing_images;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

// The result of a reader.
struct Image {
  Status status;
  ImageSize size;
  std::vector<int> pixels;  // of `bits` each
};

template <typename Decode>
Image Read(Decode decode, int bits = 8) {
  Image image;
  std::vector<uint8_t> bytes;
  image.status = decode([&](const ImageSize& size) -> StatusOr<uint8_t*> {
    image.size = size;
    bytes.resize(static_cast<size_t>(size.pixels() * size.channels * bits / 8), 0xaa);
    return bytes.data();
  });
  if (!image.status.ok()) return image;
  for (size_t i = 0; i < bytes.size(); i += static_cast<size_t>(bits / 8)) {
    uint16_t wide;
    if (bits == 16) std::memcpy(&wide, &bytes[i], 2);
    image.pixels.push_back(bits == 16 ? wide : bytes[i]);
  }
  return image;
}

Image ReadBmp(const std::string& bytes, int channels = 0) {
  return Read([&](const PixelAllocator& a) { return DecodeBmp(bytes, channels, a); });
}
Image ReadPng(const std::string& bytes, int channels = 0, int bits = 8) {
  return Read([&](const PixelAllocator& a) { return DecodePng(bytes, channels, bits, a); }, bits);
}
Image ReadGif(const std::string& bytes) {
  return Read([&](const PixelAllocator& a) { return DecodeGif(bytes, a); });
}
Image ReadJpeg(const std::string& bytes, const JpegDecodeOptions& options = {}) {
  return Read([&](const PixelAllocator& a) { return DecodeJpeg(bytes, options, a); });
}

TEST(BmpTest, RowsComeFromBelowUnlessTheHeightIsNegative) {
  const std::vector<std::string> rows = {ti::Raw({1, 2, 3, 4, 5, 6}), ti::Raw({7, 8, 9, 10, 11, 12})};
  const Image up = ReadBmp(ti::Bmp(2, 2, 24, rows));
  ASSERT_TRUE(up.status.ok()) << up.status;
  EXPECT_EQ(up.size.channels, 3);
  EXPECT_THAT(up.pixels, ElementsAre(9, 8, 7, 12, 11, 10, 3, 2, 1, 6, 5, 4));
  EXPECT_THAT(ReadBmp(ti::Bmp(2, -2, 24, rows), 3).pixels,
              ElementsAre(3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10));
}

TEST(BmpTest, EightBitsAreWhatTheFileHoldsAndThirtyTwoHaveAlpha) {
  EXPECT_THAT(ReadBmp(ti::Bmp(3, 1, 8, {ti::Raw({5, 6, 7})}, std::string(1024, 'p'))).pixels,
              ElementsAre(5, 6, 7));
  EXPECT_THAT(ReadBmp(ti::Bmp(1, 1, 32, {ti::Raw({1, 2, 3, 4})}), 4).pixels, ElementsAre(3, 2, 1, 4));
}

TEST(BmpTest, ErrorsSayWhatIsWrong) {
  const auto message = [](const std::string& bytes, int channels = 0) {
    return std::string(ReadBmp(bytes, channels).status.message());
  };
  const std::string row = ti::Raw({1, 2, 3});
  EXPECT_THAT(message("BM"), HasSubstr("Incomplete bmp content, requires at least 32 bytes"));
  EXPECT_EQ(message(ti::Bmp(1, 1, 24, {row}), 4),
            "channels attribute 4 does not match bits per pixel from file 3");
  EXPECT_EQ(message(ti::Bmp(1, 1, 16, {row})), "Number of channels must be 1, 3 or 4, was 2");
  EXPECT_EQ(message(ti::Bmp(0, 1, 24, {row})), "Width must be positive");
  EXPECT_EQ(message(ti::Bmp(1, 0, 24, {row})), "Height must be nonzero");
  EXPECT_EQ(message(ti::Bmp(2, 2, 24, {row + row, row})),
            "Incomplete bmp content, requires at least 68 bytes, got 66 bytes");
  EXPECT_EQ(message(ti::Bmp(65536, INT32_MIN, 24, {row})),
            "Total possible pixel bytes must be less than 2^30");
}

TEST(PngTest, EachColorTypeGivesItsChannels) {
  const std::string palette = ti::PngChunk("PLTE", ti::Raw({1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_THAT(ReadPng(ti::Png(2, 1, 8, 0, {ti::Raw({7, 200})})).pixels, ElementsAre(7, 200));
  EXPECT_THAT(ReadPng(ti::Png(1, 2, 8, 2, {ti::Raw({1, 2, 3}), ti::Raw({4, 5, 6})})).pixels,
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(ReadPng(ti::Png(3, 1, 8, 3, {ti::Raw({2, 0, 1})}, palette)).pixels,
              ElementsAre(7, 8, 9, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(ReadPng(ti::Png(1, 1, 8, 4, {ti::Raw({9, 128})})).pixels, ElementsAre(9, 128));
  EXPECT_THAT(ReadPng(ti::Png(1, 1, 8, 6, {ti::Raw({1, 2, 3, 4})})).pixels, ElementsAre(1, 2, 3, 4));
}

TEST(PngTest, SmallDepthsFillEightBits) {
  EXPECT_THAT(ReadPng(ti::Png(8, 1, 1, 0, {ti::Raw({0xa5})})).pixels,
              ElementsAre(255, 0, 255, 0, 0, 255, 0, 255));
  EXPECT_THAT(ReadPng(ti::Png(4, 1, 2, 0, {ti::Raw({0x1b})})).pixels, ElementsAre(0, 85, 170, 255));
  EXPECT_THAT(ReadPng(ti::Png(2, 1, 4, 0, {ti::Raw({0x1f})})).pixels, ElementsAre(17, 255));
  const std::string palette = ti::PngChunk("PLTE", ti::Raw({1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(ReadPng(ti::Png(2, 1, 1, 3, {ti::Raw({0x40})}, palette)).pixels, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(PngTest, SixteenBitsAreKeptMadeOrCutOff) {
  const std::string wide = ti::Png(2, 1, 16, 0, {ti::Raw({1, 2, 0xff, 0xfe})});
  EXPECT_THAT(ReadPng(wide, 0, 16).pixels, ElementsAre(0x0102, 0xfffe));
  EXPECT_THAT(ReadPng(wide).pixels, ElementsAre(1, 255));
  EXPECT_THAT(ReadPng(ti::Png(2, 1, 8, 0, {ti::Raw({1, 255})}), 0, 16).pixels, ElementsAre(257, 65535));
}

TEST(PngTest, ChannelsAreMadeOrLeftOut) {
  const std::string gray = ti::Png(1, 1, 8, 0, {ti::Raw({7})});
  EXPECT_THAT(ReadPng(gray, 3).pixels, ElementsAre(7, 7, 7));
  EXPECT_THAT(ReadPng(gray, 4).pixels, ElementsAre(7, 7, 7, 255));
  EXPECT_THAT(ReadPng(gray, 2).pixels, ElementsAre(7, 255));
  const std::string rgba = ti::Png(1, 1, 8, 6, {ti::Raw({10, 20, 30, 40})});
  EXPECT_THAT(ReadPng(rgba, 3).pixels, ElementsAre(10, 20, 30));
  // 0.299, 0.114 and the rest, in the parts of 32768 that libpng counts in.
  EXPECT_THAT(ReadPng(rgba, 1).pixels, ElementsAre(static_cast<int>(.299 * 10 + .114 * 20 + .587 * 30)));
}

TEST(PngTest, ATransparentColorBecomesAlpha) {
  const std::string palette = ti::PngChunk("PLTE", ti::Raw({1, 2, 3, 4, 5, 6}));
  const std::string half = ti::PngChunk("tRNS", ti::Raw({128}));
  const std::string file = ti::Png(2, 1, 8, 3, {ti::Raw({0, 1})}, palette + half);
  EXPECT_THAT(ReadPng(file).pixels, ElementsAre(1, 2, 3, 128, 4, 5, 6, 255));
  EXPECT_THAT(ReadPng(file, 3).pixels, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(PngTest, InterlacedRowsComeInOrder) {
  // With 2x2 pixels, pass 1 has the first, pass 6 the second, pass 7 the second row.
  const std::string file = ti::Png(2, 2, 8, 0, {ti::Raw({1}), ti::Raw({2}), ti::Raw({3, 4})}, "", true);
  EXPECT_THAT(ReadPng(file).pixels, ElementsAre(1, 2, 3, 4));
}

TEST(PngTest, DamageIsAnError) {
  const std::string good = ti::Png(2, 2, 8, 0, {ti::Raw({1, 2}), ti::Raw({3, 4})});
  ASSERT_TRUE(ReadPng(good).status.ok());
  EXPECT_THAT(std::string(ReadPng(good.substr(0, 20)).status.message()),
              HasSubstr("Invalid PNG header, data size 20"));
  EXPECT_THAT(std::string(ReadPng(good.substr(0, 50)).status.message()), HasSubstr("Invalid PNG"));
  std::string flipped = good;
  flipped[17] ^= 1;  // of the width; the checksum is wrong now
  EXPECT_FALSE(ReadPng(flipped).status.ok());
}

TEST(PngTest, ASizeThatTheFileCannotHoldTakesNoMemory) {
  const std::string file = std::string(ti::kPngStart) + ti::PngHeader(20000, 20000, 8, 6) +
                           ti::PngChunk("IDAT", ti::Stored("abc")) + ti::PngChunk("IEND", "");
  const Image image = ReadPng(file);
  EXPECT_THAT(std::string(image.status.message()), HasSubstr("needs more than"));
  EXPECT_EQ(image.size.width, 0);
}

TEST(PngTest, WhatIsWrittenIsRead) {
  for (const int bits : {8, 16}) {
    for (int channels = 1; channels <= 4; ++channels) {
      const ImageSize size{.height = 5, .width = 7, .channels = channels};
      std::vector<uint8_t> pixels(static_cast<size_t>(size.pixels() * channels * bits / 8));
      for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37);
      for (const int compression : {-1, 0, 9}) {
        const auto file = EncodePng(pixels.data(), size, bits, compression);
        ASSERT_TRUE(file.ok()) << file.status();
        std::vector<uint8_t> back;
        const Status status = DecodePng(*file, 0, bits, [&](const ImageSize& s) -> StatusOr<uint8_t*> {
          EXPECT_EQ(s.channels, channels);
          back.resize(pixels.size());
          return back.data();
        });
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_EQ(back, pixels) << bits << " " << channels << " " << compression;
      }
    }
  }
}

const std::string kPalette = ti::Raw({0, 0, 0, 10, 20, 30, 40, 50, 60, 70, 80, 90});

std::vector<int> Colors(const std::vector<int>& numbers, const std::string& palette = kPalette) {
  std::vector<int> out;
  for (const int n : numbers) {
    for (int i = 0; i < 3; ++i)
      out.push_back(static_cast<unsigned char>(palette[static_cast<size_t>(n * 3 + i)]));
  }
  return out;
}

TEST(GifTest, AFrameIsItsColors) {
  for (const char* version : {"GIF87a", "GIF89a"}) {
    const Image image = ReadGif(ti::Gif(version, 3, 2, kPalette, {{0, 0, 3, 2, {0, 1, 2, 3, 2, 1}}}));
    ASSERT_TRUE(image.status.ok()) << image.status;
    EXPECT_EQ(image.size.frames, 1);
    EXPECT_EQ(image.size.height, 2);
    EXPECT_THAT(image.pixels, ElementsAreArray(Colors({0, 1, 2, 3, 2, 1})));
  }
}

TEST(GifTest, LaterFramesLieOverTheOnesBefore) {
  const std::string own = ti::Raw({1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4});
  const Image image = ReadGif(ti::Gif("GIF89a", 2, 2, kPalette,
                                      {{0, 0, 2, 2, {0, 1, 2, 3}},
                                       {1, 0, 1, 2, {3, 0}, "", false, ti::GifControl(2, 0)},
                                       {0, 1, 1, 1, {2}, own, false, ti::GifControl(3, 1)}}));
  ASSERT_TRUE(image.status.ok()) << image.status;
  EXPECT_EQ(image.size.frames, 3);
  // The second frame's colour 0 is marked as transparent, but drawn; the disposal has no effect.
  std::vector<int> want = Colors({0, 1, 2, 3, 0, 3, 2, 0, 0, 3});
  for (const int n : {3, 3, 3}) want.push_back(n);
  for (const int n : Colors({0})) want.push_back(n);
  EXPECT_THAT(image.pixels, ElementsAreArray(want));
}

TEST(GifTest, InterlacedRowsComeInOrder) {
  const Image image =
      ReadGif(ti::Gif("GIF89a", 1, 5, kPalette, {{0, 0, 1, 5, {0, 1, 2, 3, 0}, "", /*interlaced=*/true}}));
  // Rows 0; 4; 2; 1 and 3.
  EXPECT_THAT(image.pixels, ElementsAreArray(Colors({0, 3, 2, 0, 1})));
}

// The string of one colour, twice, three times…: each code is the next to be defined.
TEST(GifTest, CodesThatAreOnlyNowDefinedAreRead) {
  // clear, 1, 6 (11), 7 (111), 8 (1111), end; 3 bits each, 4 from the third string on.
  std::string bits;
  const auto put = [&](int code, int n) {
    for (int i = 0; i < n; ++i) bits += (code >> i & 1) != 0 ? '1' : '0';
  };
  put(4, 3);
  put(1, 3);
  put(6, 3);
  put(7, 3);
  put(8, 4);
  put(5, 4);
  std::string data;
  while (bits.size() % 8 != 0) bits += '0';
  for (size_t i = 0; i < bits.size(); i += 8) {
    int byte = 0;
    for (size_t k = 0; k < 8; ++k) byte |= (bits[i + k] == '1') << k;
    data += static_cast<char>(byte);
  }
  std::string file = ti::Gif("GIF89a", 10, 1, kPalette, {});
  file.pop_back();
  file += ti::Raw({0x2c, 0, 0, 0, 0, 10, 0, 1, 0, 0, 2}) + ti::GifBlocks(data) + ";";
  const Image image = ReadGif(file);
  ASSERT_TRUE(image.status.ok()) << image.status;
  EXPECT_THAT(image.pixels, ElementsAreArray(Colors(std::vector<int>(10, 1))));
}

TEST(GifTest, ErrorsSayWhatIsWrong) {
  const auto message = [](const std::string& bytes) { return std::string(ReadGif(bytes).status.message()); };
  EXPECT_EQ(message("GIF88a"), "failed to slurp gif file: Data is not in GIF format");
  EXPECT_EQ(message(ti::Gif("GIF89a", 1, 1, kPalette, {})), "gif file does not contain any image");
  EXPECT_EQ(message(ti::Gif("GIF89a", 2, 1, "", {{0, 0, 2, 1, {0, 1}}})), "missing color map for frame 0");
  EXPECT_EQ(message(ti::Gif("GIF89a", 2, 1, kPalette, {{0, 0, 1, 1, {0}}, {0, 0, 2, 1, {0, 1}}})),
            "the first frame does not fill the canvas");
  const std::string big = ti::Gif("GIF89a", 60000, 8000, kPalette, {{0, 0, 60000, 8000, {0}}});
  EXPECT_THAT(message(big), HasSubstr("needs more than"));
}

TEST(GifTest, ATruncatedFrameIsFilledWithColorZero) {
  const std::string whole = ti::Gif("GIF89a", 2, 2, kPalette, {{0, 0, 2, 2, {1, 2, 3, 3}}});
  const Image image = ReadGif(ti::Gif("GIF89a", 2, 2, kPalette, {{0, 0, 2, 2, {1, 2}}}));
  ASSERT_TRUE(image.status.ok()) << image.status;
  EXPECT_THAT(image.pixels, ElementsAreArray(Colors({1, 2, 0, 0})));
  EXPECT_TRUE(ReadGif(whole.substr(0, whole.size() - 2)).status.ok());
}

// Rows of a smooth picture, which JPEG changes only slightly.
std::vector<uint8_t> Smooth(const ImageSize& size) {
  std::vector<uint8_t> pixels;
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      for (int c = 0; c < size.channels; ++c)
        pixels.push_back(static_cast<uint8_t>(60 + 3 * x + 2 * y + 20 * c));
    }
  }
  return pixels;
}

int LargestDifference(const std::vector<uint8_t>& want, const std::vector<int>& got) {
  if (want.size() != got.size()) return 256;
  int most = 0;
  for (size_t i = 0; i < want.size(); ++i) most = std::max(most, std::abs(want[i] - got[i]));
  return most;
}

TEST(JpegTest, AFlatBlockHasItsValue) {
  for (const int value : {0, 40, 128 + 16, 255}) {
    const std::string file = ti::FlatJpeg(value);
    const Image image = ReadJpeg(file);
    ASSERT_TRUE(image.status.ok()) << image.status;
    EXPECT_EQ(image.size.channels, 1);
    EXPECT_THAT(image.pixels, ElementsAreArray(std::vector<int>(64, value)));
    EXPECT_THAT(ReadJpeg(file, {.channels = 3}).pixels, ElementsAreArray(std::vector<int>(192, value)));
    const auto size = JpegSize(file);
    ASSERT_TRUE(size.ok());
    EXPECT_EQ(size->height * 100 + size->width * 10 + size->channels, 881);
  }
}

TEST(JpegTest, WhatIsWrittenIsRead) {
  for (const int channels : {1, 3}) {
    const ImageSize size{.height = 21, .width = 34, .channels = channels};
    const std::vector<uint8_t> pixels = Smooth(size);
    for (int variant = 0; variant < 8; ++variant) {
      const JpegEncodeOptions options{.quality = 97,
                                      .progressive = (variant & 1) != 0,
                                      .optimize_size = (variant & 2) != 0,
                                      .chroma_downsampling = (variant & 4) != 0};
      const auto file = EncodeJpeg(pixels.data(), size, options);
      ASSERT_TRUE(file.ok()) << file.status();
      const Image image = ReadJpeg(*file, {.accurate_dct = true});
      ASSERT_TRUE(image.status.ok()) << image.status;
      EXPECT_LE(LargestDifference(pixels, image.pixels), 6) << variant;
      EXPECT_LE(LargestDifference(pixels, ReadJpeg(*file, {.fancy_upscaling = false}).pixels), 16);
    }
  }
}

TEST(JpegTest, OptionsOfTheWriterAreInTheFile) {
  const ImageSize size{.height = 32, .width = 32, .channels = 3};
  const std::vector<uint8_t> pixels = Smooth(size);
  const auto write = [&](const JpegEncodeOptions& options) {
    return *EncodeJpeg(pixels.data(), size, options);
  };
  // The density in the JFIF header: unit, x, y.
  EXPECT_EQ(write({.density_in_cm = false, .x_density = 300, .y_density = 258}).substr(13, 5),
            ti::Raw({1, 1, 44, 1, 2}));
  EXPECT_EQ(write({.density_in_cm = true}).substr(13, 1), "\2");
  EXPECT_LT(write({.quality = 10}).size(), write({.quality = 95}).size());
  EXPECT_LT(write({.optimize_size = true}).size(), write({}).size());
  EXPECT_LT(write({}).size(), write({.chroma_downsampling = false}).size());
  EXPECT_NE(write({.progressive = true}).find("\xff\xc2"), std::string::npos);
  EXPECT_NE(
      write({.xmp_metadata = "<x:xmpmeta/>"}).find(std::string("http://ns.adobe.com/xap/1.0/\0<x:x", 33)),
      std::string::npos);
  EXPECT_FALSE(EncodeJpeg(pixels.data(), size, {.xmp_metadata = std::string(70000, 'x')}).ok());
}

TEST(JpegTest, ARatioMakesTheImageSmaller) {
  const ImageSize size{.height = 33, .width = 16, .channels = 3};
  const auto file = EncodeJpeg(Smooth(size).data(), size, {});
  for (const int ratio : {1, 2, 4, 8}) {
    const Image image = ReadJpeg(*file, {.ratio = ratio});
    ASSERT_TRUE(image.status.ok()) << image.status;
    EXPECT_EQ(image.size.height, (33 + ratio - 1) / ratio);
    EXPECT_EQ(image.size.width, 16 / ratio);
  }
}

TEST(JpegTest, ACropIsThePartOfTheWhole) {
  const ImageSize size{.height = 40, .width = 30, .channels = 3};
  const auto file = EncodeJpeg(Smooth(size).data(), size, {});
  const Image whole = ReadJpeg(*file);
  const Image crop = ReadJpeg(*file, {.crop = JpegCrop{.y = 11, .x = 7, .height = 20, .width = 17}});
  ASSERT_TRUE(crop.status.ok()) << crop.status;
  ASSERT_EQ(crop.pixels.size(), 20u * 17 * 3);
  for (size_t y = 0; y < 20; ++y) {
    for (size_t x = 0; x < 17 * 3; ++x)
      ASSERT_EQ(crop.pixels[y * 51 + x], whole.pixels[(y + 11) * 90 + 21 + x]);
  }
  for (const JpegCrop bad : {JpegCrop{-1, 0, 5, 5}, JpegCrop{0, 0, 41, 5}, JpegCrop{0, 26, 5, 5},
                             JpegCrop{0, 0, 0, 5}, JpegCrop{INT64_MAX, 0, 5, INT64_MAX}}) {
    EXPECT_THAT(std::string(ReadJpeg(*file, {.crop = bad}).status.message()),
                HasSubstr("Invalid crop window"));
  }
}

TEST(JpegTest, TruncatedFilesAreRefusedOrFilledUp) {
  const ImageSize size{.height = 64, .width = 64, .channels = 3};
  const std::vector<uint8_t> pixels = Smooth(size);
  const std::string file = *EncodeJpeg(pixels.data(), size, {});
  const std::string part = file.substr(0, file.size() / 2);
  EXPECT_THAT(std::string(ReadJpeg(part).status.message()), HasSubstr("Premature end of JPEG data"));
  EXPECT_FALSE(ReadJpeg(part, {.acceptable_fraction = 0.9f}).status.ok());
  const Image some = ReadJpeg(part, {.acceptable_fraction = 0.01f});
  ASSERT_TRUE(some.status.ok()) << some.status;
  EXPECT_EQ(some.pixels.back(), 0);
  const Image recovered = ReadJpeg(part, {.try_recover_truncated = true});
  ASSERT_TRUE(recovered.status.ok()) << recovered.status;
  EXPECT_NE(recovered.pixels.back(), 0);
  EXPECT_LE(std::abs(recovered.pixels[0] - pixels[0]), 4);
}

TEST(JpegTest, MalformedInputIsAnError) {
  EXPECT_FALSE(ReadJpeg("").status.ok());
  EXPECT_FALSE(ReadJpeg("\xff\xd8\xff").status.ok());
  EXPECT_FALSE(ReadJpeg(std::string(500, '\xff')).status.ok());
  EXPECT_FALSE(JpegSize("\xff\xd8\xff\xc0").ok());
  const Image big = ReadJpeg(ti::FlatJpeg(10, 20000, 20000));
  EXPECT_THAT(std::string(big.status.message()), HasSubstr("needs more than"));
  EXPECT_THAT(std::string(ReadJpeg(ti::FlatJpeg(10, 65500, 65500)).status.message()),
              HasSubstr("Image too large"));
}

TEST(ClassifyTest, TheFirstBytesTell) {
  EXPECT_EQ(ClassifyImage(ti::FlatJpeg(1)), ImageFormat::kJpeg);
  EXPECT_EQ(ClassifyImage(ti::kPngStart), ImageFormat::kPng);
  EXPECT_EQ(ClassifyImage("GIF89a"), ImageFormat::kGif);
  EXPECT_EQ(ClassifyImage("BM"), ImageFormat::kBmp);
  EXPECT_EQ(ClassifyImage(""), ImageFormat::kUnknown);
}

}  // namespace
}  // namespace millrace::io
