# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""EagerTensor: the result of an op in eager mode, a tensor that has a value."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python import _engine
from millrace.python.framework import tensor_shape
from millrace.python.framework._tensor import Tensor, handle_data_message


def _numpy_text(tensor: Any, is_repr: bool = False) -> str:
    if tensor.dtype.is_numpy_compatible:
        text = repr(tensor._numpy()) if is_repr else str(tensor._numpy())
    else:
        text = "<unprintable>"
    return "\n" + text if "\n" in text else text


numpy_text = _numpy_text


def _meaningless(name: str) -> Any:
    def get(self: Any) -> Any:
        raise AttributeError("Tensor.%s is meaningless when eager execution is enabled." % name)

    return property(get, doc="Of tensors in graphs only.")


class EagerTensor(_engine.EagerTensorBase, Tensor):
    """A tensor with a value. Constants and the functions of the package make them."""

    __slots__ = ()

    def __new__(cls, value: Any, context: Any = None, device: Any = None, dtype: Any = None) -> Any:
        from millrace.python.framework import constant_op

        return constant_op.convert_to_eager_tensor(value, context, dtype)

    def __init__(self, value: Any, context: Any = None, device: Any = None, dtype: Any = None) -> None:
        """Does nothing."""

    op = _meaningless("op")
    _op = _meaningless("op")
    graph = _meaningless("graph")
    name = _meaningless("name")
    value_index = _meaningless("value_index")
    _value_index = _meaningless("value_index")

    def numpy(self) -> Any:
        """The value as a NumPy array or scalar, a copy.

        Raises:
          InvalidArgumentError: if NumPy has no such type.
        """
        return self._numpy()

    def _numpy(self) -> Any:
        if not self.dtype.is_numpy_compatible:
            from millrace.python.framework import errors_impl

            raise errors_impl.InvalidArgumentError(
                None, None, "Cannot convert a Tensor of dtype %s to a NumPy array." % self.dtype.name
            )
        return self._numpy_copy()

    def __array__(self, dtype: Any = None) -> Any:  # type: ignore[override]
        if not self.dtype.is_numpy_compatible:
            self._numpy()
        array = self._numpy_array()
        return array if dtype is None else array.astype(dtype)

    def __int__(self) -> int:
        return int(self._numpy())

    def __long__(self) -> int:
        return int(self._numpy())

    def __float__(self) -> float:
        return float(self._numpy())

    def __complex__(self) -> complex:
        return complex(self._numpy())

    def __index__(self) -> int:
        value = self._numpy()
        if isinstance(value, (np.integer, np.ndarray)):
            return value.__index__()
        raise TypeError("only integer scalar arrays can be converted to a scalar index")

    def __bool__(self) -> bool:
        return bool(self._numpy())

    __nonzero__ = __bool__

    def __format__(self, format_spec: str) -> str:
        return self._numpy().__format__(format_spec)  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        from millrace.python.framework import ops

        return ops.convert_to_tensor, (self._numpy(),)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __str__(self) -> str:
        return "tf.Tensor(%s, shape=%s, dtype=%s)" % (_numpy_text(self), self.shape, self.dtype.name)

    def __repr__(self) -> str:
        return "<tf.Tensor: id=%s, shape=%s, dtype=%s, numpy=%s>" % (
            self._id,
            self.shape,
            self.dtype.name,
            _numpy_text(self, is_repr=True),
        )

    def __len__(self) -> int:
        if not self._rank():
            raise TypeError("Scalar tensor has no `len()`")
        return self._shape_tuple()[0]  # type: ignore[no-any-return]

    def __iter__(self) -> Any:
        sizes = self._shape_tuple()
        if not sizes:
            raise TypeError("Cannot iterate over a scalar tensor.")
        return (self[i] for i in range(sizes[0]))

    def __hash__(self) -> int:
        if Tensor._USE_EQUALITY:
            from millrace.python.framework import ops

            if ops.executing_eagerly_outside_functions():
                raise TypeError(
                    "Tensor is unhashable if Tensor equality is enabled. Instead, use tensor.experimental_ref() as the "
                    "key."
                )
        return id(self)

    @property
    def _shape(self) -> Any:
        return self.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.shape.ndims  # type: ignore[no-any-return]

    def get_shape(self) -> Any:
        return self.shape

    def _shape_as_list(self) -> Any:
        return list(self._shape_tuple())

    def set_shape(self, shape: Any) -> None:
        """Checks the shape.

        Raises:
          ValueError: if it is incompatible.
        """
        if not self.shape.is_compatible_with(tensor_shape.as_shape(shape)):
            raise ValueError(
                "Tensor's shape %s is not compatible with supplied shape %s" % (self.shape, shape)
            )

    def _merge_shape(self, sizes: Any) -> None:
        self.set_shape(sizes)

    def _handle_data_tuple(self) -> Any:
        return _engine.EagerTensorBase._handle_data.__get__(self)

    def _set_handle_data_tuple(self, number: int, sizes: Any) -> None:
        value = (number, None if sizes is None else [-1 if s is None else s for s in sizes])
        _engine.EagerTensorBase._handle_data.__set__(self, value)

    @property
    def _handle_data(self) -> Any:
        return handle_data_message(self._handle_data_tuple())

    def cpu(self) -> Any:
        """A copy in host memory."""
        return self._copy(None, "CPU:0")

    def gpu(self, gpu_index: int = 0) -> Any:
        """A copy on a GPU; an error if there is none."""
        return self._copy(None, "GPU:" + str(gpu_index))

    def _copy(self, ctx: Any = None, device_name: Any = None) -> Any:
        from millrace.python.eager import tape

        made = self._copy_to_device(ctx, device_name)
        tape.record_operation("_copy", [made], [self], lambda dresult: [dresult])
        return made

    def _copy_nograd(self, ctx: Any = None, device_name: Any = None) -> Any:
        return self._copy_to_device(ctx, device_name)

    def _copy_to_device(self, context: Any = None, device: Any = None) -> Any:
        name = device or "CPU:0"
        if not name.startswith("/"):
            name = "/job:localhost/replica:0/task:0/device:" + name
        return self._copy_handle(name)

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        raise NotImplementedError(
            "eval is not supported when eager execution is enabled, is .numpy() what you're looking for?"
        )

    def consumers(self) -> Any:
        raise NotImplementedError("Tensor.consumers is meaningless when eager execution is enabled.")

    def _as_node_def_input(self) -> Any:
        raise NotImplementedError("Tensor._as_node_def_input is meaningless when eager execution is enabled.")

    def _as_tf_output(self) -> Any:
        raise NotImplementedError("Tensor._as_tf_output not supported when eager execution is enabled.")


_engine.register("eager_tensor", EagerTensor)
