# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of tf.contrib.framework about variables."""
from __future__ import annotations

import re
from typing import Any

import numpy as np

from millrace.python._contrib import arg_scope as _arg_scope
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops import check_ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import math_ops
from millrace.python.ops import state_ops
from millrace.python.ops import variable_scope
from millrace.python.training import saver as tf_saver
from millrace.python.training import py_checkpoint_reader
from millrace.python.training import training_util
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
    """`tf.get_variable` on a device, with collections in addition to GLOBAL_VARIABLES."""
    del synchronization, aggregation
    collections = list(collections if collections is not None else [_KEYS.GLOBAL_VARIABLES])
    # Each collection once, in the given order.
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
    """Adds a variable to the collection of model variables."""
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
    """Returns the model variables."""
    return get_variables(scope, suffix, _KEYS.MODEL_VARIABLES)


def get_local_variables(scope: Any = None, suffix: Any = None) -> list[Any]:
    """Returns the local variables."""
    return get_variables(scope, suffix, _KEYS.LOCAL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: Any = None) -> list[Any]:
    """Returns the trainable variables."""
    return get_variables(scope, suffix, _KEYS.TRAINABLE_VARIABLES)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[Any]:
    """Returns the variables of a name in a scope."""
    suffix = "/" + given_name + ":|^" + given_name + ":"
    return get_variables(scope=scope, suffix=suffix)


def get_variables_to_restore(include: Any = None, exclude: Any = None) -> list[Any]:
    """Returns the variables of some scopes, without those of others."""
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
    """Returns variables whose names match one of `include_patterns` and none of `exclude_patterns`."""
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


def assign_from_values(var_names_to_values: Any) -> tuple[Any, dict[Any, Any]]:
    """Returns an op that assigns arrays to variables by name, and the dict of its feeds."""
    feed_dict: dict[Any, Any] = {}
    assign_ops = []
    for name, value in var_names_to_values.items():
        value = np.asarray(value)
        target = get_unique_variable(name)
        fed = array_ops.placeholder(target.dtype.base_dtype, target.get_shape())
        assign_ops.append(state_ops.assign(target, fed))
        feed_dict[fed] = value.reshape(target.get_shape().as_list())
    return control_flow_ops.group(*assign_ops), feed_dict


def assign_from_values_fn(var_names_to_values: Any) -> Any:
    """A function of a session that assigns arrays to variables by name."""
    assign_op, feed_dict = assign_from_values(var_names_to_values)
    return lambda session: session.run(assign_op, feed_dict)


def assign_from_checkpoint(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False
) -> tuple[Any, dict[Any, Any]]:
    """Returns an op that assigns the values of a checkpoint to variables, and the dict of its feeds.

    Args:
      model_path: the checkpoint.
      var_list: a list of variables, or a dict of names in the checkpoint to variables or lists of parts of one.
      ignore_missing_vars: whether names that the checkpoint lacks are left out.

    Raises:
      ValueError: the checkpoint lacks a name, or its shape is another.
    """
    reader = py_checkpoint_reader.NewCheckpointReader(model_path)
    grouped = var_list if isinstance(var_list, dict) else {v.op.name: v for v in var_list}
    feed_dict: dict[Any, Any] = {}
    assign_ops = []
    for name, targets in grouped.items():
        if not reader.has_tensor(name):
            text = "Checkpoint is missing variable [%s]" % name
            if not ignore_missing_vars:
                raise ValueError(text)
            logging.warning(text)
            continue
        value = reader.get_tensor(name)
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            part = value
            if isinstance(targets, (list, tuple)) and len(targets) > 1:
                info = target._get_save_slice_info()
                part = value[tuple(slice(o, o + n) for o, n in zip(info.var_offset, info.var_shape))]
            if not target.get_shape().is_compatible_with(part.shape):
                text = "Total size of new array must be unchanged for %s lh_shape: [%s], rh_shape: [%s]"
                raise ValueError(text % (name, part.shape, target.get_shape()))
            fed = array_ops.placeholder(target.dtype.base_dtype, target.get_shape())
            assign_ops.append(state_ops.assign(target, fed))
            feed_dict[fed] = part
    return control_flow_ops.group(*assign_ops), feed_dict


