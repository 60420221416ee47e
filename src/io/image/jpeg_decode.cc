// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "io/image/jpeg.h"
#include "io/image/jpeg_session.h"

namespace millrace::io {
namespace {

constexpr JOCTET kEndOfImage[] = {0xff, JPEG_EOI};
// The maximum number of scans: each one of a progressive file processes the whole image, even if it is short.
// Usual files have about ten.
constexpr int64_t kMostScans = 500;
constexpr int64_t kFreeBlocks = int64_t{1} << 24;
constexpr int64_t kBlocksPerByte = 256;

// A file in memory for libjpeg.
struct Source {
  jpeg_source_mgr manager;  // first, so that its address is the source's
  bool recover = false;
};

void NoSourceWork(j_decompress_ptr) {}

// Called at the end of the data. Supplies nothing, so that the reader stops there, or an end marker, so that
// it fills in the rest.
boolean FillAtEnd(j_decompress_ptr info) {
  if (!reinterpret_cast<Source*>(info->src)->recover) return FALSE;
  info->src->next_input_byte = kEndOfImage;
  info->src->bytes_in_buffer = sizeof(kEndOfImage);
  return TRUE;
}

void Skip(j_decompress_ptr info, long n) {  // NOLINT(google-runtime-int): libjpeg's type
  if (n <= 0) return;
  const size_t skipped = std::min(static_cast<size_t>(n), info->src->bytes_in_buffer);
  info->src->next_input_byte += skipped;
  info->src->bytes_in_buffer -= skipped;
}

class Decoder {
 public:
  Decoder(std::string_view bytes, const JpegDecodeOptions& options) : options_(options), bytes_(bytes) {
    info_.err = errors_.Manager();
    source_.manager.init_source = NoSourceWork;
    source_.manager.fill_input_buffer = FillAtEnd;
    source_.manager.skip_input_data = Skip;
    source_.manager.resync_to_restart = jpeg_resync_to_restart;
    source_.manager.term_source = NoSourceWork;
    source_.manager.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    source_.manager.bytes_in_buffer = bytes.size();
    source_.recover = options.try_recover_truncated;
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() {
    // Frees the state of decoding, after errors too.
    if (created_) jpeg_destroy_decompress(&info_);
  }

  Status ReadHeader() {
    int result = JPEG_SUSPENDED;
    if (!errors_.Guarded([&] {
          jpeg_create_decompress(&info_);
          created_ = true;
          info_.src = &source_.manager;
          result = jpeg_read_header(&info_, TRUE);
        })) {
      return Error();
    }
    if (result != JPEG_HEADER_OK) return errors::InvalidArgument("the header ends too soon");
    return Status();
  }

  Status Decode(const PixelAllocator& allocate) {
    MR_RETURN_IF_ERROR(ReadHeader());
    MR_RETURN_IF_ERROR(Configure());
    MR_RETURN_IF_ERROR(Start());
    const JpegCrop window = options_.crop.value_or(
        JpegCrop{.height = int64_t{info_.output_height}, .width = int64_t{info_.output_width}});
    MR_RETURN_IF_ERROR(CheckWindow(window));
    ImageSize size{.height = window.height, .width = window.width, .channels = channels_};
    MR_ASSIGN_OR_RETURN(uint8_t* const pixels, allocate(size));
    return ReadRows(window, pixels);
  }

  ImageSize header_size() const {
    return {.height = int64_t{info_.image_height},
            .width = int64_t{info_.image_width},
            .channels = info_.num_components};
  }

 private:
  Status Error() const { return errors::InvalidArgument(errors_.message()); }

  Status Configure() {
    channels_ = options_.channels == 0 ? std::min(info_.num_components, 3) : options_.channels;
    if (channels_ == 1) {
      info_.out_color_space = JCS_GRAYSCALE;
    } else if (channels_ == 3) {
      cmyk_ = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
      info_.out_color_space = cmyk_ ? JCS_CMYK : JCS_RGB;
    } else {
      return errors::InvalidArgument("Invalid components value ", channels_);
    }
    info_.do_fancy_upsampling = options_.fancy_upscaling ? TRUE : FALSE;
    info_.scale_num = 1;
    info_.scale_denom = static_cast<unsigned>(options_.ratio);
    info_.dct_method = options_.accurate_dct ? JDCT_ISLOW : JDCT_IFAST;
    if (!errors_.Guarded([&] { jpeg_calc_output_dimensions(&info_); })) return Error();
    ImageSize whole = header_size();
    whole.channels = std::max(channels_, whole.channels);
    return CheckPlausible(whole, 1, bytes_.size(), kDensestJpeg);
  }

  static void CheckScans(j_common_ptr common) {
    const auto* info = reinterpret_cast<j_decompress_ptr>(common);
    auto* limit = reinterpret_cast<ScanLimit*>(common->progress);
    if (info->input_scan_number <= limit->scans) return;
    common->err->msg_code = JERR_BAD_PROGRESSION;
    common->err->error_exit(common);
  }

  Status Start() {
    const int64_t blocks =
        (int64_t{info_.image_height} + 7) / 8 * ((int64_t{info_.image_width} + 7) / 8) * info_.num_components;
    const int64_t affordable = kFreeBlocks + kBlocksPerByte * static_cast<int64_t>(bytes_.size());
    limit_.manager.progress_monitor = CheckScans;
    limit_.scans =
        static_cast<int>(std::clamp<int64_t>(affordable / std::max<int64_t>(blocks, 1), 20, kMostScans));
    info_.progress = &limit_.manager;
    bool started = false;
    if (!errors_.Guarded([&] { started = jpeg_start_decompress(&info_) != FALSE; })) return Error();
    if (!started) return errors::InvalidArgument("the data ends too soon");
    return Status();
  }

  Status CheckWindow(const JpegCrop& w) const {
    const int64_t rows = info_.output_height, columns = info_.output_width;
    if (w.y >= 0 && w.x >= 0 && w.height > 0 && w.width > 0 && w.height <= rows && w.width <= columns &&
        w.y <= rows - w.height && w.x <= columns - w.width) {
      return Status();
    }
    return errors::InvalidArgument("Invalid crop window: x=", w.x, ", y=", w.y, ", w=", w.width,
                                   ", h=", w.height, " for image_width: ", columns,
                                   " and image_height: ", rows);
  }

  // False when no more rows can be decoded, for lack of data. `failed_` reports an error.
  bool ReadRow(uint8_t* row) {
    JSAMPROW rows[] = {row};
    JDIMENSION read = 0;
    failed_ = !errors_.Guarded([&] { read = jpeg_read_scanlines(&info_, rows, 1); });
    return !failed_ && read == 1;
  }

  Status ReadRows(const JpegCrop& window, uint8_t* pixels) {
    const size_t row_bytes = static_cast<size_t>(window.width) * static_cast<size_t>(channels_);
    const bool direct = !cmyk_ && !options_.crop.has_value();
    std::vector<uint8_t> row;
    if (!direct) row.resize(size_t{info_.output_width} * static_cast<size_t>(info_.output_components));
    const int64_t end = window.y + window.height;
    for (int64_t y = 0; y < end; ++y) {
      uint8_t* const to = pixels + static_cast<size_t>(std::max<int64_t>(y - window.y, 0)) * row_bytes;
      if (!ReadRow(direct ? to : row.data())) {
        if (failed_) return Error();
        return Missing(window, y, pixels, row_bytes);
      }
      if (direct || y < window.y) continue;
      const uint8_t* from = row.data() + window.x * info_.output_components;
      if (cmyk_) {
        CmykToRgb(from, window.width, to);
      } else {
        std::memcpy(to, from, row_bytes);
      }
    }
    return Status();
  }

  // The rows from `y` on are missing.
  Status Missing(const JpegCrop& window, int64_t y, uint8_t* pixels, size_t row_bytes) const {
    const int64_t read = std::max<int64_t>(y - window.y, 0);
    const float fraction = static_cast<float>(read) / static_cast<float>(window.height);
    if (fraction < std::min(1.0f, options_.acceptable_fraction)) {
      return errors::InvalidArgument("Premature end of JPEG data. Stopped at line ", y, "/",
                                     int64_t{info_.output_height});
    }
    std::memset(pixels + static_cast<size_t>(read) * row_bytes, 0,
                static_cast<size_t>(window.height - read) * row_bytes);
    return Status();
  }

  // Adobe's files hold the complement of the inks.
  void CmykToRgb(const uint8_t* from, int64_t n, uint8_t* to) const {
    for (int64_t i = 0; i < n; ++i, from += 4, to += 3) {
      for (int ink = 0; ink < 3; ++ink) {
        to[ink] = static_cast<uint8_t>(info_.saw_Adobe_marker ? from[3] * from[ink] / 255
                                                              : (255 - from[3]) * (255 - from[ink]) / 255);
      }
    }
  }

  struct ScanLimit {
    jpeg_progress_mgr manager{};  // first, so that its address is the limit's
    int scans = 0;
  };

  const JpegDecodeOptions& options_;
  const std::string_view bytes_;
  JpegErrors errors_;
  jpeg_decompress_struct info_{};
  Source source_{};
  ScanLimit limit_;
  int channels_ = 0;
  bool created_ = false;
  bool cmyk_ = false;
  bool failed_ = false;
};

}  // namespace

Status DecodeJpeg(std::string_view bytes, const JpegDecodeOptions& options, const PixelAllocator& allocate) {
  return std::make_unique<Decoder>(bytes, options)->Decode(allocate);
}

StatusOr<ImageSize> JpegSize(std::string_view bytes) {
  const JpegDecodeOptions options;
  const auto decoder = std::make_unique<Decoder>(bytes, options);
  MR_RETURN_IF_ERROR(decoder->ReadHeader());
  return decoder->header_size();
}

}  // namespace millrace::io
