# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients of what was executed: against closed forms and differences."""
import millrace as tf
import numpy as np
import pytest
from millrace.python.eager import backprop, context, tape

pytestmark = pytest.mark.usefixtures("eager")


def gradient(f, *xs):
    """The gradients of the sum of f."""
    xs = [tf.constant(x) for x in xs]
    with tf.GradientTape() as t:
        t.watch(xs)
        y = f(*xs)
    return [None if g is None else tf.convert_to_tensor(g).numpy() for g in t.gradient(y, xs)]


def numeric(f, x, eps=1e-6):
    """The gradient of the sum of f by central differences."""
    x = np.array(x, np.float64)
    found = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += eps
        down[i] -= eps
        found[i] = (np.sum(f(tf.constant(up)).numpy()) - np.sum(f(tf.constant(down)).numpy())) / (2 * eps)
    return found


A = np.array([[0.3, -1.2, 0.8], [1.7, 0.4, -0.6]])
IMAGE = np.random.RandomState(0).randn(1, 4, 4, 2)


@pytest.mark.parametrize(
    "f, x",
    [
        (lambda x: tf.sin(x) * tf.exp(x), A),
        (lambda x: tf.tanh(x) / (1.0 + x * x), A),
        (lambda x: tf.matmul(x, x, transpose_b=True) ** 2, A),
        (lambda x: x + x[0], A),
        (lambda x: x * x[:, :1], A),
        (lambda x: tf.reduce_mean(x, axis=1, keepdims=True) * x, A),
        (lambda x: tf.reduce_max(x, 0) * 3.0, A),
        (lambda x: tf.concat([x, x * 2.0], 1) ** 2, A),
        (lambda x: tf.stack(tf.unstack(x, axis=1)[::2]) ** 3, A),
        (lambda x: tf.split(x, [1, 2], 1)[1] ** 2, A),
        (lambda x: tf.transpose(x)[1:] ** 2, A),
        (lambda x: tf.gather(x, [2, 0, 2], axis=1) ** 2, A),
        (lambda x: tf.gather(x, [1, 1, 0]) ** 2, A),
        (lambda x: tf.nn.softmax(x) ** 2, A),
        (lambda x: tf.nn.log_softmax(x) * A, A),
        (lambda x: tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.nn.softmax(A), logits=x), A),
        (lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[2, 0], logits=x), A),
        (lambda x: tf.nn.sigmoid_cross_entropy_with_logits(labels=np.abs(A) / 2, logits=x), A),
        (lambda x: tf.where(x > 0, x * x, -x), A),
        (lambda x: tf.pad(x, [[1, 0], [0, 2]]) ** 2, A),
        (lambda x: tf.tile(x, [2, 1]) ** 2, A),
        (lambda x: tf.cumsum(x, axis=1) ** 2, A),
        (lambda x: tf.clip_by_value(x, -1.0, 1.0) ** 2, A),
        (lambda x: tf.norm(x) + tf.reduce_logsumexp(x), A),
        (lambda x: tf.linalg.inv(tf.matmul(x, x, transpose_b=True)), A),
        (lambda x: tf.segment_sum(tf.transpose(x), [0, 0, 1]) ** 2, A),
        (lambda x: tf.nn.conv2d(x, np.ones([2, 2, 2, 3]), [1, 1, 1, 1], "SAME") ** 2, IMAGE),
        (lambda x: tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID") ** 2, IMAGE),
        (lambda x: tf.nn.avg_pool(x, [1, 2, 2, 1], [1, 1, 1, 1], "SAME") ** 2, IMAGE),
        (lambda x: tf.nn.moments(x, [0, 1, 2])[1], IMAGE),
        (lambda x: tf.map_fn(lambda r: r * r, x), A),
        (lambda x: tf.TensorArray(tf.float64, 2).unstack(x).stack() ** 2, A),
        (lambda x: tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * x), [0, x])[1], A),
    ],
)
def test_against_differences(f, x):
    (got,) = gradient(f, x)
    np.testing.assert_allclose(got, numeric(f, x), rtol=1e-5, atol=1e-6)


