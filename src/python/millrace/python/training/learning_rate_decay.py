# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Schedules of learning rates as functions of the global step."""

from __future__ import annotations

import functools
import inspect
import math
from typing import Any, Callable

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import math_ops
from millrace.python.ops import random_ops
from millrace.python.util import nest


def _later(schedule: Any) -> Any:
    """The schedule; in eager mode a function that returns it, to be called in each step."""

    @functools.wraps(schedule)
    def made(*args: Any, **kwargs: Any) -> Any:
        if not ops.executing_eagerly():
            return schedule(*args, **kwargs)
        bound = inspect.signature(schedule).bind(*args, **kwargs).arguments
        if "global_step" in bound:
            _required(bound["global_step"], schedule.__name__)
        return functools.partial(schedule, *args, **kwargs)

    return made


def _required(global_step: Any, schedule: str) -> None:
    if global_step is None:
        raise ValueError("global_step is required for %s." % schedule)


@_later
def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """learning_rate * decay_rate ^ (global_step / decay_steps); the quotient is rounded down if `staircase`.

    Returns:
      A scalar tensor of the type of `learning_rate`.

    Raises:
      ValueError: if `global_step` is None.
    """
    _required(global_step, "exponential_decay")
    return _exponential(learning_rate, global_step, decay_steps, decay_rate, staircase, name)


def _exponential(
    learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool, name: str | None
) -> Any:
    with ops.name_scope(name or "ExponentialDecay") as scope:
        learning_rate = ops.convert_to_tensor(learning_rate, name="initial_learning_rate")
        dtype = learning_rate.dtype
        decay_steps = math_ops.cast(decay_steps, dtype)
        decay_rate = math_ops.cast(decay_rate, dtype)
        p = math_ops.cast(global_step, dtype) / decay_steps
        if staircase:
            p = math_ops.floor(p)
        return math_ops.multiply(learning_rate, math_ops.pow(decay_rate, p), name=scope)


@_later
def piecewise_constant(x: Any, boundaries: Any, values: Any, name: str | None = None) -> Any:
    """values[0] while x <= boundaries[0], values[i] while boundaries[i - 1] < x <= boundaries[i], else values[-1].

    Args:
      x: scalar tensor, often the global step.
      boundaries: increasing numbers of the type of `x`.
      values: one number more than boundaries, all of one type.
      name: of the ops.

    Raises:
      ValueError: if types or lengths do not fit.
    """
    boundaries = nest.map_structure(ops.convert_to_tensor, nest.flatten(boundaries))
    values = nest.map_structure(ops.convert_to_tensor, nest.flatten(values))
    if len(boundaries) != len(values) - 1:
        raise ValueError("The length of boundaries should be 1 less than the length of values")
    with ops.name_scope(name or "PiecewiseConstant"):
        x = ops.convert_to_tensor(x)
        for i, b in enumerate(boundaries):
            if b.dtype.base_dtype != x.dtype.base_dtype:
                # A Python int becomes int32, and a global step is int64.
                if b.dtype.base_dtype == dtypes.int32 and x.dtype.base_dtype == dtypes.int64:
                    boundaries[i] = math_ops.cast(b, x.dtype.base_dtype)
                else:
                    raise ValueError(
                        "Boundaries (%s) must have the same dtype as x (%s)."
                        % (b.dtype.base_dtype, x.dtype.base_dtype)
                    )
        for v in values[1:]:
            if v.dtype.base_dtype != values[0].dtype.base_dtype:
                raise ValueError(
                    "Values must have elements all with the same dtype (%s vs %s)."
                    % (values[0].dtype.base_dtype, v.dtype.base_dtype)
                )
        if not boundaries:
            raise ValueError("There must be at least one boundary")
        pairs: list[tuple[Any, Callable[[], Any]]] = [
            (x <= boundaries[0], lambda: values[0]),
            (x > boundaries[-1], lambda: values[-1]),
        ]
        for low, high, v in zip(boundaries[:-1], boundaries[1:], values[1:-1]):
            pairs.append(((x > low) & (x <= high), lambda v=v: v))  # type: ignore[misc]
        return control_flow_ops.case(pairs, lambda: values[0], exclusive=True)


