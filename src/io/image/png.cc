// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/image/png.h"

#include <png.h>

#include <algorithm>
#include <bit>
#include <csetjmp>
#include <cstring>
#include <memory>
#include <utility>

namespace millrace::io {
namespace {

constexpr bool kLittleEndian = std::endian::native == std::endian::little;
// The memory that libpng may use for one chunk other than pixels, such as a profile.
constexpr png_alloc_size_t kMostChunkBytes = 1 << 20;
constexpr png_byte kTextChunks[] = "tEXt\0zTXt\0iTXt\0eXIf";

// On errors libpng jumps (longjmp) over the frames in between to Guarded(); the functions called by it must
// have no objects with destructors.
class PngErrors {
 public:
  template <typename Fn>
  [[nodiscard]] bool Guarded(Fn&& fn) {
    if (setjmp(jump_) != 0) return false;
    fn();
    return true;
  }
  const char* message() const { return message_; }

  static void Leave(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngErrors*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, sizeof(self->message_) - 1);
    longjmp(self->jump_, 1);
  }
  static void Ignore(png_structp, png_const_charp) {}

 private:
  jmp_buf jump_;
  char message_[128] = {};
};

class Decoder {
 public:
  Decoder(std::string_view bytes, int channels, int bits)
      : rest_(bytes), file_size_(bytes.size()), bits_(bits), channels_(channels) {}
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { png_destroy_read_struct(&png_, &info_, nullptr); }

  Status ReadHeader() {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors_, PngErrors::Leave, PngErrors::Ignore);
    if (png_ == nullptr) return errors::ResourceExhausted("libpng could not create a reader");
    if (!errors_.Guarded([&] {
          info_ = png_create_info_struct(png_);
          png_set_chunk_malloc_max(png_, kMostChunkBytes);
          png_set_user_limits(png_, (1 << 27) - 1, (1 << 27) - 1);
          for (size_t i = 0; i < sizeof(kTextChunks); i += 5)
            png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kTextChunks + i, 1);
          png_set_read_fn(png_, this, Read);
          png_read_info(png_, info_);
        })) {
      return Error();
    }
    ImageSize size = SizeOfFile();
    size.channels = 1;
    // One bit of each pixel is in the file at least.
    MR_RETURN_IF_ERROR(CheckPlausible(size, 1, file_size_, kDensestPng / 8));
    if (!errors_.Guarded([&] { Configure(); })) return Error();
    return Status();
  }

  Status ReadPixels(const PixelAllocator& allocate) {
    const ImageSize size = SizeOfFile();
    MR_RETURN_IF_ERROR(CheckPlausible(size, bits_ / 8, file_size_, kDensestPng));
    const size_t row_bytes = static_cast<size_t>(size.width * size.channels * bits_ / 8);
    const size_t needed = widen_ ? row_bytes / 2 : row_bytes;
    if (png_get_rowbytes(png_, info_) != needed) {
      return errors::InvalidArgument("rows have ", png_get_rowbytes(png_, info_), " bytes, expected ",
                                     needed);
    }
    MR_ASSIGN_OR_RETURN(uint8_t* const pixels, allocate(size));
    // Wider samples are made of narrow ones at the end of each row.
    const size_t at = row_bytes - needed;
    if (!errors_.Guarded([&] {
          for (int pass = 0; pass < passes_; ++pass) {
            for (int64_t y = 0; y < size.height; ++y)
              png_read_row(png_, pixels + static_cast<size_t>(y) * row_bytes + at, nullptr);
          }
        })) {
      return Error();
    }
    for (int64_t y = 0; widen_ && y < size.height; ++y)
      Widen(pixels + static_cast<size_t>(y) * row_bytes, needed);
    return Status();
  }

 private:
  Status Error() const { return errors::InvalidArgument(errors_.message()); }

  static void Read(png_structp png, png_bytep to, png_size_t n) {
    auto* self = static_cast<Decoder*>(png_get_io_ptr(png));
    if (n > self->rest_.size()) png_error(png, "More bytes requested than there are");
    std::memcpy(to, self->rest_.data(), n);
    self->rest_.remove_prefix(n);
  }

  ImageSize SizeOfFile() const {
    return {.height = int64_t{png_get_image_height(png_, info_)},
            .width = int64_t{png_get_image_width(png_, info_)},
            .channels = channels_};
  }

  // Sets the transformations of pixels by libpng.
  void Configure() {
    const int type = png_get_color_type(png_, info_);
    const int depth = png_get_bit_depth(png_, info_);
    const bool transparent = png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
    const bool palette = type == PNG_COLOR_TYPE_PALETTE, gray = (type & PNG_COLOR_MASK_COLOR) == 0;
    const bool alpha = (type & PNG_COLOR_MASK_ALPHA) != 0;
    if (channels_ == 0) channels_ = palette ? (transparent ? 4 : 3) : png_get_channels(png_, info_);
    if (channels_ % 2 != 0) {
      if (alpha || transparent) png_set_strip_alpha(png_);
    } else if (!alpha && transparent) {
      png_set_tRNS_to_alpha(png_);
    } else if (!alpha) {
      png_set_add_alpha(png_, (1U << depth) - 1, PNG_FILLER_AFTER);
    }
    if (depth > 8 && bits_ == 8) png_set_strip_16(png_);
    widen_ = depth <= 8 && bits_ == 16;
    png_set_packing(png_);
    passes_ = png_set_interlace_handling(png_);
    if (depth > 8 && bits_ == 16 && kLittleEndian) png_set_swap(png_);
    if (palette) png_set_palette_to_rgb(png_);
    if (gray && depth < 8) png_set_expand_gray_1_2_4_to_8(png_);
    const bool want_gray = channels_ < 3;
    // The weights of red and green are those of TensorFlow, although they look like those of red and blue.
    if (want_gray && !gray) png_set_rgb_to_gray(png_, 1, 0.299, 0.114);
    if (!want_gray && gray) png_set_gray_to_rgb(png_);
    png_read_update_info(png_, info_);
  }

  // From n narrow samples at the end of a row to wide ones that fill it: 255 becomes 65535.
  static void Widen(uint8_t* row, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      const uint8_t sample = row[n + i];
      row[2 * i] = sample;
      row[2 * i + 1] = sample;
    }
  }

  PngErrors errors_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::string_view rest_;
  const size_t file_size_;
  const int bits_;
  int channels_;
  int passes_ = 1;
  bool widen_ = false;
};

