# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""How operations of an iteration become operations for all iterations."""
from __future__ import annotations

from typing import Any

from millrace.python.ops import array_ops, gen_math_ops, math_ops
from millrace.python.ops.parallel_for.pfor import (
    Kind,
    Operands,
    Stacked,
    Unconvertible,
    register,
    register_kind,
)

# Of rows, whatever their number.
_OF_ROWS = "CheckNumerics OnesLike ZerosLike Softmax LogSoftmax"
# They treat leading dimensions as a batch.
_BATCHED = """
BatchMatrixDiag BatchMatrixDiagPart Cholesky CholeskyGrad LogMatrixDeterminant MatrixDeterminant
MatrixDiag MatrixDiagPart MatrixInverse MatrixSetDiag MatrixSolve MatrixTriangularSolve FFT FFT2D
IFFT IFFT2D
"""
_REDUCTIONS = "All Any Max Mean Min Prod Sum EuclideanNorm"
# Images whose first dimension is a batch.
_OF_IMAGES = "AvgPool MaxPool MaxPoolGrad MaxPoolGradGrad DepthToSpace SpaceToDepth LRN LRNGrad"


@register(*_OF_ROWS.split())
@register_kind(Kind.ONE)
def _of_rows(c: Operands) -> Any:
    return c.again([c.tensor(0)])


@register_kind(Kind.BROADCASTS)
def _broadcasting(c: Operands) -> Any:
    rank = max(c.rank(0), c.rank(1))
    return c.again([c.aligned(0, rank), c.aligned(1, rank)])


@register(*_BATCHED.split())
@register_kind(Kind.SAME_SHAPE)
def _alike(c: Operands) -> Any:
    return c.again(c.all_stacked())


@register("AccumulateNV2")
def _accumulate(c: Operands) -> Any:
    return math_ops.add_n(c.all_stacked())


@register("SelectV2")
def _select_v2(c: Operands) -> Any:
    rank = max(c.rank(i) for i in range(3))
    return c.again([c.aligned(i, rank) for i in range(3)])


@register("Select")
def _select(c: Operands) -> Any:
    condition = c.stacked(0)
    missing = c.rank(1) - c.rank(0)
    if missing > 0:
        # A scalar or a vector chooses rows.
        rank = c.rank(0) + 1
        shape = array_ops.concat([array_ops.shape(condition), c.ones(missing)], 0)
        condition = array_ops.reshape(condition, shape)
        tiles = array_ops.concat([c.ones(rank), array_ops.shape(c.stacked(1))[rank:]], 0)
        condition = array_ops.tile(condition, tiles)
    return c.again([condition, c.stacked(1), c.stacked(2)])


@register(*_REDUCTIONS.split())
def _reduction(c: Operands) -> Any:
    return c.again([c.stacked(0), c.axis(1)])


@register("ArgMax", "ArgMin", "Cumsum", "Cumprod")
def _along(c: Operands) -> Any:
    return c.again([c.stacked(0), c.axis(1)])


@register("ReverseV2", "ExpandDims")
def _axes(c: Operands) -> Any:
    return c.again([c.stacked(0), c.axis(1)])


@register("L2Loss")
def _l2_loss(c: Operands) -> Any:
    axes = list(range(1, c.rank(0) + 1))
    x = c.stacked(0)
    return math_ops.reduce_sum(math_ops.square(x), axes) / math_ops.cast(2, x.dtype)


@register("Shape")
def _shape(c: Operands) -> Any:
    return Stacked(array_ops.shape(c.tensor(0), out_type=c.op.outputs[0].dtype)[1:], False)


@register("Size")
def _size(c: Operands) -> Any:
    dtype = c.op.outputs[0].dtype
    size = array_ops.size(c.tensor(0), out_type=dtype) // math_ops.cast(c.count, dtype)
    return Stacked(size, False)


@register("Rank")
def _rank(c: Operands) -> Any:
    return Stacked(array_ops.rank(c.tensor(0)) - 1, False)


@register("Reshape")
def _reshape(c: Operands) -> Any:
    return array_ops.reshape(c.stacked(0), c.prefixed(1, c.count))


@register("Transpose")
def _transpose(c: Operands) -> Any:
    perm = c.same(1) + 1
    return array_ops.transpose(c.stacked(0), array_ops.concat([[0], math_ops.cast(perm, "int32")], 0))


@register("Squeeze")
def _squeeze(c: Operands) -> Any:
    dims = list(c.op.get_attr("squeeze_dims"))
    if not dims:
        shape = c.op.inputs[0].shape
        if not shape.is_fully_defined():
            raise Unconvertible("the shape that Squeeze gets is not known")
        dims = [i for i, size in enumerate(shape.as_list()) if size == 1]
    if not dims:
        return c.stacked(0)
    return c.again([c.stacked(0)], squeeze_dims=[d + 1 if d >= 0 else d for d in dims])


