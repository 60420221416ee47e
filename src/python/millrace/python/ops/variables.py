# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Variables: their classes, the lists of a graph's variables, and initialisers of many at once."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import math_ops
from millrace.python.ops import state_ops
from millrace.python.ops._variables_base import SaveSliceInfo  # noqa: F401
from millrace.python.ops._variables_base import Variable
from millrace.python.ops._variables_base import VariableAggregation  # noqa: F401
from millrace.python.ops._variables_base import VariableAggregationV2  # noqa: F401
from millrace.python.ops._variables_base import VariableMetaclass  # noqa: F401
from millrace.python.ops._variables_base import VariableSynchronization  # noqa: F401
from millrace.python.ops._variables_base import VariableV1  # noqa: F401
from millrace.python.ops._variables_base import _make_getter  # noqa: F401
from millrace.python.ops._variables_base import validate_synchronization_aggregation_trainable  # noqa: F401
from millrace.python.ops._variables_partitioned import PartitionedVariable  # noqa: F401
from millrace.python.ops._variables_ref import RefVariable  # noqa: F401
from millrace.python.ops._variables_ref import _try_guard_against_uninitialized_dependencies  # noqa: F401
from millrace.python.util import deprecation


def global_variables(scope: str | None = None) -> Any:
    """Returns the global variables whose names start with a match of the regular expression `scope`."""
    return ops.get_collection(ops.GraphKeys.GLOBAL_VARIABLES, scope)


@deprecation.deprecated("2017-03-02", "Please use tf.global_variables instead.")
def all_variables() -> Any:
    """Returns the global variables."""
    return global_variables()


def _all_saveable_objects(scope: str | None = None) -> Any:
    """The global variables and other saveable objects, which a Saver writes by default."""
    return ops.get_collection(ops.GraphKeys.GLOBAL_VARIABLES, scope) + ops.get_collection(
        ops.GraphKeys.SAVEABLE_OBJECTS, scope
    )


def local_variables(scope: str | None = None) -> Any:
    """Returns the local variables, which belong to one process and are not saved."""
    return ops.get_collection(ops.GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope: str | None = None) -> Any:
    """Returns the variables in the collection of model variables."""
    return ops.get_collection(ops.GraphKeys.MODEL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> Any:
    """Returns the variables that optimizers change."""
    return ops.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> Any:
    """Returns the variables that have moving averages."""
    return ops.get_collection(ops.GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def variables_initializer(var_list: Any, name: str = "init") -> Any:
    """Returns an op that runs the initializers of a list of variables; a NoOp for an empty list."""
    if var_list:
        for v in var_list:
            if not hasattr(v, "initializer"):
                raise TypeError("Expected a list of variables, got %r in it." % (v,))
        return control_flow_ops.group(*[v.initializer for v in var_list], name=name)
    return control_flow_ops.no_op(name=name)


@deprecation.deprecated("2017-03-02", "Use `tf.variables_initializer` instead.")
def initialize_variables(var_list: Any, name: str = "init") -> Any:
    """Returns an op that runs the initializers of a list of variables."""
    return variables_initializer(var_list, name=name)


def global_variables_initializer() -> Any:
    """Returns an op that initialises all global variables."""
    return variables_initializer(global_variables())


@deprecation.deprecated("2017-03-02", "Use `tf.global_variables_initializer` instead.")
def initialize_all_variables() -> Any:
    """Returns an op that initialises all global variables."""
    return global_variables_initializer()


def local_variables_initializer() -> Any:
    """Returns an op that initialises all local variables."""
    return variables_initializer(local_variables())


@deprecation.deprecated("2017-03-02", "Use `tf.local_variables_initializer` instead.")
def initialize_local_variables() -> Any:
    """Returns an op that initialises all local variables."""
    return local_variables_initializer()


def is_variable_initialized(variable: Any) -> Any:
    """Returns a boolean scalar that is true if a variable has a value."""
    return state_ops.is_variable_initialized(variable)


def assert_variables_initialized(var_list: Any = None) -> Any:
    """Returns an op that fails with FailedPreconditionError unless all variables have values.

    None where there are no variables (by default all global and local ones).
    """
    if var_list is None:
        var_list = global_variables() + local_variables()
    if not var_list:
        var_list = [
            op.outputs[0]
            for op in ops.get_default_graph().get_operations()
            if op.type in ("Variable", "VariableV2", "AutoReloadVariable")
        ]
    if not var_list:
        return None
    ranks = [array_ops.rank_internal(var, optimize=False) for var in var_list]
    return ranks[0] if len(ranks) == 1 else array_ops.stack(ranks)


def report_uninitialized_variables(var_list: Any = None, name: str = "report_uninitialized_variables") -> Any:
    """Returns a vector of the names of variables without values (by default of all global and local ones)."""
    if var_list is None:
        var_list = global_variables() + local_variables()
        if not var_list:
            var_list = [
                op.outputs[0]
                for op in ops.get_default_graph().get_operations()
                if op.type in ("Variable", "VariableV2", "AutoReloadVariable")
            ]
    with ops.name_scope(name):
        # Strings are kept in host memory.
        with ops.device("/cpu:0"):
            if not var_list:
                return array_ops.constant([], dtype=dtypes.string)
            variables_mask = math_ops.logical_not(
                array_ops.stack([state_ops.is_variable_initialized(v) for v in var_list])
            )
            names = array_ops.constant([s.op.name for s in var_list])
            return array_ops.boolean_mask(names, variables_mask)


def _get_variable_proto_type() -> Any:
    from millrace.core.framework import variable_pb2

    return variable_pb2.VariableDef


def _to_proto_fn(v: Any, export_scope: str | None = None) -> Any:
    return v.to_proto(export_scope=export_scope)


def _from_proto_fn(v: Any, import_scope: str | None = None) -> Any:
    return Variable.from_proto(v, import_scope=import_scope)


Variable._OverloadAllOperators()

for _key in (
    ops.GraphKeys.GLOBAL_VARIABLES,
    ops.GraphKeys.TRAINABLE_VARIABLES,
    ops.GraphKeys.MOVING_AVERAGE_VARIABLES,
    ops.GraphKeys.LOCAL_VARIABLES,
    ops.GraphKeys.MODEL_VARIABLES,
    ops.GraphKeys.GLOBAL_STEP,
    ops.GraphKeys.METRIC_VARIABLES,
):
    ops.register_proto_function(
        _key, proto_type=_get_variable_proto_type, to_proto=_to_proto_fn, from_proto=_from_proto_fn
    )
