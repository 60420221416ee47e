# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""User-defined ops: compiled with the flags of tf.sysconfig, loaded, and run."""

import os
import subprocess
import sys

import millrace as tf
import numpy as np
import pytest
from millrace.python.eager import context
from millrace.python.framework import function

FOLDER = os.path.dirname(os.path.abspath(__file__))


def compile_ops(folder, *flags, source="ops.cc"):
    library = os.path.join(str(folder), "custom_ops.so")
    command = ["g++", "-shared", "-fPIC", "-O1", *flags, os.path.join(FOLDER, source), "-o", library]
    command += tf.sysconfig.get_compile_flags() + tf.sysconfig.get_link_flags()
    subprocess.run(command, check=True, timeout=300)
    return library


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    return tf.load_op_library(compile_ops(tmp_path_factory.mktemp("ops"), "-std=c++11"))


def run(fetches, feeds=None):
    with tf.Session() as session:
        return session.run(fetches, feeds)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_kernels_of_several_types(ops, dtype):
    with tf.Graph().as_default():
        y = ops.custom_zero_out(np.array([5, 4, 3], dtype), preserve_index=1)
        assert y.shape == [3]
        np.testing.assert_array_equal(run(y), np.array([0, 4, 0], dtype))


def test_errors_of_kernels(ops):
    with tf.Graph().as_default():
        with pytest.raises(tf.errors.InvalidArgumentError, match="Need preserve_index >= 0, got -1"):
            run(ops.custom_zero_out([1.0], preserve_index=-1))
        with pytest.raises(tf.errors.OutOfRangeError, match="preserve_index out of range"):
            run(ops.custom_zero_out([1.0], preserve_index=1))
        with pytest.raises(tf.errors.InvalidArgumentError, match="expects a 1-D vector"):
            run(ops.custom_zero_out([[1.0]]))
        with pytest.raises(tf.errors.InternalError, match="thirteen is not for us"):
            run(ops.custom_scale_as(np.zeros([13, 1], np.float32), [13]))


@pytest.mark.parametrize(
    "how, text",
    [
        ("uninitialized", "Output 0 is set to a tensor that is not initialized"),
        ("shard", "thrown by a shard"),
        ("type", "double elements of Tensor<type: float shape: \\[3\\]>"),
        ("rank", "a view of rank 2 of Tensor<type: float shape: \\[3\\]>"),
        ("scalar", "scalar\\(\\) of Tensor<type: float shape: \\[3\\]>"),
        ("sizes", "a view of another number of elements than Tensor<type: float shape: \\[3\\]>"),
        ("list", "used list-valued output name 'y'"),
        ("object", "a kernel threw an object that is not a std::exception"),
    ],
)
def test_wrong_use_by_a_kernel_is_an_error(ops, how, text):
    with tf.Graph().as_default():
        y = ops.custom_misuse(np.zeros([3], np.float32), how=how)
        with pytest.raises(tf.errors.OpError, match=text):
            run(y)


@pytest.mark.parametrize("how", ["memory", "memory of a shard"])
def test_a_kernel_without_memory_ends_its_step(ops, how):
    with tf.Graph().as_default():
        y = ops.custom_misuse(np.zeros([3], np.float32), how=how)
        with pytest.raises(tf.errors.ResourceExhaustedError, match="Out of memory in a kernel"):
            run(y)


