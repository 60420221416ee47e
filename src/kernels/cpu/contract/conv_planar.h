// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Convolution for few channels. Each image, or a band of its rows, is copied to padded planes, one for
// every channel and every phase of the stride. A tap of the filter is a fixed offset in the planes, so that
// the output is a sum of shifted signals, and vectors run along pixels however few the channels are. The
// results in the columns of padding between rows are not used.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/contract/conv_geometry.h"

namespace millrace::cpu {

// Tables for one shape; immutable. REQUIRES: no size is 0.
class PlanarConv {
 public:
  explicit PlanarConv(const ConvParams& params);

  // The number of elements, per thread, in which the filter's gradient is summed.
  int64_t sums_elements() const { return static_cast<int64_t>(tap_offsets_.size()) * p_.out_c * kMaxLanes; }

  // As in ConvPlan. False: memory is short; the output is then undefined.
  template <typename T>
  bool Forward(const T* input, const T* filter, T* output, Parallel& parallel,
               const ConvEpilogue<T>& epilogue) const;
  template <typename T>
  bool BackpropInput(const T* filter, const T* out_grad, T* in_grad, Parallel& parallel) const;
  template <typename T>
  bool BackpropFilter(const T* input, const T* out_grad, T* filter_grad, Parallel& parallel) const;

 private:
  static constexpr int64_t kMaxLanes = 16;  // of any vector; buffers end with this number of spare elements

  // Bands of rows and the planes of one band.
  struct Bands {
    int64_t rows;   // of a band; the last may have fewer
    int64_t count;  // per image
    int64_t pitch;  // elements between rows of a plane
    int64_t plane;  // elements of a plane
    int64_t planes;
    int64_t signal() const { return plane * planes; }
  };

  static Bands BandsOf(int64_t rows, int64_t columns, int64_t extra_rows, int64_t extra_columns,
                       int64_t planes, int64_t outputs);
  void MakeInputTables();
  void MakeGradTables();

  // Element of band-relative planes for tap (kh, kw) and channel c.
  int64_t SignalOffset(int64_t kh, int64_t kw, int64_t c) const;

  template <typename T>
  void FillSignal(const T* input, int64_t image, int64_t first_row, T* signal) const;
  template <typename T>
  void FillGrad(const T* out_grad, int64_t image, int64_t first_row, T* signal) const;
  template <typename T>
  void ForwardBand(int64_t unit, const T* input, const T* filter, T* output, const ConvEpilogue<T>& epilogue,
                   T* signal, T* planes) const;
  template <typename T>
  void BackpropInputBand(int64_t unit, const T* weights, const T* out_grad, T* in_grad, T* signal,
                         T* planes) const;
  template <typename T>
  void BackpropFilterPart(int64_t part, const T* input, const T* out_grad, T* sums, T* scratch,
                          T* partial) const;

  ConvParams p_;
  ConvAxis rows_, columns_;
  ImageStrides in_, out_;
  std::vector<AxisPhase> row_phases_, column_phases_;
  std::vector<int64_t> row_phase_of_, column_phase_of_;  // index of a tap's phase

  Bands forward_;
  std::vector<int64_t> tap_offsets_;  // in the filter's order

  // The gradient for the input: rows and columns count q (see ConvAxis).
  Bands backward_;
  int64_t first_q_row_, first_q_column_, q_rows_, q_columns_;
  struct PhaseTaps {
    int64_t row_phase, column_phase;
    std::vector<int64_t> filter_taps;  // kh * filter_w + kw
    std::vector<int64_t> offsets;      // for each of them, out_c
  };
  std::vector<PhaseTaps> phase_taps_;

  // The gradient for the filter: taps ordered so that neighbours read the same lines of cache.
  std::vector<int64_t> ordered_taps_;  // (kh * filter_w + kw) * in_c + c
  std::vector<int64_t> ordered_offsets_;
  int64_t parts_, group_;
};

}  // namespace millrace::cpu
