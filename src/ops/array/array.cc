// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Constants, placeholders, shapes, and ops that move elements without computing with them.
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
      OpBuilder("Const: A constant tensor, stored in the graph.")
          .Output("output: dtype")
          .Attr("value: tensor")
          .Attr("dtype: type")
          .Shape(ConstShape)
          .Traits({.cheap = true, .generator = true})
          .NotDifferentiable(),
      OpBuilder("ImmutableConst: A tensor that is mapped from a file.")
          .Output("tensor: dtype")
          .Attr("dtype: type")
          .Attr("shape: shape")
          .Attr("memory_region_name: string")
          .Shape(shape_fns::Explicit)
          .Traits({.cheap = true, .generator = true, .never_fold = true})
          .NotDifferentiable(),
      OpBuilder("Fill: A tensor with one value everywhere.")
          .Input("dims: index_type")
          .Input("value: T")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("index_type: {int32, int64} = DT_INT32")
          .Shape(FillShape),
      OpBuilder("OnesLike: Ones in the shape of its input.")
          .Input("x: T")
          .Output("y: T")
          .Attr("T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, int64, complex64, "
                "complex128, bool}")
          .Shape(shape_fns::Unchanged)
          .NotDifferentiable(),
      OpBuilder("ZerosLike: Zeros in the shape of its input.")
          .Input("x: T")
          .Output("y: T")
          .Attr(kAnyType)
          .Shape(shape_fns::Unchanged)
          .NotDifferentiable(),
      OpBuilder("Placeholder: A tensor that must be fed.")
          .Output("output: dtype")
          .Attr("dtype: type")
          .Attr("shape: shape = { unknown_rank: true }")
          .Shape(shape_fns::Explicit)
          .Traits({.cheap = true, .generator = true, .never_fold = true})
          .NotDifferentiable(),
      OpBuilder("PlaceholderV2: A tensor that must be fed.")
          .Output("output: dtype")
          .Attr("dtype: type")
          .Attr("shape: shape")
          .Deprecated(23, "Placeholder now behaves the same as PlaceholderV2.")
          .Shape(shape_fns::Explicit)
          .Traits({.cheap = true, .generator = true, .never_fold = true})
          .NotDifferentiable(),
      OpBuilder("PlaceholderWithDefault: A tensor that may be fed.")
          .Input("input: dtype")
          .Output("output: dtype")
          .Attr("dtype: type")
          .Attr("shape: shape")
          .Shape(PlaceholderWithDefaultShape)
          .Traits({.cheap = true, .aliasing = true, .never_fold = true, .forwards = true}),
      OpBuilder("OneHot: One-hot vectors: one value at the given index and another elsewhere.")
          .Input("indices: TI")
          .Input("depth: int32")
          .Input("on_value: T")
          .Input("off_value: T")
          .Output("output: T")
          .Attr("axis: int = -1")
          .Attr(kAnyType)
          .Attr("TI: {uint8, int32, int64} = DT_INT64")
          .Shape(OneHotShape)
          .NotDifferentiable(),
      OpBuilder("Where: The indices of elements that are true, or not zero.")
          .Input("input: T")
          .Output("index: int64")
          .Attr("T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
                "bfloat16, uint16, complex128, half, uint32, uint64, bool} = DT_BOOL")
          .Shape(WhereShape)
          .NotDifferentiable(),
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
      Forwarding("Identity: The input, unchanged."),
      OpBuilder("IdentityN: The inputs, unchanged.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: list(type) >= 1")
          .Shape(IdentityNShape)
          .Traits(kForwarding),
      Forwarding("StopGradient: The input, unchanged; gradients do not flow through it.").NotDifferentiable(),
      Forwarding("PreventGradient: The input, unchanged; differentiating it is an error.")
          .Attr("message: string = ''"),
      Forwarding("Snapshot: A copy of the input."),
      OpBuilder("EnsureShape: The input, unchanged; an error if it does not have the given shape.")
          .Input("input: T")
          .Output("output: T")
          .Attr("shape: shape")
          .Attr(kAnyType)
          .Shape(EnsureShapeShape)
          .Traits({.cheap = true, .aliasing = true}),
      OpBuilder("CheckNumerics: The input, unchanged; an error if it contains NaN or infinity.")
          .Input("tensor: T")
          .Output("output: T")
          .Attr("T: {bfloat16, half, float, double}")
          .Attr("message: string")
          .Stateful()
          .Shape(shape_fns::Unchanged)
          .Traits({.aliasing = true, .only_checks = true}),
      OpBuilder("Bitcast: The bytes of a tensor, interpreted as another type.")
          .Input("input: T")
          .Output("output: type")
          .Attr(StrCat("T: ", kBitcastable))
          .Attr(StrCat("type: ", kBitcastable))
          .Shape(BitcastShape)
          .Traits(kAliasing)
          .NotDifferentiable(),
  };
}