def test_several_sources_and_structures():
    x, y = tf.constant(2.0), tf.constant(3.0)
    with tf.GradientTape() as t:
        t.watch([x, y])
        z = {"a": x * y, "b": y * y}
    grads = t.gradient(z, {"x": x, "l": [y, (x,)]})
    assert grads["x"].numpy() == 3.0 and grads["l"][0].numpy() == 8.0 and grads["l"][1][0].numpy() == 3.0


def test_output_gradients():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as t:
        t.watch(x)
        y = x * x
    assert t.gradient(y, x, output_gradients=tf.constant([10.0, 100.0])).numpy().tolist() == [20.0, 400.0]


def test_unconnected():
    x, y = tf.constant([1.0]), tf.constant([2.0])
    with tf.GradientTape(persistent=True) as t:
        t.watch([x, y])
        z = x * 3.0
    assert t.gradient(z, y) is None
    zero = t.gradient(z, y, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert zero.numpy().tolist() == [0.0]
    assert t.gradient(z, y, unconnected_gradients="zero").numpy().tolist() == [0.0]
    with pytest.raises(ValueError, match="Unknown value for unconnected_gradients: 'nonsense'"):
        t.gradient(z, x, unconnected_gradients="nonsense")


def test_what_is_not_watched_has_none():
    x = tf.constant(1.0)
    with tf.GradientTape() as t:
        y = x * 2.0
    assert t.gradient(y, x) is None


def test_once_unless_persistent():
    x = tf.constant(3.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = x * x
    assert t.gradient(y, x).numpy() == 6.0
    with pytest.raises(
        RuntimeError, match="GradientTape.gradient can only be called once on non-persistent tapes."
    ):
        t.gradient(y, x)
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        y = x * x
        z = y * y
    assert t.gradient(z, x).numpy() == 108.0 and t.gradient(y, x).numpy() == 6.0


def test_stop_recording_and_reset():
    x = tf.constant(2.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = x * x
        with t.stop_recording():
            z = x * y
        w = y * z
    # z counts as a constant: w = z x^2 with z = 8
    assert t.gradient(w, x).numpy() == 2 * 2 * 8
    with tf.GradientTape() as t:
        t.watch(x)
        y = x * x
        t.reset()
        t.watch(x)
        z = y * x
    assert t.gradient(z, x).numpy() == 4.0
    with pytest.raises(RuntimeError, match="Trying to stop recording a tape"), t.stop_recording():
        pass


def test_recording_twice():
    t = tf.GradientTape()
    with t, pytest.raises(ValueError, match="Tape is already recording."), t:
        pass


def test_second_and_third_order():
    x = tf.constant(0.7)
    with tf.GradientTape() as t3:
        t3.watch(x)
        with tf.GradientTape() as t2:
            t2.watch(x)
            with tf.GradientTape() as t1:
                t1.watch(x)
                y = tf.sin(x) * x * x
            g1 = t1.gradient(y, x)
        g2 = t2.gradient(g1, x)
    g3 = t3.gradient(g2, x)
    s, c, v = np.sin(0.7), np.cos(0.7), 0.7
    np.testing.assert_allclose(g1, c * v**2 + 2 * v * s, rtol=1e-5)
    np.testing.assert_allclose(g2, -s * v**2 + 4 * v * c + 2 * s, rtol=1e-5)
    np.testing.assert_allclose(g3, -c * v**2 - 6 * v * s + 6 * c, rtol=1e-5)


def test_jacobians():
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    x = tf.constant([0.5, -1.5], tf.float64)
    with tf.GradientTape() as t:
        t.watch(x)
        y = tf.tensordot(a, x * x, 1)
    np.testing.assert_allclose(t.jacobian(y, x).numpy(), a * 2 * x.numpy())
    b = tf.constant([[1.0, 2.0], [3.0, 4.0]], tf.float64)
    with tf.GradientTape() as t:
        t.watch(b)
        y = b * b * b
    want = np.zeros([2, 2, 2])
    for i in range(2):
        want[i] = np.diag(3 * b.numpy()[i] ** 2)
    np.testing.assert_allclose(t.batch_jacobian(y, b).numpy(), want)
    with tf.GradientTape() as t:
        t.watch(b)
        y = b * b
    with pytest.raises(RuntimeError, match="must be created with persistent=True to compute the jacobian"):
        t.jacobian(y, b, experimental_use_pfor=False)
    with pytest.raises(ValueError, match="Need first dimension of target shape"):
        t.batch_jacobian(tf.ones([3, 2]), b)


def test_slices_stay_slices():
    table = tf.Variable(np.ones([5, 2], np.float32))
    with tf.GradientTape() as t:
        y = tf.reduce_sum(tf.nn.embedding_lookup(table, [3, 1, 3]) * 2.0)
    g = t.gradient(y, table)
    assert isinstance(g, tf.IndexedSlices)
    assert g.indices.numpy().tolist() == [3, 1, 3]
    np.testing.assert_array_equal(tf.convert_to_tensor(g).numpy()[:, 0], [0, 2, 0, 4, 0])
    with tf.GradientTape() as t:
        y = tf.reduce_sum(tf.gather(table, [0])) + tf.reduce_sum(tf.gather(table, [0, 4]))
    np.testing.assert_array_equal(tf.convert_to_tensor(t.gradient(y, table)).numpy()[:, 0], [2, 0, 0, 0, 1])


def test_variables():
    v, w = tf.Variable(3.0), tf.Variable(4.0, trainable=False)
    with tf.GradientTape(persistent=True) as t:
        y = v * v * w
    assert t.watched_variables() == (v,)
    assert t.gradient(y, v).numpy() == 24.0 and t.gradient(y, w) is None
    with tf.GradientTape(watch_accessed_variables=False) as t:
        t.watch(w)
        y = v * w
    assert t.watched_variables() == (w,) and t.gradient(y, [v, w])[1].numpy() == 3.0


def test_integers_and_no_gradient():
    assert gradient(lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32), 1.5) == [None]
    assert gradient(lambda x: tf.stop_gradient(x) * x, 3.0) == [3.0]
    with pytest.raises(LookupError):
        gradient(lambda x: tf.raw_ops.Lu(input=x).lu, [[1.0, 2.0], [3.0, 4.0]])


def test_custom_gradient():
    calls = []

    @tf.custom_gradient
    def f(x):
        def grad(dy):
            calls.append(dy.numpy())
            return dy * 100.0

        return x * x, grad

    x = tf.constant(3.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = f(x) * 2.0
    assert y.numpy() == 18.0 and t.gradient(y, x).numpy() == 200.0 and calls == [2.0]


def test_custom_gradient_with_variables():
    v = tf.Variable(2.0)

    @tf.custom_gradient
    def f(x):
        def grad(dy, variables=None):
            assert variables == [v]
            return dy * 5.0, [dy * 7.0]

        return x * v, grad

    x = tf.constant(3.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = f(x)
    assert [g.numpy() for g in t.gradient(y, [x, v])] == [5.0, 7.0]

    @tf.custom_gradient
    def bad(x):
        return x * v, lambda dy: dy

    with tf.GradientTape(), pytest.raises(
        TypeError, match="grad_fn must accept a 'variables' keyword argument"
    ):
        bad(x)


def test_registered_gradient():
    if "NextAfter" not in _registered:
        _registered.add("NextAfter")

        @tf.RegisterGradient("NextAfter")
        def next_after(op, grad):
            return grad * 2.0, op.inputs[0] * grad

    x, y = np.array([1.0, 3.0]), np.array([2.0, 2.0])
    gx, gy = gradient(lambda x, y: tf.raw_ops.NextAfter(x1=x, x2=y), x, y)
    assert gx.tolist() == [2.0, 2.0] and gy.tolist() == [1.0, 3.0]


_registered = set()


def test_record_operation():
    x = tf.constant(3.0)
    with tf.GradientTape() as t:
        t.watch(x)
        with tape.stop_recording():
            y = x + 1.0
        tape.record_operation("mine", [y], [x], lambda dy: [dy * 11.0])
        z = y * 2.0
    assert t.gradient(z, x).numpy() == 22.0


def test_functions_of_functions():
    f = lambda x, y: x * x * y  # noqa: E731
    assert [g.numpy() for g in tf.contrib.eager.gradients_function(f)(2.0, 3.0)] == [12.0, 4.0]
    assert [g.numpy() for g in tf.contrib.eager.gradients_function(f, [1])(2.0, 3.0)] == [4.0]
    assert [g.numpy() for g in tf.contrib.eager.gradients_function(f, ["x"])(2.0, 3.0)] == [12.0]
    value, grads = tf.contrib.eager.value_and_gradients_function(f)(2.0, 3.0)
    assert value.numpy() == 12.0 and grads[0].numpy() == 12.0
    second = tf.contrib.eager.gradients_function(
        lambda x: tf.contrib.eager.gradients_function(lambda z: tf.exp(z))(x)[0]
    )
    np.testing.assert_allclose(second(1.0)[0], np.e, rtol=1e-6)
    result, vjp = backprop.make_vjp(f)(2.0, 3.0)
    assert result.numpy() == 12.0 and vjp(dy=2.0)[0].numpy() == 24.0
    v = tf.Variable(5.0)
    ((g, var),) = tf.contrib.eager.implicit_gradients(lambda: v * v)()
    assert g.numpy() == 10.0 and var is v
    with pytest.raises(ValueError, match="did you forget to return a value from nothing?"):

        def nothing(x):
            pass

        tf.contrib.eager.gradients_function(nothing)(1.0)
    with pytest.raises(ValueError, match="No trainable variables were accessed"):
        tf.contrib.eager.implicit_gradients(lambda: tf.constant(1.0))()


def test_python_functions_are_differentiable():
    def f(x):
        return x * x * 3.0

    (g,) = gradient(lambda x: tf.py_function(f, [x], tf.float32), 2.0)
    assert g == 12.0
    with context.graph_mode(), tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [])
        y = tf.py_function(f, [x], tf.float32)
        (g,) = tf.gradients(y * 2.0, x)
        assert session.run([y, g], {x: 2.0}) == [12.0, 24.0]


def test_tape_in_a_graph():
    with context.graph_mode(), tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(3.0)
        with tf.GradientTape() as t:
            t.watch(x)
            y = x * x
        assert session.run(t.gradient(y, x)) == 6.0


def test_memory_is_let_go():
    import gc
    import weakref

    x = tf.constant(np.ones(1000, np.float32))
    with tf.GradientTape() as t:
        t.watch(x)
        y = x * 2.0
    seen = weakref.ref(y)
    t.gradient(y, x)
    del y, t
    gc.collect()
    assert seen() is None


def test_many_sizes_share_a_program():
    from millrace.python.eager import _gradient_programs

    for n in range(1, 60):
        a, b = np.arange(n, dtype=np.float32), np.arange(2 * n, dtype=np.float32).reshape(2, n)
        x, y = tf.constant(a), tf.constant(b)
        with tf.GradientTape() as t:
            t.watch([x, y])
            z = tf.reduce_sum(tf.nn.softmax(x * y) * y, 1) ** 2
        gx, gy = t.gradient(z, [x, y])
        e = np.exp(a * b - (a * b).max(1, keepdims=True))
        s = e / e.sum(1, keepdims=True)
        total = (s * b).sum(1, keepdims=True)
        inner = 2 * total * s * (b - total)  # by the products
        np.testing.assert_allclose(gx.numpy(), (inner * b).sum(0), rtol=2e-2, atol=1e-2)
        np.testing.assert_allclose(gy.numpy(), inner * a + 2 * total * s, rtol=2e-2, atol=1e-2)
    kinds = [key for key in _gradient_programs._programs if key[0].name == "Softmax" and key[5] == (True,)]
    assert len(kinds) <= _gradient_programs._SIZES + 1


def test_variable_as_target():
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as t:
        tf.identity(v)
    assert t.gradient(v, v).numpy().tolist() == [1.0, 1.0]


def test_recomputed_values_have_gradients_when_executed(eager):
    calls = []

    @tf.recompute_grad
    def f(x):
        calls.append(tf.executing_eagerly())
        return tf.sin(x) * 2.0

    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert float(tape.gradient(y, x)) == pytest.approx(2 * -0.9899925)
    assert calls == [True, True]
