# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of tf.contrib.framework about variables."""
from __future__ import annotations

import re
from typing import Any

from millrace.python._contrib import arg_scope as _arg_scope
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import variable_scope
from millrace.python.training import saver as tf_saver
from millrace.python.training import py_checkpoint_reader
from millrace.python.platform import tf_logging as logging

_KEYS = ops.GraphKeys


@_arg_scope.add_arg_scope
def variable(
    name: Any,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    use_resource: Any = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Any:
    """`tf.get_variable` of a variable on a device, in collections beside that of all variables."""
    del synchronization, aggregation
    collections = list(collections if collections is not None else [_KEYS.GLOBAL_VARIABLES])
    # A name is only once in the list, in the given order.
    collections = list(dict.fromkeys(collections))
    with ops.device(device or ""):
        return variable_scope.get_variable(
            name, shape=shape, dtype=dtype or dtypes.float32, initializer=initializer, regularizer=regularizer,
            trainable=trainable, collections=collections, caching_device=caching_device, partitioner=partitioner,
            use_resource=use_resource, custom_getter=custom_getter,
        )  # fmt: skip


@_arg_scope.add_arg_scope
def model_variable(
    name: Any,
    shape: Any = None,
    dtype: Any = dtypes.float32,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    use_resource: Any = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Any:
    """`variable` of one that belongs to the model."""
    collections = list(collections or []) + [_KEYS.GLOBAL_VARIABLES, _KEYS.MODEL_VARIABLES]
    return variable(
        name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, trainable=trainable,
        collections=collections, caching_device=caching_device, device=device, partitioner=partitioner,
        custom_getter=custom_getter, use_resource=use_resource,
    )  # fmt: skip


def add_model_variable(var: Any) -> None:
    """Makes a variable one of the model."""
    if var not in ops.get_collection(_KEYS.MODEL_VARIABLES):
        ops.add_to_collection(_KEYS.MODEL_VARIABLES, var)


def get_variables(
    scope: Any = None, suffix: Any = None, collection: str = _KEYS.GLOBAL_VARIABLES
) -> list[Any]:
    """The variables of a collection, of a scope, whose names end with `suffix`."""
    if isinstance(scope, variable_scope.VariableScope):
        scope = scope.name
    if suffix is not None:
        scope = "%s.*(%s)" % (
            (scope + "/" if scope and not scope.endswith("/") else scope or ""),
            suffix + ":0",
        )
    return ops.get_collection(collection, scope)


def get_model_variables(scope: Any = None, suffix: Any = None) -> list[Any]:
    """Those of the model."""
    return get_variables(scope, suffix, _KEYS.MODEL_VARIABLES)


def get_local_variables(scope: Any = None, suffix: Any = None) -> list[Any]:
    """Those of the process."""
    return get_variables(scope, suffix, _KEYS.LOCAL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: Any = None) -> list[Any]:
    """Those that are trained."""
    return get_variables(scope, suffix, _KEYS.TRAINABLE_VARIABLES)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[Any]:
    """Those with a name, in any scope."""
    suffix = "/" + given_name + ":|^" + given_name + ":"
    return get_variables(scope=scope, suffix=suffix)


def get_variables_to_restore(include: Any = None, exclude: Any = None) -> list[Any]:
    """All variables of some scopes but those of others."""
    if include is None:
        found = get_variables()
    else:
        if not isinstance(include, (list, tuple)):
            raise TypeError("include is provided but is not a list or a tuple.")
        found = [v for scope in include for v in get_variables(scope)]
    if exclude is None:
        return found
    if not isinstance(exclude, (list, tuple)):
        raise TypeError("exclude is provided but is not a list or a tuple.")
    without = {id(v) for scope in exclude for v in get_variables(scope)}
    return [v for v in found if id(v) not in without]


def filter_variables(
    var_list: Any, include_patterns: Any = None, exclude_patterns: Any = None, reg_search: bool = True
) -> list[Any]:
    """The variables whose names regular expressions find (or match), but those that others do."""
    look = re.search if reg_search else re.match
    found = list(var_list)
    if include_patterns is not None:
        found = [v for p in include_patterns for v in var_list if look(p, v.name)]
    if exclude_patterns is not None:
        found = [v for v in found if not any(look(p, v.name) for p in exclude_patterns)]
    return found


def assign_from_checkpoint_fn(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False, reshape_variables: bool = False
) -> Any:
    """A function of a session that restores variables; None when the checkpoint has none of them.

    Raises:
      ValueError: there is nothing to restore.
    """
    if not var_list:
        raise ValueError("var_list cannot be empty")
    if ignore_missing_vars:
        known = py_checkpoint_reader.NewCheckpointReader(model_path)
        variables = var_list if isinstance(var_list, dict) else {v.op.name: v for v in var_list}
        var_list = {}
        for name, v in variables.items():
            if known.has_tensor(name):
                var_list[name] = v
            else:
                logging.warning("Variable %s missing in checkpoint %s", name, model_path)
        if not var_list:
            logging.warning("No Variables to restore")
            return None
    saver = tf_saver.Saver(var_list, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)
