// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// ImageSummary and AudioSummary.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "io/image/png.h"
#include "kernels/cpu/logging/summary.h"
#include "kernels/cpu/nn/util.h"
#include "tensorflow/core/framework/summary.pb.h"

namespace millrace {
namespace {

// "<tag>/image/0", or without the index if there can be only one.
std::string NumberedTag(const std::string& tag, const char* kind, int64_t most, int64_t i) {
  return most > 1 ? StrCat(tag, "/", kind, "/", i) : StrCat(tag, "/", kind);
}

// Maps the finite pixels of one image to 0…255: zero to 0, or to 128 if there are negative values. The others
// get the bad color.
template <typename T>
void Normalize(const T* pixels, int64_t n, int64_t depth, const Tensor& bad_color, uint8_t* out) {
  const auto is_finite = [&](const T* pixel) {
    return std::all_of(pixel, pixel + depth, [](T x) { return std::isfinite(x); });
  };
  T least = std::numeric_limits<T>::infinity(), most = -least;
  for (const T* pixel = pixels; pixel < pixels + n * depth; pixel += depth) {
    if (!is_finite(pixel)) continue;
    least = std::min(least, *std::min_element(pixel, pixel + depth));
    most = std::max(most, *std::max_element(pixel, pixel + depth));
  }
  constexpr T kNearZero = T(1e-6);
  T scale, offset;
  if (least < 0) {
    const T size = std::max(std::abs(least), std::abs(most));
    scale = size < kNearZero ? T(0) : 127 / size;
    offset = 128;
  } else {
    scale = most < kNearZero ? T(0) : 255 / most;
    offset = 0;
  }
  for (int64_t i = 0; i < n; ++i, pixels += depth, out += depth) {
    const bool finite = is_finite(pixels);
    for (int64_t c = 0; c < depth; ++c) {
      const T shade = finite ? std::clamp(pixels[c] * scale + offset, T(0), T(255)) : T(0);
      out[c] = finite ? static_cast<uint8_t>(shade) : bad_color.data<uint8_t>()[c];
    }
  }
}

class ImageSummaryKernel final : public OpKernel {
 public:
  explicit ImageSummaryKernel(KernelConstruction& c)
      : OpKernel(c), most_(c.Attr<int64_t>("max_images")), bad_color_(c.Attr<Tensor>("bad_color")) {
    if (!c.status().ok()) return;
    if (bad_color_.dtype() != DataType::kUint8)
      c.SetError(errors::InvalidArgument("bad_color must be uint8, got ", DataTypeName(bad_color_.dtype())));
    if (!bad_color_.shape().IsVector())
      c.SetError(errors::InvalidArgument("bad_color must be a vector, got shape ", bad_color_.shape()));
  }

  Status Compute(KernelContext& context) override {
    const Tensor& tag = context.input(0);
    if (!tag.shape().IsScalar()) return errors::InvalidArgument("Tags must be a scalar");
    tensorflow::Summary summary;
    MR_RETURN_IF_ERROR(
        AddImages(context, tag.scalar<std::string>(), context.input(1), most_, bad_color_, &summary));
    return SetSummary(context, summary);
  }

