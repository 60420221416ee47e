# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Objects that are notified when checkpoints are saved and restored."""
from __future__ import annotations

from typing import Any

from millrace.python.training.tracking import base


class SaveableHook(base.NoRestoreSaveable):
    """A saveable without a value: `before_save` and `after_restore` are called by object-based
    checkpoints."""

    def __init__(self, name: str) -> None:
        super().__init__(tensor=(lambda: ""), dtype="string", name=name)

    def before_save(self) -> None:
        """Called before the values are saved."""

    def after_restore(self) -> None:
        """Called after the values were restored."""

    @property
    def device(self) -> Any:
        """The device: CPU."""
        return "cpu:0"
