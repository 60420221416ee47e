# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.gradients with every argument, and gradient functions in Python."""
from __future__ import annotations

import gc
import itertools
import threading
import time
import weakref
from typing import Any, Iterator

import numpy as np
import pytest

import millrace as tf
from millrace.python.framework import function, ops
from millrace.python.ops import array_grad, gradient_checker_v2, gradients_impl, math_grad

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.Session() as sess:
        yield sess


def _name(prefix: str) -> str:
    return "%s%d" % (prefix, next(_numbers))


def test_gradients_are_sums_over_paths_and_ys(session: Any) -> None:
    x = tf.constant([1.0, 2.0])
    y = tf.constant(3.0)
    a, b = x * y, tf.sin(x) + y
    gx, gy = tf.gradients([a, b, x], [x, y])
    np.testing.assert_allclose(session.run(gx), 3 + np.cos([1, 2]) + 1, rtol=1e-6)
    np.testing.assert_allclose(session.run(gy), 3 + 2, rtol=1e-6)


def test_grad_ys(session: Any) -> None:
    x = tf.constant([1.0, 2.0])
    y = x * x
    g = tf.gradients([y, x], x, grad_ys=[tf.constant([10.0, 100.0]), None])[0]
    assert session.run(g).tolist() == [2 * 10 + 1, 4 * 100 + 1]
    with pytest.raises(ValueError, match="Passed 1 grad_ys for 2 ys"):
        tf.gradients([y, y], x, grad_ys=[y])
    with pytest.raises(TypeError, match="Gradient type string generated for real or integer-valued tensor"):
        tf.gradients(y, x, grad_ys=tf.constant("text"))
    c = tf.constant(1 + 2j)
    with pytest.raises(
        TypeError, match=r"Gradients of complex tensors must set grad_ys \(y\.dtype = tf\.complex64\)"
    ):
        tf.gradients(tf.cast(c, tf.complex64) * 2, c)


def test_names_are_those_of_tensorflow() -> None:
    with tf.name_scope("model"):
        x = tf.constant(1.0, name="x")
        y = tf.square(x, name="y")
    g = tf.gradients(y, x, name="mine")[0]
    assert g.op.name.startswith("mine/model/y_grad/")
    assert tf.gradients(y, x)[0].op.name.startswith("gradients/model/y_grad/")
    assert tf.gradients(y, x)[0].op.name.startswith("gradients_1/model/y_grad/")


def test_unconnected_gradients(session: Any) -> None:
    x, other = tf.constant([1.0]), tf.constant([[1.0, 2.0]])
    y = x * 2
    assert tf.gradients(y, [x, other])[1] is None
    zero = tf.gradients(y, [x, other], unconnected_gradients="zero")[1]
    assert session.run(zero).tolist() == [[0, 0]]
    zero = tf.gradients(y, other, unconnected_gradients=tf.UnconnectedGradients.ZERO)[0]
    assert session.run(zero).tolist() == [[0, 0]]
    variable = tf.get_variable("v", [2, 3], use_resource=True)
    zero = tf.gradients(y, [variable, other], unconnected_gradients="zero")
    assert [v.tolist() for v in session.run(zero)] == [[[0] * 3] * 2, [[0, 0]]]
    with pytest.raises(ValueError, match="Unknown value for unconnected_gradients: 'nonsense'"):
        tf.gradients(y, other, unconnected_gradients="nonsense")


def test_gradients_end_at_integers_strings_and_stops(session: Any) -> None:
    x = tf.constant([1.5, 2.5])
    assert tf.gradients(tf.cast(tf.cast(x, tf.int32), tf.float32), x) == [None]
    assert tf.gradients(tf.stop_gradient(x) * 2, x) == [None]
    a = x * 2
    b = a + x
    g = tf.gradients(a + b, [x, a, b], stop_gradients=[x, a, b])
    assert g[0] is None and [v.tolist() for v in session.run(g[1:])] == [[1, 1], [1, 1]]
    g = tf.gradients(a + x, [x, a], stop_gradients=[x, a])
    assert [v.tolist() for v in session.run(g)] == [[1, 1], [1, 1]]
    g = tf.gradients(b * b, x, stop_gradients=[a])[0]
    np.testing.assert_allclose(session.run(g), 2 * 3 * np.array([1.5, 2.5]))


def test_override_maps_are_dictionaries_of_strings() -> None:
    graph = tf.get_default_graph()
    for wrong in (3, {3: "a"}, {"a": 3}):
        with pytest.raises(TypeError, match="^op_type_map must be a dictionary mapping strings to strings$"):
            with graph.gradient_override_map(wrong):  # type: ignore[arg-type]
                pass