 private:
  const int64_t most_;
  const Tensor bad_color_;
};

void AppendLittle(uint32_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

// A WAV file of 16-bit samples.
std::string Wav(const float* samples, int64_t frames, int64_t channels, uint32_t rate) {
  const auto data_bytes = static_cast<uint32_t>(frames * channels * 2);
  const auto frame_bytes = static_cast<uint32_t>(channels * 2);
  std::string out = "RIFF";
  AppendLittle(36 + data_bytes, 4, &out);
  out += "WAVEfmt ";
  AppendLittle(16, 4, &out);
  AppendLittle(1, 2, &out);
  AppendLittle(static_cast<uint32_t>(channels), 2, &out);
  AppendLittle(rate, 4, &out);
  AppendLittle(rate * frame_bytes, 4, &out);
  AppendLittle(frame_bytes, 2, &out);
  AppendLittle(16, 2, &out);
  out += "data";
  AppendLittle(data_bytes, 4, &out);
  for (int64_t i = 0; i < frames * channels; ++i) {
    const float scaled = std::round(samples[i] * 32768.0f);
    // NaN is silence.
    const float clamped = std::isnan(scaled) ? 0 : std::clamp(scaled, -32768.0f, 32767.0f);
    AppendLittle(static_cast<uint16_t>(static_cast<int16_t>(clamped)), 2, &out);
  }
  return out;
}

class AudioSummaryKernel final : public OpKernel {
 public:
  explicit AudioSummaryKernel(KernelConstruction& c)
      : OpKernel(c),
        most_(c.Attr<int64_t>("max_outputs")),
        rate_(c.HasAttr("sample_rate") ? c.Attr<float>("sample_rate") : 0) {}
  Status Compute(KernelContext& context) override {
    const Tensor& tag = context.input(0);
    if (!tag.shape().IsScalar()) return errors::InvalidArgument("Tag must be a scalar");
    float rate = rate_;
    if (num_inputs() == 3) {
      const Tensor& input = context.input(2);
      if (!input.shape().IsScalar()) return errors::InvalidArgument("sample_rate must be rank-0");
      rate = input.scalar<float>();
    }
    tensorflow::Summary summary;
    MR_RETURN_IF_ERROR(AddAudio(tag.scalar<std::string>(), context.input(1), rate, most_, &summary));
    return SetSummary(context, summary);
  }

 private:
  const int64_t most_;
  const float rate_;
};

}  // namespace

Status AddImages(KernelContext& context, const std::string& tag, const Tensor& images, int64_t most,
                 const Tensor& bad_color, tensorflow::Summary* summary) {
  const int64_t depth = images.rank() == 4 ? images.dim(3) : 0;
  if (depth != 1 && depth != 3 && depth != 4) {
    return errors::InvalidArgument("Tensor must be 4-D with last dim 1, 3, or 4, not ", images.shape());
  }
  const bool normalize = images.dtype() != DataType::kUint8;
  if (normalize && depth > bad_color.num_elements()) {
    return errors::InvalidArgument("expected depth <= bad_color.size, got depth = ", depth,
                                   ", bad_color.size = ", bad_color.num_elements());
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 8;
  const int64_t height = images.dim(1), width = images.dim(2);
  if (height > kMost || width > kMost)
    return errors::InvalidArgument("Tensor too large for summary ", images.shape());
  const int64_t shown = std::min(most, images.dim(0)), pixels = height * width;
  Tensor work = images;
  if (images.dtype() == DataType::kHalf) {
    MR_ASSIGN_OR_RETURN(work, ToFloat(context, images));
  }
  std::vector<uint8_t> shades(normalize && shown > 0 ? static_cast<size_t>(pixels * depth) : 0);
  for (int64_t i = 0; i < shown; ++i) {
    const int64_t at = i * pixels * depth;
    const uint8_t* image = shades.data();
    if (work.dtype() == DataType::kFloat) {
      Normalize(work.data<float>() + at, pixels, depth, bad_color, shades.data());
    } else if (work.dtype() == DataType::kDouble) {
      Normalize(work.data<double>() + at, pixels, depth, bad_color, shades.data());
    } else {
      image = work.data<uint8_t>() + at;
    }
    const io::ImageSize size{.height = height, .width = width, .channels = static_cast<int>(depth)};
    MR_ASSIGN_OR_RETURN(std::string png, io::EncodePng(image, size, 8, -1));
    tensorflow::Summary::Value* const value = summary->add_value();
    value->set_tag(NumberedTag(tag, "image", most, i));
    value->mutable_image()->set_height(static_cast<int32_t>(height));
    value->mutable_image()->set_width(static_cast<int32_t>(width));
    value->mutable_image()->set_colorspace(static_cast<int32_t>(depth));
    value->mutable_image()->set_encoded_image_string(std::move(png));
  }
  return Status();
}

Status AddAudio(const std::string& tag, const Tensor& clips, float sample_rate, int64_t most,
                tensorflow::Summary* summary) {
  if (clips.rank() != 2 && clips.rank() != 3)
    return errors::InvalidArgument("Tensor must be 3-D or 2-D, got: ", clips.shape());
  if (!(sample_rate > 0 && sample_rate < 4294967040.0f))
    return errors::InvalidArgument("sample_rate must be > 0");
  const int64_t frames = clips.dim(1), channels = clips.rank() == 2 ? 1 : clips.dim(2);
  // The limits of the fields of the format.
  if (channels < 1 || channels > std::numeric_limits<int16_t>::max() || frames < 1 ||
      frames > (int64_t{1} << 30) / channels) {
    return errors::InvalidArgument("Tensor cannot be written as audio: ", clips.shape());
  }
  for (int64_t i = 0; i < std::min(most, clips.dim(0)); ++i) {
    tensorflow::Summary::Value* const value = summary->add_value();
    value->set_tag(NumberedTag(tag, "audio", most, i));
    tensorflow::Summary::Audio* const audio = value->mutable_audio();
    audio->set_sample_rate(sample_rate);
    audio->set_num_channels(channels);
    audio->set_length_frames(frames);
    audio->set_content_type("audio/wav");
    audio->set_encoded_audio_string(Wav(clips.data<float>() + i * frames * channels, frames, channels,
                                        static_cast<uint32_t>(std::round(sample_rate))));
  }
  return Status();
}

void RegisterMediaSummaryKernels(KernelRegistry& registry) {
  registry.Register<ImageSummaryKernel>(KernelDef("ImageSummary"));
  registry.Register<AudioSummaryKernel>(KernelDef("AudioSummary"));
  registry.Register<AudioSummaryKernel>(KernelDef("AudioSummaryV2"));
}

}  // namespace millrace
