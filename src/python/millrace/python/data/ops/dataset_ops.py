# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets: descriptions of elements that the engine's iterators read."""
from __future__ import annotations

import abc
import functools
from typing import Any

from millrace.python.data.ops import _functions
from millrace.python.data.ops._functions import StructuredFunctionWrapper  # noqa: F401
from millrace.python.data.ops._graph_of_datasets import _ensure_same_dataset_graph
from millrace.python.data.ops._spec import (  # noqa: F401
    DatasetSpec,
    get_legacy_output_classes,
    get_legacy_output_shapes,
    get_legacy_output_types,
    get_structure,
)
from millrace.python.data.util import nest, structure
from millrace.python.framework import composite_tensor, dtypes, ops
from millrace.python.ops import gen_dataset_ops
from millrace.python.training.tracking import base as tracking_base

AUTOTUNE = -1


class DatasetV2(tracking_base.Trackable, composite_tensor.CompositeTensor, metaclass=abc.ABCMeta):
    """A sequence of elements, each a structure of tensors.

    Methods return transformed datasets; an iterator returns the elements.
    """

    def __init__(self, variant_tensor: Any) -> None:
        self._variant_tensor_attr = variant_tensor
        self._graph_attr = ops.get_default_graph()

    @property
    def _variant_tensor(self) -> Any:
        return self._variant_tensor_attr

    @property
    def _graph(self) -> Any:
        return self._graph_attr

    @abc.abstractmethod
    def _inputs(self) -> list[Any]:
        """The datasets that this one reads."""
        raise NotImplementedError("Dataset._inputs")

    @property
    @abc.abstractmethod
    def element_spec(self) -> Any:
        """The structure of TypeSpecs of an element."""
        raise NotImplementedError("Dataset.element_spec")

    @property
    def _type_spec(self) -> Any:
        return DatasetSpec(self.element_spec)

    def __repr__(self) -> str:
        shapes = nest.map_structure(str, get_legacy_output_shapes(self))
        types = nest.map_structure(repr, get_legacy_output_types(self))
        text = "<%s shapes: %s, types: %s>" % (type(self).__name__, shapes, types)
        return text.replace("'", "")

    @property
    def _flat_shapes(self) -> list[Any]:
        return structure.get_flat_tensor_shapes(self.element_spec)

    @property
    def _flat_types(self) -> list[Any]:
        return structure.get_flat_tensor_types(self.element_spec)

    @property
    def _flat_structure(self) -> dict[str, Any]:
        return {"output_shapes": self._flat_shapes, "output_types": self._flat_types}

    def _functions(self) -> list[Any]:
        """The functions that it calls."""
        return []

    def options(self) -> Any:
        """The options of this dataset and of those that it reads."""
        options = Options()
        for dataset in self._inputs():
            options = options.merge(dataset.options())
        return options

    def _apply_options(self) -> Any:
        """The dataset that iterators read, with the stages that its options add."""
        dataset: Any = self
        options = self.options()
        threading = options.experimental_threading
        if threading is not None and threading.max_intra_op_parallelism is not None:
            dataset = _datasets._MaxIntraOpParallelismDataset(dataset, threading.max_intra_op_parallelism)
        if threading is not None and threading.private_threadpool_size is not None:
            dataset = _datasets._PrivateThreadPoolDataset(dataset, threading.private_threadpool_size)
        optimization = options.experimental_optimization
        rewrites = options._static_optimizations()
        if rewrites:
            configs = options._static_optimization_configs()
            dataset = _datasets._OptimizeDataset(dataset, rewrites, configs)
        if optimization.autotune is not False:
            dataset = _datasets._ModelDataset(dataset, optimization.autotune_cpu_budget or 0)
        stats = options.experimental_stats
        if stats is not None and stats.aggregator is not None:
            dataset = _datasets._SetStatsAggregatorDataset(
                dataset, stats.aggregator, stats.prefix, stats.counter_prefix
            )
        return dataset

    def __iter__(self) -> Any:
        if ops.executing_eagerly():
            from millrace.python.data.ops import iterator_ops

            return iterator_ops.IteratorV2(self)
        raise RuntimeError(
            "__iter__() is only supported inside of tf.function or when eager execution is enabled."
        )

    def __bool__(self) -> bool:
        return True

    # Sources.

    @staticmethod
    def from_tensors(tensors: Any) -> Any:
        """A dataset of one element, the structure `tensors`."""
        return _datasets.TensorDataset(tensors)

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Any:
        """A dataset whose elements are the rows of `tensors`, a structure of tensors with one size in dimension 0."""
        return _datasets.TensorSliceDataset(tensors)

    @staticmethod
    def from_generator(generator: Any, output_types: Any, output_shapes: Any = None, args: Any = None) -> Any:
        """A dataset of the elements of a Python generator; see `_generator.from_generator`."""
        from millrace.python.data.ops import _generator

        return _generator.from_generator(generator, output_types, output_shapes, args)

    @staticmethod
    def range(*args: Any) -> Any:
        """A dataset of int64 numbers: range(stop), range(start, stop) or range(start, stop, step)."""
        return _datasets.RangeDataset(*args)

    @staticmethod
    def zip(datasets: Any) -> Any:
        """A dataset of structures with one element of each of `datasets`, a structure of datasets."""
        return _datasets.ZipDataset(datasets)

    @staticmethod
    def list_files(file_pattern: Any, shuffle: Any = None, seed: Any = None) -> Any:
        """A dataset of the names of files that match patterns, in random order unless `shuffle` is False.

        Raises (when it is read):
          InvalidArgumentError: no file matches.
        """
        from millrace.python.ops import array_ops, control_flow_ops, gen_io_ops, math_ops, string_ops

        with ops.name_scope("list_files"):
            shuffle = True if shuffle is None else shuffle
            file_pattern = ops.convert_to_tensor(file_pattern, dtype=dtypes.string, name="file_pattern")
            matching = gen_io_ops.matching_files(file_pattern)
            found = math_ops.greater(array_ops.shape(matching)[0], 0, name="match_not_empty")
            message = math_ops.add(
                "No files matched pattern: ", string_ops.reduce_join(file_pattern, separator=", ")
            )
            check = control_flow_ops.Assert(found, [message], summarize=1, name="assert_not_empty")
            with ops.control_dependencies([check]):
                matching = array_ops.identity(matching)
            dataset = DatasetV2.from_tensor_slices(matching)
            if shuffle:
                buffer_size = math_ops.maximum(array_ops.shape(matching, out_type=dtypes.int64)[0], 1)
                dataset = dataset.shuffle(buffer_size, seed=seed)
            return dataset

    # Transformations.

    def concatenate(self, dataset: Any) -> Any:
        """The elements of this dataset and then those of another one of the same structure."""
        return _datasets.ConcatenateDataset(self, dataset)

    def prefetch(self, buffer_size: Any) -> Any:
        """The same elements, up to `buffer_size` of which are produced ahead of time (AUTOTUNE: a suitable number)."""
        return _datasets.PrefetchDataset(self, buffer_size)

    def repeat(self, count: Any = None) -> Any:
        """The elements `count` times, endlessly if it is None or -1."""
        return _datasets.RepeatDataset(self, count)

    def enumerate(self, start: Any = 0) -> Any:
        """Pairs of a number, int64, that counts up from `start`, and an element."""
        return DatasetV2.zip((_datasets.RangeDataset(start, dtypes.int64.max), self))

    def shuffle(self, buffer_size: Any, seed: Any = None, reshuffle_each_iteration: Any = None) -> Any:
        """The elements in random order: each is drawn from a buffer of `buffer_size` elements."""
        return _datasets.ShuffleDataset(self, buffer_size, seed, reshuffle_each_iteration)

    def cache(self, filename: Any = "") -> Any:
        """The elements, cached in memory or in files `filename`* during the first full iteration."""
        return _datasets.CacheDataset(self, filename)

    def take(self, count: Any) -> Any:
        """At most `count` elements; all with -1."""
        return _datasets.TakeDataset(self, count)

    def skip(self, count: Any) -> Any:
        """The elements after the first `count`; none with -1."""
        return _datasets.SkipDataset(self, count)

    def shard(self, num_shards: Any, index: Any) -> Any:
        """Every `num_shards`-th element, from the one with number `index` on."""
        return _datasets.ShardDataset(self, num_shards, index)

    def batch(self, batch_size: Any, drop_remainder: Any = False) -> Any:
        """Elements whose tensors have `batch_size` elements as rows; the last may have fewer, or is dropped."""
        return _batch_datasets.BatchDataset(self, batch_size, drop_remainder)

    def padded_batch(
        self, batch_size: Any, padded_shapes: Any, padding_values: Any = None, drop_remainder: Any = False
    ) -> Any:
        """Batches of elements of different shapes, each padded to `padded_shapes`.

        Sizes of None or -1 are those of the largest element of the batch.
        """
        return _batch_datasets.PaddedBatchDataset(
            self, batch_size, padded_shapes, padding_values, drop_remainder
        )

    def map(self, map_func: Any, num_parallel_calls: Any = None) -> Any:
        """The results of a function of each element; `num_parallel_calls` of them are computed in parallel."""
        if num_parallel_calls is None:
            return _function_datasets.MapDataset(self, map_func, preserve_cardinality=True)
        return _function_datasets.ParallelMapDataset(
            self, map_func, num_parallel_calls, preserve_cardinality=True
        )

    def flat_map(self, map_func: Any) -> Any:
        """The elements of the datasets that a function returns for each element, one dataset after the other."""
        return _function_datasets.FlatMapDataset(self, map_func)

    def interleave(
        self,
        map_func: Any,
        cycle_length: Any = AUTOTUNE,
        block_length: Any = 1,
        num_parallel_calls: Any = None,
    ) -> Any:
        """The elements of the datasets that a function makes, `block_length` of each of `cycle_length` in turn."""
        if num_parallel_calls is None:
            return _function_datasets.InterleaveDataset(self, map_func, cycle_length, block_length)
        return _function_datasets.ParallelInterleaveDataset(
            self, map_func, cycle_length, block_length, num_parallel_calls
        )

    def filter(self, predicate: Any) -> Any:
        """The elements for which a function returns True, a scalar bool."""
        return _function_datasets.FilterDataset(self, predicate)

    def apply(self, transformation_func: Any) -> Any:
        """The result of a function of the dataset.

        Raises:
          TypeError: the result is no dataset.
        """
        dataset = transformation_func(self)
        if not isinstance(dataset, DatasetV2):
            raise TypeError("`transformation_func` must return a Dataset. Got %s." % (dataset,))
        return dataset

    def window(self, size: Any, shift: Any = None, stride: Any = 1, drop_remainder: Any = False) -> Any:
        """Datasets of `size` elements, `stride` apart, each of which begins `shift` after the previous one."""
        return _datasets.WindowDataset(self, size, shift, stride, drop_remainder)

    def reduce(self, initial_state: Any, reduce_func: Any) -> Any:
        """The state that a function of state and element returns after all elements: a structure of tensors."""
        from millrace.python.data.ops import _reduce

        return _reduce.reduce(self, initial_state, reduce_func)

    def unbatch(self) -> Any:
        """The rows of the elements."""
        normalized = normalize_to_dense(self)
        return _datasets._UnbatchDataset(normalized)

    def with_options(self, options: Any) -> Any:
        """The same dataset with options.

        Raises:
          ValueError: they conflict with options that are set.
        """
        return _datasets._OptionsDataset(self, options)


