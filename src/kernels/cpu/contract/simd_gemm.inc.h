// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The product of one block: panels of one to three vectors of B's columns, packed where that pays, times
// tiles of A's rows (simd_tile.inc.h). Included by simd_*.cc only, inside their own namespace.

// Memory that is read later, which tiles prefetch while they compute.
struct Ahead {
  const char* at = nullptr;  // null: nothing
  const char* end = nullptr;
  int64_t step = 0;
  int64_t tile_step = 0;  // from one tile to the next; 0: each begins where the previous one ended
};

// Rows at this distance are in the same set of the first cache, which holds twelve lines; more of them, read
// in turn, would evict each other.
constexpr int kMaxRowsThatMeet = 8;
template <typename T>
constexpr bool MeetInCache(int64_t row) {
  return row * static_cast<int64_t>(sizeof(T)) % 4096 == 0;
}

// The rows of A in tiles, which differ in height by at most one.
struct TileHeights {
  int64_t tiles, low;
  int64_t higher;  // this many tiles have low + 1 rows
  int64_t first() const { return low + (higher > 0 ? 1 : 0); }
};
template <typename T, int kVectors>
TileHeights HeightsOf(int64_t m, int64_t a_row, int64_t a_col) {
  constexpr int kMax = MaxTileRows(kVectors);
  const int64_t most =
      a_col == 1 && MeetInCache<T>(a_row) && kMax > kMaxRowsThatMeet ? kMaxRowsThatMeet : kMax;
  if (m <= most) return {1, m, 0};
  const int64_t tiles = (m + most - 1) / most, low = m / tiles;
  return {tiles, low, m - low * tiles};
}

// Multiplies all rows of the block with one panel. With `rows_follow`, the rows of A are contiguous and each
// tile prefetches those of the next one; `ahead` advances with each tile. With t.copy, the first tile copies
// the panel there, and the others read the copy.
template <typename T, int kVectors>
void PanelTimesRows(const TileHeights& heights, TileArgs<T>& t, bool rows_follow, Ahead& ahead) {
  constexpr int kMax = MaxTileRows(kVectors);
  constexpr int64_t kShort = 64, kLine = 64;
  const auto [tiles, low, higher] = heights;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t rows = low + (i < higher ? 1 : 0);
    const bool follow = rows_follow && i + 1 < tiles;
    t.next_a = reinterpret_cast<const char*>(t.a + (follow ? rows * t.a_row : 0));
    t.step_a = follow ? rows * static_cast<int64_t>(sizeof(T)) : 0;
    const bool more = ahead.at < ahead.end;
    t.next_b = more ? ahead.at : reinterpret_cast<const char*>(t.b);
    t.step_b = more ? ahead.step : 0;
    if (t.step_b > kLine) {  // two lines at a time
      t.next_a = t.next_b + kLine;
      t.step_a = t.step_b;
    }
    t.next_c = t.c + (i + 1 < tiles && t.k * t.segments <= kShort ? rows * t.ldc : 0);
    if (t.copy != nullptr) {
      RunCopyingTile<T, kMax, kVectors>(rows, t);
      t.b = t.copy;
      t.b_row = kVectors * kLanes<T>;
      t.copy = nullptr;
    } else {
      RunTile<T, kMax, kVectors>(rows, t);
    }
    ahead.at += ahead.tile_step != 0 ? ahead.tile_step : t.step_b * t.k * t.segments;
    t.a += rows * t.a_row;
    t.c += rows * t.ldc;
    if (t.residual != nullptr) t.residual += rows * t.ldc;
  }
}

// Vectors in the next panel when `left` remain; never a panel of one after a panel of three.
constexpr int64_t PanelVectors(int64_t left) { return left == 4 ? 2 : left < 3 ? left : 3; }

// The inner dimension is done in parts, so that packed data stays in the caches. One run of it is cut into
// parts of at most kMaxDepth, whose sums are added; further parts of several runs continue the sums of
// those before, so that the cut doesn't affect the result and may depend on the packing.
constexpr int64_t kMaxDepth = 512;
constexpr int64_t kMaxRunsDepth = 768;
constexpr int64_t kMaxPackedDepth = 768;

