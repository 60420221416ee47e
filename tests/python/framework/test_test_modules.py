# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Modules that TensorFlow's own tests import beside those that they test."""
from __future__ import annotations

import importlib
import math
import unittest
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.python.data.experimental.kernel_tests import sql_dataset_test_base, stats_dataset_test_base
from millrace.python.data.kernel_tests import filter_test_base
from millrace.python.grappler import cost_analyzer, model_analyzer
from millrace.python.kernel_tests.random import util as random_util
from millrace.python.kernel_tests.signal import test_util as signal_util


@pytest.mark.parametrize(
    "name",
    [
        "python.lib.core.error_codes_pb2", "python.ops.losses.loss_reduction", "python.ops.rpc_ops",
        "python.training.checkpointable.util", "python.training.distribute", "python.training.saveable_object",
    ],
)  # fmt: skip
def test_modules_are_there(name: str) -> None:
    module = importlib.import_module("tensorflow." + name)
    assert module is importlib.import_module("millrace." + name)


class Normal:
    """The moments of the standard normal distribution."""

    @staticmethod
    def moment(n: int) -> float:
        return 0.0 if n % 2 else float(math.prod(range(1, n, 2)))


def test_samples_are_told_from_others() -> None:
    rng = np.random.RandomState(5)
    good, bad = rng.randn(100000), rng.rand(100000) * 2 - 1
    assert max(random_util.test_moment_matching(good, 4, Normal())) < 4
    assert max(random_util.test_moment_matching(bad, 4, Normal())) > 50
    assert (
        random_util.chi_squared(rng.rand(10000), 10)
        < 27.9
        < random_util.chi_squared(rng.rand(10000) ** 2, 10)
    )
    assert (
        random_util.anderson_darling(rng.rand(10000)) < 4 < random_util.anderson_darling(rng.rand(10000) ** 2)
    )
    cut = good[np.abs(good) < 2]
    case = tf.test.TestCase()
    random_util.test_truncated_normal(case.assertEqual, case.assertAllClose, cut.size, cut, 1e-2, 2e-2, 2e-2)
    with pytest.raises(AssertionError):
        random_util.test_truncated_normal(case.assertEqual, case.assertAllClose, good.size, good)


def _meta_graph() -> Any:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder_with_default(tf.ones([3, 4]), [None, 4], name="x")
        y = tf.matmul(x, tf.ones([4, 2]), name="y")
        graph.add_to_collection(tf.GraphKeys.TRAIN_OP, y)
        return tf.train.export_meta_graph()


def test_reports_of_graphs() -> None:
    report = cost_analyzer.GenerateCostReport(_meta_graph(), per_node_report=True).decode()
    assert "Total time measured in ns (serialized): " in report and "MatMul" in report
    assert any(line.startswith("y ") for line in report.splitlines())
    report = model_analyzer.GenerateModelReport(_meta_graph(), debug=True).decode()
    assert "y [MatMul]" in report and "\toutput 0 (float32) has shape [?, 2]" in report
    assert "\tattribute transpose_a" in report and "\tinput 1 (float32) has known value: [[1. 1.]" in report


def test_graphs_as_they_are_optimised() -> None:
    with tf.Graph().as_default() as graph:
        y = tf.add(tf.constant(1.0), tf.constant(2.0), name="y")
    kept = signal_util.grappler_optimize(graph, [y])
    assert [(node.name, node.op) for node in kept.node] == [("y", "Const")]


def test_tests_of_filters() -> None:
    class FilterTest(filter_test_base.FilterTestBase):
        """The tests of the base, of Dataset.filter."""

        broken = False

        def apply_filter(self, input_dataset: Any, predicate: Any) -> Any:
            return input_dataset if self.broken else input_dataset.filter(predicate)

    names = unittest.TestLoader().getTestCaseNames(FilterTest)
    assert len(names) >= 7

    def failures() -> int:
        result = unittest.TestResult()
        for name in names:
            with tf.Graph().as_default():
                FilterTest(name).run(result)
        return len(result.failures) + len(result.errors)

    assert failures() == 0
    FilterTest.broken = True
    assert failures() >= 5


def test_databases_of_tests() -> None:
    class Case(sql_dataset_test_base.SqlDatasetTestBase):
        def runTest(self) -> None:  # noqa: N802
            query = "SELECT first_name, favorite_big_number, favorite_nonsense_word FROM students ORDER BY first_name DESC"
            rows = self._createSqlDataset(query, (tf.string, tf.int64, tf.string), num_repeats=2)
            self.assertDatasetProduces(
                rows, [(b"John", 2**63 - 1, b"n\0nsense"), (b"Jane", -(2**63), b"nonsense\0")] * 2
            )
            query = "SELECT people.state, victories FROM people JOIN townspeople USING (id) ORDER BY id"
            self.assertDatasetProduces(
                self._createSqlDataset(query, (tf.string, tf.float64)),
                [(b"Pennsylvania", 20.0), (b"California", -19.95)],
            )

    result = Case().run()
    assert result is not None and result.wasSuccessful(), result


def test_assertions_about_statistics() -> None:
    class Case(stats_dataset_test_base.StatsDatasetTestBase):
        def runTest(self) -> None:  # noqa: N802
            aggregator = tf.data.experimental.StatsAggregator()
            dataset = tf.data.Dataset.range(4).map(lambda x: tf.tile([x], tf.reshape(x, [1])))
            dataset = dataset.apply(tf.data.experimental.bytes_produced_stats("bytes"))
            take = self.getNext(
                self.datasetExperimentalStats(dataset, aggregator), requires_initialization=True
            )
            for i in range(4):
                self.evaluate(take())
                handle = self.getHandle(aggregator)
                self.assertStatisticsContains(handle, "bytes")
                self.assertStatisticsHasCount(handle, "bytes", i + 1)
                self.assertStatisticsHasSum(handle, "bytes", 8 * i * (i + 1) / 2)
                self.assertStatisticsHasRange(handle, "bytes", 0, 24)
            for wrong in (
                lambda: self.assertStatisticsContains(handle, "byte"),
                lambda: self.assertStatisticsHasCount(handle, "bytes", 5, greater_than=True),
                lambda: self.assertStatisticsHasSum(handle, "bytes", 47),
                lambda: self.assertStatisticsHasRange(handle, "bytes", 1, 24),
            ):
                with self.assertRaises(AssertionError):
                    wrong()

    with tf.Graph().as_default():
        result = Case().run()
    assert result is not None and result.wasSuccessful(), result
