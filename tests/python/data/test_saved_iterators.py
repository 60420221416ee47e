# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Iterators that are saved and restored continue where they were, by the base of TensorFlow's tests of it."""
from __future__ import annotations

from typing import Any

import numpy as np

import millrace as tf
from millrace.python.data.experimental.kernel_tests import reader_dataset_ops_test_base as readers
from millrace.python.data.experimental.kernel_tests.serialization import (
    dataset_serialization_test_base as base,
)
from millrace.python.framework import sparse_tensor

Dataset = tf.data.Dataset
exp = tf.data.experimental


class Saved(base.DatasetSerializationTestBase):
    """Saved and restored twice; `run_core_tests` has all checks."""

    def gen_break_points(self, num_outputs: int, num_samples: int = 2) -> list[int]:
        """Two points within."""
        return super().gen_break_points(num_outputs, 4)[1:3]

    def check(self, make: Any, count: int) -> None:
        self.verify_multiple_breaks(make, count)


class SavedIterators(Saved):
    """One dataset of each kind that has a state."""

    def test_range_and_batches(self) -> None:
        self.run_core_tests(lambda: Dataset.range(3, 21), 18)
        self.check(lambda: Dataset.range(20).batch(3), 7)
        self.check(
            lambda: Dataset.range(9)
            .map(lambda i: tf.fill([tf.cast(i, tf.int32)], i))
            .padded_batch(4, [None]),
            3,
        )
        self.check(lambda: Dataset.from_tensor_slices(np.arange(12).reshape(6, 2)).apply(exp.unbatch()), 12)

    def test_sparse(self) -> None:
        def make() -> Any:
            return Dataset.from_tensor_slices(
                sparse_tensor.SparseTensorValue([[0, 0], [1, 0], [2, 0]], np.array([0.0, 1.0, 2.0]), [3, 1])
            )

        self.run_core_tests(make, 3, sparse_tensors=True)

    def test_functions(self) -> None:
        self.check(lambda: Dataset.range(20).map(lambda i: i * 2), 20)
        self.check(lambda: Dataset.range(20).map(lambda i: i * 2, num_parallel_calls=3), 20)
        self.check(lambda: Dataset.range(20).filter(lambda i: tf.equal(i % 3, 0)), 7)
        self.check(lambda: Dataset.range(5).flat_map(lambda i: Dataset.range(i)), 10)
        self.check(lambda: Dataset.range(5).interleave(lambda i: Dataset.range(3), 2, 2), 15)
        self.check(
            lambda: Dataset.range(5).interleave(lambda i: Dataset.range(3), 2, 2, num_parallel_calls=2), 15
        )
        self.check(lambda: Dataset.range(9).apply(exp.scan(np.int64(0), lambda s, i: (s + i, s * i))), 9)
        self.check(lambda: Dataset.range(9).apply(exp.take_while(lambda i: i < 7)), 7)
        self.check(lambda: Dataset.range(9).apply(exp.map_and_batch(lambda i: i * i, 2)), 5)
        grouped = exp.group_by_window(lambda i: i % 2, lambda k, w: w.batch(3), 3)
        self.check(lambda: Dataset.range(12).apply(grouped), 4)
        reduced = exp.group_by_reducer(
            lambda i: i % 2, exp.Reducer(lambda k: np.int64(0), lambda s, i: s + i, lambda s: s)
        )
        self.check(lambda: Dataset.range(10).apply(reduced), 2)

    def test_order_and_number(self) -> None:
        self.check(lambda: Dataset.range(7).repeat(3), 21)
        self.check(lambda: Dataset.range(7).skip(2).take(4), 4)
        self.check(lambda: Dataset.range(20).shard(3, 1), 7)
        self.check(lambda: Dataset.range(20).shuffle(5, seed=55), 20)
        self.check(lambda: Dataset.range(5).shuffle(3, seed=55, reshuffle_each_iteration=False).repeat(3), 15)
        self.check(lambda: Dataset.range(5).apply(exp.shuffle_and_repeat(3, 3, seed=55)), 15)
        self.check(lambda: Dataset.zip((Dataset.range(5), Dataset.range(3).repeat())), 5)
        self.check(lambda: Dataset.range(5).concatenate(Dataset.range(4)), 9)
        self.check(lambda: Dataset.range(9).prefetch(4), 9)
        self.check(lambda: Dataset.range(9).cache().repeat(2), 18)
        self.check(lambda: Dataset.from_tensor_slices([1, 1, 2, 3, 2]).apply(exp.unique()), 3)
        self.check(
            lambda: exp.choose_from_datasets(
                [Dataset.range(5), Dataset.range(5)], Dataset.range(10).map(lambda i: i % 2)
            ),
            10,
        )
        self.check(
            lambda: exp.sample_from_datasets([Dataset.range(5).repeat(), Dataset.range(5)], seed=3).take(9), 9
        )
        self.check(lambda: exp.RandomDataset(5).take(10), 10)
        self.check(lambda: Dataset.range(9).map(lambda i: tf.check_numerics(1.0 / tf.cast(i, tf.float32), "x")).apply(
            exp.ignore_errors()
        ), 8)  # fmt: skip


class SavedReaders(Saved, readers.TFRecordDatasetTestBase):
    """Readers of TFRecords."""

    def test_records(self) -> None:
        self.check(lambda: tf.data.TFRecordDataset(self.test_filenames).repeat(2), 28)
        self.check(
            lambda: tf.data.TFRecordDataset(self.test_filenames, buffer_size=3, num_parallel_reads=2), 14
        )
        dataset = Dataset.from_tensor_slices(self.test_filenames).interleave(
            tf.data.TFRecordDataset, cycle_length=2
        )
        self._verify_records(self.getNext(dataset.batch(4)), 4, None, 1, 2, False)


class SavedLines(Saved, readers.TextLineDatasetTestBase):
    """Readers of lines."""

    def test_lines(self) -> None:
        for compression in (None, "GZIP", "ZLIB"):
            names = self._createFiles(3, 5, crlf=True, compression_type=compression)
            self.check(lambda: tf.data.TextLineDataset(names, compression_type=compression), 15)


class SavedFixed(Saved, readers.FixedLengthRecordDatasetTestBase):
    """Readers of records of one length."""

    def test_records(self) -> None:
        names = self._createFiles()
        self.check(lambda: tf.data.FixedLengthRecordDataset(names, 3, 5, 2), 14)


class Features(readers.MakeBatchedFeaturesDatasetTestBase):
    """Batches of examples."""

    def test_batches(self) -> None:
        with tf.Graph().as_default(), self.session():
            dataset = self.make_batch_feature(self._filenames[:1], 1, 3, label_key="label")
            found = self.all_elements(dataset)
        assert [labels.tolist() for _, labels in found] == [[b"fake-label"] * n for n in (3, 3, 1)]
        assert np.concatenate([features["record"] for features, _ in found]).tolist() == list(range(7))
