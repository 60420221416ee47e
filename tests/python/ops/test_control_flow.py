# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Conditions, loops and dependencies give what the same Python code gives."""
from __future__ import annotations

import collections
from typing import Any, Iterator

import numpy as np
import pytest

import millrace as tf
from millrace.python.framework import errors
from millrace.python.ops import control_flow_ops, tensor_array_ops


@pytest.fixture(autouse=True)
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.Session() as sess:
        yield sess


def test_cond_runs_only_the_branch_taken(session: Any) -> None:
    pred = tf.placeholder(tf.bool)
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    result = tf.cond(pred, lambda: tf.assign_add(v, 1.0), lambda: tf.assign_add(w, 10.0))
    session.run(tf.global_variables_initializer())
    assert session.run(result, {pred: True}) == 1
    assert session.run(result, {pred: False}) == 10
    assert session.run([v, w]) == [1, 10]


def test_cond_of_structures() -> None:
    Pair = collections.namedtuple("Pair", ["a", "b"])
    x = tf.constant([1.0, 2.0])
    for flag in (True, False):
        r = tf.cond(tf.constant(flag), lambda: Pair(x, {"k": x * 2}), lambda: Pair(x + 1, {"k": x * 3}))
        assert isinstance(r, Pair)
        np.testing.assert_array_equal(r.a.eval(), [1, 2] if flag else [2, 3])
        np.testing.assert_array_equal(r.b["k"].eval(), [2, 4] if flag else [3, 6])


def test_cond_of_slices_and_sparse_tensors(session: Any) -> None:
    values, indices = tf.constant([10.0]), tf.constant([0])
    slices = tf.IndexedSlices(values, indices)
    r = tf.cond(
        tf.less(1, 2),
        lambda: tf.IndexedSlices(tf.add(slices.values, 1), indices),
        lambda: tf.IndexedSlices(tf.subtract(slices.values, 1), indices),
    )
    assert session.run([r.values, r.indices]) == [[11.0], [0]]
    sparse = tf.SparseTensor([[0], [3]], [1.0, 4.0], [4])
    r = tf.cond(
        tf.less(2, 1),
        lambda: tf.SparseTensor(sparse.indices, sparse.values + 1, sparse.dense_shape),
        lambda: tf.SparseTensor(sparse.indices, sparse.values - 1, sparse.dense_shape),
    )
    assert session.run(r.values).tolist() == [0, 3]


