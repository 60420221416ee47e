# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The datasets that the methods of Dataset make."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import dataset_ops
from millrace.python.data.ops._spec import DatasetSpec
from millrace.python.data.util import nest, random_seed, structure
from millrace.python.framework import (
    dtypes,
    ops,
    sparse_tensor,
    tensor_shape,
    tensor_spec,
    tensor_util,
)
from millrace.python.ops import gen_dataset_ops, gen_experimental_dataset_ops as ged_ops

DatasetV2 = dataset_ops.DatasetV2

__all__ = [
    "CacheDataset", "ConcatenateDataset", "DatasetSource", 
    
    "PrefetchDataset", "RangeDataset", "RepeatDataset", "ShardDataset", "ShuffleDataset", "SkipDataset",
    "SparseTensorSliceDataset", "TakeDataset", "TensorDataset", "TensorSliceDataset", "UnaryDataset",
    "UnaryUnchangedStructureDataset", "WindowDataset", "ZipDataset", "_MaxIntraOpParallelismDataset", "_OptionsDataset",
    "_PrivateThreadPoolDataset", "_UnbatchDataset", "_VariantDataset",
]  # fmt: skip


def _int64(value: Any, name: str) -> Any:
    return ops.convert_to_tensor(value, dtype=dtypes.int64, name=name)


def _has_sparse(element_spec: Any) -> bool:
    return any(isinstance(spec, sparse_tensor.SparseTensorSpec) for spec in nest.flatten(element_spec))


class DatasetSource(DatasetV2):
    """A dataset that reads no other one."""

    def _inputs(self) -> list[Any]:
        return []


class UnaryDataset(DatasetV2):
    """A dataset that reads one other."""

    def __init__(self, input_dataset: Any, variant_tensor: Any) -> None:
        self._input_dataset = input_dataset
        super().__init__(variant_tensor)

    def _inputs(self) -> list[Any]:
        return [self._input_dataset]


class UnaryUnchangedStructureDataset(UnaryDataset):
    """A dataset of the same structure as the one that it reads."""

    @property
    def element_spec(self) -> Any:
        return self._input_dataset.element_spec


class _WithSpec(DatasetV2):
    """Keeps the structure of its elements in `_structure`."""

    _structure: Any

    @property
    def element_spec(self) -> Any:
        return self._structure


class TensorDataset(_WithSpec, DatasetSource):
    def __init__(self, element: Any) -> None:
        element = structure.normalize_element(element)
        self._structure = structure.type_spec_from_value(element)
        self._tensors = structure.to_tensor_list(self._structure, element)
        super().__init__(gen_dataset_ops.tensor_dataset(self._tensors, output_shapes=self._flat_shapes))


class TensorSliceDataset(_WithSpec, DatasetSource):
    def __init__(self, element: Any) -> None:
        element = structure.normalize_element(element)
        batched = structure.type_spec_from_value(element)
        self._tensors = structure.to_batched_tensor_list(batched, element)
        self._structure = nest.map_structure(lambda spec: spec._unbatch(), batched)
        if self._tensors:
            size = tensor_shape.Dimension(
                tensor_shape.dimension_value(self._tensors[0].get_shape().with_rank_at_least(1)[0])
            )
            for t in self._tensors[1:]:
                size.assert_is_compatible_with(
                    tensor_shape.Dimension(
                        tensor_shape.dimension_value(t.get_shape().with_rank_at_least(1)[0])
                    )
                )
        super().__init__(gen_dataset_ops.tensor_slice_dataset(self._tensors, output_shapes=self._flat_shapes))


class SparseTensorSliceDataset(_WithSpec, DatasetSource):
    def __init__(self, sparse: Any) -> None:
        if not isinstance(sparse, sparse_tensor.SparseTensor):
            raise TypeError("`sparse_tensor` must be a `tf.SparseTensor` object. Was {}.".format(sparse))
        self._sparse_tensor = sparse
        indices_shape = sparse.indices.get_shape()
        shape_shape = sparse.dense_shape.get_shape()
        rank = (indices_shape.dims[1] - 1).merge_with(shape_shape.dims[0] - 1)
        self._structure = (
            tensor_spec.TensorSpec([None, rank], dtypes.int64),
            tensor_spec.TensorSpec([None], sparse.dtype),
            tensor_spec.TensorSpec([rank], dtypes.int64),
        )
        super().__init__(
            gen_dataset_ops.sparse_tensor_slice_dataset(sparse.indices, sparse.values, sparse.dense_shape)
        )


