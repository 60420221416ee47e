# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.test.TestCase and the decorators of test_util, used as tests of TensorFlow use them."""
from __future__ import annotations

import random
import unittest
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core.framework import graph_pb2
from millrace.python.framework import test_util


class Case(tf.test.TestCase):
    """A case whose assertions the tests call."""

    def runTest(self) -> None:  # noqa: N802
        """Nothing."""


@pytest.fixture
def case() -> Any:
    made = Case()
    made.setUp()
    yield made
    made.tearDown()


def run(kind: type[unittest.TestCase]) -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(kind).run(result)
    return result


def test_sessions_of_a_case(case: Case) -> None:
    with case.test_session() as session:
        assert tf.constant(1.0).eval() == 1.0 and tf.get_default_session() is session
    with case.cached_session() as first:
        with case.cached_session() as second:
            assert first is second
    with case.session(graph=tf.Graph()) as session:
        assert session.run(tf.constant(2)) == 2
    with case.cached_session():
        assert case.evaluate({"a": tf.constant(1), "b": [tf.constant(2.0)]}) == {"a": 1, "b": [2.0]}
    assert case.get_temp_dir() == case.get_temp_dir()


def test_close_values(case: Case) -> None:
    case.assertAllClose([1.0, 2.0], np.array([1.0, 2.0 + 1e-7]))
    case.assertAllClose({"a": [1.0], "b": (2.0, 3.0)}, {"a": [1.0], "b": (2.0, 3.0)})
    case.assertAllCloseAccordingToType(np.float16([1.0]), np.float16([1.0005]))
    case.assertNotAllClose([1.0], [1.1])
    case.assertNear(1.0, 1.05, 0.1)
    case.assertArrayNear([1.0, 2.0], [1.01, 2.0], 0.02)
    for wrong in (lambda: case.assertAllClose([1.0], [1.1]), lambda: case.assertAllClose([1.0], [1.0, 1.0]),
                  lambda: case.assertNotAllClose([1.0], [1.0]), lambda: case.assertNear(1.0, 2.0, 0.1),
                  lambda: case.assertAllClose([np.nan], [1.0]), lambda: case.assertArrayNear([1.0], [1.0, 2.0], 1.0),
                  lambda: case.assertAllCloseAccordingToType(np.float32([1.0]), np.float32([1.001]))):  # fmt: skip
        with pytest.raises(AssertionError):
            wrong()
    case.assertAllClose([np.nan, np.inf], [np.nan, np.inf])


def test_equal_values(case: Case) -> None:
    case.assertAllEqual([[1, 2]], np.array([[1, 2]]))
    case.assertAllEqual([b"a", b"b"], np.array([b"a", b"b"], object))
    case.assertNotAllEqual([1], [2])
    case.assertAllInSet([1, 2, 1], (1, 2))
    case.assertAllInRange([1.0, 2.0], 1.0, 2.0)
    case.assertAllGreater([2, 3], 1)
    case.assertAllLess([2, 3], 4)
    case.assertAllGreaterEqual([2, 3], 2)
    case.assertAllLessEqual([2, 3], 3)
    case.assertShapeEqual(np.zeros([2, 3]), tf.zeros([2, 3]))
    case.assertDeviceEqual("/cpu:0", "/device:CPU:0")
    case.assertStartsWith("abcd", "ab")
    for wrong in (lambda: case.assertAllEqual([1], [2]), lambda: case.assertAllEqual([1, 1], [1]),
                  lambda: case.assertAllInSet([3], (1, 2)), lambda: case.assertAllInRange([3.0], 1.0, 2.0),
                  lambda: case.assertAllInRange([2.0], 1.0, 2.0, open_upper_bound=True), lambda: case.assertAllGreater([1], 1),
                  lambda: case.assertShapeEqual(np.zeros([2]), tf.zeros([3])), lambda: case.assertStartsWith("abcd", "b"),
                  lambda: case.assertDeviceEqual("/cpu:0", "/cpu:1")):  # fmt: skip
        with pytest.raises(AssertionError):
            wrong()


