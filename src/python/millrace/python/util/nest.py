# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions on nested structures.

A structure is a leaf or a sequence of structures: a list, tuple, named tuple, mapping (walked in the order of its
sorted keys) or instance of a class made by attrs. Strings, arrays and tensors are leaves. With `expand_composites`,
composite tensors (sparse tensors, indexed slices) are walked into their component tensors.
"""
from __future__ import annotations

import collections
import collections.abc
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Type

from millrace.python.util._nest_shallow import (  # noqa: F401
    _IF_SHALLOW_IS_SEQ_INPUT_MUST_BE_SEQ,
    _INPUT_TREE_SMALLER_THAN_SHALLOW_TREE,
    _SHALLOW_TREE_HAS_INVALID_KEYS,
    _STRUCTURES_HAVE_MISMATCHING_LENGTHS,
    _STRUCTURES_HAVE_MISMATCHING_TYPES,
    assert_shallow_structure,
    flatten_up_to,
    flatten_with_tuple_paths_up_to,
    get_traverse_shallow_structure,
    map_structure_up_to,
    map_structure_with_tuple_paths_up_to,
)
from millrace.python.util._nest_types import (  # noqa: F401
    _is_attrs,
    _is_composite_tensor,
    _is_mapping,
    _is_mapping_view,
    _is_namedtuple,
    _is_type_spec,
    _sequence_like,
    _sorted,
    _yield_sorted_items,
    _yield_value,
    is_mapping,
    is_sequence,
    is_sequence_or_composite,
    same_namedtuples,
)

is_nested = is_sequence
is_nested_or_composite = is_sequence_or_composite


class _DotString:
    """Prints as a dot, which represents a leaf in printed structures."""

    def __str__(self) -> str:
        return "."

    def __repr__(self) -> str:
        return "."


_DOT = _DotString()


def flatten(structure: Any, expand_composites: bool = False) -> List[Any]:
    """Returns the leaves of `structure` as a list; a leaf becomes a list of itself.

    Raises TypeError when a mapping has keys that cannot be sorted.
    """
    test = is_sequence_or_composite if expand_composites else is_sequence
    result: List[Any] = []
    if not test(structure):
        return [structure]
    _flatten_into(structure, test, result)
    return result


def _flatten_into(structure: Any, test: Callable[[Any], bool], result: List[Any]) -> None:
    if type(structure) in (list, tuple):
        for value in structure:
            if test(value):
                _flatten_into(value, test, result)
            else:
                result.append(value)
        return
    for value in _yield_value(structure):
        if test(value):
            _flatten_into(value, test, result)
        else:
            result.append(value)


def _describe(value: Any) -> str:
    return "type=%s str=%s" % (type(value).__name__, str(value))


class _Mismatch(Exception):
    """Raised when two structures differ; `kind` is the class of the exception for the caller."""

    def __init__(self, kind: Type[Exception], text: str):
        super().__init__(text)
        self.kind = kind
        self.text = text


def _check_types_agree(nest1: Any, nest2: Any) -> None:
    type1, type2 = type(nest1), type(nest2)
    plain = is_sequence(nest1) and is_sequence(nest2)
    if plain and (type1 is type2 or _is_mapping(nest1) and _is_mapping(nest2)):
        return
    if not plain:
        _check_composites_agree(nest1, nest2)
        return
    if _is_mapping_view(nest1) and _is_mapping_view(nest2):
        return
    if _is_namedtuple(nest1) and _is_namedtuple(nest2):
        if same_namedtuples(nest1, nest2):
            return
        raise _Mismatch(
            TypeError,
            "The two namedtuples don't have the same sequence type. First structure %s has type %s, while second "
            "structure %s has type %s" % (_describe(nest1), type1.__name__, _describe(nest2), type2.__name__),
        )
    if isinstance(nest1, list) and isinstance(nest2, list):
        return
    raise _Mismatch(
        TypeError,
        "The two structures don't have the same sequence type. First structure %s has type %s, while second "
        "structure %s has type %s" % (_describe(nest1), type1.__name__, _describe(nest2), type2.__name__),
    )


def _spec_of(value: Any) -> Any:
    return value if _is_type_spec(value) else value._type_spec


def _check_composites_agree(nest1: Any, nest2: Any) -> None:
    both = all(_is_composite_tensor(n) or _is_type_spec(n) for n in (nest1, nest2))
    if not both:
        raise _Mismatch(
            TypeError,
            "The two structures don't have the same nested structure: %s is a composite tensor, %s is not"
            % (
                (_describe(nest1), _describe(nest2))
                if _is_composite_tensor(nest1)
                else (_describe(nest2), _describe(nest1))
            ),
        )
    spec1, spec2 = _spec_of(nest1), _spec_of(nest2)
    if spec1 is spec2 or type(spec1) is type(spec2) and spec1.is_compatible_with(spec2):
        return
    try:
        spec1.most_specific_compatible_type(spec2)
    except (TypeError, ValueError) as error:
        raise _Mismatch(
            TypeError, "Incompatible CompositeTensor TypeSpecs: %s vs. %s -- %s" % (spec1, spec2, error)
        )


def _same_structure(nest1: Any, nest2: Any, check_types: bool, test: Callable[[Any], bool]) -> None:
    seq1, seq2 = test(nest1), test(nest2)
    if seq1 != seq2:
        inner, leaf = (nest1, nest2) if seq1 else (nest2, nest1)
        raise _Mismatch(
            ValueError,
            'Substructure "%s" is a sequence, while substructure "%s" is not'
            % (_describe(inner), _describe(leaf)),
        )
    if not seq1:
        return
    if check_types:
        _check_types_agree(nest1, nest2)
    if _is_mapping(nest1) and _is_mapping(nest2) and set(nest1) != set(nest2):
        raise _Mismatch(
            ValueError,
            "The two dictionaries don't have the same set of keys. First structure has keys %s, while second structure "
            "has keys %s" % (_describe(list(nest1)), _describe(list(nest2))),
        )
    values1, values2 = list(_yield_value(nest1)), list(_yield_value(nest2))
    if len(values1) != len(values2):
        raise _Mismatch(
            ValueError,
            "The two structures don't have the same number of elements. First structure: %s. Second structure: %s"
            % (_describe(nest1), _describe(nest2)),
        )
    for value1, value2 in zip(values1, values2):
        _same_structure(value1, value2, check_types, test)


def assert_same_structure(
    nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Checks that two structures are nested in the same way.

    With `check_types`, sequences must also be of the same type (mappings of any type agree, as do named tuples with
    the same name and fields). Raises ValueError where the nesting differs, TypeError where types do.
    """
    test = is_sequence_or_composite if expand_composites else is_sequence
    try:
        _same_structure(nest1, nest2, bool(check_types), test)
    except _Mismatch as mismatch:
        shape1 = str(map_structure(lambda _: _DOT, nest1))
        shape2 = str(map_structure(lambda _: _DOT, nest2))
        raise mismatch.kind(
            "The two structures don't have the same nested structure.\n\nFirst structure: %s\n\nSecond structure: %s\n\n"
            "More specifically: %s\nEntire first structure:\n%s\nEntire second structure:\n%s"
            % (_describe(nest1), _describe(nest2), mismatch.text, shape1, shape2)
        ) from None


