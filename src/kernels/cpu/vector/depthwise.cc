// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/depthwise.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/cpu/contract/isa.h"
#include "kernels/cpu/vector/depthwise_table.h"

namespace millrace::cpu {
namespace {

constexpr DepthwiseTable const* kTables[] = {&baseline::kDepthwiseTable, &avx2::kDepthwiseTable,
                                             &avx512::kDepthwiseTable};
// The least number of rows whose sums are added sequentially to the gradient of the filter.
constexpr int64_t kLeastRows = 16;
constexpr int64_t kMostBlocks = 64;
constexpr int64_t kMostSums = int64_t{1} << 22;  // in all blocks

template <typename T>
const DepthwiseFns<T>& Fns() {
  const DepthwiseTable& table = *kTables[static_cast<int>(ActiveIsa())];
  if constexpr (std::is_same_v<T, float>) {
    return table.f32;
  } else {
    return table.f64;
  }
}

int64_t DivideUp(int64_t a, int64_t b) { return a <= 0 ? 0 : (a - 1) / b + 1; }

// The outputs [begin, end) along one side for which element k of the window is inside the image.
struct Range {
  int64_t begin, end;
};
Range OutputsOf(int64_t k, int64_t dilation, int64_t stride, int64_t pad, int64_t in, int64_t out) {
  // 0 <= o * stride + k * dilation - pad < in
  const int64_t offset = k * dilation - pad;
  return {std::min(out, DivideUp(-offset, stride)),
          std::clamp<int64_t>(DivideUp(in - offset, stride), 0, out)};
}

// The arguments of Gather for one run of pixels.
template <typename T>
struct Taps {
  std::vector<const T*> x, w;
  void Clear() {
    x.clear();
    w.clear();
  }
  void Add(const T* from, const T* weight) {
    x.push_back(from);
    w.push_back(weight);
  }
};

// Cuts [0, size) at the points where the set of taps changes. `ranges`: the range of each tap.
std::vector<int64_t> Cuts(const std::vector<Range>& ranges, int64_t size) {
  std::vector<int64_t> cuts = {0, size};
  for (const Range& r : ranges) {
    if (r.begin >= r.end) continue;
    cuts.push_back(r.begin);
    cuts.push_back(r.end);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

int64_t RowCost(int64_t pixels, const DepthwiseParams& p) {
  const double products = static_cast<double>(pixels) * static_cast<double>(p.channels) *
                          static_cast<double>(p.filter_h) * static_cast<double>(p.filter_w);
  return static_cast<int64_t>(std::clamp(products / 8, 1.0, 1e9));
}

}  // namespace

template <typename T>
void Depthwise(const DepthwiseParams& p, const T* input, const T* filter, T* output, Parallel& parallel,
               const DepthwiseEpilogue<T>& epilogue) {
  std::vector<Range> columns;
  for (int64_t k = 0; k < p.filter_w; ++k)
    columns.push_back(OutputsOf(k, p.dilation_w, p.stride_w, p.pad_left, p.in_w, p.out_w));
  const std::vector<int64_t> cuts = Cuts(columns, p.out_w);
  const int64_t c = p.channels;
  const DepthwiseFinish<T> finish{.scale = epilogue.scale,
                                  .shift = epilogue.shift,
                                  .relu = epilogue.rectify == Rectify::kRelu,
                                  .relu6 = epilogue.rectify == Rectify::kRelu6};
  parallel.For(p.batch * p.out_h, RowCost(p.out_w, p), [&](int64_t begin, int64_t end) {
    Taps<T> taps;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t image = row / p.out_h, top = row % p.out_h * p.stride_h - p.pad_top;
      for (size_t cut = 0; cut + 1 < cuts.size(); ++cut) {
        const int64_t first = cuts[cut];
        taps.Clear();
        for (int64_t i = 0; i < p.filter_h; ++i) {
          const int64_t y = top + i * p.dilation_h;
          if (y < 0 || y >= p.in_h) continue;
          for (int64_t j = 0; j < p.filter_w; ++j) {
            const Range& range = columns[static_cast<size_t>(j)];
            if (first < range.begin || first >= range.end) continue;
            const int64_t x = first * p.stride_w + j * p.dilation_w - p.pad_left;
            taps.Add(input + ((image * p.in_h + y) * p.in_w + x) * c, filter + (i * p.filter_w + j) * c);
          }
        }
        Fns<T>().gather(taps.x.data(), p.stride_w * c, taps.w.data(), static_cast<int64_t>(taps.x.size()), c,
                        cuts[cut + 1] - first, output + (row * p.out_w + first) * c, c, finish);
      }
      T* const results = output + row * p.out_w * c;
      if (epilogue.rows != nullptr) epilogue.rows(results, results, p.out_w * c);
    }
  });
}

template <typename T>
void DepthwiseBackpropInput(const DepthwiseParams& p, const T* filter, const T* out_grad, T* in_grad,
                            Parallel& parallel) {
  const int64_t c = p.channels;
  // Inputs x = o * stride + k * dilation - pad with equal remainders by the stride have taps at fixed
  // distances. For each remainder: the inputs, by their index among those of the remainder, that tap k reads.
  const int64_t phases = std::min(p.stride_w, p.in_w);
  struct Phase {
    std::vector<Range> ranges;     // of each tap
    std::vector<int64_t> outputs;  // of each tap: the output for index 0
    std::vector<int64_t> cuts;
  };
  std::vector<Phase> plan(static_cast<size_t>(phases));
  for (int64_t phase = 0; phase < phases; ++phase) {
    Phase& part = plan[static_cast<size_t>(phase)];
    const int64_t count = DivideUp(p.in_w - phase, p.stride_w);
    for (int64_t k = 0; k < p.filter_w; ++k) {
      const int64_t at = phase + p.pad_left - k * p.dilation_w;
      int64_t quotient = at / p.stride_w;
      const bool even = at % p.stride_w == 0;
      part.outputs.push_back(quotient);
      part.ranges.push_back(even ? Range{std::min(count, std::max<int64_t>(-quotient, 0)),
                                         std::clamp<int64_t>(p.out_w - quotient, 0, count)}
                                 : Range{0, 0});
    }
    part.cuts = Cuts(part.ranges, count);
  }
  parallel.For(
      p.batch * p.in_h, RowCost(p.in_w, p) / (p.stride_h * p.stride_w) + 1, [&](int64_t begin, int64_t end) {
        Taps<T> taps;
        for (int64_t row = begin; row < end; ++row) {
          const int64_t image = row / p.in_h, y = row % p.in_h;
          for (int64_t phase = 0; phase < phases; ++phase) {
            const Phase& part = plan[static_cast<size_t>(phase)];
            for (size_t cut = 0; cut + 1 < part.cuts.size(); ++cut) {
              const int64_t first = part.cuts[cut];
              taps.Clear();
              for (int64_t i = 0; i < p.filter_h; ++i) {
                const int64_t at = y + p.pad_top - i * p.dilation_h, o = at / p.stride_h;
                if (at < 0 || at % p.stride_h != 0 || o >= p.out_h) continue;
                for (int64_t j = 0; j < p.filter_w; ++j) {
                  const Range& range = part.ranges[static_cast<size_t>(j)];
                  if (first < range.begin || first >= range.end) continue;
                  const int64_t x = part.outputs[static_cast<size_t>(j)] + first;
                  taps.Add(out_grad + ((image * p.out_h + o) * p.out_w + x) * c,
                           filter + (i * p.filter_w + j) * c);
                }
              }
              Fns<T>().gather(taps.x.data(), c, taps.w.data(), static_cast<int64_t>(taps.x.size()), c,
                              part.cuts[cut + 1] - first,
                              in_grad + (row * p.in_w + phase + first * p.stride_w) * c, p.stride_w * c, {});
            }
          }
        }
      });
}

template <typename T>
void DepthwiseBackpropFilter(const DepthwiseParams& p, const T* input, const T* out_grad, T* filter_grad,
                             Parallel& parallel) {
  const int64_t c = p.channels, size = p.filter_h * p.filter_w * c;
  const int64_t rows = p.batch * p.out_h;
  std::fill_n(filter_grad, size, T(0));
  // Blocks depend only on sizes, so that sums are the same for any number of threads.
  const int64_t most = std::clamp<int64_t>(kMostSums / std::max<int64_t>(size, 1), 1, kMostBlocks);
  const int64_t blocks = std::clamp<int64_t>(rows / kLeastRows, 1, most);
  const int64_t block_rows = DivideUp(rows, blocks);
  std::vector<T> sums(static_cast<size_t>(blocks * size));
  parallel.For(blocks, RowCost(p.out_w * block_rows, p), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * block_rows; row < std::min(rows, end * block_rows); ++row) {
      T* const block = sums.data() + row / block_rows * size;
      const int64_t image = row / p.out_h, top = row % p.out_h * p.stride_h - p.pad_top;
      for (int64_t i = 0; i < p.filter_h; ++i) {
        const int64_t y = top + i * p.dilation_h;
        if (y < 0 || y >= p.in_h) continue;
        for (int64_t j = 0; j < p.filter_w; ++j) {
          const Range range = OutputsOf(j, p.dilation_w, p.stride_w, p.pad_left, p.in_w, p.out_w);
          if (range.begin >= range.end) continue;
          const int64_t x = range.begin * p.stride_w + j * p.dilation_w - p.pad_left;
          Fns<T>().correlate(input + ((image * p.in_h + y) * p.in_w + x) * c, p.stride_w * c,
                             out_grad + (row * p.out_w + range.begin) * c, c, c, range.end - range.begin,
                             block + (i * p.filter_w + j) * c);
        }
      }
    }
  });
  for (int64_t b = 0; b < blocks; ++b) {
    for (int64_t i = 0; i < size; ++i) filter_grad[i] += sums[static_cast<size_t>(b * size + i)];
  }
}

#define MR_INSTANTIATE(T)                                                                             \
  template void Depthwise<T>(const DepthwiseParams&, const T*, const T*, T*, Parallel&,               \
                             const DepthwiseEpilogue<T>&);                                            \
  template void DepthwiseBackpropInput<T>(const DepthwiseParams&, const T*, const T*, T*, Parallel&); \
  template void DepthwiseBackpropFilter<T>(const DepthwiseParams&, const T*, const T*, T*, Parallel&);
MR_INSTANTIATE(float)
MR_INSTANTIATE(double)
#undef MR_INSTANTIATE

}  // namespace millrace::cpu
