// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_util.h"

namespace millrace {

// Whether mirror padding repeats the element at the border (symmetric) or not (reflect).
enum class MirrorMode { kReflect, kSymmetric };
inline MirrorMode ReadMirrorMode(KernelConstruction& c) {
  return c.Attr<std::string>("mode") == "REFLECT" ? MirrorMode::kReflect : MirrorMode::kSymmetric;
}

// For each dimension of a padded tensor: the index in the unpadded tensor for each index.
struct MirrorMap {
  TensorShape bare, padded;
  std::vector<std::vector<int64_t>> sources;
  int64_t before = 0;  // elements that are added before a row along the innermost dimension
};
// `shape` is that of the unpadded tensor or, with `is_padded`, of the padded one.
StatusOr<MirrorMap> MakeMirrorMap(const TensorShape& shape, bool is_padded, const Tensor& paddings,
                                  MirrorMode mode);

// Fills `out`, of shape map.padded, from `in`, of shape map.bare.
void MirrorPad(const KernelContext& context, const MirrorMap& map, const Tensor& in, Tensor* out);

}  // namespace millrace