class _VariantDataset(_WithSpec):
    """A dataset that a variant represents."""

    def __init__(self, dataset_variant: Any, element_spec: Any) -> None:
        self._structure = element_spec
        super().__init__(dataset_variant)

    def _inputs(self) -> list[Any]:
        return []


class _NestedVariant(_VariantDataset):
    """A tensor of datasets, which only takes part in structures."""

    def __init__(self, variant_tensor: Any, element_spec: Any, dataset_shape: Any) -> None:
        self._dataset_shape = dataset_shape
        super().__init__(variant_tensor, element_spec)

    @property
    def _type_spec(self) -> Any:
        return DatasetSpec(self._structure, self._dataset_shape)


def from_variant(variant: Any, structure: Any) -> Any:
    """The dataset that a variant represents."""
    return _VariantDataset(variant, structure)


def to_variant(dataset: Any) -> Any:
    """The scalar variant that represents a dataset."""
    return dataset._variant_tensor


class RangeDataset(_WithSpec, DatasetSource):
    def __init__(self, *args: Any) -> None:
        start, step = 0, 1
        if len(args) == 1:
            stop = args[0]
        elif len(args) == 2:
            start, stop = args
        elif len(args) == 3:
            start, stop, step = args
        else:
            raise ValueError("Invalid arguments to RangeDataset: %s" % str(args))
        self._start, self._stop, self._step = (
            _int64(start, "start"),
            _int64(stop, "stop"),
            _int64(step, "step"),
        )
        self._structure = tensor_spec.TensorSpec([], dtypes.int64)
        super().__init__(
            gen_dataset_ops.range_dataset(self._start, self._stop, self._step, **self._flat_structure)
        )


class ZipDataset(_WithSpec):
    def __init__(self, datasets: Any) -> None:
        for ds in nest.flatten(datasets):
            if not isinstance(ds, DatasetV2):
                if isinstance(ds, list):
                    raise TypeError(
                        "The argument to `Dataset.zip()` must be a nested structure of `Dataset` objects. Nested structures "
                        "do not support Python lists; please use a tuple instead."
                    )
                raise TypeError(
                    "The argument to `Dataset.zip()` must be a nested structure of `Dataset` objects."
                )
        self._datasets = datasets
        self._structure = nest.pack_sequence_as(datasets, [ds.element_spec for ds in nest.flatten(datasets)])
        variants = [ds._variant_tensor for ds in nest.flatten(datasets)]
        super().__init__(gen_dataset_ops.zip_dataset(variants, **self._flat_structure))

    def _inputs(self) -> list[Any]:
        return nest.flatten(self._datasets)


class ConcatenateDataset(_WithSpec):
    def __init__(self, input_dataset: Any, dataset_to_concatenate: Any) -> None:
        self._input_dataset, self._dataset_to_concatenate = input_dataset, dataset_to_concatenate
        types = dataset_ops.get_legacy_output_types(input_dataset)
        if types != dataset_ops.get_legacy_output_types(dataset_to_concatenate):
            raise TypeError(
                "Two datasets to concatenate have different types %s and %s"
                % (types, dataset_ops.get_legacy_output_types(dataset_to_concatenate))
            )
        classes = dataset_ops.get_legacy_output_classes(input_dataset)
        if classes != dataset_ops.get_legacy_output_classes(dataset_to_concatenate):
            raise TypeError(
                "Two datasets to concatenate have different classes %s and %s"
                % (classes, dataset_ops.get_legacy_output_classes(dataset_to_concatenate))
            )
        spec1, spec2 = input_dataset.element_spec, dataset_to_concatenate.element_spec
        self._structure = nest.pack_sequence_as(
            spec1,
            [a.most_specific_compatible_type(b) for a, b in zip(nest.flatten(spec1), nest.flatten(spec2))],
        )
        super().__init__(
            gen_dataset_ops.concatenate_dataset(
                input_dataset._variant_tensor, dataset_to_concatenate._variant_tensor, **self._flat_structure
            )
        )

    def _inputs(self) -> list[Any]:
        return [self._input_dataset, self._dataset_to_concatenate]


