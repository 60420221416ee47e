# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Trackable: objects with named dependencies, which checkpoints follow."""

from __future__ import annotations

import collections
import functools
from typing import Any, Callable

from millrace.python.framework import ops
from millrace.python.platform import tf_logging as logging

# The key of the object graph's description in a checkpoint.
OBJECT_GRAPH_PROTO_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Name of a variable's value among the attributes of its node.
VARIABLE_VALUE_KEY = "VARIABLE_VALUE"
OBJECT_CONFIG_JSON_KEY = "OBJECT_CONFIG_JSON"

TrackableReference = collections.namedtuple("TrackableReference", ["name", "ref"])


# A slot that a checkpoint has for the variable that gets `variable_id`; its optimizer is `optimizer_id`.
_SlotVariableRestoration = collections.namedtuple(
    "_SlotVariableRestoration", ["optimizer_id", "slot_variable_id", "slot_name"]
)
# A slot of a known variable whose optimizer is not known yet.
_DeferredSlotVariableRestoration = collections.namedtuple(
    "_DeferredSlotVariableRestoration", ["original_variable", "slot_variable_id", "slot_name"]
)


class CheckpointInitialValue:
    """Initial value of a variable that a checkpoint read earlier holds: callable, as initial values may be."""

    def __init__(self, checkpoint_position: Any, shape: Any = None) -> None:
        self._checkpoint_position = checkpoint_position
        self.wrapped_value = checkpoint_position.value_tensors()[VARIABLE_VALUE_KEY]
        if shape is not None:
            # The static shape is checked here, where the variable is made.
            self.wrapped_value.set_shape(shape)

    def __call__(self) -> Any:
        return self.wrapped_value

    @property
    def checkpoint_position(self) -> Any:
        return self._checkpoint_position


class CheckpointPosition:
    """One node of the object graph of a checkpoint that is being restored."""

    def __init__(self, checkpoint: Any, proto_id: int) -> None:
        """Keeps the arguments.

        Args:
          checkpoint: the coordinator of the restoration.
          proto_id: number of the node.
        """
        self._checkpoint = checkpoint
        self._proto_id = proto_id

    @property
    def checkpoint(self) -> Any:
        return self._checkpoint

    @property
    def restore_uid(self) -> int:
        uid: int = self._checkpoint.restore_uid
        return uid

    @property
    def object_proto(self) -> Any:
        return self._checkpoint.object_graph_proto.nodes[self._proto_id]

    @property
    def trackable(self) -> Any:
        """The object that the node was bound to."""
        return self._checkpoint.object_by_proto_id[self._proto_id]

    def is_simple_variable(self) -> bool:
        """Whether the node is a variable without dependencies."""
        attributes = self.object_proto.attributes
        return (
            len(attributes) == 1
            and attributes[0].name == VARIABLE_VALUE_KEY
            and not self.object_proto.children
        )

    def restore(self, trackable: Any) -> None:
        """Restores `trackable`, and all objects reachable from it, from this node on."""
        with ops.init_scope():
            if self.bind_object(trackable):
                restore_ops = trackable._restore_from_checkpoint_position(self)
                if restore_ops:
                    self._checkpoint.new_restore_ops(restore_ops)

    def bind_object(self, trackable: Any) -> bool:
        """Binds the node to `trackable`; returns whether it was unbound. Restores slots that wait for it."""
        checkpoint = self._checkpoint
        checkpoint.all_python_objects.add(trackable)
        current_assignment = checkpoint.object_by_proto_id.get(self._proto_id, None)
        checkpoint.matched_proto_ids.add(self._proto_id)
        if current_assignment is not None:
            if current_assignment is not trackable:
                logging.warning(
                    "Inconsistent references when loading the checkpoint into this object graph. Either the"
                    " Trackable object references in the Python program have changed in an incompatible way, or"
                    " the checkpoint was generated in an incompatible program.\n\nTwo checkpoint references"
                    " resolved to different objects (%s and %s).",
                    current_assignment,
                    trackable,
                )
            return False
        checkpoint.object_by_proto_id[self._proto_id] = trackable
        for deferred in checkpoint.deferred_slot_restorations.pop(self._proto_id, ()):
            trackable._create_or_restore_slot_variable(
                slot_variable_position=CheckpointPosition(checkpoint, deferred.slot_variable_id),
                variable=deferred.original_variable,
                slot_name=deferred.slot_name,
            )
        for slot in checkpoint.slot_restorations.pop(self._proto_id, ()):
            optimizer = checkpoint.object_by_proto_id.get(slot.optimizer_id, None)
            if optimizer is None:
                checkpoint.deferred_slot_restorations.setdefault(slot.optimizer_id, []).append(
                    _DeferredSlotVariableRestoration(
                        original_variable=trackable,
                        slot_variable_id=slot.slot_variable_id,
                        slot_name=slot.slot_name,
                    )
                )
            else:
                optimizer._create_or_restore_slot_variable(
                    slot_variable_position=CheckpointPosition(checkpoint, slot.slot_variable_id),
                    variable=trackable,
                    slot_name=slot.slot_name,
                )
        return True

    def value_tensors(self) -> dict[str, Any]:
        """Tensors read from the checkpoint, by names of attributes."""
        from millrace.python.ops import io_ops

        checkpoint = self._checkpoint
        tensors = {}
        for attribute in self.object_proto.attributes:
            dtype = checkpoint.dtype_map[attribute.checkpoint_key].base_dtype
            with ops.init_scope(), ops.device("/cpu:0"):
                (tensors[attribute.name],) = io_ops.restore_v2(
                    checkpoint.save_path_tensor, [attribute.checkpoint_key], [""], [dtype], name="read_values"
                )
        return tensors

    def initial_value(self, shape: Any = None) -> Any:
        """The value for a variable that is about to be made, or None if the node is not a variable."""
        return CheckpointInitialValue(self, shape) if self.is_simple_variable() else None

    def restore_ops(self) -> list[Any]:
        """Ops that set the attributes of the bound object; Python state is set immediately."""
        from millrace.python.training.saving import functional_saver
        from millrace.python.training.saving import saveable_object
        from millrace.python.training.saving import saveable_object_util

        checkpoint = self._checkpoint
        factories = self.trackable._gather_saveables_for_checkpoint()
        found: list[Any] = []
        restored: list[Any] = []
        for attribute in self.object_proto.attributes:
            key = attribute.checkpoint_key
            if key in checkpoint.restore_ops_by_name:
                restored.append(checkpoint.restore_ops_by_name[key])
                continue
            factory = factories.get(attribute.name, None)
            if factory is None:
                # The checkpoint has an attribute that the object lacks.
                if not attribute.optional_restore:
                    checkpoint.unused_attributes.setdefault(self._proto_id, []).append(attribute.name)
                continue
            made = factory(name=key) if callable(factory) and not isinstance(factory, Trackable) else factory
            if isinstance(made, saveable_object_util.PythonStringStateSaveable):
                made.python_restore([checkpoint.reader.get_tensor(made.specs[0].name)])
                continue
            if isinstance(made, saveable_object.SaveableObject):
                found.append(made)
            else:
                found.extend(saveable_object_util.saveable_objects_for_op(op=made, name=key))
        if found:
            new_ops = functional_saver.MultiDeviceSaver(found).restore(checkpoint.save_path_tensor)
            for name, op in sorted(new_ops.items()):
                restored.append(op)
                checkpoint.restore_ops_by_name[name] = op
        return restored