def flatten_dict_items(dictionary: Any) -> Dict[Any, Any]:
    """Returns a dictionary in which keys and values that are structures of equal shape are flattened.

    Raises TypeError when `dictionary` is none, ValueError when a key and its value differ in shape or a key comes twice.
    """
    if not isinstance(dictionary, collections.abc.Mapping):
        raise TypeError("input must be a dictionary")
    flat: Dict[Any, Any] = {}
    for key, value in dictionary.items():
        if not is_sequence(key):
            if key in flat:
                raise ValueError("Could not flatten dictionary: key %s is not unique." % key)
            flat[key] = value
            continue
        keys, values = flatten(key), flatten(value)
        if len(keys) != len(values):
            raise ValueError(
                "Could not flatten dictionary. Key had %d elements, but value had %d elements. Key: %s, value: %s."
                % (len(keys), len(values), keys, values)
            )
        for one_key, one_value in zip(keys, values):
            if one_key in flat:
                raise ValueError("Could not flatten dictionary: key %s is not unique." % (one_key,))
            flat[one_key] = one_value
    return flat


def _packed_nest_with_indices(
    structure: Any,
    flat: Sequence[Any],
    index: int,
    is_seq: Callable[[Any], bool],
    sequence_fn: Optional[Callable[[Any, List[Any]], Any]] = None,
) -> Tuple[int, List[Any]]:
    """Fills the values of `structure` from `flat`, starting at `index`; returns the next index and the values."""
    packed: List[Any] = []
    build = sequence_fn or _sequence_like
    for value in _yield_value(structure):
        if is_seq(value):
            index, child = _packed_nest_with_indices(value, flat, index, is_seq, sequence_fn)
            packed.append(build(value, child))
        else:
            packed.append(flat[index])
            index += 1
    return index, packed


def _pack_sequence_as(
    structure: Any,
    flat_sequence: Any,
    expand_composites: bool,
    sequence_fn: Optional[Callable[[Any, List[Any]], Any]] = None,
) -> Any:
    is_seq = is_sequence_or_composite if expand_composites else is_sequence
    build = sequence_fn or _sequence_like

    def truncate(value: Any, length: int) -> str:
        text = str(value)
        return text if len(text) <= length else text[:length] + "..."

    if not is_seq(flat_sequence) or isinstance(flat_sequence, collections.abc.Mapping):
        raise TypeError(
            "Attempted to pack value:\n  {}\ninto a sequence, but found incompatible type `{}` instead.".format(
                truncate(flat_sequence, 100), type(flat_sequence)
            )
        )
    if not is_seq(structure):
        if len(flat_sequence) != 1:
            raise ValueError(
                "Structure is a scalar but len(flat_sequence) == %d > 1\n  The target structure is of type `%s`\n  %s\n"
                "  However the input structure is a sequence (%s) of length %d.\n  %s\nnest cannot guarantee that it is "
                "safe to map one to the other."
                % (
                    len(flat_sequence),
                    type(structure),
                    truncate(structure, 100),
                    type(flat_sequence),
                    len(flat_sequence),
                    truncate(flat_sequence, 100),
                )
            )
        return flat_sequence[0]
    try:
        final_index, packed = _packed_nest_with_indices(structure, flat_sequence, 0, is_seq, sequence_fn)
        complete = final_index >= len(flat_sequence)
    except IndexError:
        complete = False
    if not complete:
        flat_structure = flatten(structure, expand_composites=expand_composites)
        if len(flat_structure) != len(flat_sequence):
            raise ValueError(
                "Could not pack sequence. Structure had %d elements, but flat_sequence had %d elements.  Structure: %s, "
                "flat_sequence: %s." % (len(flat_structure), len(flat_sequence), structure, flat_sequence)
            )
    return build(structure, packed)


