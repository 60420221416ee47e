# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Element types of datasets: structures of TypeSpecs, and the tensors of the engine's datasets."""
from __future__ import annotations

from typing import Any

from millrace.python.data.util import nest
from millrace.python.framework import (
    composite_tensor,
    ops,
    sparse_tensor,
    tensor_spec,
    type_spec,
)


class NoneTensor(composite_tensor.CompositeTensor):
    """Represents a None in an element."""

    @property
    def _type_spec(self) -> Any:
        return NoneTensorSpec()


class NoneTensorSpec(type_spec.BatchableTypeSpec):
    """The TypeSpec of None."""

    __slots__: list[str] = []

    @property
    def value_type(self) -> Any:
        return NoneTensor

    def _serialize(self) -> tuple[Any, ...]:
        return ()

    @property
    def _component_specs(self) -> Any:
        return []

    def _to_components(self, value: Any) -> Any:
        return []

    def _from_components(self, components: Any) -> Any:
        return None

    def _to_tensor_list(self, value: Any) -> list[Any]:
        return []

    def _from_compatible_tensor_list(self, tensor_list: Any) -> Any:
        return None

    @property
    def _flat_tensor_specs(self) -> list[Any]:
        return []

    def _batch(self, batch_size: Any) -> Any:
        return self

    def _unbatch(self) -> Any:
        return self

    def _to_legacy_output_types(self) -> Any:
        return self

    def _to_legacy_output_shapes(self) -> Any:
        return self

    def _to_legacy_output_classes(self) -> Any:
        return self


def normalize_element(element: Any) -> Any:
    """The structure with a tensor, SparseTensor, dataset or other composite value for each part."""
    normalized = []
    with ops.name_scope("normalize_element"):
        for i, part in enumerate(nest.flatten(element)):
            try:
                spec = type_spec_from_value(part, use_fallback=False)
            except TypeError:
                normalized.append(ops.convert_to_tensor(part, name="component_%d" % i))
                continue
            if isinstance(spec, sparse_tensor.SparseTensorSpec):
                normalized.append(sparse_tensor.SparseTensor.from_value(part))
            elif isinstance(spec, tensor_spec.TensorSpec) and not isinstance(part, ops.Tensor):
                normalized.append(ops.convert_to_tensor(part, name="component_%d" % i))
            else:
                normalized.append(part)
    return nest.pack_sequence_as(element, normalized)


def convert_legacy_structure(output_types: Any, output_shapes: Any, output_classes: Any) -> Any:
    """The structure of TypeSpecs for structures of types, shapes and classes.

    Raises:
      TypeError: a class is not known.
    """
    types, shapes, classes = (
        nest.flatten(output_types),
        nest.flatten(output_shapes),
        nest.flatten(output_classes),
    )
    specs = []
    for ty, shape, cls in zip(types, shapes, classes):
        if isinstance(cls, type_spec.TypeSpec):
            specs.append(cls)
        elif cls is sparse_tensor.SparseTensor or (
            isinstance(cls, type) and issubclass(cls, sparse_tensor.SparseTensor)
        ):
            specs.append(sparse_tensor.SparseTensorSpec(shape, ty))
        elif isinstance(cls, type) and issubclass(cls, ops.Tensor):
            specs.append(tensor_spec.TensorSpec(shape, ty))
        else:
            raise TypeError(
                "Could not build a structure for output class %r. Make sure any component class in `output_classes` "
                "inherits from one of the following classes: `tf.TypeSpec`, `tf.SparseTensor`, `tf.Tensor`, "
                "`tf.TensorArray`." % (cls,)
            )
    return nest.pack_sequence_as(output_classes, specs)


def _from_tensor_list(convert: Any, element_spec: Any, tensor_list: Any) -> Any:
    specs = nest.flatten(element_spec)
    flat, i = [], 0
    for spec in specs:
        count = len(spec._flat_tensor_specs)
        flat.append(convert(spec, list(tensor_list[i : i + count])))
        i += count
    return nest.pack_sequence_as(element_spec, flat)