constexpr int64_t Evenly(int64_t n, int64_t most) {
  const int64_t parts = (n + most - 1) / most;
  return parts <= 1 ? n : (n + parts - 1) / parts;
}

// Rows [row, row + k) of each of `segments` runs, beginning with run `segment`.
struct DepthPart {
  int64_t segment, segments;
  int64_t row, k;
  int64_t rows() const { return segments * k; }
};

class DepthParts {
 public:
  DepthParts(int64_t k, int64_t segments, bool packed) : k_(k), segments_(segments) {
    const int64_t most = segments == 1 ? kMaxDepth : packed ? kMaxPackedDepth : kMaxRunsDepth;
    depth_ = Evenly(k, most);
    group_ = depth_ < k || k == 0 ? 1 : Evenly(segments, most / k);
  }
  static DepthParts Uncut(int64_t k, int64_t segments) {
    DepthParts parts(k, segments, false);
    parts.depth_ = k;
    parts.group_ = segments;
    return parts;
  }
  bool first() const { return segment_ == 0 && row_ == 0; }
  bool last() const { return segment_ + group_ >= segments_ && row_ + depth_ >= k_; }
  DepthPart part() const {
    return {segment_, segments_ - segment_ < group_ ? segments_ - segment_ : group_, row_,
            k_ - row_ < depth_ ? k_ - row_ : depth_};
  }
  void Next() {
    row_ += depth_;
    if (row_ < k_) return;
    row_ = 0;
    segment_ += group_;
  }

 private:
  int64_t k_, segments_;
  int64_t depth_, group_;  // one of them covers everything
  int64_t segment_ = 0, row_ = 0;
};

template <typename T>
int64_t GemmScratch(int64_t k, int64_t segments) {
  return (segments > 1 ? k * segments : k == 0 ? 0 : Evenly(k, kMaxDepth)) * 3 * kLanes<T>;
}

constexpr int64_t kFarBytes = 2048;  // rows at this distance are not prefetched by the processor

// Copies columns [0, n) of `k` rows of B to rows of `width` elements, padded with zeros.
template <typename T>
void PackPanel(const T* b, int64_t b_row, int64_t b_col, int64_t k, int64_t n, int64_t width, T* packed) {
  if (b_col != 1) {
    constexpr int64_t kRows = 64;  // of the panel, which stay in the first cache
    for (int64_t i = 0; i < k; i += kRows) {
      Transpose(b + i * b_row, b_col, n, k - i < kRows ? k - i : kRows, packed + i * width, width);
    }
  } else {
    // The processor does not prefetch rows in different pages by itself.
    constexpr int64_t kAhead = 16;
    const int64_t ahead = b_row * static_cast<int64_t>(sizeof(T)) >= kFarBytes ? kAhead * b_row : 0;
    for (int64_t i = 0; i < k; ++i) {
      const T* const row = b + i * b_row;
      int64_t j = 0;
      for (; j + kLanes<T> <= n; j += kLanes<T>) {
        __builtin_prefetch(row + j + ahead);
        Store(packed + i * width + j, Load(row + j));
      }
      if (j < n) Store(packed + i * width + j, LoadPart(row + j, static_cast<int>(n - j)));
    }
  }
  // A transpose leaves the rest of a vector, and vectors may be missing.
  const int64_t filled = b_col != 1 ? n : (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
  if (filled == width) return;
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = filled; j < width; ++j) packed[i * width + j] = T(0);
  }
}

