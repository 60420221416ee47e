// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Reading and writing image files.
#include <limits>

#include "base/strings.h"
#include "io/image/bmp.h"
#include "io/image/gif.h"
#include "io/image/jpeg.h"
#include "io/image/png.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

using io::ImageFormat;
using io::ImageSize;

StatusOr<std::string_view> FileContents(const Tensor& contents) {
  if (!contents.shape().IsScalar())
    return errors::InvalidArgument("contents must be scalar, got shape ", contents.shape());
  return std::string_view(contents.scalar<std::string>());
}

// For messages.
std::string FormatName(ImageFormat format, std::string_view bytes) {
  switch (format) {
    case ImageFormat::kJpeg:
      return "JPEG";
    case ImageFormat::kPng:
      return "PNG";
    case ImageFormat::kGif:
      return "GIF";
    default:
      return bytes.empty() ? "empty file"
                           : StrCat("unknown format starting with '", CEscape(bytes.substr(0, 16)), "'");
  }
}

int ReadChannels(KernelConstruction& c) {
  if (!c.HasAttr("channels")) return 3;  // of a GIF
  const auto channels = c.Attr<int64_t>("channels");
  if (channels != 0 && channels != 1 && channels != 3 && channels != 4)
    c.SetError(errors::InvalidArgument("channels must be 0, 1, 3, or 4, got ", channels));
  return static_cast<int>(channels);
}

// DecodeJpeg, DecodePng, DecodeGif and DecodeAndCropJpeg. Each reads all three formats; they differ in the
// shape of the output, and in their options.
class DecodeKernel final : public OpKernel {
 public:
  explicit DecodeKernel(KernelConstruction& c)
      : OpKernel(c), gif_(c.props()->op->def.name == "DecodeGif"), channels_(gif_ ? 3 : ReadChannels(c)) {
    if (!c.HasAttr("ratio")) return;
    crop_ = num_inputs() == 2;
    const auto ratio = c.Attr<int64_t>("ratio");
    if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8)
      c.SetError(errors::InvalidArgument("ratio must be 1, 2, 4, or 8, got ", ratio));
    jpeg_.ratio = static_cast<int>(ratio);
    jpeg_.fancy_upscaling = c.Attr<bool>("fancy_upscaling");
    jpeg_.try_recover_truncated = c.Attr<bool>("try_recover_truncated");
    jpeg_.acceptable_fraction = c.Attr<float>("acceptable_fraction");
    const auto method = c.Attr<std::string>("dct_method");
    if (!method.empty() && method != "INTEGER_FAST" && method != "INTEGER_ACCURATE") {
      c.SetError(
          errors::InvalidArgument("dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}"));
    }
    jpeg_.accurate_dct = method == "INTEGER_ACCURATE";
  }

  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const std::string_view bytes, FileContents(context.input(0)));
    const ImageFormat format = io::ClassifyImage(bytes);
    switch (format) {
      case ImageFormat::kJpeg:
        MR_RETURN_IF_ERROR(CheckBits(context, "JPEG"));
        return DecodeJpeg(context, bytes);
      case ImageFormat::kPng:
        return DecodePng(context, bytes);
      case ImageFormat::kGif:
        MR_RETURN_IF_ERROR(CheckBits(context, "GIF"));
        return DecodeGif(context, bytes);
      default:
        return errors::InvalidArgument("Expected image (JPEG, PNG, or GIF), got ", FormatName(format, bytes));
    }
  }

 private:
  static Status CheckBits(const KernelContext& context, const char* format) {
    if (context.output_type(0) == DataType::kUint8) return Status();
    return errors::InvalidArgument(format, " does not support uint16 output");
  }

  // The output, with a dimension of frames if the op has one or the file has several frames.
  io::PixelAllocator Allocator(KernelContext& context) const {
    return [this, &context](const ImageSize& size) -> StatusOr<uint8_t*> {
      if (!gif_ && size.frames != 1) {
        return errors::InvalidArgument("Got ", size.frames,
                                       " frames, but animated gifs can only be decoded by "
                                       "tf.image.decode_gif or tf.image.decode_image");
      }
      TensorShape shape({size.height, size.width, size.channels});
      if (gif_) shape.InsertDim(0, size.frames);
      MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
      return static_cast<uint8_t*>(out->raw_data());
    };
  }

  Status DecodeJpeg(KernelContext& context, std::string_view bytes) const {
    if (channels_ == 4)
      return errors::InvalidArgument("channels must be 0, 1, or 3 for JPEG, got ", channels_);
    io::JpegDecodeOptions options = jpeg_;
    options.channels = channels_;
    if (crop_) {
      const Tensor& window = context.input(1);
      if (!window.shape().IsVector())
        return errors::InvalidArgument("crop_window must be 1-D, got shape ", window.shape());
      if (window.dim(0) != 4)
        return errors::InvalidArgument("crop_size must have four elements ", window.shape());
      options.crop =
          io::JpegCrop{IntValue(window, 0), IntValue(window, 1), IntValue(window, 2), IntValue(window, 3)};
    }
    Status status = io::DecodeJpeg(bytes, options, Allocator(context));
    if (status.ok()) return status;
    return Status(status.code(), StrCat("Invalid JPEG data or crop window, data size ", bytes.size(), "; ",
                                        status.message()));
  }

  Status DecodePng(KernelContext& context, std::string_view bytes) const {
    const int bits = context.output_type(0) == DataType::kUint16 ? 16 : 8;
    return io::DecodePng(bytes, channels_, bits, Allocator(context));
  }

  Status DecodeGif(KernelContext& context, std::string_view bytes) const {
    if (channels_ != 0 && channels_ != 3)
      return errors::InvalidArgument("channels must be 0 or 3 for GIF, got ", channels_);
    Status status = io::DecodeGif(bytes, Allocator(context));
    if (status.ok()) return status;
    return Status(status.code(), StrCat("Invalid GIF data (size ", bytes.size(), "), ", status.message()));
  }

  const bool gif_;
  const int channels_;
  bool crop_ = false;
  io::JpegDecodeOptions jpeg_;
};

