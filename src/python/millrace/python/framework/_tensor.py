# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tensor: one output of an operation."""
from __future__ import annotations

from typing import Any, Optional, TYPE_CHECKING

from millrace.python import _engine
from millrace.python.framework import tensor_shape


class _TensorLike:
    """Base class of objects that behave like a tensor."""

    __slots__ = ()


def handle_data_message(data: Any) -> Any:
    """The HandleData message of a resource handle, or None if it is unknown."""
    if data is None:
        return None
    from millrace.python.framework import cpp_shape_inference_pb2

    number, sizes = data
    shape = None if sizes is None else [None if size is None or size < 0 else size for size in sizes]
    message = cpp_shape_inference_pb2.HandleData(is_set=True)
    message.shape_and_type.add(dtype=number, shape=tensor_shape.TensorShape(shape).as_proto())
    return message


def is_dense_tensor_like(t: Any) -> bool:
    """Whether `t` is a Tensor, a variable, or of a class given to register_dense_tensor_like_type."""
    return isinstance(t, _TENSOR_LIKE_TYPES)


def _load_operators() -> None:
    """Loads the modules that define the operators."""
    from millrace.python.ops import array_ops, math_ops  # noqa: F401


def _trampoline(operator: str) -> Any:
    def call(self: Any, *args: Any) -> Any:
        _load_operators()
        method = getattr(Tensor, operator)
        if getattr(method, "_millrace_trampoline", False):
            return NotImplemented
        return method(self, *args)

    call._millrace_trampoline = True  # type: ignore[attr-defined]
    call.__name__ = operator
    return call


class Tensor(_engine.TensorBase, _TensorLike):
    """One output of an operation: a value that a session computes.

    Tensors have no values: `session.run(tensor)` computes them. Operators, indexing and functions of the
      package add
    operations.
    """

    __slots__ = ()

    OVERLOADABLE_OPERATORS = {
        "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__div__", "__rdiv__", "__truediv__",
        "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__lt__", "__le__", "__gt__", "__ge__",
        "__ne__", "__eq__", "__and__", "__rand__", "__or__", "__ror__", "__xor__", "__rxor__", "__getitem__", "__pow__",
        "__rpow__", "__invert__", "__neg__", "__abs__", "__matmul__", "__rmatmul__",
    }  # fmt: skip

    # Makes NumPy use the tensor's operators for (array, tensor).
    __array_priority__ = 100
    _USE_EQUALITY = False

    if TYPE_CHECKING:  # set below
        __add__: Any
        __radd__: Any
        __sub__: Any
        __rsub__: Any
        __mul__: Any
        __rmul__: Any
        __truediv__: Any
        __rtruediv__: Any
        __floordiv__: Any
        __rfloordiv__: Any
        __mod__: Any
        __rmod__: Any
        __lt__: Any
        __le__: Any
        __gt__: Any
        __ge__: Any
        __and__: Any
        __rand__: Any
        __or__: Any
        __ror__: Any
        __xor__: Any
        __rxor__: Any
        __getitem__: Any
        __pow__: Any
        __rpow__: Any
        __invert__: Any
        __neg__: Any
        __abs__: Any
        __matmul__: Any
        __rmatmul__: Any

    def __new__(cls, op: Any, value_index: int, dtype: Any) -> Any:
        from millrace.python.framework import dtypes

        if not isinstance(op, _engine.OperationBase):
            raise TypeError("op needs to be an Operation: %s" % op)
        if dtypes.as_dtype(dtype) != op.outputs[value_index].dtype:
            raise TypeError("Output %d of %s has another type than %s" % (value_index, op.name, dtype))
        return op.outputs[value_index]

    def __init__(self, op: Any, value_index: int, dtype: Any) -> None:
        """Returns the existing tensor: tensors are made with their operation."""

    def get_shape(self) -> Any:
        """The static shape."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Merges `shape` into the static shape; ValueError if they are incompatible."""
        self._merge_shape(tensor_shape.as_shape(shape)._sizes)

    def _shape_as_list(self) -> Optional[list[Optional[int]]]:
        return None if self.shape.ndims is None else self.shape.as_list()

    def _shape_tuple(self) -> Any:
        shape = self._shape_as_list()
        return None if shape is None else tuple(shape)

    @property
    def _shape(self) -> Any:
        return self.shape

    def _rank(self) -> Optional[int]:
        return self.shape.ndims

    def _is_initialized(self) -> bool:
        return True

    @property
    def _id(self) -> int:
        return id(self)

    @property
    def _handle_data(self) -> Any:
        return handle_data_message(self._handle_data_tuple())

    def _as_node_def_input(self) -> str:
        return self.op.name if self.value_index == 0 else "%s:%d" % (self.op.name, self.value_index)

    def _as_tf_output(self) -> Any:
        return self

    def __iter__(self) -> Any:
        if self.shape.ndims == 0:
            raise TypeError("Cannot iterate over a scalar tensor.")
        raise TypeError(
            "Tensor objects are only iterable when eager execution is enabled. To iterate over this tensor use tf.map_fn."
        )

    def __len__(self) -> int:
        raise TypeError(
            "len is not well defined for symbolic Tensors. (%s) Please call `x.shape` rather than `len(x)` for "
            "shape information." % self.name
        )

    def __bool__(self) -> bool:
        raise TypeError(
            "Using a `tf.Tensor` as a Python `bool` is not allowed. Use `if t is not None:` instead of `if t:` to test "
            "if a tensor is defined, and use TensorFlow ops such as tf.cond to execute subgraphs conditioned on the "
            "value of a tensor."
        )

    __nonzero__ = __bool__

    def __array__(self, *args: Any) -> Any:
        raise NotImplementedError("Cannot convert a symbolic Tensor (%s) to a numpy array." % self.name)

    def __copy__(self) -> Tensor:
        return self

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return "<tf.Tensor '%s' shape=%s dtype=%s>" % (self.name, self.shape, self.dtype.name)

    def __str__(self) -> str:
        shape = (", shape=%s" % self.shape) if self.shape.ndims is not None else ""
        return 'Tensor("%s"%s, dtype=%s%s)' % (
            self.name, shape, self.dtype.name, (", device=%s" % self.device) if self.device else "",
        )  # fmt: skip

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """The value, computed by `session` or the default session."""
        from millrace.python.framework import ops

        return ops._eval_using_default_session(self, feed_dict, self.graph, session)

    def experimental_ref(self) -> Any:
        """A hashable reference to this tensor."""
        from millrace.python.util import object_identity

        return object_identity.Reference(self)

    @staticmethod
    def _override_operator(operator: str, func: Any) -> None:
        _override_helper(Tensor, operator, func)

    def __dir__(self) -> Any:
        return [name for name in object.__dir__(self) if not name.startswith("_") or name.startswith("__")]


