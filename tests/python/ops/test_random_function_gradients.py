# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients of loops and conditions as functions that draw random numbers or have effects."""
import numpy as np
import pytest

import millrace as tf
from millrace.python.framework import function
from millrace.python.ops import cond_v2, functional_ops, while_v2

X = np.array([0.5, 1.0, 1.5, 2.0], np.float64)


def run(*fetches):
    with tf.compat.v1.Session() as sess:
        sess.run(tf.compat.v1.global_variables_initializer())
        return sess.run(list(fetches))


def dropout_loop(x, counter, steps=3):
    """y = sin(y) * mask + y * x in each step; also the masks."""

    def body(i, y, masks):
        with tf.control_dependencies([counter.assign_add(1)]):
            mask = tf.cast(tf.random.uniform([4]) > 0.5, tf.float64)
        return i + 1, tf.sin(y) * mask + y * x, tf.concat([masks, [mask]], 0)

    start = tf.zeros([0, 4], tf.float64)
    shapes = [tf.TensorShape([]), x.shape, tf.TensorShape([None, 4])]
    return while_v2.while_loop(lambda i, y, m: i < steps, body, [0, x, start], shape_invariants=shapes)[1:]


def loop_by_hand(x, masks):
    """y, dy/dx and d2y/dx2, element by element."""
    y, d, d2 = x.copy(), np.ones(4), np.zeros(4)
    for mask in masks:
        n = np.sin(y) * mask + y * x
        nd = np.cos(y) * d * mask + d * x + y
        nd2 = (-np.sin(y) * d * d + np.cos(y) * d2) * mask + d2 * x + 2 * d
        y, d, d2 = n, nd, nd2
    return y, d, d2


def test_gradient_of_a_loop_is_of_the_masks_that_were_drawn():
    counter = tf.Variable(0, use_resource=True)
    x = tf.constant(X)
    y, masks = dropout_loop(x, counter)
    (g,) = tf.gradients(y, [x])
    (h,) = tf.gradients(g, [x])
    with tf.control_dependencies([y, g, h]):
        count = counter.read_value()
    got_y, got_g, got_h, m, n = run(y, g, h, masks, count)
    assert m.shape == (3, 4)
    for got, wanted in zip((got_y, got_g, got_h), loop_by_hand(X, m)):
        np.testing.assert_allclose(got, wanted, rtol=1e-10)
    assert n == 3


def test_a_session_that_ran_the_loop_before_runs_its_gradient():
    counter = tf.Variable(0, use_resource=True)
    x = tf.constant(X)
    y, masks = dropout_loop(x, counter)
    with tf.compat.v1.Session() as sess:
        sess.run(counter.initializer)
        before, m = sess.run([y, masks])
        np.testing.assert_allclose(before, loop_by_hand(X, m)[0])
        assert sess.run(counter) == 3
        (g,) = tf.gradients(y, [x])
        got_y, got_g, m = sess.run([y, g, masks])
        np.testing.assert_allclose(got_y, loop_by_hand(X, m)[0])
        np.testing.assert_allclose(got_g, loop_by_hand(X, m)[1])
        assert sess.run(counter) == 6


def test_shapes_and_names_of_the_loop_stay():
    x = tf.constant(X)
    y, _ = dropout_loop(x, tf.Variable(0, use_resource=True))
    y = y.op.inputs[0]  # of an Identity
    loop = y.op
    inputs, outputs, name = list(loop.inputs), list(loop.outputs), y.name
    (g,) = tf.gradients(y, [x])
    assert g.shape.as_list() == [4]
    assert y.name == name and y.shape.as_list() == [4]
    assert list(loop.inputs)[: len(inputs)] == inputs
    assert len(loop.inputs) == len(loop.outputs) > len(outputs)
    assert all(a is b for a, b in zip(loop.outputs, outputs))