class Encoder {
 public:
  Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder() { png_destroy_write_struct(&png_, &info_); }

  StatusOr<std::string> Encode(const uint8_t* pixels, const ImageSize& size, int bits, int compression) {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, &errors_, PngErrors::Leave, PngErrors::Ignore);
    if (png_ == nullptr) return errors::ResourceExhausted("libpng could not create a writer");
    static constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                     PNG_COLOR_TYPE_RGB_ALPHA};
    const size_t row_bytes = static_cast<size_t>(size.width * size.channels * bits / 8);
    if (!errors_.Guarded([&] {
          info_ = png_create_info_struct(png_);
          png_set_write_fn(png_, &out_, Write, nullptr);
          png_set_compression_level(png_, compression);
          png_set_IHDR(png_, info_, static_cast<png_uint_32>(size.width),
                       static_cast<png_uint_32>(size.height), bits, kTypes[size.channels - 1],
                       PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
          png_write_info(png_, info_);
          if (bits == 16 && kLittleEndian) png_set_swap(png_);
          for (int64_t y = 0; y < size.height; ++y)
            png_write_row(png_, pixels + static_cast<size_t>(y) * row_bytes);
          png_write_end(png_, nullptr);
        })) {
      return errors::Internal("PNG encoding failed: ", errors_.message());
    }
    return std::move(out_);
  }

 private:
  static void Write(png_structp png, png_bytep from, png_size_t n) {
    static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(from), n);
  }

  PngErrors errors_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::string out_;
};

}  // namespace

Status DecodePng(std::string_view bytes, int channels, int bits, const PixelAllocator& allocate) {
  const auto decoder = std::make_unique<Decoder>(bytes, channels, bits);
  const Status header = decoder->ReadHeader();
  if (!header.ok())
    return Status(header.code(),
                  StrCat("Invalid PNG header, data size ", bytes.size(), "; ", header.message()));
  Status data = decoder->ReadPixels(allocate);
  if (!data.ok())
    return Status(data.code(), StrCat("Invalid PNG data, size ", bytes.size(), "; ", data.message()));
  return data;
}

StatusOr<std::string> EncodePng(const uint8_t* pixels, const ImageSize& size, int bits, int compression) {
  return std::make_unique<Encoder>()->Encode(pixels, size, bits, compression);
}

}  // namespace millrace::io