def _override_helper(clazz_object: Any, operator: str, func: Any) -> None:
    """Sets an operator of a class; ValueError for an unknown operator or one that is set already."""
    existing = getattr(clazz_object, operator, None)
    is_default = existing is None or existing is getattr(object, operator, None)
    if not is_default and not getattr(existing, "_millrace_trampoline", False):
        raise ValueError("operator %s cannot be overwritten again on class %s." % (operator, clazz_object))
    if operator not in Tensor.OVERLOADABLE_OPERATORS:
        raise ValueError("Overriding %s is disallowed" % operator)
    setattr(clazz_object, operator, func)


for _operator in sorted(Tensor.OVERLOADABLE_OPERATORS - {"__eq__", "__ne__"}):
    setattr(Tensor, _operator, _trampoline(_operator))

_TENSOR_LIKE_TYPES: tuple[type, ...] = (Tensor,)


def register_dense_tensor_like_type(tensor_type: Any) -> None:
    """Registers a class with properties `name` and `dtype` whose objects may be used as tensors."""
    try:
        if not isinstance(tensor_type.name, property):
            raise TypeError("Type %s does not define a `name` property" % tensor_type.__name__)
    except AttributeError:
        raise TypeError("Type %s does not define a `name` property" % tensor_type.__name__) from None
    try:
        if not isinstance(tensor_type.dtype, property):
            raise TypeError("Type %s does not define a `dtype` property" % tensor_type.__name__)
    except AttributeError:
        raise TypeError("Type %s does not define a `dtype` property" % tensor_type.__name__) from None
    global _TENSOR_LIKE_TYPES
    _TENSOR_LIKE_TYPES = _TENSOR_LIKE_TYPES + (tensor_type,)


_engine.register("tensor", Tensor)
