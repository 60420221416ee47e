# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""TensorArray in eager mode: a list of tensors."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op, dtypes, errors_impl, ops, tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops.tensor_array_ops import TensorArray


class _EagerTensorArray(TensorArray):
    """A TensorArray of eager tensors; methods change it and return it."""

    def __init__(
        self, dtype: Any, size: Any = None, dynamic_size: Any = None, clear_after_read: Any = None,
        tensor_array_name: Any = None, handle: Any = None, flow: Any = None, infer_shape: bool = True,
        element_shape: Any = None, colocate_with_first_write_call: bool = True, name: Any = None,
    ) -> None:  # fmt: skip
        del flow, tensor_array_name, name, colocate_with_first_write_call
        if handle is not None:
            raise ValueError("TensorArray handles are not supported when eager execution is enabled.")
        if size is None:
            raise ValueError("Size must be declared for TensorArrays when eager execution is enabled.")
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._handle = None
        self._flow = constant_op.constant(0, dtypes.int32)
        self._infer_shape = infer_shape
        self._element_shape: list[Any] = (
            [] if element_shape is None else [tensor_shape.as_shape(element_shape)]
        )
        self._colocate_with_first_write_call = False
        self._colocate_with = None
        self._clear_after_read = True if clear_after_read is None else clear_after_read
        self._dynamic_size = dynamic_size or False
        self._tensor_array: list[Any] = [None] * int(size)
        self._previously_read: set[int] = set()

    @property
    def handle(self) -> Any:
        """None: there is none."""
        return None

    def identity(self) -> Any:
        return self

    def grad(self, source: Any, flow: Any = None, name: Any = None) -> Any:
        raise NotImplementedError(
            "TensorArray.grad is not supported when executing eagerly; eager's gradient implementation does not use/need "
            "this function to compute gradients of operations that use TensorArrays."
        )

    def read(self, index: Any, name: Any = None) -> Any:
        index = int(index)
        if index < 0:
            raise errors_impl.OutOfRangeError(None, None, "Reading from negative indices (index %d) is not allowed." % index)  # fmt: skip
        if index >= len(self._tensor_array):
            raise errors_impl.OutOfRangeError(
                None,
                None,
                "Tried to read from index %d but array size is: %d" % (index, len(self._tensor_array)),
            )
        tensor = self._tensor_array[index]
        if tensor is None:
            if index in self._previously_read:
                raise errors_impl.InvalidArgumentError(
                    None, None,
                    "Could not read index %d twice because it was cleared after a previous read (perhaps try setting "
                    "clear_after_read = false?)" % index,
                )  # fmt: skip
            tensor = self._zeros()
            self._tensor_array[index] = tensor
        if self._clear_after_read:
            self._tensor_array[index] = None
            self._previously_read.add(index)
        return tensor

    def _zeros(self) -> Any:
        """The value of an element that was not written."""
        shape = self.element_shape
        if not shape.is_fully_defined():
            raise errors_impl.InvalidArgumentError(
                None, None,
                "Could not read from TensorArray: the element was not written, and the shape of elements is not known: %s"
                % shape,
            )  # fmt: skip
        return array_ops.zeros(shape.as_list(), self._dtype)

    def _write(self, index: int, value: Any) -> None:
        if index < 0:
            raise errors_impl.OutOfRangeError(None, None, "Writing to negative indices (index %d) is not allowed." % index)  # fmt: skip
        size = len(self._tensor_array)
        if index >= size:
            if not self._dynamic_size:
                raise errors_impl.OutOfRangeError(
                    None, None,
                    "Tried to write to index %d but array is not resizeable and size is: %d" % (index, size),
                )  # fmt: skip
            self._tensor_array.extend([None] * (index - size + 1))
        if not isinstance(value, ops.EagerTensor):
            value = ops.convert_to_tensor(value, preferred_dtype=self._dtype)
        if value.dtype != self._dtype:
            raise errors_impl.InvalidArgumentError(
                None, None,
                "TensorArray dtype is %s but Op is trying to write dtype %s" % (self._dtype.name, value.dtype.name),
            )  # fmt: skip
        if not self.element_shape.is_compatible_with(value.shape):
            raise ValueError(
                "Incompatible shape for value (%s), expected (%s)" % (value.shape, self.element_shape)
            )
        if self._infer_shape:
            self._element_shape[:] = [self.element_shape.merge_with(value.shape)]
        self._tensor_array[index] = value

    def write(self, index: Any, value: Any, name: Any = None) -> Any:
        self._write(int(index), value)
        return self

    def stack(self, name: Any = None) -> Any:
        for i, tensor in enumerate(self._tensor_array):
            if tensor is None:
                self._tensor_array[i] = self._zeros()
        if not self._tensor_array and self.element_shape.is_fully_defined():
            return array_ops.zeros([0] + self.element_shape.as_list(), self._dtype)
        return ops.convert_to_tensor(self._tensor_array, name=name, dtype=self._dtype)

    def gather(self, indices: Any, name: Any = None) -> Any:
        if isinstance(indices, ops.EagerTensor):
            indices = indices.numpy()
        return array_ops.stack([self._at(int(i)) for i in indices])

    def _at(self, index: int) -> Any:
        found = self._tensor_array[index]
        return self._zeros() if found is None else found

    def concat(self, name: Any = None) -> Any:
        try:
            return array_ops.concat([self._at(i) for i in range(len(self._tensor_array))], 0, name=name)
        except errors_impl.OpError:
            shapes = [0 if t is None else t.shape.as_list() for t in self._tensor_array]
            raise errors_impl.InvalidArgumentError(
                None, None, "TensorArray has inconsistent shapes: %s" % shapes
            ) from None

    def unstack(self, value: Any, name: Any = None) -> Any:
        tensors = array_ops.unstack(ops.convert_to_tensor(value))
        if len(tensors) > len(self._tensor_array) and not self._dynamic_size:
            raise ValueError(
                "Cannot unstack %d tensors into a TensorArray of static size %d"
                % (len(tensors), len(self._tensor_array))
            )
        for i, tensor in enumerate(tensors):
            self._write(i, tensor)
        return self

    def scatter(self, indices: Any, value: Any, name: Any = None) -> Any:
        if isinstance(indices, ops.EagerTensor):
            indices = indices.numpy()
        for index, tensor in zip(indices, array_ops.unstack(ops.convert_to_tensor(value))):
            self._write(int(index), tensor)
        return self

    def split(self, value: Any, lengths: Any, name: Any = None) -> Any:
        value = ops.convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
        lengths = [int(n) for n in ops.convert_to_tensor(lengths).numpy().reshape(-1)]
        if sum(lengths) != value.shape.as_list()[0]:
            raise errors_impl.InvalidArgumentError(
                None, None,
                "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is %d and value's shape is: %s "
                % (sum(lengths), value.shape.as_list()),
            )  # fmt: skip
        if not self._dynamic_size and len(lengths) != len(self._tensor_array):
            raise errors_impl.InvalidArgumentError(
                None, None,
                "TensorArray's size is not equal to the size of lengths (%d vs. %d), and the TensorArray is not marked as "
                "dynamically resizeable" % (len(self._tensor_array), len(lengths)),
            )  # fmt: skip
        for i, part in enumerate(array_ops.split(value, lengths)):
            self._write(i, part)
        return self

    def size(self, name: Any = None) -> Any:
        return constant_op.constant(len(self._tensor_array))

    def close(self, name: Any = None) -> None:
        self._tensor_array.clear()
