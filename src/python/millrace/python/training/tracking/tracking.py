# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""AutoTrackable: attributes that are Trackable become dependencies when they are set."""

from __future__ import annotations

from typing import Any

from millrace.python.training.tracking import base


class NotTrackable:
    """Marks classes whose instances are never dependencies, even if a base is Trackable."""


class AutoTrackable(base.Trackable):
    """Trackable whose attributes are its dependencies: setting one adds, deleting one removes."""

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "_setattr_tracking", True):
            from millrace.python.training.tracking import data_structures

            value = data_structures.sticky_attribute_assignment(trackable=self, value=value, name=name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._maybe_initialize_trackable()
        if name in self._unconditional_dependency_names:
            del self._unconditional_dependency_names[name]
            self._unconditional_checkpoint_dependencies[:] = [
                reference
                for reference in self._unconditional_checkpoint_dependencies
                if reference.name != name
            ]
        super().__delattr__(name)

    def _list_functions_for_serialization(self, unused_functions: Any = None) -> dict[str, Any]:
        from millrace.python.eager import function

        found = {}
        for name in dir(self):
            if name.startswith("_function_of_"):
                continue  # a method that was made a function
            try:
                value = getattr(self, name, None)
            except Exception:  # a property that raises an exception
                continue
            if isinstance(value, (function.Function, function.ConcreteFunction)):
                found[name] = value
        return found


# Name of the class in earlier versions.
Trackable = AutoTrackable


class TrackableResource(base.Trackable):
    """Base of objects that own a resource handle."""

    def __init__(self, device: str = "") -> None:
        self._resource_handle: Any = None
        self._resource_device = device

    def _create_resource(self) -> Any:
        raise NotImplementedError("TrackableResource._create_resource not implemented.")

    def _initialize(self) -> Any:
        return None

    @property
    def resource_handle(self) -> Any:
        if self._resource_handle is None:
            from millrace.python.framework import ops

            with ops.device(self._resource_device):
                self._resource_handle = self._create_resource()
        return self._resource_handle

    def _list_functions_for_serialization(self, unused_functions: Any = None) -> dict[str, Any]:
        from millrace.python.eager import def_function

        def create() -> Any:
            return self._create_resource()

        def initialize() -> int:
            self._initialize()
            return 1  # results are tensors

        return {
            "_create_resource": def_function.Function(create, "create_resource", ()),
            "_initialize": def_function.Function(initialize, "initialize", ()),
        }


class TrackableAsset(base.Trackable):
    """A file that belongs to a model; `asset_path` is a string tensor with its path."""

    def __init__(self, path: Any) -> None:
        from millrace.python.framework import dtypes
        from millrace.python.framework import ops

        self._path = ops.convert_to_tensor(path, dtype=dtypes.string, name="asset_path")
        if not ops.executing_eagerly():
            ops.add_to_collection(ops.GraphKeys.ASSET_FILEPATHS, self._path)

    @property
    def asset_path(self) -> Any:
        return self._path
