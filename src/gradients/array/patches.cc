// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Patches of images and volumes.
#include "gradients/family.h"

namespace millrace {
namespace {

// The patches of the numbers 1, 2, … are the positions from which the elements of the patches came; they are
// 0 where a patch reaches beyond the border. The gradient of a pixel is the sum of all that came from it.
Status PatchesGrad(GradientContext& c, const AttrMap& attrs) {
  GraphBuilder& b = c.builder();
  const Expr x = c.input(0), dy = c.grad(0);
  const auto ints = [&](const std::vector<int64_t>& values) { return Vector(b, DataType::kInt32, values); };
  const Expr one = Scalar(b, DataType::kInt32, 1);
  const Expr shape = ShapeOf(x);
  const Expr batch = Op("Slice", {shape, ints({0}), ints({1})});
  const int rank =
      x.shape().unknown_rank() ? (c.node().op_name() == "ExtractVolumePatches" ? 5 : 4) : x.shape().rank();
  const Expr places = Op("Slice", {shape, ints({1}), ints({rank - 2})});
  const Expr depth = Op("Slice", {shape, ints({rank - 1}), ints({1})});
  const Expr count = Op("Prod", {places, ints({0})}, {{"keep_dims", false}});
  const Expr numbers = Op("Range", {one, count + one, one});
  const Expr image = Reshape(numbers, JoinVectors({ints({1}), places, ints({1})}));
  const Expr sources = Op(c.node().op_name(), {image}, attrs);
  const Expr ids = Reshape(sources, ints({-1})) - one;
  // [batch, elements, depth] with the elements first, so that rows are added up.
  const Expr elements = Op("Size", ids);
  const Expr rows = Transpose(Reshape(dy, JoinVectors({batch, elements, depth})), ints({1, 0, 2}));
  const Expr sums = Op("UnsortedSegmentSum", {rows, ids, count});
  c.SetInputGrad(0, Reshape(Transpose(sums, ints({1, 0, 2})), shape));
  return c.status();
}

Status ImagePatchesGrad(GradientContext& c) {
  return PatchesGrad(c, c.CopyAttrs({"ksizes", "strides", "rates", "padding"}));
}

Status VolumePatchesGrad(GradientContext& c) {
  return PatchesGrad(c, c.CopyAttrs({"ksizes", "strides", "padding"}));
}

constexpr gradients::Row kRows[] = {
    {"ExtractImagePatches", ImagePatchesGrad},
    {"ExtractVolumePatches", VolumePatchesGrad},
};

}  // namespace

Status RegisterPatchGradients(GradientRegistry& registry) { return gradients::RegisterEach(registry, kRows); }

}  // namespace millrace
