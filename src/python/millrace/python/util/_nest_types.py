# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The definition of sequences, their traversal and reconstruction: the basis of `nest`."""
from __future__ import annotations

import collections
import collections.abc
from typing import Any, Dict, Iterator, List, Tuple

_SEQUENCE = 1
_MAPPING = 2
_MAPPING_VIEW = 4
_ATTRS = 8
_NAMEDTUPLE = 16

_KINDS: Dict[type, int] = {}
_MOST_TYPES = 4096


def _kind_of_type(cls: type) -> int:
    kind = 0
    if issubclass(cls, collections.abc.Mapping):
        kind |= _MAPPING | _SEQUENCE
    elif issubclass(cls, collections.abc.MappingView):
        kind |= _MAPPING_VIEW | _SEQUENCE
    elif issubclass(cls, collections.abc.Sequence) and not issubclass(cls, (str, bytes, bytearray)):
        kind |= _SEQUENCE
    if getattr(cls, "__attrs_attrs__", None) is not None:
        kind |= _ATTRS | _SEQUENCE
    fields = getattr(cls, "_fields", None)
    if issubclass(cls, tuple) and isinstance(fields, tuple) and all(isinstance(f, str) for f in fields):
        kind |= _NAMEDTUPLE
    return kind


def _kind(value: Any) -> int:
    cls = type(value)
    kind = _KINDS.get(cls)
    if kind is None:
        kind = _kind_of_type(cls)
        if len(_KINDS) < _MOST_TYPES:
            _KINDS[cls] = kind
    return kind


def is_sequence(seq: Any) -> bool:
    """True for lists, tuples, mappings, views of mappings and instances of attrs classes; False for strings."""
    return bool(_kind(seq) & _SEQUENCE)


def is_mapping(obj: Any) -> bool:
    """True for mappings."""
    return bool(_kind(obj) & _MAPPING)


_is_mapping = is_mapping


def _is_mapping_view(obj: Any) -> bool:
    return bool(_kind(obj) & _MAPPING_VIEW)


def _is_attrs(obj: Any) -> bool:
    return bool(_kind(obj) & _ATTRS)


def _is_namedtuple(instance: Any, strict: bool = False) -> bool:
    """True for named tuples; with `strict`, not for instances of classes derived from one."""
    if not _kind(instance) & _NAMEDTUPLE:
        return False
    return not strict or type(instance).__bases__ == (tuple,)


_composite_types: List[Any] = []


def _load_composite_types() -> None:
    from millrace.python.framework import composite_tensor, type_spec

    _composite_types[:] = [composite_tensor.CompositeTensor, type_spec.TypeSpec]


def _is_composite_tensor(value: Any) -> bool:
    if _kind(value):
        return False
    if not _composite_types:
        _load_composite_types()
    return isinstance(value, _composite_types[0])


def _is_type_spec(value: Any) -> bool:
    if _kind(value):
        return False
    if not _composite_types:
        _load_composite_types()
    if not isinstance(value, _composite_types[1]):
        return False
    return type(value).__name__ not in ("TensorSpec", "BoundedTensorSpec")


def is_sequence_or_composite(seq: Any) -> bool:
    """As `is_sequence`; True for composite tensors and their specifications, too."""
    return is_sequence(seq) or _is_composite_tensor(seq) or _is_type_spec(seq)


def same_namedtuples(nest1: Any, nest2: Any) -> bool:
    """True when both named tuples have the same name and the same fields."""
    return type(nest1).__name__ == type(nest2).__name__ and type(nest1)._fields == type(nest2)._fields


def _sorted(dict_: Any) -> List[Any]:
    """Returns the sorted keys; raises TypeError when they cannot be compared."""
    try:
        return sorted(dict_.keys())
    except TypeError:
        raise TypeError("nest only supports dicts with sortable keys.") from None


def _attrs_names(instance: Any) -> List[str]:
    return [attribute.name for attribute in type(instance).__attrs_attrs__]


def _sequence_like(instance: Any, args: List[Any]) -> Any:
    """Returns a sequence of the type of `instance` with the values `args` (in the order of `_yield_value`)."""
    cls: Any = type(instance)
    if cls is list:
        return list(args)
    if cls is tuple:
        return tuple(args)
    if _is_mapping(instance):
        values = dict(zip(_sorted(instance), args))
        if isinstance(instance, collections.defaultdict):
            result: Any = cls(instance.default_factory)
            for key in instance:
                result[key] = values[key]
            return result
        return cls((key, values[key]) for key in instance)
    if _is_mapping_view(instance):
        return list(args)
    if _is_attrs(instance):
        return cls(*args) if _positional_attrs(cls) else cls(**dict(zip(_attrs_names(instance), args)))
    if _is_namedtuple(instance):
        return cls(*args)
    if _is_composite_tensor(instance):
        assert len(args) == 1
        spec = instance._type_spec
        return spec._from_components(args[0])
    if _is_type_spec(instance):
        assert len(args) == 1
        return instance._from_components(args[0])
    if isinstance(instance, range):
        return list(args)
    return cls(args)


def _positional_attrs(cls: Any) -> bool:
    return not any(getattr(attribute, "kw_only", False) for attribute in cls.__attrs_attrs__)


def _yield_sorted_items(iterable: Any) -> Iterator[Tuple[Any, Any]]:
    """Yields (key or index or field name, value); mappings in the order of their sorted keys."""
    kind = _kind(iterable)
    if kind == _SEQUENCE:
        yield from enumerate(iterable)
    elif _is_mapping(iterable):
        for key in _sorted(iterable):
            yield key, iterable[key]
    elif _is_attrs(iterable):
        for name in _attrs_names(iterable):
            yield name, getattr(iterable, name)
    elif _is_namedtuple(iterable):
        for field in iterable._fields:
            yield field, getattr(iterable, field)
    elif _is_composite_tensor(iterable):
        spec = iterable._type_spec
        yield type(iterable).__name__, spec._to_components(iterable)
    elif _is_type_spec(iterable):
        yield type(iterable).__name__, iterable._component_specs
    else:
        yield from enumerate(iterable)


def _yield_value(iterable: Any) -> Iterator[Any]:
    """Yields the values of a sequence; those of a mapping in the order of its sorted keys."""
    for _, value in _yield_sorted_items(iterable):
        yield value