def test_names_of_functional_control_flow():
    x = tf.constant(1.0)
    with tf.name_scope("foo"):
        y = cond_v2.cond_v2(tf.constant(True), lambda: x, lambda: x + 1, name="")
        z = while_v2.while_loop(lambda i: i < 3, lambda i: i + 1, [0], name=None)[0]
    for result, op_type, name, functions in (
        (y, "StatelessIf", "foo/cond", {"then_branch": "foo_cond_true_", "else_branch": "foo_cond_false_"}),
        (z, "StatelessWhile", "foo/while", {"cond": "foo_while_cond_", "body": "foo_while_body_"}),
    ):
        assert result.op.type == "Identity" and result.name == name + "/Identity:0"
        op = result.op.inputs[0].op
        assert (op.type, op.name) == (op_type, name)
        for attr, prefix in functions.items():
            assert op.get_attr(attr).name.startswith(prefix)


def test_a_graph_with_such_a_gradient_is_imported_again():
    counter = tf.Variable(0, use_resource=True)
    x = tf.constant(X)
    y, masks = dropout_loop(x, counter)
    (g,) = tf.gradients(y, [x])
    graph_def = tf.compat.v1.get_default_graph().as_graph_def()
    names = [y.name, g.name, masks.name, counter.initializer.name]
    with tf.Graph().as_default():
        y, g, masks, init = tf.import_graph_def(graph_def, return_elements=names, name="")
        with tf.compat.v1.Session() as sess:
            sess.run(init)
            _, got, m = sess.run([y, g, masks])
    np.testing.assert_allclose(got, loop_by_hand(X, m)[1])


def test_gradient_for_a_variable_that_the_body_reads_and_another_changes():
    w = tf.Variable(X, use_resource=True)
    other = tf.Variable(1.0, dtype=tf.float64, use_resource=True)

    def body(i, y, masks):
        mask = tf.random.uniform([4], dtype=tf.float64)
        with tf.control_dependencies([mask]):
            scale = other.assign_add(1.0)
        return i + 1, y * w * mask * scale, tf.concat([masks, [mask]], 0)

    start = tf.zeros([0, 4], tf.float64)
    shapes = [tf.TensorShape([]), tf.TensorShape([4]), tf.TensorShape([None, 4])]
    ones = tf.ones([4], tf.float64)
    _, y, masks = while_v2.while_loop(lambda i, y, m: i < 3, body, [0, ones, start], shape_invariants=shapes)
    (g,) = tf.gradients(y, [w])
    got_y, got, m = run(y, g, masks)
    factor = m.prod(0) * 2 * 3 * 4
    np.testing.assert_allclose(got_y, factor * X**3)
    np.testing.assert_allclose(got, factor * 3 * X**2)


def test_a_loop_without_anything_to_keep_still_counts_its_iterations():
    counter = tf.Variable(0, use_resource=True)
    x = tf.constant(X)

    def body(i, y):
        with tf.control_dependencies([counter.assign_add(1)]):
            return i + 1, y * 2

    y = while_v2.while_loop(lambda i, y: i < 5, body, [0, x])[1]
    (g,) = tf.gradients(y, [x])
    with tf.control_dependencies([g, y]):
        count = counter.read_value()
    got, n = run(g, count)
    np.testing.assert_array_equal(got, np.full(4, 32.0))
    assert n == 5


def test_a_loop_of_no_iterations_gives_the_gradient_that_arrives():
    x = tf.constant(X)
    y, _ = dropout_loop(x, tf.Variable(0, use_resource=True), steps=0)
    (g,) = tf.gradients(y, [x])
    np.testing.assert_array_equal(run(g)[0], np.ones(4))


