# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Callbacks that run after each executed op, and checks for infinite values and NaN."""
from __future__ import annotations

import contextlib
import enum
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from millrace.python.eager import context
from millrace.python.platform import tf_logging


class ExecutionCallback(enum.Enum):
    """The action if a value is infinite or NaN."""

    IGNORE = "ignore"
    PRINT = "print"
    RAISE = "raise"
    WARN = "warn"


_DEFAULT_CALLBACK_ACTION = ExecutionCallback.RAISE


class InfOrNanError(Exception):
    """An output of an op is infinite or NaN."""

    def __init__(self, op_type: Any, op_name: Any, output_index: int, num_outputs: int, value: Any) -> None:
        self._op_type = op_type
        self._op_name = op_name
        self._output_index = output_index
        self._num_outputs = num_outputs
        self._value = value
        infinite, no_number = int(np.isinf(value).sum()), int(np.isnan(value).sum())
        found = ["%d inf(s)" % infinite] * bool(infinite) + ["%d nan(s)" % no_number] * bool(no_number)
        super().__init__(
            "Output %d of %d of TFE operation %s (name: %s) contains %s out of a total of %d element(s). Tensor value: %s"
            % (
                output_index + 1, num_outputs, op_type, None if op_name is None else "'%s'" % op_name,
                " and ".join(found), np.size(value), value,
            )
        )  # fmt: skip

    op_type = property(lambda self: self._op_type)
    op_name = property(lambda self: self._op_name)
    output_index = property(lambda self: self._output_index)
    num_outputs = property(lambda self: self._num_outputs)
    value = property(lambda self: self._value)


def inf_nan_callback(
    op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any, check_inf: bool = True, check_nan: bool = True,
    action: Any = _DEFAULT_CALLBACK_ACTION,
) -> None:  # fmt: skip
    """Checks the outputs of an op for values that are infinite or NaN.

    Args:
      op_type, inputs, attrs, outputs, op_name: as every callback gets them.
      check_inf, check_nan: what to look for.
      action: an ExecutionCallback, or its value.

    Raises:
      InfOrNanError: for a value that was looked for, if the action is RAISE.
      ValueError: if there is no such action.
    """
    del inputs, attrs
    action = ExecutionCallback(action)
    for index, output in enumerate(outputs):
        if not output.dtype.is_numpy_compatible or not (output.dtype.is_floating or output.dtype.is_complex):
            continue
        value = output.numpy()
        if not (check_inf and np.isinf(value).any() or check_nan and np.isnan(value).any()):
            continue
        error = InfOrNanError(op_type, op_name, index, len(outputs), value)
        if action == ExecutionCallback.RAISE:
            raise error
        if action == ExecutionCallback.PRINT:
            print("Warning: %s" % error)
        elif action == ExecutionCallback.WARN:
            tf_logging.warn(str(error))


def inf_callback(
    op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any, action: Any = _DEFAULT_CALLBACK_ACTION
) -> None:
    """`inf_nan_callback` that looks for infinite values."""
    inf_nan_callback(op_type, inputs, attrs, outputs, op_name, check_nan=False, action=action)


def nan_callback(
    op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any, action: Any = _DEFAULT_CALLBACK_ACTION
) -> None:
    """`inf_nan_callback` that only checks for NaN."""
    inf_nan_callback(op_type, inputs, attrs, outputs, op_name, check_inf=False, action=action)


def add_execution_callback(callback: Any) -> None:
    """Has `callback(op_type, inputs, attrs, outputs, op_name)` called after each op that is executed."""
    context.context().add_post_execution_callback(callback)


def clear_execution_callbacks() -> None:
    """Forgets all callbacks."""
    context.context().clear_post_execution_callbacks()


def seterr(inf_or_nan: Any = None) -> dict[str, Any]:
    """Sets the handling of infinities and NaNs; None: unchanged.

    Returns:
      The previous actions, by the names of the arguments.
    """
    wanted = None if inf_or_nan is None else ExecutionCallback(inf_or_nan)
    ctx = context.context()
    others, before = [], ExecutionCallback.IGNORE
    for callback in ctx.post_execution_callbacks:
        if isinstance(callback, functools.partial) and callback.func is inf_nan_callback:
            before = callback.keywords["action"]
        else:
            others.append(callback)
    if wanted is not None and wanted != before:
        ctx.clear_post_execution_callbacks()
        if wanted != ExecutionCallback.IGNORE:
            others.append(functools.partial(inf_nan_callback, action=wanted))
        for callback in others:
            ctx.add_post_execution_callback(callback)
    return {"inf_or_nan": before}


@contextlib.contextmanager
def errstate(inf_or_nan: Any = None) -> Iterator[None]:
    """`seterr` for the body of a with statement."""
    before = seterr(inf_or_nan=inf_or_nan)
    try:
        yield
    finally:
        seterr(**before)
