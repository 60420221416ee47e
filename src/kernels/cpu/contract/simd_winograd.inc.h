// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The transforms of Winograd's convolution F(2x2, 3x3): patches of 4 x 4 pixels, filters of 3 x 3 and tiles
// of 2 x 2 results, vectors along channels. Included by simd_*.cc only, inside their own namespace.

// Whether the values of which these are the squares are finite and at most 2^60: differences of such numbers
// and sums of their products don't overflow where plain convolution would not.
template <typename T>
bool AreModest(Vec<T> squares) {
  T sum = T(0);
  for (int lane = 0; lane < kLanes<T>; ++lane) sum += squares[lane];
  return sum < T(0x1p120);
}

// A row of tiles of one image.
template <typename T>
bool WinogradInput(const WinogradInputRow<T>& row) {
  Vec<T> squares{};
  const bool rows_inside = row.top >= 0 && row.top + 4 <= row.h;
  for (int64_t tile = 0; tile < row.tiles; ++tile) {
    const T* pixels[4][4];
    const int64_t left = row.left + 2 * tile;
    if (rows_inside && left >= 0 && left + 4 <= row.w) {
      const T* const first = row.image + (row.top * row.w + left) * row.pixel;
#pragma GCC unroll 4
      for (int64_t i = 0; i < 4; ++i) {
#pragma GCC unroll 4
        for (int64_t j = 0; j < 4; ++j) pixels[i][j] = first + (i * row.w + j) * row.pixel;
      }
    } else {
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t y = row.top + i;
        for (int64_t j = 0; j < 4; ++j) {
          const int64_t x = left + j;
          const bool inside = y >= 0 && y < row.h && x >= 0 && x < row.w;
          pixels[i][j] = inside ? row.image + (y * row.w + x) * row.pixel : row.zeros;
        }
      }
    }
    T* out = row.out + tile * row.channels;
    for (int64_t c = 0; c < row.channels; c += kLanes<T>, out += kLanes<T>) {
      Vec<T> t[4][4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const Vec<T> d0 = Load(pixels[0][j] + c), d1 = Load(pixels[1][j] + c);
        const Vec<T> d2 = Load(pixels[2][j] + c), d3 = Load(pixels[3][j] + c);
        squares += d0 * d0;
        squares += d1 * d1;
        squares += d2 * d2;
        squares += d3 * d3;
        t[0][j] = d0 - d2;
        t[1][j] = d1 + d2;
        t[2][j] = d2 - d1;
        t[3][j] = d1 - d3;
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        T* const to = out + 4 * i * row.position;
        Store(to, t[i][0] - t[i][2]);
        Store(to + row.position, t[i][1] + t[i][2]);
        Store(to + 2 * row.position, t[i][2] - t[i][1]);
        Store(to + 3 * row.position, t[i][1] - t[i][3]);
      }
    }
  }
  return AreModest<T>(squares);
}

template <typename T>
void WinogradOutput(const WinogradOutputRow<T>& row) {
  for (int64_t tile = 0; tile < row.tiles; ++tile) {
    for (int64_t c = 0; c < row.columns; c += kLanes<T>) {
      const T* const m = row.sums + tile * row.columns + c;
      Vec<T> s[2][4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const Vec<T> m0 = Load(m + j * row.position), m1 = Load(m + (4 + j) * row.position);
        const Vec<T> m2 = Load(m + (8 + j) * row.position), m3 = Load(m + (12 + j) * row.position);
        s[0][j] = m0 + m1 + m2;
        s[1][j] = m1 - m2 - m3;
      }
#pragma GCC unroll 2
      for (int64_t i = 0; i < 2; ++i) {
        if (i >= row.h) break;
        const Vec<T> results[2] = {s[i][0] + s[i][1] + s[i][2], s[i][1] - s[i][2] - s[i][3]};
#pragma GCC unroll 2
        for (int64_t j = 0; j < 2; ++j) {
          const int64_t x = 2 * tile + j;
          if (x >= row.w) break;
          const int64_t at = (i * row.w + x) * row.channels + c;
          Vec<T> sum = results[j];
          if (row.scale != nullptr) sum *= Load(row.scale + c);
          if (row.bias != nullptr) sum += Load(row.bias + c);
          if (row.residual != nullptr) sum += Load(row.residual + at);
          Store(row.out + at, Rectified<T>(sum, row.rectify));
        }
      }
    }
  }
}

