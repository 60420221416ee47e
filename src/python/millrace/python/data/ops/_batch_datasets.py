# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Batches."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.data.ops._datasets import UnaryDataset, _has_sparse, _int64, _WithSpec
from millrace.python.data.util import convert, nest, structure
from millrace.python.framework import constant_op, dtypes, ops, tensor_shape, tensor_spec, tensor_util
from millrace.python.ops import gen_dataset_ops


class BatchDataset(_WithSpec, UnaryDataset):
    def __init__(self, input_dataset: Any, batch_size: Any, drop_remainder: Any) -> None:
        self._batch_size = _int64(batch_size, "batch_size")
        self._drop_remainder = ops.convert_to_tensor(drop_remainder, dtype=dtypes.bool, name="drop_remainder")
        self._structure = _batched_spec(input_dataset.element_spec, self._batch_size, self._drop_remainder)
        self._input_dataset = input_dataset
        super().__init__(
            input_dataset,
            gen_dataset_ops.batch_dataset_v2(
                input_dataset._variant_tensor, self._batch_size, self._drop_remainder, **self._flat_structure
            ),
        )


def _batched_spec(element_spec: Any, batch_size: Any, drop_remainder: Any) -> Any:
    # Only where nothing is left over every batch has the size.
    size = tensor_util.constant_value(batch_size) if tensor_util.constant_value(drop_remainder) else None
    return nest.map_structure(lambda spec: spec._batch(None if size is None else int(size)), element_spec)


def _padding_value(value: Any, dtype: Any) -> Any:
    value = ops.convert_to_tensor(value, name="padding_value")
    if not value.shape.is_compatible_with(tensor_shape.TensorShape([])):
        raise ValueError("Padding value should be a scalar, but is not: %s" % value)
    if value.dtype != dtype:
        raise TypeError("Padding value tensor (%s) does not match output type: %s" % (value, dtype))
    return value


def _default_padding(dtype: Any) -> Any:
    if dtype.base_dtype == dtypes.string:
        return constant_op.constant("", dtype=dtypes.string)
    if dtype.base_dtype == dtypes.variant:
        raise TypeError("Unable to create padding for field of type 'variant'")
    return constant_op.constant(np.zeros((), dtype.as_numpy_dtype), dtype=dtype)


class PaddedBatchDataset(_WithSpec, UnaryDataset):
    def __init__(
        self,
        input_dataset: Any,
        batch_size: Any,
        padded_shapes: Any,
        padding_values: Any,
        drop_remainder: Any,
    ) -> None:
        self._input_dataset = input_dataset
        if _has_sparse(input_dataset.element_spec):
            raise TypeError("Batching of padded sparse tensors is not currently supported")
        self._batch_size = _int64(batch_size, "batch_size")
        self._drop_remainder = ops.convert_to_tensor(drop_remainder, dtype=dtypes.bool, name="drop_remainder")
        spec = input_dataset.element_spec
        types = [s._to_legacy_output_types() for s in nest.flatten(spec)]
        shapes = nest.flatten_up_to(spec, padded_shapes)
        if padding_values is None:
            values = [_default_padding(t) for t in types]
        else:
            given = nest.flatten_up_to(spec, padding_values)
            values = [
                _default_padding(t) if v is None else _padding_value(v, t) for v, t in zip(given, types)
            ]
        self._padded_shapes = [
            _checked_padding(shape, s._to_legacy_output_shapes())
            for shape, s in zip(shapes, nest.flatten(spec))
        ]
        self._padding_values = values
        constant = (
            tensor_util.constant_value(self._batch_size)
            if tensor_util.constant_value(self._drop_remainder)
            else None
        )
        size = None if constant is None else int(constant)
        self._structure = nest.pack_sequence_as(
            spec,
            [
                tensor_spec.TensorSpec(
                    tensor_shape.TensorShape([size]).concatenate(tensor_util.constant_value_as_shape(shape)),
                    t,
                )
                for shape, t in zip(self._padded_shapes, types)
            ],
        )
        super().__init__(
            input_dataset,
            gen_dataset_ops.padded_batch_dataset_v2(
                input_dataset._variant_tensor, batch_size=self._batch_size, padded_shapes=self._padded_shapes,
                padding_values=self._padding_values, drop_remainder=self._drop_remainder,
                output_shapes=structure.get_flat_tensor_shapes(self._structure),
            ),
        )  # fmt: skip


def _checked_padding(padded_shape: Any, input_shape: Any) -> Any:
    tensor = convert.partial_shape_to_tensor(padded_shape)
    if not isinstance(padded_shape, ops.Tensor):
        wanted = tensor_util.constant_value_as_shape(tensor)
        if input_shape.ndims is not None and wanted.ndims is not None:
            if wanted.ndims != input_shape.ndims:
                raise ValueError(
                    "The padded shape %s is not compatible with the corresponding input component shape %s."
                    % (wanted, input_shape)
                )
            for size, known in zip(wanted.as_list(), input_shape.as_list()):
                if size is not None and known is not None and size < known:
                    raise ValueError(
                        "The padded shape %s is not compatible with the corresponding input component shape %s."
                        % (wanted, input_shape)
                    )
    return tensor
