# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Array ops that join, split, permute and pad tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.framework import tensor_util
from millrace.python.ops import gen_array_ops
from millrace.python.ops import gen_math_ops
from millrace.python.ops._array_basic import identity
from millrace.python.ops._array_basic import rank
from millrace.python.ops._array_basic import shape as shape_of
from millrace.python.util import deprecation


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Any:
    """Returns the elements of `tensor` in the shape `shape`, where one size may be -1."""
    result = gen_array_ops.reshape(tensor, shape, name)
    tensor_util.maybe_set_static_shape(result, shape)
    return result


def stack(values: Any, axis: int = 0, name: str | None = "stack") -> Any:
    """Packs a list of tensors of one shape and type into one of a rank higher by one.

    Raises:
      ValueError: `axis` is outside of [-(R+1), R+1).
    """
    if axis == 0:
        try:
            # A list of constants is one constant.
            return ops.convert_to_tensor(values, name=name)
        except (TypeError, ValueError):
            pass
    if not isinstance(values, (list, tuple, np.ndarray, ops.Tensor)):
        raise TypeError("Expected a list of tensors, got %r." % (values,))
    value_shape = ops.convert_to_tensor(_first_of(values), name=name)._shape_tuple()
    if value_shape is not None:
        expanded = len(value_shape) + 1
        if axis < -expanded or axis >= expanded:
            raise ValueError("axis = %d not in [%d, %d)" % (axis, -expanded, expanded))
    return gen_array_ops.pack(values, axis=axis, name=name)


def _first_of(values: Any) -> Any:
    try:
        return values[0]
    except IndexError:
        raise ValueError("Expected one or more tensors to join, got %r." % (values,)) from None


def parallel_stack(values: Any, name: str | None = "parallel_stack") -> Any:
    """Packs a list of tensors along a new first axis, copying each as soon as it is available.

    All tensors have the static shape of the first one, which must be fully known.
    """
    with ops.name_scope(name):
        if not isinstance(values, (list, tuple, np.ndarray, ops.Tensor)):
            raise TypeError("Expected a list of tensors, got %r." % (values,))
        value = ops.convert_to_tensor(_first_of(values))
        value_shape = value.get_shape()
        output_shape = tensor_shape.TensorShape([len(values)]).concatenate(value_shape)
        # Each one is expanded to a row of the result.
        return gen_array_ops.parallel_concat(
            [gen_array_ops.expand_dims(value, 0) for value in values], shape=output_shape
        )


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str | None = "unstack") -> Any:
    """Returns the list of the slices of `value` along `axis`, each of a rank lower by one.

    Raises:
      ValueError: `num` is not given and the size of the axis is unknown, or `axis` is out of range.
    """
    if num is None:
        value = ops.convert_to_tensor(value)
        value_shape = value.get_shape()
        if value_shape.ndims is not None:
            if axis < -value_shape.ndims or axis >= value_shape.ndims:
                raise ValueError("axis = %d not in [%d, %d)" % (axis, -value_shape.ndims, value_shape.ndims))
            num = value_shape.dims[axis].value
    if num is None:
        raise ValueError("Cannot infer num from shape %s" % value_shape)
    return gen_array_ops.unpack(value, num=num, axis=axis, name=name)


def concat(values: Any, axis: Any, name: str = "concat") -> Any:
    """Joins tensors along `axis`, an existing dimension; the other dimensions are equal."""
    if not isinstance(values, (list, tuple)):
        values = [values]
    if len(values) == 1:
        # The axis is checked even though nothing is joined.
        with ops.name_scope(name) as scope:
            ops.convert_to_tensor(axis, name="concat_dim", dtype=dtypes.int32).get_shape().assert_has_rank(0)
            return identity(values[0], name=scope)
    return gen_array_ops.concat_v2(values=values, axis=axis, name=name)


