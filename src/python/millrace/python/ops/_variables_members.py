# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The members that each kind of variable implements."""
from __future__ import annotations

from typing import Any


class VariableMembers:
    """Members that subclasses define; those here raise NotImplementedError."""

    @property
    def device(self) -> Any:
        """The device of the variable."""
        raise NotImplementedError

    @property
    def graph(self) -> Any:
        """The graph of the variable."""
        raise NotImplementedError

    @property
    def op(self) -> Any:
        """The operation of the variable."""
        raise NotImplementedError

    @property
    def shape(self) -> Any:
        """The shape, as a TensorShape."""
        raise NotImplementedError

    def value(self) -> Any:
        """Returns the last snapshot of the variable."""
        raise NotImplementedError

    def read_value(self) -> Any:
        """Returns the value, read when the result is needed."""
        raise NotImplementedError

    def assign(self, value: Any, use_locking: Any = False, name: Any = None, read_value: bool = True) -> Any:
        """Sets the variable."""
        raise NotImplementedError

    def assign_add(
        self, delta: Any, use_locking: Any = False, name: Any = None, read_value: bool = True
    ) -> Any:
        """Adds to the variable."""
        raise NotImplementedError

    def assign_sub(
        self, delta: Any, use_locking: Any = False, name: Any = None, read_value: bool = True
    ) -> Any:
        """Subtracts from the variable."""
        raise NotImplementedError

    def sparse_read(self, indices: Any, name: Any = None) -> Any:
        """Returns rows of the variable."""
        raise NotImplementedError

    def gather_nd(self, indices: Any, name: Any = None) -> Any:
        """Returns elements or slices of the variable."""
        raise NotImplementedError
