# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Modes of threads, tf.enable_eager_execution, devices, seeds."""
import subprocess
import sys
import threading

import millrace as tf
import pytest
from millrace.python.eager import context, monitoring


def run_program(text):
    """The output of a separate program, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_modes_nest():
    assert not tf.executing_eagerly()
    with context.eager_mode():
        assert tf.executing_eagerly()
        with tf.Graph().as_default():
            assert not tf.executing_eagerly()
            with context.eager_mode():
                assert tf.executing_eagerly()
            assert not tf.executing_eagerly()
        with context.graph_mode():
            assert not tf.executing_eagerly()
        assert tf.executing_eagerly()
    assert not tf.executing_eagerly()


def test_mode_is_left_after_an_error():
    with pytest.raises(KeyError), context.eager_mode():
        raise KeyError
    assert not tf.executing_eagerly()


def test_other_threads_keep_their_mode(eager):
    seen = []
    thread = threading.Thread(target=lambda: seen.append(tf.executing_eagerly()))
    thread.start()
    thread.join(30)
    assert seen == [False]


def test_enable_eager_execution():
    out = run_program(
        "import millrace as tf, threading\n"
        "tf.enable_eager_execution()\n"
        "tf.enable_eager_execution()\n"
        "print(tf.executing_eagerly(), tf.add(1, 2).numpy())\n"
        "t = threading.Thread(target=lambda: print(tf.multiply(3, 4).numpy())); t.start(); t.join()\n"
        "with tf.Graph().as_default():\n"
        "  x = tf.constant(5)\n"
        "  print(tf.executing_eagerly(), tf.Session().run(x))\n"
    )
    assert out.split() == ["True", "3", "12", "False", "5"]


def test_enable_eager_execution_refuses():
    out = run_program(
        "import millrace as tf\n"
        "def error(*args, **kwargs):\n"
        "  try: tf.enable_eager_execution(*args, **kwargs)\n"
        "  except Exception as e: print(type(e).__name__, e)\n"
        "error(config=1)\n"
        "error(device_policy=17)\n"
        "error(execution_mode=17)\n"
        "tf.constant(1)\n"
        "error()\n"
    )
    assert out.splitlines() == [
        "TypeError config must be a tf.ConfigProto, but got <class 'int'>",
        "ValueError device_policy must be one of None, tf.contrib.eager.DEVICE_PLACEMENT_*",
        "ValueError execution_mode must be one of None, tf.contrib.eager.SYNC, tf.contrib.eager.ASYNC",
        "ValueError tf.enable_eager_execution must be called at program startup.",
    ]


def test_options_cannot_change():
    out = run_program(
        "import millrace as tf\n"
        "tf.enable_eager_execution(execution_mode=tf.contrib.eager.SYNC)\n"
        "try: tf.enable_eager_execution(execution_mode=tf.contrib.eager.ASYNC)\n"
        "except ValueError as e: print(str(e)[:63])\n"
    )
    assert out.strip() == "Trying to change the options of an active eager execution. Cont"


def test_asynchronous_execution():
    out = run_program(
        "import millrace as tf\n"
        "tf.enable_eager_execution(execution_mode=tf.contrib.eager.ASYNC)\n"
        "x = tf.constant(1.)\n"
        "for _ in range(100): x = x + 1.\n"
        "print(x.numpy())\n"
    )
    assert out.strip() == "101.0"


def test_enable_v2_behavior():
    out = run_program(
        "import millrace as tf\n"
        "tf.enable_v2_behavior()\n"
        "x = tf.constant([1, 2])\n"
        "print((x == [1, 3]).numpy().tolist(), x.shape[0], tf.compat.v1.resource_variables_enabled())\n"
        "try: hash(x)\n"
        "except TypeError as e: print(str(e)[:55])\n"
    )
    assert out.splitlines() == [
        "[True, False] 2 True",
        "Tensor is unhashable if Tensor equality is enabled. Ins",
    ]


def test_devices(eager):
    assert tf.constant(1).device == "/job:localhost/replica:0/task:0/device:CPU:0"
    assert context.context().devices()[0].endswith("CPU:0")
    assert tf.contrib.eager.num_gpus() == context.num_gpus() == 0
    with tf.device("/cpu:0"):
        assert tf.identity(1).device.endswith("CPU:0")
    with tf.device("/device:GPU:0"), pytest.raises(RuntimeError, match="GPU:0 unknown device"):
        tf.identity(1)
    with pytest.raises(RuntimeError, match="tf.device does not support functions when eager"):
        tf.device(lambda op: "/cpu:0")


def test_seeds_of_ops_without_one(eager):
    tf.set_random_seed(7)
    first = [tf.random_uniform([3]).numpy().tolist() for _ in range(2)]
    tf.set_random_seed(7)
    again = [tf.random_uniform([3]).numpy().tolist() for _ in range(2)]
    assert first == again
    assert first[0] != first[1]
    tf.set_random_seed(8)
    assert tf.random_uniform([3]).numpy().tolist() != first[0]


def test_seed_of_an_op_with_a_global_one(eager):
    # The second seed is drawn by Python's generator, as TensorFlow draws it.
    import random

    from millrace.python.framework import random_seed

    tf.set_random_seed(42)
    expected = random.Random(42)
    assert random_seed.get_seed(None) == (42, expected.randint(0, 2**31 - 1))
    assert random_seed.get_seed(5) == (42, 5)


def test_name_scopes(eager):
    with tf.name_scope("a") as outer, tf.name_scope("b") as inner:
        assert (outer, inner) == ("a/", "a/b/")
        assert tf.Variable(1.0).name == "a/b/Variable:0"
    with tf.name_scope("a") as again:
        assert again == "a/"


def test_what_needs_a_graph_is_refused(eager):
    with pytest.raises(RuntimeError, match=r"tf.placeholder\(\) is not compatible with eager execution."):
        tf.placeholder(tf.float32)
    with pytest.raises(RuntimeError, match="tf.gradients is not supported when eager execution is enabled"):
        tf.gradients(tf.constant(1.0), tf.constant(1.0))
    with pytest.raises(RuntimeError, match="tf.metrics.mean is not supported when eager execution"):
        tf.metrics.mean([1.0])
    with pytest.raises(RuntimeError, match="assign op does not support eager execution. Arg 'ref' is a ref."):
        tf.raw_ops.Assign(ref=tf.constant(1.0), value=tf.constant(1.0))
    with pytest.raises(RuntimeError, match="make_initializable_iterator is not supported"):
        tf.data.Dataset.range(3).make_initializable_iterator()


def test_tensors_do_not_enter_graphs():
    with context.eager_mode():
        x = tf.constant(1.0)
    with pytest.raises(
        RuntimeError, match="Attempting to capture an EagerTensor without building a function."
    ):
        tf.identity(x)


def test_both_modes_of_a_test():
    seen = []

    class Test(tf.test.TestCase):
        @tf.contrib.eager.run_test_in_graph_and_eager_modes
        def test_it(self):
            seen.append(tf.executing_eagerly())
            self.assertAllEqual([2.0, 4.0], self.evaluate(tf.constant([1.0, 2.0]) * 2.0))
            self.assertEqual({"a": 3}, self.evaluate({"a": tf.constant(3)}))

        def runTest(self):
            self.test_it()

    Test().runTest()
    assert seen == [False, True]


def test_example_of_the_documentation():
    import os
    import re

    path = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "python.md")
    with open(path, encoding="utf-8") as file:
        code = re.search(r"## Eager execution.*?```python\n(.*?)```", file.read(), re.S).group(1)
    # Losses by hand: (1 + 4)^2, then w = [1, 2] - 0.1 * 2 * 5 * [1, 2] = [0, 0].
    assert [float(line) for line in run_program(code).split()] == pytest.approx([25.0, 0.0], abs=1e-9)


def test_seeds_give_the_numbers_of_tensorflow(eager):
    tf.set_random_seed(1)
    expected = [[-1.1012203, 1.5457517], [0.383644, -0.87965786]]
    assert tf.random_normal([2, 2]).numpy() == pytest.approx(
        pytest.importorskip("numpy").array(expected), abs=1e-6
    )


def test_gradient_checker(eager):
    import numpy as np
    from millrace.python.ops import gradient_checker_v2

    theoretical, numeric = gradient_checker_v2.compute_gradient(lambda x: x * x, [np.array([1.0, 2.0])])
    np.testing.assert_allclose(theoretical[0], [[2, 0], [0, 4]])
    np.testing.assert_allclose(numeric[0], [[2, 0], [0, 4]], rtol=1e-6)


def test_control_dependencies_call_functions(eager: None) -> None:
    called = []
    with tf.control_dependencies([tf.constant(1), lambda: called.append(1)]):
        assert called == [1]


def test_the_mode_may_change_while_ops_are_executed(eager):
    tf.constant(1.0)
    with context.execution_mode(context.ASYNC):
        assert context.context().is_async()
        assert float(tf.constant(1.0) + 1.0) == 2.0
    assert not context.context().is_async()
    with pytest.raises(ValueError, match="Execution mode should be None/SYNC/ASYNC"):
        context.context().execution_mode = 7


def test_the_main_of_eager_tests_turns_it_on(tmp_path):
    program = tmp_path / "some_test.py"
    program.write_text(
        "import tensorflow as tf\n"
        "from tensorflow.python.eager import test\n"
        "class SomeTest(test.TestCase):\n"
        "  def testMode(self):\n"
        "    self.assertEqual(tf.constant(2).numpy(), 2)\n"
        "if __name__ == '__main__':\n"
        "  test.main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "millrace", str(program)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0 and "Ran 2 tests" in result.stderr


def test_policies_hold_within_a_context():
    before = context.context().device_policy
    with context.device_policy(context.DEVICE_PLACEMENT_SILENT):
        assert context.context().device_policy == context.DEVICE_PLACEMENT_SILENT
    assert context.context().device_policy == before
    assert context.VirtualDeviceConfiguration is tf.config.experimental.VirtualDeviceConfiguration
    ctx = context.context()
    assert ctx.list_physical_devices("CPU") == tf.config.experimental.list_physical_devices("CPU")
    assert not ctx.optimizer_jit and ctx.soft_device_placement == tf.config.get_soft_device_placement()
    with pytest.raises(AttributeError):
        ctx.nothing
    context.set_log_device_placement(False)
    assert not context.get_log_device_placement()


def test_distributions_are_counted():
    sampler = monitoring.Sampler("test/sampler", monitoring.ExponentialBuckets(1.0, 2.0, 2), "text", "label")
    for sample in (0.5, 1.0, 5.0):
        sampler.get_cell("foo").add(sample)
    found = sampler.get_cell("foo").value()
    assert (found.min, found.max, found.num, found.sum, found.sum_squares) == (0.5, 5, 3, 6.5, 26.25)
    assert list(found.bucket_limit)[:2] == [1, 2] and list(found.bucket) == [1, 1, 1]
    assert sampler.get_cell("bar").value().num == 0
    with pytest.raises(ValueError):
        sampler.get_cell()


def test_settings_before_and_after_the_start():
    run_program(
        """
