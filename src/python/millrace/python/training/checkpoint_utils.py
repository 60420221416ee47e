# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Reads checkpoints, and initialises variables from them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import io_ops
from millrace.python.ops import resource_variable_ops
from millrace.python.ops import variable_scope as vs
from millrace.python.ops import variables
from millrace.python.platform import tf_logging as logging
from millrace.python.training import checkpoint_management
from millrace.python.training import py_checkpoint_reader
from millrace.python.training.saving import saveable_object_util

__all__ = [
    "checkpoints_iterator",
    "init_from_checkpoint",
    "list_variables",
    "load_checkpoint",
    "load_variable",
]


def load_checkpoint(ckpt_dir_or_file: str) -> Any:
    """A CheckpointReader of a checkpoint, or of the newest of a folder.

    Raises:
      ValueError: if the folder has no checkpoint.
    """
    filename = _get_checkpoint_filename(ckpt_dir_or_file)
    if filename is None:
        raise ValueError(
            "Couldn't find 'checkpoint' file or checkpoints in given directory %s" % ckpt_dir_or_file
        )
    return py_checkpoint_reader.NewCheckpointReader(filename)


def load_variable(ckpt_dir_or_file: str, name: str) -> Any:
    """The value of a variable of a checkpoint as a NumPy array. `name` may end in ":0"."""
    if not isinstance(name, str):
        raise TypeError("name must be a string, got: %r" % (name,))
    if name.endswith(":0"):
        name = name[:-2]
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name)


def list_variables(ckpt_dir_or_file: str) -> list[tuple[str, list[int]]]:
    """Pairs (name, shape) of the variables of a checkpoint, sorted."""
    variable_map = load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map()
    return [(name, variable_map[name]) for name in sorted(variable_map)]


def checkpoints_iterator(
    checkpoint_dir: str, min_interval_secs: float = 0, timeout: float | None = None, timeout_fn: Any = None
) -> Iterator[str]:
    """Yields the newest checkpoint of a folder, each time that there is a new one.

    Args:
      min_interval_secs: the minimum time between two checkpoints.
      timeout: the maximum time, in seconds, to wait for a checkpoint; None: no limit.
      timeout_fn: called after a timeout: a true result ends the iteration, else it continues.
    """
    checkpoint_path: str | None = None
    while True:
        new_checkpoint_path = wait_for_new_checkpoint(checkpoint_dir, checkpoint_path, timeout=timeout)
        if new_checkpoint_path is None:
            if not timeout_fn:
                logging.info("Timed-out waiting for a checkpoint.")
                return
            if timeout_fn():
                return
            continue
        start = time.time()
        checkpoint_path = new_checkpoint_path
        yield checkpoint_path
        time_to_next_eval = start + min_interval_secs - time.time()
        if time_to_next_eval > 0:
            time.sleep(time_to_next_eval)


def wait_for_new_checkpoint(
    checkpoint_dir: str,
    last_checkpoint: str | None = None,
    seconds_to_sleep: float = 1,
    timeout: float | None = None,
) -> str | None:
    """Waits for a newest checkpoint other than `last_checkpoint`; returns None after `timeout` seconds."""
    logging.info("Waiting for new checkpoint at %s", checkpoint_dir)
    stop_time = time.time() + timeout if timeout is not None else None
    while True:
        checkpoint_path = checkpoint_management.latest_checkpoint(checkpoint_dir)
        if checkpoint_path is None or checkpoint_path == last_checkpoint:
            if stop_time is not None and time.time() + seconds_to_sleep > stop_time:
                return None
            time.sleep(seconds_to_sleep)
        else:
            logging.info("Found new checkpoint at %s", checkpoint_path)
            return checkpoint_path


def init_from_checkpoint(ckpt_dir_or_file: str, assignment_map: Any) -> None:
    """Makes values from a checkpoint the initial values of variables of the default graph.

    Args:
      ckpt_dir_or_file: checkpoint, or folder with one.
      assignment_map: a dict: name or scope ("scope/", "/" for all) in the checkpoint to
        variable, list of parts, or name or scope of the graph; as pairs, or None as key for one name.

    Raises:
      ValueError: if a variable is missing on either side, or shapes differ.
    """
    ckpt_file = _get_checkpoint_filename(ckpt_dir_or_file)
    if ckpt_file is None:
        raise ValueError(
            "Couldn't find 'checkpoint' file or checkpoints in given directory %s" % ckpt_dir_or_file
        )
    reader = load_checkpoint(ckpt_dir_or_file)
    variable_map = reader.get_variable_to_shape_map()
    items = assignment_map.items() if isinstance(assignment_map, dict) else assignment_map
    for tensor_name_in_ckpt, current_var_or_name in sorted(items, key=lambda item: str(item[0])):
        var = _find_variables(current_var_or_name)
        if var is not None:
            _init_one(
                ckpt_file, ckpt_dir_or_file, variable_map, tensor_name_in_ckpt, var, current_var_or_name
            )
        else:
            _init_scope(ckpt_file, ckpt_dir_or_file, variable_map, tensor_name_in_ckpt, current_var_or_name)


def _find_variables(current_var_or_name: Any) -> Any:
    """The variable or parts that a value of the map means; None for a scope.

    Raises:
      TypeError: for a value of another kind.
    """
    if _is_variable(current_var_or_name):
        return current_var_or_name
    if isinstance(current_var_or_name, (list, tuple)) and all(_is_variable(v) for v in current_var_or_name):
        return list(current_var_or_name)
    if isinstance(current_var_or_name, variables.PartitionedVariable):
        return list(current_var_or_name)
    if not isinstance(current_var_or_name, str):
        raise TypeError("Unexpected value in assignment_map: %s" % (current_var_or_name,))
    store_vars = vs._get_default_variable_store()._vars
    var = store_vars.get(current_var_or_name, None)
    return _collect_partitioned_variable(current_var_or_name, store_vars) if var is None else var


