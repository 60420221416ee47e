# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures of how far samples are from a distribution."""
from __future__ import annotations

import math
from typing import Any

import numpy as np


def test_moment_matching(samples: Any, number_moments: int, dist: Any, stride: int = 0) -> list[float]:
    """How far the first moments of samples are from those of a distribution.

    Args:
      samples: an array of one dimension.
      number_moments: the number of moments.
      dist: a distribution with `moment(n)`, as of scipy.stats.
      stride: every n-th sample counts; 0: each one.

    Returns:
      For each moment its distance in standard deviations of its estimate: values above 6 are hardly chance.
    """
    values = np.asarray(samples, np.float64)[:: stride or 1]
    expected = [dist.moment(i) for i in range(1, 2 * number_moments + 1)]
    scores = []
    for i in range(1, number_moments + 1):
        deviation = (values**i).mean() - expected[i - 1]
        variance = (expected[2 * i - 1] - expected[i - 1] ** 2) / values.size
        # What rounding adds to the estimate.
        variance += (i * np.finfo(np.float32).eps * abs(expected[i - 1])) ** 2
        scores.append(abs(deviation) / math.sqrt(variance) if variance > 0 else abs(deviation))
    return scores


def chi_squared(x: Any, bins: int) -> float:
    """Pearson's statistic of samples from [0, 1) in `bins` intervals of one size."""
    values = np.asarray(x).reshape(-1)
    counts = np.histogram(values, bins=bins, range=(0, 1))[0]
    expected = values.size / bins
    return float(((counts - expected) ** 2 / expected).sum())


def anderson_darling(x: Any) -> float:
    """The statistic of Anderson and Darling of samples from [0, 1): large values mean that they are not uniform."""
    values = np.clip(np.sort(np.asarray(x, np.float64).reshape(-1)), 1e-300, 1 - 1e-16)
    n = values.size
    i = 2 * np.arange(1, n + 1) - 1
    return float(-n - (i * (np.log(values) + np.log1p(-values[::-1]))).sum() / n)


def test_truncated_normal(
    assert_equal: Any, assert_all_close: Any, n: int, y: Any, mean_atol: float = 5e-4, median_atol: float = 8e-4,
    variance_rtol: float = 1e-3,
) -> None:  # fmt: skip
    """Checks n samples of a normal distribution cut off at two standard deviations.

    Args:
      assert_equal, assert_all_close: assertions of a test.
      n: the number of samples.
      y: the samples.
      mean_atol, median_atol, variance_rtol: how far mean and median may be from 0, the variance from the expected one.
    """
    a, b = -2.0, 2.0
    values = np.asarray(y, np.float64)
    assert_equal(int(((values > a) & (values < b)).sum()), n)
    assert_all_close(values.mean(), 0, atol=mean_atol)
    assert_all_close(np.median(values), 0, atol=median_atol)
    density = math.exp(-2.0) / math.sqrt(2 * math.pi)
    mass = math.erf(b / math.sqrt(2))
    assert_all_close(values.var(), 1 + (a * density - b * density) / mass, rtol=variance_rtol)


for _function in (test_moment_matching, test_truncated_normal):
    _function.__test__ = False  # type: ignore[attr-defined]  # pytest would take it for a test
