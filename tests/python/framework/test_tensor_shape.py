# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Dimension and TensorShape: algebra, texts and errors."""
from __future__ import annotations

import pytest

from millrace.core.framework import tensor_shape_pb2
from millrace.python.framework import tensor_shape
from millrace.python.framework.tensor_shape import Dimension, TensorShape, unknown_shape


def test_known_dimension() -> None:
    dim = Dimension(12)
    assert dim.value == 12 and int(dim) == 12 and dim == Dimension(12) and dim == 12
    assert dim + Dimension(3) == Dimension(15) and dim + 3 == 15 and 3 + dim == 15
    assert dim - 3 == 9
    assert (
        dim * 2 == 24
        and 2 * dim == 24
        and dim // 5 == 2
        and 25 // dim == 2
        and dim % 5 == 2
        and 25 % dim == 1
    )
    assert dim < 13 and dim <= 12 and dim > 11 and dim >= 12 and not dim < 12
    assert str(dim) == "12" and repr(dim) == "Dimension(12)" and str(Dimension(None)) == "?"
    assert repr(Dimension(None)) == "Dimension(None)"
    assert (
        dim.merge_with(Dimension(None)) == 12
        and Dimension(None).merge_with(dim) == 12
        and dim.merge_with(12) == 12
    )
    assert Dimension(dim) == dim and list(range(5))[Dimension(2)] == 2


def test_unknown_dimension() -> None:
    unknown = Dimension(None)
    assert unknown.value is None
    for made in (
        unknown + 1,
        1 + unknown,
        unknown * 2,
        unknown - 1,
        unknown // 2,
        unknown % 2,
        Dimension(3) + None,
    ):
        assert isinstance(made, Dimension) and made.value is None
    assert (unknown == Dimension(1)) is None and (unknown != 1) is None and (unknown < 3) is None
    assert (unknown == unknown) is None and (Dimension(1) >= unknown) is None
    assert unknown.is_compatible_with(Dimension(7)) and Dimension(7).is_compatible_with(unknown)
    assert not Dimension(7).is_compatible_with(8)


def test_dimension_errors() -> None:
    with pytest.raises(ValueError, match="Dimension -1 must be >= 0"):
        Dimension(-1)
    with pytest.raises(ValueError, match="Ambiguous dimension: 1.5"):
        Dimension(1.5)
    with pytest.raises(ValueError):
        Dimension("x1")
    with pytest.raises(ValueError, match="Dimensions 3 and 4 are not compatible"):
        Dimension(3).merge_with(4)
    with pytest.raises(ValueError, match="Dimensions 3 and 4 are not compatible"):
        Dimension(3).assert_is_compatible_with(4)
    with pytest.raises(TypeError, match="unsupported operand type"):
        Dimension(3) / 2
    with pytest.raises(TypeError):
        2 / Dimension(3)


def test_shapes_are_made_of_many_things() -> None:
    proto = tensor_shape_pb2.TensorShapeProto(dim=[{"size": 2}, {"size": -1}])
    for made in (TensorShape([2, None]), TensorShape((2, None)), TensorShape([Dimension(2), Dimension(None)]),
                 TensorShape(proto), TensorShape(TensorShape([2, None]))):  # fmt: skip
        assert made.as_list() == [2, None] and made.ndims == 2 and made.rank == 2 and len(made) == 2
    assert TensorShape(7).as_list() == [7] and TensorShape(Dimension(7)).as_list() == [7]
    assert TensorShape(None).ndims is None and TensorShape([]).ndims == 0 and TensorShape([]).as_list() == []
    assert TensorShape(tensor_shape_pb2.TensorShapeProto(unknown_rank=True)).dims is None
    assert tensor_shape.as_shape([1]).as_list() == [1] and tensor_shape.scalar().ndims == 0
    assert tensor_shape.vector(3).as_list() == [3] and tensor_shape.matrix(2, 3).as_list() == [2, 3]
    assert unknown_shape(2).as_list() == [None, None] and unknown_shape().ndims is None
    assert unknown_shape(ndims=3).ndims == 3


def test_texts() -> None:
    assert str(TensorShape([2, None, 3])) == "(2, ?, 3)" and str(TensorShape([4])) == "(4,)"
    assert str(TensorShape(None)) == "<unknown>" and str(TensorShape([])) == "()"
    assert repr(TensorShape([2, None])) == "TensorShape([Dimension(2), Dimension(None)])"
    assert repr(TensorShape(None)) == "TensorShape(None)"


