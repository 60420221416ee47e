# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Conditions that are decided while the graph is built if the predicate is known."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import ops, tensor_util
from millrace.python.ops import control_flow_ops


def smart_cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: Optional[str] = None) -> Any:
    """`true_fn()` or `false_fn()` where `pred` is known, else tf.cond of them.

    Raises:
      TypeError: if a branch cannot be called.
    """
    if not callable(true_fn):
        raise TypeError("`true_fn` must be callable.")
    if not callable(false_fn):
        raise TypeError("`false_fn` must be callable.")
    value = smart_constant_value(pred)
    if value is not None:
        return true_fn() if value else false_fn()
    return control_flow_ops.cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)


def smart_constant_value(pred: Any) -> Any:
    """True or False where `pred`, a bool, 0, 1 or a tensor, is known; else None.

    Raises:
      TypeError: if `pred` is something else.
    """
    if isinstance(pred, ops.Tensor):
        value = tensor_util.constant_value(pred)
        if value is None:
            from millrace.python import _engine

            value = _engine.try_evaluate_constant(pred) if hasattr(_engine, "try_evaluate_constant") else None
        return None if value is None else bool(value)
    if pred in (0, 1):
        return bool(pred)
    if isinstance(pred, bool):
        return pred
    raise TypeError("`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: %s" % type(pred))


def smart_case(
    pred_fn_pairs: Any, default: Any = None, exclusive: bool = False, name: str = "smart_case"
) -> Any:
    """The branch of the first predicate that is known to be true, or tf.case."""
    return control_flow_ops._case_helper(
        smart_cond, pred_fn_pairs, default, exclusive, name, allow_python_preds=True
    )