def test_references_are_changed_in_place(ops):
    with tf.Graph().as_default():
        variable = tf.Variable([1.0, 2.0], use_resource=False, validate_shape=False)
        flags = tf.Variable([True], use_resource=False)
        add_one = ops.custom_add_one(variable)
        replace = ops.custom_add_one(variable, replace=3)
        assert add_one.dtype == tf.float32._as_ref
        with tf.Session() as session:
            with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value"):
                session.run(add_one)
            session.run([variable.initializer, flags.initializer])
            before = session.run(variable)
            np.testing.assert_array_equal(session.run(add_one), [2.0, 3.0])
            np.testing.assert_array_equal(session.run(add_one), [3.0, 4.0])
            np.testing.assert_array_equal(session.run(variable), [3.0, 4.0])
            np.testing.assert_array_equal(before, [1.0, 2.0])
            np.testing.assert_array_equal(session.run(replace), [0.0] * 3)
            np.testing.assert_array_equal(session.run(add_one), [1.0] * 3)
            with pytest.raises(tf.errors.UnimplementedError, match="of type bool cannot be changed in place"):
                session.run(ops.custom_add_one(flags))
            with pytest.raises(tf.errors.InvalidArgumentError, match="a variable of type bool, not float"):
                session.run(ops.custom_add_one(flags, replace=2))
            assert session.run(flags).tolist() == [True]


def test_handles_and_variants_are_passed_on(ops):
    with tf.Graph().as_default():
        values = tf.raw_ops.TensorListFromTensor(tensor=[[1.0], [2.0]], element_shape=[1])
        stacked = tf.raw_ops.TensorListStack(
            input_handle=ops.custom_pass(values), element_shape=[1], element_dtype=tf.float32
        )
        np.testing.assert_array_equal(run(stacked), [[1.0], [2.0]])
        variable = tf.get_variable("v", initializer=3.0, use_resource=True)
        read = tf.raw_ops.ReadVariableOp(resource=ops.custom_pass(variable.handle), dtype=tf.float32)
        with tf.Session() as session:
            session.run(variable.initializer)
            assert session.run(read) == 3.0
        np.testing.assert_array_equal(run(ops.custom_pass(["a", ""])), [b"a", b""])


def test_resources_outlive_steps(ops):
    with tf.Graph().as_default():
        counter = ops.custom_counter(start=5)
        shared = [ops.custom_counter(start=100, shared_name="both") for _ in range(2)]
        count = ops.custom_count(counter, by=2)
        of_shared = [ops.custom_count(handle).value for handle in shared]
        with tf.Session() as session:
            assert [session.run(count.value) for _ in range(3)] == [7, 9, 11]
            assert session.run(of_shared[0]) == 101
            assert session.run(of_shared[1]) == 102
            assert session.run(count.alive) == 2
        with tf.Session() as session:
            assert session.run(count) == (7, 1)  # those of the other session are gone
        with pytest.raises(tf.errors.InvalidArgumentError, match="a counter starts at 0 or more"):
            run(ops.custom_count(ops.custom_counter(start=-1)).value)


def test_resources_of_wrong_names_and_types(ops):
    with tf.Graph().as_default():
        counter = ops.custom_counter(shared_name="typed")
        with pytest.raises(tf.errors.InvalidArgumentError, match="Resource localhost/typed is of the type"):
            run(ops.custom_count(counter, as_other=True).value)
        variable = tf.get_variable("v", initializer=1.0, use_resource=True)
        with tf.Session() as session:
            session.run(variable.initializer)
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(ops.custom_count(variable.handle).value)
        make, find, drop, throw = [
            ops.custom_named(name_of_it="it", how=how) for how in ["create", "find", "delete", "throw"]
        ]
        with tf.Session() as session:
            with pytest.raises(tf.errors.NotFoundError, match="it"):
                session.run(find)
            with pytest.raises(tf.errors.InternalError, match="no counter today"):
                session.run(throw)
            assert session.run(make) == 2
            with pytest.raises(tf.errors.AlreadyExistsError, match="Resource localhost/it/"):
                session.run(make)
            assert session.run(find) == 3
            assert session.run(drop) == 0
            with pytest.raises(tf.errors.NotFoundError, match="Resource localhost/it/.* does not exist"):
                session.run(drop)


def test_docstring_has_the_text_of_the_op(ops):
    assert "Zeros all but one element." in ops.custom_zero_out.__doc__


