# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The types and shapes of the elements of datasets and iterators."""
from __future__ import annotations

from typing import Any

from millrace.python.data.util import nest
from millrace.python.framework import dtypes, ops, tensor_shape, tensor_spec, type_spec


def get_structure(dataset_or_iterator: Any) -> Any:
    """The structure of TypeSpecs of the elements.

    Raises:
      TypeError: the argument is no dataset or iterator.
    """
    try:
        return dataset_or_iterator.element_spec
    except AttributeError:
        raise TypeError(
            "`dataset_or_iterator` must be a Dataset or Iterator object, but got %s."
            % type(dataset_or_iterator)
        ) from None


def get_legacy_output_classes(dataset_or_iterator: Any) -> Any:
    """The class of each component."""
    return nest.map_structure(
        lambda spec: spec._to_legacy_output_classes(), get_structure(dataset_or_iterator)
    )


def get_legacy_output_shapes(dataset_or_iterator: Any) -> Any:
    """The shape of each component."""
    return nest.map_structure(
        lambda spec: spec._to_legacy_output_shapes(), get_structure(dataset_or_iterator)
    )


def get_legacy_output_types(dataset_or_iterator: Any) -> Any:
    """The type of each component."""
    return nest.map_structure(lambda spec: spec._to_legacy_output_types(), get_structure(dataset_or_iterator))


class DatasetSpec(type_spec.BatchableTypeSpec):
    """The TypeSpec of datasets."""

    __slots__ = ["_element_spec", "_dataset_shape"]

    def __init__(self, element_spec: Any, dataset_shape: Any = ()) -> None:
        self._element_spec = element_spec
        self._dataset_shape = tensor_shape.as_shape(dataset_shape)

    @property
    def value_type(self) -> Any:
        from millrace.python.data.ops import dataset_ops

        return dataset_ops.Dataset

    def _serialize(self) -> tuple[Any, ...]:
        return self._element_spec, self._dataset_shape

    @property
    def _component_specs(self) -> Any:
        return tensor_spec.TensorSpec(self._dataset_shape, dtypes.variant)

    def _to_components(self, value: Any) -> Any:
        return value._variant_tensor

    def _from_components(self, components: Any) -> Any:
        from millrace.python.data.ops import _datasets

        if self._dataset_shape.ndims == 0:
            return _datasets._VariantDataset(components, self._element_spec)
        return _datasets._NestedVariant(components, self._element_spec, self._dataset_shape)

    def _to_tensor_list(self, value: Any) -> list[Any]:
        return [ops.convert_to_tensor(value._variant_tensor)]

    def _from_compatible_tensor_list(self, tensor_list: Any) -> Any:
        return self._from_components(tensor_list[0])

    @property
    def _flat_tensor_specs(self) -> list[Any]:
        return [self._component_specs]

    @staticmethod
    def from_value(value: Any) -> Any:
        return DatasetSpec(value.element_spec)

    def _batch(self, batch_size: Any) -> Any:
        return DatasetSpec(
            self._element_spec, tensor_shape.TensorShape([batch_size]).concatenate(self._dataset_shape)
        )

    def _unbatch(self) -> Any:
        if self._dataset_shape.ndims == 0:
            raise ValueError("Unbatching a dataset is only supported for rank >= 1")
        return DatasetSpec(self._element_spec, self._dataset_shape[1:])

    def _to_legacy_output_types(self) -> Any:
        return self

    def _to_legacy_output_shapes(self) -> Any:
        return self

    def _to_legacy_output_classes(self) -> Any:
        return self