// The filter [3, 3, in_c, out_c] as 16 matrices [in_c, out_c]; false if values are not finite or too
// large.
template <typename T>
bool WinogradFilter(const T* filter, int64_t count, T* out) {
  Vec<T> squares{};
  const Vec<T> half = Broadcast(T(0.5));
  for (int64_t at = 0; at < count; at += kLanes<T>) {
    const int n = count - at < kLanes<T> ? static_cast<int>(count - at) : kLanes<T>;
    const auto load = [&](const T* p) { return n == kLanes<T> ? Load(p) : LoadPart(p, n); };
    const auto store = [&](T* p, Vec<T> v) { n == kLanes<T> ? Store(p, v) : StorePart(p, v, n); };
    Vec<T> t[4][3];
    for (int j = 0; j < 3; ++j) {
      const Vec<T> g0 = load(filter + j * count + at), g1 = load(filter + (3 + j) * count + at);
      const Vec<T> g2 = load(filter + (6 + j) * count + at);
      squares += g0 * g0;
      squares += g1 * g1;
      squares += g2 * g2;
      t[0][j] = g0;
      t[1][j] = (g0 + g2 + g1) * half;
      t[2][j] = (g0 + g2 - g1) * half;
      t[3][j] = g2;
    }
    for (int i = 0; i < 4; ++i) {
      T* const to = out + 4 * i * count + at;
      store(to, t[i][0]);
      store(to + count, (t[i][0] + t[i][2] + t[i][1]) * half);
      store(to + 2 * count, (t[i][0] + t[i][2] - t[i][1]) * half);
      store(to + 3 * count, t[i][2]);
    }
  }
  return AreModest<T>(squares);
}

// The transforms of the filter's gradient are the transposes of those above.
template <typename T>
bool WinogradGradient(const WinogradGradientRow<T>& row) {
  Vec<T> squares{};
  for (int64_t tile = 0; tile < row.tiles; ++tile) {
    const T* pixels[2][2];
#pragma GCC unroll 2
    for (int64_t i = 0; i < 2; ++i) {
#pragma GCC unroll 2
      for (int64_t j = 0; j < 2; ++j) {
        const int64_t x = 2 * tile + j;
        pixels[i][j] = i < row.h && x < row.w ? row.grad + (i * row.w + x) * row.pixel : row.zeros;
      }
    }
    T* out = row.out + tile * row.channels;
    for (int64_t c = 0; c < row.channels; c += kLanes<T>, out += kLanes<T>) {
      Vec<T> t[4][2];
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        const Vec<T> y0 = Load(pixels[0][j] + c), y1 = Load(pixels[1][j] + c);
        squares += y0 * y0;
        squares += y1 * y1;
        t[0][j] = y0;
        t[1][j] = y0 + y1;
        t[2][j] = y0 - y1;
        t[3][j] = -y1;
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        T* const to = out + 4 * i * row.position;
        Store(to, t[i][0]);
        Store(to + row.position, t[i][0] + t[i][1]);
        Store(to + 2 * row.position, t[i][0] - t[i][1]);
        Store(to + 3 * row.position, -t[i][1]);
      }
    }
  }
  return AreModest<T>(squares);
}

template <typename T>
void WinogradFilterGradient(const T* sums, int64_t position, int64_t count, T* out, int64_t tap) {
  const Vec<T> half = Broadcast(T(0.5));
  for (int64_t at = 0; at < count; at += kLanes<T>) {
    Vec<T> t[3][4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const Vec<T> u0 = Load(sums + j * position + at), u1 = Load(sums + (4 + j) * position + at);
      const Vec<T> u2 = Load(sums + (8 + j) * position + at), u3 = Load(sums + (12 + j) * position + at);
      t[0][j] = u0 + (u1 + u2) * half;
      t[1][j] = (u1 - u2) * half;
      t[2][j] = (u1 + u2) * half + u3;
    }
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      T* const to = out + 3 * i * tap + at;
      Store(to, t[i][0] + (t[i][1] + t[i][2]) * half);
      Store(to + tap, (t[i][1] - t[i][2]) * half);
      Store(to + 2 * tap, (t[i][1] + t[i][2]) * half + t[i][3]);
    }
  }
}
