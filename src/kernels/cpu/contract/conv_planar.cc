// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/conv_planar.h"

#include <atomic>
#include <cstring>

#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/contract/simd_table.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kBandElements = 24 << 10;   // of planes, so that a band stays in the second-level cache
constexpr int64_t kGroupElements = 24 << 10;  // of a group of small images
constexpr int64_t kMaxParts = 16;             // partial sums of the filter's gradient
constexpr int64_t kMaxPartialElements = 4 << 20;

// Copies `pixels` pixels of `channels` channels each to one run per channel.
template <typename T>
void Spread(const T* src, int64_t pixel, int64_t channel, int64_t pixels, int64_t channels, T* dst,
            int64_t dst_plane) {
  if (pixels <= 0) return;
  if (channel == 1 && channels > 1) {
    ActiveKernels<T>().transpose(src, pixel, pixels, channels, dst, dst_plane);
    return;
  }
  for (int64_t c = 0; c < channels; ++c, src += channel, dst += dst_plane) {
    if (pixel == 1) {
      std::memcpy(dst, src, static_cast<size_t>(pixels) * sizeof(T));
    } else {
      for (int64_t i = 0; i < pixels; ++i) dst[i] = src[i * pixel];
    }
  }
}

// The inverse of Spread.
template <typename T>
void Gather(const T* src, int64_t src_plane, int64_t pixels, int64_t channels, T* dst, int64_t pixel,
            int64_t channel) {
  if (pixels <= 0) return;
  if (channel == 1 && channels > 1) {
    ActiveKernels<T>().transpose(src, src_plane, channels, pixels, dst, pixel);
    return;
  }
  for (int64_t c = 0; c < channels; ++c, src += src_plane, dst += channel) {
    if (pixel == 1) {
      std::memcpy(dst, src, static_cast<size_t>(pixels) * sizeof(T));
    } else {
      for (int64_t i = 0; i < pixels; ++i) dst[i * pixel] = src[i];
    }
  }
}

template <typename T>
void Clear(T* data, int64_t count) {
  std::memset(data, 0, static_cast<size_t>(count) * sizeof(T));
}

}  // namespace

PlanarConv::Bands PlanarConv::BandsOf(int64_t rows, int64_t columns, int64_t extra_rows,
                                      int64_t extra_columns, int64_t planes, int64_t outputs) {
  Bands bands;
  bands.pitch = columns + extra_columns;
  bands.planes = planes;
  const double row_elements = static_cast<double>(bands.pitch) * static_cast<double>(planes + outputs);
  const double fit = static_cast<double>(kBandElements) / row_elements - static_cast<double>(extra_rows);
  // The height of a band is at least the number of rows that it shares with its neighbours.
  const int64_t wanted = std::max<int64_t>({static_cast<int64_t>(fit), 2 * extra_rows, 1});
  bands.count = CeilDiv(rows, std::min(wanted, rows));
  bands.rows = CeilDiv(rows, bands.count);
  bands.count = CeilDiv(rows, bands.rows);
  bands.plane = (bands.rows + extra_rows) * bands.pitch;
  return bands;
}

PlanarConv::PlanarConv(const ConvParams& params)
    : p_(params),
      rows_(RowAxis(params)),
      columns_(ColumnAxis(params)),
      in_(InputStrides(params)),
      out_(OutputStrides(params)) {
  row_phases_ = PhasesOf(rows_);
  column_phases_ = PhasesOf(columns_);
  MakeInputTables();
  MakeGradTables();
}

int64_t PlanarConv::SignalOffset(int64_t kh, int64_t kw, int64_t c) const {
  const int64_t phases =
      row_phase_of_[kh] * static_cast<int64_t>(column_phases_.size()) + column_phase_of_[kw];
  return (phases * p_.in_c + c) * forward_.plane + rows_.shift(kh) * forward_.pitch + columns_.shift(kw);
}

