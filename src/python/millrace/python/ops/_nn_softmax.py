# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Softmax and the cross entropies of logits."""
from __future__ import annotations

from typing import Any, Callable, Optional

from millrace.python.framework import dtypes, errors_impl, ops, tensor_util
from millrace.python.ops import array_ops, check_ops, gen_nn_ops, math_ops
from millrace.python.util import deprecation


def _ensure_xent_args(name: str, sentinel: Any, labels: Any, logits: Any) -> None:
    """Raises ValueError unless labels and logits were given as named arguments."""
    if sentinel is not None:
        raise ValueError("Only call `%s` with named arguments (labels=..., logits=..., ...)" % name)
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")


def _flatten_outer_dims(logits: Any) -> Any:
    """Returns `logits` as a matrix of its last dimension."""
    rank = array_ops.rank(logits)
    last_dim_size = array_ops.slice(array_ops.shape(logits), [math_ops.subtract(rank, 1)], [1])
    output = array_ops.reshape(logits, array_ops.concat([[-1], last_dim_size], 0))
    shape = logits.get_shape()
    if shape.ndims is not None and shape.ndims > 0:
        dims = shape.as_list()
        if None not in dims[:-1]:
            product = 1
            for dim in dims[:-1]:
                product *= dim
            output.set_shape([product, dims[-1]])
    return output


def _swap_axis(tensor: Any, dim_index: Any, last_index: Any, name: Optional[str] = None) -> Any:
    order = [math_ops.range(dim_index), [last_index], math_ops.range(dim_index + 1, last_index), [dim_index]]
    return array_ops.transpose(tensor, array_ops.concat(order, 0), name=name)


def _softmax(logits: Any, compute_op: Callable[..., Any], dim: Any = -1, name: Optional[str] = None) -> Any:
    """Runs `compute_op`, which works on the last dimension, on dimension `dim`."""
    logits = ops.convert_to_tensor(logits)
    shape = logits.get_shape()
    dim_value = tensor_util.constant_value(dim) if tensor_util.is_tensor(dim) else dim
    if dim_value == -1 or (shape.ndims is not None and dim_value == shape.ndims - 1):
        return compute_op(logits, name=name)
    if dim_value is not None and shape.ndims is not None and not -shape.ndims <= dim_value < shape.ndims:
        raise errors_impl.InvalidArgumentError(
            None,
            None,
            "Dimension (%s) must be in the range [%d, %d) where %d is the number of dimensions in the input."
            % (dim_value, -shape.ndims, shape.ndims, shape.ndims),
        )
    ndims: Any = shape.ndims if shape.ndims is not None else array_ops.rank(logits)
    axis = dim_value if dim_value is not None else dim
    if dim_value is None:
        axis = math_ops.floormod(dim, ndims)
    elif dim_value < 0:
        axis = dim_value + ndims
    logits = _swap_axis(logits, axis, math_ops.subtract(ndims, 1))
    output = compute_op(logits)
    output = _swap_axis(output, axis, math_ops.subtract(ndims, 1), name=name)
    output.set_shape(shape)
    return output


def softmax(logits: Any, axis: Any = None, name: Optional[str] = None, dim: Any = None) -> Any:
    """Returns exp(logits) / sum(exp(logits)) over `axis` (default: the last)."""
    axis = deprecation.deprecated_argument_lookup("axis", axis, "dim", dim)
    return _softmax(logits, gen_nn_ops.softmax, -1 if axis is None else axis, name)


def softmax_v2(logits: Any, axis: Any = None, name: Optional[str] = None) -> Any:
    """As `softmax`, with the arguments of version 2."""
    return _softmax(logits, gen_nn_ops.softmax, -1 if axis is None else axis, name)


def log_softmax(logits: Any, axis: Any = None, name: Optional[str] = None, dim: Any = None) -> Any:
    """Returns logits - log(sum(exp(logits))) over `axis` (default: the last)."""
    axis = deprecation.deprecated_argument_lookup("axis", axis, "dim", dim)
    return _softmax(logits, gen_nn_ops.log_softmax, -1 if axis is None else axis, name)


def log_softmax_v2(logits: Any, axis: Any = None, name: Optional[str] = None) -> Any:
    """As `log_softmax`, with the arguments of version 2."""
    return _softmax(logits, gen_nn_ops.log_softmax, -1 if axis is None else axis, name)


def softmax_cross_entropy_with_logits_v2(
    labels: Any, logits: Any, axis: Any = -1, name: Optional[str] = None
) -> Any:
    """Returns the cross entropies of probabilities `labels` and softmax(`logits`); gradients flow into both."""
    return softmax_cross_entropy_with_logits_v2_helper(labels=labels, logits=logits, axis=axis, name=name)


