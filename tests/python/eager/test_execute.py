# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops that are executed at once."""
import threading

import millrace as tf
import numpy as np
import pytest
from millrace.python.eager import context, execute
from millrace.python.ops import gen_math_ops

pytestmark = pytest.mark.usefixtures("eager")


def test_operators():
    a, b = np.array([7.0, -3.5]), np.array([2.0, 0.5])
    x, y = tf.constant(a), tf.constant(b)
    for got, want in [
        (x + y, a + b), (x - 1, a - 1), (2 * x, 2 * a), (x / y, a / b), (x // y, a // b), (x % y, a % b), (x**2, a**2),
        (-x, -a), (abs(x), abs(a)), (x > y, a > b), (x <= 0, a <= 0), (1 / y, 1 / b), (2**y, 2**b),
        (~(x > y), ~(a > b)), ((x > 0) & (y > 1), (a > 0) & (b > 1)), ((x > 0) ^ (y > 0), (a > 0) ^ (b > 0)),
    ]:  # fmt: skip
        np.testing.assert_allclose(got.numpy(), want)
    m = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose((tf.constant(m) @ tf.constant(m.T)).numpy(), m @ m.T)


def test_types_of_numbers_follow_tensors():
    assert tf.add(1.5, tf.constant(1.0, tf.float64)).dtype == tf.float64
    assert tf.add(tf.constant(1, tf.int64), 2).dtype == tf.int64
    assert tf.add(1, 2).dtype == tf.int32
    with pytest.raises((TypeError, tf.errors.InvalidArgumentError)):
        tf.add(tf.constant(1), 1.5)
    with pytest.raises((TypeError, tf.errors.InvalidArgumentError)):
        tf.add(tf.constant(1), tf.constant(1.5))
    with pytest.raises((TypeError, ValueError, OverflowError)):
        tf.add(tf.constant(1), 2**40)


def test_results_of_several_kinds():
    values, indices = tf.nn.top_k([1.0, 5.0, 3.0], 2)
    assert values.numpy().tolist() == [5, 3] and indices.numpy().tolist() == [1, 2]
    parts = tf.split(tf.range(6), 3)
    assert [p.numpy().tolist() for p in parts] == [[0, 1], [2, 3], [4, 5]]
    unique = tf.unique([3, 3, 1])
    assert unique.y.numpy().tolist() == [3, 1] and unique.idx.numpy().tolist() == [0, 0, 1]
    assert tf.no_op() is None and tf.group(tf.constant(1)) is None
    partitions = tf.dynamic_partition([1, 2, 3], [0, 1, 0], 2)
    assert [p.numpy().tolist() for p in partitions] == [[1, 3], [2]]


def test_attributes_of_all_kinds():
    assert tf.cast([1.7], tf.int32).numpy().tolist() == [1]
    assert tf.as_string(1.5, precision=1).numpy() == b"1.5"
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    assert tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID").numpy().reshape(-1).tolist() == [
        5,
        7,
        13,
        15,
    ]
    assert tf.argmax([1, 9, 3], output_type=tf.int32).dtype == tf.int32
    assert tf.matmul([[1.0, 2.0]], [[3.0, 4.0]], transpose_b=True).numpy().tolist() == [[11.0]]
    assert tf.squeeze([[[1]]], [0]).shape == (1, 1)
    decoded = tf.decode_csv(["1,2.5"], [[0], [0.0]])
    assert decoded[0].numpy().tolist() == [1] and decoded[1].numpy().tolist() == [2.5]


def test_errors_have_classes_and_texts():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Matrix size-incompatible: In\[0\]: \[1,2\], In\[1\]: \[1,2\] \[Op:MatMul\]"):  # fmt: skip
        tf.matmul([[1.0, 2.0]], [[3.0, 4.0]])
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        tf.reshape([1, 2, 3], [2])
    assert error.value.op is None and error.value.node_def is None and "[Op:Reshape]" in error.value.message
    with pytest.raises(tf.errors.NotFoundError):
        tf.read_file("/there/is/no/such/file")
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        gen_math_ops.add(1)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="Expected 'False' to be true. Summarized data: 1, 2, 3, ..."
    ):
        tf.Assert(False, [tf.constant([1, 2, 3, 4])])
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.assert_equal([1, 2], [1, 3])