def test_attributes_of_all_kinds(ops):
    with tf.Graph().as_default():
        shapes = [[2, None], None, []]
        y = ops.custom_attrs(
            i=-7,
            f=1.5,
            b=True,
            s="text",
            t=tf.int64,
            shape=[3, None],
            **{"is": [1, -2]},
            fs=[0.5, -0.25],
            bs=[True, False],
            ss=["a", "b"],
            ts=[tf.float32, tf.string],
            shapes=shapes,
            name="node",
        )
        assert y.shape == []
        assert run(y) == (
            b"node: -7 1.5 1 text int64 [3,?] 1 -2 0.5 -0.25 1 0 a b float string [2,?] <unknown> []"
        )
        empty = ops.custom_attrs(
            i=0,
            f=0.0,
            b=False,
            s="",
            t=tf.bool,
            shape=[],
            **{"is": []},
            fs=[],
            bs=[],
            ss=[],
            ts=[],
            shapes=[],
        )
        assert run(empty) == b"CustomAttrs: 0 0 0  bool []"


def test_attributes_that_are_tensors_and_functions(ops):
    @function.Defun(tf.float32)
    def twice(x):
        return 2 * x

    with tf.Graph().as_default():
        twice.add_to_graph(tf.get_default_graph())
        # Equal elements are written once.
        value = tf.make_tensor_proto([0.5, 0.5, 0.5])
        texts = [tf.make_tensor_proto("a"), tf.make_tensor_proto([["b", "c"]])]
        y = ops.custom_tensor_attrs(value=value, values=texts, f=twice)
        assert y.shape == [3]
        name = twice.name.encode()
        assert list(run(y)) == [b"0.5 " + name + b" []:a [1,2]:b"] * 3
        value = tf.make_tensor_proto(2.0)
        assert run(ops.custom_tensor_attrs(value=value, values=[], f=twice)) == b"2 " + name


def test_lists_and_strings(ops):
    with tf.Graph().as_default():
        long = "x" * 1000
        texts = [tf.constant(["ab", ""]), tf.constant(["c", long])]
        y = ops.custom_lists(texts, "-")
        assert y.joined.shape == [2] and y.count.shape == []
        joined, reversed_texts, count = run([y.joined, y.reversed, y.count])
        assert list(joined) == [b"ab-c", b"-" + long.encode()]
        assert [list(t) for t in reversed_texts] == [[b"ba", b""], [b"c", long.encode()]]
        assert count == 2
        with pytest.raises(ValueError, match="Dimension 0 in both shapes must be equal, but are 2 and 3"):
            ops.custom_lists([["a", "b"], ["a", "b", "c"]], "-")
        with pytest.raises(ValueError, match="Shape must be rank 0 but is rank 1"):
            ops.custom_lists([["a"]], ["-"])


def test_shapes_from_values_and_work_on_threads(ops):
    with tf.Graph().as_default():
        x = np.arange(6000, dtype=np.float32).reshape([60, 100])
        y = ops.custom_scale_as(x, [30, 200], by=3.0)
        assert y.shape == [30, 200]
        np.testing.assert_array_equal(run(y), 3 * x.reshape([30, 200]))
        unknown = ops.custom_scale_as(tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int32))
        assert unknown.shape.ndims is None
        with pytest.raises(ValueError, match="Dimensions must be equal, but are 6000 and 5"):
            ops.custom_scale_as(x, [5])
        with pytest.raises(ValueError, match="Shape must be rank 2 but is rank 1"):
            ops.custom_scale_as([1.0], [1])
        empty = ops.custom_scale_as(np.zeros([0, 3], np.float32), [0])
        assert run(empty).shape == (0,)


def test_kernels_that_end_later(ops):
    with tf.Graph().as_default():
        np.testing.assert_array_equal(run(ops.custom_later([True, False])), [False, True])