def test_messages(case: Case) -> None:
    graph_def = graph_pb2.GraphDef()
    graph_def.node.add(name="a", op="b")
    case.assertProtoEquals("node { name: 'a' op: 'b' }", graph_def)
    with pytest.raises(AssertionError):
        case.assertProtoEquals("node { name: 'a' op: 'c' }", graph_def)
    test_util.assert_equal_graph_def(graph_def, graph_def)
    with pytest.raises(AssertionError, match="Found unexpected node '{{node a}}"):
        test_util.assert_equal_graph_def(graph_def, graph_pb2.GraphDef())
    with pytest.raises(AssertionError, match="Did not find expected node '{{node a}}"):
        test_util.assert_equal_graph_def(graph_pb2.GraphDef(), graph_def)
    tf.constant(1, name="here")
    test_util.assert_ops_in_graph({"here": "Const"}, tf.get_default_graph())
    with pytest.raises(ValueError):
        test_util.assert_ops_in_graph({"here": "Add"}, tf.get_default_graph())


def test_errors_of_operations(case: Case) -> None:
    x = tf.placeholder(tf.float32, name="x")
    with case.cached_session():
        with case.assertRaisesOpError("You must feed a value"):
            x.eval()
        with case.assertRaisesOpError(lambda e: e.op is x.op):
            x.eval()
        with pytest.raises(AssertionError):
            with case.assertRaisesOpError("nothing like it"):
                x.eval()
    with case.assertRaisesWithPredicateMatch(ValueError, "abc"):
        raise ValueError("xabcx")