def test_execute_by_name():
    outputs = execute.execute(
        b"AddN", 1, [tf.constant(1), tf.constant(2)], ("N", 2, "T", tf.int32), context.context()
    )
    assert outputs[0].numpy() == 3
    with pytest.raises(TypeError, match="provided list of inputs contains objects other than 'EagerTensor'"):
        execute.execute("Identity", 1, [5], ("T", tf.int32))
    with pytest.raises((RuntimeError, tf.errors.NotFoundError)):
        execute.execute("NoSuchOp", 1, [], ())


def test_control_flow_is_pythons():
    assert tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: 1 / 0).numpy() == 1
    i, total = tf.while_loop(
        lambda i, s: i < 5, lambda i, s: (i + 1, s + i), [tf.constant(0), tf.constant(0)]
    )
    assert (i.numpy(), total.numpy()) == (5, 10)
    only = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    assert only.numpy() == 3
    limited = tf.while_loop(lambda i: True, lambda i: (i + 1,), [0], maximum_iterations=4)
    assert limited.numpy() == 4
    assert tf.case([(tf.constant(False), lambda: 1), (tf.constant(True), lambda: 2)], default=lambda: 3) == 2
    with pytest.raises(ValueError, match="No loop variables provided"):
        tf.while_loop(lambda: True, lambda: (), [])


def test_functional_ops():
    assert tf.map_fn(lambda x: x * x, tf.constant([1, 2, 3])).numpy().tolist() == [1, 4, 9]
    assert tf.foldl(lambda a, x: a - x, tf.constant([10, 2, 3])).numpy() == 5
    assert tf.foldr(lambda a, x: a - x, tf.constant([10, 2, 3])).numpy() == -9
    assert tf.scan(lambda a, x: a + x, tf.constant([1, 2, 3])).numpy().tolist() == [1, 3, 6]


def test_tensor_arrays():
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)
    for i in range(3):
        array = array.write(i, float(i))
    assert array.size().numpy() == 3 and array.stack().numpy().tolist() == [0, 1, 2]
    assert array.read(1).numpy() == 1
    fixed = tf.TensorArray(tf.int32, size=2)
    with pytest.raises(
        tf.errors.OutOfRangeError, match="Tried to write to index 2 but array is not resizeable"
    ):
        fixed.write(2, 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="TensorArray dtype is int32 but Op is trying to write dtype float32"):  # fmt: skip
        fixed.write(0, tf.constant(1.0))
    fixed.unstack([5, 6])
    assert fixed.read(0).numpy() == 5
    with pytest.raises(tf.errors.InvalidArgumentError, match="Could not read index 0 twice"):
        fixed.read(0)
    pieces = tf.TensorArray(tf.int32, size=2, infer_shape=False).split([1, 2, 3], [1, 2])
    assert pieces.concat().numpy().tolist() == [1, 2, 3]


def test_python_functions():
    def check(x):
        assert isinstance(x, np.ndarray)
        return x + 1

    assert tf.py_func(check, [tf.constant([1.0])], tf.float32).numpy().tolist() == [2.0]
    assert tf.numpy_function(check, [tf.constant([1.0])], tf.float32).numpy().tolist() == [2.0]
    assert tf.py_function(lambda x: x.numpy() * 2, [tf.constant(3)], tf.int32).numpy() == 6
    assert [t.numpy() for t in tf.py_function(lambda: (1, 2.0), [], [tf.int32, tf.float32])] == [1, 2.0]
    with pytest.raises(ValueError, match="Expected func to be callable"):
        tf.py_function(1, [], tf.int32)


def test_errors_of_python_functions():
    def fails(error):
        def f():
            raise error

        return lambda: tf.py_func(f, [], tf.int32)

    for error, kind in [
        (ValueError("no"), tf.errors.InvalidArgumentError),
        (TypeError("no"), tf.errors.InvalidArgumentError),
        (StopIteration("no"), tf.errors.OutOfRangeError),
        (NotImplementedError("no"), tf.errors.UnimplementedError),
        (KeyError("no"), tf.errors.UnknownError),
    ]:
        with pytest.raises(kind, match="%s: .?no" % type(error).__name__):
            fails(error)()
    with pytest.raises(tf.errors.InvalidArgumentError, match="returns 2 values, but expects to see 1 values"):
        tf.py_func(lambda: (1, 2), [], tf.int32)


