// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Pooling of one image: vectors run along channels and stay in registers while a window is walked. Included
// by simd_*.cc only, inside their own namespace.

// Parameters are copied to the stack before loops that store: what is only pointed to might change with each
// store.

// The pixels of one output's window that lie inside the image.
struct Window {
  int64_t h_begin, h_end, w_begin, w_end;
  int64_t count() const {
    return h_begin < h_end && w_begin < w_end ? (h_end - h_begin) * (w_end - w_begin) : 0;
  }
};

inline int64_t AtLeastZero(int64_t x) { return x < 0 ? 0 : x; }
inline int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Calls fn(window, offset of the output pixel, offset of the image) for each output pixel of the block.
template <typename F>
MR_INLINE void ForEachWindow(const PoolBlock& block, const F& fn) {
  const PoolParams p = *block.params;
  const int64_t image = block.image * p.in_h * p.in_w * p.channels;
  int64_t out = (block.image * p.out_h + block.row_begin) * p.out_w * p.channels;
  Window w;
  for (int64_t row = block.row_begin; row < block.row_end; ++row) {
    const int64_t top = row * p.stride_h - p.pad_top;
    w.h_begin = AtLeastZero(top);
    w.h_end = Smaller(top + p.window_h, p.in_h);
    int64_t left = -p.pad_left;
    for (int64_t col = 0; col < p.out_w; ++col, left += p.stride_w, out += p.channels) {
      w.w_begin = AtLeastZero(left);
      w.w_end = Smaller(left + p.window_w, p.in_w);
      fn(w, out, image);
    }
  }
}

// Neighbouring channels: kVectors whole vectors, or the first n lanes of one.
template <typename T, int kVectors, bool kWhole>
struct Channels {
  static constexpr int kCount = kVectors;
  int n;
  MR_INLINE Vec<T> From(const T* p, int v) const {
    if constexpr (kWhole) return Load(p + v * kLanes<T>);
    return LoadPart(p, n);
  }
  MR_INLINE void To(T* p, int v, Vec<T> x) const {
    if constexpr (kWhole) {
      Store(p + v * kLanes<T>, x);
    } else {
      StorePart(p, x, n);
    }
  }
};

// Before loops over the vectors of Channels.
#define MR_EACH_VECTOR _Pragma("GCC unroll 4")

// Calls fn(first channel, Channels) until [begin, end) are done: several vectors at a time, so that the
// pixels of a window are read in long pieces.
template <typename T, typename F>
MR_INLINE void ForChannels(int64_t begin, int64_t end, const F& fn) {
  constexpr int kLong = 4;
  int64_t c = begin;
  for (; c + kLong * kLanes<T> <= end; c += kLong * kLanes<T>) fn(c, Channels<T, kLong, true>{});
  for (; c + kLanes<T> <= end; c += kLanes<T>) fn(c, Channels<T, 1, true>{});
  if (c < end) fn(c, Channels<T, 1, false>{static_cast<int>(end - c)});
}

// Calls fn(pixel) with a pointer to the first channel of each pixel of the window.
template <typename T, typename F>
MR_INLINE void ForPixels(const PoolParams& p, const Window& w, T* image, const F& fn) {
  const int64_t row = p.in_w * p.channels;
  T* first = image + w.h_begin * row + w.w_begin * p.channels;
  const int64_t columns = w.w_end - w.w_begin;
  for (int64_t h = w.h_begin; h < w.h_end; ++h, first += row) {
    T* pixel = first;
    for (int64_t i = 0; i < columns; ++i, pixel += p.channels) fn(pixel);
  }
}

template <typename T>
constexpr T kLowest = sizeof(T) == 4 ? static_cast<T>(-__FLT_MAX__) : static_cast<T>(-__DBL_MAX__);

// The largest; NaN is larger than all numbers.
template <typename T>
void MaxPoolBlock(PoolBlock block, const T* input, T* output) {
  const PoolParams p = *block.params;
  ForEachWindow(block, [&](const Window& w, int64_t out_at, int64_t image) {
    const T* const corner = input + image + (w.h_begin * p.in_w + w.w_begin) * p.channels;
    const bool any = w.count() > 0;
    ForChannels<T>(block.channel_begin, block.channel_end, [&](int64_t c, auto channels) {
      Vec<T> best[channels.kCount];
      MR_EACH_VECTOR
      for (int v = 0; v < channels.kCount; ++v) {
        best[v] = any ? channels.From(corner + c, v) : Broadcast(kLowest<T>);
      }
      ForPixels(p, w, input + image, [&](const T* pixel) {
        MR_EACH_VECTOR
        for (int v = 0; v < channels.kCount; ++v) {
          const Vec<T> x = channels.From(pixel + c, v);
          best[v] = ((x > best[v]) | (x != x)) ? x : best[v];
        }
      });
      MR_EACH_VECTOR
      for (int v = 0; v < channels.kCount; ++v) channels.To(output + out_at + c, v, best[v]);
    });
  });
}

