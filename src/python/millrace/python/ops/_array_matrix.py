# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Array ops on matrices, sets of labels, spatial blocks, sorted sequences and quantised values."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import indexed_slices
from millrace.python.framework import ops
from millrace.python.framework import sparse_tensor
from millrace.python.framework import tensor_shape
from millrace.python.framework import tensor_util
from millrace.python.ops import gen_array_ops
from millrace.python.ops import gen_math_ops
from millrace.python.ops._array_basic import expand_dims
from millrace.python.ops._array_basic import identity
from millrace.python.ops._array_basic import rank
from millrace.python.ops._array_basic import shape as shape_of
from millrace.python.ops._array_basic import size
from millrace.python.ops._array_basic import zeros
from millrace.python.ops._array_indexing import gather
from millrace.python.ops._array_joining import concat
from millrace.python.ops._array_joining import reshape
from millrace.python.ops._array_joining import stack
from millrace.python.util import deprecation


def _is_number(value: Any, wanted: int) -> bool:
    return isinstance(value, (int, float)) and value == wanted


def matrix_diag(
    diagonal: Any,
    name: str | None = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
) -> Any:
    """Returns matrices with the given (batches of) diagonals `k`, a number or a range of numbers.

    `num_rows` and `num_cols` of -1 mean the smallest matrix; other elements are `padding_value`.
    """
    if (
        _is_number(k, 0)
        and _is_number(num_rows, -1)
        and _is_number(num_cols, -1)
        and _is_number(padding_value, 0)
    ):
        return gen_array_ops.matrix_diag(diagonal=diagonal, name=name)
    diagonal = ops.convert_to_tensor(diagonal)
    return gen_array_ops.matrix_diag_v2(
        diagonal=diagonal,
        k=k,
        num_rows=num_rows,
        num_cols=num_cols,
        padding_value=gen_math_ops.cast(padding_value, diagonal.dtype),
        name=name,
    )


def matrix_diag_part(input: Any, name: str | None = "diag_part", k: Any = 0, padding_value: Any = 0) -> Any:
    """Returns the diagonals `k` of (a batch of) matrices, padded with `padding_value` where they end."""
    if _is_number(k, 0) and _is_number(padding_value, 0):
        return gen_array_ops.matrix_diag_part(input=input, name=name)
    input = ops.convert_to_tensor(input)
    return gen_array_ops.matrix_diag_part_v2(
        input=input, k=k, padding_value=gen_math_ops.cast(padding_value, input.dtype), name=name
    )


def matrix_set_diag(input: Any, diagonal: Any, name: str | None = "set_diag", k: Any = 0) -> Any:
    """Returns (a batch of) matrices with the diagonals `k` replaced by `diagonal`."""
    if _is_number(k, 0):
        return gen_array_ops.matrix_set_diag(input=input, diagonal=diagonal, name=name)
    return gen_array_ops.matrix_set_diag_v2(input=input, diagonal=diagonal, k=k, name=name)