@register("Tile")
def _tile(c: Operands) -> Any:
    return array_ops.tile(c.stacked(0), c.prefixed(1, 1))


@register("Pad", "PadV2", "MirrorPad")
def _pad(c: Operands) -> Any:
    paddings = c.same(1)
    none = array_ops.zeros([1, 2], paddings.dtype)
    more = [c.same(2)] if len(c) > 2 else []
    return c.again([c.stacked(0), array_ops.concat([none, paddings], 0), *more])


@register("BroadcastTo")
def _broadcast_to(c: Operands) -> Any:
    shape = c.prefixed(1, c.count)
    rank = c.op.inputs[1].shape.dims[0].value if c.op.inputs[1].shape.ndims == 1 else None
    if rank is None:
        raise Unconvertible("the rank of the result of BroadcastTo is not known")
    return array_ops.broadcast_to(c.aligned(0, rank), shape)


@register("Fill")
def _fill(c: Operands) -> Any:
    dims = c.same(0)
    rank = dims.shape.dims[0].value if dims.shape.ndims == 1 else None
    if rank is None:
        raise Unconvertible("the rank of the result of Fill is not known")
    value = array_ops.reshape(c.stacked(1), array_ops.concat([[c.count], c.ones(rank)], 0))
    return array_ops.tile(value, array_ops.concat([[1], math_ops.cast(dims, "int32")], 0))


@register("Pack")
def _pack(c: Operands) -> Any:
    axis = c.op.get_attr("axis")
    return array_ops.stack(c.all_stacked(), axis=axis + 1 if axis >= 0 else axis)


@register("Unpack")
def _unpack(c: Operands) -> Any:
    axis = c.op.get_attr("axis")
    return c.again([c.stacked(0)], axis=axis + 1 if axis >= 0 else axis)


@register("ConcatV2")
def _concat(c: Operands) -> Any:
    last = len(c) - 1
    return array_ops.concat([c.stacked(i) for i in range(last)], c.axis(last))


@register("Split")
def _split(c: Operands) -> Any:
    return c.again([c.axis(0), c.stacked(1)])


@register("SplitV")
def _split_v(c: Operands) -> Any:
    return c.again([c.stacked(0), c.same(1), c.axis(2)])


@register("Slice")
def _slice(c: Operands) -> Any:
    return array_ops.slice(c.stacked(0), c.prefixed(1, 0), c.prefixed(2, -1))


_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def _masks(c: Operands) -> dict[str, int]:
    """The masks of a slice that has the whole of the first dimension in front."""
    masks = {name: c.op.get_attr(name) << 1 for name in _MASKS}
    masks["begin_mask"] |= 1
    masks["end_mask"] |= 1
    return masks


def _row(c: Operands) -> Any:
    """x[i, ...], where only the first index depends on the iteration and x does not."""
    masks = {name: c.op.get_attr(name) for name in _MASKS}
    bounds = [c.op.inputs[1].op, c.op.inputs[2].op]
    constant = all(op.type == "Pack" and all(x.op.type == "Const" for x in op.inputs[1:]) for op in bounds)
    if c.is_stacked(0) or not constant or masks["shrink_axis_mask"] & 1 == 0 or masks["ellipsis_mask"] & 1:
        raise Unconvertible("a slice whose bounds depend on the iteration")
    index = c.stacked(1)[:, 0]
    size = math_ops.cast(array_ops.shape(c.tensor(0))[0], index.dtype)
    rows = array_ops.gather(c.tensor(0), array_ops.where(index < 0, index + size, index))
    first = array_ops.zeros([], index.dtype)
    begin, end = (array_ops.stack([first, *op.inputs[1:]]) for op in bounds)
    masks["shrink_axis_mask"] &= ~1
    masks["begin_mask"] |= 1
    masks["end_mask"] |= 1
    return c.again([rows, begin, end, c.same(3)], **masks)


@register("StridedSlice")
def _strided_slice(c: Operands) -> Any:
    if c.is_stacked(1) or c.is_stacked(2):
        return _row(c)
    return c.again([c.stacked(0), c.prefixed(1, 0), c.prefixed(2, 0), c.prefixed(3, 1)], **_masks(c))


@register("StridedSliceGrad")
def _strided_slice_grad(c: Operands) -> Any:
    shape = c.prefixed(0, c.count)
    return c.again([shape, c.prefixed(1, 0), c.prefixed(2, 0), c.prefixed(3, 1), c.stacked(4)], **_masks(c))


