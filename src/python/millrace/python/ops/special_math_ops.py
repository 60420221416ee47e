# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Special functions, and sums of products in Einstein notation."""
from __future__ import annotations

import functools
import re
from typing import Any, Optional

import numpy as np

from millrace.python.framework import ops
from millrace.python.ops import array_ops, math_ops


def lbeta(x: Any, name: Optional[str] = None) -> Any:
    """Returns log|Beta(x)| of each vector along the last axis of `x`, floats; -inf for an empty vector.

    The logarithm of the multinomial Beta function: sum(lgamma(x)) - lgamma(sum(x)).
    """
    with ops.name_scope(name, "lbeta", [x]):
        x = ops.convert_to_tensor(x, name="x")
        log_prod_gamma_x = math_ops.reduce_sum(math_ops.lgamma(x), axis=[-1])
        log_gamma_sum_x = math_ops.lgamma(math_ops.reduce_sum(x, axis=[-1]))
        return math_ops.subtract(log_prod_gamma_x, log_gamma_sum_x)


def bessel_i0(x: Any, name: Optional[str] = None) -> Any:
    """Returns the modified Bessel function of order 0: exp(|x|) bessel_i0e(x)."""
    with ops.name_scope(name, "bessel_i0", [x]):
        return math_ops.exp(math_ops.abs(x)) * math_ops.bessel_i0e(x)


def bessel_i1(x: Any, name: Optional[str] = None) -> Any:
    """Returns the modified Bessel function of order 1: exp(|x|) bessel_i1e(x)."""
    with ops.name_scope(name, "bessel_i1", [x]):
        return math_ops.exp(math_ops.abs(x)) * math_ops.bessel_i1e(x)


def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Any:
    """Sums products of tensors as `equation` says: "ij,jk->ik" is a product of matrices.

    Args:
      equation: labels (letters) of the axes of each input, after "->" those of the result; without "->" the result
        has the labels that come once, in alphabetical order.
      *inputs: tensors of the same type.
      **kwargs: `name`, the name scope.

    Returns:
      A tensor with the axes that the equation names.

    Raises:
      ValueError: the equation is not supported (a label twice in one input, a misplaced ellipsis), or does
        not fit the inputs.
      TypeError: other keyword arguments.
    """
    if not isinstance(equation, str):
        raise TypeError("Expected the equation as a string, got %r." % (equation,))
    inputs = tuple(ops.convert_to_tensor(x) for x in inputs)
    equation = equation.replace(" ", "")
    name = kwargs.pop("name", None)
    if kwargs:
        raise TypeError(
            "invalid keyword arguments for this function: " + ", ".join(format(key) for key in sorted(kwargs))
        )
    with ops.name_scope(name, "einsum", [equation, inputs]):
        input_shapes = [x.get_shape() for x in inputs]
        input_axis_labels, output_axis_labels = _einsum_parse_and_resolve_equation(equation, input_shapes)
        axis_labels = set("".join(input_axis_labels) + output_axis_labels)
        for a in axis_labels:
            for input_labels in input_axis_labels:
                if (
                    len(input_axis_labels) == 1
                    and input_labels.count(a) == 2
                    and input_labels == input_labels[::-1]
                    and "->" not in equation
                ):
                    return math_ops.trace(inputs[0])
                if input_labels.count(a) > 1:
                    raise ValueError(
                        "Subscript not supported: an axis appears more than once: %s" % input_labels
                    )
        for a in axis_labels:
            input_count = sum(1 for s in input_axis_labels if a in s)
            if input_count > 2 and a not in output_axis_labels:
                return _exponential_space_einsum(equation, *inputs)
        if _is_broadcast_labels(axis_labels):
            return _exponential_space_einsum(equation, *inputs)
        temp = inputs[0]
        temp_axis_labels = input_axis_labels[0]
        for i in range(len(inputs) - 1):
            axes_to_sum = (set(temp_axis_labels) & set(input_axis_labels[i + 1])) - set(output_axis_labels)
            temp, temp_axis_labels = _einsum_reduction(
                temp, temp_axis_labels, inputs[i + 1], input_axis_labels[i + 1], axes_to_sum
            )
        missing_indices = set(temp_axis_labels) - set(output_axis_labels)
        if missing_indices:
            axis = [i for i, a in enumerate(temp_axis_labels) if a not in output_axis_labels]
            temp = math_ops.reduce_sum(temp, axis=axis)
            temp_axis_labels = "".join(a for a in temp_axis_labels if a in output_axis_labels)
        if sorted(temp_axis_labels) != sorted(output_axis_labels):
            raise ValueError("Invalid equation: {}".format(equation))
        perm = [temp_axis_labels.index(a) for a in output_axis_labels]
        return _transpose_if_necessary(temp, perm)


def _is_broadcast_labels(labels: Any) -> bool:
    """Whether some labels represent an ellipsis: they broadcast."""
    return any(a.isdigit() for a in labels)


