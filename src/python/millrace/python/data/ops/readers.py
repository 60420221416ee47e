# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets of the records of files."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import _datasets, _function_datasets, dataset_ops
from millrace.python.data.util import convert
from millrace.python.framework import dtypes, ops, tensor_shape, tensor_spec
from millrace.python.ops import array_ops, gen_dataset_ops, gen_experimental_dataset_ops as ged_ops

_DEFAULT_READER_BUFFER_SIZE_BYTES = 256 * 1024


def _filenames_dataset(filenames: Any) -> Any:
    """A dataset of the names.

    Raises:
      TypeError: the argument is neither strings nor a dataset of scalar strings.
    """
    if not isinstance(filenames, dataset_ops.DatasetV2):
        filenames = ops.convert_to_tensor(filenames, dtype=dtypes.string)
        return dataset_ops.DatasetV2.from_tensor_slices(
            array_ops.reshape(filenames, [-1], name="flat_filenames")
        )
    types = dataset_ops.get_legacy_output_types(filenames)
    if types != dtypes.string:
        raise TypeError("`filenames` must be a `tf.data.Dataset` of `tf.string` elements.")
    if not dataset_ops.get_legacy_output_shapes(filenames).is_compatible_with(tensor_shape.TensorShape([])):
        raise TypeError("`filenames` must be a `tf.data.Dataset` of scalar `tf.string` elements.")
    return filenames


def _read_files(make: Any, filenames: Any, num_parallel_reads: Any, name: str) -> Any:
    if num_parallel_reads is None:
        return filenames.flat_map(make)
    return ParallelInterleaveDataset(
        filenames, make, num_parallel_reads, block_length=1, sloppy=False, buffer_output_elements=None,
        prefetch_input_elements=None,
    )  # fmt: skip


class _Records(_datasets._WithSpec, _datasets.DatasetSource):
    """Scalar strings that an op reads."""

    def __init__(self, variant_tensor: Any) -> None:
        self._structure = tensor_spec.TensorSpec([], dtypes.string)
        super().__init__(variant_tensor)


class _ReadingDataset(dataset_ops.DatasetV2):
    """A dataset of the records of several files."""

    def __init__(self, make: Any, filenames: Any, num_parallel_reads: Any) -> None:
        self._filenames = _filenames_dataset(filenames)
        self._impl = _read_files(make, self._filenames, num_parallel_reads, type(self).__name__)
        super().__init__(self._impl._variant_tensor)

    def _inputs(self) -> list[Any]:
        return self._impl._inputs()

    @property
    def element_spec(self) -> Any:
        return tensor_spec.TensorSpec([], dtypes.string)


def _compression(compression_type: Any) -> Any:
    return convert.optional_param_to_tensor(
        "compression_type", compression_type, argument_default="", argument_dtype=dtypes.string
    )


def _buffer_size(buffer_size: Any) -> Any:
    return convert.optional_param_to_tensor("buffer_size", buffer_size, _DEFAULT_READER_BUFFER_SIZE_BYTES)


class TextLineDatasetV2(_ReadingDataset):
    """The lines of text files, without their newlines."""

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
    ) -> None:
        compression, size = _compression(compression_type), _buffer_size(buffer_size)
        super().__init__(
            lambda f: _Records(gen_dataset_ops.text_line_dataset(f, compression, size)),
            filenames,
            num_parallel_reads,
        )


class TFRecordDatasetV2(_ReadingDataset):
    """The records of TFRecord files."""

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
    ) -> None:
        compression, size = _compression(compression_type), _buffer_size(buffer_size)
        super().__init__(
            lambda f: _Records(gen_dataset_ops.tf_record_dataset(f, compression, size)),
            filenames,
            num_parallel_reads,
        )


class FixedLengthRecordDatasetV2(_ReadingDataset):
    """The records of one length of binary files, between a header and a footer."""

    def __init__(
        self, filenames: Any, record_bytes: Any, header_bytes: Any = None, footer_bytes: Any = None, buffer_size: Any = None,
        compression_type: Any = None, num_parallel_reads: Any = None,
    ) -> None:  # fmt: skip
        record = ops.convert_to_tensor(record_bytes, dtype=dtypes.int64, name="record_bytes")
        header = convert.optional_param_to_tensor("header_bytes", header_bytes)
        footer = convert.optional_param_to_tensor("footer_bytes", footer_bytes)
        size, compression = _buffer_size(buffer_size), _compression(compression_type)
        super().__init__(
            lambda f: _Records(
                gen_dataset_ops.fixed_length_record_dataset_v2(f, header, record, footer, size, compression)
            ),
            filenames, num_parallel_reads,
        )  # fmt: skip


class ParallelInterleaveDataset(_function_datasets.FlatMapDataset):
    """The elements of the datasets that a function returns, prefetched by threads."""

    def __init__(
        self, input_dataset: Any, map_func: Any, cycle_length: Any, block_length: Any, sloppy: Any,
        buffer_output_elements: Any, prefetch_input_elements: Any,
    ) -> None:  # fmt: skip
        self._prepare(input_dataset, map_func)
        self._cycle_length = ops.convert_to_tensor(cycle_length, dtype=dtypes.int64, name="cycle_length")
        self._block_length = ops.convert_to_tensor(block_length, dtype=dtypes.int64, name="block_length")
        self._sloppy = ops.convert_to_tensor(sloppy, dtype=dtypes.bool, name="sloppy")
        self._buffer_output_elements = convert.optional_param_to_tensor(
            "buffer_output_elements", buffer_output_elements, argument_default=2 * block_length
        )
        self._prefetch_input_elements = convert.optional_param_to_tensor(
            "prefetch_input_elements", prefetch_input_elements, argument_default=2 * cycle_length
        )
        _datasets.UnaryDataset.__init__(
            self,
            input_dataset,
            ged_ops.parallel_interleave_dataset(
                input_dataset._variant_tensor, self._captured, self._cycle_length, self._block_length, self._sloppy,
                self._buffer_output_elements, self._prefetch_input_elements, f=self._map_func.function,
                **self._flat_structure,
            ),
        )  # fmt: skip

    def _transformation_name(self) -> str:
        return "tf.data.experimental.parallel_interleave()"


class TextLineDatasetV1(dataset_ops.DatasetV1Adapter):
    """The lines of text files, without their newlines: scalar strings."""

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
    ) -> None:
        super().__init__(TextLineDatasetV2(filenames, compression_type, buffer_size, num_parallel_reads))


class TFRecordDatasetV1(dataset_ops.DatasetV1Adapter):
    """The records of TFRecord files: scalar strings."""

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
    ) -> None:
        super().__init__(TFRecordDatasetV2(filenames, compression_type, buffer_size, num_parallel_reads))


class FixedLengthRecordDatasetV1(dataset_ops.DatasetV1Adapter):
    """The records of one length of binary files: scalar strings."""

    def __init__(
        self, filenames: Any, record_bytes: Any, header_bytes: Any = None, footer_bytes: Any = None, buffer_size: Any = None,
        compression_type: Any = None, num_parallel_reads: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            FixedLengthRecordDatasetV2(
                filenames,
                record_bytes,
                header_bytes,
                footer_bytes,
                buffer_size,
                compression_type,
                num_parallel_reads,
            )
        )


TextLineDataset = TextLineDatasetV1
TFRecordDataset = TFRecordDatasetV1
FixedLengthRecordDataset = FixedLengthRecordDatasetV1
