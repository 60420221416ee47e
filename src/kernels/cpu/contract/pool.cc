// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/pool.h"

#include <algorithm>

#include "kernels/cpu/contract/simd_table.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kValuesPerNs = 8;

int64_t WindowCost(const PoolParams& p, int64_t outputs) {
  const int64_t window = std::min(p.window_h, p.in_h) * std::min(p.window_w, p.in_w);
  return std::max<int64_t>(outputs * std::max<int64_t>(window, 1) / kValuesPerNs, 1);
}

// Calls fn for each row of all images: of the outputs, or of the inputs.
template <typename F>
void ForRowsOf(const PoolParams& p, int64_t image_rows, int64_t cost_ns, Parallel& parallel, const F& fn) {
  parallel.For(p.batch * image_rows, cost_ns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t image = i / image_rows;
      const int64_t row = i % image_rows;
      const int64_t rows = std::min(image_rows - row, end - i);
      fn(PoolBlock{&p, image, row, row + rows, 0, p.channels});
      i += rows;
    }
  });
}

template <typename F>
void ForEachRow(const PoolParams& p, Parallel& parallel, const F& fn) {
  if (p.out_h <= 0 || p.out_w <= 0 || p.channels <= 0) return;
  ForRowsOf(p, p.out_h, WindowCost(p, p.out_w * p.channels), parallel, fn);
}

template <typename F>
void ForEachInputRow(const PoolParams& p, Parallel& parallel, const F& fn) {
  if (p.in_h <= 0 || p.in_w <= 0 || p.channels <= 0) return;
  const double windows = static_cast<double>(p.out_h * p.out_w) / static_cast<double>(p.in_h);
  const double cost = std::min(static_cast<double>(WindowCost(p, p.channels)) * windows, 1e15);
  ForRowsOf(p, p.in_h, static_cast<int64_t>(cost) + p.in_w * p.channels / kValuesPerNs, parallel, fn);
}

// Windows may share pixels, so a unit is a set of pixels that no other unit writes: some channels of an
// image, if there are few images.
constexpr int64_t kChannelsPerUnit = 64;
constexpr int64_t kWantedUnits = 16;

template <typename F>
void ForEachImage(const PoolParams& p, Parallel& parallel, const F& fn) {
  if (p.in_h <= 0 || p.in_w <= 0 || p.channels <= 0) return;
  const int64_t most = (p.channels + kChannelsPerUnit - 1) / kChannelsPerUnit;
  const int64_t parts = std::min(most, (kWantedUnits + p.batch - 1) / std::max<int64_t>(p.batch, 1));
  const int64_t size = (p.channels + parts - 1) / parts;
  const int64_t cost = WindowCost(p, p.out_h * p.out_w * size) + p.in_h * p.in_w * size / kValuesPerNs;
  parallel.For(p.batch * parts, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / parts;
      const int64_t first = std::min(i % parts * size, p.channels);
      const int64_t last = std::min(first + size, p.channels);
      fn(PoolBlock{&p, image, 0, p.out_h, first, last});
    }
  });
}

// Calls fn(output, input) for each output of the block with the index of the largest pixel of its window, the
// first of equal ones, NaN being the largest; -1: the window is empty.
template <typename T, typename F>
void ForEachLargest(const PoolBlock& block, const T* input, const F& fn) {
  const PoolParams& p = *block.params;
  for (int64_t i = block.row_begin * p.out_w; i < block.row_end * p.out_w; ++i) {
    const int64_t top = i / p.out_w * p.stride_h - p.pad_top, left = i % p.out_w * p.stride_w - p.pad_left;
    const int64_t bottom = std::min(top + p.window_h, p.in_h), right = std::min(left + p.window_w, p.in_w);
    for (int64_t c = block.channel_begin; c < block.channel_end; ++c) {
      int64_t best = -1;
      for (int64_t h = std::max<int64_t>(top, 0); h < bottom; ++h) {
        for (int64_t w = std::max<int64_t>(left, 0); w < right; ++w) {
          const int64_t at = ((block.image * p.in_h + h) * p.in_w + w) * p.channels + c;
          const bool is_nan = input[at] != input[at];
          if (best < 0 || input[at] > input[best] || (is_nan && input[best] == input[best])) best = at;
        }
      }
      fn((block.image * p.out_h * p.out_w + i) * p.channels + c, best);
    }
  }
}

}  // namespace

