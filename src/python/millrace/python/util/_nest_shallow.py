# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The part of `nest` that walks a structure only as deep as another, shallower one."""
from __future__ import annotations

from typing import Any, Callable, Iterator, List, Tuple

from millrace.python.util import _nest_types as types


# Texts of the errors; programs compare with them.
_IF_SHALLOW_IS_SEQ_INPUT_MUST_BE_SEQ = (
    "If shallow structure is a sequence, input must also be a sequence. Input has type: {}."
)
_STRUCTURES_HAVE_MISMATCHING_LENGTHS = (
    "The two structures don't have the same sequence length. Input structure has length {input_length}, while shallow "
    "structure has length {shallow_length}."
)
_INPUT_TREE_SMALLER_THAN_SHALLOW_TREE = (
    "The input_tree has fewer elements than the input_tree. Input structure has length {input_size}, while shallow "
    "structure has length {shallow_size}."
)
_SHALLOW_TREE_HAS_INVALID_KEYS = (
    "The shallow_tree's keys are not a subset of the input_tree's keys. The shallow_tree has the following keys that "
    "are not in the input_tree: {}."
)
_STRUCTURES_HAVE_MISMATCHING_TYPES = (
    "The two structures don't have the same sequence type. Input structure has type {input_type}, while shallow "
    "structure has type {shallow_type}."
)


def _is_seq_test(expand_composites: bool) -> Callable[[Any], bool]:
    return types.is_sequence_or_composite if expand_composites else types.is_sequence


def assert_shallow_structure(
    shallow_tree: Any,
    input_tree: Any,
    check_types: bool = True,
    expand_composites: bool = False,
    check_subtrees_length: bool = True,
) -> None:
    """Checks that `shallow_tree` is nested like the upper levels of `input_tree`.

    Without `check_subtrees_length`, sequences of `input_tree` may be longer.

    Raises TypeError where `input_tree` has a leaf and the shallow tree a sequence, or types differ under `check_types`;
    ValueError where lengths or keys differ.
    """
    is_seq = _is_seq_test(expand_composites)
    if not is_seq(shallow_tree):
        return
    if not is_seq(input_tree):
        raise TypeError(_IF_SHALLOW_IS_SEQ_INPUT_MUST_BE_SEQ.format(type(input_tree)))
    if check_types:
        _check_shallow_types(shallow_tree, input_tree)
    both_composite = types._is_composite_tensor(shallow_tree) or types._is_type_spec(shallow_tree)
    if not both_composite:
        size, wanted = len(input_tree if types.is_sequence(input_tree) else [0]), len(shallow_tree)
        if check_subtrees_length and size != wanted:
            raise ValueError(
                _STRUCTURES_HAVE_MISMATCHING_LENGTHS.format(input_length=size, shallow_length=wanted)
            )
        if size < wanted:
            raise ValueError(
                _INPUT_TREE_SMALLER_THAN_SHALLOW_TREE.format(input_size=size, shallow_size=wanted)
            )
    if types._is_mapping(shallow_tree) and types._is_mapping(input_tree):
        absent = set(shallow_tree) - set(input_tree)
        if absent:
            raise ValueError(_SHALLOW_TREE_HAS_INVALID_KEYS.format(sorted(absent)))
        input_tree = {key: input_tree[key] for key in shallow_tree}
    for shallow_branch, input_branch in zip(types._yield_value(shallow_tree), types._yield_value(input_tree)):
        assert_shallow_structure(
            shallow_branch, input_branch, check_types, expand_composites, check_subtrees_length
        )


def _check_shallow_types(shallow_tree: Any, input_tree: Any) -> None:
    shallow_type, input_type = type(shallow_tree), type(input_tree)
    if shallow_type is input_type or isinstance(input_tree, shallow_type):
        return
    if types._is_namedtuple(shallow_tree) and types._is_namedtuple(input_tree):
        if types.same_namedtuples(shallow_tree, input_tree):
            return
    elif types._is_composite_tensor(shallow_tree) or types._is_composite_tensor(input_tree):
        if types._is_composite_tensor(input_tree) or types._is_type_spec(input_tree):
            return
    elif types._is_mapping(shallow_tree) and types._is_mapping(input_tree):
        return
    raise TypeError(
        _STRUCTURES_HAVE_MISMATCHING_TYPES.format(input_type=input_type, shallow_type=shallow_type)
    )


def _yield_up_to(
    shallow_tree: Any, input_tree: Any, is_seq: Callable[[Any], bool], path: Tuple[Any, ...] = ()
) -> Iterator[Tuple[Tuple[Any, ...], Any]]:
    if not is_seq(shallow_tree):
        yield path, input_tree
        return
    if types._is_mapping(shallow_tree) or types._is_attrs(shallow_tree):
        branches = dict(types._yield_sorted_items(input_tree))
        for key, shallow_branch in types._yield_sorted_items(shallow_tree):
            yield from _yield_up_to(shallow_branch, branches[key], is_seq, path + (key,))
        return
    inputs = types._yield_value(input_tree)
    for (key, shallow_branch), input_branch in zip(types._yield_sorted_items(shallow_tree), inputs):
        yield from _yield_up_to(shallow_branch, input_branch, is_seq, path + (key,))


