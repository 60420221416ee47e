// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Sums of shifted signals: the inner loops of convolution on images with a plane per channel. Included by
// simd_*.cc only, inside their own namespace.

constexpr int kMaxTileOuts = kRegisters == 32 ? 8 : 6;

// Vectors of positions per tile: the accumulators, the smaller number of the factors and one more fill the
// registers.
constexpr int MaxTileVectors(int outs) {
  constexpr int kWide[] = {0, 8, 8, 8, 6, 5, 4, 3, 3};
  constexpr int kFusedTable[] = {0, 8, 5, 4, 3, 2, 2};
  constexpr int kPlain[] = {0, 8, 5, 3, 2, 2, 2};
  return kRegisters == 32 ? kWide[outs] : kFused ? kFusedTable[outs] : kPlain[outs];
}

template <typename T, int kOuts, int kVectors>
__attribute__((noinline)) void SignalTile(const SignalBlock<T>& s, int64_t o, int64_t p) {
  Vec<T> acc[kOuts][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kOuts; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) acc[i][v] = Vec<T>{};
  }
  const T* weights = s.weights + o;
  const T* const signal = s.signal + p;
  const int64_t* offset = s.offsets;
  const int64_t* const end = offset + s.taps;
  for (; offset != end; ++offset, weights += s.weight_row) {
    const T* const x = signal + *offset;
    if constexpr (kOuts <= kVectors) {
      Vec<T> w[kOuts];
#pragma GCC unroll 8
      for (int i = 0; i < kOuts; ++i) w[i] = Broadcast(weights[i]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const Vec<T> values = Load(x + v * kLanes<T>);
#pragma GCC unroll 8
        for (int i = 0; i < kOuts; ++i) acc[i][v] += values * w[i];
      }
    } else {
      Vec<T> values[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) values[v] = Load(x + v * kLanes<T>);
#pragma GCC unroll 8
      for (int i = 0; i < kOuts; ++i) {
        const Vec<T> w = Broadcast(weights[i]);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) acc[i][v] += values[v] * w;
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kOuts; ++i) {
    const Vec<T> bias = s.bias == nullptr ? Vec<T>{} : Broadcast(s.bias[o + i]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Store(s.out + (o + i) * s.out_row + p + v * kLanes<T>, Rectified<T>(acc[i][v] + bias, s.rectify));
    }
  }
}

template <typename T, int kOuts, int kVectors>
MR_INLINE void RunSignalTile(int64_t vectors, const SignalBlock<T>& s, int64_t o, int64_t p) {
  if (vectors == kVectors) {
    SignalTile<T, kOuts, kVectors>(s, o, p);
  } else if constexpr (kVectors > 1) {
    RunSignalTile<T, kOuts, kVectors - 1>(vectors, s, o, p);
  }
}

// Tiles differ in width by at most one vector.
template <typename T, int kOuts>
void SignalOuts(int64_t outs, const SignalBlock<T>& s, int64_t o) {
  if (outs == kOuts) {
    constexpr int kMax = MaxTileVectors(kOuts);
    const int64_t all = s.length / kLanes<T>;
    const int64_t tiles = (all + kMax - 1) / kMax;
    int64_t p = 0;
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t vectors = all / tiles + (i < all % tiles ? 1 : 0);
      RunSignalTile<T, kOuts, kMax>(vectors, s, o, p);
      p += vectors * kLanes<T>;
    }
  } else if constexpr (kOuts > 1) {
    SignalOuts<T, kOuts - 1>(outs, s, o);
  }
}

template <typename T>
void Signal(const SignalBlock<T>& s) {
  const int64_t tiles = (s.outs + kMaxTileOuts - 1) / kMaxTileOuts;
  int64_t o = 0;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t outs = s.outs / tiles + (i < s.outs % tiles ? 1 : 0);
    SignalOuts<T, kMaxTileOuts>(outs, s, o);
    o += outs;
  }
}