import millrace as tf, pytest
from millrace.python.eager import context
tf.enable_eager_execution()
config, threads = tf.config.experimental, tf.config.threading
ctx = context.context()
threads.set_intra_op_parallelism_threads(3)
assert ctx.intra_op_parallelism_threads == threads.get_intra_op_parallelism_threads() == 3
ctx.inter_op_parallelism_threads = 2
assert threads.get_inter_op_parallelism_threads() == 2
(cpu,) = config.list_physical_devices("CPU")
two = [config.VirtualDeviceConfiguration()] * 2
with pytest.raises(ValueError, match="Setting memory limit on CPU"):
    config.set_virtual_device_configuration(cpu, [config.VirtualDeviceConfiguration(memory_limit=100)])
with pytest.raises(ValueError, match="Cannot set memory growth on non-GPU devices"):
    config.set_memory_growth(cpu, True)
with pytest.raises(ValueError, match="Unrecognized device"):
    config.get_memory_growth("none")
config.set_virtual_device_configuration(cpu, two)
assert config.get_virtual_device_configuration(cpu) == two
assert config.get_synchronous_execution() and ctx.execution_mode == context.SYNC
config.set_synchronous_execution(False)
assert not config.get_synchronous_execution() and ctx.execution_mode == context.ASYNC
config.set_synchronous_execution(True)
for policy in ("warn", "explicit", "silent_for_int32", "silent"):
    config.set_device_policy(policy)
    assert config.get_device_policy() == policy
