// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix and affine functions of its columns: the inner loops of batch normalisation.
// Included by simd_*.cc only, inside their own namespace, after the pools' (Channels).

template <typename T>
void ColumnSums(const T* x, const T* mean, int64_t rows, int64_t cols, T* sums) {
  ForChannels<T>(0, cols, [&](int64_t c, auto part) {
    Vec<T> sum[part.kCount], center[part.kCount];
    MR_EACH_VECTOR
    for (int v = 0; v < part.kCount; ++v) {
      sum[v] = Vec<T>{};
      center[v] = mean == nullptr ? Vec<T>{} : part.From(mean + c, v);
    }
    for (int64_t r = 0; r < rows; ++r) {
      MR_EACH_VECTOR
      for (int v = 0; v < part.kCount; ++v) {
        const Vec<T> d = part.From(x + r * cols + c, v) - center[v];
        sum[v] += mean == nullptr ? d : d * d;
      }
    }
    MR_EACH_VECTOR
    for (int v = 0; v < part.kCount; ++v) part.To(sums + c, v, sum[v]);
  });
}

template <typename T>
void ColumnProducts(const T* dy, const T* x, const T* mean, int64_t rows, int64_t cols, T* sums,
                    T* products) {
  ForChannels<T>(0, cols, [&](int64_t c, auto part) {
    Vec<T> sum[part.kCount], product[part.kCount], center[part.kCount];
    MR_EACH_VECTOR
    for (int v = 0; v < part.kCount; ++v) {
      sum[v] = product[v] = Vec<T>{};
      center[v] = part.From(mean + c, v);
    }
    for (int64_t r = 0; r < rows; ++r) {
      MR_EACH_VECTOR
      for (int v = 0; v < part.kCount; ++v) {
        const Vec<T> g = part.From(dy + r * cols + c, v);
        sum[v] += g;
        product[v] += g * (part.From(x + r * cols + c, v) - center[v]);
      }
    }
    MR_EACH_VECTOR
    for (int v = 0; v < part.kCount; ++v) {
      part.To(sums + c, v, sum[v]);
      part.To(products + c, v, product[v]);
    }
  });
}

template <typename T>
void AffineColumns(const AffineBlock<T>& a) {
  ForChannels<T>(0, a.cols, [a](int64_t c, auto part) {
    Vec<T> scale[part.kCount], other_scale[part.kCount], shift[part.kCount];
    MR_EACH_VECTOR
    for (int v = 0; v < part.kCount; ++v) {
      scale[v] = part.From(a.scale + c, v);
      other_scale[v] = a.other == nullptr ? Vec<T>{} : part.From(a.other_scale + c, v);
      shift[v] = part.From(a.shift + c, v);
    }
    for (int64_t at = c; at < a.rows * a.cols; at += a.cols) {
      MR_EACH_VECTOR
      for (int v = 0; v < part.kCount; ++v) {
        Vec<T> y = part.From(a.x + at, v) * scale[v] + shift[v];
        if (a.other != nullptr) y += part.From(a.other + at, v) * other_scale[v];
        part.To(a.y + at, v, y);
      }
    }
  });
}
