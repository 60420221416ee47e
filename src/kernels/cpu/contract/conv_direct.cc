// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/conv_direct.h"

#include <atomic>
#include <cstring>

#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/contract/simd_table.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kBandElements = 64 << 10;  // of a padded band, so that it stays in the second-level cache
constexpr int64_t kLargeFilter = 256 << 10;  // elements that don't stay there together with others
constexpr int64_t kLargeBandElements = 256 << 10;
constexpr int64_t kLargeUnitElements = 384
                                       << 10;  // of several images, for each of which it would be read again
constexpr int64_t kWantedUnits = 16;           // few images are cut finer, for the threads' sake
constexpr int64_t kMinBandPixels = 128;
constexpr int64_t kMaxParts = 16;  // partial sums of the filter's gradient
constexpr int64_t kMaxPartialElements = 4 << 20;
constexpr int64_t kPanel = 48;

// The pieces of the channels that units take: panels of a packed matrix of T, or all of them.
template <typename T>
std::vector<int64_t> ColumnBounds(bool by_panels, int64_t channels) {
  return by_panels ? PanelBounds(channels, ActiveKernels<T>().lanes) : std::vector<int64_t>{0, channels};
}

// Threads share the columns of a large filter rather than the rows of a small image, for which each of them
// would read all of it.
bool IsWide(int64_t pixels, int64_t channels) {
  return channels >= 2 * kPanel && pixels < kWantedUnits * kMinBandPixels;
}

template <typename T>
void Clear(T* data, int64_t count) {
  std::memset(data, 0, static_cast<size_t>(count) * sizeof(T));
}

}  // namespace

int64_t DirectConv::BandRows(int64_t rows, int64_t pixels, int64_t row_elements, int64_t shared_rows,
                             bool finer) const {
  const bool large = !finer && p_.filter_h * p_.filter_w * p_.in_c * p_.out_c >= kLargeFilter;
  const int64_t most = large ? kLargeBandElements : kBandElements;
  int64_t size = std::max<int64_t>(most / std::max<int64_t>(row_elements, 1) - shared_rows, 1);
  size = std::min(std::max(size, shared_rows), rows);
  if (finer && p_.batch * CeilDiv(rows, size) < kWantedUnits) {
    const int64_t fine = CeilDiv(rows, CeilDiv(kWantedUnits, p_.batch));
    size = std::min(size, std::max({fine, CeilDiv(kMinBandPixels, pixels), shared_rows}));
  }
  size = std::clamp<int64_t>(size, 1, rows);
  return CeilDiv(rows, CeilDiv(rows, size));
}

DirectConv::DirectConv(const ConvParams& params)
    : p_(params), rows_(RowAxis(params)), columns_(ColumnAxis(params)) {
  MakeForward();
  MakeBackward();
}

void DirectConv::MakeWindow(bool finer, bool packs, Window& w, Runs& runs) const {
  w.h = p_.in_h, w.w = p_.in_w, w.c = p_.in_c;
  w.columns = padded_ ? (p_.out_w - 1) * p_.stride_w + (p_.filter_w - 1) * p_.dilation_w + 1 : p_.in_w;
  const int64_t filter_rows = (p_.filter_h - 1) * p_.dilation_h + 1;
  int64_t row = w.columns * w.c * p_.stride_h;
  if (packs && !padded_) row = p_.out_w * w.c * std::min(p_.stride_h, p_.filter_h) / 2;
  w.band_rows = BandRows(p_.out_h, p_.out_w, row, filter_rows / p_.stride_h, finer);
  w.bands = CeilDiv(p_.out_h, w.band_rows);
  w.top = -p_.pad_top, w.left = -p_.pad_left;
  w.step = w.band_rows * p_.stride_h;
  w.rows = (w.band_rows - 1) * p_.stride_h + filter_rows;

  const bool merged = p_.dilation_w == 1;
  runs.length = merged ? p_.filter_w * p_.in_c : p_.in_c;
  for (int64_t kh = 0; kh < p_.filter_h; ++kh) {
    for (int64_t kw = 0; kw < (merged ? 1 : p_.filter_w); ++kw) {
      runs.offsets.push_back((kh * p_.dilation_h * w.columns + kw * p_.dilation_w) * w.c);
    }
  }
}