def _init_one(
    ckpt_file: str, ckpt_dir_or_file: str, variable_map: Any, name: Any, var: Any, given: Any
) -> None:
    if name is None:
        name = var.op.name if _is_variable(var) else var[0]._save_slice_info.full_name
    if name not in variable_map:
        raise ValueError(
            "Tensor %s is not found in %s checkpoint %s" % (name, ckpt_dir_or_file, variable_map)
        )
    if _is_variable(var):
        if not var.get_shape().is_compatible_with(variable_map[name]):
            raise ValueError(
                "Shape of variable %s (%s) doesn't match with shape of tensor %s (%s) from checkpoint reader."
                % (var.name, str(var.get_shape()), name, str(variable_map[name]))
            )
        var_name = var.name
    else:
        var_name = ",".join([v.name for v in var])
    _set_variable_or_list_initializer(var, ckpt_file, name)
    logging.debug("Initialize variable %s from checkpoint %s with %s", var_name, ckpt_dir_or_file, name)


def _init_scope(
    ckpt_file: str, ckpt_dir_or_file: str, variable_map: Any, name: Any, current_name: str
) -> None:
    store_vars = vs._get_default_variable_store()._vars
    scopes = ""
    if "/" in current_name:
        scopes = current_name[: current_name.rindex("/")]
    if not name.endswith("/"):
        raise ValueError(
            "Assignment map with scope only name {} should map to scope only {}. "
            "Should be 'scope/': 'other_scope/'.".format(scopes, name)
        )
    # All variables of the scope, by names that have their parts' numbers removed.
    scope_variables = set()
    for var_name in store_vars:
        if not scopes or var_name.startswith(scopes + "/"):
            if "/part_" in var_name:
                var_name = var_name[: var_name.index("/part_")]
            scope_variables.add(var_name)
    for var_name in sorted(scope_variables):
        full_tensor_name = var_name[len(scopes) :]
        if current_name != "/":
            full_tensor_name = full_tensor_name[1:]
        if name != "/":
            full_tensor_name = name + full_tensor_name
        if full_tensor_name.endswith("/"):
            full_tensor_name = full_tensor_name[:-1]
        if full_tensor_name not in variable_map:
            raise ValueError(
                "Tensor %s (%s in %s) is not found in %s checkpoint"
                % (full_tensor_name, var_name[len(scopes) + 1 :], name, ckpt_dir_or_file)
            )
        var = store_vars.get(var_name, None)
        if var is None:
            var = _collect_partitioned_variable(var_name, store_vars)
        _set_variable_or_list_initializer(var, ckpt_file, full_tensor_name)
        logging.debug(
            "Initialize variable %s from checkpoint %s with %s", var_name, ckpt_dir_or_file, full_tensor_name
        )


def _get_checkpoint_filename(ckpt_dir_or_file: str) -> str | None:
    """The newest checkpoint of a folder, or the argument if it is not a folder."""
    ckpt_dir_or_file = os.fspath(ckpt_dir_or_file)
    if os.path.isdir(ckpt_dir_or_file):
        return checkpoint_management.latest_checkpoint(ckpt_dir_or_file)
    return ckpt_dir_or_file


def _set_checkpoint_initializer(
    variable: Any, ckpt_file: str, tensor_name: str, slice_spec: str, name: str = "checkpoint_initializer"
) -> None:
    """Replaces a variable's initial value by a tensor read from a checkpoint."""
    base_type = variable.dtype.base_dtype
    with ops.device(variable.device), ops.device("/cpu:0"):
        restore_op = io_ops.restore_v2(ckpt_file, [tensor_name], [slice_spec], [base_type], name=name)[0]
        saveables = saveable_object_util.saveable_objects_for_op(variable, variable.op.name)
        init_op = None
        for saveable_object in saveables:
            init_op = saveable_object.restore([restore_op], restored_shapes=None)
            break
        assert init_op is not None
        variable._initializer_op = init_op.op if hasattr(init_op, "op") else init_op
        restore_op.set_shape(variable.get_shape())
        variable._initial_value = restore_op


def _set_variable_or_list_initializer(variable_or_list: Any, ckpt_file: str, tensor_name: str) -> None:
    """Sets the initial value of a variable or of each of its parts."""
    if not isinstance(variable_or_list, (list, tuple)):
        _set_checkpoint_initializer(variable_or_list, ckpt_file, tensor_name, "")
        return
    slice_name = None
    for v in variable_or_list:
        slice_info = v._save_slice_info
        if slice_name is None:
            slice_name = slice_info.full_name
        elif slice_name != slice_info.full_name:
            raise ValueError(
                "Slices must all be from the same tensor: %s != %s" % (slice_name, slice_info.full_name)
            )
        _set_checkpoint_initializer(v, ckpt_file, tensor_name, slice_info.spec)


def _is_variable(x: Any) -> bool:
    return isinstance(x, variables.Variable) or resource_variable_ops.is_resource_variable(x)


def _collect_partitioned_variable(name: str, all_vars: Any) -> Any:
    """The parts of a partitioned variable, or None."""
    if name + "/part_0" in all_vars:
        var = []
        i = 0
        while name + "/part_%d" % i in all_vars:
            var.append(all_vars[name + "/part_%d" % i])
            i += 1
        return var
    return None