@register("Gather", "GatherV2", "ResourceGather")
def _gather(c: Operands) -> Any:
    axis = int(c.value(2)) if len(c) > 2 else 0
    if c.op.type == "GatherV2" and c.op.get_attr("batch_dims"):
        raise Unconvertible("GatherV2 has batch_dims")
    if not c.is_stacked(0):
        inputs = [c.tensor(0), c.tensor(1), *([c.tensor(2)] if len(c) > 2 else [])]
        gathered = c.again(inputs)[0]
        if axis == 0:
            return gathered
        if axis < 0:
            axis += c.rank(0)
        rank = c.rank(0) + c.rank(1)
        order = [axis] + [i for i in range(rank) if i != axis]
        return array_ops.transpose(gathered, order)
    axis = axis + 1 if axis >= 0 else axis
    if not c.is_stacked(1):
        return array_ops.gather(c.tensor(0), c.tensor(1), axis=axis)
    if c.rank(1) > 0:
        return array_ops.gather(c.tensor(0), c.tensor(1), axis=axis, batch_dims=1)
    indices = array_ops.expand_dims(c.tensor(1), 1)
    return array_ops.squeeze(array_ops.gather(c.tensor(0), indices, axis=axis, batch_dims=1), [axis])


@register("MatMul")
def _matmul(c: Operands) -> Any:
    first, second = c.op.get_attr("transpose_a"), c.op.get_attr("transpose_b")
    a, b = c.tensor(0), c.tensor(1)
    if c.is_stacked(0) and not c.is_stacked(1) and not first:
        rows = array_ops.concat([[-1], array_ops.shape(a)[2:]], 0)
        product = math_ops.matmul(array_ops.reshape(a, rows), b, transpose_b=second)
        shape = array_ops.concat([array_ops.shape(a)[:2], array_ops.shape(product)[1:]], 0)
        return array_ops.reshape(product, shape)
    a, b = (x if c.is_stacked(i) else array_ops.expand_dims(x, 0) for i, x in enumerate((a, b)))
    return gen_math_ops.batch_mat_mul_v2(a, b, adj_x=first, adj_y=second)


@register("BatchMatMul", "BatchMatMulV2")
def _batch_matmul(c: Operands) -> Any:
    rank = max(c.rank(0), c.rank(1))
    return gen_math_ops.batch_mat_mul_v2(
        c.aligned(0, rank), c.aligned(1, rank), adj_x=c.op.get_attr("adj_x"), adj_y=c.op.get_attr("adj_y")
    )


@register("BiasAdd")
def _bias_add(c: Operands) -> Any:
    channels_first = c.op.get_attr("data_format") == b"NCHW"
    if not c.is_stacked(1) and not channels_first:
        return c.again([c.stacked(0), c.tensor(1)])
    rank = c.rank(0)
    bias = c.stacked(1)
    before = [1] * (1 if channels_first else rank - 1)
    after = [1] * (rank - 2 if channels_first else 0)
    shape = array_ops.shape(bias)
    shape = array_ops.concat([shape[:1], c.ones(len(before)), shape[1:], c.ones(len(after))], 0)
    return c.stacked(0) + array_ops.reshape(bias, shape)


@register("BiasAddGrad")
def _bias_add_grad(c: Operands) -> Any:
    rank = c.rank(0)
    channel = 1 if c.op.get_attr("data_format") == b"NCHW" else rank - 1
    return math_ops.reduce_sum(c.stacked(0), [i + 1 for i in range(rank) if i != channel])


@register("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
def _cross_entropy(c: Operands) -> Any:
    return [c.unfolded(t) for t in c.again([c.folded(0), c.folded(1)])]


@register(*_OF_IMAGES.split())
def _of_images(c: Operands) -> Any:
    return c.unfolded(c.again([c.folded(i) for i in range(len(c))])[0])


@register("Conv2D", "DepthwiseConv2dNative", "Conv3D")
def _convolution(c: Operands) -> Any:
    return c.unfolded(c.again([c.folded(0), c.same(1)])[0])


@register("Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput", "AvgPoolGrad")
def _convolution_of_input(c: Operands) -> Any:
    sizes = c.same(0)
    sizes = array_ops.concat([sizes[:1] * c.count, sizes[1:]], 0)
    rest = [c.same(1), c.folded(2)] if len(c) > 2 else [c.folded(1)]
    return c.unfolded(c.again([sizes, *rest])[0])


@register("UnsortedSegmentSum")
def _unsorted_segment_sum(c: Operands) -> Any:
    data, ids, number = c.stacked(0), c.stacked(1), c.same(2)
    first = math_ops.range(c.count) * math_ops.cast(number, "int32")
    shape = array_ops.concat([[c.count], c.ones(c.rank(1))], 0)
    rows = ids + math_ops.cast(array_ops.reshape(first, shape), ids.dtype)
    # Negative ids belong to no segment, so their rows are dropped.
    rows = array_ops.where(ids < 0, ids, rows)
    total = math_ops.unsorted_segment_sum(data, rows, math_ops.cast(number, "int32") * c.count)
    inner = array_ops.shape(total)[1:]
    return array_ops.reshape(
        total, array_ops.concat([[c.count], array_ops.reshape(math_ops.cast(number, "int32"), [1]), inner], 0)
    )


@register("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal")
def _random(c: Operands) -> Any:
    return c.again([c.prefixed(0, c.count), *(c.same(i) for i in range(1, len(c)))])
