# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Optimizers outside of the graph: variables are packed into one vector, which SciPy optimizes."""
from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from millrace.python.framework import ops
from millrace.python.ops import array_ops, gradients, variables
from millrace.python.platform import tf_logging as logging


def _flat_gradient(value: Any, var_list: Any) -> Any:
    """The gradients for all variables in one vector; zeros if there is none."""
    parts = []
    for grad, var in zip(gradients.gradients(value, var_list), var_list):
        grad = array_ops.zeros_like(var) if grad is None else ops.convert_to_tensor(grad)
        parts.append(array_ops.reshape(grad, [-1]))
    return array_ops.concat(parts, 0)


class ExternalOptimizerInterface:
    """Base of optimizers that are not part of the graph; subclasses define `_minimize`."""

    def __init__(
        self,
        loss: Any,
        var_list: Any = None,
        equalities: Any = None,
        inequalities: Any = None,
        var_to_bounds: Any = None,
        **optimizer_kwargs: Any,
    ) -> None:
        """Args:
        loss: scalar tensor to minimize.
        var_list: variables that may change; None: all that are trainable.
        equalities, inequalities: tensors that must become 0, or at least 0.
        var_to_bounds: dict from variables to pairs of bounds, numbers or arrays.
        **optimizer_kwargs: for the optimizer.
        """
        self._loss = loss
        self._equalities = equalities or []
        self._inequalities = inequalities or []
        self._vars = variables.trainable_variables() if var_list is None else list(var_list)
        self._packed_bounds: Any = None
        if var_to_bounds is not None:
            lower, upper = [], []
            for var in self._vars:
                bounds = var_to_bounds.get(var, (-np.inf, np.inf))
                shape = var.get_shape().as_list()
                lower.append(np.broadcast_to(bounds[0], shape).flatten())
                upper.append(np.broadcast_to(bounds[1], shape).flatten())
            self._packed_bounds = list(zip(np.concatenate(lower), np.concatenate(upper)))
        self._update_placeholders = [array_ops.placeholder(var.dtype.base_dtype) for var in self._vars]
        self._var_updates = [
            var.assign(array_ops.reshape(placeholder, var.get_shape().as_list()))
            for var, placeholder in zip(self._vars, self._update_placeholders)
        ]
        self._loss_grad = _flat_gradient(loss, self._vars)
        self._equality_grads = [_flat_gradient(e, self._vars) for e in self._equalities]
        self._inequality_grads = [_flat_gradient(i, self._vars) for i in self._inequalities]
        self.optimizer_kwargs = optimizer_kwargs
        sizes = [int(np.prod(var.get_shape().as_list(), dtype=np.int64)) for var in self._vars]
        ends = np.cumsum(sizes)
        self._packing_slices = [slice(int(end) - size, int(end)) for end, size in zip(ends, sizes)]
        flat = [array_ops.reshape(var, [-1]) for var in self._vars]
        self._packed_var = array_ops.concat(flat, 0)

    def minimize(
        self,
        session: Any = None,
        feed_dict: Any = None,
        fetches: Any = None,
        step_callback: Any = None,
        loss_callback: Any = None,
        **run_kwargs: Any,
    ) -> None:
        """Minimizes the loss, and sets the variables to the result.

        Args:
          session: the session; None: the default one.
          feed_dict: as in Session.run.
          fetches, loss_callback: a function that is called with the values of `fetches` whenever the loss is computed.
          step_callback: a function that is called with the packed variables in each step.
          **run_kwargs: for Session.run.
        """
        session = session or ops.get_default_session()
        feed_dict = feed_dict or {}
        fetches = fetches or []
        callback = loss_callback or (lambda *values: None)

        def evaluator(tensors: Any, called: Any = None) -> Any:
            def evaluate(x: Any) -> Any:
                feeds = {**feed_dict, **self._parts(x)}
                wanted = list(tensors) + list(fetches if called else [])
                values = session.run(wanted, feed_dict=feeds, **run_kwargs)
                if called:
                    called(*values[len(tensors) :])
                return values[: len(tensors)]

            return evaluate

        def scalar_functions(tensors: Any) -> list[Any]:
            return [lambda x, e=evaluator([t]): e(x)[0] for t in tensors]

        initial = session.run(self._packed_var)
        packed = self._minimize(
            initial_val=initial,
            loss_grad_func=evaluator([self._loss, self._loss_grad], callback),
            equality_funcs=scalar_functions(self._equalities),
            equality_grad_funcs=scalar_functions(self._equality_grads),
            inequality_funcs=scalar_functions(self._inequalities),
            inequality_grad_funcs=scalar_functions(self._inequality_grads),
            packed_bounds=self._packed_bounds,
            step_callback=step_callback,
            optimizer_kwargs=self.optimizer_kwargs,
        )
        values = [packed[part] for part in self._packing_slices]
        session.run(self._var_updates, feed_dict=dict(zip(self._update_placeholders, values)), **run_kwargs)

    def _parts(self, x: Any) -> dict[Any, Any]:
        """Feeds of the variables, from the packed vector."""
        return {
            var: x[part].reshape(var.get_shape().as_list())
            for var, part in zip(self._vars, self._packing_slices)
        }

    def _minimize(
        self,
        initial_val: Any,
        loss_grad_func: Any,
        equality_funcs: Any,
        equality_grad_funcs: Any,
        inequality_funcs: Any,
        inequality_grad_funcs: Any,
        packed_bounds: Any,
        step_callback: Any,
        optimizer_kwargs: Any,
    ) -> Any:
        """Returns the vector at which the loss is minimal."""
        raise NotImplementedError(
            "To use ExternalOptimizerInterface, subclass from it and implement the _minimize() method."
        )


class ScipyOptimizerInterface(ExternalOptimizerInterface):
    """`scipy.optimize.minimize`, whose further arguments the constructor takes; SciPy must be installed."""

    _DEFAULT_METHOD = "L-BFGS-B"

    def _minimize(
        self,
        initial_val: Any,
        loss_grad_func: Any,
        equality_funcs: Any,
        equality_grad_funcs: Any,
        inequality_funcs: Any,
        inequality_grad_funcs: Any,
        packed_bounds: Any,
        step_callback: Any,
        optimizer_kwargs: Any,
    ) -> Any:
        optimize = importlib.import_module("scipy.optimize")

        def loss_and_gradient(x: Any) -> Any:
            loss, gradient = loss_grad_func(x)
            return loss, gradient.astype("float64")

        kwargs = dict(optimizer_kwargs)
        method = kwargs.pop("method", self._DEFAULT_METHOD)
        constraints = [
            {"type": kind, "fun": function, "jac": gradient}
            for kind, functions, grads in (
                ("eq", equality_funcs, equality_grad_funcs),
                ("ineq", inequality_funcs, inequality_grad_funcs),
            )
            for function, gradient in zip(functions, grads)
        ]
        given = {"jac": True, "callback": step_callback, "method": method, "constraints": constraints}
        given["bounds"] = packed_bounds
        for name in kwargs:
            if name in given:
                raise ValueError(
                    "Optimizer keyword arg '{}' is set automatically and cannot be injected manually".format(
                        name
                    )
                )
        result = optimize.minimize(loss_and_gradient, initial_val, **given, **kwargs)
        logging.info(
            "Optimization terminated with:\n  Message: %s\n  Objective function value: %f\n  Number of iterations: %s"
            "\n  Number of functions evaluations: %d",
            result.message, result.fun, getattr(result, "nit", "unknown"), result.nfev,
        )  # fmt: skip
        return result["x"]
