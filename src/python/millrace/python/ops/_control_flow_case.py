# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.case, tf.switch_case and tf.Assert, made of conditions."""

from __future__ import annotations

import collections
import functools
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import errors_impl
from millrace.python.framework import ops
from millrace.python.framework import tensor_util
from millrace.python.ops import array_ops
from millrace.python.ops import gen_logging_ops
from millrace.python.ops import math_ops
from millrace.python.ops._control_flow_base import no_op
from millrace.python.ops._control_flow_cond import cond


def Assert(condition: Any, data: Any, summarize: int | None = None, name: str | None = None) -> Any:
    """Returns an op that fails with InvalidArgumentError and the values `data` unless `condition` is true.

    Args:
      condition: a boolean scalar.
      data: a list of tensors to show.
      summarize: how many elements of each to show.
      name: name scope.
    """
    if ops.executing_eagerly():
        _assert_at_once(condition, data, summarize)
        return None
    with ops.name_scope(name, "Assert", [condition, data]):
        xs = [ops.convert_to_tensor(x) for x in data]
        if all(x.dtype in (dtypes.string, dtypes.int32) for x in xs):
            return gen_logging_ops._assert(condition, data, summarize, name="Assert")
        # The data of the message should be computed only when the condition fails.
        condition = ops.convert_to_tensor(condition, name="Condition")

        def true_assert() -> Any:
            return gen_logging_ops._assert(condition, data, summarize, name="Assert")

        guarded = cond(condition, no_op, true_assert, name="AssertGuard")
        return guarded if isinstance(guarded, ops.Operation) else guarded.op


def _assert_at_once(condition: Any, data: Any, summarize: int | None) -> None:
    if condition:
        return
    shown = [_summary(ops.convert_to_tensor(x), summarize) for x in data]
    raise errors_impl.InvalidArgumentError(
        None, None, "Expected '%s' to be true. Summarized data: %s" % (condition, "\n".join(shown))
    )


def _summary(tensor: Any, summarize: int | None) -> str:
    """The first elements of a tensor."""
    flat = tensor._numpy_array().reshape((-1,))
    count = 3 if summarize is None else (flat.size if summarize < 0 else summarize)
    shown = [str(x) for x in flat[:count]]
    return ", ".join(shown + (["..."] if len(shown) < flat.size and tensor._rank() else []))


def _assert_at_most_n_true(predicates: Any, n: int, msg: str) -> Any:
    """An op that fails where more than `n` of the predicates are true."""
    preds_c = array_ops.stack(predicates, name="preds_c")
    num_true = math_ops.reduce_sum(math_ops.cast(preds_c, dtypes.int32), name="num_true_conds")
    condition = math_ops.less_equal(num_true, ops.convert_to_tensor(n, name="n_true_conds"))
    names = ", ".join("?" if isinstance(p, ops.EagerTensor) else getattr(p, "name", "?") for p in predicates)
    error_msg = ["%s: more than %d conditions (%s) evaluated as True:" % (msg, n, names), preds_c]
    return Assert(condition, data=error_msg, summarize=len(predicates))


def _case_create_default_action(predicates: Any, actions: Any) -> tuple[Any, Any, Any]:
    """Makes the last action the default one, failing where its predicate is not true."""
    k = len(predicates) - 1
    predicate, action = predicates[k], actions[k]
    others, other_actions = predicates[:k], actions[:k]

    def default_action() -> Any:
        others_msg = (
            "Implementation error: "
            "selected default action #%d was called, but some of other predicates are True: " % k
        )
        default_msg = (
            "Input error: " "None of conditions evaluated as True:",
            array_ops.stack(predicates, name="preds_c"),
        )
        with ops.control_dependencies(
            [_assert_at_most_n_true(others, n=0, msg=others_msg), Assert(predicate, data=default_msg)]
        ):
            return action()

    return default_action, others, other_actions


def _case_verify_and_canonicalize_args(
    pred_fn_pairs: Any, exclusive: bool, name: str, allow_python_preds: bool
) -> tuple[Any, Any]:
    """Checks the arguments of `case`; returns the predicates and the functions."""
    del name
    if not isinstance(pred_fn_pairs, (list, tuple, dict)):
        raise TypeError("fns must be a list, tuple, or dict")
    if isinstance(pred_fn_pairs, collections.OrderedDict):
        pred_fn_pairs = list(pred_fn_pairs.items())
    elif isinstance(pred_fn_pairs, dict):
        # The items of a dict have no meaningful order, so at most one predicate may be true.
        if not exclusive:
            raise ValueError(
                "Unordered dictionary is not supported for the argument 'pred_fn_pairs' when exclusive=False"
            )
        pred_fn_pairs = sorted(
            pred_fn_pairs.items(),
            key=lambda item: str(
                item[0] if isinstance(item[0], ops.EagerTensor) else getattr(item[0], "name", item[0])
            ),
        )
    for pred_fn_pair in pred_fn_pairs:
        if not isinstance(pred_fn_pair, tuple) or len(pred_fn_pair) != 2:
            raise TypeError("Each entry in pred_fn_pairs must be a 2-tuple")
        pred, fn = pred_fn_pair
        if isinstance(pred, ops.Tensor):
            if pred.dtype != dtypes.bool:
                raise TypeError("pred must be Tensor of type bool: %s" % pred.name)
        elif not allow_python_preds:
            raise TypeError("pred must be a Tensor, got: %s" % pred)
        elif not isinstance(pred, bool):
            raise TypeError("pred must be a Tensor or bool, got: %s" % pred)
        if not callable(fn):
            raise TypeError("fn for pred %s must be callable." % pred.name)
    predicates, actions = zip(*pred_fn_pairs) if pred_fn_pairs else ((), ())
    return list(predicates), list(actions)


