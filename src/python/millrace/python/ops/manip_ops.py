# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Rolling along axes."""

from __future__ import annotations

from typing import Any

from millrace.python.ops import gen_manip_ops


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Any:
    """Returns `input` with its elements moved by `shift` along `axis`, those from the end to the start."""
    return gen_manip_ops.roll(input, shift, axis, name)