def test_templates_keep_their_variables():
    template = tf.make_template("t", lambda x: tf.layers.dense(x, 2))
    x = tf.ones([1, 3])
    np.testing.assert_array_equal(template(x).numpy(), template(x).numpy())
    assert [v.name for v in template.variables] == ["t/dense/bias:0", "t/dense/kernel:0"]


def test_tables_and_queues_are_their_own():
    def table(value):
        return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [value]), -1)

    one, two = table(1), table(2)
    assert one.lookup(tf.constant(["a", "b"])).numpy().tolist() == [1, -1]
    assert two.lookup(tf.constant("a")).numpy() == 2
    q1, q2 = tf.FIFOQueue(5, tf.int32), tf.FIFOQueue(5, tf.int32)
    q1.enqueue(7)
    assert q1.size().numpy() == 1 and q2.size().numpy() == 0
    assert q1.dequeue().numpy() == 7


def test_threads():
    results = []

    def work(n):
        with context.eager_mode():
            x = tf.constant(0)
            for _ in range(200):
                x = x + n
            results.append(int(x))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(results) == [200 * n for n in range(8)]


def test_layers_and_losses():
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    layer = tf.layers.Dense(3, kernel_initializer=tf.ones_initializer())
    np.testing.assert_allclose(layer(x).numpy(), [[3.0] * 3, [7.0] * 3])
    assert len(layer.trainable_variables) == 2
    assert layer(x).numpy()[0, 0] == 3.0  # the same weights
    labels = tf.constant([0, 1])
    got = tf.losses.sparse_softmax_cross_entropy(labels, x)
    p = np.exp(x.numpy()) / np.exp(x.numpy()).sum(1, keepdims=True)
    np.testing.assert_allclose(got.numpy(), -np.log([p[0, 0], p[1, 1]]).mean(), rtol=1e-6)


def test_datasets():
    data = tf.data.Dataset.from_tensor_slices({"x": [1, 2, 3], "y": [1.0, 2.0, 3.0]}).map(
        lambda e: {"z": e["x"] * 2, "y": e["y"]}
    )
    assert [(e["z"].numpy(), e["y"].numpy()) for e in data] == [(2, 1.0), (4, 2.0), (6, 3.0)]
    assert [e["z"].numpy() for e in data] == [2, 4, 6]  # each loop starts from the beginning
    batches = [b.numpy().tolist() for b in tf.data.Dataset.range(5).batch(2)]
    assert batches == [[0, 1], [2, 3], [4]]
    iterator = tf.data.Dataset.range(1).make_one_shot_iterator()
    assert iterator.get_next().numpy() == 0
    with pytest.raises(tf.errors.OutOfRangeError):
        iterator.get_next()
    v = tf.Variable(10, dtype=tf.int64)
    assert [e.numpy() for e in tf.data.Dataset.range(2).map(lambda e: e + v)] == [10, 11]
    assert tf.contrib.eager.Iterator(tf.data.Dataset.range(3)).next().numpy() == 0


def test_schedules_are_functions():
    step = tf.Variable(0)
    rate = tf.train.exponential_decay(1.0, step, 1, 0.5)
    assert rate().numpy() == 1.0
    step.assign(2)
    assert rate().numpy() == 0.25


def test_summaries(tmp_path):
    writer = tf.contrib.summary.create_file_writer(str(tmp_path))
    with writer.as_default(), tf.contrib.summary.always_record_summaries():
        tf.contrib.summary.scalar("loss", 1.5, step=3)
    writer.close()
    (name,) = tmp_path.iterdir()
    events = [e for e in tf.train.summary_iterator(str(name)) if e.summary.value]
    assert [(e.step, e.summary.value[0].tag) for e in events] == [(3, "loss")]


def test_metrics_of_contrib():
    mean = tf.contrib.eager.metrics.Mean()
    mean([1.0, 2.0])
    mean(6.0)
    assert mean.result().numpy() == 3.0
    accuracy = tf.contrib.eager.metrics.Accuracy()
    accuracy([1, 2, 3], [1, 0, 3])
    np.testing.assert_allclose(accuracy.result().numpy(), 2 / 3)


def test_tensors_of_two_types_do_not_mix() -> None:
    one, two = tf.constant([1.0]), tf.constant([2])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="cannot compute AddV2 as input #1.*float tensor.*int32"
    ):
        one + two  # noqa: B018
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="cannot compute MatMul as input #1.*float.*double"
    ):
        tf.matmul(tf.ones([1, 1]), tf.ones([1, 1], tf.float64))
