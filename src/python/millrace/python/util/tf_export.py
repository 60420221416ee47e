# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Decorators that record the public names of a symbol."""
from __future__ import annotations

import collections
import sys
from typing import Any, Callable, List, Sequence, Tuple

from millrace.python.util import tf_decorator

ESTIMATOR_API_NAME = "estimator"
KERAS_API_NAME = "keras"
TENSORFLOW_API_NAME = "tensorflow"
SUBPACKAGE_NAMESPACES = [ESTIMATOR_API_NAME]

_Attributes = collections.namedtuple("_Attributes", ["names", "constants"])

API_ATTRS = {
    TENSORFLOW_API_NAME: _Attributes("_tf_api_names", "_tf_api_constants"),
    ESTIMATOR_API_NAME: _Attributes("_estimator_api_names", "_estimator_api_constants"),
    KERAS_API_NAME: _Attributes("_keras_api_names", "_keras_api_constants"),
}
API_ATTRS_V1 = {
    name: _Attributes(attributes.names + "_v1", attributes.constants + "_v1")
    for name, attributes in API_ATTRS.items()
}


class SymbolAlreadyExposedError(Exception):
    """A symbol that has public names already."""


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
        names = set(self._names) | set(self._names_v1)
        if self._api_name == TENSORFLOW_API_NAME:
            for package in SUBPACKAGE_NAMESPACES:
                if any(name.startswith(package) for name in names):
                    raise InvalidSymbolNameError(
                        "@tf_export is not allowed to export symbols under %s.*" % package
                    )
        elif not all(name.startswith(self._api_name) for name in names):
            raise InvalidSymbolNameError(
                "Can only export symbols under package name of component. e.g. tensorflow_estimator must export all "
                "symbols under tf.estimator"
            )

    def __call__(self, func: Any) -> Any:
        attributes = (API_ATTRS[self._api_name].names, API_ATTRS_V1[self._api_name].names)
        for overridden in self._overrides:
            for attribute in attributes:
                delattr(tf_decorator.unwrap(overridden)[1], attribute)
        target = tf_decorator.unwrap(func)[1]
        for attribute, names in zip(attributes, (self._names, self._names_v1)):
            if attribute in target.__dict__ and not self._allow_multiple_exports:
                raise SymbolAlreadyExposedError(
                    "Symbol %s is already exposed as %s." % (target.__name__, getattr(target, attribute))
                )
            setattr(target, attribute, tuple(names))
        return func

    def export_constant(self, module_name: str, name: str) -> None:
        """Records the names of the constant `name` of a module."""
        module = sys.modules[module_name]
        for attributes, names in ((API_ATTRS, self._names), (API_ATTRS_V1, self._names_v1)):
            attribute = attributes[self._api_name].constants
            if not hasattr(module, attribute):
                setattr(module, attribute, [])
            getattr(module, attribute).append((tuple(names), name))


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
    """Returns the first recorded name of `symbol` that is not deprecated, or None."""
    if not hasattr(symbol, "__dict__"):
        return None
    recorded = tf_decorator.unwrap(symbol)[1].__dict__
    if API_ATTRS[api_name].names not in recorded:
        return None
    deprecated = recorded.get("_tf_deprecated_api_names", [])
    name = get_canonical_name(recorded[API_ATTRS[api_name].names], deprecated)
    if name:
        return name
    name = get_canonical_name(recorded[API_ATTRS_V1[api_name].names], deprecated)
    return "compat.v1.%s" % name if add_prefix_to_v1_names else name


def get_canonical_name(api_names: Sequence[str], deprecated_api_names: Sequence[str]) -> Any:
    """Returns the first name that is not deprecated."""
    preferred = [n for n in api_names if n not in deprecated_api_names]
    if preferred:
        return preferred[0]
    return api_names[0] if api_names else None


def _recorded(owner: Any, attributes: Any, kind: str) -> List[Any]:
    found: List[Any] = []
    for api_name in (TENSORFLOW_API_NAME, ESTIMATOR_API_NAME, KERAS_API_NAME):
        found.extend(getattr(owner, getattr(attributes[api_name], kind), ()))
    return found


def get_v1_names(symbol: Any) -> List[str]:
    """Returns all recorded names of version 1."""
    return _recorded(tf_decorator.unwrap(symbol)[1], API_ATTRS_V1, "names")


def get_v2_names(symbol: Any) -> List[str]:
    """Returns all recorded names of version 2."""
    return _recorded(tf_decorator.unwrap(symbol)[1], API_ATTRS, "names")


def get_v1_constants(module: Any) -> List[Tuple[Tuple[str, ...], str]]:
    """Returns the constants of a module, each after its names of version 1."""
    return _recorded(module, API_ATTRS_V1, "constants")


def get_v2_constants(module: Any) -> List[Tuple[Tuple[str, ...], str]]:
    """Returns the constants of a module, each after its names of version 2."""
    return _recorded(module, API_ATTRS, "constants")


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