def no_automatic_dependency_tracking(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of methods whose assignments to attributes make no dependencies."""

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        previous = getattr(self, "_setattr_tracking", True)
        self._setattr_tracking = False
        try:
            return method(self, *args, **kwargs)
        finally:
            self._setattr_tracking = previous

    return wrapper


no_manual_dependency_tracking_scope = None


class Trackable:
    """Base of objects that take part in object-based checkpoints without tracking their attributes."""

    _unconditional_checkpoint_dependencies: list[Any]
    _unconditional_dependency_names: dict[str, Any]
    _unconditional_deferred_dependencies: dict[str, list[Any]]
    _self_update_uid: int
    _self_name_based_restores: set[Any]

    def _maybe_initialize_trackable(self) -> None:
        """Makes the lists of dependencies where a subclass did not call `__init__`."""
        if hasattr(self, "_unconditional_checkpoint_dependencies"):
            return
        # Bypasses __setattr__ of subclasses, which would make dependencies of these lists.
        for name, value in (
            ("_unconditional_checkpoint_dependencies", []),
            ("_unconditional_dependency_names", {}),
            # Name -> positions in checkpoints that wait for a dependency of that name.
            ("_unconditional_deferred_dependencies", {}),
            # Identifier of the newest restoration that changed the object: older ones do not overwrite it.
            ("_self_update_uid", -1),
            ("_self_name_based_restores", set()),
        ):
            object.__setattr__(self, name, value)

    @property
    def _update_uid(self) -> int:
        return self._self_update_uid

    @_update_uid.setter
    def _update_uid(self, value: int) -> None:
        self._self_update_uid = value

    @property
    def _checkpoint_dependencies(self) -> list[Any]:
        """All dependencies as TrackableReference(name, ref)."""
        self._maybe_initialize_trackable()
        return list(self._unconditional_checkpoint_dependencies)

    @property
    def _deferred_dependencies(self) -> dict[str, list[Any]]:
        self._maybe_initialize_trackable()
        return self._unconditional_deferred_dependencies

    def _restore_from_checkpoint_position(self, checkpoint_position: CheckpointPosition) -> list[Any]:
        """Restores the object and all that can be reached, nearest first; returns the ops to run for it."""
        restore_ops: list[Any] = []
        queue = collections.deque([checkpoint_position])
        while queue:
            current = queue.popleft()
            restore_ops.extend(current.trackable._single_restoration_from_checkpoint_position(current, queue))
        return restore_ops

    def _single_restoration_from_checkpoint_position(self, checkpoint_position: Any, queue: Any) -> list[Any]:
        """Restores the object alone, and appends its dependencies to `queue`; missing ones are deferred."""
        self._maybe_initialize_trackable()
        checkpoint = checkpoint_position.checkpoint
        restore_ops: list[Any] = []
        # An object keeps the value of a newer restoration.
        if self._update_uid < checkpoint.restore_uid:
            restore_ops = checkpoint_position.restore_ops()
            self._update_uid = checkpoint.restore_uid
        for child in checkpoint_position.object_proto.children:
            child_position = CheckpointPosition(checkpoint, child.node_id)
            local_object = self._lookup_dependency(child.local_name)
            if local_object is None:
                self._deferred_dependencies.setdefault(child.local_name, []).append(child_position)
            elif child_position.bind_object(trackable=local_object):
                queue.append(child_position)
        return restore_ops

    def _lookup_dependency(self, name: str) -> Any:
        """The dependency called `name`, or None."""
        self._maybe_initialize_trackable()
        return self._unconditional_dependency_names.get(name, None)

    def _track_trackable(self, trackable: Any, name: str, overwrite: bool = False) -> Any:
        """Declares that this object depends on `trackable` under `name`; returns `trackable`.

        Raises:
          TypeError: if `trackable` is not a Trackable.
          ValueError: if the name is in use and `overwrite` is false.
        """
        self._maybe_initialize_trackable()
        if not isinstance(trackable, Trackable):
            raise TypeError(
                "Trackable._track_trackable() passed type %s, not a Trackable." % (type(trackable),)
            )
        reference = TrackableReference(name=name, ref=trackable)
        current = self._lookup_dependency(name)
        if current is not None and current is not trackable:
            if not overwrite:
                raise ValueError(
                    "Called Trackable._track_trackable() with name='%s', but a Trackable with this name"
                    " is already declared as a dependency. Names must be unique (or overwrite=True)." % name
                )
            for index, (old_name, _) in enumerate(self._unconditional_checkpoint_dependencies):
                if old_name == name:
                    self._unconditional_checkpoint_dependencies[index] = reference
        elif current is None:
            self._unconditional_checkpoint_dependencies.append(reference)
            self._handle_deferred_dependencies(name=name, trackable=trackable)
        self._unconditional_dependency_names[name] = trackable
        return trackable

    def _handle_deferred_dependencies(self, name: str, trackable: Any) -> None:
        """Restores the new dependency `name` from checkpoints that were read before; the newest is used."""
        self._maybe_initialize_trackable()
        trackable._maybe_initialize_trackable()
        waiting = self._deferred_dependencies.pop(name, [])
        for position in sorted(waiting, key=lambda p: p.restore_uid, reverse=True):
            position.restore(trackable)
        for saver in set(self._self_name_based_restores):
            if saver not in trackable._self_name_based_restores:
                trackable._self_name_based_restores.add(saver)
                saver.eager_restore(trackable)

    def _preload_simple_restoration(self, name: str, shape: Any = None) -> Any:
        """The value that a checkpoint holds for the variable `name` to be made, as CheckpointInitialValue or None."""
        self._maybe_initialize_trackable()
        waiting = self._deferred_dependencies.get(name, None)
        if not waiting:
            return None
        position = max(waiting, key=lambda p: p.restore_uid)
        return position.initial_value(shape=shape)

    def _add_variable_with_custom_getter(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        getter: Any = None,
        overwrite: bool = False,
        **kwargs_for_getter: Any,
    ) -> Any:
        """Makes a variable with `getter` and declares it a dependency under `name`."""
        self._maybe_initialize_trackable()
        if not overwrite and self._lookup_dependency(name) is not None:
            raise ValueError(
                "A variable named '%s' already exists in this Trackable, but"
                " Trackable._add_variable called to create another with that name. Variable names must be"
                " unique within a Trackable object." % (name,)
            )
        variable = getter(name=name, shape=shape, dtype=dtype, initializer=initializer, **kwargs_for_getter)
        if not overwrite or isinstance(variable, Trackable):
            return self._track_trackable(variable, name=name, overwrite=overwrite)
        return variable

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        """The saved parts of the object: name of an attribute -> saveable, variable or factory(name)."""
        return {}

    def _list_functions_for_serialization(self, unused_functions: Any = None) -> dict[str, Any]:
        """The functions that a SavedModel of the object contains, by names of attributes."""
        return {}

    def _setup(self) -> None:
        """Hook that runs when the object is restored from a SavedModel."""


def __getattr__(name: str) -> Any:
    """Classes of saveables, which were defined in this module before."""
    if name in ("NoRestoreSaveable", "PythonStringStateSaveable"):
        from millrace.python.training.saving import saveable_object_util

        return getattr(saveable_object_util, name)
    if name == "PythonStateSaveable":
        from millrace.python.training.saving import saveable_object_util

        return saveable_object_util.PythonStringStateSaveable
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