class DecodeBmpKernel final : public OpKernel {
 public:
  explicit DecodeBmpKernel(KernelConstruction& c) : OpKernel(c), channels_(ReadChannels(c)) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const std::string_view bytes, FileContents(context.input(0)));
    return io::DecodeBmp(bytes, channels_, [&](const ImageSize& size) -> StatusOr<uint8_t*> {
      MR_ASSIGN_OR_RETURN(Tensor * out,
                          context.AllocateOutput(0, TensorShape({size.height, size.width, size.channels})));
      return out->data<uint8_t>();
    });
  }

 private:
  const int channels_;
};

class JpegShapeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const std::string_view bytes, FileContents(context.input(0)));
    const auto size = io::JpegSize(bytes);
    if (!size.ok()) return errors::InvalidArgument("Invalid JPEG data, size ", bytes.size());
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape({3})));
    const int64_t values[] = {size->height, size->width, size->channels};
    for (int i = 0; i < 3; ++i) {
      if (out->dtype() == DataType::kInt32) {
        out->data<int32_t>()[i] = static_cast<int32_t>(values[i]);
      } else {
        out->data<int64_t>()[i] = values[i];
      }
    }
    return Status();
  }
};

// The sizes of an image to be encoded.
StatusOr<ImageSize> SizeToEncode(const Tensor& image) {
  if (image.rank() != 3) return errors::InvalidArgument("image must be 3-dimensional", image.shape());
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (int i = 0; i < 3; ++i) {
    if (image.dim(i) >= kMost)
      return errors::InvalidArgument("image cannot have >= int32 max elements: ", image.shape());
  }
  if (image.num_elements() >= kMost)
    return errors::InvalidArgument("image cannot have >= int32 max elements: ", image.shape());
  return ImageSize{.height = image.dim(0), .width = image.dim(1), .channels = static_cast<int>(image.dim(2))};
}

Status SetContents(KernelContext& context, std::string contents) {
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
  out->scalar<std::string>() = std::move(contents);
  return Status();
}

