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
      MirrorPad("MirrorPad").Shape(PadShape),
      MirrorPad("MirrorPadGrad").Shape(MirrorPadGradShape),
      OpBuilder("SpaceToBatchND")
          .Input("input: T")
          .Input("block_shape: Tblock_shape")
          .Input("paddings: Tpaddings")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("Tblock_shape: {int32, int64} = DT_INT32")
          .Attr(kPaddings)
          .Shape(SpaceToBatchNdShape),
      OpBuilder("BatchToSpaceND")
          .Input("input: T")
          .Input("block_shape: Tblock_shape")
          .Input("crops: Tcrops")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("Tblock_shape: {int32, int64} = DT_INT32")
          .Attr("Tcrops: {int32, int64} = DT_INT32")
          .Shape(BatchToSpaceNdShape),
      OpBuilder("SpaceToBatch")
          .Input("input: T")
          .Input("paddings: Tpaddings")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr(kPaddings)
          .Attr("block_size: int >= 2")
          .Shape(SpaceToBatchShape),
      OpBuilder("BatchToSpace")
          .Input("input: T")
          .Input("crops: Tidx")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("block_size: int >= 2")
          .Attr(kIndex)
          .Shape(BatchToSpaceShape),
      DepthMove("SpaceToDepth").Shape(SpaceToDepthShape),
      DepthMove("DepthToSpace").Shape(DepthToSpaceShape),
      OpBuilder("ExtractImagePatches")
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
