// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The gradients of pooling. Included by simd_*.cc only, inside their own namespace, after simd_pool.inc.h.

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

// The lanes of a vector whose largest pixel has not been found yet.
#if MR_SIMD_BYTES == 64
template <typename T>
struct OpenLanes {
  uint32_t bits = ~0u;

  // The lanes in which x is the largest, and no earlier pixel was.
  MR_INLINE OpenLanes Take(Vec<T> x, Vec<T> largest) {
    OpenLanes taken;
    if constexpr (sizeof(T) == 4) {
      taken.bits =
          _mm512_mask_cmp_ps_mask(static_cast<__mmask16>(bits), (__m512)x, (__m512)largest, _CMP_EQ_OQ);
    } else {
      taken.bits =
          _mm512_mask_cmp_pd_mask(static_cast<__mmask8>(bits), (__m512d)x, (__m512d)largest, _CMP_EQ_OQ);
    }
    bits &= ~taken.bits;
    return taken;
  }
  MR_INLINE Vec<T> AddTo(Vec<T> sum, Vec<T> x) const {
    if constexpr (sizeof(T) == 4) {
      return (Vec<T>)_mm512_mask_add_ps((__m512)sum, static_cast<__mmask16>(bits), (__m512)sum, (__m512)x);
    } else {
      return (Vec<T>)_mm512_mask_add_pd((__m512d)sum, static_cast<__mmask8>(bits), (__m512d)sum, (__m512d)x);
    }
  }
  MR_INLINE Vec<T> Of(Vec<T> x) const {
    if constexpr (sizeof(T) == 4) {
      return (Vec<T>)_mm512_maskz_mov_ps(static_cast<__mmask16>(bits), (__m512)x);
    } else {
      return (Vec<T>)_mm512_maskz_mov_pd(static_cast<__mmask8>(bits), (__m512d)x);
    }
  }
};
#else
template <typename T>
struct OpenLanes {
  using Index = decltype(Vec<T>{} > Vec<T>{});
  Index bits = ~Index{};

  MR_INLINE OpenLanes Take(Vec<T> x, Vec<T> largest) {
    const OpenLanes taken{(x == largest) & bits};
    bits &= ~taken.bits;
    return taken;
  }
  MR_INLINE Vec<T> AddTo(Vec<T> sum, Vec<T> x) const { return sum + Of(x); }
  MR_INLINE Vec<T> Of(Vec<T> x) const { return (Vec<T>)((Index)x & bits); }
};
#endif

// The arrangement of windows in the image, which determines how its gradient is written.
struct PoolTiling {
  explicit PoolTiling(const PoolParams& p)
      : is_disjoint(p.window_h <= p.stride_h && p.window_w <= p.stride_w),
        is_whole(p.window_h == p.stride_h && p.window_w == p.stride_w &&
                 p.out_h * p.stride_h >= p.in_h + p.pad_top && p.out_w * p.stride_w >= p.in_w + p.pad_left) {}
  bool is_disjoint;  // no pixel belongs to two windows
  bool is_whole;     // each belongs to one
};

// A window of any size: numbers its pixels. With kAdd the gradient is added to in_grad.
template <bool kAdd, typename T, typename Channels>
MR_INLINE void MaxPoolGradWindow(const PoolParams& p, const Window& w, const T* image, const T* out_grad,
                                 T* in_grad, Channels channels) {
  using Index = decltype(Vec<T>{} > Vec<T>{});
  constexpr int kAhead = Channels::kCount * kLanes<T>;
  const T* const corner = image + (w.h_begin * p.in_w + w.w_begin) * p.channels;
  Vec<T> best[Channels::kCount], grad[Channels::kCount];
  Index where[Channels::kCount], number{};  // of the best pixel, of the current one
  MR_EACH_VECTOR
  for (int v = 0; v < channels.kCount; ++v) {
    best[v] = channels.From(corner, v), where[v] = Index{};
    grad[v] = channels.From(out_grad, v);
  }
  ForPixels(p, w, image, [&](const T* pixel) {
    MR_EACH_VECTOR
    for (int v = 0; v < channels.kCount; ++v) {
      const Vec<T> x = channels.From(pixel, v);
      const Index take = (x > best[v]) | ((x != x) & (best[v] == best[v]));
      where[v] = take ? number : where[v];
      best[v] = take ? x : best[v];
      __builtin_prefetch(pixel + kAhead + v * kLanes<T>);
    }
    number += 1;
  });
  number = Index{};
  ForPixels(p, w, in_grad, [&](T* pixel) {
    MR_EACH_VECTOR
    for (int v = 0; v < channels.kCount; ++v) {
      const Vec<T> part = where[v] == number ? grad[v] : Vec<T>{};
      channels.To(pixel, v, kAdd ? channels.From(pixel, v) + part : part);
      __builtin_prefetch(pixel + kAhead + v * kLanes<T>, 1);
    }
    number += 1;
  });
}