void DirectConv::MakeUnits(int64_t pixels, int64_t channels, bool grouped, Window& w) const {
  const bool wide = IsWide(pixels, channels);
  if (grouped && w.bands == 1 && pixels > 1) {
    const bool large = wide && p_.filter_h * p_.filter_w * p_.in_c * p_.out_c >= kLargeFilter;
    const int64_t fit = (large ? kLargeUnitElements : kBandElements) / std::max<int64_t>(w.size(), 1);
    const int64_t spare = large ? p_.batch : p_.batch / kWantedUnits;
    const int64_t images = std::clamp<int64_t>(std::min(fit, spare), 1, p_.batch);
    w.images = CeilDiv(p_.batch, CeilDiv(p_.batch, images));
  }
  w.by_panels = wide && CeilDiv(p_.batch, w.images) * w.bands < kWantedUnits / 2;
}

DirectConv::Unit DirectConv::UnitAt(const Window& w, const std::vector<int64_t>& column_bounds,
                                    int64_t index) const {
  const auto blocks = static_cast<int64_t>(column_bounds.size()) - 1;
  const auto block = static_cast<size_t>(index % blocks);
  const int64_t image = index / blocks / w.bands * w.images;
  return {image, std::min(w.images, p_.batch - image), index / blocks % w.bands, column_bounds[block],
          column_bounds[block + 1] - column_bounds[block]};
}

void DirectConv::MakeForward() {
  MakeWindow(true, false, forward_, forward_runs_);
  const auto inside = [](const ConvAxis& axis) {
    return axis.pad == 0 && (axis.out - 1) * axis.stride + (axis.filter - 1) * axis.dilation < axis.in;
  };
  padded_ = !inside(rows_) || !inside(columns_);
  const bool finer = !IsWide(p_.out_h * p_.out_w, p_.out_c);
  MakeWindow(finer, false, output_, output_runs_);
  Runs same;
  MakeWindow(finer, true, grouped_, same);
  MakeUnits(p_.out_h * p_.out_w, p_.out_c, false, output_);
  MakeUnits(p_.out_h * p_.out_w, p_.out_c, true, grouped_);

  const Window& w = forward_;
  for (int64_t r = 0; r < w.band_rows; ++r) row_offsets_.push_back(r * p_.stride_h * w.columns * w.c);

  const int64_t filter = p_.filter_h * p_.filter_w * p_.in_c * p_.out_c;
  parts_ = std::min({p_.batch * w.bands, kMaxParts, std::max<int64_t>(kMaxPartialElements / filter, 1)});
  panels_ = parts_ >= kMaxParts / 2 ? 1 : CeilDiv(p_.out_c, kPanel);
  panel_size_ = panels_ == 1 ? p_.out_c : kPanel;
}