class _Counted(UnaryUnchangedStructureDataset):
    """A dataset that is made from an input dataset and a number."""

    _make: Any = None
    _none = -1

    def __init__(self, input_dataset: Any, count: Any) -> None:
        self._input_dataset = input_dataset
        self._count = _int64(self._none if count is None else count, "count")
        make = type(self)._make
        super().__init__(
            input_dataset, make(input_dataset._variant_tensor, self._count, **self._flat_structure)
        )


class RepeatDataset(_Counted):
    _make = staticmethod(gen_dataset_ops.repeat_dataset)


class TakeDataset(_Counted):
    _make = staticmethod(gen_dataset_ops.take_dataset)


class SkipDataset(_Counted):
    _make = staticmethod(gen_dataset_ops.skip_dataset)


class PrefetchDataset(UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any, buffer_size: Any, slack_period: Any = None) -> None:
        self._input_dataset = input_dataset
        self._buffer_size = _int64(
            dataset_ops.AUTOTUNE if buffer_size is None else buffer_size, "buffer_size"
        )
        super().__init__(
            input_dataset,
            gen_dataset_ops.prefetch_dataset(
                input_dataset._variant_tensor,
                self._buffer_size,
                slack_period=slack_period or 0,
                **self._flat_structure,
            ),
        )


class ShuffleDataset(UnaryUnchangedStructureDataset):
    def __init__(
        self, input_dataset: Any, buffer_size: Any, seed: Any = None, reshuffle_each_iteration: Any = None
    ) -> None:
        self._input_dataset = input_dataset
        self._buffer_size = _int64(buffer_size, "buffer_size")
        self._seed, self._seed2 = random_seed.get_seed(seed)
        self._reshuffle_each_iteration = (
            True if reshuffle_each_iteration is None else reshuffle_each_iteration
        )
        super().__init__(
            input_dataset,
            gen_dataset_ops.shuffle_dataset(
                input_dataset._variant_tensor, self._buffer_size, self._seed, self._seed2,
                reshuffle_each_iteration=self._reshuffle_each_iteration, **self._flat_structure,
            ),
        )  # fmt: skip


class CacheDataset(UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any, filename: Any) -> None:
        self._input_dataset = input_dataset
        self._filename = ops.convert_to_tensor(filename, dtype=dtypes.string, name="filename")
        super().__init__(
            input_dataset,
            gen_dataset_ops.cache_dataset(
                input_dataset._variant_tensor, self._filename, **self._flat_structure
            ),
        )


class ShardDataset(UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any, num_shards: Any, index: Any) -> None:
        self._input_dataset = input_dataset
        self._num_shards, self._index = _int64(num_shards, "num_shards"), _int64(index, "index")
        known_shards, known_index = tensor_util.constant_value(self._num_shards), tensor_util.constant_value(
            self._index
        )
        if known_shards is not None and known_shards < 1:
            raise ValueError("num_shards must be >= 1; got: %s" % num_shards)
        if known_shards is not None and known_index is not None and not 0 <= known_index < known_shards:
            raise ValueError(
                "index must be >= 0 and < num_shards; got: index=%s, num_shards=%s" % (index, num_shards)
            )
        super().__init__(
            input_dataset,
            gen_dataset_ops.shard_dataset(
                input_dataset._variant_tensor, self._num_shards, self._index, **self._flat_structure
            ),
        )


class WindowDataset(_WithSpec, UnaryDataset):
    def __init__(self, input_dataset: Any, size: Any, shift: Any, stride: Any, drop_remainder: Any) -> None:
        self._input_dataset = input_dataset
        self._size = _int64(size, "window_size")
        self._shift = self._size if shift is None else _int64(shift, "window_shift")
        self._stride = _int64(stride, "window_stride")
        self._drop_remainder = ops.convert_to_tensor(drop_remainder, dtype=dtypes.bool, name="drop_remainder")
        self._structure = nest.map_structure(lambda spec: DatasetSpec(spec), input_dataset.element_spec)
        super().__init__(
            input_dataset,
            gen_dataset_ops.window_dataset(
                input_dataset._variant_tensor, self._size, self._shift, self._stride, self._drop_remainder,
                **self._flat_structure,
            ),
        )  # fmt: skip


