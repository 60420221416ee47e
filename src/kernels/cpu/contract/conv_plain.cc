// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/conv_plain.h"

#include "kernels/cpu/contract/conv_geometry.h"

namespace millrace::cpu {
namespace {

// The taps k of one output index whose input index is inside the image.
IndexRange TapsInside(const ConvAxis& axis, int64_t out) {
  return InsideRange(out * axis.stride - axis.pad, axis.dilation, axis.in, axis.filter);
}

// Calls fn(input pixel, output pixel, tap) for every pair of pixels of output row (image, oh) that the filter
// connects; the first two as offsets of channel 0.
template <typename F>
void ForEachPair(const ConvParams& p, int64_t image, int64_t oh, const F& fn) {
  const ConvAxis rows = RowAxis(p), columns = ColumnAxis(p);
  const ImageStrides in = InputStrides(p), out = OutputStrides(p);
  const IndexRange khs = TapsInside(rows, oh);
  for (int64_t ow = 0; ow < p.out_w; ++ow) {
    const IndexRange kws = TapsInside(columns, ow);
    const int64_t to = image * out.image + oh * out.row + ow * out.pixel;
    for (int64_t kh = khs.begin; kh < khs.end; ++kh) {
      const int64_t ih = oh * rows.stride + kh * rows.dilation - rows.pad;
      for (int64_t kw = kws.begin; kw < kws.end; ++kw) {
        const int64_t iw = ow * columns.stride + kw * columns.dilation - columns.pad;
        fn(image * in.image + ih * in.row + iw * in.pixel, to, kh * p.filter_w + kw);
      }
    }
  }
}

// Multiply-adds of one output row, for estimates of cost.
double RowWork(const ConvParams& p) {
  const double taps = static_cast<double>(p.filter_h) * static_cast<double>(p.filter_w);
  return taps * static_cast<double>(p.in_c) * static_cast<double>(p.out_c) * static_cast<double>(p.out_w) *
         16;
}

}  // namespace

template <typename T>
void PlainForward(const ConvParams& p, const T* input, const T* filter, T* output, Parallel& parallel,
                  const ConvEpilogue<T>& epilogue) {
  const ImageStrides in = InputStrides(p), out = OutputStrides(p);
  if (p.out_w <= 0 || p.out_c <= 0) return;
  parallel.For(p.batch * p.out_h, CostNs(RowWork(p)), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t image = unit / p.out_h, oh = unit % p.out_h;
      T* const row = output + image * out.image + oh * out.row;
      for (int64_t ow = 0; ow < p.out_w; ++ow) {
        for (int64_t o = 0; o < p.out_c; ++o) row[ow * out.pixel + o * out.channel] = T(0);
      }
      ForEachPair(p, image, oh, [&](int64_t from, int64_t to, int64_t tap) {
        for (int64_t c = 0; c < p.in_c; ++c) {
          const T x = input[from + c * in.channel];
          const T* const weights = filter + (tap * p.in_c + c) * p.out_c;
          for (int64_t o = 0; o < p.out_c; ++o) output[to + o * out.channel] += x * weights[o];
        }
      });
      for (int64_t ow = 0; ow < p.out_w; ++ow) {
        for (int64_t o = 0; o < p.out_c; ++o) {
          T& y = row[ow * out.pixel + o * out.channel];
          if (epilogue.scale != nullptr) y *= epilogue.scale[o];
          if (epilogue.bias != nullptr) y += epilogue.bias[o];
          y = Rectified(y, epilogue.rectify);
        }
      }
    }
  });
}

template <typename T>
void PlainBackpropInput(const ConvParams& p, const T* filter, const T* out_grad, T* in_grad,
                        Parallel& parallel) {
  const ImageStrides in = InputStrides(p), out = OutputStrides(p);
  const int64_t image_size = p.in_h * p.in_w * p.in_c;
  if (image_size <= 0) return;
  const double work = RowWork(p) * static_cast<double>(p.out_h) + static_cast<double>(image_size);
  parallel.For(p.batch, CostNs(work), [&](int64_t begin, int64_t end) {
    std::fill(in_grad + begin * image_size, in_grad + end * image_size, T(0));
    if (p.out_c <= 0) return;
    for (int64_t image = begin; image < end; ++image) {
      for (int64_t oh = 0; oh < p.out_h; ++oh) {
        ForEachPair(p, image, oh, [&](int64_t to, int64_t from, int64_t tap) {
          for (int64_t c = 0; c < p.in_c; ++c) {
            const T* const weights = filter + (tap * p.in_c + c) * p.out_c;
            T sum = T(0);
            for (int64_t o = 0; o < p.out_c; ++o) sum += out_grad[from + o * out.channel] * weights[o];
            in_grad[to + c * in.channel] += sum;
          }
        });
      }
    }
  });
}

template <typename T>
void PlainBackpropFilter(const ConvParams& p, const T* input, const T* out_grad, T* filter_grad,
                         Parallel& parallel) {
  const ConvAxis rows = RowAxis(p), columns = ColumnAxis(p);
  const ImageStrides in = InputStrides(p), out = OutputStrides(p);
  if (p.out_c <= 0) return;
  // A unit is one row of the result: a tap and an input channel.
  const double work = static_cast<double>(p.batch) * static_cast<double>(p.out_h) * RowWork(p) /
                      std::max(1.0, static_cast<double>(p.filter_h * p.filter_w * p.in_c));
  parallel.For(p.filter_h * p.filter_w * p.in_c, CostNs(work), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t c = unit % p.in_c, kw = unit / p.in_c % p.filter_w, kh = unit / p.in_c / p.filter_w;
      T* const sums = filter_grad + unit * p.out_c;
      std::fill(sums, sums + p.out_c, T(0));
      const int64_t top = kh * rows.dilation - rows.pad, left = kw * columns.dilation - columns.pad;
      const IndexRange ohs = InsideRange(top, rows.stride, rows.in, rows.out);
      const IndexRange ows = InsideRange(left, columns.stride, columns.in, columns.out);
      for (int64_t image = 0; image < p.batch; ++image) {
        for (int64_t oh = ohs.begin; oh < ohs.end; ++oh) {
          for (int64_t ow = ows.begin; ow < ows.end; ++ow) {
            const int64_t ih = top + oh * rows.stride, iw = left + ow * columns.stride;
            const T x = input[image * in.image + ih * in.row + iw * in.pixel + c * in.channel];
            const T* const grad = out_grad + image * out.image + oh * out.row + ow * out.pixel;
            for (int64_t o = 0; o < p.out_c; ++o) sums[o] += x * grad[o * out.channel];
          }
        }
      }
    }
  });
}

#define MR_INSTANTIATE(T)                                                                                   \
  template void PlainForward(const ConvParams&, const T*, const T*, T*, Parallel&, const ConvEpilogue<T>&); \
  template void PlainBackpropInput(const ConvParams&, const T*, const T*, T*, Parallel&);                   \
  template void PlainBackpropFilter(const ConvParams&, const T*, const T*, T*, Parallel&);
MR_INSTANTIATE(float)
MR_INSTANTIATE(double)
#undef MR_INSTANTIATE

}  // namespace millrace::cpu
