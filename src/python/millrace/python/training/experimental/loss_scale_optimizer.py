# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""An optimizer that scales the loss, and unscales the gradients that another optimizer applies."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import math_ops
from millrace.python.training import optimizer
from millrace.python.training.experimental import loss_scale as loss_scale_module


class MixedPrecisionLossScaleOptimizer(optimizer.Optimizer):
    """Wraps an optimizer: gradients of the scaled loss are divided by the scale; steps whose gradients are not
    finite are left out."""

    def __init__(self, opt: Any, loss_scale: Any) -> None:
        """Makes the optimizer.

        Args:
          opt: the Optimizer to wrap.
          loss_scale: LossScale, number or "dynamic".

        Raises:
          ValueError: if `opt` is no Optimizer.
        """
        if not isinstance(opt, optimizer.Optimizer):
            raise ValueError('"opt" must be an instance of Optimizer, but got: %s' % (type(opt),))
        self._optimizer = opt
        super().__init__(opt._use_locking, opt.get_name())
        self._loss_scale = loss_scale_module.get(loss_scale)
        if self._loss_scale is None:
            raise ValueError("loss_scale cannot be None")
        self._track_trackable(self._optimizer, "base_optimizer")
        self._track_trackable(self._loss_scale, "loss_scale")

    def _doing_dynamic_loss_scaling(self) -> bool:
        return isinstance(self._loss_scale, loss_scale_module.DynamicLossScale)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = optimizer.Optimizer.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:
        """Gradients of the scaled `loss`, divided by the scale. Arguments: as in Optimizer."""
        scale = self._loss_scale()
        if callable(loss):
            unscaled = loss
            loss = lambda: unscaled() * math_ops.cast(scale, unscaled().dtype)  # noqa: E731
        else:
            loss = loss * math_ops.cast(scale, loss.dtype)
        grads_and_vars = self._optimizer.compute_gradients(
            loss=loss,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        reciprocal = 1 / scale
        return [(None if g is None else self._scale_grad(g, reciprocal), v) for g, v in grads_and_vars]

    @staticmethod
    def _scale_grad(grad: Any, factor: Any) -> Any:
        if isinstance(grad, ops.IndexedSlices):
            values = grad.values * math_ops.cast(factor, grad.dtype)
            return ops.IndexedSlices(values, grad.indices, dense_shape=grad.dense_shape)
        return grad * math_ops.cast(factor, grad.dtype)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Applies gradients if they are finite, and changes the scale either way."""
        grads_and_vars = tuple(grads_and_vars)
        grads = [g for g, _ in grads_and_vars]
        loss_scale_update_op, should_apply_grads = self._loss_scale.update(grads)
        if should_apply_grads is True:
            train = self._optimizer.apply_gradients(grads_and_vars, global_step)
        else:
            # Slots are made outside of the condition.
            with ops.init_scope():
                self._optimizer._create_slots([v for g, v in grads_and_vars if g is not None])
            train = control_flow_ops.cond(
                should_apply_grads,
                lambda: control_flow_ops.group(self._optimizer.apply_gradients(grads_and_vars, global_step)),
                control_flow_ops.no_op,
            )
        return control_flow_ops.group(train, loss_scale_update_op, name=name)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        raise RuntimeError("This function should never be called")

    _apply_dense = _resource_apply_dense = _apply_sparse  # type: ignore[assignment]

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        raise RuntimeError("This function should never be called")

    def variables(self) -> list[Any]:
        """Those of the wrapped optimizer."""
        found: list[Any] = self._optimizer.variables()
        return found