void DirectConv::MakeBackward() {
  const auto first_q = [](const ConvAxis& axis) { return axis.pad / axis.stride; };
  const auto count_q = [&](const ConvAxis& axis) {
    return (axis.pad + axis.in - 1) / axis.stride - first_q(axis) + 1;
  };
  const int64_t q_rows = count_q(rows_), q_columns = count_q(columns_);
  Window& w = backward_;
  w.h = p_.out_h, w.w = p_.out_w, w.c = p_.out_c;
  w.columns = q_columns + columns_.max_shift();
  w.band_rows = BandRows(q_rows, q_columns, w.columns * w.c, rows_.max_shift());
  w.bands = CeilDiv(q_rows, w.band_rows);
  w.top = first_q(rows_) - rows_.max_shift(), w.left = first_q(columns_) - columns_.max_shift();
  w.step = w.band_rows;
  w.rows = w.band_rows + rows_.max_shift();
  MakeUnits(q_rows * q_columns, p_.in_c, false, w);

  const std::vector<AxisPhase> row_phases = PhasesOf(rows_), column_phases = PhasesOf(columns_);
  all_phases_ = static_cast<int64_t>(row_phases.size()) == p_.stride_h &&
                static_cast<int64_t>(column_phases.size()) == p_.stride_w;
  for (const AxisPhase& row : row_phases) {
    for (const AxisPhase& column : column_phases) {
      Phase phase;
      phase.top = first_q(rows_) * p_.stride_h + row.phase - p_.pad_top;
      phase.left = first_q(columns_) * p_.stride_w + column.phase - p_.pad_left;
      phase.rows = InsideRange(phase.top, p_.stride_h, p_.in_h, q_rows);
      phase.columns = InsideRange(phase.left, p_.stride_w, p_.in_w, q_columns);
      MakeRuns(row, column, phase);
      phases_.push_back(std::move(phase));
    }
  }
}

// Later taps read earlier pixels, so taps in descending order are contiguous pixels if their shifts are
// consecutive.
void DirectConv::MakeRuns(const AxisPhase& row, const AxisPhase& column, Phase& phase) const {
  const std::vector<int64_t> kws(column.taps.rbegin(), column.taps.rend());
  bool merged = true;
  for (size_t i = 1; i < kws.size(); ++i) {
    merged = merged && columns_.shift(kws[i - 1]) - columns_.shift(kws[i]) == 1;
  }
  phase.runs.length = p_.out_c * (merged ? static_cast<int64_t>(kws.size()) : 1);
  for (int64_t kh : row.taps) {
    for (size_t i = 0; i < kws.size(); ++i) {
      phase.taps.push_back(kh * p_.filter_w + kws[i]);
      if (merged && i > 0) continue;
      phase.runs.offsets.push_back(((rows_.max_shift() - rows_.shift(kh)) * backward_.columns +
                                    columns_.max_shift() - columns_.shift(kws[i])) *
                                   p_.out_c);
    }
  }
}

// Copies the band to `padded`, with zeros around it.
template <typename T>
void DirectConv::Fill(const Window& w, const T* image, int64_t band, T* padded) {
  const int64_t top = w.top + band * w.step;
  const IndexRange ys = InsideRange(top, 1, w.h, w.rows);
  const IndexRange xs = InsideRange(w.left, 1, w.w, w.columns);
  const int64_t row = w.columns * w.c;
  for (int64_t y = 0; y < w.rows; ++y, padded += row) {
    if (y < ys.begin || y >= ys.end || xs.size() <= 0) {
      Clear(padded, row);
      continue;
    }
    Clear(padded, xs.begin * w.c);
    std::memcpy(padded + xs.begin * w.c, image + ((top + y) * w.w + w.left + xs.begin) * w.c,
                static_cast<size_t>(xs.size() * w.c) * sizeof(T));
    Clear(padded + xs.end * w.c, (w.columns - xs.end) * w.c);
  }
}

template <typename T>
void DirectConv::FillUnit(const Window& w, const T* images, const Unit& unit, T* padded) {
  for (int64_t i = 0; i < unit.images; ++i) {
    Fill(w, images + (unit.image + i) * w.h * w.w * w.c, unit.band, padded + i * w.size());
  }
}

