# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Defun: functions of graphs, captured tensors, gradients and errors."""
from __future__ import annotations

import numpy as np
import pytest

import millrace as tf
from millrace.python.framework import function


def evaluate(fetches: object, feeds: object = None) -> object:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def test_named_functions() -> None:
    @function.Defun(tf.float32, tf.float32, func_name="APlus2B")
    def f(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return a + b * 2.0

    call = f([1.0], [2.0])
    assert call.op.name == "APlus2B" and call.op.type == "APlus2B" and evaluate(call).tolist() == [5.0]
    assert f([1.0], [2.0], name="again").op.name == "again" and f.name == "APlus2B"
    assert [arg.name for arg in f.definition.signature.input_arg] == ["a", "b"]
    assert f.declared_input_types == [tf.float32, tf.float32] and f.captured_inputs == []


def test_types_are_told_by_calls() -> None:
    @function.Defun()
    def double(x: tf.Tensor) -> tf.Tensor:
        return x + x

    one, two = double(2.0), double(3)
    assert one.op.type != two.op.type and evaluate([one, two]) == [4.0, 6] and two.dtype == tf.int32


def test_several_results_and_none() -> None:
    @function.Defun(tf.int32, out_names=["up", "down"])
    def both(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return x + 1, x - 1

    up, down = both(5)
    assert evaluate([up, down]) == [6, 4] and [a.name for a in both.definition.signature.output_arg] == [
        "up",
        "down",
    ]

    @function.Defun()
    def constant() -> tf.Tensor:
        return tf.constant([1.0, 2.0])

    assert evaluate(constant()).tolist() == [1.0, 2.0]


def test_captured_tensors_and_variables() -> None:
    outer = tf.placeholder_with_default(10.0, [])

    @function.Defun(tf.float32)
    def f(x: tf.Tensor) -> tf.Tensor:
        reference = tf.get_variable("reference", [], initializer=tf.constant_initializer(2.0))
        resource = tf.get_variable(
            "resource", [], initializer=tf.constant_initializer(3.0), use_resource=True
        )
        return x * outer + reference + resource

    result = f(1.0)
    assert evaluate(result) == 15.0 and len(f.captured_inputs) == 3 and f.captured_inputs[0] is outer
    assert [v.name for v in tf.global_variables()] == ["reference:0", "resource:0"]
    assert evaluate(result, {outer: 20.0}) == 25.0


def test_functions_that_call_functions() -> None:
    @function.Defun(tf.float32)
    def cube(x: tf.Tensor) -> tf.Tensor:
        return x * x * x

    @function.Defun(tf.float32)
    def outer(x: tf.Tensor) -> tf.Tensor:
        return cube(x) + cube(2.0)

    y = outer(3.0)
    assert evaluate(y) == 35.0
    library = {f.signature.name for f in tf.get_default_graph().as_graph_def().library.function}
    assert {cube.name, outer.name} <= library


def test_control_flow_in_functions() -> None:
    @function.Defun(tf.int32)
    def power(n: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * 2), [0, 1])[1]

    @function.Defun(tf.int32)
    def choose(n: tf.Tensor) -> tf.Tensor:
        return tf.cond(n > 3, lambda: power(n), lambda: -n)

    assert evaluate([power(5), choose(4), choose(2)]) == [32, 16, -2]


def test_gradients() -> None:
    x = tf.constant([1.0, 2.0])

    @function.Defun(tf.float32)
    def square(v: tf.Tensor) -> tf.Tensor:
        return v * v

    assert evaluate(tf.gradients(square(x), x))[0].tolist() == [2.0, 4.0]

    @function.Defun(tf.float32, tf.float32, python_grad_func=lambda op, g: (g * 100.0, g * 3.0))
    def times(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return a * b

    assert evaluate(tf.gradients(times(x, x), x))[0].tolist() == [103.0, 103.0]

    @function.Defun(tf.float32, tf.float32)
    def gradient(v: tf.Tensor, g: tf.Tensor) -> tf.Tensor:
        return g * 7.0

    @function.Defun(tf.float32, grad_func=gradient)
    def identity(v: tf.Tensor) -> tf.Tensor:
        return v * 1.0

    assert identity.grad_func_name == gradient.name
    assert evaluate(tf.gradients(identity(x), x))[0].tolist() == [7.0, 7.0]


def test_functions_survive_export_and_import() -> None:
    with tf.Graph().as_default() as graph:

        @function.Defun(tf.float32, func_name="Twice")
        def twice(x: tf.Tensor) -> tf.Tensor:
            return x + x

        tf.identity(twice(tf.placeholder(tf.float32, name="in")), name="out")
        definition = graph.as_graph_def()
    tf.import_graph_def(definition, name="")
    assert evaluate("out:0", {"in:0": np.float32([1.0, 2.0])}).tolist() == [2.0, 4.0]
    assert [f.signature.name for f in tf.get_default_graph().as_graph_def().library.function] == ["Twice"]


def test_shapes_from_a_function() -> None:
    @function.Defun(tf.float32, shape_func=lambda op: [op.inputs[0].get_shape()])
    def f(x: tf.Tensor) -> tf.Tensor:
        return x * 2.0

    assert f(tf.zeros([2, 3])).shape.as_list() == [2, 3]


def test_errors() -> None:
    with pytest.raises(ValueError, match="can not return None"):
        function.Defun()(lambda: (None, None)).definition
    with pytest.raises(
        ValueError, match="function with argument defaults or keywords arguments are not supported."
    ):
        function.Defun()(lambda a=1: a)
    with pytest.raises(
        ValueError, match="The function has fewer arguments than the number of specified input types."
    ):
        function.Defun(tf.float32)(lambda a, b: a)
    with pytest.raises(ValueError, match="function 3 must be callable"):
        function.Defun()(3)
    one = function.Defun(tf.float32)(lambda a: a)
    with pytest.raises(ValueError, match="Expected number of arguments: 1, received: 0"):
        one()
    with pytest.raises(ValueError, match="Unknown keyword arguments"):
        one(1.0, device="/cpu:0")
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="output names must be either empty or equal in size"
    ):
        function.Defun(tf.float32, out_names=["a"])(lambda a: (a, a)).definition


def test_attributes_of_calls() -> None:
    @function.Defun(tf.float32, noinline=True)
    def f(x: tf.Tensor) -> tf.Tensor:
        return x

    assert f.definition.attr["_noinline"].b and f(1.0, noinline=True).op.get_attr("_noinline")
