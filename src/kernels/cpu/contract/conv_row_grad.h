// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The gradient for a filter whose rows, filter_w pixels of all channels, fill vectors better than its
// outputs: vectors run along a row of the filter, which is contiguous in a padded copy of the image, and
// gradients are broadcast. NHWC.
//
// Where all of the filter fills vectors better than its rows do, they run along all of it. The image is then
// copied as strips, one for each column of the results: filter_w pixels of each row, one row below the other,
// so that what a result reads is contiguous.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/conv.h"

namespace millrace::cpu {

class RowFilterGrad {
 public:
  // Whether the shape allows it, and gains with vectors of `lanes` elements. The layout doesn't count.
  // REQUIRES: no size is 0, and IsModest.
  static bool Suits(const ConvParams& params, int64_t lanes);
  // `strips`: vectors run along all of the filter. Otherwise SuitsRows must hold.
  RowFilterGrad(const ConvParams& params, bool strips);
  // Whether vectors along rows of the filter gain; `Suits` may still be false.
  static bool SuitsRows(const ConvParams& params, int64_t lanes);

  // As ConvPlan::BackpropFilter, of images in NHWC. False: no memory.
  template <typename T>
  bool Run(const T* input, const T* out_grad, T* filter_grad, Parallel& parallel) const;

 private:
  static bool SuitsStrips(const ConvParams& params, int64_t lanes);
  // Copies images into padded ones, whose padding is zero already.
  template <typename T>
  void Fill(const T* input, int64_t image, int64_t images, T* padded) const;
  template <typename T>
  void FillStrips(const T* input, T* strips) const;
  // The sums of a part of the images: for each row of the filter [out_c, row_], or [out_c, all of it].
  template <typename T>
  void RunPart(int64_t part, const T* input, const T* out_grad, T* padded, T* sums) const;

  ConvParams p_;
  int64_t row_;             // elements of a row of the filter
  bool strips_;             // vectors run along all of it
  int64_t vector_row_;      // the elements that they run along
  int64_t height_, pitch_;  // rows of a padded image, elements of such a row, or strips and elements of one
  int64_t parts_, group_;   // of the images: units whose sums are added; images that are copied at a time
  int64_t image() const { return height_ * pitch_; }
};

}  // namespace millrace::cpu