def test_an_op_without_gradient_is_an_error() -> None:
    # An op without a gradient.
    x = tf.constant([1.0, 2.0])
    with tf.get_default_graph().gradient_override_map({"Identity": "NoSuchGradient"}):
        y = tf.identity(x, name="odd")
    with pytest.raises(LookupError, match=r"No gradient defined for operation 'odd' \(op type: Identity\)"):
        tf.gradients(y, x)


def test_colocation() -> None:
    x = tf.constant([[1.0]], name="x")
    with tf.device("/cpu:0"):
        y = tf.matmul(x, x, name="y")
    plain = tf.gradients(y, x)[0]
    assert plain.op.device == "" and plain.op.colocation_groups() != [b"loc:@y"]
    placed = tf.gradients(y, x, colocate_gradients_with_ops=True)[0]
    names = [
        op for op in tf.get_default_graph().get_operations() if op.name.startswith("gradients_1/y_grad/")
    ]
    assert names and all(op.colocation_groups() == [b"loc:@y"] for op in names)
    assert placed is not None
    with tf.device("/device:CPU:0"):
        g = tf.gradients(y, x)[0]
    assert g.op.device == "/device:CPU:0"


@pytest.mark.parametrize("method, wanted", [(0, {"AddN"}), (1, {"AddN"}), (2, {"AccumulateNV2", "AddN"})])
def test_aggregation(session: Any, method: int, wanted: Any) -> None:
    x = tf.constant([2.0])
    y = x * 2 + tf.sin(x) + tf.exp(x) + x
    g = tf.gradients(y, x, aggregation_method=method)[0]
    np.testing.assert_allclose(session.run(g), 2 + np.cos([2]) + np.exp([2]) + 1, rtol=1e-6)
    kinds = {op.type for op in tf.get_default_graph().get_operations() if op.name.startswith("gradients/Add")}
    assert kinds <= wanted | {"AddV2", "Add", "AccumulateNV2"}
    with pytest.raises(ValueError, match="Invalid aggregation_method specified 7"):
        tf.gradients(y, x, aggregation_method=7)


def test_gates(session: Any) -> None:
    x = tf.constant([[1.0, 2.0]])
    w = tf.constant([[1.0], [3.0]])
    g = tf.gradients(tf.matmul(x, w), [x, w], gate_gradients=True)
    assert [v.tolist() for v in session.run(g)] == [[[1, 3]], [[1], [2]]]
    assert any("tuple" in op.name for op in tf.get_default_graph().get_operations())


@pytest.mark.parametrize("resource", [False, True])
def test_gathers_give_slices(session: Any, resource: bool) -> None:
    v = tf.get_variable("v", initializer=np.ones((4, 2), np.float32), use_resource=resource)
    y = tf.gather(v, [1, 3, 1]) * 2.0
    g = tf.gradients(y, v)[0]
    assert isinstance(g, tf.IndexedSlices)
    session.run(v.initializer)
    value = session.run(g)
    assert value.indices.tolist() == [1, 3, 1] and value.values.tolist() == [[2, 2]] * 3
    assert session.run(tf.convert_to_tensor(g)).tolist() == [[0, 0], [4, 4], [0, 0], [2, 2]]


def test_registered_gradients(session: Any) -> None:
    name = _name("Tenfold")
    seen = []

    @tf.RegisterGradient(name)
    def _tenfold(op: Any, grad: Any) -> Any:
        seen.append((op.type, tf.get_default_graph().get_name_scope()))
        return grad * 10.0

    x = tf.constant([1.0, 2.0])
    with tf.get_default_graph().gradient_override_map({"Identity": name}):
        y = tf.identity(x, name="y")
    assert session.run(tf.gradients(y * 3.0, x)[0]).tolist() == [30, 30]
    assert seen == [("Identity", "gradients/y_grad")]
    again = r"Registering two gradient with name '%s'! \(Previous registration was in \w+ .*test_gradients.py:\d+\)"
    with pytest.raises(KeyError, match=again % name):
        tf.RegisterGradient(name)(_tenfold)
    with pytest.raises(KeyError, match="Registering two gradient with name 'MatMul'!"):
        tf.RegisterGradient("MatMul")(_tenfold)
    with pytest.raises(TypeError, match="op_type must be a string"):
        tf.RegisterGradient(1)
    assert ops.get_gradient_function(y.op) is _tenfold


