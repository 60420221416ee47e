# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Values that are made of several tensors."""
from __future__ import annotations

from typing import Any


class CompositeTensor:
    """Base class of values that are made of several tensors, such as SparseTensor."""

    @property
    def _type_spec(self) -> Any:
        """The TypeSpec of the value."""
        raise NotImplementedError("%s._type_spec()" % type(self).__name__)

    def _to_components(self) -> Any:
        return self._type_spec._to_components(self)

    def _component_metadata(self) -> Any:
        return self._type_spec

    @staticmethod
    def _from_components(components: Any, metadata: Any) -> Any:
        return metadata._from_components(components)

    def _shape_invariant_to_components(self, shape: Any = None) -> Any:
        raise NotImplementedError("%s._shape_invariant_to_components()" % type(self).__name__)

    def _consumers(self) -> list[Any]:
        from millrace.python.util import nest

        found: list[Any] = []
        for component in nest.flatten(self, expand_composites=True):
            found.extend(op for op in component.consumers() if op not in found)
        return found


def is_composite_or_composite_value(tensor: Any) -> bool:
    """Whether a value is a CompositeTensor, or what running one returns."""
    return isinstance(tensor, CompositeTensor) or type(tensor).__name__ in (
        "SparseTensorValue",
        "IndexedSlicesValue",
    )


def replace_composites_with_components(structure: Any) -> Any:
    """The structure with a list of its tensors instead of each CompositeTensor."""
    from millrace.python.util import nest

    if isinstance(structure, CompositeTensor):
        return replace_composites_with_components(nest.flatten(structure, expand_composites=True))
    if not nest.is_sequence(structure):
        return structure
    return nest.map_structure(replace_composites_with_components, structure, expand_composites=False)