def unique(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> Any:
    """Returns (y, idx): the different elements of the vector `x` in order, and for each its place in y."""
    return gen_array_ops.unique(x, out_idx, name)


def unique_with_counts(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> Any:
    """Returns (y, idx, count): as `unique`, and how often each element of y is in `x`."""
    return gen_array_ops.unique_with_counts(x, out_idx, name)


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Any:
    """Returns `on_value` at the positions `indices` along a new axis of size `depth`, else `off_value`.

    Args:
      indices: a tensor of integers.
      depth: an int32 scalar.
      on_value, off_value: scalars, 1 and 0 by default.
      axis: where the new axis comes, by default last (-1).
      dtype: type of the result; by default that of the values, else float32.
      name: name of the op.

    Raises:
      TypeError: the types of `on_value`, `off_value` and `dtype` differ.
    """
    with ops.name_scope(name, "one_hot", [indices, depth, on_value, off_value, axis, dtype]) as name:
        on_exists = on_value is not None
        off_exists = off_value is not None
        on_dtype = ops.convert_to_tensor(on_value).dtype.base_dtype if on_exists else None
        off_dtype = ops.convert_to_tensor(off_value).dtype.base_dtype if off_exists else None
        if on_exists or off_exists:
            if dtype is not None:
                if on_exists and on_dtype != dtype:
                    raise TypeError(
                        "dtype {0} of on_value does not match dtype parameter {1}".format(on_dtype, dtype)
                    )
                if off_exists and off_dtype != dtype:
                    raise TypeError(
                        "dtype {0} of off_value does not match dtype parameter {1}".format(off_dtype, dtype)
                    )
            else:
                dtype = on_dtype if on_exists else off_dtype
        elif dtype is None:
            dtype = dtypes.float32
        if not on_exists:
            on_value = ops.convert_to_tensor(1, dtype, name="on_value")
            on_dtype = dtype
        if not off_exists:
            off_value = ops.convert_to_tensor(0, dtype, name="off_value")
            off_dtype = dtype
        if on_dtype != off_dtype:
            raise TypeError(
                "dtype {0} of on_value does not match dtype {1} of off_value".format(on_dtype, off_dtype)
            )
        return gen_array_ops.one_hot(indices, depth, on_value, off_value, -1 if axis is None else axis, name)


def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool, name: str | None = None) -> Any:
    """Returns a tensor [..., maxlen] whose element j is true where j < lengths.

    Raises:
      ValueError: `maxlen` is not a scalar.
    """
    with ops.name_scope(name, "SequenceMask", [lengths, maxlen]):
        lengths = ops.convert_to_tensor(lengths)
        if maxlen is None:
            maxlen = gen_math_ops._max(lengths, gen_math_ops._range(0, rank(lengths), 1))
            maxlen = gen_math_ops.maximum(constant_op.constant(0, maxlen.dtype), maxlen)
        else:
            maxlen = ops.convert_to_tensor(maxlen)
        if maxlen.get_shape().ndims is not None and maxlen.get_shape().ndims != 0:
            raise ValueError("maxlen must be scalar for sequence_mask")
        row_vector = gen_math_ops._range(
            constant_op.constant(0, maxlen.dtype), maxlen, constant_op.constant(1, maxlen.dtype)
        )
        matrix = gen_math_ops.cast(expand_dims(lengths, -1), maxlen.dtype)
        result = gen_math_ops.less(row_vector, matrix)
        if dtype is None or result.dtype.base_dtype == dtypes.as_dtype(dtype).base_dtype:
            return result
        return gen_math_ops.cast(result, dtype)


def edit_distance(
    hypothesis: Any, truth: Any, normalize: bool = True, name: str | None = "edit_distance"
) -> Any:
    """Returns the Levenshtein distance of sequences along the last axis of two SparseTensors.

    `normalize` divides by the length of the true sequence. Raises TypeError for other arguments.
    """
    if not isinstance(hypothesis, (sparse_tensor.SparseTensor, sparse_tensor.SparseTensorValue)):
        raise TypeError("Hypothesis must be a SparseTensor.")
    if not isinstance(truth, (sparse_tensor.SparseTensor, sparse_tensor.SparseTensorValue)):
        raise TypeError("Truth must be a SparseTensor.")
    return gen_array_ops.edit_distance(
        hypothesis.indices,
        hypothesis.values,
        hypothesis.dense_shape,
        truth.indices,
        truth.values,
        truth.dense_shape,
        normalize=normalize,
        name=name,
    )


def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> Any:
    """Returns (paddings, crops), two [N, 2] matrices, by which blocks of `block_shape` divide the shape.

    Raises:
      ValueError: `block_shape` has no known size, or shapes do not fit.
    """
    with ops.name_scope(name, "required_space_to_batch_paddings", [input_shape, block_shape]):
        input_shape = ops.convert_to_tensor(input_shape, dtype=dtypes.int32, name="input_shape")
        block_shape = ops.convert_to_tensor(block_shape, dtype=dtypes.int32, name="block_shape")
        block_shape.get_shape().assert_is_fully_defined()
        block_shape.get_shape().assert_has_rank(1)
        num_block_dims = block_shape.get_shape().dims[0].value
        if num_block_dims == 0:
            empty = zeros([0, 2], dtypes.int32)
            return empty, empty
        input_shape.get_shape().assert_is_compatible_with([num_block_dims])
        if base_paddings is not None:
            base_paddings = ops.convert_to_tensor(base_paddings, dtype=dtypes.int32, name="base_paddings")
            base_paddings.get_shape().assert_is_compatible_with([num_block_dims, 2])
        else:
            base_paddings = zeros([num_block_dims, 2], dtypes.int32)
        const_block = tensor_util.constant_value(block_shape)
        const_input = tensor_util.constant_value(input_shape)
        const_base = tensor_util.constant_value(base_paddings)
        if const_block is not None and const_input is not None and const_base is not None:
            block_shape, input_shape, base_paddings = const_block, const_input, const_base
        pad_start = base_paddings[:, 0]
        orig_pad_end = base_paddings[:, 1]
        full_input_shape = input_shape + pad_start + orig_pad_end
        pad_end_extra = (block_shape - full_input_shape % block_shape) % block_shape
        pad_end = orig_pad_end + pad_end_extra
        result_paddings = stack([[pad_start[i], pad_end[i]] for i in range(num_block_dims)], name="paddings")
        result_crops = stack([[0, pad_end_extra[i]] for i in range(num_block_dims)], name="crops")
        return result_paddings, result_crops


def _square(block_size: Any) -> Any:
    """The vector [block_size, block_size]; TypeError for values that are not integers."""
    if not isinstance(block_size, (int, np.integer)):
        raise TypeError("block_size must be an integer, got %r." % (block_size,))
    return np.array([block_size, block_size], dtype=np.int64)


def space_to_batch(
    input: Any,
    paddings: Any,
    block_size: int | None = None,
    name: str | None = None,
    block_shape: Any = None,
) -> Any:
    """Moves square spatial blocks of a padded [b, h, w, c] tensor into the batch dimension."""
    block_size = deprecation.deprecated_argument_lookup("block_shape", block_shape, "block_size", block_size)
    result = space_to_batch_nd(input, paddings=paddings, block_shape=_square(block_size), name=name)
    result.set_shape(result.get_shape().with_rank(4))
    return result


def space_to_batch_nd(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Any:
    """Moves blocks of the dimensions 1..M of a padded tensor into the batch dimension."""
    return gen_array_ops.space_to_batch_nd(input, block_shape, paddings, name)


def space_to_batch_v2(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Any:
    """Moves blocks of the dimensions 1..M of a padded tensor into the batch dimension."""
    return space_to_batch_nd(input, block_shape, paddings, name)


def batch_to_space(
    input: Any, crops: Any, block_size: int | None = None, name: str | None = None, block_shape: Any = None
) -> Any:
    """Moves the batch dimension back into square spatial blocks and crops them."""
    block_size = deprecation.deprecated_argument_lookup("block_shape", block_shape, "block_size", block_size)
    result = batch_to_space_nd(input, crops=crops, block_shape=_square(block_size), name=name)
    result.set_shape(result.get_shape().with_rank(4))
    return result


def batch_to_space_nd(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Any:
    """Moves the batch dimension back into blocks of the dimensions 1..M and crops them."""
    return gen_array_ops.batch_to_space_nd(input, block_shape, crops, name)


def batch_to_space_v2(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Any:
    """Moves the batch dimension back into blocks; an integer `block_shape` means a square."""
    if isinstance(block_shape, int):
        block_shape = np.array([block_shape, block_shape], dtype=np.int64)
    return batch_to_space_nd(input=input, block_shape=block_shape, crops=crops, name=name)


def space_to_depth(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Any:
    """Moves spatial blocks of `block_size` into the depth dimension."""
    return gen_array_ops.space_to_depth(input, block_size, data_format, name=name)


def space_to_depth_v2(input: Any, block_size: int, data_format: str = "NHWC", name: str | None = None) -> Any:
    """Moves spatial blocks of `block_size` into the depth dimension."""
    return gen_array_ops.space_to_depth(input, block_size, data_format, name=name)


def depth_to_space(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Any:
    """Moves the depth dimension into spatial blocks of `block_size`."""
    return gen_array_ops.depth_to_space(input, block_size, data_format, name=name)


def depth_to_space_v2(input: Any, block_size: int, data_format: str = "NHWC", name: str | None = None) -> Any:
    """Moves the depth dimension into spatial blocks of `block_size`."""
    return gen_array_ops.depth_to_space(input, block_size, data_format, name=name)


def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: Any = None,
    batch_axis: Any = None,
    name: str | None = None,
    seq_dim: Any = None,
    batch_dim: Any = None,
) -> Any:
    """Reverses the first `seq_lengths[i]` elements along `seq_axis` for each i of `batch_axis`."""
    seq_axis = deprecation.deprecated_argument_lookup("seq_axis", seq_axis, "seq_dim", seq_dim)
    batch_axis = deprecation.deprecated_argument_lookup("batch_axis", batch_axis, "batch_dim", batch_dim)
    return gen_array_ops.reverse_sequence(
        input=input,
        seq_lengths=seq_lengths,
        seq_dim=seq_axis,
        batch_dim=0 if batch_axis is None else batch_axis,
        name=name,
    )


def reverse_sequence_v2(
    input: Any, seq_lengths: Any, seq_axis: Any = None, batch_axis: Any = None, name: str | None = None
) -> Any:
    """Reverses the first `seq_lengths[i]` elements along `seq_axis` for each i of `batch_axis`."""
    return reverse_sequence(input, seq_lengths, seq_axis, batch_axis, name)


def searchsorted(
    sorted_sequence: Any,
    values: Any,
    side: str = "left",
    out_type: Any = dtypes.int32,
    name: str | None = None,
) -> Any:
    """Returns where `values` would go into the sorted last axis of `sorted_sequence`.

    Args:
      sorted_sequence: a tensor [..., n], sorted along the last axis.
      values: a tensor [..., m] with the same leading dimensions.
      side: "left" (before equal elements) or "right" (after them).
      out_type: int32 or int64.
      name: name of the op.

    Raises:
      ValueError: another `side`.
    """
    sequence_size = shape_of(sorted_sequence)[-1]
    values_size = shape_of(values)[-1]
    sorted_2d = reshape(sorted_sequence, [-1, sequence_size])
    values_2d = reshape(values, [-1, values_size])
    if side == "right":
        output = gen_array_ops.upper_bound(sorted_2d, values_2d, out_type, name)
    elif side == "left":
        output = gen_array_ops.lower_bound(sorted_2d, values_2d, out_type, name)
    else:
        raise ValueError("side must be either 'right' or 'left'.  Saw: %s." % side)
    return reshape(output, shape_of(values))


def extract_image_patches(
    images: Any,
    ksizes: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: str | None = None,
    sizes: Any = None,
) -> Any:
    """Returns the patches of `images` in the depth dimension; `sizes` is another name of `ksizes`."""
    ksizes = deprecation.deprecated_argument_lookup("sizes", sizes, "ksizes", ksizes)
    return gen_array_ops.extract_image_patches(images, ksizes, strides, rates, padding, name)


def extract_image_patches_v2(
    images: Any, sizes: Any, strides: Any, rates: Any, padding: Any, name: str | None = None
) -> Any:
    """Returns the patches of `images` in the depth dimension."""
    return gen_array_ops.extract_image_patches(images, sizes, strides, rates, padding, name)


def fingerprint(data: Any, method: str = "farmhash64", name: str | None = None) -> Any:
    """Returns the 8 bytes of the fingerprint of each row of `data`, a uint8 matrix."""
    return gen_array_ops.fingerprint(data, method, name)


def quantize_v2(
    input: Any,
    min_range: Any,
    max_range: Any,
    T: Any,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    round_mode: str = "HALF_AWAY_FROM_ZERO",
) -> Any:
    """Returns (quantised `input` of type `T`, the smallest and the largest value that it represents)."""
    return gen_array_ops.quantize_v2(
        input, min_range, max_range, T=T, mode=mode, name=name, round_mode=round_mode
    )


def quantize(
    input: Any,
    min_range: Any,
    max_range: Any,
    T: Any,
    mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    name: str | None = None,
) -> Any:
    """Returns (quantised `input` of type `T`, the smallest and the largest value that it represents)."""
    return gen_array_ops.quantize_v2(
        input, min_range, max_range, T, mode=mode, round_mode=round_mode, name=name
    )


def quantize_and_dequantize(
    input: Any,
    input_min: Any,
    input_max: Any,
    signed_input: bool = True,
    num_bits: Any = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
) -> Any:
    """Rounds `input` to what quantised numbers of `num_bits` bits would hold."""
    return gen_array_ops.quantize_and_dequantize_v2(
        input,
        input_min=input_min,
        input_max=input_max,
        signed_input=signed_input,
        num_bits=num_bits,
        range_given=range_given,
        round_mode=round_mode,
        narrow_range=narrow_range,
        name=name,
    )


def sparse_mask(a: Any, mask_indices: Any, name: str | None = None) -> Any:
    """Returns the IndexedSlices `a` without the slices whose index is in the vector `mask_indices`."""
    if not isinstance(a, indexed_slices.IndexedSlices):
        raise TypeError("Expected IndexedSlices, got %r." % (a,))
    with ops.name_scope(name, "sparse_mask", [a, mask_indices]) as name:
        indices = a.indices
        out_indices, to_gather = gen_array_ops.list_diff(indices, mask_indices)
        out_values = gather(a.values, to_gather, name=name)
        return indexed_slices.IndexedSlices(out_values, out_indices, a.dense_shape)