// To the first of the largest.
template <typename T>
void MaxPoolGradBlock(PoolBlock block, const T* input, const T* out_grad, T* in_grad) {
  using Index = decltype(Vec<T>{} > Vec<T>{});
  const PoolParams p = *block.params;
  ForEachWindow(block, [&](const Window& w, int64_t out_at, int64_t image) {
    if (w.count() == 0) return;
    const T* const corner = input + image + (w.h_begin * p.in_w + w.w_begin) * p.channels;
    ForChannels<T>(block.channel_begin, block.channel_end, [&](int64_t c, auto channels) {
      Vec<T> best[channels.kCount], grad[channels.kCount];
      Index where[channels.kCount], number{};  // of the best pixel, of the current one
      MR_EACH_VECTOR
      for (int v = 0; v < channels.kCount; ++v) {
        best[v] = channels.From(corner + c, v), where[v] = Index{};
        grad[v] = channels.From(out_grad + out_at + c, v);
      }
      ForPixels(p, w, input + image, [&](const T* pixel) {
        MR_EACH_VECTOR
        for (int v = 0; v < channels.kCount; ++v) {
          const Vec<T> x = channels.From(pixel + c, v);
          const Index take = (x > best[v]) | ((x != x) & (best[v] == best[v]));
          where[v] = take ? number : where[v];
          best[v] = take ? x : best[v];
        }
        number += 1;
      });
      number = Index{};
      ForPixels(p, w, in_grad + image, [&](T* pixel) {
        MR_EACH_VECTOR
        for (int v = 0; v < channels.kCount; ++v) {
          const Vec<T> part = where[v] == number ? grad[v] : Vec<T>{};
          channels.To(pixel + c, v, channels.From(pixel + c, v) + part);
        }
        number += 1;
      });
    });
  });
}

template <typename T>
void AvgPoolBlock(PoolBlock block, const T* input, T* output) {
  const PoolParams p = *block.params;
  ForEachWindow(block, [&](const Window& w, int64_t out_at, int64_t image) {
    const int64_t count = w.count();
    const Vec<T> divisor = Broadcast(count == 0 ? T(1) : static_cast<T>(count));
    ForChannels<T>(block.channel_begin, block.channel_end, [&](int64_t c, auto channels) {
      Vec<T> sum[channels.kCount];
      MR_EACH_VECTOR
      for (int v = 0; v < channels.kCount; ++v) sum[v] = Vec<T>{};
      if (count > 0) {
        ForPixels(p, w, input + image, [&](const T* pixel) {
          MR_EACH_VECTOR
          for (int v = 0; v < channels.kCount; ++v) sum[v] += channels.From(pixel + c, v);
        });
      }
      MR_EACH_VECTOR
      for (int v = 0; v < channels.kCount; ++v) channels.To(output + out_at + c, v, sum[v] / divisor);
    });
  });
}

// One dimension of the outputs whose windows hold an input index, which ascends.
struct Holders {
  int64_t window, stride, pad, in, out;
  int64_t begin = 0, end = 0;

  void MoveTo(int64_t i) {
    while (end < out && end * stride - pad <= i) ++end;
    while (begin < end && begin * stride - pad + window <= i) ++begin;
  }
  // Pixels of window o inside the image.
  int64_t Inside(int64_t o) const {
    const int64_t first = o * stride - pad;
    return Smaller(first + window, in) - AtLeastZero(first);
  }
};

// Every input pixel gathers from the outputs that it was part of; the block's rows are rows of the input.
template <typename T>
void AvgPoolGradBlock(PoolBlock block, const T* out_grad, T* in_grad) {
  const PoolParams p = *block.params;
  const T* const image = out_grad + block.image * p.out_h * p.out_w * p.channels;
  T* to = in_grad + (block.image * p.in_h + block.row_begin) * p.in_w * p.channels;
  Holders rows{p.window_h, p.stride_h, p.pad_top, p.in_h, p.out_h};
  int64_t divided = 0;  // the count that `scale` is the inverse of
  T scale = 0;
  for (int64_t h = block.row_begin; h < block.row_end; ++h) {
    rows.MoveTo(h);
    Holders columns{p.window_w, p.stride_w, p.pad_left, p.in_w, p.out_w};
    for (int64_t x = 0; x < p.in_w; ++x, to += p.channels) {
      columns.MoveTo(x);
      ForChannels<T>(block.channel_begin, block.channel_end, [&](int64_t c, auto channels) {
        Vec<T> sum[channels.kCount];
        MR_EACH_VECTOR
        for (int v = 0; v < channels.kCount; ++v) sum[v] = Vec<T>{};
        for (int64_t oh = rows.begin; oh < rows.end; ++oh) {
          const int64_t height = rows.Inside(oh);
          for (int64_t ow = columns.begin; ow < columns.end; ++ow) {
            const int64_t count = height * columns.Inside(ow);
            if (count != divided) divided = count, scale = T(1) / static_cast<T>(count);
            const T* const from = image + (oh * p.out_w + ow) * p.channels + c;
            MR_EACH_VECTOR
            for (int v = 0; v < channels.kCount; ++v) sum[v] += channels.From(from, v) * Broadcast(scale);
          }
        }
        MR_EACH_VECTOR
        for (int v = 0; v < channels.kCount; ++v) channels.To(to + c, v, sum[v]);
      });
    }
  }
}
