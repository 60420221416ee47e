// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Convolution for enough channels to fill vectors, NHWC. Bands of rows are copied with their padding, and a
// row of the filter is then one run of a product whose rows are pixels: no patch matrix is ever written.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/contract/conv_geometry.h"

namespace millrace::cpu {

// Tables for one shape; immutable. REQUIRES: no size is 0, layout is kNhwc.
class DirectConv {
 public:
  explicit DirectConv(const ConvParams& params);

  // As in ConvPlan. False: memory is short.
  template <typename T>
  bool Forward(const T* input, const T* filter, T* output, Parallel& parallel,
               const ConvEpilogue<T>& epilogue, const T* packed) const;
  PackedShape packing() const {
    return {output_runs_.length, static_cast<int64_t>(output_runs_.offsets.size()), p_.out_c};
  }
  // The number of results that are computed each time the filter is read.
  int64_t pixels_at_a_time() const { return output_.band_rows * p_.out_w; }
  template <typename T>
  bool BackpropInput(const T* filter, const T* out_grad, T* in_grad, Parallel& parallel) const;
  template <typename T>
  bool BackpropFilter(const T* input, const T* out_grad, T* filter_grad, Parallel& parallel) const;

 private:
  // A padded copy of some rows of an image: `rows` x `columns` pixels, of which those outside the image are
  // zero. Row 0 of band b, column 0 is pixel (top + b * step, left) of the image.
  struct Window {
    int64_t h, w, c;    // of the image
    int64_t band_rows;  // rows of results per band
    int64_t bands;      // per image
    int64_t top, left;  // of the first band
    int64_t step;       // rows of the image from one band to the next
    int64_t rows, columns;
    int64_t images = 1;      // that a unit of work takes; more than one where a band is all of an image
    bool by_panels = false;  // panels of the results' channels are units of their own
    int64_t size() const { return rows * columns * c; }
  };
  // What a thread does at a time: a band of each of some images, for some channels of the results.
  struct Unit {
    int64_t image, images, band;
    int64_t column, columns;
  };
  // Runs of contiguous elements of a window that are multiplied with consecutive rows of weights.
  struct Runs {
    int64_t length;
    std::vector<int64_t> offsets;
  };
  // The gradient for the pixels of one phase of the stride.
  struct Phase {
    IndexRange rows, columns;   // of q, relative to the first
    int64_t top, left;          // pixel of q row 0, column 0; may lie outside
    std::vector<int64_t> taps;  // kh * filter_w + kw, in the order of the weights
    Runs runs;
  };

  // The number of rows of a band, given row_elements and `pixels` results per row; bands share some rows.
  // With `finer`, bands are smaller if there are few images, to use all threads; without it, bands are larger
  // if the filter exceeds the caches, since each band reads it again.
  int64_t BandRows(int64_t rows, int64_t pixels, int64_t row_elements, int64_t shared_rows,
                   bool finer = true) const;
  // `packs`: the filter is packed for each band, of whose rows, where they aren't copied, only those that are
  // read count.
  void MakeWindow(bool finer, bool packs, Window& w, Runs& runs) const;
  // Images of `pixels` results with `channels` each.
  void MakeUnits(int64_t pixels, int64_t channels, bool grouped, Window& w) const;
  int64_t Units(const Window& w, const std::vector<int64_t>& column_bounds) const {
    return CeilDiv(p_.batch, w.images) * w.bands * (static_cast<int64_t>(column_bounds.size()) - 1);
  }
  Unit UnitAt(const Window& w, const std::vector<int64_t>& column_bounds, int64_t index) const;
  void MakeForward();
  void MakeBackward();
  void MakeRuns(const AxisPhase& row, const AxisPhase& column, Phase& phase) const;

  template <typename T>
  static void Fill(const Window& window, const T* image, int64_t band, T* padded);
  // The images of a unit, one behind the other.
  template <typename T>
  static void FillUnit(const Window& window, const T* images, const Unit& unit, T* padded);
  template <typename T>
  void BackpropInputBand(const Unit& unit, const T* padded, const T* weights, T* in_grad) const;
  template <typename T>
  void BackpropFilterPart(int64_t part, int64_t panel, const T* input, const T* out_grad, T* padded,
                          T* scratch, T* partial) const;

  ConvParams p_;
  ConvAxis rows_, columns_;
  Window output_, grouped_;    // for the output, with a packed filter and with another
  Window forward_, backward_;  // for the filter's gradient, for the input's
  Runs output_runs_, forward_runs_;
  bool padded_ = true;                // windows of the output reach outside the image: bands must be copied
  std::vector<int64_t> row_offsets_;  // offsets in a forward band at which output rows begin
  std::vector<Phase> phases_;
  bool all_phases_ = true;
  int64_t parts_, panels_,
      panel_size_;  // units of the filter's gradient: parts of the bands x panels of out_c
};

}  // namespace millrace::cpu