class _OptionsDataset(UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any, options: Any) -> None:
        self._input_dataset = input_dataset
        self._options = input_dataset.options().merge(options)
        super().__init__(input_dataset, input_dataset._variant_tensor)

    def options(self) -> Any:
        return self._options


class _MaxIntraOpParallelismDataset(UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any, max_intra_op_parallelism: Any) -> None:
        self._input_dataset = input_dataset
        number = _int64(max_intra_op_parallelism, "max_intra_op_parallelism")
        super().__init__(
            input_dataset,
            ged_ops.max_intra_op_parallelism_dataset(
                input_dataset._variant_tensor, number, **self._flat_structure
            ),
        )


class _PrivateThreadPoolDataset(UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any, num_threads: Any) -> None:
        self._input_dataset = input_dataset
        number = _int64(num_threads, "num_threads")
        super().__init__(
            input_dataset,
            ged_ops.private_thread_pool_dataset(
                input_dataset._variant_tensor, number, **self._flat_structure
            ),
        )


class _OptimizeDataset(UnaryUnchangedStructureDataset):
    """The same elements, from a pipeline optimized by the named rewrites."""

    def __init__(self, input_dataset: Any, optimizations: Any, optimization_configs: Any = None) -> None:
        self._input_dataset = input_dataset
        names = ops.convert_to_tensor(optimizations or [], dtype=dtypes.string, name="optimizations")
        super().__init__(
            input_dataset,
            gen_dataset_ops.optimize_dataset(
                input_dataset._variant_tensor,
                names,
                optimization_configs=optimization_configs or [],
                **self._flat_structure,
            ),
        )


class _ModelDataset(UnaryUnchangedStructureDataset):
    """The same elements, from a pipeline whose AUTOTUNE parameters are chosen by measured costs."""

    def __init__(self, input_dataset: Any, cpu_budget: int = 0) -> None:
        self._input_dataset = input_dataset
        super().__init__(
            input_dataset,
            gen_dataset_ops.model_dataset(
                input_dataset._variant_tensor, cpu_budget=cpu_budget, **self._flat_structure
            ),
        )


class _SetStatsAggregatorDataset(UnaryUnchangedStructureDataset):
    def __init__(self, input_dataset: Any, aggregator: Any, prefix: Any, counter_prefix: Any) -> None:
        self._input_dataset = input_dataset
        super().__init__(
            input_dataset,
            ged_ops.set_stats_aggregator_dataset(
                input_dataset._variant_tensor,
                aggregator._resource,
                prefix,
                counter_prefix,
                **self._flat_structure,
            ),
        )


class _RowsOfSparseDataset(UnaryDataset):
    """A dataset whose batches of sparse tensors are vectors of variants, one for each sparse tensor."""

    def __init__(self, input_dataset: Any) -> None:
        self._input_dataset = input_dataset
        spec = input_dataset.element_spec

        def rows(*args: Any) -> Any:
            element = args if type(spec) is tuple else args[0]
            return tuple(structure.to_batched_tensor_list(spec, element))

        from millrace.python.data.ops import _function_datasets

        inner = _function_datasets.MapDataset(input_dataset, rows, preserve_cardinality=True)
        self._inner = inner
        super().__init__(input_dataset, inner._variant_tensor)

    @property
    def element_spec(self) -> Any:
        return self._input_dataset.element_spec


class _UnbatchDataset(UnaryDataset):
    def __init__(self, input_dataset: Any) -> None:
        self._input_dataset = input_dataset
        shapes = input_dataset._flat_shapes
        if any(s.ndims == 0 for s in shapes):
            raise ValueError("Cannot unbatch an input with scalar components.")
        size: Any = tensor_shape.Dimension(None)
        for s in shapes:
            if s.ndims is not None and not isinstance(input_dataset, _RowsOfSparseDataset):
                if not size.is_compatible_with(s.dims[0]):
                    raise ValueError(
                        "Cannot unbatch an input whose components have different batch sizes: %s vs. %s."
                        % (size, s.dims[0])
                    )
                size = size.merge_with(s.dims[0])
        self._structure = nest.map_structure(lambda spec: spec._unbatch(), input_dataset.element_spec)
        super().__init__(
            input_dataset, ged_ops.unbatch_dataset(input_dataset._variant_tensor, **self._flat_structure)
        )

    @property
    def element_spec(self) -> Any:
        return self._structure