def test_errors_in_gradient_functions(session: Any) -> None:
    x = tf.constant([1.0, 2.0])

    def gradient_of(result: Any) -> Any:
        name = _name("Faulty")
        tf.RegisterGradient(name)(result)
        with tf.get_default_graph().gradient_override_map({"Identity": name}):
            return tf.gradients(tf.identity(tf.sin(x)) * 2.0, x)

    def fails(op: Any, grad: Any) -> Any:
        raise ZeroDivisionError("in the gradient")

    with pytest.raises(ZeroDivisionError, match="in the gradient"):
        gradient_of(fails)
    with pytest.raises(ValueError, match="(?s)Num gradients 2 generated for op .* do not match num inputs 1"):
        gradient_of(lambda op, grad: [grad, grad])
    with pytest.raises(
        ValueError, match="Incompatible shapes between op input and calculated input gradient"
    ):
        gradient_of(lambda op, grad: tf.constant([1.0, 2.0, 3.0]))
    # The graph can still be used.
    assert session.run(tf.gradients(x * x, x)[0]).tolist() == [2, 4]
    assert gradient_of(lambda op, grad: None) == [None]


def test_python_gradients_in_loops(session: Any) -> None:
    name = _name("InLoop")

    @tf.RegisterGradient(name)
    def _square(op: Any, grad: Any) -> Any:
        return grad * (op.inputs[0] * 2.0 + tf.constant(0.0)) + op.outputs[0] * 0.0

    x = tf.placeholder(tf.float32, [])

    def body(i: Any, a: Any) -> Any:
        with tf.get_default_graph().gradient_override_map({"Square": name}):
            return i + 1, tf.square(a)

    y = tf.while_loop(lambda i, a: i < 3, body, [0, x])[1]
    g = tf.gradients(y, x)[0]
    np.testing.assert_allclose(session.run(g, {x: 1.5}), 8 * 1.5**7, rtol=1e-6)
    gg = tf.gradients(g, x)[0]
    np.testing.assert_allclose(session.run(gg, {x: 1.5}), 56 * 1.5**6, rtol=1e-6)


def test_gradient_functions_of_the_engine(session: Any) -> None:
    x = tf.constant([[1.0, 2.0]])
    y = tf.constant([[3.0], [4.0]])
    z = tf.matmul(x, y)
    gx, gy = math_grad._MatMulGrad(z.op, tf.constant([[10.0]]))
    assert session.run([gx, gy])[0].tolist() == [[30, 40]]
    assert session.run(gy).tolist() == [[10], [20]]
    assert session.run(ops.get_gradient_function(tf.square(x).op)(tf.square(x).op, x)).tolist() == [[2, 8]]
    assert array_grad._ReshapeGrad is not None
    with pytest.raises(AttributeError):
        math_grad._NoSuchGrad


def test_custom_gradient(session: Any) -> None:
    @tf.custom_gradient
    def log1pexp(x: Any) -> Any:
        e = tf.exp(x)

        def grad(dy: Any) -> Any:
            return dy * (1 - 1 / (1 + e))

        return tf.log(1 + e), grad

    x = tf.constant(100.0)
    y = log1pexp(x)
    assert session.run(tf.gradients(y, x)) == [1]
    assert log1pexp.__name__ == "log1pexp"

    @tf.custom_gradient
    def two(x: Any, y: Any) -> Any:
        return [x * y, x + y], lambda da, db: (da * 2.0, db * 3.0)

    a, b = tf.constant(1.0), tf.constant(5.0)
    r = two(a, b)
    assert isinstance(r, list) and session.run(r) == [5, 6]
    assert session.run(tf.gradients(r, [a, b])) == [2, 3]
    assert session.run(tf.gradients(r[0], a)) == [2]

    @tf.custom_gradient
    def wrong(x: Any) -> Any:
        return x * 1.0, lambda dy: (dy, dy)

    with pytest.raises(
        ValueError, match="custom_gradient function expected to return 1 gradients but returned 2"
    ):
        tf.gradients(wrong(a), a)


def test_custom_gradient_with_variables(session: Any) -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        w = tf.get_variable("w", initializer=3.0, use_resource=True)
        out = x * w

        def grad(dy: Any, variables: Any = None) -> Any:
            assert [v.name for v in variables] == ["w:0"]
            return dy * w * 10.0, [dy * x * 100.0]

        return out, grad

    x = tf.constant(2.0)
    y = f(x)
    w = tf.global_variables()[0]
    session.run(w.initializer)
    assert session.run([y] + tf.gradients(y, [x, w])) == [6, 30, 200]

    @tf.custom_gradient
    def g(x: Any) -> Any:
        w = tf.get_variable("u", initializer=3.0, use_resource=False)
        return x * w, lambda dy, variables: (dy, [dy])

    with pytest.raises(
        TypeError, match="All variables used by `f` in `tf.custom_gradient` must be `ResourceVariable`s"
    ):
        g(x)


def test_recompute_and_pass_through(session: Any) -> None:
    x = tf.constant(0.5)
    y = tf.recompute_grad(lambda v: tf.sin(v) * v)(x)
    want = np.cos(0.5) * 0.5 + np.sin(0.5)
    np.testing.assert_allclose(session.run(tf.gradients(y, x)[0]), want, rtol=1e-6)
    z = tf.grad_pass_through(tf.round)(x)
    assert session.run(tf.gradients(z * 3.0, x)) == [3]


