# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Base of tests of the statistics of datasets."""
from __future__ import annotations

import re
from typing import Any

import numpy as np

from millrace.core.framework import summary_pb2
from millrace.python.data.experimental.ops import stats_aggregator
from millrace.python.data.kernel_tests import test_base
from millrace.python.data.ops import dataset_ops
from millrace.python.framework import errors


class StatsDatasetTestBase(test_base.DatasetTestBase):
    """A test case with assertions about summaries."""

    def datasetExperimentalStats(  # noqa: N802
        self, dataset: Any, aggregator: Any, prefix: str = "", counter_prefix: str = ""
    ) -> Any:
        """The dataset with an aggregator of statistics."""
        options = dataset_ops.Options()
        options.experimental_stats.aggregator = aggregator
        options.experimental_stats.prefix = prefix
        options.experimental_stats.counter_prefix = counter_prefix
        options.experimental_stats.latency_all_edges = False
        return dataset.with_options(options)

    def regexForNodeName(self, op_name: str, stats_type: str = "") -> str:  # noqa: N802
        """A pattern of the tags of a dataset's statistics."""
        return op_name + r"/_\d+" + ("::" + stats_type if stats_type else "")

    def getHandle(self, aggregator: Any) -> Any:  # noqa: N802
        """The summary of an aggregator, serialized."""
        assert isinstance(aggregator, stats_aggregator.StatsAggregatorV1)
        return self.evaluate(aggregator.get_summary())

    def _values(self, handle: Any, tag: str) -> list[Any]:
        summary = summary_pb2.Summary.FromString(handle)
        return [value for value in summary.value if re.match(tag + "$", value.tag)]

    def _only(self, handle: Any, tag: str) -> Any:
        values = self._values(handle, tag)
        if not values:
            self.fail(
                "Expected tag %r not found in summary %s" % (tag, summary_pb2.Summary.FromString(handle))
            )
        return values[0]

    def assertStatisticsContains(  # noqa: N802
        self, handle: Any, tag: str, num_events: int = -1, offset: int = 0
    ) -> None:
        """Fails unless there is a value with this tag."""
        self._only(handle, tag)

    def assertStatisticsHasCount(  # noqa: N802
        self,
        handle: Any,
        tag: str,
        count: float,
        num_events: int = -1,
        greater_than: bool = False,
        offset: int = 0,
    ) -> None:
        """Fails unless a histogram has counted that number of samples, or at least that number."""
        found = self._only(handle, tag).histo.num
        if greater_than:
            self.assertGreaterEqual(found, count)
        else:
            self.assertEqual(found, count)

    def assertStatisticsHasSum(  # noqa: N802
        self, handle: Any, tag: str, expected_value: float, num_events: int = -1, offset: int = 0
    ) -> None:
        """Fails unless the samples of a histogram have this sum."""
        self.assertEqual(expected_value, self._only(handle, tag).histo.sum)

    def assertStatisticsHasRange(  # noqa: N802
        self, handle: Any, tag: str, min_value: float, max_value: float, num_events: int = -1, offset: int = 0
    ) -> None:
        """Fails unless the samples of a histogram lie between two numbers."""
        histogram = self._only(handle, tag).histo
        self.assertLessEqual(min_value, histogram.min)
        self.assertGreaterEqual(max_value, histogram.max)

    def assertStatisticsHasScalarValue(  # noqa: N802
        self, handle: Any, tag: str, expected_value: float, num_events: int = -1, offset: int = 0
    ) -> None:
        """Fails unless a scalar has this value."""
        self.assertEqual(expected_value, self._only(handle, tag).simple_value)

    def parallelCallsStats(  # noqa: N802
        self,
        dataset_fn: Any,
        dataset_names: Any,
        num_output: int,
        function_processing_time: bool = False,
        check_elements: bool = True,
    ) -> None:
        """Runs a dataset whose n-th element has n times n; its parallel calls must be counted."""
        aggregator = stats_aggregator.StatsAggregator()
        dataset = self.datasetExperimentalStats(dataset_fn(), aggregator)
        next_element = self.getNext(dataset, requires_initialization=True)
        for i in range(num_output):
            element = self.evaluate(next_element())
            if check_elements:
                self.assertAllEqual(np.array([i] * i, dtype=np.int64), element)
            handle = self.getHandle(aggregator)
            for name in dataset_names:
                self.assertStatisticsHasRange(
                    handle, self.regexForNodeName(name, "thread_utilization"), 0.0, 1.0
                )
                if function_processing_time:
                    tag = self.regexForNodeName(name, "execution_time")
                    self.assertStatisticsHasCount(handle, tag, float(i + 1), greater_than=True)
        with self.assertRaises(errors.OutOfRangeError):
            self.evaluate(next_element())