template <typename T>
bool DirectConv::Forward(const T* input, const T* filter, T* output, Parallel& parallel,
                         const ConvEpilogue<T>& epilogue, const T* packed) const {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  const Window& w = packed != nullptr ? output_ : grouped_;
  const int64_t segments = static_cast<int64_t>(output_runs_.offsets.size());
  const std::vector<int64_t> columns = ColumnBounds<T>(w.by_panels, p_.out_c);
  const int64_t units = Units(w, columns), blocks = static_cast<int64_t>(columns.size()) - 1;
  const double work = static_cast<double>(output_runs_.length * segments) *
                      static_cast<double>(CeilDiv(p_.out_c, blocks) * w.images * w.band_rows * p_.out_w);
  std::atomic<bool> ok{true};
  parallel.For(units, CostNs(work), [&](int64_t begin, int64_t end) {
    const Scratch copy = Scratch::Of<T>(padded_ ? w.images * w.size() : 0);
    const Scratch scratch =
        Scratch::Of<T>(packed != nullptr ? 0 : kernels.gemm_scratch(output_runs_.length, segments));
    if (!copy.ok() || !scratch.ok()) {
      ok = false;
      return;
    }
    int64_t copied = -1;
    for (int64_t index = begin; index < end; ++index) {
      const Unit unit = UnitAt(w, columns, index);
      const int64_t first = unit.band * w.band_rows, column = unit.column;
      if (padded_ && copied != index / blocks) FillUnit(w, input, unit, copy.data<T>());
      copied = index / blocks;
      const int64_t rows = std::min(w.band_rows, p_.out_h - first),
                    out_image = p_.out_h * p_.out_w * p_.out_c;
      const int64_t at = unit.image * out_image + first * p_.out_w * p_.out_c + column;
      const T* const from = input + (unit.image * w.h + unit.band * w.step) * w.w * w.c;
      const auto of = [&](const T* values) { return values == nullptr ? nullptr : values + column; };
      const int64_t next = index + 1;  // probably of this thread, too
      const bool follows = packed != nullptr && next < units;
      kernels.gemm(GemmBlock<T>{.m = p_.out_w,
                                .n = unit.columns,
                                .k = output_runs_.length,
                                .a = padded_ ? copy.data<T>() : from,
                                .a_row = p_.stride_w * w.c,
                                .a_col = 1,
                                .b = filter + column,
                                .b_row = p_.out_c,
                                .b_col = 1,
                                .c = output + at,
                                .ldc = p_.out_c,
                                .accumulate = false,
                                .scale = of(epilogue.scale),
                                .bias = of(epilogue.bias),
                                .residual = epilogue.residual == nullptr ? nullptr : epilogue.residual + at,
                                .rectify = epilogue.rectify,
                                .segments = segments,
                                .segment_offsets = output_runs_.offsets.data(),
                                .repeats = rows,
                                .a_repeat = p_.stride_h * w.columns * w.c,
                                .c_repeat = p_.out_w * p_.out_c,
                                .groups = unit.images,
                                .a_group = padded_ ? w.size() : w.h * w.w * w.c,
                                .c_group = out_image,
                                .scratch = scratch.data<T>(),
                                .packed = packed,
                                .packed_n = RoundUp(p_.out_c, kernels.lanes),
                                .packed_column = column,
                                .then_packed = follows ? packed : nullptr,
                                .then_column = columns[static_cast<size_t>(next % blocks)]});
      if (epilogue.rows == nullptr) continue;
      for (int64_t image = 0; image < unit.images; ++image) {
        for (int64_t pixel = 0; pixel < rows * p_.out_w; ++pixel) {
          T* const results = output + at + image * out_image + pixel * p_.out_c;
          epilogue.rows(results, results, unit.columns);
        }
      }
    }
  });
  return ok;
}

