// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/conv.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "kernels/cpu/contract/conv_direct.h"
#include "kernels/cpu/contract/conv_phase_grad.h"
#include "kernels/cpu/contract/conv_pixel_grad.h"
#include "kernels/cpu/contract/conv_plain.h"
#include "kernels/cpu/contract/conv_planar.h"
#include "kernels/cpu/contract/conv_row_grad.h"
#include "kernels/cpu/contract/conv_winograd.h"
#include "kernels/cpu/contract/conv_winograd_grad.h"
#include "kernels/cpu/contract/gemm.h"
#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/contract/simd_table.h"

namespace millrace::cpu {
namespace {

// A filter of one pixel, or one that covers the image once, is a matrix product of the tensors as they are:
// [rows, inner] x [inner, out_c].
std::optional<GemmShape> AsProduct(const ConvParams& p) {
  if (p.layout != ImageLayout::kNhwc || p.pad_top != 0 || p.pad_left != 0) return std::nullopt;
  if (p.filter_h == 1 && p.filter_w == 1 && p.stride_h == 1 && p.stride_w == 1 && p.out_h == p.in_h &&
      p.out_w == p.in_w) {
    return GemmShape{.m = p.batch * p.out_h * p.out_w, .n = p.out_c, .k = p.in_c};
  }
  if (p.out_h == 1 && p.out_w == 1 && p.filter_h == p.in_h && p.filter_w == p.in_w && p.dilation_h == 1 &&
      p.dilation_w == 1) {
    return GemmShape{.m = p.batch, .n = p.out_c, .k = p.in_h * p.in_w * p.in_c};
  }
  return std::nullopt;
}

// Whether `channels` columns of a product waste few lanes of a vector; otherwise vectors run along pixels.
template <typename T>
bool FillsVectors(int64_t channels) {
  const int64_t lanes = ActiveKernels<T>().lanes;
  return channels >= lanes && 4 * channels >= 3 * RoundUp(channels, lanes);
}

// Transposes images between [channels, pixels] and [pixels, channels].
template <typename T>
void TransposeImages(const T* src, int64_t images, int64_t rows, int64_t cols, T* dst, Parallel& parallel) {
  const auto transpose = ActiveKernels<T>().transpose;
  parallel.For(images, rows * cols / 2 + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      transpose(src + i * rows * cols, cols, rows, cols, dst + i * rows * cols, rows);
    }
  });
}

}  // namespace

struct ConvPlan::Impl {
  explicit Impl(const ConvParams& p) : params(p) {
    const int64_t smallest =
        std::min({p.batch, p.in_h, p.in_w, p.in_c, p.filter_h, p.filter_w, p.out_h, p.out_w, p.out_c});
    if (smallest <= 0) return;
    product = AsProduct(p);
    if (!IsModest(p)) return;
    planar.emplace(p);
    ConvParams nhwc = p;
    nhwc.layout = ImageLayout::kNhwc;
    direct.emplace(nhwc);
    if (WinogradConv::Suits(p)) winograd.emplace(p);
    winograd_changing = WinogradConv::SuitsChanging(p);
    const ConvParams gradient = WinogradConv::InputGradient(p);
    if (WinogradConv::SuitsGradient(gradient)) winograd_input.emplace(gradient);
    if (WinogradFilterGrad::Suits(p)) winograd_filter.emplace(p);
    if (PixelFilterGrad::Suits(p)) pixel_filter.emplace(p);
    row_filter.emplace(p, false);
    strip_filter.emplace(p, true);
    if (p.filter_h % p.stride_h == 0 && p.filter_w % p.stride_w == 0) phase_input.emplace(p);
  }

  template <typename T>
  void Forward(const T* input, const T* filter, T* output, Parallel& parallel,
               const ConvEpilogue<T>& epilogue, const T* packed) const {
    if (product) {
      Gemm(*product, input, filter, output, parallel, epilogue, packed);
      return;
    }
    if constexpr (std::is_same_v<T, float>) {
      if (winograd && packed != nullptr) {
        if (winograd->Forward(input, packed, output, parallel, epilogue)) return;
        packed = nullptr;
      } else if (winograd_changing && winograd->ForwardChanging(input, filter, output, parallel, epilogue)) {
        return;
      }
    }
    const bool nhwc = params.layout == ImageLayout::kNhwc;
    if (direct && FillsVectors<T>(params.out_c) && nhwc &&
        direct->Forward(input, filter, output, parallel, epilogue, packed)) {
      return;
    }
    // Otherwise the results are not yet in the layout of the residual.
    ConvEpilogue<T> early = epilogue;
    early.residual = nullptr;
    early.rows = nullptr;
    if (epilogue.residual != nullptr) early.rectify = Rectify::kNone;
    if (!ForwardCopied(input, filter, output, parallel, early, packed) &&
        !(planar && planar->Forward(input, filter, output, parallel, early))) {
      PlainForward(params, input, filter, output, parallel, early);
    }
    Finish(output, parallel, epilogue);
  }