std::vector<OpBuilder> ShapeReaders() {
  return {
      OpBuilder("Rank: The number of dimensions.")
          .Input("input: T")
          .Output("output: int32")
          .Attr(kAnyType)
          .Shape(shape_fns::Scalar)
          .Traits(kMetadata)
          .NotDifferentiable(),
      OpBuilder("Shape: The shape of a tensor, as a vector.")
          .Input("input: T")
          .Output("output: out_type")
          .Attr(kAnyType)
          .Attr(kOutType)
          .Shape(ShapeShape)
          .Traits(kMetadata)
          .NotDifferentiable(),
      OpBuilder("ShapeN: The shapes of tensors.")
          .Input("input: N * T")
          .Output("output: N * out_type")
          .Attr("N: int >= 1")
          .Attr(kAnyType)
          .Attr(kOutType)
          .Shape(ShapeShape)
          .Traits(kMetadata)
          .NotDifferentiable(),
      OpBuilder("Size: The number of elements.")
          .Input("input: T")
          .Output("output: out_type")
          .Attr(kAnyType)
          .Attr(kOutType)
          .Shape(shape_fns::Scalar)
          .Traits(kMetadata)
          .NotDifferentiable(),
      OpBuilder("BroadcastArgs: The shape that two shapes broadcast to.")
          .Input("s0: T")
          .Input("s1: T")
          .Output("r0: T")
          .Attr(kShapeType)
          .Shape(BroadcastArgsShape)
          .Traits(kCheap)
          .NotDifferentiable(),
      OpBuilder("BroadcastGradientArgs: The dimensions over which gradients of a broadcast are summed.")
          .Input("s0: T")
          .Input("s1: T")
          .Output("r0: T")
          .Output("r1: T")
          .Attr(kShapeType)
          .Shape(BroadcastGradientArgsShape)
          .Traits(kCheap)
          .NotDifferentiable(),
      OpBuilder("ConcatOffset: The offset of each input in the result of Concat.")
          .Input("concat_dim: int32")
          .Input("shape: N * int32")
          .Output("offset: N * int32")
          .Attr("N: int >= 2")
          .Shape(ConcatOffsetShape)
          .Traits(kCheap)
          .NotDifferentiable(),
      OpBuilder("InvertPermutation: The inverse of a permutation.")
          .Input("x: T")
          .Output("y: T")
          .Attr(kShapeType)
          .Shape(InvertPermutationShape)
          .NotDifferentiable(),
  };
}