piecewise_constant_decay = piecewise_constant


@_later
def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Any:
    """(learning_rate - end) * (1 - step / decay_steps) ^ power + end.

    After `decay_steps` the rate stays at `end_learning_rate`, or, if `cycle`, `decay_steps` is replaced by
    its smallest multiple that the step has not exceeded.

    Raises:
      ValueError: if `global_step` is None.
    """
    _required(global_step, "polynomial_decay")
    with ops.name_scope(name or "PolynomialDecay") as scope:
        learning_rate = ops.convert_to_tensor(learning_rate, name="initial_learning_rate")
        dtype = learning_rate.dtype
        end_learning_rate = math_ops.cast(end_learning_rate, dtype)
        power = math_ops.cast(power, dtype)
        step = math_ops.cast(global_step, dtype)
        decay_steps = math_ops.cast(decay_steps, dtype)
        if cycle:
            quotient = step / decay_steps
            multiplier = control_flow_ops.cond(
                math_ops.equal(step, 0),
                lambda: constant_op.constant(1.0, dtype=dtype),
                lambda: math_ops.ceil(quotient),
            )
            decay_steps = math_ops.multiply(decay_steps, multiplier)
        else:
            step = math_ops.minimum(step, decay_steps)
        p = math_ops.div(step, decay_steps)
        return math_ops.add(
            math_ops.multiply(learning_rate - end_learning_rate, math_ops.pow(1 - p, power)),
            end_learning_rate,
            name=scope,
        )


@_later
def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """learning_rate * exp(-decay_rate * global_step / decay_steps). Raises ValueError without `global_step`."""
    _required(global_step, "natural_exp_decay")
    rate = math_ops.exp(math_ops.negative(decay_rate))
    return _exponential(learning_rate, global_step, decay_steps, rate, staircase, name)


@_later
def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """learning_rate / (1 + decay_rate * global_step / decay_steps). Raises ValueError without `global_step`."""
    _required(global_step, "inverse_time_decay")
    with ops.name_scope(name or "InverseTimeDecay") as scope:
        learning_rate = ops.convert_to_tensor(learning_rate, name="initial_learning_rate")
        dtype = learning_rate.dtype
        decay_steps = math_ops.cast(decay_steps, dtype)
        decay_rate = math_ops.cast(decay_rate, dtype)
        p = math_ops.cast(global_step, dtype) / decay_steps
        if staircase:
            p = math_ops.floor(p)
        const = math_ops.cast(constant_op.constant(1), dtype)
        denominator = math_ops.add(const, math_ops.multiply(decay_rate, p))
        return math_ops.div(learning_rate, denominator, name=scope)


@_later
def cosine_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, alpha: float = 0.0, name: str | None = None
) -> Any:
    """Half a cosine from `learning_rate` down to `alpha * learning_rate` in `decay_steps` steps.

    Reference: Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", ICLR 2017.

    Raises:
      ValueError: if `global_step` is None.
    """
    _required(global_step, "cosine decay")
    with ops.name_scope(name or "CosineDecay"):
        learning_rate = ops.convert_to_tensor(learning_rate, name="initial_learning_rate")
        dtype = learning_rate.dtype
        decay_steps = math_ops.cast(decay_steps, dtype)
        step = math_ops.minimum(math_ops.cast(global_step, dtype), decay_steps)
        completed = step / decay_steps
        cosine = 0.5 * (1.0 + math_ops.cos(constant_op.constant(math.pi, dtype=dtype) * completed))
        return math_ops.multiply(learning_rate, (1 - alpha) * cosine + alpha)


