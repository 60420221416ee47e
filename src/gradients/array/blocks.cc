// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ops that move blocks and borders of images.
#include "gradients/family.h"

namespace millrace {
namespace {

// The gradient of an op that only moves elements is the op that moves them back. Input 1 and, if present,
// input 2 are its parameters.
template <const char* kOther>
Status MovedBack(GradientContext& c) {
  AttrMap attrs;
  for (const char* attr : {"mode", "block_size", "data_format"}) {
    if (const AttrValue* value = c.node().attrs().Find(attr); value != nullptr) attrs.Set(attr, *value);
  }
  const Expr dy = c.grad(0);
  switch (c.num_inputs()) {
    case 1:
      c.SetInputGrad(0, Op(kOther, {dy}, attrs));
      break;
    case 2:
      c.SetInputGrad(0, Op(kOther, {dy, c.input(1)}, attrs));
      break;
    default:
      c.SetInputGrad(0, Op(kOther, {dy, c.input(1), c.input(2)}, attrs));
      break;
  }
  return c.status();
}

constexpr char kBatchToSpace[] = "BatchToSpace";
constexpr char kBatchToSpaceNd[] = "BatchToSpaceND";
constexpr char kDepthToSpace[] = "DepthToSpace";
constexpr char kMirrorPad[] = "MirrorPad";
constexpr char kMirrorPadGrad[] = "MirrorPadGrad";
constexpr char kSpaceToBatch[] = "SpaceToBatch";
constexpr char kSpaceToBatchNd[] = "SpaceToBatchND";
constexpr char kSpaceToDepth[] = "SpaceToDepth";

constexpr gradients::Row kRows[] = {
    {"BatchToSpace", MovedBack<kSpaceToBatch>},     {"BatchToSpaceND", MovedBack<kSpaceToBatchNd>},
    {"DepthToSpace", MovedBack<kSpaceToDepth>},     {"MirrorPad", MovedBack<kMirrorPadGrad>},
    {"MirrorPadGrad", MovedBack<kMirrorPad>},       {"SpaceToBatch", MovedBack<kBatchToSpace>},
    {"SpaceToBatchND", MovedBack<kBatchToSpaceNd>}, {"SpaceToDepth", MovedBack<kDepthToSpace>},
};

}  // namespace

Status RegisterBlockGradients(GradientRegistry& registry) { return gradients::RegisterEach(registry, kRows); }

}  // namespace millrace
