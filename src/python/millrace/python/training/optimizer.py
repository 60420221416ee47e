# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The base class of optimizers: builds gradients of a loss and the ops that apply them to variables."""

from __future__ import annotations

from typing import Any

from millrace.python.eager import backprop
from millrace.python.eager import context
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import gradients
from millrace.python.ops import resource_variable_ops
from millrace.python.ops import state_ops
from millrace.python.ops import variable_scope
from millrace.python.ops import variables
from millrace.python.training import slot_creator
from millrace.python.training._optimizer_processors import (
    DenseReadResourceVariableProcessor as _DenseReadResourceVariableProcessor,
    DenseResourceVariableProcessor as _DenseResourceVariableProcessor,
    OptimizableVariable as _OptimizableVariable,
    RefVariableProcessor as _RefVariableProcessor,
    StreamingModelPortProcessor as _StreamingModelPortProcessor,
    TensorProcessor as _TensorProcessor,
    deduplicate_indexed_slices as _deduplicate_indexed_slices,
    get_processor as _get_processor,
    var_key as _var_key,
)
from millrace.python.training.tracking import base as trackable
from millrace.python.util import nest

__all__ = ["Optimizer"]


def _graph_of(var: Any) -> Any:
    """The graph of a variable; None for a variable of eager mode."""
    eager = context.executing_eagerly() and isinstance(var, ops.Tensor)
    return None if eager or getattr(var, "_in_graph_mode", True) is False else var.op.graph


def _current_graph() -> Any:
    """The graph in which variables are made; None in eager mode."""
    return None if ops.executing_eagerly_outside_functions() else ops.get_default_graph()


def _op_name(var: Any) -> str:
    return getattr(var, "_shared_name", "") if _graph_of(var) is None else var.op.name  # type: ignore[no-any-return]


