// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Mirrored borders, and moving between batch, space and depth.
#include "ops/array/shapes.h"
#include "ops/family.h"
#include "ops/nn/spatial_shapes.h"

namespace millrace::ops {
namespace {

constexpr char kPaddings[] = "Tpaddings: {int32, int64} = DT_INT32";

OpBuilder MirrorPad(const char* name) {
  return OpBuilder(name)
      .Input("input: T")
      .Input("paddings: Tpaddings")
      .Output("output: T")
      .Attr(kAnyType)
      .Attr(kPaddings)
      .Attr("mode: {'REFLECT', 'SYMMETRIC'}");
}

OpBuilder DepthMove(const char* name) {
  return OpBuilder(name)
      .Input("input: T")
      .Output("output: T")
      .Attr(kAnyType)
      .Attr("block_size: int >= 2")
      .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'");
}

std::vector<OpBuilder> BlockOps() {
  return {
      MirrorPad("MirrorPad: Pads a tensor by mirroring its edges.").Shape(PadShape),
      MirrorPad("MirrorPadGrad: The gradient of MirrorPad.").Shape(MirrorPadGradShape),
      OpBuilder("SpaceToBatchND: Moves blocks of several dimensions into the batch.")
          .Input("input: T")
          .Input("block_shape: Tblock_shape")
          .Input("paddings: Tpaddings")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("Tblock_shape: {int32, int64} = DT_INT32")
          .Attr(kPaddings)
          .Shape(SpaceToBatchNdShape),
      OpBuilder("BatchToSpaceND: Puts blocks of the batch back into several dimensions.")
          .Input("input: T")
          .Input("block_shape: Tblock_shape")
          .Input("crops: Tcrops")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("Tblock_shape: {int32, int64} = DT_INT32")
          .Attr("Tcrops: {int32, int64} = DT_INT32")
          .Shape(BatchToSpaceNdShape),
      OpBuilder("SpaceToBatch: Moves blocks of height and width into the batch.")
          .Input("input: T")
          .Input("paddings: Tpaddings")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr(kPaddings)
          .Attr("block_size: int >= 2")
          .Shape(SpaceToBatchShape),
      OpBuilder("BatchToSpace: Puts blocks of the batch back into height and width: undoes SpaceToBatch.")
          .Input("input: T")
          .Input("crops: Tidx")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("block_size: int >= 2")
          .Attr(kIndex)
          .Shape(BatchToSpaceShape),
      DepthMove("SpaceToDepth: Moves blocks of height and width into channels.").Shape(SpaceToDepthShape),
      DepthMove("DepthToSpace: Moves channels into blocks of height and width.").Shape(DepthToSpaceShape),
      OpBuilder("ExtractImagePatches: The patches of images that a window sees, as channels.")
          .Input("images: T")
          .Output("patches: T")
          .Attr("ksizes: list(int) >= 4")
          .Attr("strides: list(int) >= 4")
          .Attr("rates: list(int) >= 4")
          .Attr(
              "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}")
          .Attr("padding: {'SAME', 'VALID'}")
          .Shape(ExtractPatchesShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterArrayBlockOps(OpRegistry& registry) { return ops::RegisterEach(registry, ops::BlockOps()); }

}  // namespace millrace
