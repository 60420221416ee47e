# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients of ops that have no gradient in the engine: sparse tensors, batches and some others.

They are looked up only when the engine reports that an op has no gradient.
"""
from __future__ import annotations

from typing import Any, Callable

from millrace.python.framework import dtypes
from millrace.python.framework import indexed_slices
from millrace.python.framework import sparse_tensor
from millrace.python.ops import array_ops
from millrace.python.ops import gen_batch_ops
from millrace.python.ops import gen_image_ops
from millrace.python.ops import gen_resource_variable_ops
from millrace.python.ops import gen_sparse_ops
from millrace.python.ops import math_ops

_functions: dict[str, Any] = {}

# Gradients end at these.
for _op_type in (
    "PyFunc PyFuncStateless DenseToDenseSetOperation DenseToSparseSetOperation SparseToSparseSetOperation SetSize"
    " DecodePaddedRaw HostConst SparseAddGrad MatrixExponential StatefulRandomBinomial QuantizedConcat UnbatchGrad"
).split():
    _functions[_op_type] = None


def find(op_type: str) -> tuple[bool, Any]:
    """Whether there is an entry for an op, and its function, None where gradients end."""
    return op_type in _functions, _functions.get(op_type)


def _of(op_type: str) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        _functions[op_type] = function
        return function

    return register


@_of("SparseAdd")
def _sparse_add(op: Any, *grads: Any) -> Any:
    a, b = gen_sparse_ops.sparse_add_grad(grads[1], op.inputs[0], op.inputs[3], op.outputs[0])
    a.set_shape(op.inputs[1].get_shape())
    b.set_shape(op.inputs[4].get_shape())
    return None, a, None, None, b, None, None


@_of("SparseTensorDenseAdd")
def _sparse_tensor_dense_add(op: Any, grad: Any) -> Any:
    return None, array_ops.gather_nd(grad, op.inputs[0]), None, grad


@_of("SparseReduceSum")
def _sparse_reduce_sum(op: Any, grad: Any) -> Any:
    indices, shape = op.inputs[0], op.inputs[2]
    kept = math_ops.reduced_shape(shape, op.inputs[3])
    # Each element's gradient is that of the reduced element it was added to.
    scale = shape // math_ops.cast(kept, dtypes.int64)
    return None, array_ops.gather_nd(array_ops.reshape(grad, kept), indices // scale), None, None


def _places_in_dense(op: Any) -> Any:
    """Indices, in the dense operand that is broadcast, of the elements of the sparse one."""
    indices, shape, dense = op.inputs[0], op.inputs[2], op.inputs[3]
    dense_shape = math_ops.cast(array_ops.shape(dense), dtypes.int64)
    added = array_ops.expand_dims(array_ops.size(shape) - array_ops.size(dense_shape), 0)
    augmented = array_ops.concat([array_ops.ones(added, dtypes.int64), dense_shape], 0)
    scaled = indices // (shape // augmented)
    return array_ops.slice(scaled, array_ops.concat([[0], added], 0), [-1, -1]), dense_shape


def _to_dense(op: Any, values: Any, places: Any, dense_shape: Any) -> Any:
    from millrace.python.ops import sparse_ops

    # Places repeat where the dense operand is broadcast.
    rows = sparse_tensor.SparseTensor(places, values, dense_shape)
    return sparse_ops.sparse_add(array_ops.zeros_like(op.inputs[3]), rows)


@_of("SparseDenseCwiseMul")
def _sparse_dense_mul(op: Any, grad: Any) -> Any:
    places, dense_shape = _places_in_dense(op)
    dense = array_ops.gather_nd(op.inputs[3], places)
    return None, grad * dense, None, _to_dense(op, grad * op.inputs[1], places, dense_shape)


@_of("SparseDenseCwiseDiv")
def _sparse_dense_div(op: Any, grad: Any) -> Any:
    places, dense_shape = _places_in_dense(op)
    dense = array_ops.gather_nd(op.inputs[3], places)
    values = grad * (-op.inputs[1] / math_ops.square(dense))
    return None, grad / dense, None, _to_dense(op, values, places, dense_shape)


def _not_implemented(op_type: str) -> None:
    def raise_error(unused_op: Any, *unused_grads: Any) -> Any:
        raise NotImplementedError("Gradient for %s is currently not implemented yet." % op_type)

    _functions[op_type] = raise_error


for _op_type in ("SparseDenseCwiseAdd", "SparseSparseMaximum", "SparseSparseMinimum"):
    _not_implemented(_op_type)


@_of("SparseSoftmax")
def _sparse_softmax(op: Any, grad: Any) -> Any:
    from millrace.python.ops import sparse_ops

    indices, shape, softmax = op.inputs[0], op.inputs[2], op.outputs[0]
    product = sparse_tensor.SparseTensor(indices, softmax * grad, shape)
    total = -sparse_ops.sparse_reduce_sum(product, [-1], keepdims=True)
    moved = sparse_ops.sparse_dense_cwise_add(sparse_tensor.SparseTensor(indices, grad, shape), total)
    return None, moved.values * softmax, None


@_of("SparseMatMul")
def _sparse_mat_mul(op: Any, grad: Any) -> Any:
    a, b = (math_ops.cast(t, dtypes.float32) for t in op.inputs)
    transpose_a, transpose_b = op.get_attr("transpose_a"), op.get_attr("transpose_b")
    if transpose_a:
        grad_a = math_ops.matmul(b, grad, transpose_a=transpose_b, transpose_b=True)
    else:
        grad_a = math_ops.matmul(grad, b, transpose_b=not transpose_b)
    if transpose_b:
        grad_b = math_ops.matmul(grad, a, transpose_a=True, transpose_b=transpose_a)
    else:
        grad_b = math_ops.matmul(a, grad, transpose_a=not transpose_a)
    return math_ops.cast(grad_a, op.inputs[0].dtype), math_ops.cast(grad_b, op.inputs[1].dtype)


@_of("ScatterNdNonAliasingAdd")
def _scatter_nd_add(op: Any, grad: Any) -> Any:
    return grad, None, array_ops.gather_nd(grad, op.inputs[1])


@_of("ResourceGatherNd")
def _resource_gather_nd(op: Any, grad: Any) -> Any:
    indices = op.inputs[1]
    shape = gen_resource_variable_ops.variable_shape(op.inputs[0], indices.dtype)
    if indices.shape.ndims == 2 and indices.shape.dims[-1].value == 1:
        return indexed_slices.IndexedSlices(grad, array_ops.squeeze(indices, axis=-1), shape), None
    return array_ops.scatter_nd(indices, grad, shape), None


@_of("ScaleAndTranslate")
def _scale_and_translate(op: Any, grad: Any) -> Any:
    found = gen_image_ops.scale_and_translate_grad(
        grad, op.inputs[0], op.inputs[2], op.inputs[3], kernel_type=op.get_attr("kernel_type"),
        antialias=op.get_attr("antialias"),
    )  # fmt: skip
    return found, None, None, None


@_of("Batch")
def _batch(op: Any, *grads: Any) -> Any:
    return [
        gen_batch_ops.unbatch(
            grads[i], op.outputs[-2], op.outputs[-1], timeout_micros=op.get_attr("grad_timeout_micros"),
            shared_name="batch_gradient_{}_{}".format(op.name, i),
        )
        for i in range(len(op.inputs))
    ]  # fmt: skip


@_of("Unbatch")
def _unbatch(op: Any, grad: Any) -> Any:
    name = "unbatch_gradient_{}".format(op.name)
    return (
        gen_batch_ops.unbatch_grad(op.inputs[0], op.inputs[1], grad, op.inputs[2], shared_name=name),
        None,
        None,
    )
