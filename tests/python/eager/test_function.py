# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.function, GradientTape and functional control flow in graphs."""
from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import pytest

import millrace as tf
from millrace.python.eager import backprop, function
from millrace.python.framework import (
    auto_control_deps,
    func_graph,
    function_def_to_graph,
    graph_to_function_def,
    subscribe,
)
from millrace.python.ops import cond_v2, while_v2


@pytest.fixture(autouse=True)
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.Session() as sess:
        yield sess


def test_one_body_for_each_kind_of_arguments(session: Any) -> None:
    calls = []

    @tf.function
    def f(x: Any, times: int = 2) -> Any:
        calls.append(x.dtype)
        return {"scaled": x * times, "list": [x]}

    one, two = f(tf.constant(3.0)), f(tf.constant(4.0))
    assert session.run([one, two]) == [{"scaled": 6, "list": [3]}, {"scaled": 8, "list": [4]}]
    assert session.run(f(tf.constant(3))["scaled"]) == 6
    assert session.run(f(tf.constant(3.0), times=5)["scaled"]) == 15
    assert calls == [tf.float32, tf.int32, tf.float32]
    assert f.__name__ == "f"
    assert {op.type for op in tf.get_default_graph().get_operations()} == {"Const", "PartitionedCall"}


def test_signatures(session: Any) -> None:
    calls = []

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def total(x: Any) -> Any:
        calls.append(x.shape.as_list())
        return tf.reduce_sum(x)

    assert session.run([total([1.0, 2.0]), total(tf.constant([5.0]))]) == [3, 5]
    assert calls == [[None]]
    with pytest.raises(ValueError, match="Python inputs incompatible with input_signature"):
        total(tf.constant([[1.0]]))
    with pytest.raises(
        ValueError, match="Structure of Python function inputs does not match input_signature"
    ):
        total(tf.constant([1.0]), tf.constant([1.0]))
    with pytest.raises(TypeError, match="must be a possibly nested sequence of TensorSpec"):
        tf.function(lambda x: x, input_signature=[3])
    concrete = total.get_concrete_function()
    assert concrete.output_shapes == tf.TensorShape([]) and concrete.inputs[0].dtype == tf.float32


def test_gradients_through_functions(session: Any) -> None:
    v = tf.get_variable("v", initializer=3.0, use_resource=True)

    @tf.function
    def inner(x: Any) -> Any:
        return tf.cond(x > 0.0, lambda: x * v, lambda: -x)

    @tf.function
    def outer(x: Any) -> Any:
        return inner(x) * 2.0

    session.run(v.initializer)
    x = tf.placeholder(tf.float32, [])
    y = outer(x)
    gx, gv = tf.gradients(y, [x, v])
    assert session.run([y, gx, gv], {x: 5.0}) == [30, 6, 10]
    assert session.run([y, gx, gv], {x: -5.0}) == [10, -2, 0]


def test_effects_run_once_and_in_order(session: Any) -> None:
    v = tf.get_variable("v", initializer=1.0, use_resource=True)

    @tf.function
    def f(x: Any) -> Any:
        v.assign_add(10.0)
        v.assign(v * 2.0)
        return x * v.read_value()

    session.run(v.initializer)
    x = tf.constant(3.0)
    y = f(x)
    g = tf.gradients(y, x)[0]
    assert session.run([y, g]) == [66, 22]
    assert session.run(v) == 22

    @tf.function
    def no_result() -> None:
        v.assign(100.0)

    assert session.run(no_result()) is None and session.run(v) == 100


def test_effects_in_branches(session: Any) -> None:
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    p, q = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, [])

    @tf.function
    def f(p: Any, q: Any) -> Any:
        v.assign(v * 10.0)
        tf.cond(
            p,
            lambda: v.assign_add(1.0),
            lambda: tf.cond(q, lambda: v.assign_add(2.0), lambda: v.assign_add(3.0)),
        )
        v.assign(v * 10.0)
        return v.read_value()

    y = f(p, q)
    for values, want in (((True, False), 110), ((False, True), 120), ((False, False), 130)):
        session.run(v.initializer)
        assert session.run(y, dict(zip((p, q), values))) == want


def test_automatic_dependencies_in_a_graph(session: Any) -> None:
    v = tf.get_variable("v", initializer=1.0, use_resource=True)

    @auto_control_deps.automatic_control_dependencies
    def f() -> Any:
        v.assign(v + 1.0)
        v.assign(2.0 * v)
        return v.value()

    session.run(v.initializer)
    assert session.run(f()) == 4
    with auto_control_deps.AutomaticControlDependencies() as deps:
        assigned = v.assign(7.0)
        one = deps.mark_as_return(tf.constant(1.0))
    assert session.run(one) == 1 and session.run(v) == 7 and assigned is not None


def test_methods(session: Any) -> None:
    class Model:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @tf.function
        def call(self, x: Any) -> Any:
            return x * self.factor

    assert session.run([Model(2.0).call(tf.constant(3.0)), Model(5.0).call(tf.constant(3.0))]) == [6, 15]


def test_results_that_are_no_tensors(session: Any) -> None:
    with pytest.raises(TypeError, match="Python functions must return zero or more Tensors"):
        function.defun(lambda: object())()


def test_tapes(session: Any) -> None:
    x, y = tf.constant(3.0), tf.constant(4.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        z = x * x * y
    assert session.run(tape.gradient(z, x)) == 24
    with pytest.raises(RuntimeError, match="can only be called once on non-persistent tapes"):
        tape.gradient(z, x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x])
        z = x * y
    grads = tape.gradient(z, {"x": x, "y": y})
    assert session.run(grads["x"]) == 4 and grads["y"] is None
    vector = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(vector)
        z = vector * vector
    assert session.run(tape.jacobian(z, vector)).tolist() == [[2, 0], [0, 4]]
    value, grads = backprop.val_and_grad_function(lambda a, b: a * b)(2.0, 5.0)
    assert session.run([value] + grads) == [10, 5, 2]


