// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Pooling of one image, vectorised over channels by the compiler. Included by simd_*.cc only, inside their
// own namespace.

// The pixels of one output's window that lie inside the image.
struct Window {
  int64_t h_begin, h_end, w_begin, w_end;
  int64_t count() const {
    return h_begin < h_end && w_begin < w_end ? (h_end - h_begin) * (w_end - w_begin) : 0;
  }
};

inline Window WindowOf(const PoolParams& p, int64_t row, int64_t col) {
  Window w;
  const int64_t top = row * p.stride_h - p.pad_top;
  const int64_t left = col * p.stride_w - p.pad_left;
  w.h_begin = top < 0 ? 0 : top;
  w.w_begin = left < 0 ? 0 : left;
  w.h_end = top + p.window_h < p.in_h ? top + p.window_h : p.in_h;
  w.w_end = left + p.window_w < p.in_w ? left + p.window_w : p.in_w;
  return w;
}

// Calls fn(window, offset of the output pixel, offset of the image) for each output pixel of the block.
template <typename F>
MR_INLINE void ForEachWindow(const PoolBlock& block, const F& fn) {
  const PoolParams& p = *block.params;
  const int64_t image = block.image * p.in_h * p.in_w * p.channels;
  for (int64_t row = block.row_begin; row < block.row_end; ++row) {
    for (int64_t col = 0; col < p.out_w; ++col) {
      fn(WindowOf(p, row, col), ((block.image * p.out_h + row) * p.out_w + col) * p.channels, image);
    }
  }
}

template <typename T>
MR_INLINE T Larger(T best, T x) {
  return x > best || x != x ? x : best;
}

template <typename T>
void MaxPoolBlock(const PoolBlock& block, const T* input, T* output) {
  const PoolParams& p = *block.params;
  const int64_t channels = p.channels, begin = block.channel_begin, end = block.channel_end;
  ForEachWindow(block, [&](const Window& w, int64_t out_at, int64_t image) {
    T* const out = output + out_at;
    const T lowest = sizeof(T) == 4 ? static_cast<T>(-__FLT_MAX__) : static_cast<T>(-__DBL_MAX__);
    bool first = true;
    if (w.count() == 0) {
      for (int64_t c = begin; c < end; ++c) out[c] = lowest;
      return;
    }
    for (int64_t h = w.h_begin; h < w.h_end; ++h) {
      for (int64_t x = w.w_begin; x < w.w_end; ++x) {
        const T* const in = input + image + (h * p.in_w + x) * channels;
        if (first) {
          for (int64_t c = begin; c < end; ++c) out[c] = in[c];
          first = false;
        } else {
          MR_INDEPENDENT
          for (int64_t c = begin; c < end; ++c) out[c] = Larger(out[c], in[c]);
        }
      }
    }
  });
}

constexpr int64_t kPoolChunk = 64;  // channels whose best values are on the stack at once

template <typename T>
void MaxPoolGradBlock(const PoolBlock& block, const T* input, const T* out_grad, T* in_grad) {
  const PoolParams& p = *block.params;
  ForEachWindow(block, [&](const Window& w, int64_t out_at, int64_t image) {
    for (int64_t begin = block.channel_begin; begin < block.channel_end; begin += kPoolChunk) {
      const int64_t n = block.channel_end - begin < kPoolChunk ? block.channel_end - begin : kPoolChunk;
      T best[kPoolChunk];
      int32_t where[kPoolChunk];  // number of the pixel in the window
      int32_t pixel = 0;
      for (int64_t h = w.h_begin; h < w.h_end; ++h) {
        for (int64_t x = w.w_begin; x < w.w_end; ++x, ++pixel) {
          const T* const in = input + image + (h * p.in_w + x) * p.channels + begin;
          if (pixel == 0) {
            for (int64_t c = 0; c < n; ++c) best[c] = in[c], where[c] = 0;
            continue;
          }
          for (int64_t c = 0; c < n; ++c) {
            const bool take = in[c] > best[c] || (in[c] != in[c] && best[c] == best[c]);
            where[c] = take ? pixel : where[c];
            best[c] = take ? in[c] : best[c];
          }
        }
      }
      const T* const grad = out_grad + out_at + begin;
      pixel = 0;
      for (int64_t h = w.h_begin; h < w.h_end; ++h) {
        for (int64_t x = w.w_begin; x < w.w_end; ++x, ++pixel) {
          T* const to = in_grad + image + (h * p.in_w + x) * p.channels + begin;
          MR_INDEPENDENT
          for (int64_t c = 0; c < n; ++c) to[c] += where[c] == pixel ? grad[c] : T(0);
        }
      }
    }
  });
}

template <typename T>
void AvgPoolBlock(const PoolBlock& block, const T* input, T* output) {
  const PoolParams& p = *block.params;
  const int64_t channels = p.channels, begin = block.channel_begin, end = block.channel_end;
  ForEachWindow(block, [&](const Window& w, int64_t out_at, int64_t image) {
    T* const out = output + out_at;
    for (int64_t c = begin; c < end; ++c) out[c] = T(0);
    const int64_t count = w.count();
    if (count == 0) return;
    for (int64_t h = w.h_begin; h < w.h_end; ++h) {
      for (int64_t x = w.w_begin; x < w.w_end; ++x) {
        const T* const in = input + image + (h * p.in_w + x) * channels;
        MR_INDEPENDENT
        for (int64_t c = begin; c < end; ++c) out[c] += in[c];
      }
    }
    const T divisor = static_cast<T>(count);
    for (int64_t c = begin; c < end; ++c) out[c] /= divisor;
  });
}

template <typename T>
void AvgPoolGradBlock(const PoolBlock& block, const T* out_grad, T* in_grad) {
  const PoolParams& p = *block.params;
  const int64_t channels = p.channels, begin = block.channel_begin, end = block.channel_end;
  ForEachWindow(block, [&](const Window& w, int64_t out_at, int64_t image) {
    const int64_t count = w.count();
    if (count == 0) return;
    const T scale = T(1) / static_cast<T>(count);
    const T* const grad = out_grad + out_at;
    for (int64_t h = w.h_begin; h < w.h_end; ++h) {
      for (int64_t x = w.w_begin; x < w.w_end; ++x) {
        T* const to = in_grad + image + (h * p.in_w + x) * channels;
        MR_INDEPENDENT
        for (int64_t c = begin; c < end; ++c) to[c] += grad[c] * scale;
      }
    }
  });
}
