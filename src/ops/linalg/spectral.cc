// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Fourier transforms.
#include "ops/family.h"

namespace millrace::ops {
namespace {

int TransformedDims(const InferenceContext& c) {
  return c.op().name.ends_with("2D") ? 2 : c.op().name.ends_with("3D") ? 3 : 1;
}

Status FftShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.WithRankAtLeast(c.input(0), TransformedDims(c)));
  c.set_output(0, out);
  return Status();
}

// Input 1: the lengths of the transforms. Of the transform of a real signal, half of the last one is kept.
Status RealFftShape(InferenceContext& c) {
  const int rank = TransformedDims(c);
  const bool forward = c.op().name[0] == 'R';
  MR_ASSIGN_OR_RETURN(ShapeHandle out, c.WithRankAtLeast(c.input(0), rank));
  MR_ASSIGN_OR_RETURN(const ShapeHandle lengths, c.WithRank(c.input(1), 1));
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(lengths, 0), rank).status());
  const Tensor* values = c.input_tensor(1);
  if (!c.RankKnown(out)) return shape_fns::Unknown(c);
  for (int i = 0; i < rank; ++i) {
    DimHandle dim = c.UnknownDim();
    if (values != nullptr && values->num_elements() == rank) {
      const int64_t n = values->data<int32_t>()[i];
      if (n < 0) return errors::InvalidArgument("fft_length must not be negative, got ", n);
      dim = c.MakeDim(forward && i == rank - 1 && n > 0 ? n / 2 + 1 : n);
    }
    MR_ASSIGN_OR_RETURN(out, c.ReplaceDim(out, i - rank, dim));
  }
  c.set_output(0, out);
  return Status();
}

std::vector<OpBuilder> Transforms() {
  std::vector<OpBuilder> ops;
  for (const char* dims : {"", "2D", "3D"}) {
    for (const char* name : {"FFT: The Fourier transform along the last dimension.",
                             "IFFT: The inverse Fourier transform along the last dimension."}) {
      ops.push_back(OpBuilder(WithSuffix(name, dims))
                        .Input("input: Tcomplex")
                        .Output("output: Tcomplex")
                        .Attr("Tcomplex: {complex64, complex128} = DT_COMPLEX64")
                        .Shape(FftShape));
      ops.push_back(OpBuilder(StrCat("Batch", WithSuffix(name, dims)))
                        .Input("input: complex64")
                        .Output("output: complex64")
                        .Deprecated(15, StrCat("Use ", NameOf(name), dims))
                        .Shape(FftShape));
    }
    ops.push_back(
        OpBuilder(WithSuffix("RFFT: The Fourier transform of real numbers along the last dimension.", dims))
            .Input("input: float")
            .Input("fft_length: int32")
            .Output("output: complex64")
            .Shape(RealFftShape));
    ops.push_back(
        OpBuilder(
            WithSuffix("IRFFT: The inverse Fourier transform along the last dimension, as real numbers.",
                       dims))
            .Input("input: complex64")
            .Input("fft_length: int32")
            .Output("output: float")
            .Shape(RealFftShape));
  }
  return ops;
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterSpectralOps(OpRegistry& registry) { return ops::RegisterEach(registry, ops::Transforms()); }

}  // namespace millrace
