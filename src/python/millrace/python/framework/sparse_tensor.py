# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""SparseTensor: the indices and values of the explicit elements of a tensor."""
from __future__ import annotations

import collections
from typing import Any

import numpy as np

from millrace.python.framework import (
    composite_tensor,
    dtypes,
    ops,
    tensor_shape,
    tensor_spec,
    tensor_util,
    type_spec,
)
from millrace.python.framework._tensor import _override_helper, _TensorLike

SparseTensorValue = collections.namedtuple("SparseTensorValue", ["indices", "values", "dense_shape"])


class SparseTensor(_TensorLike, composite_tensor.CompositeTensor):
    """A tensor most of whose elements are implicit: `values[i]` is the element at `indices[i]`.

    Args:
      indices: int64, [count, rank].
      values: [count].
      dense_shape: int64, [rank].
    """

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> Any:
        if not is_sparse(sparse_tensor_value):
            raise TypeError("Neither a SparseTensor nor SparseTensorValue: %s." % sparse_tensor_value)
        return SparseTensor(
            sparse_tensor_value.indices, sparse_tensor_value.values, sparse_tensor_value.dense_shape
        )

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        with ops.name_scope(None, "SparseTensor", [indices, values, dense_shape]):
            indices = ops.convert_to_tensor(indices, name="indices", dtype=dtypes.int64)
            values = ops.internal_convert_to_tensor(values, name="values", as_ref=True)
            dense_shape = ops.convert_to_tensor(dense_shape, name="dense_shape", dtype=dtypes.int64)
        self._indices = indices
        self._values = values
        self._dense_shape = dense_shape
        indices_shape = indices.shape.with_rank(2)
        values_shape = values.shape.with_rank(1)
        shape_shape = dense_shape.shape.with_rank(1)
        # Checks that the number of elements and the rank agree.
        indices_shape.dims[0].assert_is_compatible_with(values_shape.dims[0])
        indices_shape.dims[1].assert_is_compatible_with(shape_shape.dims[0])

    def get_shape(self) -> Any:
        """The shape, as far as the graph determines it."""
        return tensor_util.constant_value_as_shape(self._dense_shape)

    shape = property(get_shape)

    @property
    def indices(self) -> Any:
        return self._indices

    @property
    def values(self) -> Any:
        return self._values

    @property
    def op(self) -> Any:
        return self.values.op

    @property
    def dtype(self) -> Any:
        return self._values.dtype

    @property
    def dense_shape(self) -> Any:
        return self._dense_shape

    @property
    def graph(self) -> Any:
        return self._indices.graph

    def __str__(self) -> str:
        return "SparseTensor(indices=%s, values=%s, dense_shape=%s)" % (
            self._indices,
            self._values,
            self._dense_shape,
        )

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """The SparseTensorValue, computed by `session` or the default session."""
        fetches = [self.indices, self.values, self.dense_shape]
        return SparseTensorValue(*ops._eval_using_default_session(fetches, feed_dict, self.graph, session))

    @staticmethod
    def _override_operator(operator: str, func: Any) -> None:
        _override_helper(SparseTensor, operator, func)

    @property
    def _type_spec(self) -> Any:
        return SparseTensorSpec(self.shape, self.dtype)

    def _shape_invariant_to_type_spec(self, shape: Any) -> Any:
        shape = tensor_shape.unknown_shape() if shape is None else tensor_shape.as_shape(shape)
        return SparseTensorSpec(
            tensor_shape.unknown_shape(rank=shape[0].value if shape.ndims else None), self.dtype
        )

    def consumers(self) -> list[Any]:
        return self._consumers()

    def _numpy(self) -> Any:
        raise NotImplementedError("SparseTensor.numpy() needs eager execution")