constexpr int kMaxCorrelateOuts = 4;

constexpr int MaxCorrelateTaps(int outs) {
  constexpr int kWide[] = {0, 8, 8, 8, 6};
  constexpr int kFusedTable[] = {0, 8, 6, 4, 3};
  constexpr int kPlain[] = {0, 8, 5, 3, 2};
  return kRegisters == 32 ? kWide[outs] : kFused ? kFusedTable[outs] : kPlain[outs];
}

template <typename T, int kOuts, int kTaps>
__attribute__((noinline)) void CorrelateTile(const CorrelateBlock<T>& c, int64_t tap, int64_t o) {
  Vec<T> acc[kTaps][kOuts];
#pragma GCC unroll 8
  for (int t = 0; t < kTaps; ++t) {
#pragma GCC unroll 4
    for (int i = 0; i < kOuts; ++i) acc[t][i] = Vec<T>{};
  }
  const T* x[kTaps];
#pragma GCC unroll 8
  for (int t = 0; t < kTaps; ++t) x[t] = c.signal + c.offsets[tap + t];
  const T* g[kOuts];
#pragma GCC unroll 4
  for (int i = 0; i < kOuts; ++i) g[i] = c.grad + (o + i) * c.grad_row;
  const int64_t length = c.length;
  for (int64_t image = 0; image < c.images; ++image) {
    for (int64_t p = 0; p < length; p += kLanes<T>) {
      Vec<T> grads[kOuts];
#pragma GCC unroll 4
      for (int i = 0; i < kOuts; ++i) grads[i] = Load(g[i] + p);
#pragma GCC unroll 8
      for (int t = 0; t < kTaps; ++t) {
        const Vec<T> values = Load(x[t] + p);
#pragma GCC unroll 4
        for (int i = 0; i < kOuts; ++i) acc[t][i] += values * grads[i];
      }
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTaps; ++t) x[t] += c.signal_image;
#pragma GCC unroll 4
    for (int i = 0; i < kOuts; ++i) g[i] += c.grad_image;
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTaps; ++t) {
#pragma GCC unroll 4
    for (int i = 0; i < kOuts; ++i) {
      T* const sum = c.sums + ((tap + t) * c.outs + o + i) * kLanes<T>;
      Store(sum, Load(sum) + acc[t][i]);
    }
  }
}

template <typename T, int kOuts, int kTaps>
MR_INLINE void RunCorrelateTile(int64_t taps, const CorrelateBlock<T>& c, int64_t tap, int64_t o) {
  if (taps == kTaps) {
    CorrelateTile<T, kOuts, kTaps>(c, tap, o);
  } else if constexpr (kTaps > 1) {
    RunCorrelateTile<T, kOuts, kTaps - 1>(taps, c, tap, o);
  }
}

template <typename T, int kOuts>
void CorrelateOuts(int64_t outs, const CorrelateBlock<T>& c, int64_t o) {
  if (outs == kOuts) {
    constexpr int kMax = MaxCorrelateTaps(kOuts);
    const int64_t tiles = (c.taps + kMax - 1) / kMax;
    int64_t tap = 0;
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t taps = c.taps / tiles + (i < c.taps % tiles ? 1 : 0);
      RunCorrelateTile<T, kOuts, kMax>(taps, c, tap, o);
      tap += taps;
    }
  } else if constexpr (kOuts > 1) {
    CorrelateOuts<T, kOuts - 1>(outs, c, o);
  }
}

template <typename T>
void Correlate(const CorrelateBlock<T>& c) {
  const int64_t tiles = (c.outs + kMaxCorrelateOuts - 1) / kMaxCorrelateOuts;
  int64_t o = 0;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t outs = c.outs / tiles + (i < c.outs % tiles ? 1 : 0);
    CorrelateOuts<T, kMaxCorrelateOuts>(outs, c, o);
    o += outs;
  }
}