void PlanarConv::MakeInputTables() {
  const auto index = [](const std::vector<AxisPhase>& phases, int64_t taps) {
    std::vector<int64_t> of(static_cast<size_t>(taps));
    for (size_t i = 0; i < phases.size(); ++i) {
      for (int64_t k : phases[i].taps) of[k] = static_cast<int64_t>(i);
    }
    return of;
  };
  row_phase_of_ = index(row_phases_, p_.filter_h);
  column_phase_of_ = index(column_phases_, p_.filter_w);
  const int64_t planes = static_cast<int64_t>(row_phases_.size() * column_phases_.size()) * p_.in_c;
  forward_ = BandsOf(p_.out_h, p_.out_w, rows_.max_shift(), columns_.max_shift(), planes, p_.out_c);

  tap_offsets_.reserve(static_cast<size_t>(p_.filter_h * p_.filter_w * p_.in_c));
  for (int64_t kh = 0; kh < p_.filter_h; ++kh) {
    for (int64_t kw = 0; kw < p_.filter_w; ++kw) {
      for (int64_t c = 0; c < p_.in_c; ++c) tap_offsets_.push_back(SignalOffset(kh, kw, c));
    }
  }
  for (int64_t c = 0; c < p_.in_c; ++c) {
    for (const AxisPhase& row : row_phases_) {
      for (int64_t kh : row.taps) {
        for (const AxisPhase& column : column_phases_) {
          for (int64_t kw : column.taps) {
            ordered_taps_.push_back((kh * p_.filter_w + kw) * p_.in_c + c);
            ordered_offsets_.push_back(tap_offsets_[ordered_taps_.back()]);
          }
        }
      }
    }
  }
  const int64_t filter = static_cast<int64_t>(tap_offsets_.size()) * p_.out_c;
  const int64_t bands = p_.batch * forward_.count;
  parts_ = std::min({bands, kMaxParts, std::max<int64_t>(kMaxPartialElements / filter, 1)});
  const int64_t band_elements = forward_.plane * (forward_.planes + p_.out_c);
  group_ = forward_.count > 1 ? 1 : std::max<int64_t>(kGroupElements / band_elements, 1);
}

void PlanarConv::MakeGradTables() {
  const auto q_range = [](const ConvAxis& axis, int64_t* first, int64_t* count) {
    *first = axis.pad / axis.stride;
    *count = (axis.pad + axis.in - 1) / axis.stride - *first + 1;
  };
  q_range(rows_, &first_q_row_, &q_rows_);
  q_range(columns_, &first_q_column_, &q_columns_);
  backward_ = BandsOf(q_rows_, q_columns_, rows_.max_shift(), columns_.max_shift(), p_.out_c, p_.in_c);
  for (const AxisPhase& row : row_phases_) {
    for (const AxisPhase& column : column_phases_) {
      PhaseTaps taps{row.phase, column.phase, {}, {}};
      for (int64_t kh : row.taps) {
        for (int64_t kw : column.taps) {
          taps.filter_taps.push_back(kh * p_.filter_w + kw);
          const int64_t at = (rows_.max_shift() - rows_.shift(kh)) * backward_.pitch + columns_.max_shift() -
                             columns_.shift(kw);
          for (int64_t o = 0; o < p_.out_c; ++o) taps.offsets.push_back(o * backward_.plane + at);
        }
      }
      phase_taps_.push_back(std::move(taps));
    }
  }
}

// Fills the planes of the input rows that output rows from first_row on read.
template <typename T>
void PlanarConv::FillSignal(const T* input, int64_t image, int64_t first_row, T* signal) const {
  Clear(signal, forward_.signal() + kMaxLanes);
  const int64_t plane_rows = forward_.rows + rows_.max_shift();
  for (const AxisPhase& row : row_phases_) {
    const int64_t first = first_row * rows_.stride + row.phase - rows_.pad;
    const IndexRange ys = InsideRange(first, rows_.stride, rows_.in, plane_rows);
    for (const AxisPhase& column : column_phases_) {
      const int64_t start = column.phase - columns_.pad;
      const IndexRange xs = InsideRange(start, columns_.stride, columns_.in, forward_.pitch);
      for (int64_t y = ys.begin; y < ys.end && xs.size() > 0; ++y) {
        const T* const src = input + image * in_.image + (first + y * rows_.stride) * in_.row +
                             (start + xs.begin * columns_.stride) * in_.pixel;
        Spread(src, columns_.stride * in_.pixel, in_.channel, xs.size(), p_.in_c,
               signal + y * forward_.pitch + xs.begin, forward_.plane);
      }
      signal += p_.in_c * forward_.plane;
    }
  }
}

