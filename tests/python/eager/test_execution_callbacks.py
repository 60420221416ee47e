# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions that are called after each op that is executed."""
from __future__ import annotations

import threading
from typing import Any, Iterator

import pytest

import millrace as tf
from millrace.python.eager import execution_callbacks


@pytest.fixture(autouse=True)
def no_callbacks_left() -> Iterator[None]:
    yield
    execution_callbacks.clear_execution_callbacks()


def test_callbacks_are_told_of_each_op(eager: None) -> None:
    told: list[Any] = []
    execution_callbacks.add_execution_callback(lambda *args: told.append(args))
    x = tf.constant([[1.0, 2.0]])
    y = tf.matmul(x, x, transpose_b=True)
    tf.concat([x, x], 0)
    thread = threading.Thread(target=lambda: x.__neg__() if tf.executing_eagerly() else tf.constant(0))
    thread.start()
    thread.join()
    assert [t[0] for t in told][:2] == ["MatMul", "ConcatV2"]
    op_type, inputs, attrs, outputs, name = told[0]
    assert inputs[0] is x and outputs[0] is y and name is None
    assert dict(zip(attrs[::2], attrs[1::2]))["transpose_b"] is True
    assert len(told[1][1]) == 3  # two tensors and the axis
    count = len(told)
    execution_callbacks.clear_execution_callbacks()
    tf.matmul(x, x, transpose_b=True)
    assert len(told) == count


def test_gradients_are_told_too(eager: None) -> None:
    kinds: list[str] = []
    execution_callbacks.add_execution_callback(lambda op_type, *args: kinds.append(op_type))
    with tf.GradientTape() as tape:
        x = tf.constant(2.0)
        tape.watch(x)
        y = tf.sin(x)
    assert float(tape.gradient(y, x)) == pytest.approx(-0.41614684)
    assert "Sin" in kinds and "Cos" in kinds


def test_values_that_are_no_numbers_are_found(eager: None, capsys: Any) -> None:
    one, zero = tf.constant([1.0, 2.0]), tf.constant([0.0, 1.0])
    assert execution_callbacks.seterr() == {"inf_or_nan": execution_callbacks.ExecutionCallback.IGNORE}
    with execution_callbacks.errstate(inf_or_nan="raise"):
        with pytest.raises(execution_callbacks.InfOrNanError) as caught:
            tf.divide(one, zero)
        assert "Output 1 of 1 of TFE operation RealDiv (name: None) contains 1 inf(s) out of" in str(
            caught.value
        )
        assert (caught.value.op_type, caught.value.output_index, caught.value.num_outputs) == (
            "RealDiv",
            0,
            1,
        )
        tf.divide(one, one)
    tf.divide(one, zero)
    with execution_callbacks.errstate(inf_or_nan=execution_callbacks.ExecutionCallback.PRINT):
        tf.log(-one)
    assert "2 nan(s)" in capsys.readouterr().out
    tf.contrib.eager.add_execution_callback(tf.contrib.eager.nan_callback)
    tf.divide(one, zero)
    with pytest.raises(execution_callbacks.InfOrNanError):
        tf.log(-one)
    with pytest.raises(ValueError):
        execution_callbacks.seterr("explode")