@pytest.mark.parametrize(
    "true_fn, false_fn, error, text",
    [
        (1, lambda: 1, TypeError, "true_fn must be callable"),
        (lambda: 1, 1, TypeError, "false_fn must be callable"),
        (lambda: None, lambda: 1, ValueError, "true_fn must have a return value"),
        (lambda: 1, lambda: [1, 2], ValueError, "Incompatible return values of true_fn and false_fn"),
        (
            lambda: 1,
            lambda: 1.0,
            ValueError,
            "Outputs of true_fn and false_fn must have the same type: int32, float32",
        ),
        (lambda: [], lambda: [], ValueError, "true_fn and false_fn must return at least one result"),
    ],
)
def test_cond_refuses_branches(true_fn: Any, false_fn: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        tf.cond(tf.constant(True), true_fn, false_fn)


def test_cond_refuses_a_python_bool() -> None:
    with pytest.raises(TypeError, match="pred must not be a Python bool"):
        tf.cond(True, lambda: 1, lambda: 2)


def test_nested_conds(session: Any) -> None:
    a, b = tf.placeholder(tf.bool), tf.placeholder(tf.bool)
    x = tf.constant(2.0)
    y = tf.cond(
        a,
        lambda: tf.cond(b, lambda: x * x, lambda: x * x * x),
        lambda: tf.cond(b, lambda: -x, lambda: 5.0 * x),
    )
    (g,) = tf.gradients(y, x)
    for pa, pb, want, slope in ((1, 1, 4, 4), (1, 0, 8, 12), (0, 1, -2, -1), (0, 0, 10, 5)):
        assert session.run([y, g], {a: pa, b: pb}) == [want, slope]


def test_while_loop_of_structures(session: Any) -> None:
    Pair = collections.namedtuple("Pair", ["j", "k"])
    i, pair, last = tf.while_loop(
        lambda i, p, d: i < 5,
        lambda i, p, d: (i + 1, Pair(p.j + p.k, p.k * 2), {"x": d["x"] + 1.0}),
        (tf.constant(0), Pair(tf.constant(1), tf.constant(2)), {"x": tf.constant(0.5)}),
    )
    assert session.run([i, pair, last]) == [5, Pair(63, 64), {"x": 5.5}]


def test_while_loop_of_one_variable_returns_it(session: Any) -> None:
    r = tf.while_loop(lambda x: x < 100, lambda x: x * 2, [tf.constant(3)])
    assert isinstance(r, tf.Tensor) and session.run(r) == 192
    r = tf.while_loop(lambda x: x < 100, lambda x: [x * 2], [tf.constant(3)], return_same_structure=True)
    assert isinstance(r, list) and session.run(r) == [192]


@pytest.mark.parametrize("limit", [0, 3, 20])
def test_maximum_iterations(session: Any, limit: int) -> None:
    for parallel in (1, 10):
        r = tf.while_loop(
            lambda i, x: i < 10, lambda i, x: (i + 1, x * 2.0), [0, tf.constant(1.0)], maximum_iterations=limit,
            parallel_iterations=parallel,
        )  # fmt: skip
        assert session.run(r) == [min(limit, 10), 2.0 ** min(limit, 10)]


def test_shape_invariants(session: Any) -> None:
    def body(i: Any, x: Any) -> Any:
        return i + 1, tf.concat([x, x], 0)

    start = tf.constant([1.0, 2.0])
    with pytest.raises(
        ValueError, match="Input tensor '.*' enters the loop with shape \\(2,\\), but has shape \\(4,\\)"
    ):
        tf.while_loop(lambda i, x: i < 3, body, [0, start])
    r = tf.while_loop(
        lambda i, x: i < 3,
        body,
        [tf.constant(0), start],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )
    assert r[1].get_shape().as_list() == [None]
    assert session.run(r[1]).tolist() == [1.0, 2.0] * 8
    (g,) = tf.gradients(r[1], start)
    assert session.run(g).tolist() == [8, 8]
    with pytest.raises(
        ValueError, match="The shape invariant specified for .* is not compatible with the initial shape"
    ):
        tf.while_loop(
            lambda i, x: i < 3,
            body,
            [tf.constant(0), start],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([5])],
        )


@pytest.mark.parametrize(
    "cond, body, variables, kwargs, error, text",
    [
        (1, lambda i: i, [0], {}, TypeError, "cond must be callable"),
        (lambda i: True, 1, [0], {}, TypeError, "body must be callable"),
        (lambda: True, lambda: 1, [], {}, ValueError, "No loop variables provided"),
        (
            lambda i: i < 1,
            lambda i: i,
            [0],
            {"parallel_iterations": 0},
            TypeError,
            "parallel_iterations must be a positive",
        ),
        (
            lambda i, j: i < 1,
            lambda i, j: i,
            [0, 1],
            {},
            ValueError,
            "same nested structure|same number of elements",
        ),
        (
            lambda i: i < 1,
            lambda i: [i, i],
            [0],
            {},
            ValueError,
            "same nested structure|same number of elements",
        ),
    ],
)
def test_while_loop_refuses(cond: Any, body: Any, variables: Any, kwargs: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        tf.while_loop(cond, body, variables, **kwargs)


def test_values_of_a_loop_stay_in_it() -> None:
    inner = []

    def body(i: Any) -> Any:
        inner.append(i * 2)
        return i + 1

    tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
    with pytest.raises(ValueError, match="Cannot use '.*' as input to '.*' because '.*' is in a while loop"):
        tf.add(inner[0], 1)


def test_loops_are_not_fetched_or_fed(session: Any) -> None:
    inner = []

    def body(i: Any) -> Any:
        inner.append(i * 2)
        return i + 1

    r = tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
    with pytest.raises(ValueError, match="has been marked as not fetchable"):
        session.run(inner[0])
    with pytest.raises(ValueError, match="may not be fed"):
        session.run(r, {inner[0]: 1})


def test_nested_loops_with_gradients(session: Any) -> None:
    x = tf.placeholder(tf.float32, [])

    def outer(i: Any, a: Any) -> Any:
        _, b = tf.while_loop(lambda j, b: j < i + 1, lambda j, b: (j + 1, b * x), [0, a])
        return i + 1, b

    _, y = tf.while_loop(lambda i, a: i < 3, outer, [0, tf.constant(1.0)])
    (g,) = tf.gradients(y, x)
    (gg,) = tf.gradients(g, x)
    (ggg,) = tf.gradients(gg, x)
    value = session.run([y, g, gg, ggg], {x: 1.5})  # x^6
    np.testing.assert_allclose(value, [1.5**6, 6 * 1.5**5, 30 * 1.5**4, 120 * 1.5**3], rtol=1e-5)


def test_cond_in_a_loop_with_gradients(session: Any) -> None:
    x = tf.placeholder(tf.float32, [])

    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: a * x, lambda: a + x)

    _, y = tf.while_loop(lambda i, a: i < 4, body, [0, x])
    (g,) = tf.gradients(y, x)
    # ((x*x + x)*x + x) = x^3 + x^2 + x
    assert session.run([y, g], {x: 2.0}) == [14, 17]