def softmax_cross_entropy_with_logits_v2_helper(
    labels: Any, logits: Any, axis: Any = None, name: Optional[str] = None, dim: Any = None
) -> Any:
    """As `softmax_cross_entropy_with_logits_v2`, with the older name `dim` of `axis`, too."""
    axis = deprecation.deprecated_argument_lookup("axis", axis, "dim", dim)
    if axis is None:
        axis = -1
    with ops.name_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]) as name:
        logits = ops.convert_to_tensor(logits, name="logits")
        labels = ops.convert_to_tensor(labels, name="labels")
        to_float32 = logits.dtype in (dtypes.float16, dtypes.bfloat16)
        precise_logits = math_ops.cast(logits, dtypes.float32) if to_float32 else logits
        labels = math_ops.cast(labels, precise_logits.dtype)
        input_rank = array_ops.rank(precise_logits)
        shape = logits.get_shape()
        if axis != -1:
            precise_logits = _move_dim_to_end(precise_logits, axis, input_rank)
            labels = _move_dim_to_end(labels, axis, input_rank)
        input_shape = array_ops.shape(precise_logits)
        precise_logits = _flatten_outer_dims(precise_logits)
        labels = _flatten_outer_dims(labels)
        cost, _ = gen_nn_ops.softmax_cross_entropy_with_logits(precise_logits, labels, name=name)
        output_shape = array_ops.slice(input_shape, [0], [math_ops.subtract(input_rank, 1)])
        cost = array_ops.reshape(cost, output_shape)
        if shape.ndims is not None:
            dims = shape.as_list()
            if not -len(dims) <= axis < len(dims):
                raise ValueError("axis %d is out of range of tensors of rank %d" % (axis, len(dims)))
            del dims[axis]
            cost.set_shape(dims)
        return math_ops.cast(cost, logits.dtype) if to_float32 else cost


def _move_dim_to_end(tensor: Any, dim_index: Any, rank: Any) -> Any:
    if not tensor_util.is_tensor(dim_index) and dim_index < 0:
        dim_index = rank + dim_index
    order = [math_ops.range(dim_index), math_ops.range(dim_index + 1, rank), [dim_index]]
    return array_ops.transpose(tensor, array_ops.concat(order, 0))


def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: Any = -1,
    name: Optional[str] = None,
    axis: Any = None,
) -> Any:
    """Returns the cross entropies of probabilities `labels` and softmax(`logits`); gradients flow into `logits` only."""
    if axis is not None:
        dim = axis
    _ensure_xent_args("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    with ops.name_scope(name, "softmax_cross_entropy_with_logits_sg", [logits, labels]) as name:
        labels = array_ops.stop_gradient(labels, name="labels_stop_gradient")
    return softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, axis=dim, name=name)


def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: Optional[str] = None
) -> Any:
    """Returns the cross entropies of class indices `labels` and softmax(`logits`), of the shape of `labels`.

    Raises ValueError for scalar logits and for ranks or shapes that do not fit.
    """
    _ensure_xent_args("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    with ops.name_scope(name, "SparseSoftmaxCrossEntropyWithLogits", [labels, logits]):
        labels = ops.convert_to_tensor(labels)
        logits = ops.convert_to_tensor(logits)
        half = logits.dtype in (dtypes.float16, dtypes.bfloat16)
        precise_logits = math_ops.cast(logits, dtypes.float32) if logits.dtype == dtypes.float16 else logits
        half = half and logits.dtype == dtypes.float16
        labels_static_shape = labels.get_shape()
        labels_shape = array_ops.shape(labels)
        logits_shape = logits.get_shape()
        if logits_shape.ndims == 0:
            raise ValueError("Logits cannot be scalars - received shape %s." % logits_shape)
        static = labels_static_shape.is_fully_defined() and logits_shape[:-1].is_fully_defined()
        if logits_shape.ndims is not None and labels_static_shape.ndims not in (None, logits_shape.ndims - 1):
            raise ValueError(
                "Rank mismatch: Rank of labels (received %s) should equal rank of logits minus 1 (received %s)."
                % (labels_static_shape.ndims, logits_shape.ndims)
            )
        if static and labels_static_shape.as_list() != logits_shape[:-1].as_list():
            raise ValueError(
                "Shape mismatch: The shape of labels (received %s) should equal the shape of logits except for the last "
                "dimension (received %s)." % (labels_static_shape, logits_shape)
            )
        if logits_shape.ndims == 2:
            cost, _ = gen_nn_ops.sparse_softmax_cross_entropy_with_logits(precise_logits, labels, name=name)
            return math_ops.cast(cost, dtypes.float16) if half else cost
        shape_checks = []
        if not static:
            shape_checks.append(check_ops.assert_equal(array_ops.shape(labels), array_ops.shape(logits)[:-1]))
        with ops.control_dependencies(shape_checks):
            num_classes = array_ops.shape(logits)[array_ops.rank(logits) - 1]
            precise_logits = array_ops.reshape(precise_logits, [-1, num_classes])
            labels = array_ops.reshape(labels, [-1])
            cost, _ = gen_nn_ops.sparse_softmax_cross_entropy_with_logits(precise_logits, labels, name=name)
            cost = array_ops.reshape(cost, labels_shape)
            cost.set_shape(labels_static_shape)
            return math_ops.cast(cost, dtypes.float16) if half else cost


def sparse_softmax_cross_entropy_with_logits_v2(labels: Any, logits: Any, name: Optional[str] = None) -> Any:
    """As `sparse_softmax_cross_entropy_with_logits`, with the arguments of version 2."""
    return sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)
