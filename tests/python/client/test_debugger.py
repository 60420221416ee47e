# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The debugger: runs whose tensors are written to files, and what reads them."""
import io
import os
import pathlib
import sys

import numpy as np
import pytest

import millrace as tf
from millrace.core.protobuf import config_pb2
from millrace.python import debug as tf_debug
from millrace.python.debug.lib import debug_data, debug_graphs

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def watched(session, fetches, folder, feed_dict=None, **arguments):
    """Runs a step that is watched; the values and a DebugDumpDir."""
    options = config_pb2.RunOptions(output_partition_graphs=True)
    metadata = config_pb2.RunMetadata()
    tf_debug.watch_graph(options, session.graph, debug_urls="file://%s" % folder, **arguments)
    values = session.run(fetches, feed_dict, options=options, run_metadata=metadata)
    return values, tf_debug.DebugDumpDir(str(folder), partition_graphs=metadata.partition_graphs)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def test_values_of_tensors(tmp_path):
    x = tf.placeholder(tf.float32, [2, 2], name="x")
    v = tf.Variable([[10.0], [-4.0]], name="v", use_resource=False)
    w = tf.matmul(x, v, name="w")
    out = tf.nn.relu(w, name="scope/out")
    with tf.Session() as session:
        session.run(v.initializer)
        values, dump = watched(session, out, tmp_path, {x: [[5.0, 3.0], [-1.0, 0.0]]})
        np.testing.assert_array_equal(values, [[38.0], [0.0]])
        np.testing.assert_array_equal(dump.get_tensors("w", 0, "DebugIdentity")[0], [[38.0], [-10.0]])
        np.testing.assert_array_equal(dump.get_tensors("v", 0, "DebugIdentity")[0], [[10.0], [-4.0]])
        np.testing.assert_array_equal(dump.get_tensors("scope/out", 0, "DebugIdentity")[0], values)
        # The session continues without the debugger.
        np.testing.assert_array_equal(session.run(out, {x: np.eye(2)}), [[10.0], [0.0]])
    assert dump.devices() == [CPU]
    assert dump.node_op_type("w") == "MatMul"
    assert dump.node_inputs("w")[1] == "v/read"
    assert "w" in dump.transitive_inputs("scope/out") and dump.node_recipients("w") == ["scope/out"]
    assert dump.debug_watch_keys("w") == ["w:0:DebugIdentity"]
    assert [
        datum.file_path for datum in dump.watch_key_to_data("w:0:DebugIdentity")
    ] == dump.get_tensor_file_paths("w", 0, "DebugIdentity")
    assert not any(debug_graphs.is_debug_node(name) for name in dump.nodes())
    assert dump.core_metadata.output_names == ["scope/out:0"]
    assert dump.core_metadata.input_names == ["x:0"]
    with pytest.raises(
        debug_data.WatchKeyDoesNotExistInDebugDumpDirError, match="does not exist in the debug dump"
    ):
        dump.get_tensors("w", 0, "DebugNanCount")
    # A process that ended while it wrote leaves a file of another name; complete ones have none of it.
    path = dump.get_tensor_file_paths("w", 0, "DebugIdentity")[0]
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if ".temp" in name]
    pathlib.Path(path + ".tempstate123").write_bytes(b"")
    # The graphs are in the folder, too.
    assert tf_debug.DebugDumpDir(str(tmp_path)).node_op_type("w") == "MatMul"


def test_each_iteration_of_a_loop(tmp_path):
    loop = tf.while_loop(lambda i: i < 5, lambda i: tf.add(i, 1, name="more"), [tf.constant(0)])
    with tf.Session() as session:
        value, dump = watched(session, loop, tmp_path)
    assert value == 5
    assert [int(each) for each in dump.get_tensors("while/more", 0, "DebugIdentity")] == [1, 2, 3, 4, 5]
    times = dump.get_rel_timestamps("while/more", 0, "DebugIdentity")
    assert times == sorted(times) and len(set(times)) == 5


