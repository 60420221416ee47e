# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The functions of `inspect`, applied to the functions under decorators of `tf_decorator`."""
from __future__ import annotations

import collections
import functools
import inspect as _inspect
from typing import Any, Dict, NamedTuple, Optional, Tuple

from millrace.python.util import tf_decorator


class ArgSpec(NamedTuple):
    """Arguments of a function that has no keyword-only ones."""

    args: Any
    varargs: Any
    keywords: Any
    defaults: Any


FullArgSpec = _inspect.FullArgSpec


def _convert_maybe_argspec_to_fullargspec(argspec: Any) -> FullArgSpec:
    if isinstance(argspec, _inspect.FullArgSpec):
        return argspec
    return FullArgSpec(
        args=argspec.args,
        varargs=argspec.varargs,
        varkw=argspec.keywords,
        defaults=argspec.defaults,
        kwonlyargs=[],
        kwonlydefaults=None,
        annotations={},
    )


def _spec_of_decorators(obj: Any) -> Tuple[Optional[Any], Any]:
    decorators, target = tf_decorator.unwrap(obj)
    for decorator in decorators:
        if decorator.decorator_argspec is not None:
            return decorator.decorator_argspec, target
    return None, target


def getfullargspec(obj: Any) -> FullArgSpec:
    """Returns the arguments of a function, of a method or of `__init__`/`__call__` of an object."""
    spec, target = _spec_of_decorators(obj)
    if spec is not None:
        return _convert_maybe_argspec_to_fullargspec(spec)
    try:
        return _full_spec(target)
    except TypeError:
        pass
    if isinstance(target, type):
        return _full_spec(getattr(target, "__init__"))
    return _full_spec(type(target).__call__)


def _full_spec(target: Any) -> FullArgSpec:
    if isinstance(target, type):
        return _inspect.getfullargspec(getattr(target, "__init__"))
    if isinstance(target, functools.partial):
        return _partial_spec(target)
    return _inspect.getfullargspec(target)


def _partial_spec(target: Any) -> FullArgSpec:
    inner = getfullargspec(target.func)
    args = list(inner.args)
    defaults: Dict[str, Any] = dict(zip(args[len(args) - len(inner.defaults or ()) :], inner.defaults or ()))
    args = args[len(target.args) :]
    defaults.update(target.keywords or {})
    first = next((i for i, name in enumerate(args) if name in defaults), len(args))
    positional = args[:first] + [a for a in args[first:] if a in defaults]
    missing = [a for a in args[first:] if a not in defaults]
    if missing:
        raise ValueError(
            "Some arguments %s do not have default value, but they are positioned after those with default "
            "values. This can not be expressed with ArgSpec." % missing
        )
    return FullArgSpec(
        args=positional,
        varargs=inner.varargs,
        varkw=inner.varkw,
        defaults=tuple(defaults[a] for a in positional[first:]) or None,
        kwonlyargs=inner.kwonlyargs,
        kwonlydefaults=inner.kwonlydefaults,
        annotations=inner.annotations,
    )


def _getargspec(target: Any) -> ArgSpec:
    full = _full_spec(target)
    return ArgSpec(args=full.args, varargs=full.varargs, keywords=full.varkw, defaults=full.defaults)


def getargspec(obj: Any) -> ArgSpec:
    """As `getfullargspec`, in the format of Python 2 (without keyword-only arguments)."""
    full = getfullargspec(obj)
    return ArgSpec(args=full.args, varargs=full.varargs, keywords=full.varkw, defaults=full.defaults)


