// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// DecodeWav and EncodeWav.
#include "io/sound/wav.h"

#include <algorithm>

#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

class DecodeWavKernel final : public OpKernel {
 public:
  explicit DecodeWavKernel(KernelConstruction& c)
      : OpKernel(c),
        channels_(c.Attr<int64_t>("desired_channels")),
        frames_(c.Attr<int64_t>("desired_samples")) {
    if (channels_ < -1) c.SetError(errors::InvalidArgument("channels must be non-negative, got ", channels_));
    if (frames_ < -1) c.SetError(errors::InvalidArgument("samples must be non-negative, got ", frames_));
  }
  Status Compute(KernelContext& context) override {
    const Tensor& contents = context.input(0);
    if (!contents.shape().IsScalar())
      return errors::InvalidArgument("contents must be scalar, got shape ", contents.shape());
    MR_ASSIGN_OR_RETURN(const io::WavView wav, io::ReadWav(contents.scalar<std::string>()));
    TensorShape shape;
    MR_RETURN_IF_ERROR(shape.TryAddDim(frames_ == -1 ? wav.frames : frames_));
    MR_RETURN_IF_ERROR(shape.TryAddDim(channels_ == -1 ? wav.channels : channels_));
    MR_ASSIGN_OR_RETURN(Tensor * audio, context.AllocateOutput(0, shape));
    MR_ASSIGN_OR_RETURN(Tensor * rate, context.AllocateOutput(1, TensorShape()));
    *rate->data<int32_t>() = static_cast<int32_t>(wav.sample_rate);
    if (shape.num_elements() == 0) return Status();
    float* to = audio->data<float>();
    const int64_t channels = shape.dim(1), frames = std::min(shape.dim(0), wav.frames);
    context.ParallelFor(frames, channels, [&](int64_t begin, int64_t end) {
      for (int64_t f = begin; f < end; ++f) {
        // Channels that the file lacks repeat its last one.
        for (int64_t c = 0; c < channels; ++c)
          to[f * channels + c] = wav.Sample(f * wav.channels + std::min<int64_t>(c, wav.channels - 1));
      }
    });
    std::fill(to + frames * channels, to + shape.num_elements(), 0.0f);
    return Status();
  }

 private:
  const int64_t channels_, frames_;
};

class EncodeWavKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& audio = context.input(0);
    const Tensor& rate = context.input(1);
    if (audio.rank() != 2) return errors::InvalidArgument("audio must be 2-dimensional", audio.shape());
    if (!rate.shape().IsScalar()) {
      return errors::InvalidArgument("Input sample_rate should be a scalar tensor, got ", rate.shape(),
                                     " instead.");
    }
    MR_ASSIGN_OR_RETURN(std::string bytes, io::WriteWav(audio.flat<float>(), audio.dim(1), IntValue(rate)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
    *out->data<std::string>() = std::move(bytes);
    return Status();
  }
};

}  // namespace

void RegisterWavKernels(KernelRegistry& registry) {
  registry.Register<DecodeWavKernel>(KernelDef("DecodeWav"));
  registry.Register<EncodeWavKernel>(KernelDef("EncodeWav"));
}

}  // namespace millrace
