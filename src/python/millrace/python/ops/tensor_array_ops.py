# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""TensorArray: a list of tensors that loops write and read."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.framework import tensor_util
from millrace.python.framework import type_spec
from millrace.python.ops import array_ops
from millrace.python.ops import gen_data_flow_ops
from millrace.python.ops import math_ops
from millrace.python.platform import tf_logging as logging


def _check_dtypes(value: Any, dtype: Any) -> None:
    """Logs an error for a value whose type is not that of the array: the step will fail."""
    if value.dtype.base_dtype != dtype:
        logging.error(
            "Error: Input value {} has dtype {}, but expected dtype {}.".format(value, value.dtype, dtype)
        )


class TensorArray:
    """An array of tensors of one type, each of which is written once.

    Operations take and give a flow, a scalar that represents the state of the array: each write returns a
    TensorArray with a new flow, which later operations must use.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is TensorArray and ops.executing_eagerly():
            from millrace.python.ops import _eager_tensor_array

            cls = _eager_tensor_array._EagerTensorArray
        return super().__new__(cls)

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        """Makes a new array of `size`, or wraps an existing `handle` and `flow`.

        Args:
          dtype: type of the elements.
          size: the number of elements, an int32 scalar.
          dynamic_size: whether writes beyond the end enlarge the array.
          clear_after_read: whether an element can be read only once (the default).
          tensor_array_name: name of the resource.
          handle, flow: an existing array.
          infer_shape: whether all elements have one shape.
          element_shape: that shape, as far as it is known.
          colocate_with_first_write_call: whether the array is on the device of its first written element.
          name: name scope.

        Raises:
          ValueError: arguments that exclude each other.
          TypeError: the handle is no tensor.
        """
        self._check_arguments(handle, tensor_array_name, size, element_shape, dynamic_size, clear_after_read)
        clear_after_read = True if clear_after_read is None else clear_after_read
        self._dynamic_size = dynamic_size or False
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._colocate_with_first_write_call = colocate_with_first_write_call
        self._colocate_with: Any = [] if colocate_with_first_write_call else None
        self._infer_shape = infer_shape
        # Shared by all TensorArrays of one handle, so that reads know the shapes of writes in a loop.
        self._element_shape: list[Any] = (
            [] if element_shape is None else [tensor_shape.TensorShape(element_shape)]
        )
        with ops.name_scope(name, "TensorArray", [handle, size, flow]) as scope:
            if handle is not None:
                if flow is None:
                    raise ValueError("flow must not be None if handle is not None.")
                self._handle, self._flow = handle, flow
                return

            def create() -> Any:
                return gen_data_flow_ops.tensor_array_v3(
                    dtype=self._dtype,
                    size=size,
                    element_shape=element_shape,
                    identical_element_shapes=infer_shape,
                    dynamic_size=self._dynamic_size,
                    clear_after_read=clear_after_read,
                    tensor_array_name=tensor_array_name,
                    name=scope,
                )

            if colocate_with_first_write_call:
                with ops.device(None), ops.colocate_with(None, ignore_existing=True):
                    self._handle, self._flow = create()
            else:
                self._handle, self._flow = create()

    @staticmethod
    def _check_arguments(
        handle: Any,
        tensor_array_name: Any,
        size: Any,
        element_shape: Any,
        dynamic_size: Any,
        clear_after_read: Any,
    ) -> None:
        if handle is not None and tensor_array_name:
            raise ValueError("Cannot construct with both handle and tensor_array_name")
        if handle is not None and not isinstance(handle, ops.Tensor):
            raise TypeError("Handle must be a Tensor")
        if handle is None and size is None:
            raise ValueError("Size must be provided if handle is not provided")
        if handle is not None:
            if size is not None:
                raise ValueError("Cannot provide both a handle and size at the same time")
            if element_shape is not None:
                raise ValueError("Cannot provide both a handle and element_shape at the same time")
            if dynamic_size is not None:
                raise ValueError("Cannot provide both a handle and dynamic_size at the same time")
            if clear_after_read is not None:
                raise ValueError("Cannot provide both a handle and clear_after_read at the same time")

    @property
    def _implementation(self) -> "TensorArray":
        return self

    @property
    def flow(self) -> Any:
        """The state that the next operation takes, a float32 scalar."""
        return self._flow

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self._dtype

    @property
    def handle(self) -> Any:
        """The reference to the array."""
        return self._handle

    @property
    def element_shape(self) -> Any:
        """The shape of the elements, as far as it is known."""
        return self._element_shape[0] if self._element_shape else tensor_shape.unknown_shape()

    @property
    def dynamic_size(self) -> bool:
        """Whether the array may grow."""
        return self._dynamic_size

    def _check_element_shape(self, shape: Any) -> None:
        """Raises ValueError for an element of another shape; keeps `shape` as the shape of elements."""
        if not shape.is_compatible_with(self.element_shape):
            raise ValueError("Inconsistent shapes: saw %s but expected %s " % (shape, self.element_shape))
        if self._infer_shape:
            self._element_shape[:] = [self.element_shape.merge_with(shape)]

    @contextlib.contextmanager
    def _maybe_colocate_with(self, value: Any) -> Iterator[None]:
        """Colocates an operation with the first one that wrote."""
        if not self._colocate_with_first_write_call:
            yield
            return
        if not self._colocate_with:
            self._colocate_with.append(value)
        with ops.colocate_with(self._colocate_with[0]):
            yield

    def identity(self) -> "TensorArray":
        """Returns an array with the same content and a new flow, which has the current control dependencies."""
        return build_ta_with_new_flow(self, array_ops.identity(self._flow))

    def grad(self, source: str, flow: Any = None, name: str | None = None) -> "TensorArray":
        """Returns the array of gradients for the gradient computation named `source`."""
        if flow is None:
            flow = self.flow
        with ops.name_scope(name, "TensorArrayGrad", [self._handle]):
            with ops.colocate_with(self._handle):
                g_handle, _ = gen_data_flow_ops.tensor_array_grad_v3(
                    handle=self._handle, source=source, flow_in=flow, name=name
                )
                with ops.control_dependencies([g_handle]):
                    flow = array_ops.identity(flow, name="gradient_flow")
                g = TensorArray(
                    dtype=self._dtype,
                    handle=g_handle,
                    flow=flow,
                    infer_shape=self._infer_shape,
                    colocate_with_first_write_call=False,
                )
                g._element_shape = self._element_shape
                return g

    def read(self, index: Any, name: str | None = None) -> Any:
        """Returns the element number `index`."""
        value = gen_data_flow_ops.tensor_array_read_v3(
            handle=self._handle, index=index, flow_in=self._flow, dtype=self._dtype, name=name
        )
        if self._element_shape:
            value.set_shape(self._element_shape[0].dims)
        return value

    def write(self, index: Any, value: Any, name: str | None = None) -> "TensorArray":
        """Writes `value` to the element number `index`; returns the array to continue with."""
        with ops.name_scope(name, "TensorArrayWrite", [self._handle, index, value]):
            value = ops.convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            _check_dtypes(value, self._dtype)
            self._check_element_shape(value.shape)
            with self._maybe_colocate_with(value):
                flow_out = gen_data_flow_ops.tensor_array_write_v3(
                    handle=self._handle, index=index, value=value, flow_in=self._flow, name=name
                )
            return build_ta_with_new_flow(self, flow_out)

    def stack(self, name: str | None = None) -> Any:
        """Returns all elements, packed along a new first axis."""
        with ops.colocate_with(self._handle):
            with ops.name_scope(name, "TensorArrayStack", [self._handle]):
                return self.gather(math_ops.range(0, self.size()), name=name)

    def gather(self, indices: Any, name: str | None = None) -> Any:
        """Returns the elements `indices`, packed along a new first axis."""
        element_shape = self._element_shape[0] if self._element_shape else tensor_shape.TensorShape(None)
        value = gen_data_flow_ops.tensor_array_gather_v3(
            handle=self._handle,
            indices=indices,
            flow_in=self._flow,
            dtype=self._dtype,
            name=name,
            element_shape=element_shape,
        )
        if element_shape.dims is not None:
            value.set_shape([None] + element_shape.dims)
        return value

    def concat(self, name: str | None = None) -> Any:
        """Returns all elements, joined along their first axis."""
        known = self._element_shape and self._element_shape[0].dims is not None
        except0 = (
            tensor_shape.TensorShape(self._element_shape[0].dims[1:])
            if known
            else tensor_shape.TensorShape(None)
        )
        value, _ = gen_data_flow_ops.tensor_array_concat_v3(
            handle=self._handle,
            flow_in=self._flow,
            dtype=self._dtype,
            name=name,
            element_shape_except0=except0,
        )
        if known:
            value.set_shape([None] + self._element_shape[0].dims[1:])
        return value

    def unstack(self, value: Any, name: str | None = None) -> "TensorArray":
        """Writes the slices of `value` along its first axis as elements."""
        with ops.name_scope(name, "TensorArrayUnstack", [self._handle, value]):
            num_elements = array_ops.shape(value)[0]
            return self.scatter(indices=math_ops.range(0, num_elements), value=value, name=name)

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> "TensorArray":
        """Writes the slices of `value` along its first axis as the elements `indices`."""
        with ops.name_scope(name, "TensorArrayScatter", [self._handle, value, indices]):
            value = ops.convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            _check_dtypes(value, self._dtype)
            self._check_element_shape(value.shape[1:])
            with self._maybe_colocate_with(value):
                flow_out = gen_data_flow_ops.tensor_array_scatter_v3(
                    handle=self._handle, indices=indices, value=value, flow_in=self._flow, name=name
                )
            return build_ta_with_new_flow(self, flow_out)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> "TensorArray":
        """Writes parts of `value` with the sizes `lengths` along its first axis as elements."""
        with ops.name_scope(name, "TensorArraySplit", [self._handle, value, lengths]):
            value = ops.convert_to_tensor(value, dtype=self._dtype, name="value")
            with self._maybe_colocate_with(value):
                lengths_64 = math_ops.cast(lengths, dtypes.int64)
                clengths = tensor_util.constant_value(lengths_64)
                if value.shape.dims is not None and clengths is not None:
                    if clengths.shape and clengths.size and clengths.max() == clengths.min():
                        first = tensor_shape.TensorShape([int(clengths[0])])
                        self._check_element_shape(first.concatenate(value.shape[1:]))
                flow_out = gen_data_flow_ops.tensor_array_split_v3(
                    handle=self._handle, value=value, lengths=lengths_64, flow_in=self._flow, name=name
                )
            return build_ta_with_new_flow(self, flow_out)

    def size(self, name: str | None = None) -> Any:
        """Returns the number of elements, an int32 scalar."""
        return gen_data_flow_ops.tensor_array_size_v3(handle=self._handle, flow_in=self.flow, name=name)

    def close(self, name: str | None = None) -> Any:
        """Returns an op that frees the array."""
        return gen_data_flow_ops.tensor_array_close_v3(handle=self._handle, name=name)


def build_ta_with_new_flow(old_ta: TensorArray, flow: Any) -> TensorArray:
    """Returns a TensorArray for the same resource with another flow."""
    ta = TensorArray(
        dtype=old_ta.dtype,
        handle=old_ta.handle,
        flow=flow,
        infer_shape=old_ta._infer_shape,
        colocate_with_first_write_call=old_ta._colocate_with_first_write_call,
    )
    ta._dynamic_size = old_ta._dynamic_size
    ta._colocate_with = old_ta._colocate_with
    ta._element_shape = old_ta._element_shape
    return ta


def build_ta_with_new_flow_and_name(old_ta: TensorArray, flow: Any) -> TensorArray:
    """Returns a TensorArray for the same resource with another flow."""
    return build_ta_with_new_flow(old_ta, flow)


class TensorArraySpec(type_spec.TypeSpec):  # type: ignore[misc]
    """The type of a TensorArray."""

    __slots__ = ["_element_shape", "_dtype", "_dynamic_size", "_infer_shape"]

    value_type = property(lambda self: TensorArray)

    def __init__(
        self,
        element_shape: Any = None,
        dtype: Any = dtypes.float32,
        dynamic_size: bool = False,
        infer_shape: bool = True,
    ) -> None:
        self._element_shape = tensor_shape.as_shape(element_shape)
        self._dtype = dtypes.as_dtype(dtype)
        self._dynamic_size = dynamic_size
        self._infer_shape = infer_shape

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a TensorArray, or the spec of one, has this type."""
        if not isinstance(other, type_spec.TypeSpec):
            other = type_spec.type_spec_from_value(other)
        return (
            isinstance(other, TensorArraySpec)
            and self._dtype.is_compatible_with(other._dtype)
            and self._element_shape.is_compatible_with(other._element_shape)
            and self._dynamic_size == other._dynamic_size
        )

    def most_specific_compatible_type(self, other: Any) -> Any:
        """The narrowest type that includes both; ValueError if there is none."""
        if not self.is_compatible_with(other):
            raise ValueError("Types are not compatible")
        infer_shape = self._infer_shape and other._infer_shape
        return TensorArraySpec(
            self._element_shape.most_specific_compatible_shape(other._element_shape),
            self._dtype,
            self._dynamic_size,
            infer_shape,
        )

    def _serialize(self) -> Any:
        return (self._element_shape, self._dtype, self._dynamic_size, self._infer_shape)

    @property
    def _component_specs(self) -> Any:
        from millrace.python.framework import tensor_spec

        return [tensor_spec.TensorSpec([], dtypes.variant)]

    def _to_components(self, value: Any) -> Any:
        if not isinstance(value, TensorArray):
            raise TypeError("value must be a TensorArray, but saw: {}".format(type(value)))
        return [value.flow]

    def _from_components(self, tensor_list: Any) -> Any:
        raise NotImplementedError("A TensorArray of a graph cannot be made from its flow alone")

    @staticmethod
    def from_value(value: Any) -> "TensorArraySpec":
        """The type of a TensorArray."""
        return TensorArraySpec(
            dtype=value.dtype,
            element_shape=value.element_shape,
            dynamic_size=value.dynamic_size,
            infer_shape=value._infer_shape,
        )

    def _to_legacy_output_types(self) -> Any:
        return self._dtype

    def _to_legacy_output_shapes(self) -> Any:
        return (tensor_shape.TensorShape([self._dynamic_size, self._infer_shape])).concatenate(
            self._element_shape
        )

    def _to_legacy_output_classes(self) -> Any:
        return TensorArray


type_spec.register_type_spec_from_value_converter(
    TensorArray, TensorArraySpec.from_value, allow_subclass=True
)


# Names of TensorFlow's kinds of TensorArrays: here there is one.
_GraphTensorArray = TensorArray
