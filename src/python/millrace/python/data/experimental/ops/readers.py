# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets of CSV files, databases, and batches of records."""
from __future__ import annotations

import collections
import csv
from typing import Any

from millrace.python.data.experimental.ops import error_ops, parsing_ops
from millrace.python.data.ops import _datasets, dataset_ops, readers as core_readers
from millrace.python.data.util import convert
from millrace.python.framework import constant_op, dtypes, ops, tensor_spec
from millrace.python.lib.io import file_io
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops
from millrace.python.platform import gfile

_ACCEPTABLE_CSV_TYPES = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.string)
_DEFAULT_READER_BUFFER_SIZE_BYTES = 4 * 1024 * 1024


class CsvDatasetV2(_datasets._WithSpec, _datasets.DatasetSource):
    """The records of CSV files: a tuple of scalars each.

    Args:
      filenames: of the files.
      record_defaults: for each column that is read, its type if the field is required, or a tensor with its
        default.
      compression_type: "", "ZLIB" or "GZIP".
      buffer_size: the number of bytes of a read.
      header: whether each file begins with a line of names.
      field_delim, use_quote_delim, na_value: as in decode_csv.
      select_cols: numbers of the columns that are read, all when None.
    """

    def __init__(
        self, filenames: Any, record_defaults: Any, compression_type: Any = None, buffer_size: Any = None,
        header: Any = False, field_delim: Any = ",", use_quote_delim: Any = True, na_value: Any = "", select_cols: Any = None,
    ) -> None:  # fmt: skip
        self._filenames = ops.convert_to_tensor(filenames, dtype=dtypes.string, name="filenames")
        compression = convert.optional_param_to_tensor(
            "compression_type", compression_type, argument_default="", argument_dtype=dtypes.string
        )
        defaults = [
            constant_op.constant([], dtype=x)
            if not isinstance(x, ops.Tensor) and x in _ACCEPTABLE_CSV_TYPES
            else x
            for x in (_as_type(x) for x in record_defaults)
        ]
        self._record_defaults = ops.convert_n_to_tensor(defaults, name="record_defaults")
        self._structure = tuple(tensor_spec.TensorSpec([], d.dtype) for d in self._record_defaults)
        super().__init__(
            ged_ops.csv_dataset(
                filenames=self._filenames, record_defaults=self._record_defaults,
                buffer_size=convert.optional_param_to_tensor(
                    "buffer_size", buffer_size, _DEFAULT_READER_BUFFER_SIZE_BYTES
                ),
                header=ops.convert_to_tensor(header, dtype=dtypes.bool, name="header"),
                output_shapes=self._flat_shapes,
                field_delim=ops.convert_to_tensor(field_delim, dtype=dtypes.string, name="field_delim"),
                use_quote_delim=ops.convert_to_tensor(use_quote_delim, dtype=dtypes.bool, name="use_quote_delim"),
                na_value=ops.convert_to_tensor(na_value, dtype=dtypes.string, name="na_value"),
                select_cols=convert.optional_param_to_tensor(
                    "select_cols", select_cols, argument_default=[], argument_dtype=dtypes.int64
                ),
                compression_type=compression,
            )
        )  # fmt: skip


def _as_type(value: Any) -> Any:
    if isinstance(value, type) or isinstance(value, dtypes.DType):
        try:
            return dtypes.as_dtype(value)
        except TypeError:
            return value
    return value


class CsvDatasetV1(dataset_ops.DatasetV1Adapter):
    """The records of CSV files: a tuple of scalars each; see CsvDatasetV2."""

    def __init__(
        self, filenames: Any, record_defaults: Any, compression_type: Any = None, buffer_size: Any = None,
        header: Any = False, field_delim: Any = ",", use_quote_delim: Any = True, na_value: Any = "", select_cols: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            CsvDatasetV2(
                filenames, record_defaults, compression_type, buffer_size, header, field_delim, use_quote_delim, na_value,
                select_cols,
            )
        )  # fmt: skip


CsvDataset = CsvDatasetV1


class SqlDatasetV2(_datasets._WithSpec, _datasets.DatasetSource):
    """The rows of the result of an SQL query."""

    def __init__(self, driver_name: Any, data_source_name: Any, query: Any, output_types: Any) -> None:
        self._structure = tuple(tensor_spec.TensorSpec([], t) for t in output_types)
        super().__init__(
            ged_ops.sql_dataset(
                ops.convert_to_tensor(driver_name, dtypes.string), ops.convert_to_tensor(data_source_name, dtypes.string),
                ops.convert_to_tensor(query, dtypes.string), **self._flat_structure,
            )
        )  # fmt: skip