def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """Returns the values of `flat_sequence` nested like `structure`.

    Raises ValueError when the counts of elements differ, TypeError when `flat_sequence` is no sequence.
    """
    return _pack_sequence_as(structure, flat_sequence, expand_composites)


def _keywords_of_map(kwargs: Dict[str, Any], allowed: Sequence[str]) -> Tuple[bool, bool]:
    check_types = bool(kwargs.pop("check_types", True))
    expand_composites = (
        bool(kwargs.pop("expand_composites", False)) if "expand_composites" in allowed else False
    )
    if kwargs:
        raise ValueError(
            "Only valid keyword arguments are %s, not: `%s`"
            % (" and ".join("`%s`" % a for a in allowed), "`, `".join(kwargs.keys()))
        )
    return check_types, expand_composites


def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """Applies `func` to leaves at the same position of all structures; the result is nested like the first.

    Keywords: `check_types` (default True) and `expand_composites` (default False). Raises TypeError when `func` cannot be
    called or types differ, ValueError when there is no structure, or structures or keywords do not fit.
    """
    if not callable(func):
        raise TypeError("func must be callable, got: %s" % func)
    if not structure:
        raise ValueError("Must provide at least one structure")
    check_types, expand_composites = _keywords_of_map(kwargs, ("check_types", "expand_composites"))
    for other in structure[1:]:
        assert_same_structure(
            structure[0], other, check_types=check_types, expand_composites=expand_composites
        )
    if len(structure) == 1:
        results = [func(leaf) for leaf in flatten(structure[0], expand_composites)]
    else:
        flats = (flatten(one, expand_composites) for one in structure)
        results = [func(*leaves) for leaves in zip(*flats)]
    return pack_sequence_as(structure[0], results, expand_composites=expand_composites)


def map_structure_with_paths(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """As `map_structure`, with the path of the leaf, joined by "/", as the first argument of `func`."""

    def with_joined_path(path: Tuple[Any, ...], *values: Any, **inner: Any) -> Any:
        return func("/".join(str(part) for part in path), *values, **inner)

    return map_structure_with_tuple_paths_up_to(structure[0], with_joined_path, *structure, **kwargs)


def map_structure_with_tuple_paths(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """As `map_structure`, with the path of the leaf as a tuple as the first argument of `func`."""
    return map_structure_with_tuple_paths_up_to(structure[0], func, *structure, **kwargs)


def _yield_paths(
    structure: Any, expand_composites: bool, prefix: Tuple[Any, ...]
) -> Iterator[Tuple[Tuple[Any, ...], Any]]:
    is_seq = is_sequence_or_composite if expand_composites else is_sequence
    if not is_seq(structure):
        yield prefix, structure
        return
    for key, value in _yield_sorted_items(structure):
        yield from _yield_paths(value, expand_composites, prefix + (key,))


def yield_flattened_paths(structure: Any, expand_composites: bool = False) -> Iterator[Tuple[Any, ...]]:
    """Yields the paths of the leaves of `structure` as tuples."""
    for path, _ in _yield_paths(structure, expand_composites, ()):
        yield path


def flatten_with_joined_string_paths(
    structure: Any, separator: str = "/", expand_composites: bool = False
) -> List[Tuple[str, Any]]:
    """Returns (path joined by `separator`, leaf) for each leaf."""
    return [
        (separator.join(str(part) for part in path), leaf)
        for path, leaf in _yield_paths(structure, expand_composites, ())
    ]


def flatten_with_tuple_paths(
    structure: Any, expand_composites: bool = False
) -> List[Tuple[Tuple[Any, ...], Any]]:
    """Returns (path as a tuple, leaf) for each leaf."""
    return list(_yield_paths(structure, expand_composites, ()))


def list_to_tuple(structure: Any) -> Any:
    """Returns `structure` with every list replaced by a tuple."""

    def build(instance: Any, args: List[Any]) -> Any:
        if isinstance(instance, list):
            return tuple(args)
        return _sequence_like(instance, args)

    return _pack_sequence_as(structure, flatten(structure), False, sequence_fn=build)


_ListType = list
_OrderedDict = collections.OrderedDict
