// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_util.h"

namespace millrace {

// How tensors get mirrored borders: with the elements at the border twice (symmetric) or once (reflect).
enum class MirrorMode { kReflect, kSymmetric };
inline MirrorMode ReadMirrorMode(KernelConstruction& c) {
  return c.Attr<std::string>("mode") == "REFLECT" ? MirrorMode::kReflect : MirrorMode::kSymmetric;
}

// For each dimension of a tensor with borders: which element of the bare tensor each of its elements is.
struct MirrorMap {
  TensorShape bare, padded;
  std::vector<std::vector<int64_t>> sources;
};
// `shape` is that of the bare tensor or, with `is_padded`, of the one with borders.
StatusOr<MirrorMap> MakeMirrorMap(const TensorShape& shape, bool is_padded, const Tensor& paddings,
                                  MirrorMode mode);

// Fills `out`, of the map's padded shape, from `in`, of its bare one.
void MirrorPad(const KernelContext& context, const MirrorMap& map, const Tensor& in, Tensor* out);

}  // namespace millrace