class SqlDatasetV1(dataset_ops.DatasetV1Adapter):
    """The rows of the result of an SQL query."""

    def __init__(self, driver_name: Any, data_source_name: Any, query: Any, output_types: Any) -> None:
        super().__init__(SqlDatasetV2(driver_name, data_source_name, query, output_types))


SqlDataset = SqlDatasetV1


def _maybe_shuffle_and_repeat(
    dataset: Any, num_epochs: Any, shuffle: Any, buffer_size: Any, seed: Any
) -> Any:
    if shuffle:
        dataset = dataset.shuffle(buffer_size, seed)
    if num_epochs != 1:
        dataset = dataset.repeat(num_epochs)
    return dataset


def _get_file_names(file_pattern: Any, shuffle: Any) -> list[str]:
    """The files that match; ValueError if there is none."""
    patterns = file_pattern if isinstance(file_pattern, (list, tuple)) else [file_pattern]
    if not patterns:
        raise ValueError("File pattern is empty.")
    names: list[str] = []
    for pattern in patterns:
        names += list(gfile.Glob(pattern))
    if not names:
        raise ValueError("No files match %s." % file_pattern)
    return names if shuffle else sorted(names)


def make_tf_record_dataset(
    file_pattern: Any, batch_size: Any, parser_fn: Any = None, num_epochs: Any = None, shuffle: Any = True,
    shuffle_buffer_size: Any = None, shuffle_seed: Any = None, prefetch_buffer_size: Any = 1, num_parallel_reads: Any = None,
    num_parallel_parser_calls: Any = None, drop_final_batch: Any = False,
) -> Any:  # fmt: skip
    """Batches of the records of TFRecord files, parsed by `parser_fn`."""
    files = dataset_ops.Dataset.list_files(file_pattern, shuffle=shuffle, seed=shuffle_seed)
    dataset = core_readers.TFRecordDataset(
        files, num_parallel_reads=num_parallel_reads or (24 if shuffle else 1)
    )
    dataset = _maybe_shuffle_and_repeat(
        dataset, num_epochs, shuffle, shuffle_buffer_size or 10000, shuffle_seed
    )
    drop = drop_final_batch or num_epochs is None
    if parser_fn is not None:
        dataset = dataset.map(parser_fn, num_parallel_calls=num_parallel_parser_calls)
    return dataset.batch(batch_size, drop_remainder=drop).prefetch(prefetch_buffer_size)


