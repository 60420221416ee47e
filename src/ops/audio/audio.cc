// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Recorded sound.
#include <bit>

#include "ops/family.h"

namespace millrace::ops {
namespace {

Status DecodeWavShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  MR_ASSIGN_OR_RETURN(const int64_t channels, c.Attr<int64_t>("desired_channels"));
  MR_ASSIGN_OR_RETURN(const int64_t samples, c.Attr<int64_t>("desired_samples"));
  if (channels < -1) return errors::InvalidArgument("channels must be non-negative, got ", channels);
  if (samples < -1) return errors::InvalidArgument("samples must be non-negative, got ", samples);
  c.set_output(0, c.MakeShape({samples == -1 ? c.UnknownDim() : c.MakeDim(samples),
                               channels == -1 ? c.UnknownDim() : c.MakeDim(channels)}));
  c.set_output(1, c.Scalar());
  return Status();
}

Status EncodeWavShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 2).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  c.set_output(0, c.Scalar());
  return Status();
}

// Each channel of [samples, channels] gives slices of a spectrum.
Status SpectrogramShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const int64_t window, c.Attr<int64_t>("window_size"));
  MR_ASSIGN_OR_RETURN(const int64_t stride, c.Attr<int64_t>("stride"));
  if (window < 2 || window > INT32_MAX || stride < 1) {
    return errors::InvalidArgument("Spectrogram initialization failed for window size ", window,
                                   " and stride ", stride);
  }
  DimHandle slices = c.UnknownDim();
  if (const DimHandle samples = c.Dim(input, 0); c.ValueKnown(samples))
    slices = c.MakeDim(c.Value(samples) < window ? 0 : 1 + (c.Value(samples) - window) / stride);
  const auto length = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(window)));
  c.set_output(0, c.MakeShape({c.Dim(input, 1), slices, c.MakeDim(1 + length / 2)}));
  return Status();
}

Status MfccShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 3));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  MR_ASSIGN_OR_RETURN(const int64_t count, c.Attr<int64_t>("dct_coefficient_count"));
  if (count < 1) return errors::InvalidArgument("dct_coefficient_count must be positive, got ", count);
  c.set_output(0, c.MakeShape({c.Dim(input, 0), c.Dim(input, 1), c.MakeDim(count)}));
  return Status();
}

std::vector<OpBuilder> Sounds() {
  return {
      OpBuilder("AudioSpectrogram: The spectrogram of sound: the strength of each frequency over time.")
          .Input("input: float")
          .Output("spectrogram: float")
          .Attr("window_size: int")
          .Attr("stride: int")
          .Attr("magnitude_squared: bool = false")
          .Shape(SpectrogramShape),
      OpBuilder("DecodeWav: The samples of a WAV file.")
          .Input("contents: string")
          .Output("audio: float")
          .Output("sample_rate: int32")
          .Attr("desired_channels: int = -1")
          .Attr("desired_samples: int = -1")
          .Shape(DecodeWavShape)
          .NotDifferentiable(),
      OpBuilder("EncodeWav: Samples as a WAV file.")
          .Input("audio: float")
          .Input("sample_rate: int32")
          .Output("contents: string")
          .Shape(EncodeWavShape)
          .NotDifferentiable(),
      OpBuilder("Mfcc: Mel-frequency cepstral coefficients of a spectrogram.")
          .Input("spectrogram: float")
          .Input("sample_rate: int32")
          .Output("output: float")
          .Attr("upper_frequency_limit: float = 4000")
          .Attr("lower_frequency_limit: float = 20")
          .Attr("filterbank_channel_count: int = 40")
          .Attr("dct_coefficient_count: int = 13")
          .Shape(MfccShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterAudioOps(OpRegistry& registry) { return ops::RegisterEach(registry, ops::Sounds()); }

}  // namespace millrace
