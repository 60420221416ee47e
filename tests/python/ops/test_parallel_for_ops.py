# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Independent iterations: element-wise ops are known by the engine's records, not by a list."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np
import pytest

import millrace as tf
from millrace.core.framework import attr_value_pb2, kernel_def_pb2, op_def_pb2
from millrace.python import _engine
from millrace.python.ops.parallel_for import _converters, control_flow_ops  # noqa: F401
from millrace.python.ops.parallel_for.pfor import LOOPED, Kind, converter_of

FLOAT = 1
OPS = {op.name: op for op in op_def_pb2.OpList.FromString(_engine.all_ops()).op}
ELEMENTWISE = sorted(name for name in OPS if _engine.elementwise_kind(name))
ROWS = np.linspace(0.2, 0.9, 24).reshape(3, 2, 4).astype(np.float32)


def evaluate(fetches: object) -> Any:
    with tf.Session() as session:
        return session.run(fetches)


def float_attrs(op: Any) -> Optional[dict[str, Any]]:
    """The attributes of the op for inputs of floats; None if it does not take them."""
    attrs, of_inputs = {}, {arg.type_attr for arg in op.input_arg}
    for attr in op.attr:
        value = attr_value_pb2.AttrValue()
        value.CopyFrom(attr.default_value)
        if attr.name in of_inputs or (attr.type == "type" and not attr.HasField("default_value")):
            allowed = attr.allowed_values.list.type
            if allowed and FLOAT not in allowed:
                return None
            value.type = FLOAT
        elif attr.type == "int" and not attr.HasField("default_value"):
            value.i = 2
        attrs[attr.name] = value
    takes_floats = all(arg.type_attr or arg.type == FLOAT for arg in op.input_arg)
    return attrs if takes_floats else None


def apply(op: Any, inputs: list[Any]) -> Any:
    attrs = float_attrs(op)
    assert attrs is not None
    arg = op.output_arg[0]
    dtype = attrs[arg.type_attr].type if arg.type_attr else arg.type
    return tf.get_default_graph().create_op(op.name, inputs, [tf.as_dtype(dtype)], attrs=attrs).outputs[0]


def has_float_kernel(name: str) -> bool:
    kernels = kernel_def_pb2.KernelList.FromString(_engine.kernels(name)).kernel
    return any(
        all(c.name != "T" or FLOAT in c.allowed_values.list.type for c in kernel.constraint) for kernel in kernels
    )


OF_FLOATS = [n for n in ELEMENTWISE if float_attrs(OPS[n]) is not None and has_float_kernel(n)]


def test_each_elementwise_op_has_a_converter() -> None:
    assert len(ELEMENTWISE) >= 110 and len(OF_FLOATS) >= 90
    assert {"Exp", "Identity", "Invert", "Xdivy", "NextAfter", "TanhGrad", "AddN"} <= set(ELEMENTWISE)
    assert [name for name in ELEMENTWISE if converter_of(name) is None] == []
    assert not LOOPED & set(ELEMENTWISE)
    for name in ("MatMul", "Select", "EnsureShape", "NoSuchOp", ""):
        assert _engine.elementwise_kind(name) == 0


@pytest.mark.parametrize("name", OF_FLOATS)
def test_elementwise_ops_of_all_iterations_are_those_of_each(name: str) -> None:
    op = OPS[name]
    kind = _engine.elementwise_kind(name)
    with tf.Graph().as_default():
        x, other = tf.constant(ROWS), tf.constant(ROWS[:, ::-1] + 0.05)

        def body(i: Any) -> Any:
            inputs = [tf.gather(x, i)]
            if kind == Kind.BROADCASTS:
                inputs.append(tf.gather(other, i)[0])
            elif kind == Kind.SAME_SHAPE:
                inputs.append(tf.gather(other, i))
            return apply(op, inputs)

        dtype = body(tf.constant(0)).dtype
        made = control_flow_ops.pfor(body, 3)
        want = control_flow_ops.for_loop(body, dtype, 3)
        assert not any(node.type == "While" or node.type == "Enter" for node in dependencies(made))
        np.testing.assert_allclose(*evaluate([made, want]), rtol=1e-5)


def dependencies(tensor: Any) -> list[Any]:
    """The operations that a tensor needs."""
    found, work = [], [tensor.op]
    while work:
        op = work.pop()
        if op not in found:
            found.append(op)
            work += [t.op for t in op.inputs]
    return found


@pytest.mark.parametrize("condition", [[True, False, True, False], [[True], [False]]])
def test_select_v2_broadcasts_operands_of_lower_rank(condition: Any) -> None:
    with tf.Graph().as_default():
        x, scales = tf.constant(ROWS), tf.constant([1.0, 2.0, 3.0])

        def body(i: Any) -> Any:
            return tf.where_v2(condition, tf.gather(x, i), tf.gather(scales, i))

        got, want = evaluate([control_flow_ops.pfor(body, 3), control_flow_ops.for_loop(body, tf.float32, 3)])
        np.testing.assert_array_equal(got, want)


def test_accumulate_n_adds_rows() -> None:
    with tf.Graph().as_default():
        x = tf.constant(ROWS)
        made = control_flow_ops.pfor(lambda i: tf.accumulate_n([tf.gather(x, i), x[0]]), 3)
        np.testing.assert_allclose(evaluate(made), ROWS + ROWS[0], rtol=1e-6)