template <typename T>
void MaxPool(const PoolParams& params, const T* input, T* output, Parallel& parallel) {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  ForEachRow(params, parallel, [&](const PoolBlock& block) { kernels.max_pool(block, input, output); });
}

template <typename T>
void MaxPoolGrad(const PoolParams& params, const T* input, const T* out_grad, T* in_grad,
                 Parallel& parallel) {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  ForEachImage(params, parallel,
               [&](const PoolBlock& block) { kernels.max_pool_grad(block, input, out_grad, in_grad); });
}

template <typename T>
void MaxPoolGradGrad(const PoolParams& params, const T* input, const T* in_grad, T* out, Parallel& parallel) {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  ForEachRow(params, parallel,
             [&](const PoolBlock& block) { kernels.max_pool_grad_grad(block, input, in_grad, out); });
}
template <>
void MaxPoolGradGrad(const PoolParams& params, const int64_t* input, const int64_t* in_grad, int64_t* out,
                     Parallel& parallel) {
  ForEachRow(params, parallel, [&](const PoolBlock& block) {
    ForEachLargest(block, input, [&](int64_t to, int64_t at) { out[to] = at < 0 ? 0 : in_grad[at]; });
  });
}

template <>
void MaxPool(const PoolParams& params, const int64_t* input, int64_t* output, Parallel& parallel) {
  ForEachRow(params, parallel, [&](const PoolBlock& block) {
    ForEachLargest(block, input, [&](int64_t to, int64_t at) { output[to] = at < 0 ? 0 : input[at]; });
  });
}
template <>
void MaxPoolGrad(const PoolParams& params, const int64_t* input, const int64_t* out_grad, int64_t* in_grad,
                 Parallel& parallel) {
  ForEachImage(params, parallel, [&](const PoolBlock& block) {
    int64_t* const image = in_grad + block.image * params.in_h * params.in_w * params.channels;
    for (int64_t x = 0; x < params.in_h * params.in_w; ++x) {
      std::fill(image + x * params.channels + block.channel_begin,
                image + x * params.channels + block.channel_end, 0);
    }
    ForEachLargest(block, input, [&](int64_t from, int64_t at) {
      // Integers wrap.
      if (at >= 0)
        in_grad[at] =
            static_cast<int64_t>(static_cast<uint64_t>(in_grad[at]) + static_cast<uint64_t>(out_grad[from]));
    });
  });
}

template <typename T>
void AvgPool(const PoolParams& params, const T* input, T* output, Parallel& parallel) {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  ForEachRow(params, parallel, [&](const PoolBlock& block) { kernels.avg_pool(block, input, output); });
}

template <typename T>
void AvgPoolGrad(const PoolParams& params, const T* out_grad, T* in_grad, Parallel& parallel) {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  ForEachInputRow(params, parallel,
                  [&](const PoolBlock& block) { kernels.avg_pool_grad(block, out_grad, in_grad); });
}

template void MaxPool(const PoolParams&, const float*, float*, Parallel&);
template void MaxPool(const PoolParams&, const double*, double*, Parallel&);
template void MaxPoolGrad(const PoolParams&, const float*, const float*, float*, Parallel&);
template void MaxPoolGrad(const PoolParams&, const double*, const double*, double*, Parallel&);
template void MaxPoolGradGrad(const PoolParams&, const float*, const float*, float*, Parallel&);
template void MaxPoolGradGrad(const PoolParams&, const double*, const double*, double*, Parallel&);
template void AvgPool(const PoolParams&, const float*, float*, Parallel&);
template void AvgPool(const PoolParams&, const double*, double*, Parallel&);
template void AvgPoolGrad(const PoolParams&, const float*, float*, Parallel&);
template void AvgPoolGrad(const PoolParams&, const double*, double*, Parallel&);

}  // namespace millrace::cpu