// Small windows of known size whose first pixels are `image` and `in_grad`: finds the largest of each lane,
// then the first pixel that equals it. False: a maximum is NaN, and nothing was written. All reads
// precede all writes: rows are often a multiple of 4 KB apart, where loads wait for earlier stores (4K
// aliasing).
template <bool kAdd, int kSide, typename T, typename Channels>
MR_INLINE bool MaxPoolGradSquare(int64_t row, int64_t column, const T* image, const T* out_grad, T* in_grad,
                                 Channels channels) {
  constexpr int kPixels = kSide * kSide;
  const auto place = [&](int t) { return t / kSide * row + t % kSide * column; };
  Vec<T> largest = channels.From(image, 0);
  MR_EACH_PIXEL
  for (int t = 1; t < kPixels; ++t) largest = LargerOrNan(largest, channels.From(image + place(t), 0));
  if (HasNan<T>(largest)) return false;
  const Vec<T> grad = channels.From(out_grad, 0);
  OpenLanes<T> open;
  Vec<T> result[kPixels];
  MR_EACH_PIXEL
  for (int t = 0; t < kPixels; ++t) {
    const OpenLanes<T> here =
        t == kPixels - 1 ? open : open.Take(channels.From(image + place(t), 0), largest);
    result[t] = kAdd ? here.AddTo(channels.From(in_grad + place(t), 0), grad) : here.Of(grad);
  }
  MR_EACH_PIXEL
  for (int t = 0; t < kPixels; ++t) channels.To(in_grad + place(t), 0, result[t]);
  return true;
}

template <bool kAdd, typename T>
MR_INLINE void MaxPoolGradRow(const PoolParams& p, const PoolBlock& block, int64_t r, const T* input,
                              const T* out_grad, T* in_grad) {
  ForWindowsOfRow(
      p, block.image, r,
      [&](const Window& w, int64_t out, int64_t image) {
        if (w.count() == 0) return;
        ForChannels<T>(block.channel_begin, block.channel_end, [&](int64_t c, auto channels) {
          MaxPoolGradWindow<kAdd>(p, w, input + image + c, out_grad + out + c, in_grad + image + c, channels);
        });
      },
      [&](const Window& w, int64_t out, int64_t image, int64_t outputs, auto side) {
        const int64_t row = p.in_w * p.channels, step = p.stride_w * p.channels;
        int64_t at = image + w.h_begin * row + w.w_begin * p.channels;
        const Window one{0, side.kPixels, 0, side.kPixels};
        for (int64_t i = 0; i < outputs; ++i, at += step, out += p.channels) {
          ForVectors<T>(block.channel_begin, block.channel_end, [&](int64_t c, auto channels) {
            const T* const from = input + at + c;
            if (MaxPoolGradSquare<kAdd, side.kPixels>(row, p.channels, from, out_grad + out + c,
                                                      in_grad + at + c, channels)) {
              return;
            }
            MaxPoolGradWindow<kAdd>(p, one, from, out_grad + out + c, in_grad + at + c, channels);
          });
        }
      });
}

// Clears rows shortly before windows reach them, so that they are in the cache.
template <typename T>
struct RowClearer {
  const PoolBlock& block;
  T* image;
  int64_t done = 0;