def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str | None = "split"
) -> Any:
    """Splits `value` along `axis` into equal parts (an integer) or parts of the given sizes (a vector).

    Args:
      value: the tensor to split.
      num_or_size_splits: the number of parts, which divides the size, or a vector of sizes, one of which
        may be -1.
      axis: the axis to split.
      num: the number of sizes, needed where it is not known statically.
      name: name of the op.

    Returns:
      a list of tensors.

    Raises:
      ValueError: the number of parts is unknown.
    """
    size_splits = ops.convert_to_tensor(num_or_size_splits)
    if isinstance(num_or_size_splits, (int, np.integer, tensor_shape.Dimension)):
        return gen_array_ops.split(axis=axis, num_split=int(num_or_size_splits), value=value, name=name)
    if size_splits._rank() == 0:
        raise ValueError(
            "Rank-0 tensors are not supported as the num_or_size_splits argument to split. Argument"
            " provided: %s" % (num_or_size_splits,)
        )
    if num is None:
        size_splits_shape = size_splits._shape_tuple()
        if size_splits_shape:
            num = size_splits_shape[0]
        if num is None:
            raise ValueError("Cannot infer num from shape %s" % num_or_size_splits)
    return gen_array_ops.split_v(value=value, size_splits=size_splits, axis=axis, num_split=num, name=name)


def transpose(a: Any, perm: Any = None, name: str | None = "transpose", conjugate: bool = False) -> Any:
    """Permutes the dimensions of `a` by `perm` (None: reversed); `conjugate` complex elements."""
    with ops.name_scope(name, "transpose", [a]) as name:
        a = ops.convert_to_tensor(a, name="a") if not hasattr(a, "get_shape") else a
        transpose_fn = (
            gen_array_ops.conjugate_transpose if conjugate and a.dtype.is_complex else gen_array_ops.transpose
        )
        if perm is not None:
            return transpose_fn(a, perm, name=name)
        known = a.get_shape().ndims
        if known is None:
            a_rank = gen_array_ops.rank(a)
            perm = (a_rank - 1) - gen_math_ops._range(0, a_rank, 1)
        else:
            perm = (known - 1) - np.arange(known, dtype=np.int32)
        return transpose_fn(a, perm, name=name)


def transpose_v2(a: Any, perm: Any = None, conjugate: bool = False, name: str | None = "transpose") -> Any:
    """Permutes the dimensions of `a` by `perm` (None: reversed)."""
    return transpose(a=a, perm=perm, name=name, conjugate=conjugate)


def matrix_transpose(a: Any, name: str | None = "matrix_transpose", conjugate: bool = False) -> Any:
    """Swaps the last two dimensions of `a`; ValueError where its rank is below 2."""
    with ops.name_scope(name, values=[a]):
        a = ops.convert_to_tensor(a, name="a")
        ndims = a.get_shape().ndims
        if ndims is not None:
            if ndims < 2:
                raise ValueError(
                    "Argument 'a' should be a (batch) matrix, with rank >= 2.  Found: %s" % a.get_shape()
                )
            perm: Any = list(range(ndims - 2)) + [ndims - 1] + [ndims - 2]
        else:
            a_rank = rank(a)
            perm = concat((gen_math_ops._range(0, a_rank - 2, 1), [a_rank - 1, a_rank - 2]), 0)
        return transpose(a, perm=perm, conjugate=conjugate)


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Any:
    """Removes dimensions of size 1: those in `axis`, or all; `squeeze_dims` is the old name of `axis`."""
    axis = deprecation.deprecated_argument_lookup("axis", axis, "squeeze_dims", squeeze_dims)
    if np.isscalar(axis):
        axis = [axis]
    return gen_array_ops.squeeze(input, axis, name)


def squeeze_v2(input: Any, axis: Any = None, name: str | None = None) -> Any:
    """Removes dimensions of size 1: those in `axis`, or all."""
    return squeeze(input, axis, name)


