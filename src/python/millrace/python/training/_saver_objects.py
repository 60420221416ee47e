# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Reads object-based checkpoints by the names of variables."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import errors
from millrace.python.training.tracking import base as trackable


def object_graph_key_mapping(checkpoint_path: str) -> dict[str, str]:
    """Returns a dict from full names of variables to their keys in an object-based checkpoint.

    Raises:
      NotFoundError: if the checkpoint is of another kind.
    """
    from millrace.core.protobuf import trackable_object_graph_pb2
    from millrace.python.training import checkpoint_utils

    reader = checkpoint_utils.load_checkpoint(checkpoint_path)
    object_graph_string = reader.get_tensor(trackable.OBJECT_GRAPH_PROTO_KEY)
    object_graph = trackable_object_graph_pb2.TrackableObjectGraph()
    object_graph.ParseFromString(object_graph_string)
    return {
        attribute.full_name: attribute.checkpoint_key
        for node in object_graph.nodes
        for attribute in node.attributes
    }


def saver_from_object_based_checkpoint(
    checkpoint_path: str,
    var_list: Any = None,
    builder: Any = None,
    names_to_keys: Any = None,
    cached_saver: Any = None,
) -> Any:
    """A Saver that reads variables by their keys in an object-based checkpoint.

    Raises:
      ValueError: if the checkpoint is of another kind.
      NotFoundError: if it lacks a variable.
    """
    from millrace.python.ops import variables
    from millrace.python.training import saver as saver_lib
    from millrace.python.training.saving import saveable_object_util

    if names_to_keys is None:
        try:
            names_to_keys = object_graph_key_mapping(checkpoint_path)
        except errors.NotFoundError:
            raise ValueError("Checkpoint in %s not an object-based checkpoint." % checkpoint_path)
    if var_list is None:
        var_list = variables._all_saveable_objects()
    if builder is None:
        builder = saver_lib.BulkSaverBuilder()
    if not isinstance(var_list, dict):
        var_list = saveable_object_util.op_list_to_dict(var_list)
    saveables = saveable_object_util.validate_and_slice_inputs(var_list)
    current_names = {spec.name for saveable in saveables for spec in saveable.specs}
    missing_names = current_names - set(names_to_keys)
    if missing_names:
        extra_names = set(names_to_keys) - current_names
        raise errors.NotFoundError(
            None,
            None,
            "\n\nExisting variables not in the checkpoint: %s\n\nVariables names when this checkpoint was"
            " written which don't exist now: %s\n\n(%d variable name(s) did match)\n\nCould not find some"
            " variables in the checkpoint (see names above). Saver was attempting to load an object-based"
            " checkpoint (saved using tf.train.Checkpoint or tf.keras.Model.save_weights) using variable"
            " names. If the checkpoint was written with eager execution enabled, it's possible that variable"
            " names have changed (for example missing a '_1' suffix). It's also possible that there are new"
            " variables which did not exist when the checkpoint was written. You can construct a"
            " Saver(var_list=...) with only the variables which previously existed, and if variable names"
            " have changed you may need to make this a dictionary with the old names as keys. If you're"
            " using an Estimator, you'll need to return a tf.train.Saver inside a tf.train.Scaffold from"
            " your model_fn."
            % (
                ", ".join(sorted(missing_names)),
                ", ".join(sorted(extra_names)),
                len(current_names) - len(missing_names),
            ),
        )
    for saveable in saveables:
        for spec in saveable.specs:
            spec.name = names_to_keys[spec.name]
    if cached_saver is None:
        return saver_lib.Saver(saveables)
    return cached_saver