@pytest.mark.parametrize("taken", [True, False])
def test_gradient_of_a_condition_is_of_the_numbers_that_were_drawn(taken):
    counter = tf.Variable(0, use_resource=True)
    x = tf.constant(X)
    pred = tf.compat.v1.placeholder_with_default(taken, [])

    def draw(f):
        def branch():
            with tf.control_dependencies([counter.assign_add(1)]):
                noise = tf.random.uniform([4], dtype=tf.float64)
            return f(x) * noise, noise

        return branch

    y, noise = cond_v2.cond_v2(pred, draw(tf.sin), draw(tf.exp))
    (g,) = tf.gradients(y, [x])
    (h,) = tf.gradients(g, [x])
    with tf.control_dependencies([y, g, h]):
        count = counter.read_value()
    got_y, got_g, got_h, r, n = run(y, g, h, noise, count)
    wanted = (np.sin(X), np.cos(X), -np.sin(X)) if taken else (np.exp(X),) * 3
    for got, value in zip((got_y, got_g, got_h), wanted):
        np.testing.assert_allclose(got, value * r)
    assert n == 1


def test_gradient_of_a_condition_in_a_loop():
    x = tf.constant(X)

    def body(i, y, noise):
        def drawn():
            r = tf.random.uniform([4], dtype=tf.float64)
            return tf.sin(y) * r, r

        new, r = cond_v2.cond_v2(tf.equal(i % 2, 0), drawn, lambda: (y * y, tf.ones([4], tf.float64)))
        return i + 1, new, tf.concat([noise, [r]], 0)

    shapes = [tf.TensorShape([]), tf.TensorShape([4]), tf.TensorShape([None, 4])]
    start = tf.zeros([0, 4], tf.float64)
    _, y, noise = while_v2.while_loop(lambda i, y, n: i < 4, body, [0, x, start], shape_invariants=shapes)
    (g,) = tf.gradients(y, [x])
    (h,) = tf.gradients(g, [x])
    got_y, got, got_h, r = run(y, g, h, noise)
    v, d, d2 = X.copy(), np.ones(4), np.zeros(4)
    for i in range(4):
        if i % 2 == 0:
            v, d, d2 = np.sin(v) * r[i], np.cos(v) * d * r[i], (np.cos(v) * d2 - np.sin(v) * d * d) * r[i]
        else:
            v, d, d2 = v * v, 2 * v * d, 2 * (d * d + v * d2)
    np.testing.assert_allclose(got_y, v)
    np.testing.assert_allclose(got, d)
    np.testing.assert_allclose(got_h, d2)


def test_gradient_of_a_loop_in_a_loop():
    x = tf.constant(X)
    counter = tf.Variable(0, use_resource=True)

    def outer(i, y, masks):
        def inner(j, z, m):
            with tf.control_dependencies([counter.assign_add(1)]):
                r = tf.random.uniform([4], dtype=tf.float64)
            return j + 1, tf.sin(z) * r, tf.concat([m, [r]], 0)

        shapes = [tf.TensorShape([]), tf.TensorShape([4]), tf.TensorShape([None, 4])]
        return [i + 1] + list(
            while_v2.while_loop(lambda j, z, m: j < i, inner, [0, y, masks], shape_invariants=shapes)[1:]
        )

    shapes = [tf.TensorShape([]), tf.TensorShape([4]), tf.TensorShape([None, 4])]
    start = tf.zeros([0, 4], tf.float64)
    _, y, noise = while_v2.while_loop(lambda i, y, m: i < 4, outer, [0, x, start], shape_invariants=shapes)
    (g,) = tf.gradients(y, [x])
    with tf.control_dependencies([g, y]):
        count = counter.read_value()
    got, r, n = run(g, noise, count)
    v, d = X.copy(), np.ones(4)
    for row in r:
        v, d = np.sin(v) * row, np.cos(v) * d * row
    np.testing.assert_allclose(got, d)
    assert n == 6 and r.shape == (6, 4)


