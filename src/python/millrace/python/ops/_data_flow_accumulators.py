# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Accumulators of gradients of several workers."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes as _dtypes
from millrace.python.framework import indexed_slices
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import gen_data_flow_ops
from millrace.python.ops import math_ops


class ConditionalAccumulatorBase:
    """The base class of accumulators of dense and of sparse gradients."""

    def __init__(self, dtype: Any, shape: Any, accumulator_ref: Any) -> None:
        """Wraps the reference to an accumulator."""
        if not isinstance(accumulator_ref, ops.Tensor):
            raise TypeError("accumulator_ref must be a Tensor, got: %r" % (accumulator_ref,))
        self._dtype = dtype
        self._shape = tensor_shape.TensorShape(shape) if shape is not None else tensor_shape.unknown_shape()
        self._accumulator_ref = accumulator_ref
        self._name = ops.name_of(self._accumulator_ref).split("/")[-1]

    @property
    def accumulator_ref(self) -> Any:
        """The reference."""
        return self._accumulator_ref

    @property
    def name(self) -> str:
        """The last part of the name of the op."""
        return self._name  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        """The type of the gradients."""
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Any:
        """Returns the number of gradients since the last one was taken."""
        if name is None:
            name = "%s_NumAccumulated" % self._name
        return gen_data_flow_ops.accumulator_num_accumulated(self._accumulator_ref, name=name)

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Any:
        """Returns an op that sets the step before which gradients are too old."""
        new_global_step = math_ops.cast(ops.convert_to_tensor(new_global_step), _dtypes.int64)
        return gen_data_flow_ops.accumulator_set_global_step(
            self._accumulator_ref, new_global_step, name=name
        )


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """An accumulator of tensors; gradients of older steps than the current one are dropped."""

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        """Makes an accumulator; `reduction_type` is MEAN or SUM."""
        accumulator_ref = gen_data_flow_ops.conditional_accumulator(
            dtype=dtype, shape=shape, shared_name=shared_name, name=name, reduction_type=reduction_type
        )
        super().__init__(dtype, shape, accumulator_ref)

    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Any:
        """Returns an op that adds a gradient of the step `local_step`."""
        grad = ops.convert_to_tensor(grad, self._dtype)
        grad.get_shape().assert_is_compatible_with(self._shape)
        local_step = math_ops.cast(ops.convert_to_tensor(local_step), _dtypes.int64)
        return gen_data_flow_ops.accumulator_apply_gradient(
            self._accumulator_ref, local_step=local_step, gradient=grad, name=name
        )

    def take_grad(self, num_required: Any, name: str | None = None) -> Any:
        """Returns the mean (or sum) once there are `num_required` gradients, and resets the accumulator."""
        out = gen_data_flow_ops.accumulator_take_gradient(
            self._accumulator_ref, num_required, dtype=self._dtype, name=name
        )
        out.set_shape(self._shape)
        return out


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """An accumulator of IndexedSlices."""

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        """Makes an accumulator; `reduction_type` is MEAN or SUM."""
        accumulator_ref = gen_data_flow_ops.sparse_conditional_accumulator(
            dtype=dtype, shape=shape, shared_name=shared_name, name=name, reduction_type=reduction_type
        )
        super().__init__(dtype, shape, accumulator_ref)

    def apply_indexed_slices_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Any:
        """Returns an op that adds IndexedSlices of the step `local_step`."""
        return self.apply_grad(
            grad_indices=grad.indices,
            grad_values=grad.values,
            grad_shape=grad.dense_shape,
            local_step=local_step,
            name=name,
        )

    def apply_grad(
        self,
        grad_indices: Any,
        grad_values: Any,
        grad_shape: Any = None,
        local_step: Any = 0,
        name: str | None = None,
    ) -> Any:
        """Returns an op that adds rows of a gradient."""
        local_step = math_ops.cast(ops.convert_to_tensor(local_step), _dtypes.int64)
        return gen_data_flow_ops.sparse_accumulator_apply_gradient(
            self._accumulator_ref,
            local_step=local_step,
            gradient_indices=math_ops.cast(ops.convert_to_tensor(grad_indices), _dtypes.int64),
            gradient_values=grad_values,
            gradient_shape=math_ops.cast(
                ops.convert_to_tensor([] if grad_shape is None else grad_shape), _dtypes.int64
            ),
            has_known_shape=(grad_shape is not None),
            name=name,
        )

    def take_grad(self, num_required: Any, name: str | None = None) -> Any:
        """Waits for `num_required` gradients; returns (indices, values, shape) and resets the accumulator."""
        return gen_data_flow_ops.sparse_accumulator_take_gradient(
            self._accumulator_ref, num_required, dtype=self._dtype, name=name
        )

    def take_indexed_slices_grad(self, num_required: Any, name: str | None = None) -> Any:
        """Returns IndexedSlices once there are `num_required` gradients, and resets the accumulator."""
        return_val = self.take_grad(num_required, name)
        return indexed_slices.IndexedSlices(
            indices=return_val.indices, values=return_val.values, dense_shape=return_val.shape
        )
