# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions that take keyword arguments only."""
from __future__ import annotations

import functools
from typing import Any, Callable

from millrace.python.util import decorator_utils


def keyword_args_only(func: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function like `func` that raises ValueError for positional arguments."""
    decorator_utils.validate_callable(func, "keyword_args_only")

    @functools.wraps(func)
    def new_func(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise ValueError("Must use keyword args to call {}.".format(func.__name__))
        return func(**kwargs)

    return new_func