// One row times `cols` columns, a multiple of lanes: rows of B are read in place, several at a time, so that
// memory is read in long pieces. C holds the partial sums.
template <typename T>
void RowTimesMatrix(TileArgs<T> t, int64_t a_col, int64_t cols) {
  constexpr int kDeep = 8;
  t.a += t.segment_offsets[0];
  for (int64_t k = 0; k < t.k; k += kDeep) {
    const int deep = t.k - k < kDeep ? static_cast<int>(t.k - k) : kDeep;
    const bool begin = k == 0 && !t.accumulate;
    Vec<T> x[kDeep] = {};
    for (int i = 0; i < deep; ++i) x[i] = Broadcast(t.a[(k + i) * a_col]);
    const T* b = t.b + k * t.b_row;
    for (int64_t j = 0; j < cols; j += kLanes<T>, b += kLanes<T>) {
      Vec<T> sum = begin ? Vec<T>{} : Load(t.c + j);
      if (deep == kDeep) {
#pragma GCC unroll 8
        for (int i = 0; i < kDeep; ++i) sum += x[i] * Load(b + i * t.b_row);
      } else {
        for (int i = 0; i < deep; ++i) sum += x[i] * Load(b + i * t.b_row);
      }
      Store(t.c + j, sum);
    }
  }
  if (t.scale == nullptr && t.bias == nullptr && t.residual == nullptr && t.rectify == Rectify::kNone) return;
  for (int64_t j = 0; j < cols; j += kLanes<T>) {
    Vec<T> sum = Load(t.c + j);
    if (t.scale != nullptr) sum *= Load(t.scale + j);
    if (t.bias != nullptr) sum += Load(t.bias + j);
    if (t.residual != nullptr) sum += Load(t.residual + j);
    Store(t.c + j, Rectified<T>(sum, t.rectify));
  }
}

// B in the order in which tiles read it: the parts of the inner dimension, each panel by panel.
// Here rows [first, first + rows) of it, the first of which is at b.
template <typename T>
void PackRows(const T* b, int64_t b_row, int64_t b_col, int64_t k, int64_t segments, int64_t n, int64_t first,
              int64_t rows, T* packed) {
  for (DepthParts parts(k, segments, true);; parts.Next()) {
    const DepthPart part = parts.part();
    const int64_t before = part.segment * k + part.row - first;  // rows of b to those of this part
    const int64_t from = before > 0 ? before : 0;
    const int64_t end = before + part.rows() < rows ? before + part.rows() : rows;
    int64_t left = (n + kLanes<T> - 1) / kLanes<T>;
    for (int64_t at = 0; left > 0;) {
      const int64_t vectors = PanelVectors(left), width = vectors * kLanes<T>;
      if (from < end) {
        PackPanel(b + from * b_row + at * b_col, b_row, b_col, end - from, n - at < width ? n - at : width,
                  width, packed + (from - before) * width);
      }
      packed += part.rows() * width;
      at += width;
      left -= vectors;
    }
    if (parts.last()) return;
  }
}

template <typename T>
void PackMatrix(const T* b, int64_t b_row, int64_t b_col, int64_t k, int64_t segments, int64_t n, T* packed) {
  PackRows(b, b_row, b_col, k, segments, n, 0, k * segments, packed);
}

// Of C that one panel gives.
template <typename T>
constexpr int64_t Rows(const GemmBlock<T>& g) {
  return g.m * g.repeats * g.groups;
}

// A panel is read in place if its rows are contiguous and A has too few rows to be worth a copy. If the
// panel's rows are in few sets of the caches, a second tile would not find them there.
template <typename T>
constexpr int64_t RowsWorthPacking(const GemmBlock<T>& g) {
  if (g.segments > 1) return 96;
  return MeetInCache<T>(g.b_row) && g.k >= 64 ? 2 * kMaxRowsThatMeet : 256;
}
// The same where the first tile makes the copy while it computes.
constexpr int64_t kTilesWorthCopying = 2;
constexpr int64_t kTilesThatPrefetch = 12;  // with fewer, prefetching the next panel is as slow as reading it

// The panel of packed B that is read after the one at column n: in the same part, in the next part, or the
// one that the caller named.
template <typename T>
Ahead AfterPanel(const GemmBlock<T>& g, const DepthParts& parts, int64_t n, int64_t width, int64_t tiles) {
  const DepthPart part = parts.part();
  const int64_t rows_before = part.segment * g.k + part.row;
  const T* next = nullptr;
  int64_t rows = part.rows();
  if (n + width < g.n) {
    next = g.packed + rows_before * g.packed_n + (g.packed_column + n + width) * rows;
  } else if (!parts.last()) {
    DepthParts following = parts;
    following.Next();
    rows = following.part().rows();
    next = g.packed + (rows_before + part.rows()) * g.packed_n + g.packed_column * rows;
  } else if (g.then_packed != nullptr) {
    rows = DepthParts(g.k, g.segments, true).part().rows();
    next = g.then_packed + g.then_column * rows;
  } else {
    return {};
  }
  constexpr int64_t kLine = 64, kLeast = 16;
  const int64_t row = width * static_cast<int64_t>(sizeof(T));
  const int64_t step = (row + tiles - 1) / tiles;  // as evenly as possible, to keep a steady load on memory
  const char* const at = reinterpret_cast<const char*>(next);
  return {at, at + rows * row, step > kLine ? kLine : step < kLeast ? kLeast : step};
}