def _einsum_parse_and_resolve_equation(equation: str, input_shapes: Any) -> tuple[list[str], str]:
    """Returns (labels of each input, labels of the result), an ellipsis in the form of digits."""
    if re.search(r"[^A-Za-z,.>-]", equation):
        raise ValueError("Indices have incorrect format: %s" % equation)
    match = re.match("^([a-zA-Z,.]+)(->[a-zA-Z.]*)?$", equation)
    if not match:
        raise ValueError("Indices have incorrect format: %s" % equation)
    input_axis_labels = match.group(1).split(",")
    if len(input_shapes) != len(input_axis_labels):
        raise ValueError(
            'Got %d arguments for equation "%s", expecting %d'
            % (len(input_shapes), equation, len(input_axis_labels))
        )
    # The axes of an ellipsis get labels 0-9, the last axis 0.
    ellipsis_axes = ""
    for i, ax in enumerate(input_axis_labels):
        if "..." in ax:
            parts = ax.split("...")
            if len(parts) != 2:
                raise ValueError("Unable to resolve ellipsis. Excess number found.")
            if input_shapes[i].ndims is None:
                raise ValueError("Unable to statically infer ellipsis axes.")
            n = input_shapes[i].ndims - len("".join(parts))
            if n < 0:
                raise ValueError("Unable to resolve ellipsis: not enough axes for %s." % ax)
            if n > 10:
                raise ValueError("Unable to resolve ellipsis, too many labels.")
            replace_axes = "".join(str(j) for j in reversed(range(n)))
            if len(replace_axes) > len(ellipsis_axes):
                ellipsis_axes = replace_axes
            input_axis_labels[i] = ax.replace("...", replace_axes)
    if any("." in ax for ax in input_axis_labels):
        raise ValueError('period "." found outside of ellipsis in input %s' % equation)
    if match.group(2):
        output_axis_labels = match.group(2)[2:].replace("...", ellipsis_axes)
        if "." in output_axis_labels:
            raise ValueError('period "." found outside of ellipsis in output %s' % equation)
    else:
        axis_labels = sorted(set("".join(input_axis_labels)) - set("0123456789"))
        counts = {ax: sum(labels.count(ax) for labels in input_axis_labels) for ax in axis_labels}
        output_axis_labels = ellipsis_axes + "".join(ax for ax in axis_labels if counts[ax] == 1)
    for ax in output_axis_labels:
        if not any(ax in labels for labels in input_axis_labels):
            raise ValueError("Unknown output axes: %s" % ax)
    return input_axis_labels, output_axis_labels


def _einsum_reduction(
    t0: Any, t0_axis_labels: str, t1: Any, t1_axis_labels: str, axes_to_sum: Any
) -> tuple[Any, str]:
    """Multiplies two tensors and sums `axes_to_sum`, which both have; returns (product, its labels).

    The axes are ordered as (both, only the first | summed) and (both, summed | only the second), then a batch of
    products of matrices does the work, or products of elements where nothing is summed.
    """
    if len(t0_axis_labels) != len(t0.get_shape()):
        raise ValueError(
            "Tensor t0 of rank {} does not match einsum reduction of length {}".format(
                len(t0.get_shape()), len(t0_axis_labels)
            )
        )
    if len(t1_axis_labels) != len(t1.get_shape()):
        raise ValueError(
            "Tensor t1 of rank {} does not match einsum reduction of length {}".format(
                len(t1.get_shape()), len(t1_axis_labels)
            )
        )
    assert all(a in t0_axis_labels and a in t1_axis_labels for a in axes_to_sum)
    preserved_axes = (set(t0_axis_labels) & set(t1_axis_labels)) - set(axes_to_sum)
    broadcast_axes = [
        set(labels) - preserved_axes - set(axes_to_sum) for labels in (t0_axis_labels, t1_axis_labels)
    ]

    def sort_key(input_index: int, a: str) -> Any:
        if a in preserved_axes:
            return -1, a
        if (input_index == 0 and a in broadcast_axes[0]) or (input_index == 1 and a in axes_to_sum):
            return 0, a
        return 1, a

    sorted_axes = [
        sorted(labels, key=functools.partial(sort_key, i))
        for i, labels in enumerate((t0_axis_labels, t1_axis_labels))
    ]
    inputs = [
        _transpose_if_necessary(t, [labels.index(a) for a in axes])
        for t, labels, axes in zip((t0, t1), (t0_axis_labels, t1_axis_labels), sorted_axes)
    ]
    t0, t1 = inputs
    if not axes_to_sum:
        # An element-wise product: axes of size 1 are inserted where only the other operand has an axis.
        for _ in broadcast_axes[1]:
            t0 = array_ops.expand_dims(t0, -1)
        for _ in broadcast_axes[0]:
            t1 = array_ops.expand_dims(t1, len(preserved_axes))
        product = math_ops.multiply(t0, t1)
    else:
        # The axes of each kind are merged into one.
        t0_shape = _get_shape(t0)
        t1_shape = _get_shape(t1)
        num_broadcast_0, num_broadcast_1 = len(broadcast_axes[0]), len(broadcast_axes[1])
        num_preserved = len(preserved_axes)
        sum_product = _total_size(t0_shape[num_preserved + num_broadcast_0 :])
        t0_new = t0_shape[:num_preserved] + [
            _total_size(t0_shape[num_preserved : num_preserved + num_broadcast_0]),
            sum_product,
        ]
        t0 = _reshape_if_necessary(t0, t0_new)
        t1_new = t1_shape[:num_preserved] + [
            sum_product,
            _total_size(t1_shape[num_preserved + len(axes_to_sum) :]),
        ]
        t1 = _reshape_if_necessary(t1, t1_new)
        product = math_ops.matmul(t0, t1)
        uncompacted = (
            t0_shape[: num_preserved + num_broadcast_0] + t1_shape[len(t1_shape) - num_broadcast_1 :]
            if num_broadcast_1
            else t0_shape[: num_preserved + num_broadcast_0]
        )
        product = _reshape_if_necessary(product, uncompacted)
    product_axes = sorted_axes[0][: len(preserved_axes) + len(broadcast_axes[0])]
    product_axes += (
        sorted_axes[1][len(sorted_axes[1]) - len(broadcast_axes[1]) :] if broadcast_axes[1] else []
    )
    return product, "".join(product_axes)


