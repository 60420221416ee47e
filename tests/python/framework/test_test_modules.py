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
    assert "y [MatMul]" in report and "\toutput 0 has type float32 and shape (?, 2)" in report
    assert "\tattribute transpose_a" in report


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
