// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Two-dimensional convolution and its two gradients on raw pointers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/cpu/contract/gemm.h"
#include "kernels/cpu/contract/parallel.h"

namespace millrace::cpu {

enum class ImageLayout { kNhwc, kNchw };

// Sizes of one convolution. The filter is [filter_h, filter_w, in_c, out_c] for both layouts. The caller has
// computed the output size and the padding; only the padding at the top and the left is needed here, pixels
// beyond the image count as zero.
struct ConvParams {
  int64_t batch = 0;
  int64_t in_h = 0, in_w = 0, in_c = 0;
  int64_t filter_h = 0, filter_w = 0;
  int64_t out_h = 0, out_w = 0, out_c = 0;
  int64_t stride_h = 1, stride_w = 1;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t pad_top = 0, pad_left = 0;
  ImageLayout layout = ImageLayout::kNhwc;

  bool operator==(const ConvParams&) const = default;
};

// The epilogue of Forward: as GemmEpilogue, with channels as columns. The residual has the shape and layout
// of the output.
template <typename T>
using ConvEpilogue = GemmEpilogue<T>;

// The plan for one shape: the algorithm and its tables. A kernel keeps one and makes a new one when the shape
// changes; making one costs about a microsecond. Immutable, so any number of threads may use it at the same
// time. The decomposition depends on the shape only: results are the same bits for every number of threads.
// REQUIRES of the parameters: sizes >= 0, strides and dilations >= 1, pads >= 0, and products of dims fit
// int64_t. Sizes of zero are allowed anywhere: empty sums are zero.
class ConvPlan {
 public:
  explicit ConvPlan(const ConvParams& params);
  ~ConvPlan();
  ConvPlan(ConvPlan&&) noexcept;
  ConvPlan& operator=(ConvPlan&&) noexcept;

  const ConvParams& params() const;

  // output[batch, out_h, out_w, out_c] from input and filter. All pointers dense, none overlap. `packed` is
  // the filter by PackMatrix in the shape that packing() gives, or null; results are the same, except for a
  // shape with `winograd`, whose sums are rounded differently.
  void Forward(const float* input, const float* filter, float* output, Parallel& parallel,
               const ConvEpilogue<float>& epilogue = {}, const float* packed = nullptr) const;
  void Forward(const double* input, const double* filter, double* output, Parallel& parallel,
               const ConvEpilogue<double>& epilogue = {}, const double* packed = nullptr) const;

  // The packing (rows out_c apart) of a constant filter of floats, if it makes Forward
  // faster.
  std::optional<PackedShape> packing() const;

  // Gradient for the input, [batch, in_h, in_w, in_c].
  void BackpropInput(const float* filter, const float* out_grad, float* in_grad, Parallel& parallel) const;
  void BackpropInput(const double* filter, const double* out_grad, double* in_grad, Parallel& parallel) const;

  // Gradient for the filter, [filter_h, filter_w, in_c, out_c].
  void BackpropFilter(const float* input, const float* out_grad, float* filter_grad,
                      Parallel& parallel) const;
  void BackpropFilter(const double* input, const double* out_grad, double* filter_grad,
                      Parallel& parallel) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::cpu
