// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The part of a product that one tile of registers holds: rows of A, whose elements are broadcast, times one
// to three vectors of B's columns. Included by simd_*.cc only, inside their own namespace.

template <typename T>
struct TileArgs {
  int64_t k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t b_row;
  T* c;
  int64_t ldc;
  int last;         // elements of the last vector of columns
  bool resume;      // begin with the values in C
  bool accumulate;  // add it at the end
  const T* scale;
  const T* bias;
  const T* residual;  // has the layout of c, or null
  Rectify rectify;
  int64_t segments;
  const int64_t* segment_offsets;
  const int64_t* b_offsets = nullptr;  // of each segment's first row of B; null: its rows are contiguous
  // The addresses that are read after this tile, and the number of bytes to prefetch with each row of B.
  const char* next_a = nullptr;
  const char* next_b = nullptr;
  const T* next_c = nullptr;  // results to prefetch: of this tile or, if it is short, of the next one
  int64_t step_a = 0, step_b = 0;
  T* copy = nullptr;  // where a tile that copies writes the rows of B that it reads, one behind the other
};

// Rows of a tile with `vectors` vectors of columns: accumulators, one row of B and a broadcast fill the
// registers.
constexpr int MaxTileRows(int vectors) {
  if (kRegisters == 32) return vectors == 3 ? 8 : vectors == 2 ? 12 : 14;
  if (kFused) return vectors == 3 ? 4 : vectors == 2 ? 6 : 10;
  return vectors == 3 ? 3 : vectors == 2 ? 5 : 10;
}

// Rows are addressed from every third row, so that few registers hold pointers. `copy`: null, or where the
// row of B is written.
template <typename T, int kRows, int kVectors, bool kUnitRow>
MR_INLINE void TileStep(const T* const* bases, int64_t a_row, int64_t a_at, const T* b, T* copy,
                        Vec<T> (*acc)[kVectors]) {
  Vec<T> columns[kVectors];
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    columns[v] = Load(b + v * kLanes<T>);
    if (copy != nullptr) Store(copy + v * kLanes<T>, columns[v]);
  }
#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i) {
    const Vec<T> x = Broadcast(kUnitRow ? bases[0][a_at + i] : bases[i / 3][a_at + (i % 3) * a_row]);
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) acc[i][v] += x * columns[v];
  }
}

// Vector v of `kVectors` of a row, of which the last may have few elements.
template <typename T, int kVectors>
MR_INLINE Vec<T> LoadColumns(const T* row, int v, int last) {
  if (v < kVectors - 1) return Load(row + v * kLanes<T>);
#if MR_SIMD_BYTES != 64
  if (last == kLanes<T>) return Load(row + v * kLanes<T>);
#endif
  return LoadPart(row + v * kLanes<T>, last);
}
template <typename T, int kVectors>
MR_INLINE void StoreColumns(T* row, int v, int last, Vec<T> values) {
#if MR_SIMD_BYTES == 64
  const bool part = v == kVectors - 1;
#else
  const bool part = v == kVectors - 1 && last < kLanes<T>;
#endif
  if (part) {
    StorePart(row + v * kLanes<T>, values, last);
  } else {
    Store(row + v * kLanes<T>, values);
  }
}

// change(sum, row, vector) for all sums.
template <int kRows, int kVectors, typename T, typename Fn>
MR_INLINE void ForTile(T (*acc)[kVectors], const Fn& change) {
#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) change(acc[i][v], i, v);
  }
}

template <typename T, int kRows, int kVectors>
MR_INLINE void TileFinish(const TileArgs<T>& t, Vec<T> (*acc)[kVectors]) {
  const int last = t.last;
  if (t.accumulate) {
    ForTile<kRows, kVectors>(
        acc, [&](Vec<T>& sum, int i, int v) { sum += LoadColumns<T, kVectors>(t.c + i * t.ldc, v, last); });
  }
  if (t.scale != nullptr) {
    Vec<T> scale[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) scale[v] = LoadColumns<T, kVectors>(t.scale, v, last);
    ForTile<kRows, kVectors>(acc, [&](Vec<T>& sum, int, int v) { sum *= scale[v]; });
  }
  if (t.bias != nullptr) {
    Vec<T> bias[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) bias[v] = LoadColumns<T, kVectors>(t.bias, v, last);
    ForTile<kRows, kVectors>(acc, [&](Vec<T>& sum, int, int v) { sum += bias[v]; });
  }
  if (t.residual != nullptr) {
    ForTile<kRows, kVectors>(acc, [&](Vec<T>& sum, int i, int v) {
      sum += LoadColumns<T, kVectors>(t.residual + i * t.ldc, v, last);
    });
  }
  if (t.rectify != Rectify::kNone) {
    ForTile<kRows, kVectors>(acc, [&](Vec<T>& sum, int, int) { sum = sum < Vec<T>{} ? Vec<T>{} : sum; });
    if (t.rectify == Rectify::kRelu6) {
      const Vec<T> six = Broadcast(T(6));
      ForTile<kRows, kVectors>(acc, [&](Vec<T>& sum, int, int) { sum = sum > six ? six : sum; });
    }
  }
  T* const c = t.c;  // copies, because the results that are written might be the arguments
  const int64_t ldc = t.ldc;
  ForTile<kRows, kVectors>(
      acc, [=](Vec<T>& sum, int i, int v) { StoreColumns<T, kVectors>(c + i * ldc, v, last, sum); });
}

