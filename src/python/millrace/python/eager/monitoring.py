# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Counters, values and distributions of the process."""
from __future__ import annotations

import bisect
import sys
import threading
from typing import Any


class _Cell:
    """One value of a metric."""

    def __init__(self, start: Any) -> None:
        self._value, self._lock = start, threading.Lock()

    def value(self) -> Any:
        return self._value

    def set(self, value: Any) -> None:
        self._value = value

    def increase_by(self, value: int) -> None:
        """Adds to a counter."""
        with self._lock:
            self._value += value


class Metric:
    """A named set of cells, one for each combination of labels."""

    _start: Any = 0

    def __init__(self, name: str, description: str, *labels: str) -> None:
        self._name, self._description, self._labels = name, description, labels
        self._cells: dict[tuple[str, ...], Any] = {}

    def get_cell(self, *labels: str) -> Any:
        """The cell of these labels; ValueError when their number is wrong."""
        if len(labels) != len(self._labels):
            raise ValueError("The {} expects taking {} labels".format(type(self).__name__, len(self._labels)))
        return self._cells.setdefault(labels, self._new_cell())

    def _new_cell(self) -> Any:
        return _Cell(self._start)


class Counter(Metric):
    """Counts."""


class IntGauge(Metric):
    """Holds an integer."""


class StringGauge(Metric):
    """Holds a string."""

    _start = ""


class BoolGauge(Metric):
    """Holds a bool."""

    _start = False


class Buckets:
    """The limits of the buckets of a distribution, in ascending order; the last one is the largest number."""

    def __init__(self, limits: list[float]) -> None:
        self.limits = limits


class ExponentialBuckets(Buckets):
    """`bucket_count` limits, `scale` the first, each `growth_factor` times the one before, and the largest number."""

    def __init__(self, scale: float, growth_factor: float, bucket_count: int) -> None:
        limits = [scale * growth_factor**i for i in range(bucket_count)]
        super().__init__(limits + [sys.float_info.max])


class _SamplerCell:
    """One distribution."""

    def __init__(self, limits: list[float]) -> None:
        self._limits, self._lock = limits, threading.Lock()
        self._counts = [0] * len(limits)
        self._samples: list[float] = [sys.float_info.max, -sys.float_info.max, 0, 0, 0]

    def add(self, sample: float) -> None:
        """Counts a sample."""
        with self._lock:
            low, high, number, total, squares = self._samples
            self._samples = [
                min(low, sample), max(high, sample), number + 1, total + sample, squares + sample * sample
            ]  # fmt: skip
            self._counts[min(bisect.bisect_right(self._limits, sample), len(self._counts) - 1)] += 1

    def value(self) -> Any:
        """The distribution as a HistogramProto."""
        from millrace.core.framework import summary_pb2

        with self._lock:
            low, high, number, total, squares = self._samples
            return summary_pb2.HistogramProto(
                min=low, max=high, num=number, sum=total, sum_squares=squares,
                bucket_limit=self._limits, bucket=self._counts,
            )  # fmt: skip


class Sampler(Metric):
    """Holds distributions."""

    def __init__(self, name: str, buckets: Buckets, description: str, *labels: str) -> None:
        super().__init__(name, description, *labels)
        self._buckets = buckets

    def _new_cell(self) -> Any:
        return _SamplerCell(self._buckets.limits)