def test_loop_in_a_cond_with_gradients(session: Any) -> None:
    x, p = tf.placeholder(tf.float32, []), tf.placeholder(tf.bool, [])
    y = tf.cond(
        p, lambda: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, x])[1], lambda: x * 3.0
    )
    (g,) = tf.gradients(y, x)
    assert session.run([y, g], {x: 2.0, p: True}) == [16, 32]
    assert session.run([y, g], {x: 2.0, p: False}) == [6, 3]


def test_gradients_within_a_loop(session: Any) -> None:
    x = tf.placeholder(tf.float32, [3])
    outside = x * x

    def body(i: Any, total: Any) -> Any:
        y = outside * tf.cast(i, tf.float32) + tf.reduce_sum(x * x * x)
        (g,) = tf.gradients(y, x)
        return i + 1, total + g

    _, total = tf.while_loop(lambda i, t: i < 3, body, [1, tf.zeros([3])])
    value = np.array([1.0, 2.0, -1.0], np.float32)
    want = sum(2 * value * i + 3 * 3 * value**2 for i in (1, 2))
    np.testing.assert_allclose(session.run(total, {x: value}), want, rtol=1e-6)


def test_gradients_within_a_branch(session: Any) -> None:
    x, p = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.bool, [])
    outside = x * x
    y = tf.cond(p, lambda: tf.gradients(outside * 2.0 + tf.exp(x), x)[0], lambda: x)
    value = np.array([0.5, 2.0], np.float32)
    np.testing.assert_allclose(session.run(y, {x: value, p: True}), 4 * value + np.exp(value), rtol=1e-6)
    np.testing.assert_allclose(session.run(y, {x: value, p: False}), value)


def test_back_prop_false_gives_no_gradient() -> None:
    x = tf.constant(2.0)
    r = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, x], back_prop=False)
    assert tf.gradients(r[1], x) == [None]


def test_swap_memory(session: Any) -> None:
    x = tf.placeholder(tf.float32, [2])
    _, y = tf.while_loop(
        lambda i, a: i < 4,
        lambda i, a: (i + 1, tf.sin(a) * x),
        [0, x],
        swap_memory=True,
        parallel_iterations=1,
    )
    (g,) = tf.gradients(y, x)
    value = np.array([0.3, 1.2])

    def f(v: Any) -> Any:
        a = v
        for _ in range(4):
            a = np.sin(a) * v
        return a

    want = (f(value + 1e-5) - f(value - 1e-5)) / 2e-5
    np.testing.assert_allclose(session.run(g, {x: value}), want, rtol=1e-3)


def test_case(session: Any) -> None:
    x = tf.placeholder(tf.int32, [])
    r = tf.case(
        [(x < 10, lambda: tf.constant("small")), (x < 100, lambda: tf.constant("middle"))],
        lambda: tf.constant("big"),
    )
    assert [session.run(r, {x: v}) for v in (1, 20, 200)] == [b"small", b"middle", b"big"]
    r = tf.case({x < 10: lambda: 1, x > 5: lambda: 2}, default=lambda: 3, exclusive=True)
    assert session.run(r, {x: 1}) == 1
    with pytest.raises(errors.InvalidArgumentError, match="more than 1 conditions"):
        session.run(r, {x: 7})
    r = tf.case([(x < 10, lambda: tf.constant(1))])
    with pytest.raises(errors.InvalidArgumentError, match="None of conditions evaluated as True"):
        session.run(r, {x: 70})


def test_switch_case(session: Any) -> None:
    x = tf.placeholder(tf.int32, [])
    r = tf.switch_case(x, {0: lambda: 17, 1: lambda: 31}, default=lambda: -1)
    assert [session.run(r, {x: v}) for v in (0, 1, 5, -3)] == [17, 31, -1, -1]


