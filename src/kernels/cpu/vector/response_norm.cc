// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/response_norm.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/cpu/vector/dispatch.h"
#include "kernels/cpu/vector/response_norm_block.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kRegister = 16;  // floats of the widest one

// Runs fn(first pixel, number of pixels, scratch) on all pixels.
template <typename Fn>
void ForPixels(ResponseNorm* norm, int64_t pixels, double arrays, Parallel& parallel, const Fn& fn) {
  norm->radius = std::min(norm->radius, norm->depth - 1);
  const int64_t block =
      std::clamp<int64_t>(kResponseNormRow / (norm->depth + norm->radius), 1, std::max<int64_t>(pixels, 1));
  const int64_t padded = block * (norm->depth + norm->radius) + 2 * norm->radius + 2 * kRegister;
  const bool root = norm->beta == 0.5f || norm->beta == 0.75f || norm->beta == 1;
  const double steps = 2.0 * std::bit_width(static_cast<uint64_t>(2 * norm->radius + 1));
  const int64_t per_pixel = padded / block;
  const double cost_ns = arrays * static_cast<double>(per_pixel) * ((root ? 0.3 : 8) + 0.03 * steps);
  ForUnits(parallel, pixels, cost_ns, [&](int64_t begin, int64_t end) {
    std::vector<float> room(static_cast<size_t>(3 * padded));
    fn(begin, end - begin, ResponseNormScratch{room.data(), room.data() + padded, room.data() + 2 * padded});
  });
}

}  // namespace

void ResponseNormalize(ResponseNorm norm, const float* x, float* y, int64_t pixels, Parallel& parallel) {
  ForPixels(&norm, pixels, 1, parallel,
            [&](int64_t first, int64_t count, const ResponseNormScratch& scratch) {
              const int64_t at = first * norm.depth;
              ActiveTables().neural.response_norm(norm, x + at, y + at, count, scratch);
            });
}

void ResponseNormalizeGrad(ResponseNorm norm, const ResponseNormGrads& g, int64_t pixels,
                           Parallel& parallel) {
  ForPixels(&norm, pixels, 2, parallel,
            [&](int64_t first, int64_t count, const ResponseNormScratch& scratch) {
              const int64_t at = first * norm.depth;
              ActiveTables().neural.response_norm_grad(norm, {g.dy + at, g.x + at, g.y + at, g.dx + at},
                                                       count, scratch);
            });
}

}  // namespace millrace::cpu
