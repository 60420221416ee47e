// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Constants, placeholders, shapes, and everything that moves elements without computing with them.
#include "ops/array/shapes.h"
#include "ops/family.h"

namespace millrace::ops {
namespace {

constexpr char kOutType[] = "out_type: {int32, int64} = DT_INT32";
constexpr char kIndexType[] = "Index: {int32, int64}";
constexpr char kShapeType[] = "T: {int32, int64} = DT_INT32";
constexpr char kReversible[] =
    "T: {uint8, int8, uint16, int16, int32, int64, bool, half, float, double, complex64, complex128, string}";
constexpr char kReversibleV2[] =
    "T: {uint8, int8, uint16, int16, int32, int64, bool, bfloat16, half, float, double, complex64, "
    "complex128, "
    "string}";
constexpr char kBitcastable[] =
    "{bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, complex64, "
    "complex128, qint8, quint8, qint16, quint16, qint32}";

constexpr OpTraits kMetadata{.metadata_only = true, .cheap = true};
// The output is a view of the input where the layout allows it.
constexpr OpTraits kView{.aliasing = true};
constexpr OpTraits kForwarding{.cheap = true, .aliasing = true, .forwards = true};
constexpr OpTraits kReshaping{.cheap = true, .aliasing = true, .same_in_shape = true};
constexpr OpTraits kRepeating{.same_in_shape = true};

std::vector<OpBuilder> Sources() {
  return {
      OpBuilder("Const")
          .Output("output: dtype")
          .Attr("value: tensor")
          .Attr("dtype: type")
          .Shape(ConstShape)
          .Traits({.cheap = true, .generator = true}),
      OpBuilder("ImmutableConst")
          .Output("tensor: dtype")
          .Attr("dtype: type")
          .Attr("shape: shape")
          .Attr("memory_region_name: string")
          .Shape(shape_fns::Explicit)
          .Traits({.cheap = true, .generator = true, .never_fold = true}),
      OpBuilder("Fill")
          .Input("dims: index_type")
          .Input("value: T")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("index_type: {int32, int64} = DT_INT32")
          .Shape(FillShape),
      OpBuilder("OnesLike")
          .Input("x: T")
          .Output("y: T")
          .Attr("T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, int64, complex64, "
                "complex128, bool}")
          .Shape(shape_fns::Unchanged),
      OpBuilder("ZerosLike").Input("x: T").Output("y: T").Attr(kAnyType).Shape(shape_fns::Unchanged),
      OpBuilder("Placeholder")
          .Output("output: dtype")
          .Attr("dtype: type")
          .Attr("shape: shape = { unknown_rank: true }")
          .Shape(shape_fns::Explicit)
          .Traits({.cheap = true, .generator = true, .never_fold = true}),
      OpBuilder("PlaceholderV2")
          .Output("output: dtype")
          .Attr("dtype: type")
          .Attr("shape: shape")
          .Deprecated(23, "Placeholder now behaves the same as PlaceholderV2.")
          .Shape(shape_fns::Explicit)
          .Traits({.cheap = true, .generator = true, .never_fold = true}),
      OpBuilder("PlaceholderWithDefault")
          .Input("input: dtype")
          .Output("output: dtype")
          .Attr("dtype: type")
          .Attr("shape: shape")
          .Shape(PlaceholderWithDefaultShape)
          .Traits({.cheap = true, .aliasing = true, .never_fold = true, .forwards = true}),
      OpBuilder("OneHot")
          .Input("indices: TI")
          .Input("depth: int32")
          .Input("on_value: T")
          .Input("off_value: T")
          .Output("output: T")
          .Attr("axis: int = -1")
          .Attr(kAnyType)
          .Attr("TI: {uint8, int32, int64} = DT_INT64")
          .Shape(OneHotShape),
      OpBuilder("Where")
          .Input("input: T")
          .Output("index: int64")
          .Attr("T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
                "bfloat16, uint16, complex128, half, uint32, uint64, bool} = DT_BOOL")
          .Shape(WhereShape),
  };
}

OpBuilder Forwarding(const char* name) {
  return OpBuilder(name)
      .Input("input: T")
      .Output("output: T")
      .Attr(kAnyType)
      .Shape(IdentityShape)
      .Traits(kForwarding);
}

std::vector<OpBuilder> Identities() {
  return {
      Forwarding("Identity"),
      OpBuilder("IdentityN")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: list(type) >= 1")
          .Shape(IdentityNShape)
          .Traits(kForwarding),
      Forwarding("StopGradient"),
      Forwarding("PreventGradient").Attr("message: string = ''"),
      Forwarding("Snapshot"),
      OpBuilder("EnsureShape")
          .Input("input: T")
          .Output("output: T")
          .Attr("shape: shape")
          .Attr(kAnyType)
          .Shape(EnsureShapeShape)
          .Traits({.cheap = true, .aliasing = true}),
      OpBuilder("CheckNumerics")
          .Input("tensor: T")
          .Output("output: T")
          .Attr("T: {bfloat16, half, float, double}")
          .Attr("message: string")
          .Stateful()
          .Shape(shape_fns::Unchanged)
          .Traits({.aliasing = true, .only_checks = true}),
      OpBuilder("Bitcast")
          .Input("input: T")
          .Output("output: type")
          .Attr(StrCat("T: ", kBitcastable))
          .Attr(StrCat("type: ", kBitcastable))
          .Shape(BitcastShape)
          .Traits(kAliasing),
  };
}

std::vector<OpBuilder> ShapeReaders() {
  return {
      OpBuilder("Rank")
          .Input("input: T")
          .Output("output: int32")
          .Attr(kAnyType)
          .Shape(shape_fns::Scalar)
          .Traits(kMetadata),
      OpBuilder("Shape")
          .Input("input: T")
          .Output("output: out_type")
          .Attr(kAnyType)
          .Attr(kOutType)
          .Shape(ShapeShape)
          .Traits(kMetadata),
      OpBuilder("ShapeN")
          .Input("input: N * T")
          .Output("output: N * out_type")
          .Attr("N: int >= 1")
          .Attr(kAnyType)
          .Attr(kOutType)
          .Shape(ShapeShape)
          .Traits(kMetadata),
      OpBuilder("Size")
          .Input("input: T")
          .Output("output: out_type")
          .Attr(kAnyType)
          .Attr(kOutType)
          .Shape(shape_fns::Scalar)
          .Traits(kMetadata),
      OpBuilder("BroadcastArgs")
          .Input("s0: T")
          .Input("s1: T")
          .Output("r0: T")
          .Attr(kShapeType)
          .Shape(BroadcastArgsShape)
          .Traits(kCheap),
      OpBuilder("BroadcastGradientArgs")
          .Input("s0: T")
          .Input("s1: T")
          .Output("r0: T")
          .Output("r1: T")
          .Attr(kShapeType)
          .Shape(BroadcastGradientArgsShape)
          .Traits(kCheap),
      OpBuilder("ConcatOffset")
          .Input("concat_dim: int32")
          .Input("shape: N * int32")
          .Output("offset: N * int32")
          .Attr("N: int >= 2")
          .Shape(ConcatOffsetShape)
          .Traits(kCheap),
      OpBuilder("InvertPermutation")
          .Input("x: T")
          .Output("y: T")
          .Attr(kShapeType)
          .Shape(InvertPermutationShape),
  };
}

std::vector<OpBuilder> Reshaping() {
  return {
      OpBuilder("ExpandDims")
          .Input("input: T")
          .Input("dim: Tdim")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("Tdim: {int32, int64} = DT_INT32")
          .Shape(ExpandDimsShape)
          .Traits(kReshaping),
      OpBuilder("Reshape")
          .Input("tensor: T")
          .Input("shape: Tshape")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("Tshape: {int32, int64} = DT_INT32")
          .Shape(ReshapeShape)
          .Traits(kReshaping),
      OpBuilder("Squeeze")
          .Input("input: T")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("squeeze_dims: list(int) >= 0 = []")
          .Shape(SqueezeShape)
          .Traits(kReshaping),
  };
}

std::vector<OpBuilder> Joining() {
  return {
      OpBuilder("Concat")
          .Input("concat_dim: int32")
          .Input("values: N * T")
          .Output("output: T")
          .Attr("N: int >= 2")
          .Attr(kAnyType)
          .Shape(shape_fns::Concat),
      OpBuilder("ConcatV2")
          .Input("values: N * T")
          .Input("axis: Tidx")
          .Output("output: T")
          .Attr("N: int >= 2")
          .Attr(kAnyType)
          .Attr(kIndex)
          .Shape(shape_fns::ConcatV2),
      OpBuilder("Pack")
          .Input("values: N * T")
          .Output("output: T")
          .Attr("N: int >= 1")
          .Attr(kAnyType)
          .Attr("axis: int = 0")
          .Shape(PackShape),
      OpBuilder("Unpack")
          .Input("value: T")
          .Output("output: num * T")
          .Attr("num: int >= 0")
          .Attr(kAnyType)
          .Attr("axis: int = 0")
          .Shape(UnpackShape)
          .Traits(kView),
      OpBuilder("Split")
          .Input("split_dim: int32")
          .Input("value: T")
          .Output("output: num_split * T")
          .Attr("num_split: int >= 1")
          .Attr(kAnyType)
          .Shape(SplitShape)
          .Traits(kView),
      OpBuilder("SplitV")
          .Input("value: T")
          .Input("size_splits: Tlen")
          .Input("split_dim: int32")
          .Output("output: num_split * T")
          .Attr("num_split: int >= 1")
          .Attr(kAnyType)
          .Attr("Tlen: {int32, int64} = DT_INT64")
          .Shape(SplitVShape)
          .Traits(kView),
  };
}

std::vector<OpBuilder> Moving() {
  return {
      OpBuilder("BroadcastTo")
          .Input("input: T")
          .Input("shape: Tidx")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr(kIndex)
          .Shape(BroadcastToShape)
          .Traits(kRepeating),
      OpBuilder("Pad")
          .Input("input: T")
          .Input("paddings: Tpaddings")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("Tpaddings: {int32, int64} = DT_INT32")
          .Shape(PadShape)
          .Traits(kRepeating),
      OpBuilder("PadV2")
          .Input("input: T")
          .Input("paddings: Tpaddings")
          .Input("constant_values: T")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("Tpaddings: {int32, int64} = DT_INT32")
          .Shape(PadShape)
          .Traits(kRepeating),
      OpBuilder("Reverse")
          .Input("tensor: T")
          .Input("dims: bool")
          .Output("output: T")
          .Attr(kReversible)
          .Shape(ReverseShape),
      OpBuilder("ReverseV2")
          .Input("tensor: T")
          .Input("axis: Tidx")
          .Output("output: T")
          .Attr(kIndex)
          .Attr(kReversibleV2)
          .Shape(ReverseV2Shape),
      OpBuilder("Tile")
          .Input("input: T")
          .Input("multiples: Tmultiples")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("Tmultiples: {int32, int64} = DT_INT32")
          .Shape(TileShape)
          .Traits(kRepeating),
      OpBuilder("Transpose")
          .Input("x: T")
          .Input("perm: Tperm")
          .Output("y: T")
          .Attr(kAnyType)
          .Attr("Tperm: {int32, int64} = DT_INT32")
          .Shape(TransposeShape),
  };
}

OpBuilder WithStridedSliceAttrs(OpBuilder op) {
  return op.Attr(kAnyType)
      .Attr(kIndexType)
      .Attr("begin_mask: int = 0")
      .Attr("end_mask: int = 0")
      .Attr("ellipsis_mask: int = 0")
      .Attr("new_axis_mask: int = 0")
      .Attr("shrink_axis_mask: int = 0");
}

std::vector<OpBuilder> Slicing() {
  return {
      OpBuilder("Slice")
          .Input("input: T")
          .Input("begin: Index")
          .Input("size: Index")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr(kIndexType)
          .Shape(SliceShape)
          .Traits(kView),
      WithStridedSliceAttrs(OpBuilder("StridedSlice")
                                .Input("input: T")
                                .Input("begin: Index")
                                .Input("end: Index")
                                .Input("strides: Index")
                                .Output("output: T")
                                .Shape(StridedSliceShape)
                                .Traits(kView)),
      WithStridedSliceAttrs(OpBuilder("StridedSliceGrad")
                                .Input("shape: Index")
                                .Input("begin: Index")
                                .Input("end: Index")
                                .Input("strides: Index")
                                .Input("dy: T")
                                .Output("output: T")
                                .Shape(StridedSliceGradShape)),
  };
}

std::vector<OpBuilder> Gathering() {
  return {
      OpBuilder("Gather")
          .Input("params: Tparams")
          .Input("indices: Tindices")
          .Output("output: Tparams")
          .Attr("validate_indices: bool = true")
          .Attr("Tparams: type")
          .Attr(kIndices)
          .Shape(GatherShape),
      OpBuilder("GatherV2")
          .Input("params: Tparams")
          .Input("indices: Tindices")
          .Input("axis: Taxis")
          .Output("output: Tparams")
          .Attr("batch_dims: int = 0")
          .Attr("Tparams: type")
          .Attr(kIndices)
          .Attr("Taxis: {int32, int64}")
          .Shape(GatherV2Shape),
      OpBuilder("GatherNd")
          .Input("params: Tparams")
          .Input("indices: Tindices")
          .Output("output: Tparams")
          .Attr("Tparams: type")
          .Attr(kIndices)
          .Shape(GatherNdShape),
      OpBuilder("ScatterNd")
          .Input("indices: Tindices")
          .Input("updates: T")
          .Input("shape: Tindices")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr(kIndices)
          .Shape(ScatterNdShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterArrayOps(OpRegistry& registry) {
  for (const auto part : {ops::Sources, ops::Identities, ops::ShapeReaders, ops::Reshaping, ops::Joining,
                          ops::Moving, ops::Slicing, ops::Gathering}) {
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, part()));
  }
  return Status::Ok();
}

}  // namespace millrace