@_later
def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: Any = 2.0,
    m_mul: Any = 1.0,
    alpha: Any = 0.0,
    name: str | None = None,
) -> Any:
    """Cosine decay with restarts: each period `t_mul` times as long and `m_mul` times as high as the last.

    Reference: as in `cosine_decay`.

    Raises:
      ValueError: if `global_step` is None.
    """
    _required(global_step, "cosine decay restarts")
    with ops.name_scope(name or "SGDRDecay") as scope:
        learning_rate = ops.convert_to_tensor(learning_rate, name="initial_learning_rate")
        dtype = learning_rate.dtype
        first_decay_steps = math_ops.cast(first_decay_steps, dtype)
        alpha = math_ops.cast(alpha, dtype)
        t_mul = math_ops.cast(t_mul, dtype)
        m_mul = math_ops.cast(m_mul, dtype)
        completed = math_ops.cast(global_step, dtype) / first_decay_steps

        def geometric() -> Any:
            restarts = math_ops.floor(math_ops.log(1.0 - completed * (1.0 - t_mul)) / math_ops.log(t_mul))
            before = (1.0 - t_mul**restarts) / (1.0 - t_mul)
            return restarts, (completed - before) / t_mul**restarts

        def equal_periods() -> Any:
            restarts = math_ops.floor(completed)
            return restarts, completed - restarts

        i_restart, fraction = control_flow_ops.cond(math_ops.equal(t_mul, 1.0), equal_periods, geometric)
        m_fac = m_mul**i_restart
        cosine = 0.5 * m_fac * (1.0 + math_ops.cos(constant_op.constant(math.pi, dtype=dtype) * fraction))
        return math_ops.multiply(learning_rate, (1 - alpha) * cosine + alpha, name=scope)


def _linear_parts(global_step: Any, decay_steps: Any, num_periods: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """The step, the linear part and the fraction of periods done."""
    decay_steps = math_ops.cast(decay_steps, dtype)
    num_periods = math_ops.cast(num_periods, dtype)
    step = math_ops.minimum(math_ops.cast(global_step, dtype), decay_steps)
    return step, (decay_steps - step) / decay_steps, 2.0 * num_periods * (step / decay_steps)


@_later
def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Any:
    """(alpha + linear decay) * cosine of `num_periods` periods + beta, times `learning_rate`.

    Reference: Bello et al., "Neural Optimizer Search with Reinforcement Learning", ICML 2017.

    Raises:
      ValueError: if `global_step` is None.
    """
    _required(global_step, "linear cosine decay")
    with ops.name_scope(name or "LinearCosineDecay") as scope:
        learning_rate = ops.convert_to_tensor(learning_rate, name="initial_learning_rate")
        dtype = learning_rate.dtype
        alpha = math_ops.cast(alpha, dtype)
        beta = math_ops.cast(beta, dtype)
        _, linear, fraction = _linear_parts(global_step, decay_steps, num_periods, dtype)
        cosine = 0.5 * (1.0 + math_ops.cos(constant_op.constant(math.pi, dtype=dtype) * fraction))
        return math_ops.multiply(learning_rate, (alpha + linear) * cosine + beta, name=scope)


@_later
def noisy_linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    initial_variance: float = 1.0,
    variance_decay: float = 0.55,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Any:
    """`linear_cosine_decay` with normal noise of variance initial_variance / (1 + step) ^ variance_decay added
    to the linear part. Reference and errors: as there."""
    _required(global_step, "noisy linear cosine decay")
    with ops.name_scope(name or "NoisyLinearCosineDecay") as scope:
        learning_rate = ops.convert_to_tensor(learning_rate, name="initial_learning_rate")
        dtype = learning_rate.dtype
        initial_variance = math_ops.cast(initial_variance, dtype)
        variance_decay = math_ops.cast(variance_decay, dtype)
        alpha = math_ops.cast(alpha, dtype)
        beta = math_ops.cast(beta, dtype)
        step, linear, fraction = _linear_parts(global_step, decay_steps, num_periods, dtype)
        variance = initial_variance / math_ops.pow(1.0 + step, variance_decay)
        noisy = linear + random_ops.random_normal(
            array_ops.shape(linear), stddev=math_ops.sqrt(variance), dtype=dtype
        )
        cosine = 0.5 * (1.0 + math_ops.cos(constant_op.constant(math.pi, dtype=dtype) * fraction))
        return math_ops.multiply(learning_rate, (alpha + noisy) * cosine + beta, name=scope)
