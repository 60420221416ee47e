# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Products of matrices and tensors, and sums of many tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import dtypes
from millrace.python.framework import indexed_slices
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops import gen_math_ops
from millrace.python.ops._math_elementwise import cast
from millrace.python.ops._math_elementwise import conj
from millrace.python.ops._math_reductions import reduce_prod
from millrace.python.ops._math_reductions import reduce_sum

sparse_matmul = gen_math_ops.sparse_mat_mul


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Returns the product of matrices, or of batches of matrices whose leading dimensions broadcast.

    Args:
      a, b: tensors of rank >= 2 of one type: float16, bfloat16, float32, float64, int32, complex.
      transpose_a, transpose_b: whether to transpose the last two dimensions first.
      adjoint_a, adjoint_b: whether to transpose and conjugate them first.
      a_is_sparse, b_is_sparse: whether a matrix has many zeros, for a kernel that skips them.
      name: name of the op.

    Raises:
      ValueError: a matrix is to be both transposed and adjoint.
    """
    with ops.name_scope(name, "MatMul", [a, b]) as name:
        if transpose_a and adjoint_a:
            raise ValueError("Only one of transpose_a and adjoint_a can be True.")
        if transpose_b and adjoint_b:
            raise ValueError("Only one of transpose_b and adjoint_b can be True.")
        a = ops.convert_to_tensor(a, name="a")
        b = ops.convert_to_tensor(b, name="b")
        a_shape, b_shape = a._shape_tuple(), b._shape_tuple()
        may_be_batch = a_shape is None or len(a_shape) > 2 or b_shape is None or len(b_shape) > 2
        if not a_is_sparse and not b_is_sparse and may_be_batch:
            # The batched op only supports adjoint matrices: a transposed one is the adjoint of its conjugate.
            if transpose_a:
                a, adjoint_a = conj(a), True
            if transpose_b:
                b, adjoint_b = conj(b), True
            return gen_math_ops.batch_mat_mul_v2(a, b, adj_x=adjoint_a, adj_y=adjoint_b, name=name)
        if adjoint_a:
            a, transpose_a = conj(a), True
        if adjoint_b:
            b, transpose_b = conj(b), True
        use_sparse_matmul = False
        if a_is_sparse or b_is_sparse:
            sparse_types = (dtypes.bfloat16, dtypes.float32)
            use_sparse_matmul = a.dtype in sparse_types and b.dtype in sparse_types
        if (a.dtype == dtypes.bfloat16 or b.dtype == dtypes.bfloat16) and a.dtype != b.dtype:
            use_sparse_matmul = True
        if use_sparse_matmul:
            ret = sparse_matmul(  # type: ignore[misc]
                a,
                b,
                transpose_a=transpose_a,
                transpose_b=transpose_b,
                a_is_sparse=a_is_sparse,
                b_is_sparse=b_is_sparse,
                name=name,
            )
            if a.dtype == dtypes.bfloat16 and b.dtype == dtypes.bfloat16:
                ret = cast(ret, dtypes.bfloat16)
            return ret
        return gen_math_ops.mat_mul(a, b, transpose_a=transpose_a, transpose_b=transpose_b, name=name)


def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Returns the product of a matrix [..., m, n] and a vector [..., n]: a vector [..., m]."""
    with ops.name_scope(name, "MatVec", [a, b]) as name:
        output = matmul(
            a,
            array_ops.expand_dims(b, axis=-1),
            transpose_a=transpose_a,
            adjoint_a=adjoint_a,
            a_is_sparse=a_is_sparse,
            b_is_sparse=b_is_sparse,
        )
        return array_ops.squeeze(output, axis=-1)


