# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Assertions with the arguments of version 2: message and summarize come before the name, and there is no data."""
from __future__ import annotations

from typing import Any, Callable

from millrace.python.ops import _check_compare, _check_shapes


def _of_two(name: str) -> Callable[..., Any]:
    function = getattr(_check_compare, name)

    def check(x: Any, y: Any, message: Any = None, summarize: Any = None, name: Any = None) -> Any:
        return function(x=x, y=y, summarize=summarize, message=message, name=name)

    check.__name__ = name + "_v2"
    check.__doc__ = function.__doc__
    return check


def _of_one(name: str) -> Callable[..., Any]:
    function = getattr(_check_compare, name)

    def check(x: Any, message: Any = None, summarize: Any = None, name: Any = None) -> Any:
        return function(x=x, summarize=summarize, message=message, name=name)

    check.__name__ = name + "_v2"
    check.__doc__ = function.__doc__
    return check


def _of_rank(name: str) -> Callable[..., Any]:
    function = getattr(_check_shapes, name)

    def check(x: Any, rank: Any, message: Any = None, name: Any = None) -> Any:
        return function(x, rank, message=message, name=name)

    check.__name__ = name + "_v2"
    check.__doc__ = function.__doc__
    return check


assert_equal_v2 = _of_two("assert_equal")
assert_none_equal_v2 = _of_two("assert_none_equal")
assert_less_v2 = _of_two("assert_less")
assert_less_equal_v2 = _of_two("assert_less_equal")
assert_greater_v2 = _of_two("assert_greater")
assert_greater_equal_v2 = _of_two("assert_greater_equal")
assert_negative_v2 = _of_one("assert_negative")
assert_positive_v2 = _of_one("assert_positive")
assert_non_negative_v2 = _of_one("assert_non_negative")
assert_non_positive_v2 = _of_one("assert_non_positive")
assert_shapes_v2 = _check_shapes.assert_shapes
assert_rank_v2 = _of_rank("assert_rank")
assert_rank_at_least_v2 = _of_rank("assert_rank_at_least")


def assert_near_v2(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    message: Any = None,
    summarize: Any = None,
    name: Any = None,
) -> Any:
    """Returns an op that fails unless |x - y| <= atol + rtol |y| for all elements."""
    return _check_compare.assert_near(x, y, rtol, atol, summarize=summarize, message=message, name=name)


def assert_rank_in_v2(x: Any, ranks: Any, message: Any = None, name: Any = None) -> Any:
    """Returns an op that fails unless the rank of `x` is one of `ranks`."""
    return _check_shapes.assert_rank_in(x, ranks, message=message, name=name)