template <typename T>
void DirectConv::BackpropInputBand(const Unit& unit, const T* padded, const T* weights, T* in_grad) const {
  const Window& w = backward_;
  const int64_t packed_n = RoundUp(p_.in_c, ActiveKernels<T>().lanes);
  const int64_t first = unit.band * w.band_rows, image_size = p_.in_h * p_.in_w * p_.in_c;
  for (const Phase& phase : phases_) {
    const int64_t begin = std::max(phase.rows.begin, first);
    const int64_t end = std::min(phase.rows.end, first + w.band_rows);
    const int64_t x = phase.columns.begin;
    if (begin < end && phase.columns.size() > 0) {
      const int64_t ih = phase.top + begin * p_.stride_h, iw = phase.left + x * p_.stride_w;
      ActiveKernels<T>().gemm(
          GemmBlock<T>{.m = phase.columns.size(),
                       .n = unit.columns,
                       .k = phase.runs.length,
                       .a = padded + ((begin - first) * w.columns + x) * w.c,
                       .a_row = w.c,
                       .a_col = 1,
                       .b = nullptr,
                       .b_row = p_.in_c,
                       .b_col = 1,
                       .c = in_grad + unit.image * image_size + (ih * p_.in_w + iw) * p_.in_c + unit.column,
                       .ldc = p_.stride_w * p_.in_c,
                       .accumulate = false,
                       .segments = static_cast<int64_t>(phase.runs.offsets.size()),
                       .segment_offsets = phase.runs.offsets.data(),
                       .repeats = end - begin,
                       .a_repeat = w.columns * w.c,
                       .c_repeat = p_.stride_h * p_.in_w * p_.in_c,
                       .groups = unit.images,
                       .a_group = w.size(),
                       .c_group = image_size,
                       .packed = weights,
                       .packed_n = packed_n,
                       .packed_column = unit.column});
    }
    weights += static_cast<int64_t>(phase.taps.size()) * p_.out_c * packed_n;
  }
}

template <typename T>
bool DirectConv::BackpropInput(const T* filter, const T* out_grad, T* in_grad, Parallel& parallel) const {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  // For every phase the filter of its taps, [taps, out_c, in_c], as the products read it.
  const int64_t packed_tap = p_.out_c * RoundUp(p_.in_c, kernels.lanes);
  const Scratch weights = Scratch::Of<T>(p_.filter_h * p_.filter_w * packed_tap);
  if (!weights.ok()) return false;
  T* to = weights.data<T>();
  for (const Phase& phase : phases_) {
    const auto taps = static_cast<int64_t>(phase.taps.size());
    parallel.For(taps, p_.in_c * p_.out_c, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        kernels.pack_rows(filter + phase.taps[i] * p_.in_c * p_.out_c, 1, p_.out_c, phase.runs.length,
                          static_cast<int64_t>(phase.runs.offsets.size()), p_.in_c, i * p_.out_c, p_.out_c,
                          to);
      }
    });
    to += taps * packed_tap;
  }
  const Window& w = backward_;
  const int64_t image_size = p_.in_h * p_.in_w * p_.in_c;
  if (!all_phases_) {
    parallel.For(p_.batch, image_size / 8 + 1, [&](int64_t begin, int64_t end) {
      Clear(in_grad + begin * image_size, (end - begin) * image_size);
    });
  }
  const std::vector<int64_t> columns = ColumnBounds<T>(w.by_panels, p_.in_c);
  const int64_t blocks = static_cast<int64_t>(columns.size()) - 1;
  const double work = static_cast<double>(p_.filter_h * p_.filter_w * CeilDiv(p_.in_c, blocks)) *
                      static_cast<double>(p_.out_c * w.images * w.band_rows * w.columns);
  std::atomic<bool> ok{true};
  parallel.For(Units(w, columns), CostNs(work), [&](int64_t begin, int64_t end) {
    const Scratch padded = Scratch::Of<T>(w.images * w.size());
    if (!padded.ok()) {
      ok = false;
      return;
    }
    int64_t copied = -1;
    for (int64_t index = begin; index < end; ++index) {
      const Unit unit = UnitAt(w, columns, index);
      if (copied != index / blocks) FillUnit(w, out_grad, unit, padded.data<T>());
      copied = index / blocks;
      BackpropInputBand(unit, padded.data<T>(), weights.data<T>(), in_grad);
    }
  });
  return ok;
}