def test_gradient_in_a_loop_of_primitives():
    x = tf.constant(X)

    def body(i, y, noise):
        def drawn():
            r = tf.random.uniform([4], dtype=tf.float64)
            return tf.sin(y) * r, r

        new, r = cond_v2.cond_v2(i < 2, drawn, lambda: (y * y, tf.ones([4], tf.float64)))
        inner = while_v2.while_loop(
            lambda j, z, n: j < 1, lambda j, z, n: (j + 1, *(lambda s: (z * s, n * s))(tf.random.uniform([], dtype=tf.float64))),
            [0, new, tf.ones([], tf.float64)],
        )  # fmt: skip
        return i + 1, inner[1], tf.concat([noise, [r * inner[2]]], 0)

    shapes = [tf.TensorShape([]), tf.TensorShape([4]), tf.TensorShape([None, 4])]
    start = tf.zeros([0, 4], tf.float64)
    _, y, noise = tf.while_loop(lambda i, y, n: i < 3, body, [0, x, start], shape_invariants=shapes)
    assert y.op.type == "Exit"
    (g,) = tf.gradients(y, [x])
    got_y, got, r = run(y, g, noise)
    v, d = X.copy(), np.ones(4)
    for i in range(3):
        v, d = (np.sin(v) * r[i], np.cos(v) * d * r[i]) if i < 2 else (v * v * r[i], 2 * v * d * r[i])
    np.testing.assert_allclose(got_y, v)
    np.testing.assert_allclose(got, d)


def test_gradient_of_operations_that_name_functions():
    @function.Defun(tf.float64, tf.float64)
    def noisy(a, noise):
        r = tf.random.uniform([4], dtype=tf.float64)
        return tf.sin(a) * r, r + noise * 0

    @function.Defun(tf.float64, tf.float64)
    def square(a, noise):
        return a * a, noise

    x, ones = tf.constant(X), tf.ones([4], tf.float64)
    y, noise = functional_ops.If(tf.constant(True), [x, ones], noisy, square)
    (g,) = tf.gradients(y, [x])
    got, r = run(g, noise)
    np.testing.assert_allclose(got, np.cos(X) * r)
    y, noise = functional_ops.stateful_partitioned_call([x, ones], [tf.float64, tf.float64], noisy)
    (g,) = tf.gradients(y, [x])
    (h,) = tf.gradients(g, [x])
    got, got_h, r = run(g, h, noise)
    np.testing.assert_allclose(got, np.cos(X) * r)
    np.testing.assert_allclose(got_h, -np.sin(X) * r)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_gradient_of_a_case(index):
    x = tf.constant(X)

    def of(f):
        def branch():
            r = tf.random.uniform([4], dtype=tf.float64)
            return f(x) * r, r

        return branch

    y, noise = cond_v2.indexed_case(
        tf.compat.v1.placeholder_with_default(index, []), [of(tf.sin), of(tf.exp), of(tf.square)]
    )
    (g,) = tf.gradients(y, [x])
    got, r = run(g, noise)
    np.testing.assert_allclose(got, [np.cos(X), np.exp(X), 2 * X][index] * r)


def test_functions_that_do_not_fit_the_operation_are_an_error():
    @function.Defun(tf.float64)
    def noisy(a):
        return a * tf.random.uniform([4], dtype=tf.float64)

    @function.Defun(tf.float64)
    def cond(a):
        return tf.reduce_sum(a) < 10

    @function.Defun(tf.float64, tf.float64)
    def two(a, b):
        return a * tf.random.uniform([4], dtype=tf.float64)

    graph = tf.compat.v1.get_default_graph()
    for f in (noisy, cond, two):
        f.add_to_graph(graph)
    x = tf.constant(X)
    y = functional_ops.If(tf.constant(True), [x], noisy, noisy)[0]
    y.op._set_attr("else_branch", y.op.node_def.attr["then_branch"].__class__(func={"name": two.name}))
    with pytest.raises((tf.errors.OpError, ValueError), match="parameters"):
        tf.gradients(y, [x])
    y = functional_ops.While([x], cond, noisy)[0]
    y.op._set_attr("body", y.op.node_def.attr["body"].__class__(func={"name": two.name}))
    with pytest.raises((tf.errors.OpError, ValueError)):
        run(tf.gradients(y, [x])[0])