template <typename T>
void PlanarConv::ForwardBand(int64_t unit, const T* input, const T* filter, T* output,
                             const ConvEpilogue<T>& epilogue, T* signal, T* planes) const {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  const int64_t image = unit / forward_.count;
  const int64_t first_row = unit % forward_.count * forward_.rows;
  const int64_t rows = std::min(forward_.rows, p_.out_h - first_row);
  FillSignal(input, image, first_row, signal);
  const int64_t length = RoundUp((rows - 1) * forward_.pitch + p_.out_w, kernels.lanes);
  kernels.signal(SignalBlock<T>{.signal = signal,
                                .offsets = tap_offsets_.data(),
                                .taps = static_cast<int64_t>(tap_offsets_.size()),
                                .weights = filter,
                                .weight_row = p_.out_c,
                                .outs = p_.out_c,
                                .length = length,
                                .out = planes,
                                .out_row = length,
                                .bias = epilogue.bias,
                                .rectify = epilogue.rectify});
  T* const out = output + image * out_.image + first_row * out_.row;
  for (int64_t r = 0; r < rows; ++r) {
    Gather(planes + r * forward_.pitch, length, p_.out_w, p_.out_c, out + r * out_.row, out_.pixel,
           out_.channel);
  }
}

template <typename T>
bool PlanarConv::Forward(const T* input, const T* filter, T* output, Parallel& parallel,
                         const ConvEpilogue<T>& epilogue) const {
  // The output has few channels, so the filter is scaled instead.
  const int64_t taps = static_cast<int64_t>(tap_offsets_.size());
  const Scratch scaled = Scratch::Of<T>(epilogue.scale == nullptr ? 0 : taps * p_.out_c);
  if (!scaled.ok()) return false;
  if (epilogue.scale != nullptr) {
    for (int64_t i = 0; i < taps * p_.out_c; ++i) {
      scaled.data<T>()[i] = filter[i] * epilogue.scale[i % p_.out_c];
    }
    filter = scaled.data<T>();
  }
  std::atomic<bool> ok{true};
  const double work = static_cast<double>(tap_offsets_.size()) *
                      static_cast<double>(p_.out_c * forward_.rows * forward_.pitch);
  parallel.For(p_.batch * forward_.count, CostNs(work), [&](int64_t begin, int64_t end) {
    const Scratch signal = Scratch::Of<T>(forward_.signal() + kMaxLanes);
    const Scratch planes = Scratch::Of<T>(p_.out_c * (forward_.plane + kMaxLanes));
    if (!signal.ok() || !planes.ok()) {
      ok = false;
      return;
    }
    for (int64_t unit = begin; unit < end; ++unit) {
      ForwardBand(unit, input, filter, output, epilogue, signal.data<T>(), planes.data<T>());
    }
  });
  return ok;
}

// Fills the planes of the output rows that read the input rows from q row `first_row` on.
template <typename T>
void PlanarConv::FillGrad(const T* out_grad, int64_t image, int64_t first_row, T* signal) const {
  Clear(signal, backward_.signal() + kMaxLanes);
  const int64_t first = first_q_row_ + first_row - rows_.max_shift();
  const int64_t start = first_q_column_ - columns_.max_shift();
  const IndexRange ys = InsideRange(first, 1, rows_.out, backward_.rows + rows_.max_shift());
  const IndexRange xs = InsideRange(start, 1, columns_.out, backward_.pitch);
  for (int64_t y = ys.begin; y < ys.end; ++y) {
    Spread(out_grad + image * out_.image + (first + y) * out_.row + (start + xs.begin) * out_.pixel,
           out_.pixel, out_.channel, xs.size(), p_.out_c, signal + y * backward_.pitch + xs.begin,
           backward_.plane);
  }
}

