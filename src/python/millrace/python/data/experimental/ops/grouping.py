# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Grouping of elements by key."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.data.ops import _datasets, dataset_ops
from millrace.python.data.ops._functions import StructuredFunctionWrapper
from millrace.python.data.ops._spec import DatasetSpec
from millrace.python.data.util import nest, structure
from millrace.python.framework import constant_op, dtypes, ops, tensor_shape, tensor_spec
from millrace.python.ops import array_ops, check_ops, gen_experimental_dataset_ops as ged_ops, math_ops


class Reducer:
    """Reduces elements to one value: `init_func(key)`, `reduce_func(state, element)`, `finalize_func(state)`."""

    def __init__(self, init_func: Any, reduce_func: Any, finalize_func: Any) -> None:
        self._init_func = init_func
        self._reduce_func = reduce_func
        self._finalize_func = finalize_func

    @property
    def init_func(self) -> Any:
        return self._init_func

    @property
    def reduce_func(self) -> Any:
        return self._reduce_func

    @property
    def finalize_func(self) -> Any:
        return self._finalize_func


def group_by_reducer(key_func: Any, reducer: Any) -> Any:
    """For `apply`: one element for each key, the result of `reducer` for the elements with the key."""

    def apply_fn(dataset: Any) -> Any:
        return _GroupByReducerDataset(dataset, key_func, reducer)

    return apply_fn


def group_by_window(
    key_func: Any, reduce_func: Any, window_size: Any = None, window_size_func: Any = None
) -> Any:
    """For `apply`: the elements of the datasets that `reduce_func(key, window)` returns for windows of one key.

    Args:
      key_func: a function from an element to its key, a scalar int64.
      reduce_func: a function of a key and a dataset that returns a dataset.
      window_size: the number of elements of a window.
      window_size_func: a function from a key to the window size.

    Raises:
      ValueError: both or neither of the last two are given.
    """
    if (window_size is not None and window_size_func) or not (window_size is not None or window_size_func):
        raise ValueError("Must pass either window_size or window_size_func.")
    if window_size is not None:

        def constant_window_func(unused_key: Any) -> Any:
            return ops.convert_to_tensor(window_size, dtype=dtypes.int64)

        window_size_func = constant_window_func

    def apply_fn(dataset: Any) -> Any:
        return _GroupByWindowDataset(dataset, key_func, reduce_func, window_size_func)

    return apply_fn


def bucket_by_sequence_length(
    element_length_func: Any, bucket_boundaries: Any, bucket_batch_sizes: Any, padded_shapes: Any = None,
    padding_values: Any = None, pad_to_bucket_boundary: bool = False, no_padding: bool = False, drop_remainder: bool = False,
) -> Any:  # fmt: skip
    """For `apply`: padded batches of elements of similar length.

    Args:
      element_length_func: a function from an element to its length, a scalar int32.
      bucket_boundaries: upper bounds (exclusive) of the lengths in all buckets but the last.
      bucket_batch_sizes: the batch size of each bucket, one more than boundaries.
      padded_shapes, padding_values: as in padded_batch.
      pad_to_bucket_boundary: whether unknown sizes are padded to the bucket's boundary - 1.
      no_padding: whether batches are not padded.
      drop_remainder: whether batches that are not full are dropped.

    Raises:
      ValueError: there is not one more batch size than boundaries.
    """
    with ops.name_scope("bucket_by_seq_length"):
        if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
            raise ValueError("len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1")
        batch_sizes = constant_op.constant(bucket_batch_sizes, dtype=dtypes.int64)

        def element_to_bucket_id(*args: Any) -> Any:
            length = element_length_func(*args)
            boundaries = list(bucket_boundaries)
            low = [np.iinfo(np.int32).min] + boundaries
            high = boundaries + [np.iinfo(np.int32).max]
            inside = math_ops.logical_and(math_ops.less_equal(low, length), math_ops.less(length, high))
            return math_ops.reduce_min(array_ops.where(inside))

        def window_size_fn(bucket_id: Any) -> Any:
            return batch_sizes[bucket_id]

        def make_padded_shapes(shapes: Any, none_filler: Any = None) -> Any:
            padded = []
            for shape in nest.flatten(shapes):
                shape = tensor_shape.TensorShape(shape)
                padded.append([none_filler if d is None else d for d in shape.as_list()])
            return nest.pack_sequence_as(shapes, padded)

        def batching_fn(bucket_id: Any, grouped_dataset: Any) -> Any:
            batch_size = window_size_fn(bucket_id)
            if no_padding:
                return grouped_dataset.batch(batch_size, drop_remainder=drop_remainder)
            none_filler = None
            if pad_to_bucket_boundary:
                message = (
                    "When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries)."
                )
                check = check_ops.assert_less(
                    bucket_id,
                    constant_op.constant(len(bucket_batch_sizes) - 1, dtype=dtypes.int64),
                    message=message,
                )
                with ops.control_dependencies([check]):
                    boundaries = constant_op.constant(bucket_boundaries, dtype=dtypes.int64)
                    none_filler = boundaries[bucket_id] - 1
            shapes = make_padded_shapes(
                padded_shapes or dataset_ops.get_legacy_output_shapes(grouped_dataset),
                none_filler=none_filler,
            )
            return grouped_dataset.padded_batch(
                batch_size, shapes, padding_values, drop_remainder=drop_remainder
            )

        def apply_fn(dataset: Any) -> Any:
            return dataset.apply(
                group_by_window(element_to_bucket_id, batching_fn, window_size_func=window_size_fn)
            )

        return apply_fn