def _transpose_if_necessary(tensor: Any, perm: list[int]) -> Any:
    return array_ops.transpose(tensor, perm=perm) if perm != list(range(len(perm))) else tensor


def _reshape_if_necessary(tensor: Any, new_shape: list[Any]) -> Any:
    new_shape = [-1 if x is None else x for x in new_shape]
    cur_shape = [x.value for x in tensor.get_shape().dims]
    if len(new_shape) == len(cur_shape) and all(
        not isinstance(d1, ops.Tensor) and (d0 == d1 or d1 == -1) for d0, d1 in zip(cur_shape, new_shape)
    ):
        return tensor
    return array_ops.reshape(tensor, array_ops.stack(new_shape) if new_shape else np.zeros([0], np.int32))


def _get_shape(tensor: Any) -> list[Any]:
    """Returns the shape with numbers where they are known, else scalars."""
    shape = tensor.get_shape().as_list()
    none_indices = [i for i, d in enumerate(shape) if d is None]
    if none_indices:
        dynamic = array_ops.shape(tensor)
        for i in none_indices:
            shape[i] = dynamic[i]
    return list(shape)


def _total_size(shape_values: list[Any]) -> Any:
    """Returns the product, 1 of nothing."""
    result: Any = 1
    for value in shape_values:
        result = result * value
    return result


def _exponential_space_einsum(equation: str, *inputs: Any) -> Any:
    """The sum of one product over all labels: for any equation, but the whole product needs memory."""
    inputs = tuple(inputs)
    idx_in, idx_out = _einsum_parse_and_resolve_equation(equation, [x.get_shape() for x in inputs])
    idx_all = set("".join(idx_in) + idx_out)
    indices = "".join(sorted(idx_all))
    missing_idx = set(idx_out).difference(idx_all)
    if missing_idx:
        raise ValueError("Unknown output axes: %s" % missing_idx)
    axis_order: dict[str, int] = {}
    for ax in indices:
        if ax not in idx_out:
            axis_order[ax] = len(axis_order)
    for ax in idx_out:
        axis_order[ax] = len(axis_order)
    expanded = []
    for input_, axes_ in zip(inputs, idx_in):
        if input_.get_shape().ndims != len(axes_):
            raise ValueError(
                "Input %s with axes %s has incorrect number of dimensions (expected %i, got %i)"
                % (input_, axes_, len(axes_), input_.get_shape().ndims)
            )
        sorted_idx = sorted(axes_, key=axis_order.get)  # type: ignore[arg-type]
        if len(set(axes_)) != len(axes_):
            raise ValueError("Subscript not supported: an axis appears more than once: %s" % axes_)
        permuted = (
            array_ops.transpose(input_, [axes_.index(ax) for ax in sorted_idx])
            if list(axes_) != sorted_idx
            else input_
        )
        for axis, ax in enumerate(sorted(axis_order, key=axis_order.get)):  # type: ignore[arg-type]
            if ax not in axes_:
                permuted = array_ops.expand_dims(permuted, axis)
        expanded.append(permuted)
    expanded_output = functools.reduce(math_ops.multiply, expanded)
    reduction_idx = [i for i, ax in enumerate(sorted(axis_order, key=axis_order.get)) if ax not in idx_out]  # type: ignore[arg-type]
    return math_ops.reduce_sum(expanded_output, reduction_idx) if reduction_idx else expanded_output
