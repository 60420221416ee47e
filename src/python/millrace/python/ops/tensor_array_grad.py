# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradient functions under TensorFlow's names: `_MatMulGrad(op, grad)`. They are the engine's."""
from __future__ import annotations

from typing import Any

from millrace.python.ops import _engine_gradients


def _GetGradSource(op_or_tensor: Any) -> str:  # noqa: N802
    """The innermost scope of gradients that a name is in: "foo/gradients_1" of "foo/gradients_1/bar"."""
    tokens = op_or_tensor.name.split("/")
    at = [i for i, token in enumerate(tokens) if token.startswith("gradients")]
    if not at:
        raise ValueError(
            "Expected op/tensor name to start with gradients (excluding scope), got: %s" % op_or_tensor.name
        )
    return "/".join(tokens[: at[-1] + 1])


def __getattr__(name: str) -> Any:
    return _engine_gradients.function_of_name(__name__, name)