def make_batched_features_dataset(
    file_pattern: Any, batch_size: Any, features: Any, reader: Any = core_readers.TFRecordDataset, label_key: Any = None,
    reader_args: Any = None, num_epochs: Any = None, shuffle: Any = True, shuffle_buffer_size: Any = 10000,
    shuffle_seed: Any = None, prefetch_buffer_size: Any = None, reader_num_threads: Any = None, parser_num_threads: Any = None,
    sloppy_ordering: Any = False, drop_final_batch: Any = False,
) -> Any:  # fmt: skip
    """Batches of parsed Examples of files: dicts of tensors, or pairs (dict, feature `label_key`)."""
    names = _get_file_names(file_pattern, False)
    dataset = dataset_ops.Dataset.from_tensor_slices(names)
    if shuffle:
        dataset = dataset.shuffle(len(names), shuffle_seed)
    dataset = dataset.interleave(
        lambda f: reader(f, *(reader_args or [])), cycle_length=reader_num_threads or 1
    )
    types = dataset_ops.get_legacy_output_types(dataset)
    if types == (dtypes.string, dtypes.string):
        dataset = dataset.map(lambda _, v: v)
    dataset = _maybe_shuffle_and_repeat(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    dataset = dataset.apply(
        parsing_ops.parse_example_dataset(features, num_parallel_calls=parser_num_threads or 2)
    )
    if label_key:
        if label_key not in features:
            raise ValueError("The `label_key` provided (%r) must be one of the `features` keys." % label_key)
        dataset = dataset.map(lambda x: (x, x.pop(label_key)))
    return dataset.prefetch(dataset_ops.AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


def _column_names(names: list[str], delim: str, quotes: bool) -> list[str]:
    """The column names in the first lines of files; ValueError if files differ."""
    found: Any = None
    for name in names:
        with file_io.FileIO(name, "r") as f:
            quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
            line: list[str] = next(csv.reader([f.readline()], delimiter=delim, quoting=quoting), [])
        if found is not None and found != line:
            raise ValueError("All input CSV files should have the same column names in the header row.")
        found = line
    return found


def _infer_defaults(names: list[str], columns: Any, count: int, header: bool, delim: str, quotes: bool, na: str,
                    rows: int) -> list[Any]:  # fmt: skip
    """For each column the narrowest of int32, int64, float32, float64 and string that all values in the first rows fit."""
    order = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.string]
    kinds: list[Any] = [None] * len(columns)
    seen = 0
    for name in names:
        with file_io.FileIO(name, "r") as f:
            quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
            reader = csv.reader(f, delimiter=delim, quoting=quoting)
            if header:
                next(reader, None)
            for row in reader:
                if len(row) != count:
                    raise ValueError(
                        "Problem inferring types: CSV row has different number of fields than expected."
                    )
                for i, column in enumerate(columns):
                    kind = _kind_of(row[column], na)
                    if kind is not None:
                        kinds[i] = (
                            kind if kinds[i] is None else order[max(order.index(kinds[i]), order.index(kind))]
                        )
                seen += 1
                if rows and seen >= rows:
                    break
        if rows and seen >= rows:
            break
    return [constant_op.constant([0 if k != dtypes.string else ""], dtype=k or dtypes.string) if k is not None and
            k != dtypes.string else constant_op.constant([""], dtype=dtypes.string) for k in kinds]  # fmt: skip


def _kind_of(text: str, na: str) -> Any:
    if text in ("", na):
        return None
    try:
        number = int(text)
        if -(2**31) <= number < 2**31:
            return dtypes.int32
        return dtypes.int64 if -(2**63) <= number < 2**63 else dtypes.float64
    except ValueError:
        pass
    try:
        number_f = float(text)
    except ValueError:
        return dtypes.string
    return (
        dtypes.float32 if abs(number_f) <= 3.4028234663852886e38 or number_f != number_f else dtypes.float64
    )


def make_csv_dataset(
    file_pattern: Any, batch_size: Any, column_names: Any = None, column_defaults: Any = None, label_name: Any = None,
    select_columns: Any = None, field_delim: str = ",", use_quote_delim: bool = True, na_value: str = "", header: bool = True,
    num_epochs: Any = None, shuffle: Any = True, shuffle_buffer_size: Any = 10000, shuffle_seed: Any = None,
    prefetch_buffer_size: Any = None, num_parallel_reads: Any = None, sloppy: Any = False, num_rows_for_inference: Any = 100,
    compression_type: Any = None, ignore_errors: Any = False,
) -> Any:  # fmt: skip
    """Batches of the records of CSV files: dicts of columns, or pairs of a dict and the column `label_name`.

    Raises:
      ValueError: names of columns are not known, or files differ in their columns.
    """
    names = _get_file_names(file_pattern, False)
    if column_names is None:
        if not header:
            raise ValueError("Cannot infer column names without a header line.")
        column_names = _column_names(names, field_delim, use_quote_delim)
    if len(column_names) != len(set(column_names)):
        raise ValueError("Cannot have duplicate column names.")
    chosen = list(range(len(column_names)))
    if select_columns is not None:
        chosen = sorted(column_names.index(c) if isinstance(c, str) else c for c in select_columns)
        if len(set(chosen)) != len(chosen):
            raise ValueError("select_columns has duplicates.")
    if column_defaults is not None:
        column_defaults = [_as_type(x) for x in column_defaults]
        if len(column_defaults) != len(chosen):
            raise ValueError("Number of column defaults does not match the number of columns.")
    else:
        column_defaults = _infer_defaults(
            names,
            chosen,
            len(column_names),
            header,
            field_delim,
            use_quote_delim,
            na_value,
            num_rows_for_inference or 0,
        )
    if select_columns is not None:
        column_names = [column_names[i] for i in chosen]
    if label_name is not None and label_name not in column_names:
        raise ValueError("`label_name` provided must be one of the columns.")

    def filename_to_dataset(filename: Any) -> Any:
        dataset = CsvDatasetV2(
            filename, record_defaults=column_defaults, field_delim=field_delim, use_quote_delim=use_quote_delim,
            na_value=na_value, select_cols=chosen if select_columns is not None else None, header=header,
            compression_type=compression_type,
        )  # fmt: skip
        return dataset.apply(error_ops.ignore_errors()) if ignore_errors else dataset

    def map_fn(*columns: Any) -> Any:
        features = collections.OrderedDict(zip(column_names, columns))
        if label_name is not None:
            label = features.pop(label_name)
            return features, label
        return features

    dataset = dataset_ops.Dataset.from_tensor_slices(names)
    if shuffle:
        dataset = dataset.shuffle(len(names), shuffle_seed)
    dataset = dataset.interleave(filename_to_dataset, cycle_length=num_parallel_reads or 1)
    dataset = _maybe_shuffle_and_repeat(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    dataset = dataset.batch(batch_size=batch_size, drop_remainder=num_epochs is None).map(map_fn)
    return dataset.prefetch(
        prefetch_buffer_size if prefetch_buffer_size is not None else dataset_ops.AUTOTUNE
    )
