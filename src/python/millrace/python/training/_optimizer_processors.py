# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Updates of each kind of trainable object: reference variables, resource variables, tensors."""

from __future__ import annotations

import abc
from typing import Any

from millrace.python.eager import context
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import math_ops
from millrace.python.ops import resource_variable_ops
from millrace.python.ops import variables


def deduplicate_indexed_slices(values: Any, indices: Any) -> tuple[Any, Any]:
    """Sums the slices that share an index.

    Args:
      values: tensor of shape [n, ...].
      indices: integer tensor of shape [n].

    Returns:
      The sums, of shape [m, ...], and the m distinct indices in order of first appearance.
    """
    unique_indices, positions = array_ops.unique(indices)
    summed = math_ops.unsorted_segment_sum(values, positions, array_ops.shape(unique_indices)[0])
    return summed, unique_indices


def var_key(var: Any) -> Any:
    """Key under which slots of `var` are kept: its graph and its name."""
    if getattr(var, "_in_graph_mode", True) is False:
        return var._unique_id
    if hasattr(var, "op"):
        return (var.op.graph, var.op.name)
    return var._unique_id


class OptimizableVariable(metaclass=abc.ABCMeta):
    """The tensor for which a gradient is computed, and the application of the gradient."""

    @abc.abstractmethod
    def target(self) -> Any:
        """The tensor or variable to differentiate by."""

    @abc.abstractmethod
    def update_op(self, optimizer: Any, g: Any) -> Any:
        """The op that applies the gradient `g`."""


class RefVariableProcessor(OptimizableVariable):
    """Variables that are references (VariableV2)."""

    def __init__(self, v: Any) -> None:
        self._v = v

    def __str__(self) -> str:
        return "<_RefVariableProcessor(%s)>" % self._v

    def target(self) -> Any:
        return self._v._ref()

    def update_op(self, optimizer: Any, g: Any) -> Any:
        if isinstance(g, ops.Tensor):
            update = optimizer._apply_dense(g, self._v)
            if self._v.constraint is None:
                return update
            with ops.control_dependencies([update]):
                # Read again, since a value read before the update may be the old one.
                return self._v.assign(self._v.constraint(self._v.read_value()))
        assert isinstance(g, ops.IndexedSlices), (
            "Gradient ",
            g,
            " is neither a tensor nor IndexedSlices.",
        )
        if self._v.constraint is not None:
            raise RuntimeError("Cannot use a constraint function on a sparse variable.")
        return optimizer._apply_sparse_duplicate_indices(g, self._v)


class DenseReadResourceVariableProcessor(OptimizableVariable):
    """Reads (ReadVariableOp) of resource variables."""

    def __init__(self, v: Any) -> None:
        self._v = v

    def target(self) -> Any:
        return self._v

    def update_op(self, optimizer: Any, g: Any) -> Any:
        return optimizer._resource_apply_dense(g, self._v.op.inputs[0])


class DenseResourceVariableProcessor(OptimizableVariable):
    """Resource variables."""

    def __init__(self, v: Any) -> None:
        self._v = v

    def target(self) -> Any:
        return self._v

    def update_op(self, optimizer: Any, g: Any) -> Any:
        if isinstance(g, ops.IndexedSlices):
            if self._v.constraint is not None:
                raise RuntimeError("Cannot use a constraint function on a sparse variable.")
            return optimizer._resource_apply_sparse_duplicate_indices(g.values, self._v, g.indices)
        update = optimizer._resource_apply_dense(g, self._v)
        if self._v.constraint is None:
            return update
        with ops.control_dependencies([update]):
            return self._v.assign(self._v.constraint(self._v))


class StreamingModelPortProcessor(OptimizableVariable):
    """Ports of models that stream: the gradient itself is the result."""

    def __init__(self, v: Any) -> None:
        self._v = v

    def target(self) -> Any:
        return self._v

    def update_op(self, optimizer: Any, g: Any) -> Any:
        return g


class TensorProcessor(OptimizableVariable):
    """Plain tensors: gradients are computed, but there is no variable to update."""

    def __init__(self, v: Any) -> None:
        self._v = v

    def target(self) -> Any:
        return self._v

    def update_op(self, optimizer: Any, g: Any) -> Any:
        raise NotImplementedError("Trying to update a Tensor ", self._v)


def get_processor(v: Any) -> OptimizableVariable:
    """The processor for `v`. Raises NotImplementedError for what cannot be trained."""
    if context.executing_eagerly():
        return TensorProcessor(v) if isinstance(v, ops.Tensor) else DenseResourceVariableProcessor(v)
    if resource_variable_ops.is_resource_variable(v) and not v._in_graph_mode:
        return DenseResourceVariableProcessor(v)
    if v.op.type == "VarHandleOp":
        return DenseResourceVariableProcessor(v)
    if isinstance(v, variables.Variable):
        return RefVariableProcessor(v)
    if v.op.type == "SubmodelPort":
        return StreamingModelPortProcessor(v)
    if isinstance(v, ops.Tensor):
        return TensorProcessor(v)
    raise NotImplementedError("Trying to optimize unsupported type ", v)
