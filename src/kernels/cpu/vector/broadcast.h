// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Binary functions over two arrays whose shapes are broadcast against each other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cpu/contract/parallel.h"
#include "kernels/cpu/vector/binary.h"

namespace millrace::cpu {

// How two shapes meet. Immutable once made; safe to share between threads. Dims that can be walked together
// are merged, so equal shapes become one row and [100,10]+[10] becomes 100 rows of 10.
class Broadcast {
 public:
  // Nothing where the shapes don't broadcast. REQUIRES: dims >= 0 and the product of the result's dims
  // fits int64_t (false ones give nothing as well).
  static std::optional<Broadcast> Make(std::span<const int64_t> a, std::span<const int64_t> b);

  const std::vector<int64_t>& output_shape() const { return output_shape_; }
  int64_t output_size() const { return output_size_; }

  // Result as BinaryFn's, of all elements. Sizes are bytes per element. out may equal a (or b) exactly only
  // where that argument has the shape of the result and the sizes are equal.
  bool Run(const BinaryFns& fns, const void* a, const void* b, int64_t in_size, void* out, int64_t out_size,
           double cost_ns, Parallel& parallel) const;

 private:
  struct Dim {
    int64_t size = 1;
    int64_t a_stride = 0;  // in elements; 0 where a is repeated
    int64_t b_stride = 0;
  };

  bool RunRows(const BinaryFns& fns, const char* a, const char* b, int64_t in_size, char* out,
               int64_t out_size, int64_t begin, int64_t end) const;
  bool RunFlat(const BinaryFns& fns, const char* a, const char* b, int64_t in_size, char* out,
               int64_t out_size, double cost_ns, Parallel& parallel) const;

  std::vector<int64_t> output_shape_;
  int64_t output_size_ = 1;
  std::vector<Dim> outer_;  // outermost first
  Dim inner_;               // the row; a stride is 0 or 1
};

}  // namespace millrace::cpu