template <typename T>
void PlanarConv::BackpropInputBand(int64_t unit, const T* weights, const T* out_grad, T* in_grad, T* signal,
                                   T* planes) const {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  const int64_t image = unit / backward_.count;
  const int64_t first_row = unit % backward_.count * backward_.rows;
  const int64_t rows = std::min(backward_.rows, q_rows_ - first_row);
  FillGrad(out_grad, image, first_row, signal);
  const int64_t length = RoundUp((rows - 1) * backward_.pitch + q_columns_, kernels.lanes);
  for (const PhaseTaps& phase : phase_taps_) {
    const int64_t taps = static_cast<int64_t>(phase.offsets.size());
    kernels.signal(SignalBlock<T>{.signal = signal,
                                  .offsets = phase.offsets.data(),
                                  .taps = taps,
                                  .weights = weights,
                                  .weight_row = p_.in_c,
                                  .outs = p_.in_c,
                                  .length = length,
                                  .out = planes,
                                  .out_row = length,
                                  .bias = nullptr,
                                  .rectify = Rectify::kNone});
    weights += taps * p_.in_c;
    const int64_t top = (first_q_row_ + first_row) * rows_.stride + phase.row_phase - rows_.pad;
    const int64_t left = first_q_column_ * columns_.stride + phase.column_phase - columns_.pad;
    const IndexRange ys = InsideRange(top, rows_.stride, rows_.in, rows);
    const IndexRange xs = InsideRange(left, columns_.stride, columns_.in, q_columns_);
    for (int64_t y = ys.begin; y < ys.end; ++y) {
      T* const dst = in_grad + image * in_.image + (top + y * rows_.stride) * in_.row +
                     (left + xs.begin * columns_.stride) * in_.pixel;
      Gather(planes + y * backward_.pitch + xs.begin, length, xs.size(), p_.in_c, dst,
             columns_.stride * in_.pixel, in_.channel);
    }
  }
}

template <typename T>
bool PlanarConv::BackpropInput(const T* filter, const T* out_grad, T* in_grad, Parallel& parallel) const {
  // For every phase and tap the filter as [out_c, in_c].
  const Scratch weights = Scratch::Of<T>(static_cast<int64_t>(tap_offsets_.size()) * p_.out_c);
  if (!weights.ok()) return false;
  T* to = weights.data<T>();
  for (const PhaseTaps& phase : phase_taps_) {
    for (int64_t tap : phase.filter_taps) {
      ActiveKernels<T>().transpose(filter + tap * p_.in_c * p_.out_c, p_.out_c, p_.in_c, p_.out_c, to,
                                   p_.in_c);
      to += p_.in_c * p_.out_c;
    }
  }
  // Pixels of a phase that no tap reads get zero.
  const bool all_phases = static_cast<int64_t>(row_phases_.size()) == rows_.stride &&
                          static_cast<int64_t>(column_phases_.size()) == columns_.stride;
  if (!all_phases) {
    parallel.For(p_.batch, in_.image / 8 + 1, [&](int64_t begin, int64_t end) {
      Clear(in_grad + begin * in_.image, (end - begin) * in_.image);
    });
  }
  std::atomic<bool> ok{true};
  const double work = static_cast<double>(tap_offsets_.size()) *
                      static_cast<double>(p_.out_c * backward_.rows * backward_.pitch);
  parallel.For(p_.batch * backward_.count, CostNs(work), [&](int64_t begin, int64_t end) {
    const Scratch signal = Scratch::Of<T>(backward_.signal() + kMaxLanes);
    const Scratch planes = Scratch::Of<T>(p_.in_c * (backward_.plane + kMaxLanes));
    if (!signal.ok() || !planes.ok()) {
      ok = false;
      return;
    }
    for (int64_t unit = begin; unit < end; ++unit) {
      BackpropInputBand(unit, weights.data<T>(), out_grad, in_grad, signal.data<T>(), planes.data<T>());
    }
  });
  return ok;
}