// The same for B in place, with rows that are pages apart: each tile prefetches one line of every row. The
// processor prefetches rows that are closer by itself.
template <typename T>
Ahead AfterLoosePanel(const GemmBlock<T>& g, const DepthParts& parts, int64_t n, int64_t width) {
  if (g.b_col != 1 || g.b_offsets != nullptr || g.b_row * static_cast<int64_t>(sizeof(T)) < kFarBytes)
    return {};
  const DepthPart part = parts.part();
  const int64_t row = part.segment * g.k + part.row;
  const T* next = g.b + row * g.b_row + n + width;  // perhaps of the block to the right
  if (n + width >= g.n) next = parts.last() ? g.b + g.n : g.b + (row + part.rows()) * g.b_row;
  constexpr int64_t kLine = 64, kElement = sizeof(T);
  const char* const at = reinterpret_cast<const char*>(next);
  return {at, at + width * kElement, g.b_row * kElement, kLine};
}

// The memory that the caller named, spread over all tiles.
template <typename T>
Ahead NamedAhead(const GemmBlock<T>& g) {
  if (g.next == nullptr) return {};
  constexpr int64_t kLeast = 16, kMost = 128;
  const int64_t rows = MaxTileRows(3), width = 3 * kLanes<T>;
  const int64_t tiles = (g.m + rows - 1) / rows * g.repeats * g.groups * ((g.n + width - 1) / width);
  const int64_t step = g.next_bytes / (tiles * g.k * g.segments) + 1;
  const char* const at = static_cast<const char*>(g.next);
  return {at, at + g.next_bytes, step < kLeast ? kLeast : step > kMost ? kMost : step};
}

// Adds one part of the inner dimension to the panel at column n. `t` has the arguments that all panels share.
template <typename T, int kVectors>
void GemmPanel(const GemmBlock<T>& g, const DepthParts& parts, int64_t n, TileArgs<T> t, Ahead& named) {
  const DepthPart part = parts.part();
  const bool last = parts.last();
  constexpr int64_t kWidth = kVectors * kLanes<T>;
  const TileHeights heights = HeightsOf<T, kVectors>(g.m, g.a_row, g.a_col);
  const int64_t tiles = heights.tiles * g.repeats * g.groups;
  const int64_t used = g.n - n < kWidth ? g.n - n : kWidth;
  const int64_t first_row = part.segment * g.k + part.row;
  const T* const b = g.b + first_row * g.b_row + n * g.b_col;
  t.b_row = kWidth;
  if (g.b_offsets != nullptr) {
    t.b = g.b + n;
    t.b_row = g.b_row;
    t.b_offsets = g.b_offsets;
  } else if (g.packed != nullptr) {
    t.b = g.packed + first_row * g.packed_n + (g.packed_column + n) * part.rows();
  } else if (g.b_col == 1 && used == kWidth && TileCopies(heights.first(), kVectors)) {
    t.b = b;
    t.b_row = g.b_row;
    t.copy = tiles >= kTilesWorthCopying ? g.scratch : nullptr;
  } else if (g.b_col == 1 && used == kWidth && Rows(g) < RowsWorthPacking(g)) {
    t.b = b;
    t.b_row = g.b_row;
  } else {
    PackPanel(b, g.b_row, g.b_col, part.rows(), used, kWidth, g.scratch);
    t.b = g.scratch;
  }
  t.scale = g.scale != nullptr && last ? g.scale + n : nullptr;
  t.bias = g.bias != nullptr && last ? g.bias + n : nullptr;
  t.last = static_cast<int>(used - (kVectors - 1) * kLanes<T>);
  Ahead own;
  if (g.next == nullptr) {
    // A tile that copies has enough to wait for.
    own = g.packed != nullptr                                ? AfterPanel(g, parts, n, kWidth, tiles)
          : t.copy == nullptr || tiles >= kTilesThatPrefetch ? AfterLoosePanel(g, parts, n, kWidth)
                                                             : Ahead{};
  }
  Ahead& ahead = g.next == nullptr ? own : named;
  // Later panels find the rows of A in a cache.
  const bool rows_follow = n == 0 && Rows(g) == g.m && g.segments == 1 && g.a_row == part.k && g.a_col == 1;
  for (int64_t group = 0; group < g.groups; ++group) {
    for (int64_t repeat = 0; repeat < g.repeats; ++repeat) {
      const int64_t c = n + group * g.c_group + repeat * g.c_repeat;
      t.a = g.a + part.row * g.a_col + group * g.a_group + repeat * g.a_repeat;
      t.c = g.c + c;
      t.residual = g.residual != nullptr && last ? g.residual + c : nullptr;
      PanelTimesRows<T, kVectors>(heights, t, rows_follow, ahead);
    }
  }
}