class EncodeJpegKernel final : public OpKernel {
 public:
  explicit EncodeJpegKernel(KernelConstruction& c) : OpKernel(c) {
    const auto format = c.Attr<std::string>("format");
    channels_ = format == "grayscale" ? 1 : format == "rgb" ? 3 : 0;
    const auto quality = c.Attr<int64_t>("quality");
    if (quality < 0 || quality > 100)
      c.SetError(errors::InvalidArgument("quality must be in [0,100], got ", quality));
    options_.quality = static_cast<int>(quality);
    options_.progressive = c.Attr<bool>("progressive");
    options_.optimize_size = c.Attr<bool>("optimize_size");
    options_.chroma_downsampling = c.Attr<bool>("chroma_downsampling");
    options_.density_in_cm = c.Attr<std::string>("density_unit") == "cm";
    options_.x_density = static_cast<int>(c.Attr<int64_t>("x_density"));
    options_.y_density = static_cast<int>(c.Attr<int64_t>("y_density"));
    options_.xmp_metadata = c.Attr<std::string>("xmp_metadata");
  }
  Status Compute(KernelContext& context) override {
    const Tensor& image = context.input(0);
    MR_ASSIGN_OR_RETURN(const ImageSize size, SizeToEncode(image));
    if (channels_ != 0 && size.channels != channels_) {
      return errors::InvalidArgument("format ", channels_ == 1 ? "grayscale" : "rgb", " expects ", channels_,
                                     " channels, got ", image.shape());
    }
    if (size.channels != 1 && size.channels != 3)
      return errors::InvalidArgument("image must have 1 or 3 channels, got ", image.shape());
    MR_ASSIGN_OR_RETURN(std::string contents, io::EncodeJpeg(image.data<uint8_t>(), size, options_));
    return SetContents(context, std::move(contents));
  }

 private:
  int channels_ = 0;
  io::JpegEncodeOptions options_;
};

class EncodeJpegOfQualityKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& image = context.input(0);
    MR_ASSIGN_OR_RETURN(const ImageSize size, SizeToEncode(image));
    if (size.channels != 1 && size.channels != 3)
      return errors::InvalidArgument("image must have 1 or 3 channels, got ", image.shape());
    MR_RETURN_IF_ERROR(RequireScalar(context.input(1), "quality"));
    const int32_t quality = context.input(1).scalar<int32_t>();
    if (quality < 0 || quality > 100)
      return errors::InvalidArgument("quality must be in [0,100], got ", quality);
    io::JpegEncodeOptions options;
    options.quality = quality;
    MR_ASSIGN_OR_RETURN(std::string contents, io::EncodeJpeg(image.data<uint8_t>(), size, options));
    return SetContents(context, std::move(contents));
  }
};

class EncodePngKernel final : public OpKernel {
 public:
  explicit EncodePngKernel(KernelConstruction& c)
      : OpKernel(c), compression_(c.Attr<int64_t>("compression")) {
    if (compression_ < -1 || compression_ > 9)
      c.SetError(errors::InvalidArgument("compression should be in [-1,9], got ", compression_));
  }
  Status Compute(KernelContext& context) override {
    const Tensor& image = context.input(0);
    MR_ASSIGN_OR_RETURN(const ImageSize size, SizeToEncode(image));
    if (size.channels < 1 || size.channels > 4)
      return errors::InvalidArgument("image must have 1, 2, 3, or 4 channels, got ", size.channels);
    if (size.width * size.channels >= std::numeric_limits<int32_t>::max() / 2)
      return errors::InvalidArgument("image too wide to encode");
    const int bits = image.dtype() == DataType::kUint16 ? 16 : 8;
    MR_ASSIGN_OR_RETURN(std::string contents, io::EncodePng(static_cast<const uint8_t*>(image.raw_data()),
                                                            size, bits, static_cast<int>(compression_)));
    return SetContents(context, std::move(contents));
  }

 private:
  const int64_t compression_;
};

}  // namespace

void RegisterImageCodecKernels(KernelRegistry& registry) {
  for (const char* op : {"DecodeJpeg", "DecodeAndCropJpeg", "DecodePng", "DecodeGif"})
    registry.Register<DecodeKernel>(KernelDef(op));
  registry.Register<DecodeBmpKernel>(KernelDef("DecodeBmp"));
  registry.Register<JpegShapeKernel>(KernelDef("ExtractJpegShape"));
  registry.Register<EncodeJpegKernel>(KernelDef("EncodeJpeg"));
  registry.Register<EncodeJpegOfQualityKernel>(KernelDef("EncodeJpegVariableQuality"));
  registry.Register<EncodePngKernel>(KernelDef("EncodePng"));
}

}  // namespace millrace
