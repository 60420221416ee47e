# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""IndexedSlices: some rows of a tensor, such as gradients of look-ups."""
from __future__ import annotations

import collections
import warnings
from typing import Any

from millrace.python.framework import composite_tensor, dtypes, tensor_shape, type_spec
from millrace.python.framework._tensor import _TensorLike

IndexedSlicesValue = collections.namedtuple("IndexedSlicesValue", ["values", "indices", "dense_shape"])


class IndexedSlices(_TensorLike, composite_tensor.CompositeTensor):
    """Rows `values` of a larger tensor at the positions `indices`; `dense_shape`: its shape, if known."""

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        self._values = values
        self._indices = indices
        self._dense_shape = dense_shape

    @property
    def values(self) -> Any:
        return self._values

    @property
    def indices(self) -> Any:
        return self._indices

    @property
    def dense_shape(self) -> Any:
        return self._dense_shape

    @property
    def shape(self) -> Any:
        """The shape of the larger tensor, as far as it is known."""
        if self._dense_shape is None:
            return tensor_shape.TensorShape(None)
        from millrace.python.framework import tensor_util

        return tensor_util.constant_value_as_shape(self._dense_shape)

    @property
    def name(self) -> str:
        return self.values.name

    @property
    def device(self) -> str:
        return self.values.device

    @property
    def op(self) -> Any:
        return self.values.op

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def graph(self) -> Any:
        return self._values.graph

    def __str__(self) -> str:
        shape = (", dense_shape=%s" % self._dense_shape) if self._dense_shape is not None else ""
        return "IndexedSlices(indices=%s, values=%s%s)" % (self._indices, self._values, shape)

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    @property
    def _type_spec(self) -> Any:
        shape_dtype = None if self._dense_shape is None else self._dense_shape.dtype
        return IndexedSlicesSpec(None, self.dtype, self._indices.dtype, shape_dtype, self._indices.shape)

    def _shape_invariant_to_type_spec(self, shape: Any) -> Any:
        return IndexedSlicesSpec(shape, self.dtype, self._indices.dtype)

    def consumers(self) -> list[Any]:
        return self._consumers()


class IndexedSlicesSpec(type_spec.TypeSpec):
    """The TypeSpec of IndexedSlices."""

    __slots__ = ["_shape", "_values_dtype", "_indices_dtype", "_dense_shape_dtype", "_indices_shape"]

    value_type = property(lambda self: IndexedSlices)

    def __init__(
        self, shape: Any = None, dtype: Any = dtypes.float32, indices_dtype: Any = dtypes.int64,
        dense_shape_dtype: Any = None, indices_shape: Any = None,
    ) -> None:  # fmt: skip
        self._shape = tensor_shape.as_shape(shape)
        self._values_dtype = dtypes.as_dtype(dtype)
        self._indices_dtype = dtypes.as_dtype(indices_dtype)
        self._dense_shape_dtype = None if dense_shape_dtype is None else dtypes.as_dtype(dense_shape_dtype)
        self._indices_shape = tensor_shape.as_shape(indices_shape).with_rank(1)

    def _serialize(self) -> tuple[Any, ...]:
        return (
            self._shape,
            self._values_dtype,
            self._indices_dtype,
            self._dense_shape_dtype,
            self._indices_shape,
        )

    @property
    def _component_specs(self) -> Any:
        from millrace.python.framework import tensor_spec

        spec = tensor_spec.TensorSpec
        specs = [
            spec(self._indices_shape.concatenate(self._shape[1:]), self._values_dtype),
            spec(self._indices_shape, self._indices_dtype),
        ]
        if self._dense_shape_dtype:
            specs.append(spec([self._shape.ndims], self._dense_shape_dtype))
        return tuple(specs)

    def _to_components(self, value: Any) -> Any:
        if value.dense_shape is None:
            return value.values, value.indices
        return value.values, value.indices, value.dense_shape

    def _from_components(self, components: Any) -> Any:
        return IndexedSlices(*components)


def _indexed_slices_to_tensor(value: Any, dtype: Any = None, name: Any = None, as_ref: bool = False) -> Any:
    from millrace.python.framework import tensor_util
    from millrace.python.ops import math_ops

    if dtype and not dtype.is_compatible_with(value.dtype):
        raise ValueError(
            "Tensor conversion requested dtype %s for IndexedSlices with dtype %s"
            % (dtype.name, value.dtype.name)
        )
    if value.dense_shape is None:
        raise ValueError("Tensor conversion requested for IndexedSlices without dense_shape: %s" % str(value))
    shape = tensor_util.constant_value(value.dense_shape)
    count = None if shape is None else int(shape.prod())
    if count is None:
        warnings.warn(
            "Converting sparse IndexedSlices to a dense Tensor of unknown shape. This may consume a large amount of memory."
        )
    elif count >= 100000000:
        warnings.warn(
            "Converting sparse IndexedSlices to a dense Tensor with %d elements. This may consume a large amount of memory."
            % count
        )
    return math_ops.unsorted_segment_sum(value.values, value.indices, value.dense_shape[0], name=name)  # type: ignore[misc]


def _register() -> None:
    from millrace.python.framework import _conversion

    _conversion.register_tensor_conversion_function(IndexedSlices, _indexed_slices_to_tensor)


_register()


def __getattr__(name: str) -> Any:
    """Conversion functions, which are defined in `ops`."""
    if name.endswith(("convert_to_tensor_or_indexed_slices", "convert_n_to_tensor_or_indexed_slices")):
        from millrace.python.framework import ops

        return getattr(ops, name)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