  // With NHWC copies of NCHW images.
  template <typename T>
  bool ForwardCopied(const T* input, const T* filter, T* output, Parallel& parallel,
                     const ConvEpilogue<T>& epilogue, const T* packed) const {
    if (!direct || !FillsVectors<T>(params.out_c) || params.layout == ImageLayout::kNhwc) return false;
    const Nhwc<T> in(*this, in_pixels(), params.in_c, input, parallel);
    const Nhwc<T> out(*this, out_pixels(), params.out_c, output);
    if (!in.ok() || !out.ok() || !direct->Forward(in.data(), filter, out.data(), parallel, epilogue, packed))
      return false;
    out.CopyTo(output, parallel);
    return true;
  }

  // With more results than this for each panel of the filter, packing it each time costs little.
  std::optional<PackedShape> packing() const {
    constexpr int64_t kMaxRows = 4096, kMaxElements = 1 << 23;
    if (product) {
      if (product->m == 1 || product->m > kMaxRows || product->k * product->n > kMaxElements)
        return std::nullopt;
      return PackedShape{product->k, 1, product->n};
    }
    if (winograd) return winograd->packing();
    if (!direct || !FillsVectors<float>(params.out_c) || direct->pixels_at_a_time() > kMaxRows)
      return std::nullopt;
    const PackedShape shape = direct->packing();
    if (shape.runs == 1 && shape.k * shape.n > kMaxElements) return std::nullopt;
    return shape;
  }

  // The rest of the epilogue: one more pass over the output.
  template <typename T>
  void Finish(T* output, Parallel& parallel, const ConvEpilogue<T>& epilogue) const {
    if (epilogue.residual == nullptr && epilogue.rows == nullptr) return;
    const int64_t size = out_pixels() * params.out_c;
    parallel.For(params.batch, size / 4 + 1, [&](int64_t begin, int64_t end) {
      const int64_t from = begin * size, to = end * size;
      if (epilogue.residual != nullptr) {
        for (int64_t i = from; i < to; ++i) {
          output[i] = Rectified(output[i] + epilogue.residual[i], epilogue.rectify);
        }
      }
      if (epilogue.rows != nullptr && to > from) epilogue.rows(output + from, output + from, to - from);
    });
  }

  template <typename T>
  void BackpropInput(const T* filter, const T* out_grad, T* in_grad, Parallel& parallel) const {
    if (product) {
      const GemmShape shape{.m = product->m, .n = product->k, .k = product->n, .trans_b = true};
      Gemm(shape, out_grad, filter, in_grad, parallel);
      return;
    }
    if constexpr (std::is_same_v<T, float>) {
      if (winograd_input && winograd_input->BackpropInput(filter, out_grad, in_grad, parallel)) return;
    }
    if (direct && FillsVectors<T>(params.in_c)) {
      const Nhwc<T> grad(*this, out_pixels(), params.out_c, out_grad, parallel);
      const Nhwc<T> result(*this, in_pixels(), params.in_c, in_grad);
      if (grad.ok() && result.ok() && direct->BackpropInput(filter, grad.data(), result.data(), parallel)) {
        result.CopyTo(in_grad, parallel);
        return;
      }
    }
    if (phase_input && PhaseInputGrad::Suits(params, ActiveKernels<T>().lanes)) {
      const Nhwc<T> grad(*this, out_pixels(), params.out_c, out_grad, parallel);
      const Nhwc<T> result(*this, in_pixels(), params.in_c, in_grad);
      if (grad.ok() && result.ok() && phase_input->Run(filter, grad.data(), result.data(), parallel)) {
        result.CopyTo(in_grad, parallel);
        return;
      }
    }
    if (planar && planar->BackpropInput(filter, out_grad, in_grad, parallel)) return;
    PlainBackpropInput(params, filter, out_grad, in_grad, parallel);
  }

  template <typename T>
  void BackpropFilter(const T* input, const T* out_grad, T* filter_grad, Parallel& parallel) const {
    if (product && product->m == params.batch) {
      const GemmShape shape{.m = product->k, .n = product->n, .k = product->m, .trans_a = true};
      Gemm(shape, input, out_grad, filter_grad, parallel);
      return;
    }
    if constexpr (std::is_same_v<T, float>) {
      if (winograd_filter && winograd_filter->Run(input, out_grad, filter_grad, parallel)) return;
    }
    if (pixel_filter && FillsVectors<T>(params.out_c)) {
      const Nhwc<T> in(*this, in_pixels(), params.in_c, input, parallel);
      const Nhwc<T> grad(*this, out_pixels(), params.out_c, out_grad, parallel);
      if (in.ok() && grad.ok() && pixel_filter->Run(in.data(), grad.data(), filter_grad, parallel)) return;
    }
    const int64_t lanes = ActiveKernels<T>().lanes;
    if (row_filter && RowFilterGrad::Suits(params, lanes)) {
      const RowFilterGrad& plan = RowFilterGrad::SuitsRows(params, lanes) ? *row_filter : *strip_filter;
      const Nhwc<T> in(*this, in_pixels(), params.in_c, input, parallel);
      const Nhwc<T> grad(*this, out_pixels(), params.out_c, out_grad, parallel);
      if (in.ok() && grad.ok() && plan.Run(in.data(), grad.data(), filter_grad, parallel)) return;
    }
    if (direct && (FillsVectors<T>(params.out_c) || planar->sums_elements() > kMaxSums)) {
      const Nhwc<T> in(*this, in_pixels(), params.in_c, input, parallel);
      const Nhwc<T> grad(*this, out_pixels(), params.out_c, out_grad, parallel);
      if (in.ok() && grad.ok() && direct->BackpropFilter(in.data(), grad.data(), filter_grad, parallel))
        return;
    }
    if (planar && planar->BackpropFilter(input, out_grad, filter_grad, parallel)) return;
    PlainBackpropFilter(params, input, out_grad, filter_grad, parallel);
  }

