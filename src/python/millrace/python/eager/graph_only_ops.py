# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops that are made in the default graph, also in eager mode."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops, tensor_shape


def graph_placeholder(dtype: Any, shape: Any, name: str | None = None) -> Any:
    """A placeholder in the default graph, whatever the mode of the thread."""
    from millrace.python.eager import context
    from millrace.python.ops import array_ops

    with context.graph_mode(), ops.get_default_graph().as_default():
        return array_ops.placeholder(dtype, tensor_shape.as_shape(shape), name=name)
