# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Bases of tests of datasets that read files of records of one length, of lines, and of TFRecords."""
from __future__ import annotations

import gzip
import os
import zlib
from typing import Any, Iterator

from millrace.python.data.experimental.ops import readers
from millrace.python.data.kernel_tests import test_base
from millrace.python.data.ops import readers as core_readers
from millrace.python.framework import dtypes, errors
from millrace.python.lib.io import python_io
from millrace.python.ops import parsing_ops
from millrace.python.util import compat


class FixedLengthRecordDatasetTestBase(test_base.DatasetTestBase):
    """A test case with files of seven records of three bytes, after five bytes and before two."""

    def setUp(self) -> None:  # noqa: N802
        """Sets the sizes."""
        super().setUp()
        self._num_files = 2
        self._num_records = 7
        self._header_bytes = 5
        self._record_bytes = 3
        self._footer_bytes = 2

    def _record(self, f: int, r: int) -> bytes:
        return compat.as_bytes(str(f * 2 + r) * self._record_bytes)

    def _createFiles(self) -> list[str]:  # noqa: N802
        filenames = []
        for i in range(self._num_files):
            filenames.append(os.path.join(self.get_temp_dir(), "fixed_length_record.%d.txt" % i))
            with open(filenames[-1], "wb") as f:
                f.write(b"H" * self._header_bytes)
                for j in range(self._num_records):
                    f.write(self._record(i, j))
                f.write(b"F" * self._footer_bytes)
        return filenames


class TextLineDatasetTestBase(test_base.DatasetTestBase):
    """A test case with files of lines."""

    def _lineText(self, f: int, line: int) -> bytes:  # noqa: N802
        return compat.as_bytes("%d: %d" % (f, line))

    def _createFiles(  # noqa: N802
        self, num_files: int, num_lines: int, crlf: bool = False, compression_type: str | None = None
    ) -> list[str]:
        filenames = []
        for i in range(num_files):
            filenames.append(os.path.join(self.get_temp_dir(), "text_line.%d.txt" % i))
            contents = []
            for j in range(num_lines):
                contents.append(self._lineText(i, j))
                # The last line of all but the first file has no end.
                if j + 1 != num_lines or i == 0:
                    contents.append(b"\r\n" if crlf else b"\n")
            _write(filenames[-1], b"".join(contents), compression_type)
        return filenames


def _write(name: str, contents: bytes, compression_type: str | None) -> None:
    if compression_type == "GZIP":
        contents = gzip.compress(contents)
    elif compression_type == "ZLIB":
        contents = zlib.compress(contents)
    elif compression_type:
        raise ValueError("Unsupported compression_type", compression_type)
    with open(name, "wb") as f:
        f.write(contents)


class TFRecordDatasetTestBase(test_base.DatasetTestBase):
    """A test case with two files of seven TFRecords, `self.test_filenames`."""

    def setUp(self) -> None:  # noqa: N802
        """Makes the files."""
        super().setUp()
        self._num_files = 2
        self._num_records = 7
        self.test_filenames = self._createFiles()

    def _record(self, f: int, r: int) -> bytes:
        return compat.as_bytes("Record %d of file %d" % (r, f))

    def _createFiles(self) -> list[str]:  # noqa: N802
        filenames = []
        for i in range(self._num_files):
            filenames.append(os.path.join(self.get_temp_dir(), "tf_record.%d.txt" % i))
            with python_io.TFRecordWriter(filenames[-1]) as writer:
                for j in range(self._num_records):
                    writer.write(self._record(i, j))
        return filenames

    def _writeFile(self, name: str, data: list[bytes]) -> str:  # noqa: N802
        filename = os.path.join(self.get_temp_dir(), name)
        with python_io.TFRecordWriter(filename) as writer:
            for record in data:
                writer.write(compat.as_bytes(record))
        return filename

    def _interleave(self, iterators: list[Iterator[Any]], cycle_length: int) -> Iterator[Any]:
        """The result of interleaving `cycle_length` files at a time, an element each."""
        pending, open_iterators = list(range(len(iterators))), []
        for _ in range(cycle_length):
            if pending:
                open_iterators.append(pending.pop(0))
        while open_iterators:
            for i in list(open_iterators):
                try:
                    yield next(iterators[i])
                except StopIteration:
                    at = open_iterators.index(i)
                    if pending:
                        open_iterators[at] = pending.pop(0)
                    else:
                        open_iterators.pop(at)

    def _next_expected_batch(
        self,
        file_indices: list[int],
        batch_size: int,
        num_epochs: int,
        cycle_length: int,
        drop_final_batch: bool,
    ) -> Iterator[list[bytes]]:
        def records(f: int) -> Iterator[bytes]:
            for r in range(self._num_records):
                yield self._record(f, r)

        batch: list[bytes] = []
        for _ in range(num_epochs):
            for record in self._interleave([records(f) for f in file_indices], cycle_length):
                batch.append(record)
                if len(batch) == batch_size:
                    yield batch
                    batch = []
        if batch and not drop_final_batch:
            yield batch

    def _verify_records(
        self,
        outputs: Any,
        batch_size: int,
        file_index: int | None,
        num_epochs: int,
        interleave_cycle_length: int,
        drop_final_batch: bool,
    ) -> None:
        files = list(range(self._num_files)) if file_index is None else [file_index]
        for expected in self._next_expected_batch(
            files, batch_size, num_epochs, interleave_cycle_length, drop_final_batch
        ):
            self.assertAllEqual(expected, self.evaluate(outputs()))