  // A tensor of the images as NHWC: itself, or a copy if the layout is NCHW.
  template <typename T>
  class Nhwc {
   public:
    // For reading.
    Nhwc(const Impl& plan, int64_t pixels, int64_t channels, const T* tensor, Parallel& parallel)
        : Nhwc(plan, pixels, channels, const_cast<T*>(tensor)) {
      if (copied_ && ok()) TransposeImages(tensor, images_, channels_, pixels_, data(), parallel);
    }
    // For writing.
    Nhwc(const Impl& plan, int64_t pixels, int64_t channels, T* tensor)
        : copied_(plan.params.layout == ImageLayout::kNchw),
          images_(plan.params.batch),
          pixels_(pixels),
          channels_(channels),
          tensor_(tensor),
          copy_(Scratch::Of<T>(copied_ ? images_ * pixels * channels : 0)) {}

    bool ok() const { return copy_.ok(); }
    T* data() const { return copied_ ? copy_.template data<T>() : tensor_; }
    void CopyTo(T* tensor, Parallel& parallel) const {
      if (copied_) TransposeImages(data(), images_, pixels_, channels_, tensor, parallel);
    }

   private:
    bool copied_;
    int64_t images_, pixels_, channels_;
    T* tensor_;
    Scratch copy_;
  };

  int64_t in_pixels() const { return params.in_h * params.in_w; }
  int64_t out_pixels() const { return params.out_h * params.out_w; }

  // The number of sums per thread beyond which the planar algorithm is not faster.
  static constexpr int64_t kMaxSums = 1 << 20;

  ConvParams params;
  std::optional<GemmShape> product;
  std::optional<PlanarConv> planar;
  std::optional<DirectConv> direct;
  std::optional<WinogradConv> winograd;
  bool winograd_changing = false;              // also for filters that are not packed
  std::optional<WinogradConv> winograd_input;  // computes the input's gradient from the output's
  std::optional<WinogradFilterGrad> winograd_filter;
  std::optional<PhaseInputGrad> phase_input;
  std::optional<PixelFilterGrad> pixel_filter;
  std::optional<RowFilterGrad> row_filter, strip_filter;  // along rows of the filter, and along all of it
};

ConvPlan::ConvPlan(const ConvParams& params) : impl_(std::make_unique<Impl>(params)) {}
ConvPlan::~ConvPlan() = default;
ConvPlan::ConvPlan(ConvPlan&&) noexcept = default;
ConvPlan& ConvPlan::operator=(ConvPlan&&) noexcept = default;

const ConvParams& ConvPlan::params() const { return impl_->params; }

void ConvPlan::Forward(const float* input, const float* filter, float* output, Parallel& parallel,
                       const ConvEpilogue<float>& epilogue, const float* packed) const {
  impl_->Forward(input, filter, output, parallel, epilogue, packed);
}
void ConvPlan::Forward(const double* input, const double* filter, double* output, Parallel& parallel,
                       const ConvEpilogue<double>& epilogue, const double* packed) const {
  impl_->Forward(input, filter, output, parallel, epilogue, packed);
}
std::optional<PackedShape> ConvPlan::packing() const { return impl_->packing(); }
void ConvPlan::BackpropInput(const float* filter, const float* out_grad, float* in_grad,
                             Parallel& parallel) const {
  impl_->BackpropInput(filter, out_grad, in_grad, parallel);
}
void ConvPlan::BackpropInput(const double* filter, const double* out_grad, double* in_grad,
                             Parallel& parallel) const {
  impl_->BackpropInput(filter, out_grad, in_grad, parallel);
}
void ConvPlan::BackpropFilter(const float* input, const float* out_grad, float* filter_grad,
                              Parallel& parallel) const {
  impl_->BackpropFilter(input, out_grad, filter_grad, parallel);
}
void ConvPlan::BackpropFilter(const double* input, const double* out_grad, double* filter_grad,
                              Parallel& parallel) const {
  impl_->BackpropFilter(input, out_grad, filter_grad, parallel);
}

}  // namespace millrace::cpu