def _checked_key_func(key_func: Any, name: str, dataset: Any) -> Any:
    def wrapped(*args: Any) -> Any:
        return ops.convert_to_tensor(key_func(*args), dtype=dtypes.int64)

    wrapper = StructuredFunctionWrapper(wrapped, name, dataset=dataset)
    if not structure.are_compatible(wrapper.output_structure, tensor_spec.TensorSpec([], dtypes.int64)):
        raise ValueError("`key_func` must return a single tf.int64 tensor. Got type=%s and shape=%s" % (
            wrapper.output_types, wrapper.output_shapes))  # fmt: skip
    return wrapper


_INT64 = tensor_spec.TensorSpec([], dtypes.int64)


class _GroupByReducerDataset(_datasets._WithSpec, _datasets.UnaryDataset):
    def __init__(self, input_dataset: Any, key_func: Any, reducer: Any) -> None:
        name = "tf.data.experimental.group_by_reducer()"
        self._input_dataset = input_dataset
        self._key_func = _checked_key_func(key_func, name, input_dataset)
        self._init_func = StructuredFunctionWrapper(reducer.init_func, name, input_structure=_INT64)
        state = self._init_func.output_structure
        while True:
            reduce_func = StructuredFunctionWrapper(
                reducer.reduce_func,
                name,
                input_structure=(state, input_dataset.element_spec),
                add_to_graph=False,
            )
            relaxed = nest.pack_sequence_as(
                state,
                [
                    a.most_specific_compatible_type(b)
                    for a, b in zip(nest.flatten(state), nest.flatten(reduce_func.output_structure))
                ],
            )
            if relaxed == state:
                break
            state = relaxed
        self._reduce_func = reduce_func
        reduce_func.function.add_to_graph(ops.get_default_graph())
        self._finalize_func = StructuredFunctionWrapper(reducer.finalize_func, name, input_structure=state)
        self._structure = self._finalize_func.output_structure
        super().__init__(
            input_dataset,
            ged_ops.experimental_group_by_reducer_dataset(
                input_dataset._variant_tensor, self._key_func.function.captured_inputs,
                self._init_func.function.captured_inputs, self._reduce_func.function.captured_inputs,
                self._finalize_func.function.captured_inputs, key_func=self._key_func.function,
                init_func=self._init_func.function, reduce_func=self._reduce_func.function,
                finalize_func=self._finalize_func.function, **self._flat_structure,
            ),
        )  # fmt: skip


class _GroupByWindowDataset(_datasets._WithSpec, _datasets.UnaryDataset):
    def __init__(self, input_dataset: Any, key_func: Any, reduce_func: Any, window_size_func: Any) -> None:
        name = "tf.data.experimental.group_by_window()"
        self._input_dataset = input_dataset
        self._key_func = _checked_key_func(key_func, name, input_dataset)

        def size(key: Any) -> Any:
            return ops.convert_to_tensor(window_size_func(key), dtype=dtypes.int64)

        self._window_size_func = StructuredFunctionWrapper(size, name, input_structure=_INT64)
        if not structure.are_compatible(self._window_size_func.output_structure, _INT64):
            raise ValueError("`window_size_func` must return a single tf.int64 scalar tensor.")
        window = DatasetSpec(input_dataset.element_spec)
        self._reduce_func = StructuredFunctionWrapper(
            reduce_func, "reduce_by_window()", input_structure=(_INT64, window)
        )
        if not isinstance(self._reduce_func.output_structure, DatasetSpec):
            raise TypeError("`reduce_func` must return a `Dataset` object.")
        self._structure = self._reduce_func.output_structure._element_spec
        super().__init__(
            input_dataset,
            ged_ops.group_by_window_dataset(
                input_dataset._variant_tensor, self._key_func.function.captured_inputs,
                self._reduce_func.function.captured_inputs, self._window_size_func.function.captured_inputs,
                key_func=self._key_func.function, reduce_func=self._reduce_func.function,
                window_size_func=self._window_size_func.function, **self._flat_structure,
            ),
        )  # fmt: skip
