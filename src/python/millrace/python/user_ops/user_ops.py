# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops that users add."""
from __future__ import annotations

from typing import Any

from millrace.python.ops import gen_user_ops as _gen_user_ops
from millrace.python.ops.gen_user_ops import *  # type: ignore  # noqa: F401,F403


def my_fact() -> Any:
    """A string tensor with a fact."""
    return _gen_user_ops.fact()