def test_a_function_that_calls_itself_is_refused():
    """Its gradient would have no end."""
    types = [tf.int32, tf.float64]

    @function.Defun(*types, func_name="Last")
    def last(n, x):
        return x

    @function.Defun(*types, func_name="Again")
    def again(n, x):
        (y,) = functional_ops.gen_functional_ops.stateful_partitioned_call(
            args=[n - 1, x * tf.random.uniform([], dtype=tf.float64)], Tout=[tf.float64], f="Recursive"
        )
        return y

    @function.Defun(*types, func_name="Recursive", out_names=["y"])
    def recursive(n, x):
        return functional_ops.gen_functional_ops._if(n > 0, [n, x], [tf.float64], again, last)[0]

    recursive.add_to_graph(tf.compat.v1.get_default_graph())
    x = tf.constant(2.0, tf.float64)
    (y,) = functional_ops.gen_functional_ops.stateful_partitioned_call(
        [tf.constant(3), x], [tf.float64], recursive
    )
    assert 0 < run(y)[0] < 2
    with pytest.raises(tf.errors.UnimplementedError, match="calls itself"):
        tf.gradients(y, [x])


def test_a_loop_runs_also_after_its_gradient_failed():
    x = tf.constant(X)
    y, masks = dropout_loop(
        tf.cast(tf.strings.to_number(tf.as_string(x)), tf.float64) + x, tf.Variable(0, use_resource=True)
    )
    with tf.compat.v1.get_default_graph().gradient_override_map({"Identity": "FailsAlways"}):
        z = tf.identity(x)

    @tf.RegisterGradient("FailsAlways")
    def fails(op, grad):
        raise ValueError("no gradient")

    w, more = dropout_loop(z, tf.Variable(0, use_resource=True))
    with pytest.raises(ValueError, match="no gradient"):
        tf.gradients([w, y], [x])
    got, m = run(w, more)
    np.testing.assert_allclose(got, loop_by_hand(X, m)[0])
    (g,) = tf.gradients(w, [z])
    got, m = run(g, more)
    np.testing.assert_allclose(got, loop_by_hand(X, m)[1])


def test_an_array_that_a_loop_writes_in_the_second_computation_of_gradients():
    x = tf.constant(X)
    array = tf.TensorArray(tf.float64, 3, element_shape=[4])

    def body(i, array, y):
        y = y * tf.random.uniform([4], 2.0, 2.0000001, tf.float64)
        return i + 1, array.write(i, y), y

    _, array, _ = while_v2.while_loop(lambda i, a, y: i < 3, body, [0, array, x])
    stacked = array.stack()
    (other,) = tf.gradients(tf.square(x), [x])  # the first computation has another name
    (g,) = tf.gradients(stacked, [x])
    got, got_other = run(g, other)
    np.testing.assert_allclose(got, np.full(4, 14.0), rtol=1e-6)
    np.testing.assert_allclose(got_other, 2 * X)


def powers(x, clear_after_read=True):
    """x + x**2 + x**3 + x**4, by an array that a functional loop writes."""
    array = tf.TensorArray(tf.float64, 4, clear_after_read=clear_after_read)
    body = lambda i, a, y: (i + 1, a.write(i, y), y * x)
    return while_v2.while_loop(lambda i, a, y: i < 4, body, [0, array, x])[1].stack()