class MakeBatchedFeaturesDatasetTestBase(test_base.DatasetTestBase):
    """A test case with two files of seven examples: file, record, keywords and label."""

    def setUp(self) -> None:  # noqa: N802
        """Makes the files."""
        super().setUp()
        self._num_files = 2
        self._num_records = 7
        self._filenames = self._createFiles()

    def make_batch_feature(
        self,
        filenames: Any,
        num_epochs: Any,
        batch_size: int,
        label_key: str | None = None,
        reader_num_threads: int = 1,
        parser_num_threads: int = 1,
        shuffle: bool = False,
        shuffle_seed: Any = None,
        drop_final_batch: bool = False,
    ) -> Any:
        """A dataset of batches of parsed examples."""
        self.filenames, self.num_epochs, self.batch_size = filenames, num_epochs, batch_size
        features: dict[str, Any] = {
            "file": parsing_ops.FixedLenFeature([], dtypes.int64),
            "record": parsing_ops.FixedLenFeature([], dtypes.int64),
            "keywords": parsing_ops.VarLenFeature(dtypes.string),
        }
        if label_key:
            features[label_key] = parsing_ops.FixedLenFeature([], dtypes.string)
        return readers.make_batched_features_dataset(
            file_pattern=filenames,
            batch_size=batch_size,
            features=features,
            label_key=label_key,
            reader=core_readers.TFRecordDataset,
            num_epochs=num_epochs,
            shuffle=shuffle,
            shuffle_seed=shuffle_seed,
            reader_num_threads=reader_num_threads,
            parser_num_threads=parser_num_threads,
            drop_final_batch=drop_final_batch,
        )

    def _record(self, f: int, r: int, label: str) -> Any:
        from millrace.core.example import example_pb2

        example = example_pb2.Example()
        example.features.feature["file"].int64_list.value.append(f)
        example.features.feature["record"].int64_list.value.append(r)
        keywords = ["keyword%d" % i for i in range(1, 1 + (r * f) % 3)]
        example.features.feature["keywords"].bytes_list.value.extend(compat.as_bytes(k) for k in keywords)
        example.features.feature["label"].bytes_list.value.append(compat.as_bytes(label))
        return example

    def _createFiles(self) -> list[str]:  # noqa: N802
        filenames = []
        for i in range(self._num_files):
            filenames.append(os.path.join(self.get_temp_dir(), "tf_record.%d.txt" % i))
            with python_io.TFRecordWriter(filenames[-1]) as writer:
                for j in range(self._num_records):
                    writer.write(self._record(i, j, "fake-label").SerializeToString())
        return filenames

    def all_elements(self, dataset: Any) -> list[Any]:
        """The elements of a dataset."""
        next_element = self.getNext(dataset)
        found = []
        while True:
            try:
                found.append(self.evaluate(next_element()))
            except errors.OutOfRangeError:
                return found
