# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Conversion of Python values to tensors."""
from __future__ import annotations

import threading
from typing import Any, Optional

import numpy as np

from millrace.python import _engine
from millrace.python.framework import dtypes

_TensorBase = _engine.TensorBase
_EagerTensorBase = _engine.EagerTensorBase

# priority -> list of (types, function); a cache by exact type, so that each type is looked up once.
_registry: dict[int, list[tuple[Any, Any]]] = {}
_cache: dict[type, list[tuple[Any, Any]]] = {}
_lock = threading.Lock()
_UNCONVERTIBLE_TYPES = (int, float, np.generic, np.ndarray)


def register_tensor_conversion_function(base_type: Any, conversion_func: Any, priority: int = 100) -> None:
    """Registers `conversion_func(value, dtype=None, name=None, as_ref=False)` for values of a type.

    Functions of smaller priority are tried first; after one that returns NotImplemented the next is tried.
    """
    types = base_type if isinstance(base_type, tuple) else (base_type,)
    if not all(isinstance(t, type) for t in types):
        raise TypeError("base_type must be a type or a tuple of types.")
    if any(issubclass(t, _UNCONVERTIBLE_TYPES) for t in types):
        raise TypeError("Cannot register conversions for Python numeric types and NumPy scalars and arrays.")
    if not callable(conversion_func):
        raise TypeError("conversion_func must be callable.")
    with _lock:
        _registry.setdefault(priority, []).append((base_type, conversion_func))
        _cache.clear()


def register_builtin_conversion(base_type: Any, conversion_func: Any, priority: int = 100) -> None:
    """As register_tensor_conversion_function, for numbers and arrays, too."""
    with _lock:
        _registry.setdefault(priority, []).append((base_type, conversion_func))
        _cache.clear()


def get_tensor_conversion_functions(query: type) -> list[tuple[Any, Any]]:
    """The functions for a type, in their order."""
    found = _cache.get(query)
    if found is None:
        if issubclass(query, (list, tuple)):
            # Registers the packing of lists that hold tensors.
            from millrace.python.ops import array_ops  # noqa: F401
        with _lock:
            found = [
                entry
                for _, entries in sorted(_registry.items())
                for entry in entries
                if issubclass(query, entry[0])
            ]
            _cache[query] = found
    return found


def _error(name: Optional[str], text: str) -> str:
    return "Error converting %s: %s" % (name, text) if name else text


def convert_to_tensor(
    value: Any, dtype: Any = None, name: Any = None, preferred_dtype: Any = None, dtype_hint: Any = None
) -> Any:
    """`value` as a Tensor: Tensors, arrays, numbers, lists, and types with a registered conversion function.

    Args:
      value: the value.
      dtype: the type the tensor must have; None: the value's own.
      name: of a new operation.
      preferred_dtype: tried when dtype is None.
      dtype_hint: another name of preferred_dtype.

    Raises:
      TypeError: if there is no conversion.
      ValueError: if the value has another type than dtype, or belongs to another graph.
    """
    return internal_convert_to_tensor(
        value, dtype, name, as_ref=False, preferred_dtype=preferred_dtype or dtype_hint
    )


def convert_to_tensor_v2(value: Any, dtype: Any = None, dtype_hint: Any = None, name: Any = None) -> Any:
    """convert_to_tensor with the arguments in another order."""
    return internal_convert_to_tensor(value, dtype, name, as_ref=False, preferred_dtype=dtype_hint)


def _captured(value: Any, name: Any = None) -> Any:
    """The tensor that represents an eager tensor in the function that is being built."""
    from millrace.python.framework import ops

    graph = ops.get_default_graph()
    if not graph.building_function:
        raise RuntimeError("Attempting to capture an EagerTensor without building a function.")
    return graph.capture(value, name=name)