def _case_helper(
    cond_fn: Any,
    pred_fn_pairs: Any,
    default: Any,
    exclusive: bool,
    name: str,
    allow_python_preds: bool = False,
    **cond_kwargs: Any,
) -> Any:
    """Implements `case` by nested calls of `cond_fn`, a function with the arguments of `cond`."""
    predicates, actions = _case_verify_and_canonicalize_args(
        pred_fn_pairs, exclusive, name, allow_python_preds
    )
    with ops.name_scope(name, "case", [predicates]):
        if default is None:
            if not predicates:
                raise ValueError("At least one predicate or a default is needed")
            default, predicates, actions = _case_create_default_action(predicates, actions)
        fn = default
        if not callable(fn):
            raise TypeError("default must be callable.")
        # The first pair becomes the outermost condition.
        for predicate, action in reversed(list(zip(predicates, actions))):
            fn = functools.partial(cond_fn, predicate, true_fn=action, false_fn=fn, **cond_kwargs)
        if exclusive and predicates:
            with ops.control_dependencies(
                [_assert_at_most_n_true(predicates, n=1, msg="Input error: exclusive=True")]
            ):
                return fn()
        return fn()


def case(
    pred_fn_pairs: Any,
    default: Any = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Runs the function of the first true predicate, or `default`.

    Args:
      pred_fn_pairs: a list of pairs (boolean scalar tensor, function), or a dict of them (then `exclusive`).
      default: a function for the case that none is true; without one this is an error.
      exclusive: whether it is an error that more than one is true.
      strict: whether a list or tuple of one element is returned as it is.
      name: name scope.

    Raises:
      TypeError: arguments of other types.
    """
    return _case_helper(
        cond, pred_fn_pairs, default, exclusive, name, allow_python_preds=False, strict=strict
    )


def case_v2(
    pred_fn_pairs: Any, default: Any = None, exclusive: bool = False, strict: bool = False, name: str = "case"
) -> Any:
    """Runs the function of the first true predicate, or `default`."""
    return case(pred_fn_pairs, default, exclusive, strict, name)


def switch_case(branch_index: Any, branch_fns: Any, default: Any = None, name: str = "switch_case") -> Any:
    """Runs the function number `branch_index` of a list, or of a dict or list of pairs (number, function).

    Args:
      branch_index: an int32 scalar.
      branch_fns: the functions, which return the same structure of tensors.
      default: the function for other numbers; by default that of the largest number.
      name: name scope.

    Raises:
      TypeError, ValueError: arguments of other types, numbers that repeat or are no integers.
    """
    if not isinstance(branch_fns, (list, tuple, dict)):
        raise TypeError("branch_fns must be a list, tuple, or dict")
    if isinstance(branch_fns, dict):
        branch_fns = list(branch_fns.items())
    if all(callable(fn) for fn in branch_fns):
        branch_fns = list(enumerate(branch_fns))
    if not branch_fns:
        raise ValueError("Must provide at least one item in branch_fns")
    for pair in branch_fns:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError("Each entry in branch_fns must be a 2-tuple")
        key, branch_fn = pair
        if not isinstance(key, int):
            raise TypeError("key must be a Python `int`, got {}".format(type(key)))
        if not callable(branch_fn):
            raise TypeError("fn for key {} must be callable.".format(key))
    keys = [p[0] for p in branch_fns]
    if len(set(keys)) != len(keys):
        raise ValueError("branch indices must be unique, got %s" % (keys,))
    if not isinstance(branch_index, (int, ops.Tensor)) and not tensor_util.is_tensor(branch_index):
        raise TypeError("branch_index must be a Tensor, got {}".format(type(branch_index)))
    branch_fns = sorted(branch_fns, key=lambda pair: pair[0])
    with ops.name_scope(name, "switch_case", [branch_index]):
        index = ops.convert_to_tensor(branch_index, name="branch_index")
        if default is None:
            default = branch_fns[-1][1]
            branch_fns = branch_fns[:-1]
        fn = default
        for key, action in reversed(branch_fns):
            predicate = math_ops.equal(index, ops.convert_to_tensor(key, dtype=index.dtype))
            fn = functools.partial(cond, predicate, true_fn=action, false_fn=fn)
        return fn()
