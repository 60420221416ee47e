# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Saving and restoring as functions of a path, without a Saver, for object-based checkpoints."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import io_ops
from millrace.python.training.saving import saveable_object_util


class _SingleDeviceSaver:
    """Saves and restores saveables that are on one device."""

    def __init__(self, saveable_objects: Any) -> None:
        self._saveable_objects = tuple(saveable_objects)

    def save(self, file_prefix: Any) -> Any:
        """An op that saves everything under `file_prefix`, a string tensor."""
        names, tensors, slices = [], [], []
        for saveable in self._saveable_objects:
            for spec in saveable.specs:
                tensor = spec.tensor
                if tensor is None:
                    continue
                names.append(spec.name)
                tensors.append(tensor)
                slices.append(spec.slice_spec)
        with ops.device("cpu:0"):
            return io_ops.save_v2(file_prefix, names, slices, tensors)

    def restore(self, file_prefix: Any) -> dict[str, Any]:
        """Ops that restore, by names of the saveables."""
        specs = [spec for saveable in self._saveable_objects for spec in saveable.specs]
        with ops.device("cpu:0"):
            tensors = io_ops.restore_v2(
                file_prefix, [s.name for s in specs], [s.slice_spec for s in specs], [s.dtype for s in specs]
            )
        restored, remaining = {}, list(tensors)
        for saveable in self._saveable_objects:
            mine = [remaining.pop(0) for _ in saveable.specs]
            restored[saveable.name] = saveable.restore(mine, restored_shapes=None)
        return restored


class MultiDeviceSaver(_SingleDeviceSaver):
    """Saves and restores saveables on any devices."""


def restore_op_device(device: Any) -> str:
    """The device on which files are read for a variable on `device`."""
    return saveable_object_util.set_cpu0(device)
