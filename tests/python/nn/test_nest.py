# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Structures are flattened, packed, mapped and compared as TensorFlow does."""
from __future__ import annotations

import collections

import numpy as np
import pytest

from millrace.python.util import nest

Pair = collections.namedtuple("Pair", ["x", "y"])


def test_flatten_walks_mappings_in_the_order_of_their_keys() -> None:
    structure = {"b": [1, (2, 3)], "a": Pair(4, "text")}
    assert nest.flatten(structure) == [4, "text", 1, 2, 3]
    assert nest.flatten(np.arange(3))[0].tolist() == [0, 1, 2]


def test_pack_gives_back_the_structure() -> None:
    structure = collections.OrderedDict([("b", [1, (2, 3)]), ("a", Pair(4, {}))])
    packed = nest.pack_sequence_as(structure, [10, 20, 30, 40])
    assert packed == collections.OrderedDict([("b", [20, (30, 40)]), ("a", Pair(10, {}))])
    assert list(packed) == ["b", "a"] and isinstance(packed["a"], Pair)


def test_pack_refuses_another_number_of_elements() -> None:
    with pytest.raises(ValueError, match="Structure had 2 elements, but flat_sequence had 3 elements"):
        nest.pack_sequence_as([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="Structure is a scalar"):
        nest.pack_sequence_as(1, [1, 2])


@pytest.mark.parametrize(
    "first, second, error, text",
    [
        (
            [0, 1],
            0,
            ValueError,
            'Substructure "type=list str=\\[0, 1\\]" is a sequence, while substructure "type=int',
        ),
        ((0, 1), [0, 1], TypeError, "don't have the same sequence type"),
        ({"a": 1}, {"b": 1}, ValueError, "don't have the same set of keys"),
        ([1], [1, 2], ValueError, "don't have the same nested structure"),
        (Pair(1, 2), (1, 2), TypeError, "don't have the same sequence type"),
    ],
)
def test_structures_that_differ_are_refused(first: object, second: object, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        nest.assert_same_structure(first, second)


def test_types_are_ignored_on_request() -> None:
    nest.assert_same_structure((0, [1]), [0, (1,)], check_types=False)


def test_map_goes_over_several_structures() -> None:
    assert nest.map_structure(lambda a, b: a - b, [5, (6,)], [1, (2,)]) == [4, (4,)]
    with pytest.raises(TypeError, match="func must be callable"):
        nest.map_structure("no", [1])
    with pytest.raises(ValueError, match="Only valid keyword arguments"):
        nest.map_structure(lambda a: a, [1], unknown=1)


def test_shallow_trees_cut_deep_ones() -> None:
    assert nest.flatten_up_to([0, [0]], [[1, 2], [{"a": 3}]]) == [[1, 2], {"a": 3}]
    assert nest.map_structure_up_to([0, 0], len, [[1, 2], [3]]) == [2, 1]
    with pytest.raises(ValueError, match="same sequence length"):
        nest.flatten_up_to([0], [1, 2])


def test_paths_name_the_leaves() -> None:
    assert nest.flatten_with_joined_string_paths({"a": [1, 2]}) == [("a/0", 1), ("a/1", 2)]
    assert nest.map_structure_with_paths(lambda path, v: path + str(v), {"a": (7,)}) == {"a": ("a/07",)}


def test_keys_that_are_structures_are_taken_apart() -> None:
    assert nest.flatten_dict_items({(4, 5): (1, 2), 3: 0}) == {4: 1, 5: 2, 3: 0}
    with pytest.raises(ValueError, match="not unique"):
        nest.flatten_dict_items({(1, 2): (0, 0), 2: 1})