def test_functional_conditions_and_loops(session: Any) -> None:
    x, p = tf.constant(3.0), tf.placeholder(tf.bool, [])
    y = cond_v2.cond_v2(p, lambda: x * x, lambda: x + 1.0)
    g = tf.gradients(y, x)[0]
    assert session.run([y, g], {p: True}) == [9, 6] and session.run([y, g], {p: False}) == [4, 1]
    with pytest.raises(TypeError, match="must have the same number, type, and overall structure"):
        cond_v2.cond_v2(p, lambda: x, lambda: tf.constant(1))
    i, z = while_v2.while_loop(
        lambda i, a: i < 4, lambda i, a: (i + 1, a * x), (tf.constant(0), tf.constant(1.0))
    )
    assert session.run([i, z] + tf.gradients(z, x)) == [4, 81, 108]
    i, z = while_v2.while_loop(
        lambda i, a: i < 4,
        lambda i, a: (i + 1, a * x),
        (tf.constant(0), tf.constant(1.0)),
        maximum_iterations=2,
    )
    assert session.run([i, z]) == [2, 9]


def test_programs_can_ask_for_functional_control_flow(session: Any) -> None:
    x, p = tf.constant(3.0), tf.placeholder(tf.bool, [])
    tf.enable_control_flow_v2()
    try:
        y = tf.cond(p, lambda: x * x, lambda: x + 1.0)
        i, z = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * x), (0, 1.0))
        rows = tf.map_fn(lambda v: v * x, tf.constant([1.0, 2.0]))
        assert tf.control_flow_v2_enabled()
    finally:
        tf.disable_control_flow_v2()
    kinds = {op.type for op in tf.get_default_graph().get_operations()}
    assert {"StatelessIf", "StatelessWhile"} <= kinds and not kinds & {"Switch", "Merge", "Enter"}
    assert session.run([y, i, z], {p: True}) == [9, 4, 81] and session.run(y, {p: False}) == 4
    assert session.run(rows).tolist() == [3, 6]
    assert not tf.control_flow_v2_enabled()


def test_functions_and_graphs(session: Any) -> None:
    graph = func_graph.func_graph_from_py_func(
        "body", lambda a, b: a * b + 1.0, [tf.constant(2.0), tf.constant(3.0)], {}
    )
    definition = graph_to_function_def.graph_to_function_def(
        graph, graph.get_operations(), graph.inputs, graph.outputs, ["out"]
    )
    assert [a.name for a in definition.signature.output_arg] == ["out"]
    definition.signature.name = "again"
    again = function_def_to_graph.function_def_to_graph(definition)
    with tf.Session(graph=again) as sess:
        assert sess.run(again.outputs, dict(zip(again.inputs, [2.0, 3.0]))) == [7]
    with pytest.raises(ValueError, match="Length of input_shapes must match the number of input_args"):
        function_def_to_graph.function_def_to_graph(definition, [[]])


def test_subscriptions(session: Any) -> None:
    seen: list[Any] = []
    a = tf.constant(1.5)
    b = a * 2.0
    made = subscribe.subscribe(
        {"a": a}, lambda t: tf.py_func(lambda v: seen.append(float(v)) or v, [t], [t.dtype])
    )
    assert session.run(b) == 3 and seen == [1.5]
    assert made["a"].op.name == "Const/subscription/Identity"
    with pytest.raises(TypeError, match="has invalid type"):
        subscribe.subscribe(3, lambda t: [])
    variable = tf.get_variable("subscribed", [], initializer=tf.constant_initializer(2.0), use_resource=False)
    assignment, doubled = variable.assign(3.0), variable * 2.0
    values = []
    read = subscribe.subscribe(variable, lambda t: tf.py_func(lambda x: values.append(x) or x, [t], t.dtype))
    assert read.op.type == "Identity" and read.op.inputs[0].op.type == "Identity"
    with tf.Session() as session:
        session.run(variable.initializer)
        session.run(assignment)
        assert not values
        assert session.run(doubled) == 6.0 and values == [3.0]


def test_arrays_leave_functions_as_they_are(session: Any) -> None:
    np.testing.assert_array_equal(session.run(function.defun(lambda x: x + 1)(np.arange(3))), [1, 2, 3])


def test_rows_of_resource_variables(session: Any) -> None:
    v = tf.get_variable("v", initializer=np.ones((4, 2), "f"), use_resource=True)
    session.run(v.initializer)

    @tf.function
    def captured(i: Any) -> Any:
        return tf.nn.embedding_lookup(v, i)

    @tf.function
    def given(table: Any, i: Any) -> Any:
        return tf.nn.embedding_lookup(table, i)

    @tf.function
    def elements(i: Any) -> Any:
        return tf.gather_nd(v, i)

    @tf.function
    def noise(i: Any) -> Any:
        return tf.nn.embedding_lookup(v, i) + 0.0 * tf.random.uniform([2])

    for rows in (captured([1, 1]), given(v, [1, 1]), noise([1, 1])):
        assert session.run(rows).tolist() == [[1, 1], [1, 1]]
        grad = tf.convert_to_tensor(tf.gradients(rows * 3.0, v)[0])
        assert session.run(grad).tolist() == [[0, 0], [6, 6], [0, 0], [0, 0]]
    assert session.run(given(tf.ones([3, 2]), [1])).tolist() == [[1, 1]]
    assert session.run(elements([[1, 0]])).tolist() == [1]
    assert captured([1]).op.type in ("PartitionedCall", "StatefulPartitionedCall"), "it only reads"
