# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Objects that a Saver saves: named tensors, and ops that restore their values."""

from __future__ import annotations

from typing import Any


class SaveSpec:
    """One tensor of a checkpoint: its name there, its part of a whole ("" for all), its type and device."""

    def __init__(
        self, tensor: Any, slice_spec: str, name: str, dtype: Any = None, device: Any = None
    ) -> None:
        """Args: tensor: Tensor, or a function that makes it (then `dtype` and `device` are needed)."""
        self._tensor = tensor
        self.slice_spec = slice_spec
        self.name = name
        if callable(self._tensor):
            if dtype is None or device is None:
                raise AssertionError(
                    "When passing a callable `tensor` to a SaveSpec, an explicit dtype and device must be provided."
                )
            self.dtype = dtype
            self.device = device
        else:
            self.dtype = tensor.dtype
            self.device = tensor.device if device is None else device

    @property
    def tensor(self) -> Any:
        return self._tensor() if callable(self._tensor) else self._tensor


class SaveableObject:
    """Base of things that a Saver can save: `specs` says what, `restore` makes the op that sets it again."""

    def __init__(self, op: Any, specs: Any, name: str) -> None:
        """Args: op: saved op, for messages and placement; specs: list of SaveSpec; name: in the checkpoint."""
        self.op = op
        self.specs = specs
        self.name = name

    @property
    def optional_restore(self) -> bool:
        """Whether a checkpoint without the object is no error."""
        return False

    @property
    def device(self) -> Any:
        """Device on which it is saved."""
        return self.specs[0].device

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        """An op that sets the object's state.

        Args:
          restored_tensors: a tensor for each of `specs`.
          restored_shapes: their shapes if the Saver was made with `reshape`, else None.
        """
        raise ValueError("Calling an abstract method.")