def test_the_branch_that_is_not_taken_has_no_values(tmp_path):
    out = tf.cond(
        tf.constant(True), lambda: tf.constant(1.0, name="yes") + 1, lambda: tf.constant(2.0, name="no") + 1
    )
    with tf.Session() as session:
        value, dump = watched(session, out, tmp_path)
    assert value == 2.0
    assert dump.get_tensors("cond/yes", 0, "DebugIdentity") == [np.float32(1)]
    assert dump.debug_watch_keys("cond/no") == []


def test_variables_before_they_change(tmp_path):
    v = tf.Variable(3.0, name="v", use_resource=False)
    add = tf.assign_add(v, 1.0, name="add")
    with tf.Session() as session:
        _, dump = watched(session, v.initializer, tmp_path / "first")
        before = dump.get_tensors("v", 0, "DebugIdentity")[0]
        assert isinstance(before, debug_data.InconvertibleTensorProto) and not before.initialized
        _, dump = watched(session, add, tmp_path / "second")
        assert dump.get_tensors("v", 0, "DebugIdentity") == [np.float32(3.0)]
        assert dump.get_tensors("add", 0, "DebugIdentity") == [np.float32(4.0)]


def test_kinds_of_values(tmp_path):
    tf.constant([b"a", b"bc"], name="text")
    tf.zeros([0, 3], name="empty")
    tf.constant([True, False], name="flags")
    tf.constant(1 + 2j, name="z")
    names = ["text:0", "empty:0", "flags:0", "z:0"]
    with tf.Session() as session:
        values, dump = watched(session, names, tmp_path)
    for name, value in zip(names, values):
        written = dump.get_tensors(name[:-2], 0, "DebugIdentity")[0]
        assert written.shape == np.shape(value)
        np.testing.assert_array_equal(written, value)


def test_debug_ops(tmp_path):
    x = tf.constant([np.nan, np.inf, -1.0, 0.0], name="x")
    tf.identity(tf.constant("s"), name="s")
    ops = ["DebugNanCount", "DebugNumericSummary(upper_bound=2.0)", "DebugIdentity"]
    with tf.Session() as session:
        _, dump = watched(
            session, [x, "s:0"], tmp_path, debug_ops=ops, tolerate_debug_op_creation_failures=True
        )
        assert dump.get_tensors("x", 0, "DebugNanCount")[0] == [1]
        summary = dump.get_tensors("x", 0, "DebugNumericSummary")[0]
        np.testing.assert_array_equal(summary[1:8], [4, 1, 0, 1, 1, 0, 1])
        assert dump.debug_watch_keys("s") == ["s:0:DebugIdentity"]
        with pytest.raises(
            tf.errors.FailedPreconditionError, match="Failed to create debug node DebugNanCount"
        ):
            watched(session, "s:0", tmp_path, debug_ops="DebugNanCount")
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="1 attribute key.s. were not valid for debug node"
        ):
            watched(session, x, tmp_path, debug_ops="DebugIdentity(a=1)")
        options = config_pb2.RunOptions()
        tf_debug.watch_graph(options, session.graph, debug_urls="grpc://localhost:1")
        with pytest.raises(tf.errors.UnimplementedError, match="grpc://localhost:1"):
            session.run(x, options=options)


def test_filters_choose_tensors(tmp_path):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.log(x, name="y")
    z = tf.add(y, 1.0, name="z")
    with tf.Session() as session:
        _, dump = watched(session, z, tmp_path, {x: [0.0, 1.0]}, node_name_regex_whitelist="[yz]$")
    assert [datum.node_name for datum in dump.dumped_tensor_data] == ["y", "z"]
    found = dump.find(tf_debug.has_inf_or_nan)
    assert [datum.node_name for datum in found] == ["y", "z"]
    assert dump.find(tf_debug.has_inf_or_nan, first_n=1)[0].watch_key == "y:0:DebugIdentity"
    assert [d.node_name for d in dump.find(tf_debug.has_inf_or_nan, exclude_node_names="y")] == ["z"]


