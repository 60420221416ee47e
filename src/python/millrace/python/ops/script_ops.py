# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Python functions as ops: tf.py_func and tf.numpy_function."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable

import numpy as np

from millrace.python import _engine
from millrace.python.framework import ops
from millrace.python.ops import gen_script_ops


class FuncRegistry:
    """The functions that ops call, by token. A graph keeps its functions alive; the registry does not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unique_id = 0  # Guarded by _lock.
        self._funcs: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()

    def insert(self, func: Any) -> str:
        """Registers a function; returns its token."""
        with self._lock:
            token = "pyfunc_%d" % self._unique_id
            self._unique_id += 1
            self._funcs[token] = func
        return token

    def size(self) -> int:
        """The number of functions."""
        return len(self._funcs)

    def __call__(self, token: bytes | str, args: list[Any]) -> list[Any]:
        """Calls a function; returns its results as arrays. ValueError for an unknown token."""
        name = token.decode() if isinstance(token, bytes) else token
        func = self._funcs.get(name)
        if func is None:
            raise ValueError("callback %s is not found" % name)
        return self.checked(func, args, name)

    @staticmethod
    def checked(func: Any, args: list[Any], name: str) -> list[Any]:
        """The results of a function as arrays, as many as there are types."""
        # Scalars are passed as NumPy scalars, strings as bytes.
        ret = func.call(*[a[()] if isinstance(a, np.ndarray) and a.ndim == 0 else a for a in args])
        if ret is None:
            ret = []
        results = list(ret) if isinstance(ret, (tuple, list)) else [ret]
        if len(results) != len(func.types):
            raise ValueError(
                "%s returns %d values, but expects to see %d values." % (name, len(results), len(func.types))
            )
        return [_as_array(value) for value in results]


def _as_array(value: Any) -> Any:
    """A result as a contiguous array; the engine checks its type against Tout."""
    result = np.asarray(value, order="C")
    if result.dtype.kind == "U":
        return np.asarray(np.vectorize(lambda x: x.encode("utf8"), otypes=[object])(result), dtype=object)
    return result.astype(object) if result.dtype.kind == "S" else result


class _Function:
    """A Python function with the types of its results."""

    def __init__(self, call: Callable[..., Any], types: list[Any]) -> None:
        self.call = call
        self.types = types


_py_funcs = FuncRegistry()
_engine.set_py_func_callback(_py_funcs)


def _internal_py_func(func: Any, inp: Any, Tout: Any, stateful: bool, name: str | None) -> Any:
    from millrace.python.framework import dtypes

    if not callable(func):
        raise ValueError("Expected func to be callable, got func of type {}".format(type(func)))
    is_list_or_tuple = isinstance(Tout, (list, tuple))
    types = [dtypes.as_dtype(t) for t in (Tout if is_list_or_tuple else [Tout])]
    function = _Function(func, types)
    if ops.executing_eagerly():
        results = _call_at_once(function, inp)
        return results if is_list_or_tuple else results[0] if results else None
    token = _py_funcs.insert(function)
    # Keeps the function alive as long as its op may run.
    ops.get_default_graph()._py_funcs_used_in_graph.append(function)
    fn = gen_script_ops.py_func if stateful else gen_script_ops.py_func_stateless
    result = fn(input=inp, token=token, Tout=types, name=name)
    if is_list_or_tuple or isinstance(result, ops.Operation):
        return result
    return result[0] if isinstance(result, (list, tuple)) else result


def _call_at_once(function: _Function, inp: Any) -> list[Any]:
    """The results as tensors; exceptions become the errors that the op has."""
    from millrace.python.framework import errors_impl

    arrays = [ops.convert_to_tensor(x).numpy() for x in inp]
    try:
        return [
            ops.convert_to_tensor(value, dtype=dtype)
            for value, dtype in zip(_py_funcs.checked(function, arrays, "The function"), function.types)
        ]
    except errors_impl.OpError:
        raise
    except Exception as error:
        kinds: dict[type, Any] = {
            TypeError: errors_impl.InvalidArgumentError,
            ValueError: errors_impl.InvalidArgumentError,
            StopIteration: errors_impl.OutOfRangeError,
            MemoryError: errors_impl.ResourceExhaustedError,
            NotImplementedError: errors_impl.UnimplementedError,
        }
        kind = next((k for of, k in kinds.items() if isinstance(error, of)), None)
        text = "%s: %s" % (type(error).__name__, error)
        if kind is None:
            raise errors_impl.UnknownError(None, None, text) from error
        raise kind(None, None, text) from error


def py_func(func: Any, inp: Any, Tout: Any, stateful: bool = True, name: str | None = None) -> Any:
    """Returns what `func` returns for the values of `inp`, called in this process when the op runs.

    Args:
      func: a function of NumPy arrays that returns an array or a list of arrays.
      inp: a list of tensors.
      Tout: the type of the result, or a list of types.
      stateful: whether calls with equal arguments may return different results.
      name: name of the op.

    Raises:
      ValueError: `func` is not callable.
    """
    return _internal_py_func(func, inp, Tout, stateful, name)


py_func_common = py_func


def numpy_function(func: Any, inp: Any, Tout: Any, name: str | None = None) -> Any:
    """Returns what `func` returns for the values of `inp`; see `py_func`."""
    return py_func(func, inp, Tout, stateful=True, name=name)


class EagerFunc(_Function):
    """A Python function of eager tensors, differentiated through its computation."""

    def __init__(self, func: Callable[..., Any], types: list[Any], is_grad_func: bool = False) -> None:
        super().__init__(self._of_arrays, types)
        self._func = func
        self._is_grad_func = is_grad_func
        self.token = ""

    def _of_tensors(self, tensors: list[Any]) -> list[Any]:
        """The results as tensors of the right types."""
        ret = self._func(*tensors)
        ret = [] if ret is None else list(ret) if isinstance(ret, (tuple, list)) else [ret]
        if len(ret) != len(self.types):
            raise ValueError(
                "%s returns %d values, but expects to see %d values."
                % (self.token or "The function", len(ret), len(self.types))
            )
        return [_as_typed(value, dtype) for value, dtype in zip(ret, self.types)]

    def _of_arrays(self, *arrays: Any) -> list[Any]:
        from millrace.python.eager import backprop, context, tape

        with context.eager_mode(), tape.stop_recording():
            tensors = [ops.convert_to_tensor(a) for a in arrays]
            if self._is_grad_func:
                return [t.numpy() for t in self._of_tensors(tensors)]
            with backprop.GradientTape(persistent=True) as recorded:
                for tensor in tensors:
                    if tensor.dtype.is_floating or tensor.dtype.is_complex:
                        recorded.watch(tensor)
                results = self._of_tensors(tensors)
            tape_cache[self.token] = (recorded, tensors, results)
            return [t.numpy() for t in results]


# The results of the last calls, for their gradients: token -> (tape, arguments, results)
tape_cache: dict[str, Any] = {}


def _as_typed(value: Any, dtype: Any) -> Any:
    from millrace.python.ops import array_ops

    if value is None:
        return array_ops.constant(0.0, dtype=dtype)
    made = ops.convert_to_tensor(value, dtype=dtype) if not isinstance(value, ops.Tensor) else value
    if made.dtype != dtype:
        raise TypeError(
            "The function returned a tensor of type %s, but Tout says %s" % (made.dtype.name, dtype.name)
        )
    return made


def eager_py_func(func: Any, inp: Any, Tout: Any, name: str | None = None) -> Any:
    """Returns what `func` returns for tensors that have the values of `inp`; it is differentiable.

    Args:
      func: a function of EagerTensors that returns (a list of) tensors, arrays or numbers, or None.
      inp: a list of tensors.
      Tout: the type of the result, or a list of types; [] when `func` returns None.
      name: name of the op.

    Raises:
      ValueError: `func` is not callable.
    """
    return _eager_py_func(func, inp, Tout, name, False)


def _eager_py_func(func: Any, inp: Any, Tout: Any, name: str | None, is_grad_func: bool) -> Any:
    from millrace.python.framework import dtypes

    if not callable(func):
        raise ValueError("Expected func to be callable, got func of type {}".format(type(func)))
    is_list = isinstance(Tout, (list, tuple))
    types = [dtypes.as_dtype(t) for t in (Tout if is_list else [Tout])]
    function = EagerFunc(func, types, is_grad_func)
    if ops.executing_eagerly():
        results = function._of_tensors([ops.convert_to_tensor(x) for x in inp])
        return results if is_list else results[0]
    function.token = _py_funcs.insert(function)
    graph = ops.get_default_graph()
    while graph is not None:
        # Keeps the function alive as long as a graph that calls it, or encloses one that does.
        graph._py_funcs_used_in_graph.append(function)
        graph = getattr(graph, "_outer_graph", None)  # type: ignore[assignment]
    result = gen_script_ops.eager_py_func(input=inp, token=function.token, Tout=types, name=name)
    if is_list or isinstance(result, ops.Operation):
        return result
    return result[0] if isinstance(result, (list, tuple)) else result


@ops.RegisterGradient("EagerPyFunc")
def _EagerPyFuncGrad(op: Any, *dy: Any) -> Any:  # noqa: N802
    """The gradient of the last run of the function."""
    token = op.get_attr("token")
    token = token.decode() if isinstance(token, bytes) else token

    def eagerly_executed_grad(*grads: Any) -> Any:
        from millrace.python.ops import array_ops

        recorded, inputs, outputs = tape_cache.pop(token)
        found = recorded.gradient(outputs, inputs, output_gradients=list(grads))
        return [
            array_ops.zeros_like(x) if g is None else ops.convert_to_tensor(g) for g, x in zip(found, inputs)
        ]

    with ops.control_dependencies(op.outputs):
        return _eager_py_func(
            eagerly_executed_grad, list(dy), [t.dtype.base_dtype for t in op.inputs], None, True
        )