class DatasetV1(DatasetV2):
    """The dataset of TensorFlow 1, which has methods that make iterators."""

    def __init__(self) -> None:
        try:
            variant_tensor = self._as_variant_tensor()
        except AttributeError as e:
            if "_as_variant_tensor" in str(e):
                raise AttributeError(
                    "Please use _variant_tensor instead of _as_variant_tensor() to obtain the variant associated with a "
                    "dataset"
                ) from e
            raise AttributeError(
                "{}: A likely cause of this error is that the super call for this dataset is not the last line of the "
                "__init__ method. The base class causes the _as_variant_tensor call in its constructor and if that uses "
                "attributes defined in the __init__ method, those attrs need to be defined before the super call.".format(
                    e
                )
            ) from e
        super().__init__(variant_tensor)

    @abc.abstractmethod
    def _as_variant_tensor(self) -> Any:
        """The scalar variant that represents the dataset."""
        raise NotImplementedError("Dataset._as_variant_tensor")

    def _inputs(self) -> list[Any]:
        return []

    @property
    def element_spec(self) -> Any:
        return structure.convert_legacy_structure(self.output_types, self.output_shapes, self.output_classes)

    @property
    def output_classes(self) -> Any:
        """The class of each component of an element."""
        return nest.map_structure(lambda spec: spec._to_legacy_output_classes(), self.element_spec)

    @property
    def output_shapes(self) -> Any:
        """The shape of each component of an element."""
        return nest.map_structure(lambda spec: spec._to_legacy_output_shapes(), self.element_spec)

    @property
    def output_types(self) -> Any:
        """The type of each component of an element."""
        return nest.map_structure(lambda spec: spec._to_legacy_output_types(), self.element_spec)

    def make_one_shot_iterator(self) -> Any:
        """An iterator that goes through the dataset once and needs no initialization.

        Raises:
          ValueError: the dataset uses state of the graph, such as a variable or a table.
        """
        return self._make_one_shot_iterator()

    def _make_one_shot_iterator(self) -> Any:
        from millrace.python.data.ops import iterator_ops

        if ops.executing_eagerly():
            return iterator_ops.IteratorV2(self)
        _ensure_same_dataset_graph(self)
        try:
            factory = _functions.dataset_factory(self)
        except ValueError as err:
            if "Cannot capture a stateful node" not in str(err):
                raise
            raise ValueError(
                "Failed to create a one-shot iterator for a dataset. `Dataset.make_one_shot_iterator()` does not support "
                "datasets that capture stateful objects, such as a `Variable` or `LookupTable`. In these cases, use "
                "`Dataset.make_initializable_iterator()`. (Original error: %s)" % err
            ) from err
        resource = gen_dataset_ops.one_shot_iterator(dataset_factory=factory, **self._flat_structure)
        return iterator_ops._of_spec(resource, None, self.element_spec)

    def make_initializable_iterator(self, shared_name: Any = None) -> Any:
        """An iterator whose `initializer` must be run before the first element is read."""
        return self._make_initializable_iterator(shared_name)

    def _make_initializable_iterator(self, shared_name: Any = None) -> Any:
        if ops.executing_eagerly():
            text = "dataset.make_initializable_iterator is not supported when eager execution is enabled."
            raise RuntimeError(text)
        from millrace.python.data.ops import iterator_ops

        _ensure_same_dataset_graph(self)
        dataset = self._apply_options()
        with ops.colocate_with(self._variant_tensor):
            resource = gen_dataset_ops.iterator_v2(
                container="", shared_name=shared_name or "", **self._flat_structure
            )
            initializer = gen_dataset_ops.make_iterator(dataset._variant_tensor, resource)
        return iterator_ops._of_spec(resource, initializer, dataset.element_spec)

    def map_with_legacy_function(self, map_func: Any, num_parallel_calls: Any = None) -> Any:
        """As map."""
        return self.map(map_func, num_parallel_calls)

    def filter_with_legacy_function(self, predicate: Any) -> Any:
        """As filter."""
        return self.filter(predicate)

    @staticmethod
    def from_sparse_tensor_slices(sparse_tensor: Any) -> Any:
        """A dataset of the rows of a SparseTensor, each as SparseTensor."""
        return DatasetV1Adapter(_datasets.SparseTensorSliceDataset(sparse_tensor))


