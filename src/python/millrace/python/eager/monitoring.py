# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Counters of the process."""
from __future__ import annotations

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
        self._cells: dict[tuple[str, ...], _Cell] = {}

    def get_cell(self, *labels: str) -> Any:
        """The cell of these labels; ValueError when their number is wrong."""
        if len(labels) != len(self._labels):
            raise ValueError("The {} expects taking {} labels".format(type(self).__name__, len(self._labels)))
        return self._cells.setdefault(labels, _Cell(self._start))


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