def internal_convert_to_tensor(
    value: Any,
    dtype: Any = None,
    name: Any = None,
    as_ref: bool = False,
    preferred_dtype: Any = None,
    ctx: Any = None,
    accepted_result_types: Any = None,
    accept_symbolic_tensors: bool = True,
    accept_composite_tensors: bool = False,
) -> Any:
    if dtype is not None:
        dtype = dtypes.as_dtype(dtype)
    if isinstance(value, _TensorBase):
        if isinstance(value, _EagerTensorBase) and not _engine.executing_eagerly():
            value = _captured(value, name)
        elif (
            not accept_symbolic_tensors
            and _engine.executing_eagerly()
            and not isinstance(value, _EagerTensorBase)
        ):
            from millrace.python.eager import core

            raise core._SymbolicException
        if dtype is not None and not dtype.is_compatible_with(value.dtype):
            raise ValueError(
                "Tensor conversion requested dtype %s for Tensor with dtype %s: %r"
                % (dtype.name, value.dtype.name, value)
            )
        return value
    if preferred_dtype is not None:
        preferred_dtype = dtypes.as_dtype(preferred_dtype)
    for base_type, function in get_tensor_conversion_functions(type(value)):
        result = NotImplemented
        if dtype is None and preferred_dtype is not None:
            try:
                result = function(value, dtype=preferred_dtype, name=name, as_ref=as_ref)
            except (TypeError, ValueError):
                result = NotImplemented
            else:
                if result is not NotImplemented and result.dtype.base_dtype != preferred_dtype.base_dtype:
                    raise TypeError(
                        "convert_to_tensor did not convert to the preferred dtype: %s vs %s "
                        % (result.dtype.base_dtype, preferred_dtype.base_dtype)
                    )
        if result is NotImplemented:
            result = function(value, dtype=dtype, name=name, as_ref=as_ref)
        if result is NotImplemented:
            continue
        if not isinstance(result, accepted_result_types or _TensorBase) and not (
            accept_composite_tensors and hasattr(result, "_type_spec")
        ):
            raise RuntimeError(
                _error(
                    name,
                    "Conversion function %r for type %s returned non-Tensor: %r"
                    % (function, base_type, result),
                )
            )
        if dtype and not dtype.is_compatible_with(result.dtype):
            raise RuntimeError(
                _error(
                    name,
                    "Conversion function %r for type %s returned incompatible dtype: requested = %s, actual = %s"
                    % (function, base_type, dtype.name, result.dtype.name),
                )
            )
        return result
    raise TypeError(
        _error(
            name,
            "Cannot convert %r with type %s to Tensor: no conversion function registered."
            % (value, type(value)),
        )
    )


def internal_convert_n_to_tensor(
    values: Any,
    dtype: Any = None,
    name: Any = None,
    as_ref: bool = False,
    preferred_dtype: Any = None,
    ctx: Any = None,
) -> list[Any]:
    if not isinstance(values, (list, tuple)) and not hasattr(values, "__iter__"):
        raise TypeError("values must be a list.")
    return [
        internal_convert_to_tensor(
            value,
            dtype,
            None if name is None else "%s_%d" % (name, i),
            as_ref=as_ref,
            preferred_dtype=preferred_dtype,
        )
        for i, value in enumerate(values)
    ]


def convert_n_to_tensor(
    values: Any, dtype: Any = None, name: Any = None, preferred_dtype: Any = None
) -> list[Any]:
    """convert_to_tensor of each value."""
    return internal_convert_n_to_tensor(values, dtype, name, as_ref=False, preferred_dtype=preferred_dtype)


def _is_composite(value: Any) -> bool:
    from millrace.python.framework import composite_tensor

    return isinstance(value, composite_tensor.CompositeTensor)


def internal_convert_to_tensor_or_composite(
    value: Any, dtype: Any = None, name: Any = None, as_ref: bool = False
) -> Any:
    if _is_composite(value):
        value_dtype = getattr(value, "dtype", None)
        if dtype and not dtypes.as_dtype(dtype).is_compatible_with(value_dtype):
            raise ValueError(
                "Tensor conversion requested dtype %s for Tensor with dtype %s: %r"
                % (dtypes.as_dtype(dtype).name, value.dtype.name, str(value))
            )
        return value
    return internal_convert_to_tensor(value, dtype, name, as_ref=as_ref, accept_composite_tensors=True)


def convert_to_tensor_or_composite(value: Any, dtype: Any = None, name: Any = None) -> Any:
    """`value` as a tensor; sparse tensors and indexed slices are returned unchanged."""
    return internal_convert_to_tensor_or_composite(value, dtype, name, as_ref=False)


def internal_convert_n_to_tensor_or_composite(
    values: Any, dtype: Any = None, name: Any = None, as_ref: bool = False
) -> list[Any]:
    if not hasattr(values, "__iter__"):
        raise TypeError("values must be a sequence.")
    return [
        None
        if value is None
        else internal_convert_to_tensor_or_composite(
            value, dtype, None if name is None else "%s_%d" % (name, i), as_ref
        )
        for i, value in enumerate(values)
    ]


def convert_n_to_tensor_or_composite(values: Any, dtype: Any = None, name: Any = None) -> list[Any]:
    return internal_convert_n_to_tensor_or_composite(values, dtype, name, as_ref=False)


internal_convert_to_tensor_or_indexed_slices = internal_convert_to_tensor_or_composite
convert_to_tensor_or_indexed_slices = convert_to_tensor_or_composite
internal_convert_n_to_tensor_or_indexed_slices = internal_convert_n_to_tensor_or_composite
convert_n_to_tensor_or_indexed_slices = convert_n_to_tensor_or_composite
