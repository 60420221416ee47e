# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""TensorSpec: the shape, type and name of a tensor."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import common_shapes, dtypes, tensor_shape, type_spec


class TensorSpec(type_spec.BatchableTypeSpec):
    """The description of a tensor."""

    __slots__ = ["_shape", "_shape_tuple", "_dtype", "_name"]

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, name: Any = None) -> None:
        self._shape = tensor_shape.TensorShape(shape)
        self._shape_tuple = self._shape._sizes
        self._dtype = dtypes.as_dtype(dtype)
        self._name = name

    @classmethod
    def from_spec(cls, spec: Any, name: Any = None) -> Any:
        return cls(spec.shape, spec.dtype, name or spec.name)

    @classmethod
    def from_tensor(cls, tensor: Any, name: Any = None) -> Any:
        return cls(tensor.shape, tensor.dtype, name or getattr(getattr(tensor, "op", None), "name", None))

    @property
    def shape(self) -> Any:
        return self._shape

    @property
    def dtype(self) -> Any:
        return self._dtype

    @property
    def name(self) -> Any:
        return self._name

    @property
    def value_type(self) -> Any:
        from millrace.python.framework import ops

        return ops.Tensor

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Whether a tensor may be described by this."""
        return bool(
            self._dtype.is_compatible_with(spec_or_tensor.dtype)
            and self._shape.is_compatible_with(spec_or_tensor.shape)
        )

    def most_specific_compatible_type(self, other: Any) -> Any:
        if not isinstance(other, TensorSpec) or self._dtype != other.dtype:
            raise ValueError("Types are not compatible: %r vs %r" % (self, other))
        name = self._name if self._name == other.name else None
        return TensorSpec(self._shape.most_specific_compatible_shape(other.shape), self._dtype, name)

    def __repr__(self) -> str:
        return "TensorSpec(shape=%s, dtype=%r, name=%r)" % (self._shape, self._dtype, self._name)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, TensorSpec) and (self._shape_tuple, self._dtype, self._name) == (
            other._shape_tuple,
            other._dtype,
            other._name,
        )

    def __hash__(self) -> int:
        return hash((self._shape_tuple, self._dtype))

    def _serialize(self) -> tuple[Any, ...]:
        return self._shape, self._dtype, self._name

    def _to_components(self, value: Any) -> Any:
        from millrace.python.framework import ops

        text = "Value %r is not convertible to a tensor with dtype %s and shape %s."
        try:
            value = ops.convert_to_tensor(value, self._dtype)
        except (TypeError, ValueError):
            raise ValueError(text % (value, self._dtype, self._shape)) from None
        if not value.shape.is_compatible_with(self._shape):
            raise ValueError(text % (value, self._dtype, self._shape))
        return value

    def _from_components(self, components: Any) -> Any:
        return components

    def _from_compatible_tensor_list(self, tensor_list: Any) -> Any:
        tensor_list[0].set_shape(self._shape)
        return tensor_list[0]

    def _to_tensor_list(self, value: Any) -> list[Any]:
        return [self._to_components(value)]

    @property
    def _component_specs(self) -> Any:
        return self

    @property
    def _flat_tensor_specs(self) -> list[Any]:
        return [self]

    def _batch(self, batch_size: Any) -> Any:
        return TensorSpec(tensor_shape.TensorShape([batch_size]).concatenate(self._shape), self._dtype)

    def _unbatch(self) -> Any:
        if self._shape.ndims == 0:
            raise ValueError("Unbatching a tensor is only supported for rank >= 1")
        return TensorSpec(self._shape[1:], self._dtype)

    def _to_legacy_output_types(self) -> Any:
        return self._dtype

    def _to_legacy_output_shapes(self) -> Any:
        return self._shape


class BoundedTensorSpec(TensorSpec):
    """A TensorSpec with limits of the values."""

    __slots__ = ["_minimum", "_maximum"]

    def __init__(self, shape: Any, dtype: Any, minimum: Any, maximum: Any, name: Any = None) -> None:
        if minimum is None or maximum is None:
            raise ValueError(
                "minimum and maximum must be provided; but saw '%s' and '%s'" % (minimum, maximum)
            )
        super().__init__(shape, dtype, name)
        self._minimum = self._limit("minimum", minimum)
        self._maximum = self._limit("maximum", maximum)

    def _limit(self, what: str, value: Any) -> Any:
        limit = np.array(value, dtype=self.dtype.as_numpy_dtype)
        try:
            common_shapes.broadcast_shape(tensor_shape.TensorShape(limit.shape), self.shape)
        except ValueError as error:
            raise ValueError("%s is not compatible with shape. Message: %r." % (what, error)) from None
        limit.setflags(write=False)
        return limit

    @classmethod
    def from_spec(cls, spec: Any, name: Any = None) -> Any:
        """Makes one of a TensorSpec; without limits they are those of the type."""
        minimum = getattr(spec, "minimum", spec.dtype.min)
        maximum = getattr(spec, "maximum", spec.dtype.max)
        return cls(spec.shape, spec.dtype, minimum, maximum, name or spec.name)

    @property
    def minimum(self) -> Any:
        return self._minimum

    @property
    def maximum(self) -> Any:
        return self._maximum

    def _serialize(self) -> tuple[Any, ...]:
        return self._shape, self._dtype, self._minimum, self._maximum, self._name

    def __repr__(self) -> str:
        return "BoundedTensorSpec(shape=%s, dtype=%r, name=%r, minimum=%r, maximum=%r)" % (
            self._shape, self._dtype, self._name, self._minimum, self._maximum,
        )  # fmt: skip

    def __eq__(self, other: Any) -> bool:
        return (
            isinstance(other, BoundedTensorSpec)
            and super().__eq__(other)
            and np.allclose(self._minimum, other._minimum)
            and np.allclose(self._maximum, other._maximum)
        )

    def __hash__(self) -> int:
        return super().__hash__()


TensorSpecV1 = TensorSpec
