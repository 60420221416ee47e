# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tensor lists: lists of tensors held in variant tensors."""
from __future__ import annotations

from typing import Any, Optional, TYPE_CHECKING

import numpy as np

from millrace.python.framework import dtypes, ops, tensor_shape
from millrace.python.ops import gen_list_ops

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Names of gen_list_ops that this module does not define."""

else:
    from millrace.python.ops.gen_list_ops import *  # noqa: F401,F403


def _build_element_shape(shape: Any) -> Any:
    """Returns a shape in the form for ops on lists: a tensor, with -1 for unknown parts."""
    if isinstance(shape, ops.Tensor):
        return shape
    if isinstance(shape, tensor_shape.TensorShape):
        # A shape of no known rank is -1.
        shape = shape.as_list() if shape.ndims is not None else None
    if shape is None:
        return -1
    if isinstance(shape, (np.ndarray, np.generic)) or not shape:
        return ops.convert_to_tensor(shape, dtype=dtypes.int32)

    def convert(value: Any) -> Any:
        if value is None:
            return -1
        return convert(value.value) if isinstance(value, tensor_shape.Dimension) else value

    return ops.convert_to_tensor(
        [convert(d) for d in shape] if isinstance(shape, (list, tuple)) else shape, dtypes.int32
    )


def empty_tensor_list(
    element_shape: Any, element_dtype: Any, max_num_elements: Any = None, name: Optional[str] = None
) -> Any:
    """Returns an empty list of tensors of a shape and a type."""
    if max_num_elements is None:
        max_num_elements = -1
    return gen_list_ops.empty_tensor_list(
        element_shape=_build_element_shape(element_shape),
        element_dtype=element_dtype,
        max_num_elements=max_num_elements,
        name=name,
    )


def tensor_list_reserve(
    element_shape: Any, num_elements: Any, element_dtype: Any, name: Optional[str] = None
) -> Any:
    """Returns a list of `num_elements` tensors that are not set yet."""
    return gen_list_ops.tensor_list_reserve(
        element_shape=_build_element_shape(element_shape),
        num_elements=num_elements,
        element_dtype=element_dtype,
        name=name,
    )


def tensor_list_from_tensor(tensor: Any, element_shape: Any, name: Optional[str] = None) -> Any:
    """Returns the list of the slices of `tensor` along its first axis."""
    return gen_list_ops.tensor_list_from_tensor(
        tensor=tensor, element_shape=_build_element_shape(element_shape), name=name
    )


def tensor_list_get_item(
    input_handle: Any, index: Any, element_dtype: Any, element_shape: Any = None, name: Optional[str] = None
) -> Any:
    """Returns the element at `index`."""
    return gen_list_ops.tensor_list_get_item(
        input_handle=input_handle,
        index=index,
        element_shape=_build_element_shape(element_shape),
        element_dtype=element_dtype,
        name=name,
    )


def tensor_list_pop_back(
    input_handle: Any, element_dtype: Any, element_shape: Any = None, name: Optional[str] = None
) -> Any:
    """Returns (the list without its last element, that element)."""
    return gen_list_ops.tensor_list_pop_back(
        input_handle=input_handle,
        element_shape=_build_element_shape(element_shape),
        element_dtype=element_dtype,
        name=name,
    )


def tensor_list_gather(
    input_handle: Any, indices: Any, element_dtype: Any, element_shape: Any = None, name: Optional[str] = None
) -> Any:
    """Returns the elements at `indices`, stacked."""
    return gen_list_ops.tensor_list_gather(
        input_handle=input_handle,
        indices=indices,
        element_shape=_build_element_shape(element_shape),
        element_dtype=element_dtype,
        name=name,
    )


def tensor_list_stack(
    input_handle: Any,
    element_dtype: Any,
    num_elements: int = -1,
    element_shape: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Returns all elements, stacked."""
    return gen_list_ops.tensor_list_stack(
        input_handle=input_handle,
        element_shape=_build_element_shape(element_shape),
        element_dtype=element_dtype,
        num_elements=num_elements,
        name=name,
    )


def tensor_list_concat(
    input_handle: Any, element_dtype: Any, element_shape: Any = None, name: Optional[str] = None
) -> Any:
    """Returns all elements, joined along their first axis."""
    # The second output, the lengths, is for the gradient.
    return gen_list_ops.tensor_list_concat_v2(
        input_handle=input_handle,
        element_dtype=element_dtype,
        element_shape=_build_element_shape(element_shape),
        leading_dims=ops.convert_to_tensor([], dtype=dtypes.int64),
        name=name,
    )[0]


def tensor_list_split(tensor: Any, element_shape: Any, lengths: Any, name: Optional[str] = None) -> Any:
    """Returns the list of the parts of `tensor` of the given `lengths`."""
    return gen_list_ops.tensor_list_split(
        tensor=tensor, element_shape=_build_element_shape(element_shape), lengths=lengths, name=name
    )


def tensor_list_set_item(
    input_handle: Any,
    index: Any,
    item: Any,
    resize_if_index_out_of_bounds: bool = False,
    name: Optional[str] = None,
) -> Any:
    """Returns the list with `item` at `index`; `resize_if_index_out_of_bounds` lets it grow."""
    if resize_if_index_out_of_bounds:
        from millrace.python.ops import control_flow_ops

        input_list_size = gen_list_ops.tensor_list_length(input_handle)
        input_handle = control_flow_ops.cond(
            index >= input_list_size,
            lambda: gen_list_ops.tensor_list_resize(input_handle, index + 1),
            lambda: input_handle,
        )
    return gen_list_ops.tensor_list_set_item(input_handle=input_handle, index=index, item=item, name=name)


def tensor_list_scatter(
    tensor: Any, indices: Any, element_shape: Any = None, input_handle: Any = None, name: Optional[str] = None
) -> Any:
    """Returns a list, new or `input_handle`, with the slices of `tensor` at `indices`."""
    if input_handle is not None:
        return gen_list_ops.tensor_list_scatter_into_existing_list(
            input_handle=input_handle, tensor=tensor, indices=indices, name=name
        )
    return gen_list_ops.tensor_list_scatter_v2(
        tensor=tensor,
        indices=indices,
        element_shape=_build_element_shape(element_shape),
        num_elements=-1,
        name=name,
    )
