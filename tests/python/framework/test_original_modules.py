# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Modules that TensorFlow's own tests import."""
import threading

import numpy as np
import pytest

import millrace as tf
from millrace.core.debug import debug_service_pb2, debugger_event_metadata_pb2
from millrace.core.profiler import tfprof_log_pb2, tfprof_options_pb2, tfprof_output_pb2
from millrace.python.eager import cancellation, context
from millrace.python.ops import control_flow_state


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