@_arg_scope.add_arg_scope
def local_variable(
    initial_value: Any, validate_shape: bool = True, name: Any = None, use_resource: Any = None
) -> Any:
    """A local variable, which is not saved in checkpoints."""
    return variable_scope.variable(
        initial_value, trainable=False, collections=[_KEYS.LOCAL_VARIABLES], validate_shape=validate_shape,
        use_resource=use_resource, name=name,
    )  # fmt: skip


@_arg_scope.add_arg_scope
def global_variable(
    initial_value: Any, validate_shape: bool = True, name: Any = None, use_resource: Any = None
) -> Any:
    """A variable that is not trained."""
    return variable_scope.variable(
        initial_value, trainable=False, collections=[_KEYS.GLOBAL_VARIABLES], validate_shape=validate_shape,
        use_resource=use_resource, name=name,
    )  # fmt: skip


def get_variables_by_suffix(suffix: str, scope: Any = None) -> list[Any]:
    """Returns the variables whose names end with `suffix`."""
    return get_variables(scope=scope, suffix=suffix)


def get_unique_variable(var_op_name: str) -> Any:
    """The variable of the operation with this name; ValueError if there is none."""
    found = [v for v in get_variables() + get_local_variables() if v.op.name == var_op_name]
    if not found:
        raise ValueError("Couldn't find variable %s" % var_op_name)
    return found[0]


def get_variable_full_name(var: Any) -> str:
    """The name of a variable, or of the variable that it is a part of."""
    info = var._save_slice_info
    return str(info.full_name if info else var.op.name)


def assert_or_get_global_step(graph: Any = None, global_step_tensor: Any = None) -> Any:
    """The given global step, checked, or the graph's."""
    if global_step_tensor is None:
        return training_util.get_global_step(graph)
    training_util.assert_global_step(global_step_tensor)
    return global_step_tensor


def assert_scalar_int(tensor: Any, name: Any = None) -> Any:
    """The value as a tensor; ValueError unless it is an int32 or int64 scalar."""
    with ops.name_scope(name, "assert_scalar_int", [tensor]):
        tensor = ops.convert_to_tensor(tensor)
        if tensor.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
            raise ValueError("Expected int32 or int64, got %s" % tensor.dtype.base_dtype)
        return check_ops.assert_scalar(tensor, name=name)


def reduce_sum_n(tensors: Any, name: Any = None) -> Any:
    """The sum of the elements of all tensors; ValueError for none."""
    if not tensors:
        raise ValueError("No tensors provided.")
    with ops.name_scope(name, "reduce_sum_n", tensors):
        sums = [math_ops.reduce_sum(t, name="%s/sum" % t.op.name) for t in tensors]
        return sums[0] if len(sums) == 1 else math_ops.add_n(sums)


def with_shape(expected_shape: Any, tensor: Any) -> Any:
    """The tensor with a shape, which is checked now where it is known, else when the tensor is computed.

    Raises:
      ValueError: the shape is known and another one.
    """
    tensor = ops.convert_to_tensor(tensor)
    if not isinstance(expected_shape, ops.Tensor):
        wanted = tensor_shape.TensorShape(
            None if expected_shape is None else [None if d in (None, -1) else d for d in expected_shape]
        )
        if not tensor.get_shape().is_compatible_with(wanted):
            raise ValueError(
                "Wrong shape for %s [expected] %s [actual] %s." % (tensor.name, wanted, tensor.get_shape())
            )
        return check_ops.ensure_shape(tensor, wanted) if wanted.ndims is not None else tensor
    actual = array_ops.shape(tensor)
    with ops.control_dependencies(
        [
            check_ops.assert_equal(
                math_ops.cast(expected_shape, dtypes.int32),
                actual,
                message="Wrong shape for %s" % tensor.name,
            )
        ]
    ):
        return array_ops.identity(tensor)


def with_same_shape(expected_tensor: Any, tensor: Any) -> Any:
    """`tensor`, checked to have the shape of the other one."""
    with ops.name_scope("with_same_shape", values=[expected_tensor, tensor]):
        shape = expected_tensor.get_shape()
        return with_shape(
            shape.as_list() if shape.is_fully_defined() else array_ops.shape(expected_tensor), tensor
        )


def get_signature_def_by_key(meta_graph_def: Any, signature_def_key: str) -> Any:
    """The SignatureDef of a MetaGraphDef by its key; ValueError if there is none."""
    if signature_def_key not in meta_graph_def.signature_def:
        raise ValueError('No SignatureDef with key "%s" found in MetaGraphDef.' % signature_def_key)
    return meta_graph_def.signature_def[signature_def_key]