config.set_device_policy(None)
assert config.get_device_policy() == "silent" and ctx.device_policy == context.DEVICE_PLACEMENT_SILENT
with pytest.raises(ValueError, match="Not a valid device policy"):
    config.set_device_policy("other")
context.ensure_initialized()
logical = config.list_logical_devices("CPU")
assert [d.name for d in logical] == ["/job:localhost/replica:0/task:0/device:CPU:%d" % i for i in (0, 1)]
for i in (0, 1):
    with tf.device("/device:CPU:%d" % i):
        assert (tf.constant(1.0) + 1).device == logical[i].name
with pytest.raises((RuntimeError, tf.errors.InvalidArgumentError)):
    with tf.device("/device:CPU:2"):
        tf.constant(1.0) + 1
with pytest.raises(RuntimeError, match="Virtual devices cannot be modified"):
    config.set_virtual_device_configuration(cpu, two * 2)
config.set_virtual_device_configuration(cpu, two)
with pytest.raises(RuntimeError, match="Intra op parallelism cannot be modified after initialization."):
    threads.set_intra_op_parallelism_threads(1)
threads.set_intra_op_parallelism_threads(3)
with pytest.raises(RuntimeError, match="Inter op parallelism cannot be modified after initialization."):
    threads.set_inter_op_parallelism_threads(1)
with pytest.raises(RuntimeError, match="Visible devices cannot be modified"):
    config.set_visible_devices([], "CPU")
"""
    )
