// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Pooling of one image: vectors run along channels and stay in registers for a whole window. Windows of
// 2x2 and 3x3 inside the image, the most common ones, have loops of their own. Included by simd_*.cc
// only, inside their own namespace; simd_pool_grad.inc.h has the gradients.

// Parameters are copied to the stack before loops that store: the compiler must assume that each store may
// change values behind a pointer.

// The pixels of one output's window that lie inside the image.
struct Window {
  int64_t h_begin, h_end, w_begin, w_end;
  int64_t count() const {
    return h_begin < h_end && w_begin < w_end ? (h_end - h_begin) * (w_end - w_begin) : 0;
  }
};

inline int64_t AtLeastZero(int64_t x) { return x < 0 ? 0 : x; }
inline int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// The outputs of one row whose windows have all their columns inside the image.
struct WholeColumns {
  int64_t begin, end;
};

inline WholeColumns WholeColumnsOf(const PoolParams& p) {
  const int64_t begin = Smaller((p.pad_left + p.stride_w - 1) / p.stride_w, p.out_w);
  const int64_t room = p.in_w + p.pad_left - p.window_w;
  const int64_t end = room < 0 ? begin : Smaller(room / p.stride_w + 1, p.out_w);
  return {begin, end < begin ? begin : end};
}

inline Window WindowOf(const PoolParams& p, int64_t row, int64_t col) {
  const int64_t top = row * p.stride_h - p.pad_top, left = col * p.stride_w - p.pad_left;
  return {AtLeastZero(top), Smaller(top + p.window_h, p.in_h), AtLeastZero(left),
          Smaller(left + p.window_w, p.in_w)};
}

template <int kSide>
struct Side {
  static constexpr int kPixels = kSide;
};

// Calls some(window, offset of the output pixel, offset of the image) for each output pixel of the row; but
// if windows are 2x2 or 3x3, whole(window, offset, offset of the image, outputs, side) for each run of
// outputs with windows inside the image, of which `window` is the first and `side` a Side.
template <typename Some, typename Whole>
MR_INLINE void ForWindowsOfRow(const PoolParams& p, int64_t image, int64_t row, const Some& some,
                               const Whole& whole) {
  const WholeColumns inside = WholeColumnsOf(p);
  const int64_t pixels = image * p.in_h * p.in_w * p.channels;
  const int64_t out = (image * p.out_h + row) * p.out_w * p.channels;
  const Window first = WindowOf(p, row, inside.begin);
  const int64_t side = first.h_end - first.h_begin == p.window_h && p.window_h == p.window_w ? p.window_h : 0;
  const bool is_run = (side == 2 || side == 3) && inside.begin < inside.end;
  for (int64_t col = 0; col < (is_run ? inside.begin : p.out_w); ++col) {
    some(WindowOf(p, row, col), out + col * p.channels, pixels);
  }
  if (!is_run) return;
  const int64_t outputs = inside.end - inside.begin, at = out + inside.begin * p.channels;
  if (side == 2) whole(first, at, pixels, outputs, Side<2>{});
  if (side == 3) whole(first, at, pixels, outputs, Side<3>{});
  for (int64_t col = inside.end; col < p.out_w; ++col)
    some(WindowOf(p, row, col), out + col * p.channels, pixels);
}

// Adjacent channels: kVectors whole vectors, or the first n lanes of one.
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
// Before loops over the pixels of a window of known size.
#define MR_EACH_PIXEL _Pragma("GCC unroll 9")

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

template <typename T>
constexpr T kLowest = sizeof(T) == 4 ? static_cast<T>(-__FLT_MAX__) : static_cast<T>(-__DBL_MAX__);

// Max pooling: the largest pixel of a window; NaN is larger than all numbers.
template <typename T>
struct LargestOf {
  explicit LargestOf(int64_t) {}
  static MR_INLINE Vec<T> OfNone() { return Broadcast(kLowest<T>); }
  static MR_INLINE Vec<T> OfOne(Vec<T> x) { return x; }
  static MR_INLINE Vec<T> With(Vec<T> best, Vec<T> x) { return LargerOrNan(best, x); }
  MR_INLINE Vec<T> Result(Vec<T> best) const { return best; }
};

// Average pooling: the mean.
template <typename T>
struct MeanOf {
  // Division by a power of two is multiplication by its inverse.
  explicit MeanOf(int64_t count)
      : is_power((count & (count - 1)) == 0),
        divisor(Broadcast(count == 0 ? T(1)
                          : is_power ? T(1) / static_cast<T>(count)
                                     : static_cast<T>(count))) {}
  static MR_INLINE Vec<T> OfNone() { return Vec<T>{}; }
  static MR_INLINE Vec<T> OfOne(Vec<T> x) { return Vec<T>{} + x; }
  static MR_INLINE Vec<T> With(Vec<T> sum, Vec<T> x) { return sum + x; }
  MR_INLINE Vec<T> Result(Vec<T> sum) const { return is_power ? sum * divisor : sum / divisor; }

  bool is_power;
  Vec<T> divisor;
};

// Calls fn(first channel, Channels) as ForChannels does, one vector at a time.
template <typename T, typename F>
MR_INLINE void ForVectors(int64_t begin, int64_t end, const F& fn) {
  int64_t c = begin;
  for (; c + kLanes<T> <= end; c += kLanes<T>) fn(c, Channels<T, 1, true>{});
  if (c < end) fn(c, Channels<T, 1, false>{static_cast<int>(end - c)});
}