// The sums over the bands of one part, for each tap and output channel.
template <typename T>
void PlanarConv::BackpropFilterPart(int64_t part, const T* input, const T* out_grad, T* sums, T* scratch,
                                    T* partial) const {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  const int64_t taps = static_cast<int64_t>(tap_offsets_.size());
  const int64_t lanes = kernels.lanes;
  Clear(sums, taps * p_.out_c * lanes);
  const int64_t length = RoundUp((forward_.rows - 1) * forward_.pitch + p_.out_w, lanes);
  const int64_t signal_image = forward_.signal() + kMaxLanes;
  const int64_t grad_image = p_.out_c * length;
  T* const grads = scratch + group_ * signal_image;
  const int64_t bands = p_.batch * forward_.count;
  const int64_t end = (part + 1) * bands / parts_;
  for (int64_t band = part * bands / parts_; band < end; band += group_) {
    const int64_t images = std::min(group_, end - band);
    Clear(grads, images * grad_image);
    for (int64_t i = 0; i < images; ++i) {
      const int64_t image = (band + i) / forward_.count;
      const int64_t first_row = (band + i) % forward_.count * forward_.rows;
      FillSignal(input, image, first_row, scratch + i * signal_image);
      const int64_t rows = std::min(forward_.rows, p_.out_h - first_row);
      for (int64_t r = 0; r < rows; ++r) {
        Spread(out_grad + image * out_.image + (first_row + r) * out_.row, out_.pixel, out_.channel, p_.out_w,
               p_.out_c, grads + i * grad_image + r * forward_.pitch, length);
      }
    }
    kernels.correlate(CorrelateBlock<T>{.signal = scratch,
                                        .offsets = ordered_offsets_.data(),
                                        .taps = taps,
                                        .grad = grads,
                                        .grad_row = length,
                                        .outs = p_.out_c,
                                        .images = images,
                                        .signal_image = signal_image,
                                        .grad_image = grad_image,
                                        .length = length,
                                        .sums = sums});
  }
  T* const folded = scratch;  // the planes are no longer needed
  kernels.fold_lanes(sums, taps * p_.out_c, folded);
  for (int64_t t = 0; t < taps; ++t) {
    std::copy_n(folded + t * p_.out_c, p_.out_c, partial + ordered_taps_[t] * p_.out_c);
  }
}

template <typename T>
bool PlanarConv::BackpropFilter(const T* input, const T* out_grad, T* filter_grad, Parallel& parallel) const {
  const int64_t taps = static_cast<int64_t>(tap_offsets_.size());
  const int64_t filter = taps * p_.out_c;
  const Scratch partials = Scratch::Of<T>(parts_ * filter);
  if (!partials.ok()) return false;
  std::atomic<bool> ok{true};
  const double bands = static_cast<double>(p_.batch * forward_.count) / static_cast<double>(parts_);
  const double work =
      static_cast<double>(filter) * static_cast<double>(forward_.rows * forward_.pitch) * bands;
  parallel.For(parts_, CostNs(work), [&](int64_t begin, int64_t end) {
    const Scratch sums = Scratch::Of<T>(filter * kMaxLanes);
    const int64_t per_image = forward_.signal() + kMaxLanes + p_.out_c * (forward_.plane + kMaxLanes);
    const Scratch scratch = Scratch::Of<T>(std::max(group_ * per_image, filter));
    if (!sums.ok() || !scratch.ok()) {
      ok = false;
      return;
    }
    for (int64_t part = begin; part < end; ++part) {
      BackpropFilterPart(part, input, out_grad, sums.data<T>(), scratch.data<T>(),
                         partials.data<T>() + part * filter);
    }
  });
  if (!ok) return false;
  constexpr int64_t kChunk = 4096;
  parallel.For(CeilDiv(filter, kChunk), kChunk * parts_ / 8, [&](int64_t begin, int64_t end) {
    const int64_t from = begin * kChunk, to = std::min(end * kChunk, filter);
    ActiveKernels<T>().add_rows(partials.data<T>() + from, parts_, filter, to - from, filter_grad + from);
  });
  return true;
}

#define MR_INSTANTIATE(T)                                                                             \
  template bool PlanarConv::Forward(const T*, const T*, T*, Parallel&, const ConvEpilogue<T>&) const; \
  template bool PlanarConv::BackpropInput(const T*, const T*, T*, Parallel&) const;                   \
  template bool PlanarConv::BackpropFilter(const T*, const T*, T*, Parallel&) const;
MR_INSTANTIATE(float)
MR_INSTANTIATE(double)
#undef MR_INSTANTIATE

}  // namespace millrace::cpu
