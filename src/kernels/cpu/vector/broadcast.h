// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Binary functions over two arrays whose shapes are broadcast against each other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/small_vector.h"
#include "kernels/cpu/contract/parallel.h"
#include "kernels/cpu/vector/binary.h"

namespace millrace::cpu {

// The broadcast of two shapes. Immutable once made; safe to share between threads. Dims that can be traversed
// together are merged, so equal shapes become one row and [100,10]+[10] becomes 100 rows of 10.
class Broadcast {
 public:
  // nullopt if the shapes are incompatible. REQUIRES: dims >= 0 and the product of the result's dims fits
  // int64_t (if not, nullopt is returned as well).
  static std::optional<Broadcast> Make(std::span<const int64_t> a, std::span<const int64_t> b);

  std::span<const int64_t> output_shape() const { return output_shape_; }
  int64_t output_size() const { return output_size_; }

  // REQUIRES: the three forms of fns, or equal shapes. Result as BinaryFn's, of all elements. Sizes are bytes
  // per element. out may equal a (or b) exactly only where that argument has the shape of the result and the
  // sizes are equal.
  bool Run(const BinaryFns& fns, const void* a, const void* b, int64_t in_size, void* out, int64_t out_size,
           double cost_ns, Parallel& parallel) const;

 private:
  struct Dim {
    int64_t size;
    int64_t a_stride;  // in elements; 0 where a is repeated
    int64_t b_stride;
  };

  // Rows [begin, end) of the result.
  bool RunRows(const BinaryFns& fns, const char* a, const char* b, int64_t in_size, char* out,
               int64_t out_size, int64_t begin, int64_t end) const;
  // If one argument is a short row that is combined with all rows of the other.
  bool RunShortRows(const BinaryFns& fns, const char* a, const char* b, int64_t in_size, char* out,
                    int64_t out_size, int64_t begin, int64_t end) const;

  SmallVector<int64_t, 6> output_shape_;
  int64_t output_size_ = 1;
  SmallVector<Dim, 4> outer_;                           // innermost first
  Dim inner_{.size = 1, .a_stride = 0, .b_stride = 0};  // the row; a stride is 0 or 1
};

}  // namespace millrace::cpu