@pytest.mark.parametrize("clear_after_read", [True, False])
def test_elements_that_a_loop_writes_have_several_gradients_of_second_order(clear_after_read):
    x = tf.constant(2.0, tf.float64)
    z = tf.reduce_sum(powers(x, clear_after_read))
    (first,) = tf.gradients(z, [x])
    (second,) = tf.gradients(z, [x], grad_ys=[tf.constant(2.0, tf.float64)])
    (third,) = tf.gradients(z * z, [x])
    more = [tf.gradients(g, [x])[0] for g in (first, second)]
    # 1 + 2x + 3x**2 + 4x**3, and 2 + 6x + 12x**2
    np.testing.assert_allclose(run(z, first, second, third, *more), [30, 49, 98, 2 * 30 * 49, 62, 124])


def test_elements_that_a_loop_reads_have_several_gradients_of_second_order():
    x = tf.constant([1.0, 2.0, 3.0], tf.float64)
    array = tf.TensorArray(tf.float64, 3, clear_after_read=False).unstack(x * x)
    total = while_v2.while_loop(
        lambda i, t: i < 3, lambda i, t: (i + 1, t + array.read(i) ** 2), [0, tf.constant(0.0, tf.float64)]
    )[1]
    (first,) = tf.gradients(total, [x])
    (second,) = tf.gradients(total, [x])
    (h,) = tf.gradients(second, [x])
    values = np.array([1.0, 2.0, 3.0])
    got = run(total, first, second, h)
    for one, wanted in zip(got, ((values**4).sum(), 4 * values**3, 4 * values**3, 12 * values**2)):
        np.testing.assert_allclose(one, wanted)


def random_function():
    @function.Defun(tf.float64)
    def f(x):
        mask = tf.random.uniform([4], dtype=tf.float64)
        return tf.sin(x) * mask, mask

    return f


def test_gradients_of_a_function_that_is_called_by_name_are_of_the_numbers_that_it_drew():
    f = random_function()
    x = tf.constant(X)
    y, mask = f(x)
    with tf.compat.v1.Session() as sess:
        before, m = sess.run([y, mask])
        np.testing.assert_allclose(before, np.sin(X) * m)
        (g,) = tf.gradients(y, [x])
        (h,) = tf.gradients(g, [x])
        (other,) = tf.gradients(y * y, [x])
        got = sess.run([y, g, h, other, mask])
    m = got.pop()
    for one, wanted in zip(got, (np.sin(X), np.cos(X), -np.sin(X), np.sin(2 * X) * m)):
        np.testing.assert_allclose(one, wanted * m)
    assert y.op.type == f.name and len(y.op.outputs) > 2


def test_gradients_of_a_function_that_calls_another_by_name_which_is_random():
    f = random_function()

    @function.Defun(tf.float64)
    def squared(x):
        y, mask = f(x)
        return y * y, mask

    x = tf.constant(X)
    y, mask = squared(x)
    (g,) = tf.gradients(y, [x])
    (h,) = tf.gradients(g, [x])
    names = [t.name for t in (y, g, h, mask)]
    value, grad, second, m = run(y, g, h, mask)
    for one, wanted in ((value, np.sin(X) ** 2), (grad, np.sin(2 * X)), (second, 2 * np.cos(2 * X))):
        np.testing.assert_allclose(one, wanted * m * m)
    graph_def = tf.compat.v1.get_default_graph().as_graph_def()
    with tf.Graph().as_default():
        grad, m = run(*tf.import_graph_def(graph_def, return_elements=[names[1], names[3]], name=""))
    np.testing.assert_allclose(grad, np.sin(2 * X) * m * m)


def test_effects_of_a_function_that_is_called_by_name_happen_once():
    counter = tf.Variable(0, use_resource=True)

    @function.Defun(tf.float64)
    def f(x):
        with tf.control_dependencies([counter.assign_add(1)]):
            return tf.exp(x)

    x = tf.constant(X)
    y = f(x)
    (g,) = tf.gradients(y, [x])
    with tf.control_dependencies([y, g]):
        count = counter.read_value()
    value, grad, n = run(y, g, count)
    np.testing.assert_allclose(value, np.exp(X))
    np.testing.assert_allclose(grad, np.exp(X))
    assert n == 1
