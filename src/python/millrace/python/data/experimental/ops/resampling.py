# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Resampling to a target distribution of classes."""
from __future__ import annotations

from typing import Any

from millrace.python.data.experimental.ops import scan_ops
from millrace.python.framework import constant_op, dtypes, ops
from millrace.python.ops import array_ops, gen_array_ops, math_ops, random_ops


def rejection_resample(class_func: Any, target_dist: Any, initial_dist: Any = None, seed: Any = None) -> Any:
    """For `apply`: pairs of class and element, some of them dropped so that classes are distributed as `target_dist`.

    Args:
      class_func: a function from an element to its class, a scalar int32.
      target_dist: target probabilities of the classes.
      initial_dist: those of the input; estimated when None.
      seed: of the draws.
    """

    def apply_fn(dataset: Any) -> Any:
        target = ops.convert_to_tensor(target_dist, name="target_dist")
        is_tuple = isinstance(dataset.element_spec, tuple)
        # The class is kept with its element, since a shuffled input has another order each time it is read.
        pairs = dataset.map(lambda *element: (class_func(*element), element if is_tuple else element[0]))
        if initial_dist is not None:
            accept = _acceptance(ops.convert_to_tensor(initial_dist, name="initial_dist"), target)
            rated = pairs.map(lambda class_value, data: (accept, class_value, data))
        else:
            rated = _estimated(target, pairs)

        def keep(accept_prob: Any, class_value: Any, data: Any) -> Any:
            del data
            probability = gen_array_ops.gather_v2(accept_prob, math_ops.cast(class_value, dtypes.int32), 0)
            return random_ops.random_uniform([], seed=seed, dtype=dtypes.float32) < math_ops.cast(
                probability, dtypes.float32
            )

        return rated.filter(keep).map(lambda _, class_value, data: (class_value, data))

    return apply_fn


def _acceptance(initial: Any, target: Any) -> Any:
    """The probability with which an element of each class is kept."""
    tiny = constant_op.constant(1e-16 if initial.dtype == dtypes.float64 else 1e-30, dtype=initial.dtype)
    ratio = math_ops.cast(target, initial.dtype) / math_ops.maximum(initial, tiny)
    return ratio / math_ops.maximum(math_ops.reduce_max(ratio), tiny)


def _estimated(target: Any, pairs: Any) -> Any:
    """(acceptance, class, element), from the distribution of the classes so far, which begins uniform."""
    count = target.shape.dims[0].value if target.shape.ndims == 1 else None
    size = count if count is not None else array_ops.shape(target)[0]

    def update(counts: Any, pair: Any) -> Any:
        class_value, data = pair
        counts = counts + array_ops.one_hot(
            math_ops.cast(class_value, dtypes.int32), size, dtype=dtypes.float32
        )
        return counts, (_acceptance(counts / math_ops.reduce_sum(counts), target), class_value, data)

    return pairs.apply(scan_ops.scan(array_ops.ones([size], dtype=dtypes.float32), update))
