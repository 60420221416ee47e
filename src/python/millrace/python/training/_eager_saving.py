# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Saving and restoring in eager mode, where no ops are made beforehand."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.training.saving import functional_saver
from millrace.python.training.saving import saveable_object_util
from millrace.python.training.tracking import base


def save_variables(var_list: Any, file_prefix: str) -> str:
    """Writes variables, a list or a dict by names in the checkpoint; returns the prefix."""
    saveables = saveable_object_util.validate_and_slice_inputs(var_list)
    functional_saver.MultiDeviceSaver(saveables).save(constant_op.constant(file_prefix))
    return file_prefix


def restore_variables(var_list: Any, file_prefix: str) -> None:
    """Sets variables to the values in a checkpoint.

    Raises:
      NotFoundError: the checkpoint or a variable in it is missing.
      InvalidArgumentError: shapes or types differ.
    """
    saveables = saveable_object_util.validate_and_slice_inputs(var_list)
    functional_saver.MultiDeviceSaver(saveables).restore(constant_op.constant(file_prefix))


def save_objects(graph_view: Any, file_prefix: str) -> str:
    """Writes everything that a graph view reaches, with the states of Python objects; returns the prefix."""
    named, graph_proto, _ = graph_view.serialize_object_graph()
    frozen = [s.freeze() if hasattr(s, "freeze") else s for s in named]
    text = constant_op.constant(graph_proto.SerializeToString(), dtype=dtypes.string)
    frozen.append(
        saveable_object_util.NoRestoreSaveable(tensor=text, name=base.OBJECT_GRAPH_PROTO_KEY, device="/cpu:0")
    )
    functional_saver.MultiDeviceSaver(frozen).save(constant_op.constant(file_prefix))
    return file_prefix


def restore_by_name(trackable: Any, reader: Any) -> None:
    """Sets a variable to its value, by name, in a checkpoint of tf.train.Saver."""
    from millrace.python.ops import variables

    if isinstance(trackable, variables.Variable) and reader.has_tensor(trackable._shared_name):
        trackable.assign(reader.get_tensor(trackable._shared_name))
