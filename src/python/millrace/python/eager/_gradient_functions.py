# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions that differentiate functions."""
from __future__ import annotations

from typing import Any

from millrace.python.eager import backprop
from millrace.python.framework import ops
from millrace.python.util import nest

_NO_RESULT = "Cannot differentiate a function that returns None; did you forget to return a value from {}?"


def implicit_val_and_grad(f: Any) -> Any:
    """A function that returns the result of `f` and pairs of gradient and trainable variable."""

    def grad_fn(*args: Any, **kwds: Any) -> Any:
        this_tape = backprop.GradientTape()
        with this_tape:
            end_node = f(*args, **kwds)
            if end_node is None:
                raise ValueError(_NO_RESULT.format(f.__name__))
        variables = this_tape.watched_variables()
        if not variables:
            raise ValueError("No trainable variables were accessed while the function was being computed.")
        grad = this_tape.gradient(end_node, variables)
        return end_node, [(g, v) for g, v in zip(grad, variables) if g is not None]

    return grad_fn


def implicit_grad(f: Any) -> Any:
    """A function that returns pairs of gradient and trainable variable."""

    def grad_fn(*args: Any, **kwds: Any) -> Any:
        return implicit_val_and_grad(f)(*args, **kwds)[1]

    return grad_fn


def _get_arg_spec(f: Any, params: Any, param_args: Any) -> Any:
    """The positions of the arguments that are differentiated."""
    from millrace.python.util import tf_inspect

    try:
        args = tf_inspect.getfullargspec(f).args
    except TypeError as e:
        if params is None:
            return range(len(param_args))
        if all(isinstance(x, int) for x in params):
            return params
        raise ValueError("Either callable provided is not a function or could not inspect its arguments by name: %s. Original error: %s" % (f, e)) from None  # fmt: skip
    if params is None:
        if not args:
            return range(len(param_args))
        return range(1, len(args)) if args[0] == "self" else range(len(args))
    if all(isinstance(x, str) for x in params):
        return [args.index(n) for n in params]
    if all(isinstance(x, int) for x in params):
        return params
    raise ValueError("params must be all strings or all integers; got %s." % params)


def gradients_function(f: Any, params: Any = None) -> Any:
    """A function that returns the gradients of `f` with respect to its arguments `params` (numbers or names).

    Raises:
      ValueError: `f` returns None, or params are neither numbers nor names.
    """

    def decorated(*args: Any, **kwds: Any) -> Any:
        return val_and_grad_function(f, params)(*args, **kwds)[1]

    return decorated


def _ensure_unique_tensor_objects(parameter_positions: Any, args: Any) -> list[Any]:
    """The arguments, with copies of tensors that occur more than once."""
    from millrace.python.ops import array_ops

    seen: set[int] = set()
    made = []
    for i, t in enumerate(args):
        if i in parameter_positions and isinstance(t, ops.Tensor):
            if id(t) in seen:
                t = array_ops.identity(t)
            seen.add(id(t))
        made.append(t)
    return made


def val_and_grad_function(f: Any, params: Any = None) -> Any:
    """A function that returns the result of `f` and its gradients.

    Raises:
      ValueError: `f` returns None, or params are neither numbers nor names.
    """

    def decorated(*args: Any, **kwds: Any) -> Any:
        dy = kwds.pop("dy", None)
        if kwds:
            raise ValueError("Functions to be differentiated cannot receive keyword arguments.")
        result, vjp = make_vjp(f, params)(*args, **kwds)
        return result, vjp(dy=dy)

    return decorated


def make_vjp(f: Any, params: Any = None, persistent: bool = True) -> Any:
    """A function that returns the result of `f` and a function of its gradient, which returns those of the arguments."""

    def decorated(*args: Any, **kwds: Any) -> Any:
        parameter_positions = _get_arg_spec(f, params, args)
        if kwds:
            raise ValueError("The gradient function can't take keyword arguments.")
        this_tape = backprop.GradientTape(persistent=persistent)
        with this_tape:
            sources = []
            args = tuple(
                ops.convert_to_tensor(arg) if i in parameter_positions else arg for i, arg in enumerate(args)
            )
            args = tuple(_ensure_unique_tensor_objects(parameter_positions, args))
            for i in parameter_positions:
                sources.append(args[i])
                this_tape.watch(args[i])
            result = f(*args)
            if result is None:
                raise ValueError(_NO_RESULT.format(f.__name__))
            flat_result = nest.flatten(result)
            from millrace.python.ops import gen_array_ops

            flat_result = [gen_array_ops.identity(x) for x in flat_result]
            result = nest.pack_sequence_as(result, flat_result)

        def vjp(dy: Any = None) -> Any:
            given = None if dy is None else [ops.convert_to_tensor(x) for x in nest.flatten(dy)]
            return this_tape.gradient(nest.flatten(result), sources, output_gradients=given)

        return result, vjp

    return decorated