def pad(
    tensor: Any,
    paddings: Any,
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: Any = 0,
) -> Any:
    """Pads each dimension of `tensor` by paddings[d, 0] elements before and paddings[d, 1] after.

    Args:
      tensor: a tensor of rank n.
      paddings: an integer matrix [n, 2].
      mode: CONSTANT, REFLECT (without the edge) or SYMMETRIC (with the edge), in any case.
      name: name of the op.
      constant_values: what CONSTANT pads with.

    Raises:
      ValueError: another mode.
    """
    mode = str(mode).upper()
    if mode == "CONSTANT":
        if (
            not tensor_util.is_tensor(constant_values)
            and np.ndim(constant_values) == 0
            and constant_values == 0
        ):
            result = gen_array_ops.pad(tensor, paddings, name=name)
        else:
            result = gen_array_ops.pad_v2(tensor, paddings, constant_values, name=name)
    elif mode in ("REFLECT", "SYMMETRIC"):
        result = gen_array_ops.mirror_pad(tensor, paddings, mode=mode, name=name)
    else:
        raise ValueError("Unknown padding mode: %s" % mode)
    if ops.executing_eagerly():
        return result
    # The paddings may be partially known, which the op's shape function does not handle.
    paddings_constant = tensor_util.constant_value(result.op.inputs[1], partial=True)
    input_shape = result.op.inputs[0].shape
    if (
        input_shape.ndims is not None
        and not result.shape.is_fully_defined()
        and paddings_constant is not None
    ):
        new_shape: list[Any] = []
        for padding, dim in zip(paddings_constant, input_shape.as_list()):
            if padding is None or dim is None or any(x is None for x in padding):
                new_shape.append(None)
            else:
                new_shape.append(sum(padding) + dim)
        result.set_shape(new_shape)
    return result


def pad_v2(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: str | None = None
) -> Any:
    """Pads each dimension of `tensor`; see `pad`."""
    return pad(tensor, paddings, mode, name, constant_values)


def meshgrid(*args: Any, **kwargs: Any) -> Any:
    """Returns for N vectors the N-dimensional coordinate arrays, as numpy.meshgrid.

    Args:
      *args: vectors (other tensors are flattened).
      **kwargs: `indexing`, "xy" (default; the first two axes swapped) or "ij", and `name`.

    Raises:
      TypeError: another keyword argument.
      ValueError: another indexing.
    """
    indexing = kwargs.pop("indexing", "xy")
    name = kwargs.pop("name", "meshgrid")
    if kwargs:
        raise TypeError("'{}' is an invalid keyword argument for this function".format(list(kwargs)[0]))
    if indexing not in ("xy", "ij"):
        raise ValueError("indexing parameter must be either 'xy' or 'ij'")
    with ops.name_scope(name, "meshgrid", args):
        ndim = len(args)
        output = []
        for i, x in enumerate(args):
            line = (1,) * i + (-1,) + (1,) * (ndim - i - 1)
            output.append(reshape(stack(x), line))
        shapes = [gen_array_ops.size(ops.convert_to_tensor(x)) for x in args]
        output_dtype = ops.convert_to_tensor(args[0]).dtype.base_dtype if args else dtypes.float32
        if indexing == "xy" and ndim > 1:
            output[0] = reshape(output[0], (1, -1) + (1,) * (ndim - 2))
            output[1] = reshape(output[1], (-1, 1) + (1,) * (ndim - 2))
            shapes[0], shapes[1] = shapes[1], shapes[0]
        mult_fact = gen_array_ops.fill(shapes, constant_op.constant(1, output_dtype)) if args else None
        return [x * mult_fact for x in output]


def repeat_with_axis(data: Any, repeats: Any, axis: Any, name: str | None = None) -> Any:
    """Repeats the elements of `data` along `axis`, element i `repeats[i]` (or `repeats`) times."""
    if not isinstance(axis, int):
        raise TypeError("axis must be an int; got %s" % type(axis).__name__)
    with ops.name_scope(name, "Repeat", [data, repeats]):
        data = ops.convert_to_tensor(data, name="data")
        repeats = ops.convert_to_tensor(repeats, name="repeats", preferred_dtype=dtypes.int32)
        if not repeats.dtype.is_integer:
            raise TypeError("repeats must be an integer tensor; dtype=%s" % repeats.dtype)
        repeats = gen_math_ops.cast(repeats, dtypes.int32)
        if repeats.shape.ndims is None or repeats.shape.ndims > 1:
            raise ValueError("repeats must be a scalar or a vector; got shape %s" % repeats.shape)
        data_ndims = data.shape.ndims
        if data_ndims is None:
            if axis < 0:
                raise ValueError("axis may only be negative if ndims is statically known.")
        elif not -data_ndims <= axis < data_ndims:
            raise ValueError("axis=%s out of bounds: expected %s<=axis<%s" % (axis, -data_ndims, data_ndims))
        elif axis < 0:
            axis += data_ndims
        axis_size = shape_of(data)[axis]
        counts = gen_array_ops.broadcast_to(repeats, [axis_size])
        # Result position p comes from the number of elements whose repeats all end at or before p.
        ends = gen_math_ops.cumsum(counts, 0)
        total = gen_math_ops._sum(counts, [0])
        positions = gen_math_ops._range(0, total, 1)
        before = gen_math_ops.less_equal(
            gen_array_ops.expand_dims(ends, 0), gen_array_ops.expand_dims(positions, 1)
        )
        indices = gen_math_ops._sum(gen_math_ops.cast(before, dtypes.int32), [1])
        result = gen_array_ops.gather_v2(data, indices, axis)
        if data_ndims is not None:
            dims = data.shape.as_list()
            dims[axis] = result.shape.dims[axis].value if result.shape.ndims is not None else None
            result.set_shape(dims)
        return result


