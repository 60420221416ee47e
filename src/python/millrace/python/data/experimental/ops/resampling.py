# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Elements of classes in wanted proportions."""
from __future__ import annotations

from typing import Any

from millrace.python.data.experimental.ops import scan_ops
from millrace.python.data.ops import dataset_ops
from millrace.python.framework import constant_op, dtypes, ops
from millrace.python.ops import array_ops, gen_array_ops, math_ops, random_ops


def rejection_resample(class_func: Any, target_dist: Any, initial_dist: Any = None, seed: Any = None) -> Any:
    """For `apply`: pairs of class and element, of which some are dropped so that classes are as `target_dist` says.

    Args:
      class_func: gives the class, a scalar int32, of an element.
      target_dist: wanted probabilities of the classes.
      initial_dist: those of the input; estimated when None.
      seed: of the draws.
    """

    def apply_fn(dataset: Any) -> Any:
        target = ops.convert_to_tensor(target_dist, name="target_dist")
        classes = dataset.map(class_func)
        if initial_dist is not None:
            initial = ops.convert_to_tensor(initial_dist, name="initial_dist")
            accept, accept_at_all = _acceptance(initial, target)
            initial_ds = dataset_ops.DatasetV2.from_tensors(initial).repeat()
            accept_ds = dataset_ops.DatasetV2.from_tensors(accept).repeat()
            del accept_at_all
        else:
            initial_ds = _estimate(target, classes)
            accept_ds = initial_ds.map(lambda initial: _acceptance(initial, target)[0])

        def keep(accept_prob: Any, class_and_data: Any) -> Any:
            class_value = class_and_data[0]
            probability = gen_array_ops.gather_v2(accept_prob, math_ops.cast(class_value, dtypes.int32), 0)
            return random_ops.random_uniform([], seed=seed, dtype=dtypes.float32) < math_ops.cast(
                probability, dtypes.float32
            )

        pairs = dataset_ops.DatasetV2.zip((classes, dataset))
        return dataset_ops.DatasetV2.zip((accept_ds, pairs)).filter(keep).map(lambda _, pair: pair)

    return apply_fn


def _acceptance(initial: Any, target: Any) -> tuple[Any, Any]:
    """The probability with which an element of each class is kept."""
    tiny = constant_op.constant(1e-16 if initial.dtype == dtypes.float64 else 1e-30, dtype=initial.dtype)
    ratio = math_ops.cast(target, initial.dtype) / math_ops.maximum(initial, tiny)
    most = math_ops.reduce_max(ratio)
    return ratio / math_ops.maximum(most, tiny), most


def _estimate(target: Any, classes: Any) -> Any:
    """The proportions of the classes so far, which begin equal."""
    count = target.shape.dims[0].value if target.shape.ndims == 1 else None
    size = count if count is not None else array_ops.shape(target)[0]
    initial = array_ops.ones([size], dtype=dtypes.float32)

    def update(counts: Any, c: Any) -> Any:
        counts = counts + array_ops.one_hot(math_ops.cast(c, dtypes.int32), size, dtype=dtypes.float32)
        return counts, counts / math_ops.reduce_sum(counts)

    return classes.apply(scan_ops.scan(initial, update))