std::vector<OpBuilder> Reshaping() {
  return {
      OpBuilder("ExpandDims: Adds a dimension of size one.")
          .Input("input: T")
          .Input("dim: Tdim")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("Tdim: {int32, int64} = DT_INT32")
          .Shape(ExpandDimsShape)
          .Traits(kReshaping),
      OpBuilder("Reshape: The elements of a tensor in another shape.")
          .Input("tensor: T")
          .Input("shape: Tshape")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("Tshape: {int32, int64} = DT_INT32")
          .Shape(ReshapeShape)
          .Traits(kReshaping),
      OpBuilder("Squeeze: Removes dimensions of size one.")
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
      OpBuilder("Concat: Joins tensors along a dimension, which is the first input.")
          .Input("concat_dim: int32")
          .Input("values: N * T")
          .Output("output: T")
          .Attr("N: int >= 2")
          .Attr(kAnyType)
          .Shape(shape_fns::Concat),
      OpBuilder("ConcatV2: Joins tensors along a dimension, which is the last input.")
          .Input("values: N * T")
          .Input("axis: Tidx")
          .Output("output: T")
          .Attr("N: int >= 2")
          .Attr(kAnyType)
          .Attr(kIndex)
          .Shape(shape_fns::ConcatV2),
      OpBuilder("Pack: Joins tensors along a new dimension.")
          .Input("values: N * T")
          .Output("output: T")
          .Attr("N: int >= 1")
          .Attr(kAnyType)
          .Attr("axis: int = 0")
          .Shape(PackShape),
      OpBuilder("Unpack: Splits a tensor along a dimension, removing the dimension.")
          .Input("value: T")
          .Output("output: num * T")
          .Attr("num: int >= 0")
          .Attr(kAnyType)
          .Attr("axis: int = 0")
          .Shape(UnpackShape)
          .Traits(kView),
      OpBuilder("Split: Splits a tensor along a dimension into equal parts.")
          .Input("split_dim: int32")
          .Input("value: T")
          .Output("output: num_split * T")
          .Attr("num_split: int >= 1")
          .Attr(kAnyType)
          .Shape(SplitShape)
          .Traits(kView),
      OpBuilder("SplitV: Splits a tensor along a dimension into parts of given sizes.")
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
      OpBuilder("BroadcastTo: Broadcasts a tensor to a shape.")
          .Input("input: T")
          .Input("shape: Tidx")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr(kIndex)
          .Shape(BroadcastToShape)
          .Traits(kRepeating),
      OpBuilder("Pad: Pads a tensor with zeros.")
          .Input("input: T")
          .Input("paddings: Tpaddings")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("Tpaddings: {int32, int64} = DT_INT32")
          .Shape(PadShape)
          .Traits(kRepeating),
      OpBuilder("PadV2: Pads a tensor with a value.")
          .Input("input: T")
          .Input("paddings: Tpaddings")
          .Input("constant_values: T")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("Tpaddings: {int32, int64} = DT_INT32")
          .Shape(PadShape)
          .Traits(kRepeating),
      OpBuilder("Reverse: Reverses the dimensions for which a vector of bools is true.")
          .Input("tensor: T")
          .Input("dims: bool")
          .Output("output: T")
          .Attr(kReversible)
          .Shape(ReverseShape),
      OpBuilder("ReverseV2: Reverses the given dimensions.")
          .Input("tensor: T")
          .Input("axis: Tidx")
          .Output("output: T")
          .Attr(kIndex)
          .Attr(kReversibleV2)
          .Shape(ReverseV2Shape),
      OpBuilder("Tile: Repeats a tensor along its dimensions.")
          .Input("input: T")
          .Input("multiples: Tmultiples")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("Tmultiples: {int32, int64} = DT_INT32")
          .Shape(TileShape)
          .Traits(kRepeating),
      OpBuilder("TileGrad: The gradient of Tile: the sum of all copies.")
          .Input("input: T")
          .Input("multiples: int32")
          .Output("output: T")
          .Attr("T: type")
          .Deprecated(3, "TileGrad has been replaced with reduce_sum")
          .Shape(TileGradShape),
      OpBuilder("ConjugateTranspose: Permutes dimensions and conjugates the elements.")
          .Input("x: T")
          .Input("perm: Tperm")
          .Output("y: T")
          .Attr("T: type")
          .Attr("Tperm: {int32, int64} = DT_INT32")
          .Shape(TransposeShape),
      OpBuilder("Transpose: Permutes dimensions.")
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
      OpBuilder("Slice: A slice of a tensor, by its start and size.")
          .Input("input: T")
          .Input("begin: Index")
          .Input("size: Index")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr(kIndexType)
          .Shape(SliceShape)
          .Traits(kView),
      WithStridedSliceAttrs(OpBuilder("StridedSlice: A slice of a tensor, by starts, ends and strides.")
                                .Input("input: T")
                                .Input("begin: Index")
                                .Input("end: Index")
                                .Input("strides: Index")
                                .Output("output: T")
                                .Shape(StridedSliceShape)
                                .Traits(kView)),
      WithStridedSliceAttrs(OpBuilder("StridedSliceGrad: The gradient of StridedSlice.")
                                .Input("shape: Index")
                                .Input("begin: Index")
                                .Input("end: Index")
                                .Input("strides: Index")
                                .Input("dy: T")
                                .Output("output: T")
                                .Shape(StridedSliceGradShape)),
      WithStridedSliceAttrs(
          OpBuilder("TensorStridedSliceUpdate: A copy of a tensor with a strided slice replaced.")
              .Input("input: T")
              .Input("begin: Index")
              .Input("end: Index")
              .Input("strides: Index")
              .Input("value: T")
              .Output("output: T")
              .Shape(shape_fns::Unchanged)),
  };
}

std::vector<OpBuilder> Gathering() {
  return {
      OpBuilder("Gather: Rows of a tensor, by index.")
          .Input("params: Tparams")
          .Input("indices: Tindices")
          .Output("output: Tparams")
          .Attr("validate_indices: bool = true")
          .Attr("Tparams: type")
          .Attr(kIndices)
          .Shape(GatherShape),
      OpBuilder("GatherV2: Slices of a tensor along a dimension, by index.")
          .Input("params: Tparams")
          .Input("indices: Tindices")
          .Input("axis: Taxis")
          .Output("output: Tparams")
          .Attr("batch_dims: int = 0")
          .Attr("Tparams: type")
          .Attr(kIndices)
          .Attr("Taxis: {int32, int64}")
          .Shape(GatherV2Shape),
      OpBuilder("GatherNd: Elements or slices of a tensor, by vectors of indices.")
          .Input("params: Tparams")
          .Input("indices: Tindices")
          .Output("output: Tparams")
          .Attr("Tparams: type")
          .Attr(kIndices)
          .Shape(GatherNdShape),
      OpBuilder("ScatterNd: Adds slices to a tensor of zeros, by vectors of indices.")
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
