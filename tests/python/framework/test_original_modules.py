# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Modules that TensorFlow's own tests import."""
import threading

import numpy as np
import pytest

import millrace as tf
from millrace.core.debug import debug_service_pb2, debugger_event_metadata_pb2
from millrace.core.profiler import tfprof_log_pb2, tfprof_options_pb2, tfprof_output_pb2
from millrace.python import pywrap_tensorflow
from millrace.python.eager import cancellation, context
from millrace.python.ops import cond_v2, control_flow_state, while_v2


def test_messages_of_profiler_and_debugger():
    log = tfprof_log_pb2.OpLogProto(id_to_string={1: "a"})
    log.log_entries.add(name="n", float_ops=3, types=["t"]).code_def.traces.add(lineno=4, file_id=1)
    assert tfprof_log_pb2.OpLogProto.FromString(log.SerializeToString()) == log
    node = tfprof_output_pb2.GraphNodeProto(name="n", total_float_ops=5)
    assert node.SerializeToString() == b"\x0a\x01np\x05"  # fields 1 and 14
    assert tfprof_options_pb2.OptionsProto(step=2).SerializeToString() == b"\x90\x01\x02"
    traceback = debug_service_pb2.CallTraceback(call_type=debug_service_pb2.CallTraceback.GRAPH_EXECUTION)
    traceback.graph_traceback.CopyFrom(log)
    assert debug_service_pb2.CallTraceback.FromString(traceback.SerializeToString()) == traceback
    assert debugger_event_metadata_pb2.DebuggerEventMetadata(chunk_index=1).SerializeToString() == b" \x01"


def test_functions_that_can_be_cancelled():
    with context.eager_mode():
        manager = cancellation.CancellationManager()
        double = tf.function(lambda x: 2 * x).get_concrete_function(tf.TensorSpec([], tf.float32))
        cancelable = manager.get_cancelable_function(double)
        assert cancelable(tf.constant(3.0)).numpy() == 6.0
        assert not manager.is_cancelled

        started = threading.Event()

        def wait(x):
            started.set()
            threading.Event().wait(5)
            return x

        waiting = manager.get_cancelable_function(wait)
        caught = []

        def call():
            try:
                with context.eager_mode():
                    waiting(1)
            except tf.errors.CancelledError as error:
                caught.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        started.wait()
        manager.start_cancel()
        thread.join()
        assert len(caught) == 1 and manager.is_cancelled
        with pytest.raises(tf.errors.CancelledError):
            cancelable(tf.constant(3.0))


def test_zeros_in_place_of_gradients():
    with tf.Graph().as_default():
        x = tf.constant([1.0, 2.0])
        v = tf.Variable([[3.0]], use_resource=True)
        zeros = [control_flow_state.ZerosLike(op, 0) for op in (x.op, v.handle.op)]
        assert control_flow_state.MaybeCreateControlFlowState([x.op], [], False) is None
        with tf.Session() as session:
            session.run(v.initializer)
            values = session.run(zeros)
    np.testing.assert_array_equal(values[0], [0.0, 0.0])
    np.testing.assert_array_equal(values[1], [[0.0]])


def test_quantised_numbers_are_fetched_as_integers():
    kinds = {
        tf.quint8: np.uint8,
        tf.qint8: np.int8,
        tf.qint16: np.int16,
        tf.quint16: np.uint16,
        tf.qint32: np.int32,
    }
    with tf.Graph().as_default(), tf.Session() as session:
        for dtype, expected in kinds.items():
            placeholder = tf.placeholder(dtype, [3])
            value = session.run(tf.constant([1, 2, 3], dtype))
            assert value.dtype == expected
            np.testing.assert_array_equal(value, [1, 2, 3])
            np.testing.assert_array_equal(
                session.run(tf.identity(placeholder), {placeholder: value}), [1, 2, 3]
            )
    with context.eager_mode():
        value = tf.quantize(tf.constant([0.0, 1.0]), 0.0, 1.0, tf.quint8).output.numpy()
    assert value.dtype == np.uint8 and value.tolist() == [0, 255]


def test_the_short_way_to_an_op():
    with context.eager_mode():
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        ctx = context.context()

        def fast(op, *args):
            return pywrap_tensorflow.TFE_Py_FastPathExecute(
                ctx._handle, ctx.device_name, op, None, None, *args
            )

        product = fast("MatMul", x, x, "transpose_a", False, "transpose_b", True, "T", tf.float32)
        np.testing.assert_array_equal(product.numpy(), x.numpy() @ x.numpy().T)
        assert [t.numpy().tolist() for t in fast("Unpack", x, "axis", 0, "num", 2)] == x.numpy().tolist()
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = fast("Square", x)
        np.testing.assert_array_equal(tape.gradient(y, x).numpy(), 2 * x.numpy())
        with pytest.raises(RuntimeError, match="Op type not registered 'Nothing'"):
            fast("Nothing", x)
        with pytest.raises(ValueError):
            fast("MatMul", x)
        attrs = ("transpose_a", False, "transpose_b", False, "T", x.dtype.as_datatype_enum)
        (slow,) = pywrap_tensorflow.TFE_Py_Execute(ctx._handle, None, "MatMul", [x, x], attrs, 1)
        np.testing.assert_array_equal(slow.numpy(), x.numpy() @ x.numpy())
    assert pywrap_tensorflow.TFE_Py_UID() != pywrap_tensorflow.TFE_Py_UID()


def test_gradients_of_functional_control_flow_have_names():
    assert callable(cond_v2._IfGrad) and callable(while_v2._WhileGrad)
    with pytest.raises(AttributeError, match="_NothingGrad"):
        cond_v2._NothingGrad
