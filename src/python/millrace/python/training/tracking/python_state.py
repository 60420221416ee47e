# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Python objects that are kept in checkpoints as strings."""

from __future__ import annotations

import abc
from typing import Any

from millrace.python.training.tracking import base


class PythonState(base.Trackable, metaclass=abc.ABCMeta):
    """State of a Python object: `serialize` returns it as a string at each save, `deserialize` sets it."""

    @abc.abstractmethod
    def serialize(self) -> Any:
        """The state as bytes or str."""

    @abc.abstractmethod
    def deserialize(self, string_value: Any) -> None:
        """Sets the state from what `serialize` returned."""

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        from millrace.python.training.saving import saveable_object_util

        def factory(name: str) -> Any:
            return saveable_object_util.PythonStringStateSaveable(
                name=name, state_callback=self.serialize, restore_callback=self.deserialize
            )

        return {"py_state": factory}
