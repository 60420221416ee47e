# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Optional values."""
from __future__ import annotations

import abc
from typing import Any

from millrace.python.data.util import structure
from millrace.python.framework import composite_tensor, dtypes, ops, tensor_spec, type_spec
from millrace.python.ops import gen_dataset_ops


class Optional(composite_tensor.CompositeTensor, metaclass=abc.ABCMeta):
    """A value, which is a structure of tensors, or no value."""

    @abc.abstractmethod
    def has_value(self, name: Any = None) -> Any:
        """A scalar bool: whether there is a value."""
        raise NotImplementedError("Optional.has_value()")

    @abc.abstractmethod
    def get_value(self, name: Any = None) -> Any:
        """The value.

        Raises (when it is run):
          InvalidArgumentError: there is none.
        """
        raise NotImplementedError("Optional.get_value()")

    @property
    @abc.abstractmethod
    def value_structure(self) -> Any:
        """The structure of TypeSpecs of the value."""
        raise NotImplementedError("Optional.value_structure")

    @staticmethod
    def from_value(value: Any) -> Any:
        """An Optional with a value."""
        with ops.name_scope("optional") as scope, ops.name_scope("value"):
            spec = structure.type_spec_from_value(value)
            tensors = structure.to_tensor_list(spec, structure.normalize_element(value))
        return _OptionalImpl(gen_dataset_ops.optional_from_value(tensors, name=scope), spec)

    @staticmethod
    def none_from_structure(value_structure: Any) -> Any:
        """An Optional without a value."""
        return _OptionalImpl(gen_dataset_ops.optional_none(), value_structure)


class _OptionalImpl(Optional):
    """An Optional that a variant represents."""

    def __init__(self, variant_tensor: Any, value_structure: Any) -> None:
        self._variant_tensor = variant_tensor
        self._value_structure = value_structure

    def has_value(self, name: Any = None) -> Any:
        return gen_dataset_ops.optional_has_value(self._variant_tensor, name=name)

    def get_value(self, name: Any = None) -> Any:
        with ops.name_scope(name, "OptionalGetValue", [self._variant_tensor]) as scope:
            flat = gen_dataset_ops.optional_get_value(
                self._variant_tensor, name=scope, output_types=structure.get_flat_tensor_types(self._value_structure),
                output_shapes=structure.get_flat_tensor_shapes(self._value_structure),
            )  # fmt: skip
            return structure.from_tensor_list(
                self._value_structure, list(flat) if isinstance(flat, (list, tuple)) else [flat]
            )

    @property
    def value_structure(self) -> Any:
        return self._value_structure

    @property
    def _type_spec(self) -> Any:
        return OptionalSpec(self._value_structure)


class OptionalSpec(type_spec.TypeSpec):
    """The TypeSpec of Optionals."""

    __slots__ = ["_value_structure"]

    def __init__(self, value_structure: Any) -> None:
        self._value_structure = value_structure

    @property
    def value_type(self) -> Any:
        return _OptionalImpl

    def _serialize(self) -> tuple[Any, ...]:
        return (self._value_structure,)

    @property
    def _component_specs(self) -> Any:
        return [tensor_spec.TensorSpec((), dtypes.variant)]

    def _to_components(self, value: Any) -> Any:
        return [value._variant_tensor]

    def _from_components(self, flat_value: Any) -> Any:
        return _OptionalImpl(flat_value[0], self._value_structure)

    @staticmethod
    def from_value(value: Any) -> Any:
        return OptionalSpec(value.value_structure)

    def _to_legacy_output_types(self) -> Any:
        return self

    def _to_legacy_output_shapes(self) -> Any:
        return self

    def _to_legacy_output_classes(self) -> Any:
        return self


OptionalStructure = OptionalSpec
