# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Decorators that hold a reference to the decorated object."""
from __future__ import annotations

import functools
import sys
from typing import Any, Callable, List, Optional, Tuple


class TFDecorator:
    """A callable that represents `target`, with `decorated_target` and `decorator_name`, its decorator."""

    def __init__(
        self,
        decorator_name: str,
        target: Any,
        decorator_doc: str = "",
        decorator_argspec: Optional[Any] = None,
    ):
        self._decorated_target = target
        self._decorator_name = decorator_name
        self._decorator_doc = decorator_doc
        self._decorator_argspec = decorator_argspec
        if hasattr(target, "__name__"):
            self.__name__ = target.__name__
        if hasattr(target, "__qualname__"):
            self.__qualname__ = target.__qualname__
        if self._decorator_doc:
            self.__doc__ = self._decorator_doc
        elif hasattr(target, "__doc__") and target.__doc__:
            self.__doc__ = target.__doc__
        else:
            self.__doc__ = ""

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self._decorated_target.__get__(instance, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._decorated_target(*args, **kwargs)

    @property
    def decorated_target(self) -> Any:
        return self._decorated_target

    @decorated_target.setter
    def decorated_target(self, decorated_target: Any) -> None:
        self._decorated_target = decorated_target

    @property
    def decorator_name(self) -> str:
        return self._decorator_name

    @property
    def decorator_doc(self) -> str:
        return self._decorator_doc

    @property
    def decorator_argspec(self) -> Any:
        return self._decorator_argspec


def make_decorator(
    target: Any,
    decorator_func: Any,
    decorator_name: Optional[str] = None,
    decorator_doc: str = "",
    decorator_argspec: Optional[Any] = None,
) -> Any:
    """Marks `decorator_func` as a decorator of `target` and returns it with the name and module of `target`."""
    if decorator_name is None:
        decorator_name = sys._getframe(1).f_code.co_name
    decorator = TFDecorator(decorator_name, target, decorator_doc, decorator_argspec)
    setattr(decorator_func, "_tf_decorator", decorator)
    for attribute in ("__name__", "__qualname__", "__module__"):
        if hasattr(target, attribute):
            try:
                setattr(decorator_func, attribute, getattr(target, attribute))
            except (AttributeError, TypeError):
                pass
    try:
        decorator_func.__dict__.update(
            {k: v for k, v in target.__dict__.items() if k not in decorator_func.__dict__}
        )
    except AttributeError:
        pass
    decorator_func.__doc__ = decorator.__doc__
    decorator_func.__wrapped__ = target
    decorator_func.__original_wrapped__ = target
    return decorator_func


def _has_tf_decorator_attr(obj: Any) -> bool:
    return hasattr(obj, "_tf_decorator") and isinstance(getattr(obj, "_tf_decorator"), TFDecorator)


def unwrap(maybe_tf_decorator: Any) -> Tuple[List[TFDecorator], Any]:
    """Returns the decorators around an object, outermost first, and the object itself."""
    decorators: List[TFDecorator] = []
    current = maybe_tf_decorator
    while True:
        if isinstance(current, TFDecorator):
            decorators.append(current)
        elif _has_tf_decorator_attr(current):
            decorators.append(getattr(current, "_tf_decorator"))
        else:
            return decorators, current
        if not hasattr(decorators[-1], "decorated_target"):
            return decorators, current
        current = decorators[-1].decorated_target


def rewrap(decorator_func: Any, previous_target: Any, new_target: Any) -> Any:
    """Replaces `previous_target` by `new_target` under the decorators of `decorator_func`."""
    innermost: Any = None
    current = decorator_func
    while isinstance(current, TFDecorator) or _has_tf_decorator_attr(current):
        innermost = current
        decorator = current if isinstance(current, TFDecorator) else current._tf_decorator
        current = decorator.decorated_target
        if current is previous_target:
            break
    if innermost is None:
        return new_target
    decorator.decorated_target = new_target
    if not isinstance(innermost, TFDecorator):
        getattr(innermost, "__func__", innermost).__wrapped__ = new_target
    return decorator_func


wraps = functools.wraps
