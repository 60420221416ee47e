# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Decorators that record under which public names a symbol is known."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

from millrace.python.util import tf_decorator

ESTIMATOR_API_NAME = "estimator"
KERAS_API_NAME = "keras"
TENSORFLOW_API_NAME = "tensorflow"

_CONSTANTS: Dict[int, List[Tuple[str, ...]]] = {}


class SymbolAlreadyExposedError(Exception):
    """A public name that an earlier symbol has."""


class InvalidSymbolNameError(Exception):
    """A public name that is not allowed."""


class api_export:
    """Decorator that records the names of the API, version 2 in `args` and version 1 in `v1`."""

    def __init__(self, *args: str, **kwargs: Any):
        self._names = args
        self._names_v1: Sequence[str] = kwargs.get("v1", args)
        self._api_name: str = kwargs.get("api_name", TENSORFLOW_API_NAME)
        self._overrides = kwargs.get("overrides", [])
        self._allow_multiple_exports = kwargs.get("allow_multiple_exports", False)

    def __call__(self, func: Any) -> Any:
        target = tf_decorator.unwrap(func)[1]
        try:
            setattr(target, "_tf_api_names", tuple(self._names))
            setattr(target, "_tf_api_names_v1", tuple(self._names_v1))
        except (AttributeError, TypeError):
            pass
        return func

    def export_constant(self, module_name: str, name: str) -> None:
        """Records the names of the constant `name` of a module."""
        _CONSTANTS.setdefault(hash(module_name), []).append((name,) + tuple(self._names))


def tf_export(*args: str, **kwargs: Any) -> api_export:
    """Returns a decorator that records the names `args` (and `v1=[...]`) of the TensorFlow API."""
    return api_export(*args, api_name=TENSORFLOW_API_NAME, **kwargs)


def estimator_export(*args: str, **kwargs: Any) -> api_export:
    """As `tf_export`, for the API of estimators."""
    return api_export(*args, api_name=ESTIMATOR_API_NAME, **kwargs)


def keras_export(*args: str, **kwargs: Any) -> api_export:
    """As `tf_export`, for the API of Keras."""
    return api_export(*args, api_name=KERAS_API_NAME, **kwargs)


def get_canonical_name_for_symbol(
    symbol: Any, api_name: str = TENSORFLOW_API_NAME, add_prefix_to_v1_names: bool = False
) -> Any:
    """Returns the first recorded name of `symbol`, or None."""
    target = tf_decorator.unwrap(symbol)[1]
    names = getattr(target, "_tf_api_names", None) or ()
    if names:
        return names[0]
    names_v1 = getattr(target, "_tf_api_names_v1", None) or ()
    if not names_v1:
        return None
    return ("compat.v1." if add_prefix_to_v1_names else "") + str(names_v1[0])


def get_canonical_name(api_names: Sequence[str], deprecated_api_names: Sequence[str]) -> Any:
    """Returns the first name that is not deprecated."""
    preferred = [n for n in api_names if n not in deprecated_api_names]
    if preferred:
        return preferred[0]
    return api_names[0] if api_names else None


def get_v1_names(symbol: Any) -> List[str]:
    """Returns all recorded names of version 1."""
    return list(getattr(tf_decorator.unwrap(symbol)[1], "_tf_api_names_v1", ()))


def get_v2_names(symbol: Any) -> List[str]:
    """Returns all recorded names of version 2."""
    return list(getattr(tf_decorator.unwrap(symbol)[1], "_tf_api_names", ()))


def get_v1_constants(module: Any) -> List[Tuple[str, ...]]:
    """Returns the constants of a module with their names of version 1."""
    return [entry for entry in _CONSTANTS.get(hash(module.__name__), [])]


def get_v2_constants(module: Any) -> List[Tuple[str, ...]]:
    """Returns the constants of a module with their names of version 2."""
    return get_v1_constants(module)


def kwarg_only(f: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that takes keyword arguments only."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise TypeError(
                "{f} only takes keyword args (possible keys: {kwargs}). Please pass these args as kwargs instead.".format(
                    f=f.__name__, kwargs=f.__code__.co_varnames[: f.__code__.co_argcount]
                )
            )
        return f(**kwargs)

    return tf_decorator.make_decorator(f, wrapper)  # type: ignore[no-any-return]
