# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""TypeSpec: the static description of a value."""
from __future__ import annotations

import abc
from typing import Any

import numpy as np

from millrace.python.framework import dtypes, tensor_shape


class TypeSpec(abc.ABC):
    """Describes a value: its class, element types and shapes."""

    __slots__: list[str] = []

    @property
    @abc.abstractmethod
    def value_type(self) -> Any:
        """The class of the values."""

    @abc.abstractmethod
    def _to_components(self, value: Any) -> Any:
        """The tensors that a value is made of."""

    @abc.abstractmethod
    def _from_components(self, components: Any) -> Any:
        """A value made of tensors."""

    @property
    @abc.abstractmethod
    def _component_specs(self) -> Any:
        """TypeSpecs of the tensors."""

    @abc.abstractmethod
    def _serialize(self) -> tuple[Any, ...]:
        """A tuple that identifies the TypeSpec."""

    @classmethod
    def _deserialize(cls, serialization: Any) -> Any:
        return cls(*serialization)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a value, or all values of a TypeSpec, are of this type."""
        if not isinstance(spec_or_value, TypeSpec):
            spec_or_value = type_spec_from_value(spec_or_value)
        return type(self) is type(spec_or_value) and self._is_compatible(
            self._serialize(), spec_or_value._serialize()
        )

    def most_specific_compatible_type(self, other: Any) -> Any:
        """The TypeSpec that describes the values of both; ValueError if there is none."""
        if type(self) is not type(other):
            raise ValueError("No TypeSpec is compatible with both %s and %s" % (self, other))
        return self._deserialize(self._most_specific(self._serialize(), other._serialize()))

    @classmethod
    def _is_compatible(cls, a: Any, b: Any) -> bool:
        if isinstance(a, (list, tuple)):
            return (
                type(a) is type(b)
                and len(a) == len(b)
                and all(cls._is_compatible(x, y) for x, y in zip(a, b))
            )
        if isinstance(a, dict):
            return (
                isinstance(b, dict)
                and sorted(a) == sorted(b)
                and all(cls._is_compatible(a[k], b[k]) for k in a)
            )
        if isinstance(a, (TypeSpec, tensor_shape.TensorShape, dtypes.DType)):
            return isinstance(b, type(a)) and bool(a.is_compatible_with(b))
        return bool(a == b)

    @classmethod
    def _most_specific(cls, a: Any, b: Any) -> Any:
        if isinstance(a, (list, tuple)) and type(a) is type(b) and len(a) == len(b):
            return type(a)(cls._most_specific(x, y) for x, y in zip(a, b))
        if isinstance(a, tensor_shape.TensorShape) and isinstance(b, tensor_shape.TensorShape):
            return a.most_specific_compatible_shape(b)
        if isinstance(a, TypeSpec):
            return a.most_specific_compatible_type(b)
        if type(a) is not type(b) or a != b:
            raise ValueError("Types are not compatible: %r vs %r" % (a, b))
        return a

    @staticmethod
    def _comparable(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple(TypeSpec._comparable(v) for v in value)
        if isinstance(value, dict):
            return tuple(sorted((k, TypeSpec._comparable(v)) for k, v in value.items()))
        if isinstance(value, tensor_shape.TensorShape):
            return ("TensorShape", value._sizes)
        return value

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and self._comparable(self._serialize()) == self._comparable(
            other._serialize()
        )

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._comparable(self._serialize())))

    def __reduce__(self) -> Any:
        return type(self), self._serialize()

    def __repr__(self) -> str:
        return "%s%r" % (type(self).__name__, self._serialize())

    # Conversion to and from tensor lists, which hold components of any kind.

    def _to_tensor_list(self, value: Any) -> list[Any]:
        from millrace.python.util import nest

        return nest.flatten(self._to_components(value), expand_composites=True)

    def _from_tensor_list(self, tensor_list: Any) -> Any:
        return self._from_compatible_tensor_list(tensor_list)

    def _from_compatible_tensor_list(self, tensor_list: Any) -> Any:
        from millrace.python.util import nest

        return self._from_components(
            nest.pack_sequence_as(self._component_specs, tensor_list, expand_composites=True)
        )

    @property
    def _flat_tensor_specs(self) -> list[Any]:
        from millrace.python.util import nest

        return nest.flatten(self._component_specs, expand_composites=True)

    @property
    def _flat_tensor_shapes(self) -> list[Any]:
        return [spec.shape for spec in self._flat_tensor_specs]

    @property
    def _flat_tensor_types(self) -> list[Any]:
        return [spec.dtype for spec in self._flat_tensor_specs]

    def _to_legacy_output_types(self) -> Any:
        raise NotImplementedError("%s._to_legacy_output_types()" % type(self).__name__)

    def _to_legacy_output_shapes(self) -> Any:
        raise NotImplementedError("%s._to_legacy_output_shapes()" % type(self).__name__)

    def _to_legacy_output_classes(self) -> Any:
        return self.value_type


class BatchableTypeSpec(TypeSpec):
    """A TypeSpec whose values can be batched."""

    __slots__: list[str] = []

    @abc.abstractmethod
    def _batch(self, batch_size: Any) -> Any:
        """The TypeSpec of batches."""

    @abc.abstractmethod
    def _unbatch(self) -> Any:
        """The TypeSpec of the values of a batch."""

    def _to_batched_tensor_list(self, value: Any) -> list[Any]:
        return self._to_tensor_list(value)


_TYPE_CONVERSION_FUNCTION_REGISTRY: list[tuple[Any, Any]] = []


def register_type_spec_from_value_converter(
    type_object: Any, converter_fn: Any, allow_subclass: bool = False
) -> None:
    """Registers `converter_fn(value)`, which returns the TypeSpec of values of a class."""
    _TYPE_CONVERSION_FUNCTION_REGISTRY.append((type_object, converter_fn))


def type_spec_from_value(value: Any) -> Any:
    """The TypeSpec of a value; TypeError if there is none."""
    from millrace.python.framework import ops, tensor_spec

    if isinstance(value, ops.Tensor):
        return tensor_spec.TensorSpec(value.shape, value.dtype)
    spec = getattr(value, "_type_spec", None)
    if spec is not None:
        return spec
    for kind, convert in reversed(_TYPE_CONVERSION_FUNCTION_REGISTRY):
        if isinstance(value, kind):
            return convert(value)
    try:
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype != object:
            return tensor_spec.TensorSpec(value.shape, dtypes.as_dtype(value.dtype))
        tensor = ops.convert_to_tensor(value)
        return tensor_spec.TensorSpec(tensor.shape, tensor.dtype)
    except (TypeError, ValueError):
        raise TypeError(
            "Could not build a TypeSpec for %r with type %s" % (value, type(value).__name__)
        ) from None
