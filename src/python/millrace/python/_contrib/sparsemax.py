# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sparsemax: the point of the simplex that is nearest to the logits."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, math_ops, nn_ops


def sparsemax(logits: Any, name: Any = None) -> Any:
    """Probabilities, many of which are zero.

    Args:
      logits: a tensor of shape [batch, classes].
      name: a name of the operations.

    Returns:
      A tensor like `logits`. Rows with NaN, with infinity, or with nothing but minus infinity are NaN.
    """
    with ops.name_scope(name, "sparsemax", [logits]):
        z = ops.convert_to_tensor(logits, name="logits")
        batch, classes = array_ops.unstack(array_ops.shape(z), num=2)
        # With the support of the k largest values, the threshold is (their sum - 1) / k. k is the largest
        # number for which the k-th value is above the threshold.
        ordered, _ = nn_ops.top_k(z, k=classes)
        sums = math_ops.cumsum(ordered, axis=1)
        counts = math_ops.cast(math_ops.range(1, classes + 1), z.dtype)
        above = math_ops.cast(1 + counts * ordered > sums, dtypes.int32)
        support = math_ops.reduce_sum(above, axis=1)
        last = array_ops.stack([math_ops.range(batch), math_ops.maximum(support, 1) - 1], axis=1)
        threshold = (array_ops.gather_nd(sums, last) - 1) / math_ops.cast(support, z.dtype)
        p = math_ops.maximum(math_ops.cast(0, z.dtype), z - threshold[:, array_ops.newaxis])
        invalid = math_ops.logical_or(math_ops.equal(support, 0), math_ops.is_nan(sums[:, -1]))
        nan = array_ops.fill([batch, classes], math_ops.cast(float("nan"), z.dtype))
        result = array_ops.where(invalid, nan, p)
        result.set_shape(z.shape)
        return result


def sparsemax_loss(logits: Any, sparsemax: Any, labels: Any, name: Any = None) -> Any:  # noqa: A002
    """The loss for sparsemax that corresponds to the cross entropy for softmax.

    Args:
      logits: a tensor of shape [batch, classes].
      sparsemax: the sparsemax of the logits.
      labels: probabilities, of the same shape.
      name: a name of the operations.

    Returns:
      A tensor of shape [batch].
    """
    with ops.name_scope(name, "sparsemax_loss", [logits, sparsemax, labels]):
        z = ops.convert_to_tensor(logits, name="logits")
        p = ops.convert_to_tensor(sparsemax, name="sparsemax")
        q = ops.convert_to_tensor(labels, name="labels")
        zeros = array_ops.zeros_like(p)
        # The sum is over the support only, so logits of minus infinity elsewhere add nothing.
        own = array_ops.where(math_ops.logical_or(p > 0, math_ops.is_nan(p)), p * (z - 0.5 * p), zeros)
        wanted = q * (0.5 * q - z)
        wanted = array_ops.where(
            math_ops.logical_and(math_ops.equal(q, 0), math_ops.is_inf(z)), zeros, wanted
        )
        return math_ops.reduce_sum(own + wanted, axis=1)
