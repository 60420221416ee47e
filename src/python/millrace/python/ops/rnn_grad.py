# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradient functions under TensorFlow's names: `_MatMulGrad(op, grad)`. They are the engine's."""
from __future__ import annotations

from typing import Any

from millrace.python.ops import _engine_gradients


def __getattr__(name: str) -> Any:
    return _engine_gradients.function_of_name(__name__, name)