def test_dumping_session(tmp_path):
    a = tf.Variable(10.0, name="a", use_resource=False)
    double = tf.multiply(a, 2.0, name="double")
    root = tmp_path / "root"
    session = tf_debug.DumpingDebugWrapperSession(
        tf.Session(),
        str(root),
        watch_fn=lambda fetches, feeds: tf_debug.WatchOptions(node_name_regex_whitelist="double$"),
    )
    with session:
        session.run(a.initializer)
        assert session.run(double) == 20.0
    runs = sorted(os.listdir(root))
    assert len(runs) == 2 and all(name.startswith("run_") for name in runs)
    dump = tf_debug.DebugDumpDir(str(root / runs[1]))
    assert dump.size == 1 and dump.get_tensors("double", 0, "DebugIdentity") == [np.float32(20.0)]
    assert dump.run_fetches_info == repr(double) and dump.run_feed_keys_info == "None"
    with pytest.raises(ValueError, match="non-empty directory"):
        tf_debug.DumpingDebugWrapperSession(tf.Session(), str(root))


def test_dumping_hook(tmp_path):
    step = tf.train.get_or_create_global_step()
    train = tf.assign_add(step, 1, name="train")
    root = tmp_path / "root"
    with tf.train.MonitoredSession(hooks=[tf_debug.DumpingDebugHook(str(root))]) as session:
        assert session.run(train) == 1
        assert session.run(train) == 2
    dumps = [tf_debug.DebugDumpDir(str(root / name)) for name in sorted(os.listdir(root))]
    assert [int(dump.get_tensors("train", 0, "DebugIdentity")[0]) for dump in dumps] == [1, 2]


def test_gradients_of_tensors(tmp_path):
    u = tf.Variable(2.0, name="u", use_resource=False)
    v = tf.Variable(3.0, name="v", use_resource=False)
    w = tf.multiply(u.value(), v.value(), name="w")
    debugger = tf_debug.GradientsDebugger()
    y = tf.add(debugger.identify_gradient(w), -1.0, name="y")
    with debugger:
        gradients = tf.gradients(tf.square(y), [u, v])
    with tf.Session() as session:
        session.run([u.initializer, v.initializer])
        values, dump = watched(session, gradients, tmp_path)
        assert values == [30.0, 20.0]
        assert session.run(debugger.gradient_tensor("w:0")) == 10.0
    from millrace.python.debug.lib import debug_gradients

    assert debug_gradients.gradient_values_from_dump(debugger, w, dump) == [np.float32(10.0)]
    with pytest.raises(LookupError, match="has not received any gradient tensor for x-tensor u:0"):
        debugger.gradient_tensor("u:0")
    with pytest.raises(TypeError, match="x_tensor must be a str or tf.Tensor or tf.Variable"):
        debugger.gradient_tensor(3)


def answers(monkeypatch, *lines):
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(line + "\n" for line in lines)))


def test_commands(monkeypatch, capsys):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.log(x, name="y")
    session = tf_debug.LocalCLIDebugWrapperSession(tf.Session(), ui_type="readline")
    session.add_tensor_filter("negative", lambda datum, tensor: bool(np.any(np.asarray(tensor) < 0)))
    answers(
        monkeypatch, "lt", "filters", "run", "lt", "pt y:0", "pt y:0[1] -s", "ni y -a -t", "li y", "nothing", "run -f has_inf_or_nan",
        "lt -f negative", "run -n", "exit",
    )  # fmt: skip
    np.testing.assert_array_equal(session.run(y, {x: [1.0, 1.0]}), [0.0, 0.0])
    shown = capsys.readouterr().out
    assert "Nothing has been run yet" in shown and "has_inf_or_nan\nnegative" in shown
    assert "y:0" in shown and "float32 [2]" in shown and "min 0, max 0" in shown
    assert "Op: Log" in shown and "test_debugger.py" in shown and 'No command "nothing"' in shown
    # There is no prompt until a tensor passes the filter.
    session.run(y, {x: [2.0, 1.0]})
    assert "tfdbg>" not in capsys.readouterr().out
    session.run(y, {x: [0.0, 1.0]})
    shown = capsys.readouterr().out
    assert "A tensor has passed the filter has_inf_or_nan" in shown
    session.run(y, {x: [0.0, 1.0]})  # not watched
    with pytest.raises(SystemExit):
        session.run(y, {x: [0.0, 1.0]})
    session.close()


