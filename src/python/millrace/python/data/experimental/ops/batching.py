# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Batching and unbatching."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _batch_datasets, _datasets, dataset_ops
from millrace.python.data.ops._functions import StructuredFunctionWrapper
from millrace.python.data.util import convert, nest
from millrace.python.framework import dtypes, ops, sparse_tensor, tensor_shape, tensor_util
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops


def dense_to_sparse_batch(batch_size: Any, row_shape: Any) -> Any:
    """For `apply`: batches of tensors of different sizes as SparseTensors whose rows have `row_shape`."""

    def apply_fn(dataset: Any) -> Any:
        return _DenseToSparseBatchDataset(dataset, batch_size, row_shape)

    return apply_fn


def map_and_batch(
    map_func: Any, batch_size: Any, num_parallel_batches: Any = None, drop_remainder: Any = False,
    num_parallel_calls: Any = None,
) -> Any:  # fmt: skip
    """For `apply`: batches of the results of a function of each element, with several calls at the same time.

    Raises:
      ValueError: both numbers of parallel calls are given.
    """
    if num_parallel_batches is None and num_parallel_calls is None:
        num_parallel_calls = batch_size
    elif num_parallel_batches is not None and num_parallel_calls is None:
        num_parallel_calls = batch_size * num_parallel_batches
    elif num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError(
            "The `num_parallel_batches` and `num_parallel_calls` arguments are mutually exclusive."
        )

    def apply_fn(dataset: Any) -> Any:
        return _MapAndBatchDataset(dataset, map_func, batch_size, num_parallel_calls, drop_remainder)

    return apply_fn


map_and_batch_with_legacy_function = map_and_batch


def unbatch() -> Any:
    """For `apply`: the rows of the elements."""

    def apply_fn(dataset: Any) -> Any:
        return dataset.unbatch()

    return apply_fn


class _DenseToSparseBatchDataset(_datasets._WithSpec, _datasets.UnaryDataset):
    def __init__(self, input_dataset: Any, batch_size: Any, row_shape: Any) -> None:
        types = dataset_ops.get_legacy_output_types(input_dataset)
        if not isinstance(types, dtypes.DType):
            raise TypeError(
                "DenseToSparseDataset requires an input whose elements have a single component, whereas the input has %r."
                % types
            )
        self._input_dataset = input_dataset
        self._batch_size = ops.convert_to_tensor(batch_size, dtype=dtypes.int64)
        self._row_shape = convert.partial_shape_to_tensor(row_shape)
        shape = tensor_shape.TensorShape([None]).concatenate(
            tensor_util.constant_value_as_shape(self._row_shape)
        )
        self._structure = sparse_tensor.SparseTensorSpec(shape, types)
        super().__init__(
            input_dataset,
            ged_ops.dense_to_sparse_batch_dataset(
                input_dataset._variant_tensor,
                self._batch_size,
                row_shape=self._row_shape,
                **self._flat_structure,
            ),
        )


class _MapAndBatchDataset(_datasets._WithSpec, _datasets.UnaryDataset):
    def __init__(
        self, input_dataset: Any, map_func: Any, batch_size: Any, num_parallel_calls: Any, drop_remainder: Any,
        use_legacy_function: bool = False,
    ) -> None:  # fmt: skip
        self._input_dataset = input_dataset
        self._map_func = StructuredFunctionWrapper(
            map_func, "tf.data.experimental.map_and_batch()", dataset=input_dataset
        )
        self._batch_size_t = ops.convert_to_tensor(batch_size, dtype=dtypes.int64, name="batch_size")
        self._num_parallel_calls_t = ops.convert_to_tensor(
            num_parallel_calls, dtype=dtypes.int64, name="num_parallel_calls"
        )
        self._drop_remainder_t = ops.convert_to_tensor(
            drop_remainder, dtype=dtypes.bool, name="drop_remainder"
        )
        self._structure = _batch_datasets._batched_spec(
            self._map_func.output_structure, self._batch_size_t, self._drop_remainder_t
        )
        super().__init__(
            input_dataset,
            ged_ops.map_and_batch_dataset(
                input_dataset._variant_tensor, self._map_func.function.captured_inputs, f=self._map_func.function,
                batch_size=self._batch_size_t, num_parallel_calls=self._num_parallel_calls_t,
                drop_remainder=self._drop_remainder_t, preserve_cardinality=True, **self._flat_structure,
            ),
        )  # fmt: skip

    def _functions(self) -> list[Any]:
        return [self._map_func]


def assert_element_shape(expected_shapes: Any) -> Any:
    """For `apply`: checks the shapes of elements, and sets their static shapes."""
    from millrace.python.ops import check_ops

    def apply_fn(dataset: Any) -> Any:
        shapes = dataset_ops.get_legacy_output_shapes(dataset)
        nest.assert_same_structure(shapes, expected_shapes)

        def check(*elements: Any) -> Any:
            flat = nest.flatten(elements)
            wanted = nest.flatten(expected_shapes)
            out = []
            for tensor, shape in zip(flat, wanted):
                if not tensor.shape.is_compatible_with(shape):
                    raise ValueError("Input shape %s is not compatible with %s" % (tensor.shape, shape))
                if shape.ndims is not None:
                    with ops.control_dependencies([check_ops.assert_rank(tensor, shape.ndims)]):
                        from millrace.python.ops import array_ops

                        tensor = array_ops.identity(tensor)
                tensor.set_shape(shape)
                out.append(tensor)
            return nest.pack_sequence_as(elements if len(elements) > 1 else elements[0], out)

        return dataset.map(check)

    return apply_fn