// Sums begin with the values in C, or with zeros, read from a row of zeros: no branch, so that they stay in
// registers.
template <typename T, int kRows, int kVectors>
MR_INLINE void TileBegin(const TileArgs<T>& t, Vec<T> (*acc)[kVectors]) {
  alignas(64) static constexpr T kZeros[3 * kLanes<T>] = {};
  const T* const from = t.resume ? t.c : kZeros;
  const int64_t row = t.resume ? t.ldc : 0;
  ForTile<kRows, kVectors>(
      acc, [&](Vec<T>& sum, int i, int v) { sum = LoadColumns<T, kVectors>(from + i * row, v, t.last); });
}

// Prefetches the places of the results, whose memory may be far away.
template <int kRows, int kVectors, typename T>
MR_INLINE void PrefetchTile(const T* at, int64_t row) {
#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(at + i * row + v * kLanes<T>, 0, 3);
  }
}

// REQUIRES: t.k and t.segments are not 0.
template <typename T, int kRows, int kVectors, bool kUnitRow, bool kCopy>
__attribute__((noinline)) void Tile(const TileArgs<T>& t) {
  if (t.residual != nullptr) PrefetchTile<kRows, kVectors>(t.residual, t.ldc);
  if (!t.resume) PrefetchTile<kRows, kVectors>(t.next_c, t.ldc);
  Vec<T> acc[kRows][kVectors];
  TileBegin<T, kRows, kVectors>(t, acc);
  constexpr int kBases = kUnitRow ? 1 : (kRows + 2) / 3;
  const T* b = t.b;
  const int64_t a_row = t.a_row, b_row = t.b_row;
  const int64_t a_col = kUnitRow ? t.a_col : 1;
  const int64_t end = t.k * a_col;
  const char* next_a = t.next_a;
  const char* next_b = t.next_b;
  const int64_t step_a = t.step_a, step_b = t.step_b;
  T* copy = t.copy;
  const int64_t* offset = t.segment_offsets;
  const int64_t* b_offset = t.b_offsets;
  const int64_t* const offsets_end = offset + t.segments;
  do {
    const T* bases[kBases];
#pragma GCC unroll 5
    for (int j = 0; j < kBases; ++j) bases[j] = t.a + *offset + 3 * j * a_row;
    if (b_offset != nullptr) b = t.b + *b_offset++;
    int64_t at = 0;
    do {
      __builtin_prefetch(next_a, 0, 2);
      __builtin_prefetch(next_b, 0, 2);
      TileStep<T, kRows, kVectors, kUnitRow>(bases, a_row, at, b, kCopy ? copy : nullptr, acc);
      if constexpr (kCopy) copy += kVectors * kLanes<T>;
      b += b_row;
      next_a += step_a;
      next_b += step_b;
      at += a_col;
    } while (at < end);
  } while (++offset != offsets_end);
  TileFinish<T, kRows, kVectors>(t, acc);
}

template <typename T, int kRows, int kVectors>
MR_INLINE void RunTile(int64_t rows, const TileArgs<T>& t) {
  if (rows == kRows) {
    if (t.a_row == 1) {
      Tile<T, kRows, kVectors, true, false>(t);
    } else {
      Tile<T, kRows, kVectors, false, false>(t);
    }
  } else if constexpr (kRows > 1) {
    RunTile<T, kRows - 1, kVectors>(rows, t);
  }
}

// The tiles that can copy the rows of B that they read, for those that follow. It costs them nothing, since
// they don't write otherwise; where there are many rows, tiles have one of these heights.
constexpr bool TileCopies(int64_t rows, int vectors) {
  const int most = MaxTileRows(vectors);
  return vectors > 1 && (rows == most || rows == most - 1 || (vectors == 2 && rows == 8 && kRegisters == 32));
}
template <typename T, int kRows, int kVectors>
MR_INLINE void RunCopyingTile(int64_t rows, const TileArgs<T>& t) {
  if constexpr (TileCopies(kRows, kVectors)) {
    if (rows == kRows) {
      if (t.a_row == 1) {
        Tile<T, kRows, kVectors, true, true>(t);
      } else {
        Tile<T, kRows, kVectors, false, true>(t);
      }
      return;
    }
  }
  if constexpr (kRows > 1) RunCopyingTile<T, kRows - 1, kVectors>(rows, t);
}