def test_threads_tell_of_failures(case: Case) -> None:
    done: list[int] = []
    thread = case.checkedThread(target=done.append, args=(3,))
    thread.start()
    thread.join()
    failing = case.checkedThread(target=lambda: 1 // 0)
    failing.start()
    with pytest.raises(AssertionError, match="division"):
        failing.join()
    assert done == [3]


def test_each_test_has_seeds_and_a_graph_of_its_own() -> None:
    seen: list[Any] = []

    class Inner(tf.test.TestCase):
        def test_one(self) -> None:
            with self.cached_session() as session:
                seen.append(
                    (
                        random.random(),
                        np.random.rand(),
                        session.run(tf.random_uniform([])),
                        tf.constant(1).op.name,
                    )
                )

        def test_two(self) -> None:
            self.test_one()

    assert run(Inner).wasSuccessful() and len(seen) == 2 and seen[0] == seen[1]


def test_decorators() -> None:
    ran: list[str] = []

    class Inner(test_util.TensorFlowTestCase):
        @test_util.run_in_graph_and_eager_modes
        def test_both(self) -> None:
            ran.append("both")
            self.assertAllEqual(self.evaluate(tf.constant([1])), [1])

        @test_util.run_deprecated_v1
        def test_v1(self) -> None:
            ran.append("v1")
            tf.placeholder(tf.float32)

        @test_util.run_v1_only("b/1")
        def test_only(self) -> None:
            ran.append("only")

        @test_util.skip_if(True)
        def test_skipped(self) -> None:
            ran.append("skipped")

        @test_util.deprecated_graph_mode_only
        def test_graph(self) -> None:
            ran.append("graph")

        def test_fails(self) -> None:
            self.assertAllClose(1.0, 2.0)

    @test_util.run_all_in_graph_and_eager_modes
    class All(test_util.TensorFlowTestCase):
        def test_a(self) -> None:
            ran.append("all")

    result = run(Inner)
    assert [str(t[0]).split(" ")[0] for t in result.failures] == ["test_fails"] and not result.errors
    assert (
        run(All).wasSuccessful()
        and {"both", "v1", "only", "graph", "all"} <= set(ran)
        and "skipped" not in ran
    )


def test_gradients_are_checked() -> None:
    with tf.Session():
        x = tf.constant([1.0, 2.0])
        assert tf.test.compute_gradient_error(x, [2], tf.reduce_sum(x * x), []) < 1e-2
        analytic, numeric = tf.test.compute_gradient(x, [2], x * x, [2], np.float32([1.0, 2.0]))
        np.testing.assert_allclose(analytic, np.diag([2.0, 4.0]), rtol=1e-3)
        np.testing.assert_allclose(numeric, np.diag([2.0, 4.0]), rtol=1e-2)


def test_classes_run_their_tests_with_functional_control_flow_too() -> None:
    kinds: list[tuple[str, bool]] = []

    @test_util.with_control_flow_v2
    class Two(Case):
        def test_loop(self) -> None:
            x = tf.constant(0)
            tf.while_loop(lambda i: i < 3, lambda i: i + 1, [x])
            kinds.append(("loop", any(op.type == "StatelessWhile" for op in x.graph.get_operations())))

        @test_util.disable_control_flow_v2("It has none.")
        def test_once(self) -> None:
            kinds.append(("once", False))

    for name in ("test_loop", "test_loopWithControlFlowV2", "test_once"):
        with tf.Graph().as_default():
            getattr(Two(), name)()
    assert kinds == [("loop", False), ("loop", True), ("once", False)]
    assert not hasattr(Two, "test_onceWithControlFlowV2")


def test_tests_run_as_functions_check_what_these_compute(case: Any) -> None:
    modes: list[bool] = []

    @test_util.also_run_as_tf_function
    def good(self: Any) -> None:
        modes.append(tf.executing_eagerly())
        x = tf.constant([1.0, 2.0])
        self.assertAllEqual(x + x, [2.0, 4.0])

    @test_util.also_run_as_tf_function
    def bad(self: Any) -> None:
        x = tf.constant([1.0, 2.0])
        self.assertAllEqual(x, [1.0, 2.0 if tf.executing_eagerly() else 3.0])

    good(case)
    assert modes == [True, False]
    with pytest.raises(tf.errors.OpError, match="not equal|Not equal|Mismatch"):
        bad(case)


def test_objects_that_a_repeated_test_leaves_are_found(case: Any) -> None:
    kept: list[Any] = []

    @test_util.assert_no_new_pyobjects_executing_eagerly
    def clean(self: Any) -> None:
        self.assertTrue(tf.executing_eagerly())
        tf.constant([1.0]) * 2

    @test_util.assert_no_new_pyobjects_executing_eagerly
    def leaking(self: Any) -> None:
        kept.append([tf.constant([1.0]), []])

    clean(case)
    with pytest.raises(AssertionError, match=r"new_count\(\d+\) is not less than or equal to previous_count"):
        leaking(case)


def test_graphs_are_equal_but_for_internal_attributes() -> None:
    def graph_def(value: float, shapes: bool) -> Any:
        with tf.Graph().as_default() as g:
            tf.constant(value, name="c")
        return g.as_graph_def(add_shapes=shapes)

    test_util.assert_equal_graph_def(graph_def(1.0, True), graph_def(1.0, False))
    with pytest.raises(AssertionError, match="Nodes differ"):
        test_util.assert_equal_graph_def(graph_def(1.0, True), graph_def(2.0, True))


def test_elements_out_of_range_are_listed(case: Case) -> None:
    with pytest.raises(
        AssertionError, match=r"2 of the 3 element\(s\) are outside the range \[1, 2\)\."
    ) as found:
        case.assertAllInRange([0, 1, 2], 1, 2, open_upper_bound=True)
    assert str(found.value).splitlines()[1:] == ["  [0] : 0", "  [2] : 2"]
    with pytest.raises(AssertionError, match=r"1 of the 2 element\(s\) are NaN"):
        case.assertAllInRange([1.0, np.nan], 1, 2)
    with pytest.raises(AssertionError, match=r"  \.\.\.$"):
        case.assertAllInRange(np.zeros([4, 4]), 1, 2)


def test_lists_of_different_depth_are_compared(case: Case) -> None:
    case.assertAllClose([1.0, [2.0, 3.0]], [1.0, (2.0, 3.0)])
    with pytest.raises(AssertionError, match="Shape mismatch"):
        case.assertAllClose([1, [2]], [1, 2])
    with pytest.raises(AssertionError, match="zz\nnot equal where(.|\n)*not equal lhs = "):
        case.assertAllEqual([1, 2], [1, 3], msg="zz")


def test_each_table_of_a_graph_has_a_shared_name() -> None:
    def graph_def(initializer: Any) -> Any:
        with tf.Graph().as_default() as graph:
            tf.lookup.StaticHashTable(initializer(), tf.constant(-1, tf.int64, name="default"))
            return graph.as_graph_def()

    def pairs() -> Any:
        return tf.lookup.KeyValueTensorInitializer(["a"], tf.constant([1], tf.int64))

    def file() -> Any:
        whole, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
        return tf.lookup.TextFileInitializer("words", tf.string, whole, tf.int64, number, vocab_size=3)

    first, second = graph_def(pairs), graph_def(pairs)
    with pytest.raises(AssertionError, match="hash_table_"):
        test_util.assert_equal_graph_def(first, second)
    test_util.assert_equal_graph_def(first, second, hash_table_shared_name=True)
    (table,) = [node for node in graph_def(file).node if node.op == "HashTableV2"]
    assert table.attr["shared_name"].s == b"hash_table_words_3_-2_-1"