class SparseTensorSpec(type_spec.BatchableTypeSpec):
    """The TypeSpec of SparseTensors."""

    __slots__ = ["_shape", "_dtype"]

    value_type = property(lambda self: SparseTensor)

    def __init__(self, shape: Any = None, dtype: Any = dtypes.float32) -> None:
        self._shape = tensor_shape.as_shape(shape)
        self._dtype = dtypes.as_dtype(dtype)

    def _serialize(self) -> tuple[Any, ...]:
        return self._shape, self._dtype

    @property
    def dtype(self) -> Any:
        return self._dtype

    @property
    def shape(self) -> Any:
        return self._shape

    @property
    def _component_specs(self) -> Any:
        rank = self._shape.ndims
        spec = tensor_spec.TensorSpec
        return [spec([None, rank], dtypes.int64), spec([None], self._dtype), spec([rank], dtypes.int64)]

    def _to_components(self, value: Any) -> Any:
        if isinstance(value, SparseTensorValue):
            value = SparseTensor.from_value(value)
        return [value.indices, value.values, value.dense_shape]

    def _from_components(self, components: Any) -> Any:
        return SparseTensor(*components)

    # A tensor list holds a sparse tensor as one variant.

    @property
    def _flat_tensor_specs(self) -> list[Any]:
        return [tensor_spec.TensorSpec(None, dtypes.variant)]

    def _to_tensor_list(self, value: Any) -> list[Any]:
        from millrace.python.ops import gen_sparse_ops

        indices, values, shape = self._to_components(value)
        return [gen_sparse_ops.serialize_sparse(indices, values, shape, out_type=dtypes.variant)]

    def _to_batched_tensor_list(self, value: Any) -> list[Any]:
        from millrace.python.ops import gen_sparse_ops

        indices, values, shape = self._to_components(value)
        return [gen_sparse_ops.serialize_many_sparse(indices, values, shape, out_type=dtypes.variant)]

    def _from_compatible_tensor_list(self, tensor_list: Any) -> Any:
        from millrace.python.ops import gen_sparse_ops

        indices, values, dense_shape = gen_sparse_ops.deserialize_sparse(tensor_list[0], self._dtype)
        rank = self._shape.ndims
        indices.set_shape([None, rank])
        dense_shape.set_shape([rank])
        return SparseTensor(indices, values, dense_shape)

    def _batch(self, batch_size: Any) -> Any:
        return SparseTensorSpec(tensor_shape.TensorShape([batch_size]).concatenate(self._shape), self._dtype)

    def _unbatch(self) -> Any:
        if self._shape.ndims == 0:
            raise ValueError("Unbatching a tensor is only supported for rank >= 1")
        return SparseTensorSpec(self._shape[1:], self._dtype)

    def _to_legacy_output_types(self) -> Any:
        return self._dtype

    def _to_legacy_output_shapes(self) -> Any:
        return self._shape

    def _to_legacy_output_classes(self) -> Any:
        return SparseTensor

    @classmethod
    def from_value(cls, value: Any) -> Any:
        if isinstance(value, SparseTensor):
            return cls(value.shape, value.dtype)
        if isinstance(value, SparseTensorValue):
            if isinstance(value.values, np.ndarray):
                return cls(value.dense_shape, value.values.dtype)
            return cls.from_value(SparseTensor.from_value(value))
        raise TypeError("Expected SparseTensor or SparseTensorValue")


type_spec.register_type_spec_from_value_converter(SparseTensorValue, SparseTensorSpec.from_value)


def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: Any = None) -> Any:
    """Converts sparse values to a SparseTensor, others to a Tensor."""
    if dtype is not None:
        dtype = dtypes.as_dtype(dtype)
    if isinstance(value, SparseTensorValue):
        value = SparseTensor.from_value(value)
    if isinstance(value, SparseTensor):
        if dtype and not dtype.is_compatible_with(value.dtype):
            raise RuntimeError("Sparse dtype: requested = %s, actual = %s" % (dtype.name, value.dtype.name))
        return value
    return ops.internal_convert_to_tensor(value, dtype=dtype, name=name)


def is_sparse(x: Any) -> bool:
    """Whether `x` is a SparseTensor or a SparseTensorValue."""
    return isinstance(x, (SparseTensor, SparseTensorValue))