def trace(x: Any, name: str | None = None) -> Any:
    """Returns the sum of the main diagonal of each matrix [..., m, n]."""
    with ops.name_scope(name, "Trace", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        return reduce_sum(array_ops.matrix_diag_part(x), [-1], name=name)


def _as_indexed_slices(x: Any, optimize: bool = True) -> Any:
    """Makes a dense tensor IndexedSlices of all its rows."""
    if not isinstance(x, (ops.Tensor, indexed_slices.IndexedSlices)):
        raise TypeError("Not a Tensor or IndexedSlices: %s" % type(x))
    if isinstance(x, indexed_slices.IndexedSlices):
        return x
    x_shape = array_ops.shape_internal(x, optimize=optimize)
    return indexed_slices.IndexedSlices(x, gen_math_ops._range(0, x_shape[0], 1), x_shape)


def _as_indexed_slices_list(inputs: Any, optimize: bool = True) -> Any:
    """Makes all tensors IndexedSlices whose indices are of one type."""
    if not isinstance(inputs, (list, tuple)):
        raise TypeError("Expected a list or tuple, not a %s" % type(inputs))
    outputs = [_as_indexed_slices(i, optimize=optimize) for i in inputs]
    with_int32_index = [o.indices for o in outputs if o.indices.dtype == dtypes.int32]
    if not with_int32_index or len(with_int32_index) == len(outputs):
        return outputs
    return [
        indexed_slices.IndexedSlices(o.values, cast(o.indices, dtypes.int64), o.dense_shape)
        if o.indices.dtype == dtypes.int32
        else o
        for o in outputs
    ]


def add_n(inputs: Any, name: str | None = None) -> Any:
    """Returns the sum of tensors (or IndexedSlices) of one shape and type.

    Raises:
      ValueError: `inputs` is empty, no list, or its elements have no common type.
    """
    message = "inputs must be a list of at least one Tensor/IndexedSlices with the same dtype and shape"
    if not inputs or not isinstance(inputs, (list, tuple)):
        raise ValueError(message)
    inputs = ops.convert_n_to_tensor_or_indexed_slices(inputs)
    if not all(isinstance(x, (ops.Tensor, indexed_slices.IndexedSlices)) for x in inputs):
        raise ValueError(message)
    if len(inputs) == 1:
        values = (
            ops.convert_to_tensor(inputs[0])
            if isinstance(inputs[0], indexed_slices.IndexedSlices)
            else inputs[0]
        )
        return array_ops.identity(values, name=name) if name else values
    return gen_math_ops.add_n(inputs, name=name)


def accumulate_n(inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Any:
    """Returns the sum of tensors, adding each as soon as it is available.

    Args:
      inputs: a list of tensors of one shape and type.
      shape: the shape, where the inputs' is not known.
      tensor_dtype: the expected type, checked only.
      name: name of the op.

    Raises:
      ValueError: shapes or types differ or cannot be known.
      TypeError: `tensor_dtype` is another type than the inputs'.
    """
    message = "inputs must be a list of at least one Tensor with the same dtype and shape"
    if not inputs or not isinstance(inputs, (list, tuple)):
        raise ValueError(message)
    inputs = ops.convert_n_to_tensor_or_indexed_slices(inputs)
    if not all(isinstance(x, ops.Tensor) for x in inputs):
        raise ValueError(message)
    if not all(x.dtype == inputs[0].dtype for x in inputs):
        raise ValueError(message)
    shape = tensor_shape.as_shape(shape) if shape is not None else tensor_shape.unknown_shape()
    for input_tensor in inputs:
        shape = shape.merge_with(input_tensor.get_shape())
    if tensor_dtype is not None and tensor_dtype != inputs[0].dtype:
        raise TypeError("tensor_dtype is {}, but input is of type {}".format(tensor_dtype, inputs[0].dtype))
    if len(inputs) == 1 and name is None:
        return inputs[0]
    if len(inputs) == 1:
        return array_ops.identity(inputs[0], name=name)
    return add_n(inputs, name=name)


_MOST_DIMENSIONS = 254  # of any tensor


def _free_and_contracted(a: Any, axes: list[int], first: bool) -> tuple[list[int], list[int]]:
    """The axes of a tensor of known rank in the order that makes it a matrix, and the free axes."""
    rank = a.get_shape().ndims
    axes = [i if i >= 0 else i + rank for i in axes]
    if any(i < 0 or i >= rank for i in axes):
        raise ValueError("'axes' are out of range for a tensor of rank %d: %s" % (rank, axes))
    free = [i for i in range(rank) if i not in axes]
    return (free + axes if first else axes + free), free


def _tensordot_matrix(a: Any, axes: Any, first: bool) -> tuple[Any, Any, Any]:
    """Transposes and reshapes an operand to a matrix: free axes by contracted ones, or the other way.

    Returns the matrix, the sizes of the free axes (a list or a tensor), and their static sizes or None.
    """
    if a.get_shape().ndims is not None and isinstance(axes, (list, tuple)):
        perm, free = _free_and_contracted(a, [int(i) for i in axes], first)
        dims = a.get_shape().as_list()
        free_static = [dims[i] for i in free]
        if perm != list(range(len(perm))):
            a = array_ops.transpose(a, perm)
        contracted = [dims[i] for i in perm if i not in free]
        if all(d is not None for d in free_static + contracted):
            shape = [int(np.prod(free_static)), int(np.prod(contracted))]
            return array_ops.reshape(a, shape if first else shape[::-1]), free_static, free_static
        shape_a = array_ops.shape(a)
        count = len(free)
        free_dims = shape_a[:count] if first else shape_a[len(perm) - count :]
        contracted_dims = shape_a[count:] if first else shape_a[: len(perm) - count]
        parts = [reduce_prod(free_dims), reduce_prod(contracted_dims)]
        result = array_ops.reshape(a, array_ops.stack(parts if first else parts[::-1]))
        return result, free_dims, free_static
    from millrace.python.ops import gen_array_ops

    shape_a = array_ops.shape(a)
    rank_a = array_ops.rank(a)
    axes = ops.convert_to_tensor(axes, dtype=dtypes.int32, name="axes")
    axes = gen_math_ops.select(axes >= 0, axes, axes + rank_a)
    free, _ = gen_array_ops.list_diff(gen_math_ops._range(0, rank_a, 1), axes, dtypes.int32)
    free_dims = array_ops.gather(shape_a, free)
    contracted_dims = array_ops.gather(shape_a, axes)
    perm_t = array_ops.concat([free, axes] if first else [axes, free], 0)
    parts = [reduce_prod(free_dims), reduce_prod(contracted_dims)]
    new_shape = array_ops.stack(parts if first else parts[::-1])
    return array_ops.reshape(array_ops.transpose(a, perm_t), new_shape), free_dims, None


def _tensordot_axes(a: Any, axes: Any) -> tuple[Any, Any]:
    """The contracted axes of both tensors, from a number or a pair."""
    a_shape = a.get_shape()
    if isinstance(axes, (int, np.integer)):
        if axes < 0:
            raise ValueError("'axes' must be at least 0.")
        if a_shape.ndims is not None:
            if axes > a_shape.ndims:
                raise ValueError("'axes' must not be larger than the number of dimensions of tensor %s." % a)
            return list(range(a_shape.ndims - axes, a_shape.ndims)), list(range(axes))
        if axes > _MOST_DIMENSIONS:
            raise ValueError("'axes' must not be larger than the number of dimensions of tensor %s." % a)
        rank = array_ops.rank(a)
        return gen_math_ops._range(rank - axes, rank, 1), list(range(axes))
    if isinstance(axes, (list, tuple)):
        if len(axes) != 2:
            raise ValueError("'axes' must be an integer or have length 2.")
        a_axes, b_axes = axes
        if isinstance(a_axes, (int, np.integer)) and isinstance(b_axes, (int, np.integer)):
            return [a_axes], [b_axes]
        a_axes = list(a_axes) if isinstance(a_axes, np.ndarray) else a_axes
        b_axes = list(b_axes) if isinstance(b_axes, np.ndarray) else b_axes
        if (
            isinstance(a_axes, (list, tuple))
            and isinstance(b_axes, (list, tuple))
            and len(a_axes) != len(b_axes)
        ):
            raise ValueError(
                "Different number of contraction axes 'a' and 'b', %s != %s." % (len(a_axes), len(b_axes))
            )
        return a_axes, b_axes
    axes = ops.convert_to_tensor(axes, name="axes", dtype=dtypes.int32)
    return axes[0], axes[1]


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Any:
    """Returns the sum over products of elements along pairs of axes, as numpy.tensordot.

    Args:
      a, b: tensors of one type, float32 or float64.
      axes: a number N (the last N axes of `a` with the first N of `b`) or a pair of lists of axes.
      name: name of the op.

    Raises:
      ValueError: `axes` does not fit the tensors.
    """
    with ops.name_scope(name, "Tensordot", [a, b, axes]) as name:
        a = ops.convert_to_tensor(a, name="a")
        b = ops.convert_to_tensor(b, name="b")
        a_axes, b_axes = _tensordot_axes(a, axes)
        a_reshape, a_free_dims, a_static = _tensordot_matrix(a, a_axes, True)
        b_reshape, b_free_dims, b_static = _tensordot_matrix(b, b_axes, False)
        product = matmul(a_reshape, b_reshape)
        if isinstance(a_free_dims, list) and isinstance(b_free_dims, list):
            return array_ops.reshape(product, a_free_dims + b_free_dims, name=name)
        a_free_dims = ops.convert_to_tensor(a_free_dims, dtype=dtypes.int32)
        b_free_dims = ops.convert_to_tensor(b_free_dims, dtype=dtypes.int32)
        product = array_ops.reshape(product, array_ops.concat([a_free_dims, b_free_dims], 0), name=name)
        if a_static is not None and b_static is not None:
            product.set_shape(a_static + b_static)
        return product