class Optimizer(trackable.Trackable):
    """Trains variables by gradients. Use a subclass, such as GradientDescentOptimizer.

    `minimize(loss)` makes everything: gradients with `compute_gradients`, and one op that applies them with
    `apply_gradients`; call the two yourself to change the gradients between. Subclasses implement
    `_apply_dense`, `_apply_sparse`, `_resource_apply_dense` and `_resource_apply_sparse`, which update one
    variable; they make tensors in `_prepare`, slots in `_create_slots`, and may override `_finish`.
    """

    GATE_NONE = 0
    GATE_OP = 1
    GATE_GRAPH = 2

    def __init__(self, use_locking: bool, name: str) -> None:
        """Makes the optimizer.

        Args:
          use_locking: whether updates of a variable hold its lock.
          name: prefix of the names of ops and slots.

        Raises:
          ValueError: if `name` is empty.
        """
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking = use_locking
        self._name = name
        # slot name -> {key of a variable -> its slot}
        self._slots: dict[str, dict[Any, Any]] = {}
        # (name, graph) -> variable
        self._non_slot_dict: dict[Any, Any] = {}
        self._deferred_slot_restorations: dict[Any, Any] = {}

    def get_name(self) -> str:
        return self._name

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:
        """Adds the ops of a training step that lowers `loss`.

        Args:
          loss: float tensor to lower.
          global_step: variable to raise by one after the update, or None.
          var_list: variables to train; those of the collection TRAINABLE_VARIABLES if None.
          gate_gradients: which gradients must be computed before one is used: GATE_NONE: none; GATE_OP: all
            of the op; GATE_GRAPH: all.
          aggregation_method: how gradients of one tensor are summed, of `AggregationMethod`.
          colocate_gradients_with_ops: whether gradients are computed on the devices of their ops.
          name: of the returned op.
          grad_loss: gradient of `loss`; ones if None.

        Returns:
          The op that does the update (and raises `global_step`).

        Raises:
          ValueError: if no variable has a gradient, or a variable has a type that cannot be trained.
        """
        grads_and_vars = self.compute_gradients(
            loss,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        if all(g is None for g, _ in grads_and_vars):
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops"
                " that do not support gradients, between variables %s and loss %s."
                % ([str(v) for _, v in grads_and_vars], loss)
            )
        return self.apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:
        """Returns gradients of `loss`: a list of pairs (gradient or None, variable) in order of `var_list`.

        Args: as in `minimize`.

        Raises:
          TypeError: if an element of `var_list` is no variable.
          ValueError: if an argument is not valid or there are no variables.
        """
        if callable(loss):
            with backprop.GradientTape() as tape:
                if var_list is not None:
                    tape.watch(var_list)
                loss_value = loss()
            if var_list is None and context.executing_eagerly():
                var_list = tape.watched_variables()
            if context.executing_eagerly():
                grads = tape.gradient(loss_value, nest.flatten(var_list), grad_loss)
                return list(zip(grads, nest.flatten(var_list)))
            loss = loss_value
        if context.executing_eagerly():
            raise RuntimeError("`loss` passed to Optimizer.compute_gradients should be a function when eager execution is enabled.")  # fmt: skip
        if gate_gradients not in (Optimizer.GATE_NONE, Optimizer.GATE_OP, Optimizer.GATE_GRAPH):
            raise ValueError(
                "gate_gradients must be one of: Optimizer.GATE_NONE, "
                "Optimizer.GATE_OP, Optimizer.GATE_GRAPH.  Not %s" % gate_gradients
            )
        self._assert_valid_dtypes([loss])
        if grad_loss is not None:
            self._assert_valid_dtypes([grad_loss])
        if var_list is None:
            var_list = variables.trainable_variables() + ops.get_collection(
                ops.GraphKeys.TRAINABLE_RESOURCE_VARIABLES
            )
        else:
            var_list = nest.flatten(var_list)
        var_list = var_list + ops.get_collection(ops.GraphKeys._STREAMING_MODEL_PORTS)
        processors = [_get_processor(v) for v in var_list]
        if not var_list:
            raise ValueError("No variables to optimize.")
        grads = gradients.gradients(
            loss,
            [p.target() for p in processors],
            grad_ys=grad_loss,
            gate_gradients=(gate_gradients == Optimizer.GATE_OP),
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )
        if gate_gradients == Optimizer.GATE_GRAPH:
            grads = control_flow_ops.tuple(grads)
        grads_and_vars = list(zip(grads, var_list))
        self._assert_valid_dtypes(
            [v for g, v in grads_and_vars if g is not None and v.dtype != dtypes.resource]
        )
        return grads_and_vars

    @staticmethod
    def _convert_gradients(grads_and_vars: Any) -> list[tuple[Any, Any, Any]]:
        """Triples (gradient as tensor, IndexedSlices or None; variable; its processor)."""
        converted = []
        for g, v in grads_and_vars:
            if g is not None:
                try:
                    g = ops.convert_to_tensor_or_indexed_slices(g)
                except TypeError:
                    raise TypeError(
                        "Gradient must be convertible to a Tensor or IndexedSlices, or None: %s" % g
                    )
                if not isinstance(g, (ops.Tensor, ops.IndexedSlices)):
                    raise TypeError("Gradient must be a Tensor, IndexedSlices, or None: %s" % g)
            converted.append((g, v, _get_processor(v)))
        return converted

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Adds the ops that apply gradients: the second half of `minimize`.

        Args:
          grads_and_vars: pairs (gradient, variable) as `compute_gradients` returns them.
          global_step: variable to raise by one afterwards, or None.
          name: of the returned op; the optimizer's name if None.

        Returns:
          The training op, which is also put into the collection TRAIN_OP.

        Raises:
          TypeError: if a gradient is of a wrong type.
          ValueError: if there are no variables or none has a gradient.
        """
        grads_and_vars = tuple(grads_and_vars)
        if not grads_and_vars:
            raise ValueError("No variables provided.")
        converted = self._convert_gradients(grads_and_vars)
        var_list = [v for g, v, _ in converted if g is not None]
        if not var_list:
            raise ValueError(
                "No gradients provided for any variable: %s." % ([str(v) for _, v, _ in converted],)
            )
        with ops.init_scope():
            self._create_slots(var_list)
        eager = context.executing_eagerly()
        update_ops = []
        with ops.name_scope(name, self._name) as scope:
            self._prepare()
            for grad, var, processor in converted:
                if grad is None:
                    continue
                with ops.name_scope("update_" + _op_name(var)), ops.colocate_with(var):
                    update_ops.append(processor.update_op(self, grad))
            if global_step is None:
                apply_updates = self._finish(update_ops, scope)
            else:
                with ops.control_dependencies([self._finish(update_ops, "update")]):
                    with ops.colocate_with(global_step):
                        apply_updates = self._raise_step(global_step, scope)
            if eager:
                return None
            if isinstance(apply_updates, ops.Tensor):
                apply_updates = apply_updates.op
            train_op = ops.get_collection_ref(ops.GraphKeys.TRAIN_OP)
            if apply_updates not in train_op:
                train_op.append(apply_updates)
            return apply_updates

    @staticmethod
    def _raise_step(global_step: Any, name: str) -> Any:
        if resource_variable_ops.is_resource_variable(global_step):
            # The op itself instead of a read after it, since the value is not used.
            return resource_variable_ops.assign_add_variable_op(
                global_step.handle, ops.convert_to_tensor(1, dtype=global_step.dtype), name=name
            )
        return state_ops.assign_add(global_step, 1, name=name)

    def get_slot(self, var: Any, name: str) -> Any:
        """Returns the slot `name` of the variable `var`, or None if it was not made."""
        named_slots = self._slots.get(name, None)
        if not named_slots:
            return None
        return named_slots.get(_var_key(var), None)

    def get_slot_names(self) -> list[str]:
        """Names of the slots that the optimizer makes, sorted."""
        return sorted(self._slots.keys())

    def variables(self) -> list[Any]:
        """The optimizer's own variables in the default graph (slots and others), sorted by name."""
        graph = _current_graph()
        found = [v for v in self._non_slot_variables() if _graph_of(v) is graph]
        for named_slots in self._slots.values():
            found.extend(v for v in named_slots.values() if _graph_of(v) is graph)
        return sorted(found, key=lambda v: str(v.name))

    def _create_non_slot_variable(self, initial_value: Any, name: str, colocate_with: Any) -> Any:
        """Makes a variable of the optimizer that belongs to no single variable, once per graph."""
        graph = _graph_of(colocate_with)
        key = (name, graph)
        v = self._non_slot_dict.get(key, None)
        if v is None:
            self._maybe_initialize_trackable()
            with ops.colocate_with(colocate_with):
                v = variable_scope.variable(
                    initial_value,
                    name=name,
                    trainable=False,
                    use_resource=resource_variable_ops.is_resource_variable(colocate_with),
                )
            self._handle_deferred_dependencies(name=name, trackable=v)
            self._non_slot_dict[key] = v
        return v

    @property
    def _checkpoint_dependencies(self) -> list[Any]:
        """Non-slot variables are kept in object-based checkpoints under their names."""
        graph = _current_graph()
        own = [
            trackable.TrackableReference(name=name, ref=v)
            for (name, g), v in sorted(self._non_slot_dict.items(), key=lambda item: str(item[0][0]))
            if g is graph
        ]
        return own + super()._checkpoint_dependencies

    def _lookup_dependency(self, name: str) -> Any:
        found = super()._lookup_dependency(name)
        return self._get_non_slot_variable(name, graph=_current_graph()) if found is None else found

    def _get_non_slot_variable(self, name: str, graph: Any = None) -> Any:
        if graph is not None and ops.executing_eagerly_outside_functions():
            graph = None
        return self._non_slot_dict.get((name, graph), None)

    def _non_slot_variables(self) -> Any:
        return self._non_slot_dict.values()

    def _assert_valid_dtypes(self, tensors: Any) -> None:
        valid_dtypes = self._valid_dtypes()
        for t in tensors:
            dtype = t.dtype.base_dtype
            if dtype not in valid_dtypes:
                raise ValueError(
                    "Invalid type %r for %s, expected: %s." % (dtype, t.name, [v for v in valid_dtypes])
                )

    # Methods for subclasses to override.

    def _valid_dtypes(self) -> set[Any]:
        """Types of losses, variables and gradients that the optimizer takes."""
        return {dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64}

    def _create_slots(self, var_list: Any) -> None:
        """Makes the slots of all variables of `var_list`."""

    def _prepare(self) -> None:
        """Makes tensors that all updates share, such as the learning rate."""

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        """An op that applies the tensor `grad` to the reference variable `var`."""
        raise NotImplementedError()

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        """An op that applies the tensor `grad` to the resource variable `handle`."""
        raise NotImplementedError()

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        """As `_resource_apply_sparse`, of indices that may repeat: their slices are summed first."""
        summed_grad, unique_indices = _deduplicate_indexed_slices(values=grad, indices=indices)
        return self._resource_apply_sparse(summed_grad, handle, unique_indices)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        """An op that applies slices `grad` [n, ...] at distinct `indices` [n] to a resource variable."""
        raise NotImplementedError()

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any) -> Any:
        """As `_apply_sparse`, of indices that may repeat: their slices are summed first."""
        summed_values, unique_indices = _deduplicate_indexed_slices(values=grad.values, indices=grad.indices)
        without_duplicates = ops.IndexedSlices(
            indices=unique_indices, values=summed_values, dense_shape=grad.dense_shape
        )
        return self._apply_sparse(without_duplicates, var)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        """An op that applies IndexedSlices with distinct indices to the reference variable `var`."""
        raise NotImplementedError()

    def _finish(self, update_ops: Any, name_scope: str) -> Any:
        """The op, named `name_scope`, that ends the update."""
        return control_flow_ops.group(*update_ops, name=name_scope)

    # Slots.

    def _slot_dict(self, slot_name: str) -> dict[Any, Any]:
        """The slots named `slot_name`, by key of their variables."""
        return self._slots.setdefault(slot_name, {})

    def _get_or_make_slot(self, var: Any, val: Any, slot_name: str, op_name: str) -> Any:
        """The slot of `var`, made from the tensor `val` under the name `op_name` where it is missing."""
        named_slots = self._slot_dict(slot_name)
        key = _var_key(var)
        if key not in named_slots:
            new_slot = slot_creator.create_slot(var, val, op_name)
            self._restore_slot_variable(slot_name=slot_name, variable=var, slot_variable=new_slot)
            named_slots[key] = new_slot
        return named_slots[key]

    def _get_or_make_slot_with_initializer(
        self, var: Any, initializer: Any, shape: Any, dtype: Any, slot_name: str, op_name: str
    ) -> Any:
        """As `_get_or_make_slot`, with an initializer instead of a value."""
        named_slots = self._slot_dict(slot_name)
        key = _var_key(var)
        if key not in named_slots:
            new_slot = slot_creator.create_slot_with_initializer(var, initializer, shape, dtype, op_name)
            self._restore_slot_variable(slot_name=slot_name, variable=var, slot_variable=new_slot)
            named_slots[key] = new_slot
        return named_slots[key]

    def _zeros_slot(self, var: Any, slot_name: str, op_name: str) -> Any:
        """The slot of `var`, made of zeros where it is missing."""
        named_slots = self._slot_dict(slot_name)
        key = _var_key(var)
        if key not in named_slots:
            new_slot = slot_creator.create_zeros_slot(var, op_name)
            self._restore_slot_variable(slot_name=slot_name, variable=var, slot_variable=new_slot)
            named_slots[key] = new_slot
        return named_slots[key]

    # Object-based checkpoints.

    def _restore_slot_variable(self, slot_name: str, variable: Any, slot_variable: Any) -> None:
        """Sets a slot to its value in a checkpoint that was read before the slot existed."""
        waiting = self._deferred_slot_restorations.get(slot_name, {}).pop(_var_key(variable), [])
        for position in sorted(waiting, key=lambda p: p.restore_uid, reverse=True)[:1]:
            position.restore(slot_variable)

    def _create_or_restore_slot_variable(
        self, slot_variable_position: Any, slot_name: str, variable: Any
    ) -> None:
        """Restores a slot from a checkpoint now if it exists, or when it is made."""
        slot_variable = self._slot_dict(slot_name).get(_var_key(variable), None)
        if slot_variable is not None:
            slot_variable_position.restore(slot_variable)
            return
        by_variable = self._deferred_slot_restorations.setdefault(slot_name, {})
        by_variable.setdefault(_var_key(variable), []).append(slot_variable_position)

    def _call_if_callable(self, param: Any) -> Any:
        """`param()` if that can be called, else `param`."""
        return param() if callable(param) else param
