// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "io/image/jpeg.h"
#include "io/image/jpeg_session.h"

namespace millrace::io {
namespace {

constexpr std::string_view kXmpNamespace("http://ns.adobe.com/xap/1.0/\0", 29);
constexpr size_t kMostMarkerBytes = 65533;

class Encoder {
 public:
  Encoder() {
    info_.err = errors_.Manager();
    target_.manager.init_destination = [](j_compress_ptr info) { Take(info); };
    target_.manager.empty_output_buffer = [](j_compress_ptr info) -> boolean {
      target(info)->out.append(target(info)->buffer, sizeof(Target::buffer));
      Take(info);
      return TRUE;
    };
    target_.manager.term_destination = [](j_compress_ptr info) {
      target(info)->out.append(target(info)->buffer, sizeof(Target::buffer) - info->dest->free_in_buffer);
    };
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder() {
    if (created_) jpeg_destroy_compress(&info_);
  }

  StatusOr<std::string> Encode(const uint8_t* pixels, const ImageSize& size,
                               const JpegEncodeOptions& options) {
    const std::string packet =
        options.xmp_metadata.empty() ? std::string() : std::string(kXmpNamespace) + options.xmp_metadata;
    if (packet.size() > kMostMarkerBytes) {
      return errors::InvalidArgument("JPEG encoding failed: xmp_metadata of ", options.xmp_metadata.size(),
                                     " bytes does not fit a marker");
    }
    const auto row_bytes = static_cast<size_t>(size.width * size.channels);
    if (!errors_.Guarded([&] {
          Start(size, options);
          if (!packet.empty()) {
            jpeg_write_marker(&info_, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(packet.data()),
                              static_cast<unsigned>(packet.size()));
          }
          while (info_.next_scanline < info_.image_height) {
            JSAMPROW row = const_cast<JSAMPROW>(pixels + info_.next_scanline * row_bytes);
            jpeg_write_scanlines(&info_, &row, 1);
          }
          jpeg_finish_compress(&info_);
        })) {
      return errors::Internal("JPEG encoding failed: ", errors_.message());
    }
    return std::move(target_.out);
  }

 private:
  struct Target {
    jpeg_destination_mgr manager{};  // first, so that its address is the target's
    std::string out;
    char buffer[1 << 14];
  };
  static Target* target(j_compress_ptr info) { return reinterpret_cast<Target*>(info->dest); }
  static void Take(j_compress_ptr info) {
    info->dest->next_output_byte = reinterpret_cast<JOCTET*>(target(info)->buffer);
    info->dest->free_in_buffer = sizeof(Target::buffer);
  }

  void Start(const ImageSize& size, const JpegEncodeOptions& options) {
    jpeg_create_compress(&info_);
    created_ = true;
    info_.dest = &target_.manager;
    info_.image_width = static_cast<JDIMENSION>(size.width);
    info_.image_height = static_cast<JDIMENSION>(size.height);
    info_.input_components = size.channels;
    info_.in_color_space = size.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info_);
    if (options.optimize_size) info_.optimize_coding = TRUE;
    info_.density_unit = options.density_in_cm ? 2 : 1;
    info_.X_density = static_cast<UINT16>(options.x_density);
    info_.Y_density = static_cast<UINT16>(options.y_density);
    jpeg_set_quality(&info_, options.quality, TRUE);
    if (options.progressive) jpeg_simple_progression(&info_);
    for (int i = 0; i < info_.num_components && !options.chroma_downsampling; ++i) {
      info_.comp_info[i].h_samp_factor = 1;
      info_.comp_info[i].v_samp_factor = 1;
    }
    jpeg_start_compress(&info_, TRUE);
  }

  JpegErrors errors_;
  jpeg_compress_struct info_{};
  Target target_;
  bool created_ = false;
};

}  // namespace

StatusOr<std::string> EncodeJpeg(const uint8_t* pixels, const ImageSize& size,
                                 const JpegEncodeOptions& options) {
  if (size.width <= 0 || size.height <= 0 || size.width > JPEG_MAX_DIMENSION ||
      size.height > JPEG_MAX_DIMENSION) {
    return errors::Internal("JPEG encoding failed: Invalid image size: ", size.width, " x ", size.height);
  }
  if (size.pixels() >= kMostPixels)
    return errors::Internal("JPEG encoding failed: Image too large: ", size.width, " x ", size.height);
  return std::make_unique<Encoder>()->Encode(pixels, size, options);
}

}  // namespace millrace::io