def test_a_filter_while_nothing_is_watched(monkeypatch):
    y = tf.constant([1.0, 2.0], name="y") * 2.0
    session = tf_debug.LocalCLIDebugWrapperSession(tf.Session())
    answers(monkeypatch, "run -f has_inf_or_nan --node_name_filter no_such_node")
    for _ in range(3):
        np.testing.assert_array_equal(session.run(y), [2.0, 4.0])
    session.close()


def test_debug_ops_with_urls_are_executed_each_time(tmp_path):
    def watch(tensor):
        return tf.raw_ops.DebugIdentity(
            input=tensor, tensor_name=tensor.name, device_name="d", debug_urls=["file://%s" % tmp_path]
        )

    def count():
        return sum(path.is_file() for path in tmp_path.rglob("*"))

    values, sizes = tf.constant([1.0, 2.0], name="values"), tf.constant([2, 3], name="sizes")
    both = watch(values) + watch(values)  # neither computed beforehand nor once for both
    zeros = tf.zeros(watch(sizes))
    assert count() == 0  # also not to know the shape
    with tf.Session() as session:
        for _ in range(3):
            np.testing.assert_array_equal(session.run(both), [2.0, 4.0])
        assert count() == 6
        assert session.run(zeros).shape == (2, 3)
        assert count() == 7


def test_wrong_filters_and_folders(tmp_path):
    session = tf_debug.LocalCLIDebugWrapperSession(tf.Session())
    with pytest.raises(ValueError, match="filter_name cannot be empty"):
        session.add_tensor_filter("", lambda datum, tensor: True)
    with pytest.raises(TypeError, match="filter_name is expected to be str"):
        session.add_tensor_filter(1, lambda datum, tensor: True)
    with pytest.raises(TypeError, match="tensor_filter is expected to be callable"):
        session.add_tensor_filter("f", 1)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="points to a file"):
        tf_debug.LocalCLIDebugWrapperSession(tf.Session(), dump_root=str(tmp_path / "file"))
    with pytest.raises(IOError, match="does not exist"):
        tf_debug.DebugDumpDir(str(tmp_path / "gone"))
    with pytest.raises(TypeError, match="Expected type"):
        tf_debug.LocalCLIDebugWrapperSession(1)
    with pytest.raises(NotImplementedError, match="DumpingDebugWrapperSession"):
        tf_debug.TensorBoardDebugWrapperSession(tf.Session(), "localhost:6000")


def test_names_of_nodes():
    assert debug_graphs.parse_node_or_tensor_name("a/b:3") == ("a/b", 3)
    assert debug_graphs.parse_debug_node_name("__dbg_ns/a:1_0_DebugIdentity") == (
        "ns/a",
        1,
        0,
        "DebugIdentity",
    )
    with pytest.raises(ValueError, match="Invalid prefix"):
        debug_graphs.parse_debug_node_name("ns/a:1_0_DebugIdentity")
    with pytest.raises(ValueError, match="Invalid debug node name"):
        debug_graphs.parse_debug_node_name("__dbg_a")
    path = debug_data.device_name_to_device_path(CPU)
    assert path == "_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0"
    assert debug_data.device_path_to_device_name(path) == CPU
