# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Exponential moving averages of variables."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import init_ops
from millrace.python.ops import math_ops
from millrace.python.ops import state_ops
from millrace.python.ops import variable_scope
from millrace.python.ops import variables
from millrace.python.training import slot_creator


def assign_moving_average(
    variable: Any, value: Any, decay: Any, zero_debias: bool = True, name: str | None = None
) -> Any:
    """variable -= (1 - decay) * (variable - value).

    Args:
      variable: the average, a variable of floats.
      value: tensor of the same shape.
      decay: float or scalar tensor.
      zero_debias: whether to correct the average for a start at zero, as Adam does its means; makes the
        variables `biased` and `local_step` in a scope named after the variable.
      name: of the returned op.

    Returns:
      The new average: a reference to `variable`, or its value after the update.
    """
    with ops.name_scope(name, "AssignMovingAvg", [variable, value, decay]) as scope:
        with ops.colocate_with(variable):
            decay = ops.convert_to_tensor(1.0 - decay, name="decay")
            if decay.dtype != variable.dtype.base_dtype:
                decay = math_ops.cast(decay, variable.dtype.base_dtype)
            if zero_debias:
                return _zero_debias(variable, value, decay)
            return state_ops.assign_sub(variable, (variable - value) * decay, name=scope)


def weighted_moving_average(
    value: Any,
    decay: Any,
    weight: Any,
    truediv: bool = True,
    collections: Any = None,
    name: str | None = None,
) -> Any:
    """Moving average of `value` weighted by `weight`: the quotient of two moving averages.

    Args:
      value: tensor of floats.
      decay: float or scalar tensor.
      weight: tensor that can be multiplied with `value`.
      truediv: divide with / as Python 3 does.
      collections: of the two variables made, GLOBAL_VARIABLES by default.
      name: of the variables and ops.
    """
    if collections is None:
        collections = [ops.GraphKeys.GLOBAL_VARIABLES]
    with variable_scope.variable_scope(name, "WeightedMovingAvg", [value, weight, decay]) as scope:
        value_x_weight_var = variable_scope.get_variable(
            "value_x_weight",
            shape=value.get_shape(),
            dtype=value.dtype,
            initializer=init_ops.zeros_initializer(),
            trainable=False,
            collections=collections,
        )
        weight_var = variable_scope.get_variable(
            "weight",
            shape=weight.get_shape(),
            dtype=weight.dtype,
            initializer=init_ops.zeros_initializer(),
            trainable=False,
            collections=collections,
        )
        numerator = assign_moving_average(value_x_weight_var, value * weight, decay, zero_debias=False)
        denominator = assign_moving_average(weight_var, weight, decay, zero_debias=False)
        if truediv:
            return math_ops.truediv(numerator, denominator, name=scope.name)
        return math_ops.div(numerator, denominator, name=scope.name)


def _unique_variable_name(name: str) -> str:
    """`name`, or `name_1`, `name_2`, ... where the scope has a variable of that name."""
    scope = variable_scope.get_variable_scope()
    taken = {v.op.name for v in scope.global_variables()} if hasattr(scope, "global_variables") else set()
    candidate, count = name, 1
    while scope.name + "/" + candidate in taken:
        candidate, count = "%s_%d" % (name, count), count + 1
    return candidate


def _zero_debias(unbiased_var: Any, value: Any, decay: Any) -> Any:
    """Keeps the biased average in another variable and assigns the corrected one to `unbiased_var`.

    `decay` is one minus the factor that the average keeps. Reference: Kingma and Ba, section 3 (Adam).
    """
    with variable_scope.variable_scope(unbiased_var.op.name, values=[unbiased_var, value, decay]):
        with ops.colocate_with(unbiased_var):
            with ops.init_scope():
                biased_initializer = init_ops.zeros_initializer()
                local_step_initializer = init_ops.zeros_initializer()
            biased_var = variable_scope.get_variable(
                _unique_variable_name("biased"),
                initializer=biased_initializer,
                shape=unbiased_var.get_shape(),
                dtype=unbiased_var.dtype.base_dtype,
                trainable=False,
            )
            local_step = variable_scope.get_variable(
                _unique_variable_name("local_step"),
                shape=[],
                dtype=unbiased_var.dtype.base_dtype,
                initializer=local_step_initializer,
                trainable=False,
            )
            update_biased = state_ops.assign_sub(biased_var, (biased_var - value) * decay)
            update_local_step = local_step.assign_add(1)
            bias_factor = 1 - math_ops.pow(1.0 - decay, update_local_step)
            return state_ops.assign(
                unbiased_var, update_biased / bias_factor, name=ops.get_name_scope() + "/"
            )


