# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Structures of datasets: tuples, named tuples, dicts and attrs classes. Lists are values, which become tensors."""
from __future__ import annotations

import collections.abc
from typing import Any, Callable, Iterator

from millrace.python.framework import sparse_tensor


def _is_attrs(value: Any) -> bool:
    return hasattr(type(value), "__attrs_attrs__")


def is_sequence(value: Any) -> bool:
    """Whether a value has parts: all structures but lists and sparse tensors."""
    if isinstance(value, sparse_tensor.SparseTensorValue):
        return False
    return isinstance(value, (tuple, collections.abc.Mapping)) or _is_attrs(value)


is_nested = is_sequence


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, collections.abc.Mapping):
        for key in sorted(value):
            yield value[key]
    elif isinstance(value, sparse_tensor.SparseTensorValue):
        yield value
    elif _is_attrs(value):
        for attribute in type(value).__attrs_attrs__:
            yield getattr(value, attribute.name)
    else:
        yield from value


def _like(structure: Any, parts: list[Any]) -> Any:
    if isinstance(structure, collections.abc.Mapping):
        made = dict(zip(sorted(structure), parts))
        ordered = [(key, made[key]) for key in structure]
        kind: Any = type(structure)
        return kind(ordered)
    if hasattr(structure, "_fields") or _is_attrs(structure):
        return type(structure)(*parts)
    return type(structure)(parts)


def flatten(structure: Any) -> list[Any]:
    """The parts in order; those of dicts by key."""
    if not is_sequence(structure):
        return [structure]
    return [leaf for part in _parts(structure) for leaf in flatten(part)]


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Checks that two structures have the same form.

    Raises:
      ValueError: they have another number of parts or other depths.
      TypeError: their parts are of other classes, where `check_types` is set.
    """
    if is_sequence(nest1) != is_sequence(nest2):
        raise ValueError(
            "The two structures don't have the same nested structure. First structure: %s, second structure: %s."
            % (nest1, nest2)
        )
    if not is_sequence(nest1):
        return
    if check_types:
        same = type(nest1) is type(nest2) or (
            isinstance(nest1, collections.abc.Mapping) and isinstance(nest2, collections.abc.Mapping)
        )
        if not same:
            raise TypeError(
                "The two structures don't have the same sequence type. First structure has type %s, while second "
                "structure has type %s." % (type(nest1), type(nest2))
            )
        if isinstance(nest1, collections.abc.Mapping) and set(nest1) != set(nest2):
            raise ValueError(
                "The two dictionaries don't have the same set of keys. First structure has keys %s, while second "
                "structure has keys %s" % (sorted(nest1), sorted(nest2))
            )
    parts1, parts2 = list(_parts(nest1)), list(_parts(nest2))
    if len(parts1) != len(parts2):
        raise ValueError(
            "The two structures don't have the same number of elements. First structure: %s, second structure: %s."
            % (nest1, nest2)
        )
    for part1, part2 in zip(parts1, parts2):
        assert_same_structure(part1, part2, check_types)


def _pack(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_sequence(structure):
        return next(leaves)
    return _like(structure, [_pack(part, leaves) for part in _parts(structure)])


def pack_sequence_as(structure: Any, flat_sequence: Any) -> Any:
    """A structure of the same form with other parts.

    Raises:
      TypeError: `flat_sequence` is no list or tuple.
      ValueError: it has another number of parts.
    """
    if not isinstance(flat_sequence, (list, tuple)):
        raise TypeError("flat_sequence must be a sequence")
    if not is_sequence(structure):
        if len(flat_sequence) != 1:
            raise ValueError("Structure is a scalar but len(flat_sequence) == %d > 1" % len(flat_sequence))
        return flat_sequence[0]
    count = len(flatten(structure))
    if count != len(flat_sequence):
        raise ValueError(
            "Could not pack sequence. Structure had %d elements, but flat_sequence had %d elements.  Structure: %s, "
            "flat_sequence: %s." % (count, len(flat_sequence), structure, flat_sequence)
        )
    return _pack(structure, iter(flat_sequence))


def map_structure(func: Callable[..., Any], *structure: Any, **check_types_dict: Any) -> Any:
    """Calls a function with the parts of structures; returns a structure of the results."""
    if not callable(func):
        raise TypeError("func must be callable, got: %s" % func)
    if not structure:
        raise ValueError("Must provide at least one structure")
    if set(check_types_dict) - {"check_types"}:
        raise ValueError("Only valid keyword argument is check_types")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types=check_types_dict.get("check_types", True))
    flat = zip(*[flatten(s) for s in structure])
    return pack_sequence_as(structure[0], [func(*leaves) for leaves in flat])


def assert_shallow_structure(shallow_tree: Any, input_tree: Any, check_types: bool = True) -> None:
    """Checks that `input_tree` has the form of `shallow_tree` down to its depth."""
    if not is_sequence(shallow_tree):
        return
    if not is_sequence(input_tree):
        raise TypeError(
            "If shallow structure is a sequence, input must also be a sequence. Input has type: %s."
            % type(input_tree)
        )
    if check_types and not isinstance(input_tree, type(shallow_tree)):
        raise TypeError(
            "The two structures don't have the same sequence type. Input structure has type %s, while shallow structure "
            "has type %s." % (type(input_tree), type(shallow_tree))
        )
    if len(list(_parts(input_tree))) != len(list(_parts(shallow_tree))):
        raise ValueError(
            "The two structures don't have the same sequence length. Input structure has length %s, while shallow "
            "structure has length %s." % (len(list(_parts(input_tree))), len(list(_parts(shallow_tree))))
        )
    if (
        check_types
        and isinstance(shallow_tree, collections.abc.Mapping)
        and set(input_tree) != set(shallow_tree)
    ):
        raise ValueError(
            "The two structures don't have the same keys. Input structure has keys %s, while shallow structure has keys "
            "%s." % (sorted(input_tree), sorted(shallow_tree))
        )
    for shallow, part in zip(_parts(shallow_tree), _parts(input_tree)):
        assert_shallow_structure(shallow, part, check_types=check_types)


def _flatten_up_to(shallow_tree: Any, input_tree: Any) -> Iterator[Any]:
    if not is_sequence(shallow_tree):
        yield input_tree
        return
    for shallow, part in zip(_parts(shallow_tree), _parts(input_tree)):
        yield from _flatten_up_to(shallow, part)


def flatten_up_to(shallow_tree: Any, input_tree: Any) -> list[Any]:
    """The parts of `input_tree` at the positions of the parts of `shallow_tree`."""
    assert_shallow_structure(shallow_tree, input_tree)
    return list(_flatten_up_to(shallow_tree, input_tree))


def map_structure_up_to(shallow_tree: Any, func: Callable[..., Any], *inputs: Any) -> Any:
    """map_structure of parts down to the depth of `shallow_tree`."""
    if not inputs:
        raise ValueError("Argument `inputs` is empty. Cannot map over no sequences.")
    for input_tree in inputs:
        assert_shallow_structure(shallow_tree, input_tree)
    flat = zip(*[flatten_up_to(shallow_tree, tree) for tree in inputs])
    return pack_sequence_as(shallow_tree, [func(*leaves) for leaves in flat])