class DatasetV1Adapter(DatasetV1):
    """A dataset of either kind as one of TensorFlow 1."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        super().__init__()

    def _as_variant_tensor(self) -> Any:
        return self._dataset._variant_tensor

    def _inputs(self) -> list[Any]:
        return self._dataset._inputs()

    def _functions(self) -> list[Any]:
        return self._dataset._functions()

    def options(self) -> Any:
        return self._dataset.options()

    @property
    def element_spec(self) -> Any:
        return self._dataset.element_spec


def _adapted(name: str) -> Any:
    method = DatasetV2.__dict__[name]
    plain = method.__func__ if isinstance(method, staticmethod) else method

    @functools.wraps(plain)
    def adapted(*args: Any, **kwargs: Any) -> Any:
        return DatasetV1Adapter(plain(*args, **kwargs))

    return staticmethod(adapted) if isinstance(method, staticmethod) else adapted


for _name in (
    "from_tensors", "from_tensor_slices", "from_generator", "range", "zip", "list_files", "concatenate", "prefetch",
    "repeat", "shuffle", "cache", "take", "skip", "shard", "batch", "padded_batch", "map", "flat_map", "interleave",
    "filter", "window", "unbatch", "with_options", "enumerate", "apply",
):  # fmt: skip
    setattr(DatasetV1, _name, _adapted(_name))

Dataset = DatasetV1


def make_one_shot_iterator(dataset: Any) -> Any:
    """An iterator of any dataset that needs no initialization."""
    return _as_v1(dataset)._make_one_shot_iterator()


def make_initializable_iterator(dataset: Any, shared_name: Any = None) -> Any:
    """An iterator of any dataset with an initializer."""
    return _as_v1(dataset)._make_initializable_iterator(shared_name)


def _as_v1(dataset: Any) -> Any:
    return dataset if hasattr(dataset, "_make_one_shot_iterator") else DatasetV1Adapter(dataset)


def normalize_to_dense(dataset: Any) -> Any:
    """The dataset with batches of sparse tensors as vectors of variants, which can be split into rows."""
    if not _datasets._has_sparse(dataset.element_spec):
        return dataset
    return _datasets._RowsOfSparseDataset(dataset)


from millrace.python.data.ops import _batch_datasets, _datasets, _function_datasets  # noqa: E402
from millrace.python.data.ops._datasets import *  # noqa: E402,F401,F403
from millrace.python.data.ops._datasets import (  # noqa: E402,F401
    _ModelDataset,
    _OptimizeDataset,
    from_variant,
    to_variant,
)
from millrace.python.data.ops._batch_datasets import BatchDataset, PaddedBatchDataset  # noqa: E402,F401
from millrace.python.data.ops._function_datasets import (  # noqa: E402,F401
    FilterDataset,
    FlatMapDataset,
    InterleaveDataset,
    MapDataset,
    ParallelInterleaveDataset,
    ParallelMapDataset,
)
from millrace.python.data.ops._options import Options  # noqa: E402