// One window of any size: channels in pieces, or row by row if a pixel has so many channels that its
// pieces would be far apart; the intermediate results are kept in `out`, in the cache.
template <typename T, typename Op>
MR_INLINE void PoolWindow(const PoolParams& p, const PoolBlock& block, const Window& w, const T* image,
                          T* out) {
  constexpr int64_t kManyBytes = 2048;
  const int64_t count = w.count(), row = p.in_w * p.channels;
  const Op op(count);
  const T* const corner = image + w.h_begin * row + w.w_begin * p.channels;
  const int64_t rows = w.h_end - w.h_begin, columns = w.w_end - w.w_begin;
  const bool is_long =
      (block.channel_end - block.channel_begin) * static_cast<int64_t>(sizeof(T)) >= kManyBytes;
  const int64_t rows_at_once = is_long && columns > 2 ? 1 : rows;
  int64_t h = 0;
  do {
    const int64_t end = Smaller(h + rows_at_once, rows);
    ForChannels<T>(block.channel_begin, block.channel_end, [&](int64_t c, auto channels) {
      Vec<T> result[channels.kCount];
      MR_EACH_VECTOR
      for (int v = 0; v < channels.kCount; ++v) {
        result[v] = h > 0       ? channels.From(out + c, v)
                    : count > 0 ? op.OfOne(channels.From(corner + c, v))
                                : op.OfNone();
      }
      for (int64_t y = h; y < end; ++y) {
        const T* pixel = corner + y * row + c;
        // The first pixel is already included.
        for (int64_t x = y == 0 ? 1 : 0; x < columns; ++x) {
          const T* const at = pixel + x * p.channels;
          MR_EACH_VECTOR
          for (int v = 0; v < channels.kCount; ++v) result[v] = op.With(result[v], channels.From(at, v));
        }
      }
      MR_EACH_VECTOR
      for (int v = 0; v < channels.kCount; ++v)
        channels.To(out + c, v, end < rows ? result[v] : op.Result(result[v]));
    });
    h = end;
  } while (h < rows);
}

template <typename T, typename Op>
MR_INLINE void PoolOfBlock(const PoolBlock& block, const T* input, T* output) {
  const PoolParams p = *block.params;
  for (int64_t r = block.row_begin; r < block.row_end; ++r) {
    ForWindowsOfRow(
        p, block.image, r,
        [&](const Window& w, int64_t out, int64_t image) {
          PoolWindow<T, Op>(p, block, w, input + image, output + out);
        },
        [&](const Window& w, int64_t out, int64_t image, int64_t outputs, auto side) {
          constexpr int kSide = side.kPixels;
          const Op op(kSide * kSide);
          const int64_t row = p.in_w * p.channels, step = p.stride_w * p.channels, next = p.stride_h * row;
          const T* from = input + image + w.h_begin * row + w.w_begin * p.channels;
          T* to = output + out;
          for (int64_t i = 0; i < outputs; ++i, from += step, to += p.channels) {
            ForVectors<T>(block.channel_begin, block.channel_end, [&](int64_t c, auto channels) {
              Vec<T> result = op.OfOne(channels.From(from + c, 0));
              __builtin_prefetch(from + c + next, 0, 2);
              MR_EACH_PIXEL
              for (int t = 1; t < kSide * kSide; ++t) {
                const T* const pixel = from + t / kSide * row + t % kSide * p.channels + c;
                result = op.With(result, channels.From(pixel, 0));
                // The pixels that the next row of outputs reads, except those that windows of stride 2 share.
                if (t / kSide < 2 && t % kSide < 2) __builtin_prefetch(pixel + next, 0, 2);
              }
              channels.To(to + c, 0, op.Result(result));
            });
          }
        });
  }
}

template <typename T>
void MaxPoolBlock(PoolBlock block, const T* input, T* output) {
  PoolOfBlock<T, LargestOf<T>>(block, input, output);
}

// Takes the value at the first maximum; NaN is larger than all numbers.
template <typename T>
void MaxPoolGradGradBlock(PoolBlock block, const T* input, const T* in_grad, T* output) {
  using Index = decltype(Vec<T>{} > Vec<T>{});
  const PoolParams p = *block.params;
  const int64_t row = p.in_w * p.channels, image = block.image * p.in_h * row;
  T* to = output + (block.image * p.out_h + block.row_begin) * p.out_w * p.channels;
  for (int64_t i = block.row_begin * p.out_w; i < block.row_end * p.out_w; ++i, to += p.channels) {
    const Window w = WindowOf(p, i / p.out_w, i % p.out_w);
    const bool any = w.count() > 0;
    const int64_t corner = image + w.h_begin * row + w.w_begin * p.channels;
    ForChannels<T>(block.channel_begin, block.channel_end, [&](int64_t c, auto channels) {
      Vec<T> best[channels.kCount], taken[channels.kCount];
      MR_EACH_VECTOR
      for (int v = 0; v < channels.kCount; ++v) {
        best[v] = any ? channels.From(input + corner + c, v) : Vec<T>{};
        taken[v] = any ? channels.From(in_grad + corner + c, v) : Vec<T>{};
      }
      for (int64_t h = w.h_begin; h < w.h_end; ++h) {
        int64_t at = corner + (h - w.h_begin) * row + c;
        for (int64_t x = w.w_begin; x < w.w_end; ++x, at += p.channels) {
          MR_EACH_VECTOR
          for (int v = 0; v < channels.kCount; ++v) {
            const Vec<T> pixel = channels.From(input + at, v);
            const Index take = (pixel > best[v]) | ((pixel != pixel) & (best[v] == best[v]));
            taken[v] = take ? channels.From(in_grad + at, v) : taken[v];
            best[v] = take ? pixel : best[v];
          }
        }
      }
      MR_EACH_VECTOR
      for (int v = 0; v < channels.kCount; ++v) channels.To(to + c, v, taken[v]);
    });
  }
}

template <typename T>
void AvgPoolBlock(PoolBlock block, const T* input, T* output) {
  PoolOfBlock<T, MeanOf<T>>(block, input, output);
}