def from_compatible_tensor_list(element_spec: Any, tensor_list: Any) -> Any:
    """An element, from the tensors that represent it in a dataset."""
    return _from_tensor_list(
        lambda spec, value: spec._from_compatible_tensor_list(value), element_spec, tensor_list
    )


def from_tensor_list(element_spec: Any, tensor_list: Any) -> Any:
    """As `from_compatible_tensor_list`, with checks.

    Raises:
      ValueError: the tensors do not match the specs.
    """
    expected = len(get_flat_tensor_specs(element_spec))
    if expected != len(tensor_list):
        raise ValueError("Expected %d tensors but got %d." % (expected, len(tensor_list)))

    def convert(spec: Any, value: Any) -> Any:
        for inner, tensor in zip(spec._flat_tensor_specs, value):
            if not inner.is_compatible_with(tensor):
                raise ValueError("Tensor %r is not compatible with %r" % (tensor, inner))
        return spec._from_tensor_list(value)

    return _from_tensor_list(convert, element_spec, tensor_list)


def get_flat_tensor_specs(element_spec: Any) -> list[Any]:
    """TensorSpecs of the tensors that represent an element in a dataset."""
    return [inner for spec in nest.flatten(element_spec) for inner in spec._flat_tensor_specs]


def get_flat_tensor_shapes(element_spec: Any) -> list[Any]:
    return [spec.shape for spec in get_flat_tensor_specs(element_spec)]


def get_flat_tensor_types(element_spec: Any) -> list[Any]:
    return [spec.dtype for spec in get_flat_tensor_specs(element_spec)]


def _to_tensor_list(encode: Any, element_spec: Any, element: Any) -> list[Any]:
    nest.assert_same_structure(element, element_spec, check_types=False)
    return [
        tensor
        for value, spec in zip(nest.flatten(element), nest.flatten(element_spec))
        for tensor in encode(spec, value)
    ]


def to_tensor_list(element_spec: Any, element: Any) -> list[Any]:
    """The tensors that represent an element in a dataset."""
    return _to_tensor_list(lambda spec, value: spec._to_tensor_list(value), element_spec, element)


def to_batched_tensor_list(element_spec: Any, element: Any) -> list[Any]:
    """The tensors that represent a batch of elements in a dataset of its rows."""

    def encode(spec: Any, value: Any) -> Any:
        if hasattr(spec, "_to_batched_tensor_list"):
            return spec._to_batched_tensor_list(value)
        return spec._to_tensor_list(value)

    return _to_tensor_list(encode, element_spec, element)


def are_compatible(spec1: Any, spec2: Any) -> bool:
    """Whether the structures are compatible with each other."""
    try:
        nest.assert_same_structure(spec1, spec2)
    except (TypeError, ValueError):
        return False
    return all(s1.is_compatible_with(s2) for s1, s2 in zip(nest.flatten(spec1), nest.flatten(spec2)))


def type_spec_from_value(element: Any, use_fallback: bool = True) -> Any:
    """The structure of TypeSpecs of an element.

    Raises:
      TypeError: a part has a type that datasets do not support.
    """
    if element is None:
        return NoneTensorSpec()
    if isinstance(element, type_spec.TypeSpec):
        return element
    spec = getattr(element, "_type_spec", None)
    if isinstance(spec, type_spec.TypeSpec):
        return spec
    if isinstance(element, sparse_tensor.SparseTensorValue):
        return sparse_tensor.SparseTensorSpec.from_value(sparse_tensor.SparseTensor.from_value(element))
    if isinstance(element, ops.Tensor):
        return tensor_spec.TensorSpec(element.shape, element.dtype)
    if nest.is_sequence(element):
        return nest.pack_sequence_as(
            element, [type_spec_from_value(part, use_fallback) for part in nest.flatten(element)]
        )
    if hasattr(element, "handle") and hasattr(element, "dtype") and hasattr(element, "shape"):
        return tensor_spec.TensorSpec(element.shape, element.dtype)
    if use_fallback:
        try:
            tensor = ops.convert_to_tensor(element)
            return tensor_spec.TensorSpec(tensor.shape, tensor.dtype)
        except (ValueError, TypeError):
            pass
    raise TypeError("Could not build a TypeSpec for %r with type %s" % (element, type(element).__name__))