// Adds one part of the inner dimension.
template <typename T>
void GemmDepth(const GemmBlock<T>& g, const DepthParts& parts, Ahead& named) {
  const int64_t zero = 0;
  const DepthPart part = parts.part();
  TileArgs<T> t;
  t.k = part.k;
  t.a_row = g.a_row;
  t.a_col = g.a_col;
  t.ldc = g.ldc;
  t.resume = !parts.first() && g.segments > 1;
  t.accumulate = g.accumulate || (!parts.first() && !t.resume);
  t.rectify = parts.last() ? g.rectify : Rectify::kNone;
  t.segments = part.segments;
  t.segment_offsets = g.segment_offsets == nullptr ? &zero : g.segment_offsets + part.segment;
  int64_t n = 0;
  if (Rows(g) * g.segments == 1 && g.b_col == 1 && g.n >= kLanes<T> && g.packed == nullptr) {
    n = g.n / kLanes<T> * kLanes<T>;
    t.a = g.a + part.row * g.a_col;
    t.b = g.b + part.row * g.b_row;
    t.b_row = g.b_row;
    t.c = g.c;
    t.scale = parts.last() ? g.scale : nullptr;
    t.bias = parts.last() ? g.bias : nullptr;
    t.residual = parts.last() ? g.residual : nullptr;
    RowTimesMatrix(t, g.a_col, n);
  }
  while (n < g.n) {
    const int64_t vectors = PanelVectors((g.n - n + kLanes<T> - 1) / kLanes<T>);
    if (vectors == 3) {
      GemmPanel<T, 3>(g, parts, n, t, named);
    } else if (vectors == 2) {
      GemmPanel<T, 2>(g, parts, n, t, named);
    } else {
      GemmPanel<T, 1>(g, parts, n, t, named);
    }
    n += vectors * kLanes<T>;
  }
}

template <typename T>
void GemmOneBlock(const GemmBlock<T>& g) {
  Ahead named = NamedAhead(g);
  for (DepthParts parts = g.b_offsets != nullptr || (g.segments > 1 && g.accumulate)
                              ? DepthParts::Uncut(g.k, g.segments)  // a cut would change the result
                              : DepthParts(g.k, g.segments, g.packed != nullptr);
       ; parts.Next()) {
    GemmDepth(g, parts, named);
    if (parts.last()) return;
  }
}

template <typename T>
void SumParts(const SumBlock<T>& s) {
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; j += kLanes<T>) {
      const int last = s.n - j < kLanes<T> ? static_cast<int>(s.n - j) : kLanes<T>;
      const auto load = [last](const T* at) { return LoadColumns<T, 1>(at, 0, last); };
      const T* const from = s.parts + i * s.row + j;
      Vec<T> sum = load(from) + load(from + s.part);
      for (int64_t part = 2; part < s.count; ++part) sum += load(from + part * s.part);
      if (s.bias != nullptr) sum += load(s.bias + j);
      if (s.residual != nullptr) sum += load(s.residual + i * s.ldc + j);
      StoreColumns<T, 1>(s.c + i * s.ldc + j, 0, last, Rectified<T>(sum, s.rectify));
    }
  }
}