def test_gradient_in_python(ops):
    with tf.Graph().as_default():

        @tf.RegisterGradient("CustomScaleAs")
        def _gradient(op, grad):  # pylint: disable=unused-variable
            return tf.reshape(grad * op.get_attr("by"), tf.shape(op.inputs[0])), None

        x = tf.constant([[1.0, 2.0]])
        np.testing.assert_array_equal(run(tf.gradients(ops.custom_scale_as(x, [2], by=3.0), x)[0]), [[3, 3]])


def test_eager_execution(ops):
    with context.eager_mode():
        np.testing.assert_array_equal(ops.custom_zero_out([5.0, 4.0]).numpy(), [5, 0])
        result = ops.custom_lists(["a", "bc"], between="+")
        assert (result.joined.numpy(), result.count.numpy()) == (b"a+bc", 2)
        assert [t.numpy() for t in result.reversed] == [b"a", b"cb"]
        with pytest.raises(tf.errors.OutOfRangeError, match="preserve_index out of range"):
            ops.custom_zero_out([1.0], preserve_index=1)
        x = tf.constant([[1.0, 2.0]])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = ops.custom_scale_as(x, [2], by=5.0)
        np.testing.assert_array_equal(y.numpy(), [5, 10])
        np.testing.assert_array_equal(
            tape.gradient(y, x).numpy(), [[5, 5]]
        )  # by the gradient registered above


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_kernels_of_a_step_may_wait_for_each_other(ops, threads):
    config = tf.ConfigProto(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=threads)
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        start = tf.constant(3, tf.int64)
        near = ops.custom_exchange(start, side=0)
        far = ops.custom_exchange(ops.custom_at_once(ops.custom_at_once(start)), side=1)
        for _ in range(20):
            assert session.run([near, far]) == [3, 3]
            assert session.run([far, near]) == [3, 3]

        @function.Defun(tf.int64, noinline=True)
        def both(x):
            return ops.custom_exchange(x, side=0) + ops.custom_exchange(x, side=1)

        @function.Defun(tf.int64, noinline=True)
        def one_side(x):
            return ops.custom_exchange(x, side=0)

        fetches = [both(start), one_side(start), ops.custom_exchange(start, side=1)]
        for _ in range(20):
            assert session.run(fetches) == [6, 3, 3]


def test_without_eigen(tmp_path):
    """The same sources compile with the library's own views, in a process of their own: ops register once."""
    library = compile_ops(tmp_path, "-std=c++17", "-DMILLRACE_NO_EIGEN")
    program = f"""
import millrace as tf
ops = tf.load_op_library({library!r})
with tf.Session() as session:
    print(session.run(ops.custom_zero_out([5.0, 4.0], preserve_index=1)), session.run(ops.custom_scale_as([[1.0]], [1])))
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.stdout.split() == ["[0.", "4.]", "[2.]"], result.stderr


@pytest.mark.parametrize(
    "flags", [["-std=c++14"], ["-std=c++11", "-DMILLRACE_NO_EIGEN"], ["-std=c++17", "-DEIGEN_USE_THREADS"]]
)
def test_functors_of_devices(tmp_path, flags):
    """A kernel that is written for several devices, with Eigen's threads, without them, and without Eigen."""
    library = compile_ops(tmp_path, "-O0", *flags, source="devices.cc")
    program = f"""
import os
import millrace as tf
ops = tf.load_op_library({library!r})
x = tf.placeholder(tf.float32)
fetches = ops.custom_example(x)[:2] + ops.custom_example([3, 4])[:1]
def check():
    with tf.Session() as session:
        values = [float(i % 7) for i in range(100000)]
        twice, copy, ints = session.run(fetches, {{x: values}})
        return list(twice) == [2 * v for v in values] and list(copy) == values and list(ints) == [6, 8]
print(check())
pid = os.fork()
if pid == 0:
    os._exit(0 if check() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.stdout == "True\n0\n", result.stderr
