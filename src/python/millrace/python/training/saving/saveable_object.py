# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Objects that a Saver saves: named tensors, and ops that restore their values."""

from __future__ import annotations

from typing import Any


class SaveSpec:
    """One tensor of a checkpoint: its name, slice of a partitioned variable ("": whole), type and device."""

    def __init__(
        self, tensor: Any, slice_spec: str, name: str, dtype: Any = None, device: Any = None
    ) -> None:
        """Keeps the arguments.

        Args:
          tensor: Tensor, or a function that makes it (then `dtype` and `device` are needed).
        """
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
    """Base of objects that a Saver can save: `specs` has the tensors, `restore` makes the restoring op."""

    def __init__(self, op: Any, specs: Any, name: str) -> None:
        """Keeps the arguments.

        Args:
          op: the saved op, for messages and placement.
          specs: list of SaveSpec.
          name: name in the checkpoint.
        """
        self.op = op
        self.specs = specs
        self.name = name

    @property
    def optional_restore(self) -> bool:
        """Whether a checkpoint without the object is not an error."""
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
