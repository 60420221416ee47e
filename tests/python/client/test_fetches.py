# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Session.run: structures of fetches, what can be fetched, what is refused."""
from __future__ import annotations

import collections

import numpy as np
import pytest

import millrace as tf

Pair = collections.namedtuple("Pair", ["left", "right"])


def test_scalars_arrays_and_strings() -> None:
    with tf.Session() as session:
        value = session.run(tf.constant(1.5))
        assert value == 1.5 and isinstance(value, np.float32)
        assert isinstance(session.run(tf.constant([1.0])), np.ndarray)
        assert session.run(tf.constant(b"bytes")) == b"bytes" and session.run(tf.constant(True)) is np.True_
        strings = session.run(tf.constant([["a", "b"]]))
        assert strings.dtype == object and strings.tolist() == [[b"a", b"b"]]
        assert session.run(tf.zeros([0, 3])).shape == (0, 3) and session.run(tf.no_op()) is None


def test_structures() -> None:
    a, b, op = tf.constant(1, name="a"), tf.constant(2, name="b"), tf.no_op(name="op")
    with tf.Session() as session:
        assert session.run([a, b]) == [1, 2] and session.run((a, b)) == (1, 2)
        assert session.run([a, [b, (a, op)]]) == [1, [2, (1, None)]]
        assert session.run({"x": a, "y": [b, {"z": a}]}) == {"x": 1, "y": [2, {"z": 1}]}
        pair = session.run(Pair(a, right=[b]))
        assert isinstance(pair, Pair) and pair == Pair(1, [2])
        ordered = session.run(collections.OrderedDict([("q", b), ("p", a)]))
        assert isinstance(ordered, collections.OrderedDict) and list(ordered.items()) == [("q", 2), ("p", 1)]
        default = session.run(collections.defaultdict(list, k=a))
        assert default["k"] == 1
        assert session.run([]) == [] and session.run({}) == {} and session.run(()) == ()
        assert session.run([a, a, a]) == [1, 1, 1] and session.run([[], {}, a]) == [[], {}, 1]


def test_attrs_classes() -> None:
    attr = pytest.importorskip("attr")

    @attr.s
    class Point:
        x = attr.ib()
        y = attr.ib()

    with tf.Session() as session:
        found = session.run(Point(tf.constant(1), Point([tf.constant(2)], tf.constant(3))))
    assert isinstance(found, Point) and found == Point(1, Point([2], 3))


def test_names() -> None:
    tf.constant(7, name="a")
    tf.no_op(name="op")
    with tf.Session() as session:
        assert (
            session.run("a:0") == 7 and session.run(["a:0", "op"]) == [7, None] and session.run("a") is None
        )
        assert session.run(b"a:0") == 7


@pytest.mark.parametrize("wrong", [None, 37, 1.5, [None], {"a": None}, (tf,), object()])
def test_refused_fetches(wrong: object) -> None:
    tf.constant(1)
    with tf.Session() as session:
        with pytest.raises(TypeError, match="Fetch argument .* has invalid type"):
            session.run(wrong)


def test_unknown_names_and_other_graphs() -> None:
    tf.constant(1, name="a")
    with tf.Graph().as_default():
        foreign = tf.constant(2)
    with tf.Session() as session:
        for name in ("nothing", "nothing:0", "a:5"):
            with pytest.raises(
                ValueError, match="Fetch argument '%s' cannot be interpreted as a Tensor." % name
            ):
                session.run(name)
        with pytest.raises(
            ValueError,
            match="cannot be interpreted as a Tensor. \\(Tensor .* is not an element of this graph.\\)",
        ):
            session.run(foreign)
        with pytest.raises(
            TypeError, match="Fetch argument .* has invalid type .*, must be a string or Tensor."
        ):
            session.run(2.0)


def test_prevented_fetches() -> None:
    a = tf.constant(1)
    b = a + 1
    tf.get_default_graph().prevent_fetching(b.op)
    with tf.Session() as session:
        assert session.run(a) == 1
        with pytest.raises(ValueError, match="has been marked as not fetchable."):
            session.run(b)
        with pytest.raises(ValueError):
            session.run([a, b.op])


def test_composites() -> None:
    sparse = tf.SparseTensor(
        tf.constant([[0, 1], [2, 0]], tf.int64), tf.constant([1.0, 2.0]), tf.constant([3, 2], tf.int64)
    )
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([3, 0]), tf.constant([5, 1]))
    short = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([3]))
    with tf.Session() as session:
        found = session.run(sparse)
        assert isinstance(found, tf.SparseTensorValue) and found.indices.tolist() == [[0, 1], [2, 0]]
        assert found.values.tolist() == [1, 2] and found.dense_shape.tolist() == [3, 2]
        indices, values, shape = session.run(sparse)
        assert indices.dtype == np.int64 and values.tolist() == [1.0, 2.0] and shape.tolist() == [3, 2]
        rows = session.run(slices)
        assert (
            rows.values.tolist() == [[1.0], [2.0]]
            and rows.indices.tolist() == [3, 0]
            and rows.dense_shape.tolist() == [5, 1]
        )
        assert session.run(short).dense_shape is None
        nested = session.run({"s": [sparse], "i": short})
        assert nested["s"][0].values.tolist() == [1, 2] and nested["i"].indices.tolist() == [3]
        assert sparse.eval(session=session).values.tolist() == [1, 2]


def test_variables_are_fetched_by_value() -> None:
    variables = [
        tf.Variable([1.0, 2.0]),
        tf.Variable([3.0], use_resource=True),
        tf.get_variable("g", initializer=4.0),
    ]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        one, two, three = session.run(variables)
        assert one.tolist() == [1, 2] and two.tolist() == [3] and three == 4
        one[0] = 100.0
        assert session.run(variables[0]).tolist() == [1, 2]


def test_results_belong_to_the_caller() -> None:
    constant, variable = tf.constant([1.0, 2.0]), tf.Variable([5.0, 6.0])
    with tf.Session() as session:
        session.run(variable.initializer)
        first = session.run(constant)
        first[0] = 9.0
        assert session.run(constant).tolist() == [1.0, 2.0]
        before = session.run(variable)
        session.run(tf.assign_add(variable, [1.0, 1.0]))
        assert before.tolist() == [5.0, 6.0] and session.run(variable).tolist() == [6.0, 7.0]


def test_registered_classes() -> None:
    class Squared:
        def __init__(self, tensor: tf.Tensor) -> None:
            self.tensor = tensor

    from millrace.python.client import session as session_lib

    session_lib.register_session_run_conversion_functions(
        Squared, lambda s: ([s.tensor], lambda values: values[0] ** 2), lambda s, value: [(s.tensor, value)],
        lambda s: [s.tensor],
    )  # fmt: skip
    with pytest.raises(ValueError, match="has already been registered so ignore it."):
        session_lib.register_session_run_conversion_functions(Squared, lambda s: None)
    placeholder = tf.placeholder(tf.float32)
    with tf.Session() as session:
        assert session.run([Squared(placeholder * 1.0)], {Squared(placeholder): 3.0}) == [9.0]