class ExponentialMovingAverage:
    """Exponential moving averages of variables and tensors: shadow = decay * shadow + (1 - decay) * value.

    `apply` makes the shadow variables and the op that updates them; `average` returns the shadow of a variable;
    `variables_to_restore` maps names in a checkpoint so that averages are loaded instead of the variables.
    """

    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        """Keeps the arguments; `apply` makes the averages.

        Args:
          decay: float or scalar tensor, close to 1.
          num_updates: number of updates, which limits the decay to (1 + num_updates) / (10 + num_updates), or
            None.
          zero_debias: whether to correct averages of tensors, which begin at zero, for that bias.
          name: suffix of the shadows' names.
        """
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        return self._name

    def apply(self, var_list: Any = None) -> Any:
        """Makes shadows where they are missing, and the op that updates all of them.

        Args:
          var_list: variables or tensors of floats; all trainable variables if None.

        Raises:
          TypeError: if one is not of a float type.
        """
        if var_list is None:
            var_list = variables.trainable_variables()
        zero_debias_true = []
        for var in var_list:
            if var.dtype.base_dtype not in [dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64]:
                raise TypeError("The variables must be half, float, or double: %s" % var.name)
            if self._lookup(var) is None:
                # Shadows are initialised outside of any loop or condition.
                with ops.init_scope():
                    if isinstance(var, variables.Variable):
                        avg = slot_creator.create_slot(
                            var, var.initialized_value(), self.name, colocate_with_primary=True
                        )
                        ops.add_to_collection(ops.GraphKeys.MOVING_AVERAGE_VARIABLES, var)
                    else:
                        avg = slot_creator.create_zeros_slot(
                            var,
                            self.name,
                            colocate_with_primary=(var.op.type in ["Variable", "VariableV2", "VarHandleOp"]),
                        )
                        if self._zero_debias:
                            zero_debias_true.append(avg)
                self._averages[self._key(var)] = avg
        with ops.name_scope(self.name) as scope:
            decay = ops.convert_to_tensor(self._decay, name="decay")
            if self._num_updates is not None:
                num_updates = math_ops.cast(self._num_updates, dtypes.float32, name="num_updates")
                decay = math_ops.minimum(decay, (1.0 + num_updates) / (10.0 + num_updates))
            updates = []
            for var in var_list:
                avg = self._lookup(var)
                updates.append(
                    assign_moving_average(
                        avg, var, decay, zero_debias=any(avg is a for a in zero_debias_true)
                    )
                )
            return control_flow_ops.group(*updates, name=scope)

    @staticmethod
    def _key(var: Any) -> Any:
        if getattr(var, "_in_graph_mode", True) is False:
            return var._unique_id
        return (id(var.op.graph), var.op.name, getattr(var, "value_index", 0))

    def _lookup(self, var: Any) -> Any:
        return self._averages.get(self._key(var), None)

    def average(self, var: Any) -> Any:
        """The shadow variable of `var`, or None."""
        return self._lookup(var)

    def average_name(self, var: Any) -> str:
        """Name of the shadow variable of `var` in checkpoints, whether it exists or not."""
        avg = self._lookup(var)
        if avg is not None:
            found: str = avg._shared_name
            return found
        unique: str = ops.get_default_graph().unique_name(var.op.name + "/" + self.name, mark_as_used=False)
        return unique

    def variables_to_restore(self, moving_avg_variables: Any = None) -> dict[str, Any]:
        """A dict for Saver: name in the checkpoint -> variable, with averages instead of averaged variables.

        Args:
          moving_avg_variables: variables to load from their averages; those of MOVING_AVERAGE_VARIABLES and
            the trainable ones if None.
        """
        name_map: dict[str, Any] = {}
        if moving_avg_variables is None:
            moving_avg_variables = variables.trainable_variables()
            moving_avg_variables += variables.moving_average_variables()
        averaged = {v.name: v for v in moving_avg_variables}
        for v in averaged.values():
            name_map[self.average_name(v)] = v
        for v in variables.global_variables():
            if v.name not in averaged and v.op.name not in name_map:
                name_map[v.op.name] = v
        return name_map