def repeat(input: Any, repeats: Any, axis: Any = None, name: str | None = None) -> Any:
    """Repeats elements of `input` along `axis`, or of the flattened tensor where `axis` is None."""
    if axis is None:
        input = reshape(input, [-1])
        axis = 0
    return repeat_with_axis(input, repeats, axis, name)


def _autopacking_helper(list_or_tuple: Any, dtype: Any, name: str) -> Any:
    """Packs nested lists of tensors and values of `dtype` into one tensor."""
    must_pack = False
    converted_elems = []
    with ops.name_scope(name) as scope:
        for i, elem in enumerate(list_or_tuple):
            if isinstance(elem, ops.Tensor) or ops.is_dense_tensor_like(elem):
                if dtype is not None and elem.dtype.base_dtype != dtype:
                    raise TypeError(
                        "Cannot convert a list containing a tensor of dtype %s to %s (Tensor is: %s)"
                        % (elem.dtype, dtype, elem)
                    )
                converted_elems.append(elem)
                must_pack = True
            elif isinstance(elem, (list, tuple)):
                converted_elem = _autopacking_helper(elem, dtype, str(i))
                if isinstance(converted_elem, ops.Tensor):
                    must_pack = True
                converted_elems.append(converted_elem)
            else:
                converted_elems.append(elem)
        if not must_pack:
            return list_or_tuple
        elems_as_tensors = []
        for i, elem in enumerate(converted_elems):
            if isinstance(elem, ops.Tensor) or ops.is_dense_tensor_like(elem):
                elems_as_tensors.append(elem)
            else:
                elems_as_tensors.append(constant_op.constant(elem, dtype=dtype, name=str(i)))
        return gen_array_ops.pack(elems_as_tensors, name=scope)


def _get_dtype_from_nested_lists(list_or_tuple: Any) -> Any:
    """The base type of the first tensor in nested lists, None if there is no tensor."""
    for elem in list_or_tuple:
        if isinstance(elem, ops.Tensor) or ops.is_dense_tensor_like(elem):
            return elem.dtype.base_dtype
        if isinstance(elem, (list, tuple)):
            maybe_dtype = _get_dtype_from_nested_lists(elem)
            if maybe_dtype is not None:
                return maybe_dtype
    return None


def _cast_nested_seqs_to_dtype(dtype: Any, seq: Any) -> Any:
    """Casts the tensors in nested lists to `dtype`, leaving other values unchanged."""
    if isinstance(seq, (list, tuple)):
        return [_cast_nested_seqs_to_dtype(dtype, elem) for elem in seq]
    if (isinstance(seq, ops.Tensor) or ops.is_dense_tensor_like(seq)) and seq.dtype.base_dtype != dtype:
        return gen_math_ops.cast(seq, dtype)
    return seq


def _autopacking_conversion_function(
    v: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False
) -> Any:
    """Converts lists in which there are tensors; leaves others to the conversion of constants."""
    if as_ref:
        return NotImplemented
    inferred_dtype = _get_dtype_from_nested_lists(v)
    if inferred_dtype is None:
        return NotImplemented
    if dtype is None:
        dtype = inferred_dtype
    elif dtype != inferred_dtype:
        v = _cast_nested_seqs_to_dtype(dtype, v)
    return _autopacking_helper(v, dtype, name or "packed")


ops.register_tensor_conversion_function((list, tuple), _autopacking_conversion_function, 99)