def test_group_tuple_and_dependencies(session: Any) -> None:
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    session.run(tf.global_variables_initializer())
    both = tf.group(tf.assign_add(v, 1.0), tf.assign_add(w, 2.0))
    assert session.run(both) is None and session.run([v, w]) == [1, 2]
    a, b = tf.tuple([tf.assign_add(v, 1.0), tf.assign_add(w, 2.0)])
    session.run(a)
    assert session.run([v, w]) == [2, 4]
    c = control_flow_ops.with_dependencies([tf.assign_add(v, 1.0)], tf.constant(5.0))
    assert session.run(c) == 5 and session.run(v) == 3
    with pytest.raises(TypeError, match="Expected tf.group\\(\\) expected Tensor objects not"):
        tf.group("text")


def test_gradient_of_what_was_split_before_a_write(session: Any) -> None:
    """The element that was written later is no part of the gradient of the elements that were split."""
    for sizes, later in (([2, 1], [4.0, 5.0]), ([1, 2], [4.0, 5.0])):
        x = tf.constant([1.0, 2.0, 3.0])
        y = tf.constant(later)
        ta = tf.TensorArray(tf.float32, size=0, dynamic_size=True, infer_shape=False)
        both = ta.split(x, sizes).write(2, y).concat() * [1.0, 2.0, 3.0, 4.0, 5.0]
        dx, dy = session.run(tf.gradients(tf.reduce_sum(both), [x, y]))
        assert (dx.tolist(), dy.tolist()) == ([1, 2, 3], [4, 5])


def test_tensor_array(session: Any) -> None:
    ta = tf.TensorArray(tf.float32, size=3, clear_after_read=False)
    w0 = ta.write(0, [[4.0, 5.0]])
    w1 = w0.write(1, [[1.0, 3.0]]).write(2, [[7.0, -8.5]])
    assert session.run(w1.read(1)).tolist() == [[1, 3]]
    assert session.run(w1.stack()).tolist() == [[[4, 5]], [[1, 3]], [[7, -8.5]]]
    assert session.run(w1.concat()).tolist() == [[4, 5], [1, 3], [7, -8.5]]
    assert session.run(w1.gather([2, 0])).tolist() == [[[7, -8.5]], [[4, 5]]]
    assert session.run(w1.size()) == 3
    u = tf.TensorArray(tf.int32, size=0, dynamic_size=True).unstack([1, 2, 3]).write(3, 4)
    assert session.run(u.stack()).tolist() == [1, 2, 3, 4]
    s = tf.TensorArray(tf.float32, size=2, infer_shape=False).split([1.0, 2.0, 3.0], [1, 2])
    assert session.run([s.read(0), s.read(1)])[1].tolist() == [2, 3]
    with pytest.raises((ValueError, errors.InvalidArgumentError), match="TensorArray dtype is float but Op"):
        session.run(tf.TensorArray(tf.float32, size=3).write(0, "wrong").flow)
    with pytest.raises(
        errors.InvalidArgumentError, match="index 3 but array is not resizeable and size is: 3"
    ):
        session.run(ta.write(3, [[1.0, 2.0]]).flow)


def test_tensor_array_gradients(session: Any) -> None:
    x = tf.placeholder(tf.float32, [3])
    ta = tf.TensorArray(tf.float32, size=3, element_shape=[]).unstack(x)
    y = ta.read(0) * ta.read(2) * 2.0
    (g,) = tf.gradients(y, x)
    assert session.run(g, {x: [2, 3, 5]}).tolist() == [10, 0, 4]
    assert isinstance(ta, tensor_array_ops.TensorArray)