def test_hessians(session: Any) -> None:
    matrix = np.array([[2.0, 1.0], [1.0, 5.0]], np.float32)
    x = tf.placeholder(tf.float32, [2])
    product = tf.tensordot(tf.tensordot(x, tf.constant(matrix), 1), x, 1)
    h = tf.hessians(product, x)[0]
    np.testing.assert_allclose(session.run(h, {x: [1, 2]}), matrix + matrix.T)
    v = tf.constant([1.0, -1.0])
    hv = gradients_impl._hessian_vector_product(product, [x], [v])[0]
    np.testing.assert_allclose(session.run(hv, {x: [1, 2]}), (matrix + matrix.T) @ [1, -1])
    with pytest.raises(ValueError, match="xs and v must have the same length"):
        gradients_impl._hessian_vector_product(product, [x], [])


def test_functions(session: Any) -> None:
    @function.Defun(tf.float32, tf.float32)
    def product(x: Any, y: Any) -> Any:
        return x * x * y

    x, y = tf.constant(3.0), tf.constant(5.0)
    assert session.run(tf.gradients(product(x, y), [x, y])) == [30, 9]

    def python_gradient(op: Any, grad: Any) -> Any:
        return grad * 100.0, grad * 200.0

    @function.Defun(tf.float32, tf.float32, python_grad_func=python_gradient)
    def other(x: Any, y: Any) -> Any:
        return x * y

    assert session.run(tf.gradients(other(x, y), [x, y])) == [100, 200]

    @function.Defun(tf.float32, tf.float32)
    def backward(x: Any, grad: Any) -> Any:
        return grad * 7.0

    @function.Defun(tf.float32, grad_func=backward)
    def forward(x: Any) -> Any:
        return x * x

    assert session.run(tf.gradients(forward(x), x)) == [7]

    @function.Defun(tf.float32)
    def inner(x: Any) -> Any:
        return tf.gradients(x * x * x, x)[0]

    assert session.run(inner(x)) == 27


def test_the_checker_finds_wrong_gradients(session: Any) -> None:
    x = tf.constant([[0.5, 1.5]], tf.float64)
    assert tf.test.compute_gradient_error(x, [1, 2], tf.sin(x) * x, [1, 2]) < 1e-6
    c = tf.constant([1 + 2j, 3 - 1j], tf.complex128)
    assert tf.test.compute_gradient_error(c, [2], c * c, [2]) < 1e-6
    name = _name("Wrong")
    tf.RegisterGradient(name)(lambda op, grad: grad * 5.0)
    with tf.get_default_graph().gradient_override_map({"Sin": name}):
        y = tf.sin(x)
    assert tf.test.compute_gradient_error(x, [1, 2], y, [1, 2]) > 1
    theory, numbers = gradient_checker_v2.compute_gradient(lambda a: a * a, [np.array([1.0, 3.0])])
    np.testing.assert_allclose(theory[0], [[2, 0], [0, 6]])
    assert gradient_checker_v2.max_error(theory, numbers) < 1e-6


def test_a_deep_network(session: Any) -> None:
    x = tf.constant([[1.0]])
    y = x
    for _ in range(1000):
        y = tf.nn.relu(tf.matmul(y, x) + 0.0)
    assert session.run(tf.gradients(y, x)[0]).tolist() == [[1001.0]]


def test_graphs_with_custom_gradients_are_freed() -> None:
    def make() -> Any:
        with tf.Graph().as_default() as graph:
            x = tf.constant(1.0)

            @tf.custom_gradient
            def f(x: Any) -> Any:
                return x * 2.0, lambda dy: dy * x

            tf.gradients(f(x), x)
        return weakref.ref(graph)

    reference = make()
    gc.collect()
    assert reference() is None


def test_threads_wait_for_gradients_of_their_graph(session: Any) -> None:
    graph = tf.get_default_graph()
    started, made = threading.Event(), []
    name = _name("Slow")

    @tf.RegisterGradient(name)
    def _slow(op: Any, grad: Any) -> Any:
        started.set()
        for _ in range(100):
            time.sleep(0.001)  # lets the other thread run
        return grad * 2.0

    x = tf.constant(1.0)
    with graph.gradient_override_map({"Identity": name}):
        y = tf.identity(x)

    def add() -> None:
        started.wait(10)
        with graph.as_default():
            made.append(tf.constant(5.0))

    thread = threading.Thread(target=add)
    thread.start()
    grads = tf.gradients(y, x)
    thread.join(30)
    assert not thread.is_alive()
    assert session.run(grads + made) == [2, 5]