def flatten_up_to(
    shallow_tree: Any,
    input_tree: Any,
    check_types: bool = True,
    expand_composites: bool = False,
    check_subtrees_length: bool = True,
) -> List[Any]:
    """Returns the parts of `input_tree` at the leaves of `shallow_tree` as a list; errors as `assert_shallow_structure`."""
    is_seq = _is_seq_test(expand_composites)
    assert_shallow_structure(shallow_tree, input_tree, check_types, expand_composites, check_subtrees_length)
    return [value for _, value in _yield_up_to(shallow_tree, input_tree, is_seq)]


def flatten_with_tuple_paths_up_to(
    shallow_tree: Any,
    input_tree: Any,
    check_types: bool = True,
    expand_composites: bool = False,
    check_subtrees_length: bool = True,
) -> List[Tuple[Tuple[Any, ...], Any]]:
    """As `flatten_up_to`, with (path as a tuple, part) for each."""
    is_seq = _is_seq_test(expand_composites)
    assert_shallow_structure(shallow_tree, input_tree, check_types, expand_composites, check_subtrees_length)
    return list(_yield_up_to(shallow_tree, input_tree, is_seq))


def map_structure_up_to(shallow_tree: Any, func: Callable[..., Any], *inputs: Any, **kwargs: Any) -> Any:
    """Applies `func` to the parts of all `inputs` at the leaves of `shallow_tree`; the result is nested like the latter."""
    return map_structure_with_tuple_paths_up_to(
        shallow_tree, lambda _, *values: func(*values), *inputs, **kwargs
    )


def map_structure_with_tuple_paths_up_to(
    shallow_tree: Any, func: Callable[..., Any], *inputs: Any, **kwargs: Any
) -> Any:
    """As `map_structure_up_to`, with the path as a tuple as the first argument of `func`."""
    from millrace.python.util import nest

    if not inputs:
        raise ValueError("Cannot map over no sequences")
    check_types = kwargs.pop("check_types", True)
    expand_composites = kwargs.pop("expand_composites", False)
    check_subtrees_length = kwargs.pop("check_subtrees_length", True)
    is_seq = _is_seq_test(expand_composites)
    for input_tree in inputs:
        assert_shallow_structure(
            shallow_tree, input_tree, check_types, expand_composites, check_subtrees_length
        )
    with_paths = [list(_yield_up_to(shallow_tree, input_tree, is_seq)) for input_tree in inputs]
    paths = [path for path, _ in with_paths[0]]
    values = [[value for _, value in one] for one in with_paths]
    results = [func(path, *args, **kwargs) for path, args in zip(paths, zip(*values))]
    return nest.pack_sequence_as(shallow_tree, results, expand_composites=expand_composites)


def get_traverse_shallow_structure(
    traverse_fn: Callable[[Any], Any], structure: Any, expand_composites: bool = False
) -> Any:
    """Returns a structure of bools whose depth `traverse_fn` determines; usable as a shallow tree.

    `traverse_fn` takes a part and returns a bool or, for the parts of a sequence, a structure of bools. Raises TypeError
    where it returns something else.
    """
    from millrace.python.util import nest

    is_seq = _is_seq_test(expand_composites)
    wanted = traverse_fn(structure)
    if not is_seq(structure):
        if not isinstance(wanted, bool):
            raise TypeError("traverse_fn returned structure: %s for non-structure: %s" % (wanted, structure))
        return wanted
    level: List[Any] = []
    if isinstance(wanted, bool):
        if not wanted:
            return False
        for branch in types._yield_value(structure):
            level.append(
                get_traverse_shallow_structure(traverse_fn, branch, expand_composites=expand_composites)
            )
        return types._sequence_like(structure, level)
    if not is_seq(wanted):
        raise TypeError("traverse_fn returned a non-bool scalar: %s for input: %s" % (wanted, structure))
    nest.assert_shallow_structure(wanted, structure, expand_composites=expand_composites)
    for choice, branch in zip(types._yield_value(wanted), types._yield_value(structure)):
        if not isinstance(choice, bool):
            raise TypeError(
                "traverse_fn didn't return a depth=1 structure of bools.  saw: %s  for structure: %s"
                % (wanted, structure)
            )
        level.append(
            get_traverse_shallow_structure(traverse_fn, branch, expand_composites=expand_composites)
            if choice
            else False
        )
    return types._sequence_like(structure, level)