  void Until(int64_t row) {
    const PoolParams& p = *block.params;
    const int64_t count = block.channel_end - block.channel_begin;
    for (; done < row; ++done) {
      T* const first = image + done * p.in_w * p.channels + block.channel_begin;
      if (count == p.channels) {
        Clear(first, p.in_w * count);
      } else {
        for (int64_t x = 0; x < p.in_w; ++x) Clear(first + x * p.channels, count);
      }
    }
  }
  static void Clear(T* at, int64_t count) {
    __builtin_memset(at, 0, static_cast<unsigned long>(count) * sizeof(T));
  }
};

// The gradient goes to the first maximum.
template <typename T>
void MaxPoolGradBlock(PoolBlock block, const T* input, const T* out_grad, T* in_grad) {
  const PoolParams p = *block.params;
  if (PoolTiling(p).is_whole) {
    for (int64_t r = 0; r < p.out_h; ++r) MaxPoolGradRow<false>(p, block, r, input, out_grad, in_grad);
    return;
  }
  RowClearer<T> clearer{block, in_grad + block.image * p.in_h * p.in_w * p.channels};
  for (int64_t r = 0; r < p.out_h; ++r) {
    clearer.Until(WindowOf(p, r, 0).h_end);
    MaxPoolGradRow<true>(p, block, r, input, out_grad, in_grad);
  }
  clearer.Until(p.in_h);
}

// One dimension of the outputs whose windows contain an input index; the index ascends.
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

// As AvgPoolGradBlock where no windows share pixels: each pixel has one or none.
template <typename T>
void AvgPoolGradDisjoint(const PoolParams& p, const PoolBlock& block, const T* image, T* to) {
  Holders rows{p.window_h, p.stride_h, p.pad_top, p.in_h, p.out_h};
  const Holders columns{p.window_w, p.stride_w, p.pad_left, p.in_w, p.out_w};
  for (int64_t h = block.row_begin; h < block.row_end; ++h) {
    rows.MoveTo(h);
    int64_t x = 0;
    const auto fill = [&](int64_t end, const T* from, T scale) {
      for (; x < end; ++x, to += p.channels) {
        ForChannels<T>(block.channel_begin, block.channel_end, [&](int64_t c, auto channels) {
          MR_EACH_VECTOR
          for (int v = 0; v < channels.kCount; ++v) {
            channels.To(
                to + c, v,
                from == nullptr ? Vec<T>{} : Vec<T>{} + channels.From(from + c, v) * Broadcast(scale));
          }
        });
      }
    };
    int64_t count = 0;
    T scale = 0;
    for (int64_t o = 0; o < p.out_w && rows.begin < rows.end; ++o) {
      const int64_t begin = o * p.stride_w - p.pad_left;
      if (begin >= p.in_w) break;
      const int64_t inside = rows.Inside(rows.begin) * columns.Inside(o);
      if (begin + p.window_w <= 0) continue;
      if (inside != count) count = inside, scale = T(1) / static_cast<T>(count);
      fill(AtLeastZero(begin), nullptr, T(0));
      fill(Smaller(begin + p.window_w, p.in_w), image + (rows.begin * p.out_w + o) * p.channels, scale);
    }
    fill(p.in_w, nullptr, T(0));
  }
}

// Every input pixel sums the gradients of the outputs that contain it; the block's rows are input rows.
template <typename T>
void AvgPoolGradBlock(PoolBlock block, const T* out_grad, T* in_grad) {
  const PoolParams p = *block.params;
  const T* const image = out_grad + block.image * p.out_h * p.out_w * p.channels;
  T* to = in_grad + (block.image * p.in_h + block.row_begin) * p.in_w * p.channels;
  if (PoolTiling(p).is_disjoint) return AvgPoolGradDisjoint(p, block, image, to);
  Holders rows{p.window_h, p.stride_h, p.pad_top, p.in_h, p.out_h};
  int64_t divided = 0;  // the count whose inverse is `scale`
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