def test_map_fn_foldl_foldr_and_scan(session: Any) -> None:
    x = tf.placeholder(tf.float32, [4])
    value = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    feed = {x: value}
    np.testing.assert_allclose(session.run(tf.map_fn(lambda e: e * e, x), feed), value**2)
    two = tf.map_fn(lambda e: (e[0] * e[1], tf.cast(e[1], tf.int32)), (x, -x), dtype=(tf.float32, tf.int32))
    np.testing.assert_allclose(session.run(two[0], feed), -(value**2))
    assert session.run(two[1], feed).tolist() == [-1, -2, -3, -4]
    assert session.run(tf.foldl(lambda a, e: a * 2 + e, x), feed) == ((1 * 2 + 2) * 2 + 3) * 2 + 4
    assert (
        session.run(tf.foldr(lambda a, e: a * 2 + e, x, initializer=10.0), feed)
        == (((20 + 4) * 2 + 3) * 2 + 2) * 2 + 1
    )
    product = tf.scan(lambda a, e: a * e, x)
    np.testing.assert_allclose(session.run(product, feed), np.cumprod(value))
    np.testing.assert_allclose(
        session.run(tf.scan(lambda a, e: a + e, x, initializer=0.0, reverse=True), feed),
        np.cumsum(value[::-1])[::-1],
    )
    (g,) = tf.gradients(tf.reduce_sum(product), x)
    want = [sum(np.prod(np.delete(value[: n + 1], k)) for n in range(k, 4)) for k in range(4)]
    np.testing.assert_allclose(session.run(g, feed), want, rtol=1e-6)
    with pytest.raises(TypeError, match="fn must be callable"):
        tf.map_fn(1, x)
    with pytest.raises(ValueError, match="elems must be a 1\\+ dimensional Tensor, not a scalar"):
        tf.map_fn(lambda e: e, tf.constant(1.0))


def test_variables_in_loops(session: Any) -> None:
    for resource in (False, True):
        v = tf.get_variable("v%d" % resource, initializer=1.0, use_resource=resource)

        def body(i: Any) -> Any:
            with tf.control_dependencies([tf.assign_add(v, 2.0)]):
                return i + 1

        r = tf.while_loop(lambda i: i < 5, body, [tf.constant(0)], parallel_iterations=1)
        session.run(v.initializer)
        assert session.run(r) == 5 and session.run(v) == 11


def test_control_dependencies_around_a_loop(session: Any) -> None:
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    session.run(v.initializer)
    with tf.control_dependencies([tf.assign(v, 3.0)]):
        r = tf.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x + v.read_value()), [0, tf.constant(0.0)])
    assert session.run(r[1]) == 6


def test_contexts_survive_meta_graphs(session: Any) -> None:
    x = tf.constant(2.0, name="x")
    y = tf.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, tf.cond(i < 1, lambda: a * x, lambda: a + x)), [0, x]
    )[1]
    tf.identity(y, name="y")
    message = tf.train.export_meta_graph()
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.train.import_meta_graph(message, import_scope="in")
        graph = tf.get_default_graph()
        y, x = graph.get_tensor_by_name("in/y:0"), graph.get_tensor_by_name("in/x:0")
        assert sess.run(y) == 8
        assert sess.run(tf.gradients(y, x)) == [6]
        contexts = tf.get_collection(tf.GraphKeys.WHILE_CONTEXT)
        assert [c.name for c in contexts] == ["in/while/while_context"]


@pytest.fixture
def functional(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions and loops are operations with functions."""
    from millrace.python.ops import control_flow_util

    monkeypatch.setattr(control_flow_util, "ENABLE_CONTROL_FLOW_V2", True)


def test_nested_functional_conditions_take_tensors_from_outside(functional: None, session: Any) -> None:
    x = tf.placeholder(tf.float32, [])
    y = tf.cond(x > 1, lambda: tf.cond(x > 5, lambda: x * x, lambda: x + 3), lambda: 2 * x)
    (g,) = tf.gradients(y, x)
    assert [session.run([y, g], {x: v}) for v in (10, 3, 0)] == [[100, 20], [6, 1], [0, 2]]
    assert [op.type for op in tf.get_default_graph().get_operations() if op.type.endswith("If")]


def test_nested_functional_loops_take_tensors_from_outside(functional: None, session: Any) -> None:
    x = tf.constant(2.0)

    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.while_loop(lambda j, b: j < i, lambda j, b: (j + 1, b * x), [0, a])[1]

    y = tf.while_loop(lambda i, a: i < 4, body, [0, x])[1]
    assert session.run([y, tf.gradients(y, x)[0]]) == [2.0**7, 7 * 2.0**6]


def test_functional_loops_refuse_values_that_change_their_shape(functional: None, session: Any) -> None:
    x = tf.ones([2, 2])
    with pytest.raises(
        ValueError, match=r"enters the loop with shape \(2, 2\), but has shape \(4, 2\) after one"
    ):
        tf.while_loop(lambda a: True, lambda a: tf.concat([a, a], 0), [x])
    free = tf.while_loop(
        lambda i, a: i < 2, lambda i, a: (i + 1, tf.concat([a, a], 0)), [tf.constant(0), x],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 2])],
    )  # fmt: skip
    assert session.run(free[1]).shape == (8, 2)