// The products of one part of the bands with one panel of output channels.
template <typename T>
void DirectConv::BackpropFilterPart(int64_t part, int64_t panel, const T* input, const T* out_grad, T* padded,
                                    T* scratch, T* partial) const {
  const Window& w = forward_;
  const int64_t bands = p_.batch * w.bands;
  const int64_t first_channel = panel * panel_size_;
  const int64_t run = forward_runs_.length;
  const int64_t begin = part * bands / parts_, end = (part + 1) * bands / parts_;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t image = unit / w.bands, band = unit % w.bands;
    const int64_t first = band * w.band_rows;
    Fill(w, input + image * w.h * w.w * w.c, band, padded);
    for (size_t i = 0; i < forward_runs_.offsets.size(); ++i) {
      ActiveKernels<T>().gemm(
          GemmBlock<T>{.m = run,
                       .n = std::min(panel_size_, p_.out_c - first_channel),
                       .k = p_.out_w,
                       .a = padded + forward_runs_.offsets[i],
                       .a_row = 1,
                       .a_col = p_.stride_w * w.c,
                       .b = out_grad + (image * p_.out_h + first) * p_.out_w * p_.out_c + first_channel,
                       .b_row = p_.out_c,
                       .b_col = 1,
                       .c = partial + static_cast<int64_t>(i) * run * p_.out_c + first_channel,
                       .ldc = p_.out_c,
                       .accumulate = unit != begin,
                       .segments = std::min(w.band_rows, p_.out_h - first),
                       .segment_offsets = row_offsets_.data(),
                       .scratch = scratch});
    }
  }
}

template <typename T>
bool DirectConv::BackpropFilter(const T* input, const T* out_grad, T* filter_grad, Parallel& parallel) const {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  const Window& w = forward_;
  const int64_t filter = p_.filter_h * p_.filter_w * p_.in_c * p_.out_c;
  const Scratch partials = Scratch::Of<T>(parts_ == 1 ? 0 : parts_ * filter);
  if (!partials.ok()) return false;
  T* const sums = parts_ == 1 ? filter_grad : partials.data<T>();
  std::atomic<bool> ok{true};
  const double bands = static_cast<double>(p_.batch * w.bands) / static_cast<double>(parts_);
  const double work = static_cast<double>(filter) / static_cast<double>(panels_) *
                      static_cast<double>(w.band_rows * p_.out_w) * bands;
  parallel.For(parts_ * panels_, CostNs(work), [&](int64_t begin, int64_t end) {
    const Scratch padded = Scratch::Of<T>(w.size());
    const Scratch scratch = Scratch::Of<T>(kernels.gemm_scratch(p_.out_w, w.band_rows));
    if (!padded.ok() || !scratch.ok()) {
      ok = false;
      return;
    }
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t part = unit / panels_;
      BackpropFilterPart(part, unit % panels_, input, out_grad, padded.data<T>(), scratch.data<T>(),
                         sums + part * filter);
    }
  });
  if (!ok) return false;
  if (parts_ == 1) return true;
  constexpr int64_t kChunk = 4096;
  parallel.For(CeilDiv(filter, kChunk), kChunk * parts_ / 8, [&](int64_t begin, int64_t end) {
    const int64_t from = begin * kChunk, to = std::min(end * kChunk, filter);
    kernels.add_rows(sums + from, parts_, filter, to - from, filter_grad + from);
  });
  return true;
}

#define MR_INSTANTIATE(T)                                                                                \
  template bool DirectConv::Forward(const T*, const T*, T*, Parallel&, const ConvEpilogue<T>&, const T*) \
      const;                                                                                             \
  template bool DirectConv::BackpropInput(const T*, const T*, T*, Parallel&) const;                      \
  template bool DirectConv::BackpropFilter(const T*, const T*, T*, Parallel&) const;
MR_INSTANTIATE(float)
MR_INSTANTIATE(double)
#undef MR_INSTANTIATE

}  // namespace millrace::cpu
