// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The gradient for an image of few channels by a filter whose sides are multiples of the strides. Then all
// pixels of a square of stride x stride read the same gradients: their channels are the columns of one
// product, which together fill vectors. NHWC.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/conv_geometry.h"

namespace millrace::cpu {

class PhaseInputGrad {
 public:
  // Whether the shape allows it, and gains with vectors of `lanes` elements. The layout doesn't count.
  // REQUIRES: no size is 0, and IsModest.
  static bool Suits(const ConvParams& params, int64_t lanes);
  explicit PhaseInputGrad(const ConvParams& params);

  // As ConvPlan::BackpropInput, of images in NHWC. False: no memory.
  template <typename T>
  bool Run(const T* filter, const T* out_grad, T* in_grad, Parallel& parallel) const;

 private:
  // Squares along one axis: their number, the pixel at which the first begins, and the gradients that each
  // reads, of which the first square's begin at `first`.
  struct Axis {
    explicit Axis(const ConvAxis& axis);
    int64_t squares, start;
    int64_t taps, first;
    int64_t grads() const { return squares + taps - 1; }
  };

  int64_t columns() const { return p_.stride_h * p_.stride_w * p_.in_c; }
  int64_t depth() const { return rows_.taps * columns_.taps * p_.out_c; }
  // Elements of an image: gradients with zeros around them, and results.
  int64_t padded() const { return rows_.grads() * columns_.grads() * p_.out_c; }
  int64_t results() const { return rows_.squares * columns_.squares * columns(); }

  // The filter as [depth, columns].
  template <typename T>
  void Order(const T* filter, T* ordered) const;
  template <typename T>
  void Fill(const T* out_grad, T* padded) const;
  // Puts the results of the squares where their pixels lie.
  template <typename T>
  void Place(const T* results, T* in_grad) const;

  ConvParams p_;
  Axis rows_, columns_;
  int64_t images_;  // that are computed at a time
};

}  // namespace millrace::cpu
