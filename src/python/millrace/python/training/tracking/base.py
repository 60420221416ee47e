# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Trackable: objects that name the objects they depend on, so that checkpoints can follow those edges."""

from __future__ import annotations

import collections
import functools
from typing import Any, Callable

# Where the description of the object graph is kept in a checkpoint.
OBJECT_GRAPH_PROTO_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Name of a variable's value among the attributes of its node.
VARIABLE_VALUE_KEY = "VARIABLE_VALUE"
OBJECT_CONFIG_JSON_KEY = "OBJECT_CONFIG_JSON"

TrackableReference = collections.namedtuple("TrackableReference", ["name", "ref"])


class CheckpointInitialValue:
    """Initial value of a variable that a checkpoint read earlier holds: callable, as initial values may be."""

    def __init__(self, value: Any, shape: Any = None) -> None:
        self._value = value
        self.wrapped_value = value
        self._shape = shape

    def __call__(self) -> Any:
        return self._value


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
        # Past __setattr__ of subclasses, which would make dependencies of these lists.
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
        """Restores what checkpoints read before hold for the new dependency `name`, the newest one winning."""
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
        return position.initial_value(shape)

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
        """What of the object itself is saved: name of an attribute -> saveable, variable or factory(name)."""
        return {}

    def _list_functions_for_serialization(self, unused_functions: Any = None) -> dict[str, Any]:
        return {}

    def _setup(self) -> None:
        """Hook that runs when the object is restored from a SavedModel."""
