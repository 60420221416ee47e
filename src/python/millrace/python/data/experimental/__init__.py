# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.data.experimental: further transformations of datasets."""
from millrace.python.data.experimental.ops.batching import dense_to_sparse_batch, map_and_batch  # noqa: F401
from millrace.python.data.experimental.ops.batching import (
    map_and_batch_with_legacy_function,
    unbatch,
)  # noqa: F401
from millrace.python.data.experimental.ops.cardinality import INFINITE as INFINITE_CARDINALITY  # noqa: F401
from millrace.python.data.experimental.ops.cardinality import (
    UNKNOWN as UNKNOWN_CARDINALITY,
    cardinality,
)  # noqa: F401
from millrace.python.data.experimental.ops.counter import Counter  # noqa: F401
from millrace.python.data.experimental.ops.distribute_options import DistributeOptions  # noqa: F401
from millrace.python.data.experimental.ops.enumerate_ops import enumerate_dataset  # noqa: F401
from millrace.python.data.experimental.ops.error_ops import ignore_errors  # noqa: F401
from millrace.python.data.experimental.ops.get_single_element import get_single_element  # noqa: F401
from millrace.python.data.experimental.ops.grouping import (
    bucket_by_sequence_length,
    group_by_reducer,
)  # noqa: F401
from millrace.python.data.experimental.ops.grouping import group_by_window, Reducer  # noqa: F401
from millrace.python.data.experimental.ops.interleave_ops import choose_from_datasets  # noqa: F401
from millrace.python.data.experimental.ops.interleave_ops import (
    parallel_interleave,
    sample_from_datasets,
)  # noqa: F401
from millrace.python.data.experimental.ops.iterator_ops import CheckpointInputPipelineHook  # noqa: F401
from millrace.python.data.experimental.ops.iterator_ops import make_saveable_from_iterator  # noqa: F401
from millrace.python.data.experimental.ops.optimization_options import MapVectorizationOptions  # noqa: F401
from millrace.python.data.experimental.ops.optimization_options import OptimizationOptions  # noqa: F401
from millrace.python.data.experimental.ops.parsing_ops import parse_example_dataset  # noqa: F401
from millrace.python.data.experimental.ops.prefetching_ops import (
    copy_to_device,
    prefetch_to_device,
)  # noqa: F401
from millrace.python.data.experimental.ops.random_ops import RandomDataset  # noqa: F401
from millrace.python.data.experimental.ops.readers import (
    CsvDataset,
    make_batched_features_dataset,
)  # noqa: F401
from millrace.python.data.experimental.ops.readers import make_csv_dataset, SqlDataset  # noqa: F401
from millrace.python.data.experimental.ops.resampling import rejection_resample  # noqa: F401
from millrace.python.data.experimental.ops.scan_ops import scan  # noqa: F401
from millrace.python.data.experimental.ops.shuffle_ops import shuffle_and_repeat  # noqa: F401
from millrace.python.data.experimental.ops.stats_aggregator import StatsAggregator  # noqa: F401
from millrace.python.data.experimental.ops.stats_ops import bytes_produced_stats, latency_stats  # noqa: F401
from millrace.python.data.experimental.ops.stats_options import StatsOptions  # noqa: F401
from millrace.python.data.experimental.ops.take_while_ops import take_while  # noqa: F401
from millrace.python.data.experimental.ops.threading_options import ThreadingOptions  # noqa: F401
from millrace.python.data.experimental.ops.unique import unique  # noqa: F401
from millrace.python.data.experimental.ops.writers import TFRecordWriter  # noqa: F401
from millrace.python.data.ops._datasets import to_variant  # noqa: F401
from millrace.python.data.ops._spec import DatasetSpec as DatasetStructure, get_structure  # noqa: F401
from millrace.python.data.ops.dataset_ops import AUTOTUNE  # noqa: F401
from millrace.python.data.ops.iterator_ops import get_next_as_optional  # noqa: F401
from millrace.python.data.ops.optional_ops import Optional, OptionalStructure  # noqa: F401
from millrace.python.framework.sparse_tensor import SparseTensorSpec as _SparseTensorSpec
from millrace.python.framework.tensor_spec import TensorSpec as _TensorSpec
from millrace.python.framework.type_spec import TypeSpec as Structure  # noqa: F401


def TensorStructure(dtype, shape):  # type: ignore[no-untyped-def]
    """The TensorSpec of a type and a shape."""
    return _TensorSpec(shape, dtype)


def SparseTensorStructure(dtype, shape):  # type: ignore[no-untyped-def]
    """The SparseTensorSpec of a type and a shape."""
    return _SparseTensorSpec(shape, dtype)


def TensorArrayStructure(dtype, element_shape, dynamic_size, infer_shape):  # type: ignore[no-untyped-def]
    """The TensorArraySpec of an array of elements of a type and a shape."""
    from millrace.python.ops import tensor_array_ops

    return tensor_array_ops.TensorArraySpec(element_shape, dtype, dynamic_size, infer_shape)
