// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// make_image_seeds DIR writes small image files, with the byte of options that the targets expect, to
// DIR/jpeg, DIR/png, DIR/gif and DIR/bmp.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "io/image/image_testing.h"
#include "io/image/jpeg.h"
#include "io/image/png.h"

namespace millrace {
namespace {

namespace ti = io::testing_images;

std::vector<uint8_t> Picture(const io::ImageSize& size) {
  std::vector<uint8_t> pixels(static_cast<size_t>(size.pixels() * size.channels));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i / 7);
  return pixels;
}

class Seeds {
 public:
  explicit Seeds(std::filesystem::path dir) : dir_(std::move(dir)) {
    for (const char* format : {"jpeg", "png", "gif", "bmp"})
      std::filesystem::create_directories(dir_ / format);
  }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
  }

  void WriteJpegs() const {
    Write("jpeg/flat", '\0' + ti::FlatJpeg(100));
    Write("jpeg/flat_small", '\6' + ti::FlatJpeg(200, 16, 16, 4));
    for (const int channels : {1, 3}) {
      const io::ImageSize size{.height = 19, .width = 21, .channels = channels};
      const std::vector<uint8_t> pixels = Picture(size);
      const std::string n = std::to_string(channels);
      const std::string baseline = *io::EncodeJpeg(pixels.data(), size, {.quality = 40});
      const std::string progressive =
          *io::EncodeJpeg(pixels.data(), size, {.quality = 30, .progressive = true});
      Write("jpeg/baseline_" + n, '\1' + baseline);
      Write("jpeg/cropped_" + n, '\x80' + baseline);
      Write("jpeg/progressive_" + n, '\x48' + progressive);
      Write("jpeg/recovered_" + n, '\x30' + baseline.substr(0, baseline.size() * 2 / 3));
    }
  }

  void WritePngs() const {
    const std::string palette = ti::PngChunk("PLTE", ti::Raw({1, 2, 3, 4, 5, 6}));
    const std::string clear = ti::PngChunk("tRNS", ti::Raw({128}));
    Write("png/gray", '\0' + ti::Png(2, 2, 8, 0, {ti::Raw({1, 2}), ti::Raw({3, 4})}));
    Write("png/bits", '\3' + ti::Png(9, 1, 1, 0, {ti::Raw({0xa5, 0x80})}));
    Write("png/palette", '\4' + ti::Png(2, 1, 1, 3, {ti::Raw({0x40})}, palette + clear));
    Write("png/gray_alpha_16", '\x42' + ti::Png(1, 1, 16, 4, {ti::Raw({1, 2, 3, 4})}));
    Write("png/rgba_to_gray", '\1' + ti::Png(1, 1, 8, 6, {ti::Raw({1, 2, 3, 4})}));
    Write("png/interlaced",
          '\0' + ti::Png(2, 2, 8, 0, {ti::Raw({1}), ti::Raw({2}), ti::Raw({3, 4})}, "", true));
    const io::ImageSize size{.height = 9, .width = 11, .channels = 3};
    Write("png/packed", '\x80' + *io::EncodePng(Picture(size).data(), size, 8, 9));
    Write("png/gamma",
          '\x01' + ti::Png(1, 1, 8, 2, {ti::Raw({1, 2, 3})}, ti::PngChunk("gAMA", ti::Big(45455, 4))));
  }

  void WriteGifs() const {
    const std::string palette = ti::Raw({0, 0, 0, 10, 20, 30, 40, 50, 60, 70, 80, 90});
    Write("gif/one", ti::Gif("GIF87a", 3, 2, palette, {{0, 0, 3, 2, {0, 1, 2, 3, 2, 1}}}));
    Write("gif/several", ti::Gif("GIF89a", 2, 2, palette,
                                 {{0, 0, 2, 2, {0, 1, 2, 3}},
                                  {1, 0, 1, 2, {3, 0}, "", true, ti::GifControl(2, 0)},
                                  {0, 1, 1, 1, {2}, palette, false, ti::GifControl(3, 1)}}));
  }

  void WriteBmps() const {
    const std::vector<std::string> rows = {ti::Raw({1, 2, 3, 4, 5, 6}), ti::Raw({7, 8, 9, 10, 11, 12})};
    Write("bmp/up", '\0' + ti::Bmp(2, 2, 24, rows));
    Write("bmp/down", '\3' + ti::Bmp(2, -2, 24, rows));
    Write("bmp/gray", '\1' + ti::Bmp(3, 1, 8, {ti::Raw({5, 6, 7})}, std::string(16, 'p')));
    Write("bmp/alpha", '\4' + ti::Bmp(1, 1, 32, {ti::Raw({1, 2, 3, 4})}));
  }

 private:
  const std::filesystem::path dir_;
};

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_image_seeds DIR\n";
    return 2;
  }
  const millrace::Seeds seeds(argv[1]);
  seeds.WriteJpegs();
  seeds.WritePngs();
  seeds.WriteGifs();
  seeds.WriteBmps();
  return 0;
}