def test_items_and_slices() -> None:
    shape = TensorShape([1, None, 3, 4])
    assert isinstance(shape[0], Dimension) and shape[0] == 1 and shape[1].value is None and shape[-1] == 4
    assert (
        shape[1:3].as_list() == [None, 3]
        and shape[:2].as_list() == [1, None]
        and shape[2:].as_list() == [3, 4]
    )
    assert [d.value for d in shape] == [1, None, 3, 4]
    with pytest.raises(IndexError):
        shape[4]
    unknown = TensorShape(None)
    assert unknown[0].value is None and unknown[1:3].as_list() == [None, None] and unknown[1:].ndims is None
    with pytest.raises(ValueError, match="Steps are not yet handled"):
        TensorShape(None)[::2]
    with pytest.raises(ValueError, match="Cannot take the length of Shape with unknown rank"):
        len(unknown)
    with pytest.raises(ValueError, match="Cannot iterate over a shape with unknown rank"):
        iter(unknown)
    with pytest.raises(ValueError, match="as_list\\(\\) is not defined on an unknown TensorShape"):
        unknown.as_list()


def test_merge_and_compatibility() -> None:
    a, b = TensorShape([2, None]), TensorShape([None, 3])
    assert a.merge_with(b).as_list() == [2, 3] and a.is_compatible_with(b)
    assert a.merge_with(None).as_list() == [2, None] and TensorShape(None).merge_with(b).as_list() == [
        None,
        3,
    ]
    assert not a.is_compatible_with([3, 3]) and not a.is_compatible_with([2]) and a.is_compatible_with(None)
    with pytest.raises(ValueError, match="Shapes \\(2, \\?\\) and \\(3, 3\\) are not compatible"):
        a.merge_with([3, 3])
    with pytest.raises(ValueError, match="Shapes \\(2, \\?\\) and \\(2,\\) must have the same rank"):
        a.assert_same_rank([2])
    with pytest.raises(ValueError, match="Shapes \\(2, \\?\\) and \\[3, 3\\] are incompatible"):
        a.assert_is_compatible_with([3, 3])
    with pytest.raises(ValueError, match="Shape \\(2, \\?\\) must have rank 3"):
        a.with_rank(3)
    with pytest.raises(ValueError, match="Shape \\(2, \\?\\) must have rank at least 3"):
        a.with_rank_at_least(3)
    with pytest.raises(ValueError, match="Shape \\(2, \\?\\) must have rank at most 1"):
        a.with_rank_at_most(1)
    with pytest.raises(ValueError, match="Shape \\(2, \\?\\) is not fully defined"):
        a.assert_is_fully_defined()
    assert a.with_rank(2).as_list() == [2, None] and TensorShape(None).with_rank(2).as_list() == [None, None]
    with pytest.raises(ValueError, match="must have rank 3"):
        TensorShape([1]).assert_has_rank(3)


def test_concatenation_and_elements() -> None:
    assert TensorShape([1, 2]).concatenate([3]).as_list() == [1, 2, 3]
    assert TensorShape(None).concatenate([3]).ndims is None and TensorShape([1]).concatenate(
        Dimension(4)
    ).as_list() == [1, 4]
    assert TensorShape([2, 3]).num_elements() == 6 and TensorShape([]).num_elements() == 1
    assert TensorShape([2, None]).num_elements() is None and TensorShape(None).num_elements() is None
    assert TensorShape([2, 3]).is_fully_defined() and not TensorShape([None]).is_fully_defined()
    assert TensorShape([]).is_fully_defined() and not TensorShape(None).is_fully_defined()


def test_equality_and_truth() -> None:
    assert (
        TensorShape([1, 2]) == TensorShape([1, 2])
        and TensorShape([1, 2]) == [1, 2]
        and TensorShape([1, 2]) != [1, 3]
    )
    assert TensorShape([1, 2]) != [1] and not TensorShape([1, 2]) == "text"
    with pytest.raises(ValueError, match="The inequality of unknown TensorShapes is undefined"):
        TensorShape(None) != TensorShape([1])  # noqa: B015
    assert TensorShape([None]) == TensorShape([None])
    assert bool(TensorShape([])) and bool(TensorShape([2])) and not bool(TensorShape(None))
    assert hash(TensorShape([1, 2])) == hash(TensorShape([1, 2]))
    assert TensorShape([2, None]).most_specific_compatible_shape([2, 3]).as_list() == [2, None]
    assert TensorShape([2, 4]).most_specific_compatible_shape([2, 3]).as_list() == [2, None]
    assert TensorShape([2]).most_specific_compatible_shape([2, 3]).ndims is None


def test_protos() -> None:
    proto = TensorShape([2, None]).as_proto()
    assert [d.size for d in proto.dim] == [2, -1] and not proto.unknown_rank
    assert TensorShape(None).as_proto().unknown_rank
    assert TensorShape(TensorShape([5, None]).as_proto()).as_list() == [5, None]


def test_helpers_of_both_behaviours() -> None:
    assert tensor_shape.dimension_value(Dimension(3)) == 3 and tensor_shape.dimension_value(4) == 4
    assert tensor_shape.dimension_at_index(TensorShape([3, None]), 1).value is None
    assert tensor_shape.dimension_at_index(TensorShape(None), 5).value is None