def getcallargs(*func_and_positional: Any, **named: Any) -> Dict[str, Any]:
    """Returns the values to which the arguments would be bound in the call func(*positional, **named)."""
    func, positional = func_and_positional[0], func_and_positional[1:]
    spec = getfullargspec(func)
    call_args = dict(named)
    this = getattr(func, "im_self", None) or getattr(func, "__self__", None)
    if ismethod(func) and this:
        positional = (this,) + positional
    remaining = [name for name in spec.args if name not in call_args]
    call_args.update(dict(zip(remaining, positional)))
    if spec.defaults:
        for name, value in zip(spec.args[len(spec.args) - len(spec.defaults) :], spec.defaults):
            call_args.setdefault(name, value)
    if spec.kwonlydefaults:
        for name, value in spec.kwonlydefaults.items():
            call_args.setdefault(name, value)
    return call_args


def getdoc(obj: Any) -> Optional[str]:
    return _inspect.getdoc(obj)


def getfile(obj: Any) -> str:
    target = tf_decorator.unwrap(obj)[1]
    return _inspect.getsourcefile(target) or _inspect.getfile(target)


def getmembers(obj: Any, predicate: Any = None) -> Any:
    return _inspect.getmembers(obj, predicate)


def getmodule(obj: Any) -> Any:
    return _inspect.getmodule(obj)


def getmro(cls: Any) -> Any:
    return _inspect.getmro(cls)


def getsource(obj: Any) -> str:
    return _inspect.getsource(tf_decorator.unwrap(obj)[1])


def getsourcefile(obj: Any) -> Any:
    return _inspect.getsourcefile(tf_decorator.unwrap(obj)[1])


def getsourcelines(obj: Any) -> Any:
    return _inspect.getsourcelines(tf_decorator.unwrap(obj)[1])


def isanytargetmethod(obj: Any) -> bool:
    """True when an object or any function under its decorators is a method."""
    decorators, target = tf_decorator.unwrap(obj)
    return any(_inspect.ismethod(d.decorated_target) for d in decorators) or _inspect.ismethod(target)


def isbuiltin(obj: Any) -> bool:
    return _inspect.isbuiltin(tf_decorator.unwrap(obj)[1])


def isclass(obj: Any) -> bool:
    return _inspect.isclass(tf_decorator.unwrap(obj)[1])


def isfunction(obj: Any) -> bool:
    return _inspect.isfunction(tf_decorator.unwrap(obj)[1])


def isframe(obj: Any) -> bool:
    return _inspect.isframe(tf_decorator.unwrap(obj)[1])


def isgenerator(obj: Any) -> bool:
    return _inspect.isgenerator(tf_decorator.unwrap(obj)[1])


def isgeneratorfunction(obj: Any) -> bool:
    return _inspect.isgeneratorfunction(tf_decorator.unwrap(obj)[1])


def ismethod(obj: Any) -> bool:
    return _inspect.ismethod(tf_decorator.unwrap(obj)[1])


def ismodule(obj: Any) -> bool:
    return _inspect.ismodule(tf_decorator.unwrap(obj)[1])


def isroutine(obj: Any) -> bool:
    return _inspect.isroutine(tf_decorator.unwrap(obj)[1])


currentframe = _inspect.currentframe
stack = _inspect.stack
getargvalues = _inspect.getargvalues
signature = _inspect.signature
Parameter = _inspect.Parameter
_OrderedDict = collections.OrderedDict


def getframeinfo(frame: Any, context: int = 1) -> Any:
    """The properties of a frame: file, line, function, text."""
    return _inspect.getframeinfo(frame, context)


def isdatadescriptor(obj: Any) -> bool:
    """Whether it is a data descriptor."""
    return _inspect.isdatadescriptor(obj)


def ismethoddescriptor(obj: Any) -> bool:
    """Whether it is a method descriptor."""
    return _inspect.ismethoddescriptor(obj)


def istraceback(obj: Any) -> bool:
    """Whether it is a traceback."""
    return _inspect.istraceback(obj)


def isabstract(obj: Any) -> bool:
    """Whether it is an abstract class."""
    return _inspect.isabstract(obj)


def trace(context: int = 1) -> Any:
    """The frames between the caller and where the current exception was raised."""
    return _inspect.trace(context)
