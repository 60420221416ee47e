# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The assertions of tf.test.TestCase, stubs, and where tests find their files."""
from __future__ import annotations

import collections
import os
import re
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.python.framework import test_util
from millrace.python.platform import googletest, resource_loader

CASE = tf.test.TestCase("run")
# Assertions with arguments that hold, and with some that do not.
_TABLE: list[tuple[str, tuple[Any, ...], tuple[Any, ...]]] = [
    ("assertStartsWith", ("abc", "ab"), ("abc", "b")),
    ("assertNotStartsWith", ("abc", "b"), ("abc", "ab")),
    ("assertEndsWith", ("abc", "bc"), ("abc", "ab")),
    ("assertNotEndsWith", ("abc", "ab"), ("abc", "bc")),
    ("assertEmpty", ([],), ([1],)),
    ("assertNotEmpty", ({1: 2},), ((),)),
    ("assertLen", ([1, 2], 2), ([1], 2)),
    ("assertBetween", (2, 1, 3), (4, 1, 3)),
    ("assertItemsEqual", ([1, 2, 2], [2, 1, 2]), ([1, 2], [1, 2, 2])),
    ("assertCountEqual", ([1, 2, 2], [2, 1, 2]), ([1, 2], [1, 2, 2])),
    ("assertSameElements", ([1, 2, 2], [2, 1]), ([1], [1, 2])),
    ("assertSequenceAlmostEqual", ([1.0, 2.0], [1.0, 2.00000001]), ([1.0], [1.1])),
    ("assertContainsSubset", ([1], [1, 2]), ([3], [1, 2])),
    ("assertNoCommonElements", ([1], [2]), ([1], [1, 2])),
    ("assertContainsInOrder", (["a", "b"], "xaxb"), (["b", "a"], "xaxb")),
    ("assertContainsSubsequence", ([1, 2, 3], [1, 3]), ([1, 2, 3], [3, 1])),
    ("assertContainsExactSubsequence", ([0, 1, 2, 3], [1, 2]), ([0, 1, 2, 3], [1, 3])),
    ("assertTotallyOrdered", ([1], [2, 2], [3]), ([2], [1])),
    ("assertRegexMatch", ("abc", ["x", "b."]), ("abc", ["x", "y"])),
    ("assertDictEqual", ({"a": 1}, {"a": 1}), ({"a": 1}, {"a": 2})),
    ("assertSetEqual", ({1}, {1}), ({1}, {2})),
    ("assertListEqual", ([1], [1]), ([1], [2])),
    ("assertSequenceStartsWith", ([1, 2], [1, 2, 3]), ([2], [1, 2])),
    ("assertDTypeEqual", (np.zeros(2, np.int32), np.int32), (np.zeros(2), np.int32)),
    ("assertNDArrayNear", (np.ones(2), np.ones(2) + 1e-9, 1e-6), (np.ones(2), np.zeros(2), 1e-6)),
    ("assertArrayNear", ([1.0, 2.0], [1.0, 2.0], 1e-6), ([1.0], [2.0], 1e-6)),
    ("assertNear", (1.0, 1.0001, 1e-3), (1.0, 1.1, 1e-3)),
    ("assertShapeEqual", (np.zeros([2]), np.zeros([2])), (np.zeros([2]), np.zeros([3]))),
    ("assertAllInRange", ([1, 2], 1, 2), ([1, 3], 1, 2)),
    ("assertAllInSet", ([1, 2], {1, 2}), ([1, 3], {1, 2})),
    ("assertAllGreater", ([2, 3], 1), ([1, 3], 1)),
    ("assertAllLessEqual", ([1, 2], 2), ([3], 2)),
    ("assertNotAllEqual", ([1, 2], [1, 3]), ([1, 2], [1, 2])),
    ("assertNotAllClose", ([1.0], [1.1]), ([1.0], [1.0])),
    ("assertAllCloseAccordingToType", (np.float16(1), np.float16(1.0005)), (np.float64(1), np.float64(1.001))),

]  # fmt: skip


@pytest.mark.parametrize("name,good,bad", _TABLE, ids=[row[0] for row in _TABLE])
def test_assertion(name: str, good: tuple[Any, ...], bad: tuple[Any, ...]) -> None:
    if name == "assertShapeEqual":
        good, bad = (good[0], tf.zeros([2])), (bad[0], tf.zeros([3]))
    getattr(CASE, name)(*good)
    with pytest.raises(AssertionError):
        getattr(CASE, name)(*bad)


def test_errors_with_literal_texts() -> None:
    def fail() -> None:
        raise ValueError("a (b)")

    with CASE.assertRaisesWithLiteralMatch(ValueError, "a (b)"):
        fail()
    with pytest.raises(AssertionError):
        with CASE.assertRaisesWithLiteralMatch(ValueError, "other"):
            fail()
    with CASE.assertRaisesWithPredicateMatch(ValueError, lambda e: "(b)" in str(e)):
        fail()
    with CASE.assertRaisesRegexp(ValueError, re.escape("a (b)")):
        fail()


def test_what_is_written_to_a_stream_is_captured(capfd: pytest.CaptureFixture[str]) -> None:
    import sys

    with capfd.disabled(), CASE.captureWritesToStream(sys.stderr) as written:
        os.write(2, b"hello")
    assert written.contents() == "hello"


def test_stubs_are_taken_back() -> None:
    stubs = googletest.StubOutForTesting()
    before = os.path.exists
    with stubs:
        stubs.Set(os.path, "exists", lambda path: True)
        assert os.path.exists("/no/such/file")
    assert os.path.exists is before
    stubs.SmartSet(os.path, "exists", lambda path: True)
    stubs.SmartUnsetAll()
    assert os.path.exists is before
    with pytest.raises(AttributeError):
        stubs.SmartSet(os.path, "no_such_name", 1)


def test_where_files_are() -> None:
    assert os.path.isdir(tf.test.get_temp_dir()) and os.path.isdir(CASE.get_temp_dir())
    assert resource_loader.get_path_to_datafile("x.txt") == os.path.join(os.path.dirname(__file__), "x.txt")
    assert resource_loader.get_data_files_path() == os.path.dirname(__file__)
    with pytest.raises(IOError):
        resource_loader.load_resource("no/such/resource")
    assert tf.test.test_src_dir_path("core").endswith("core")
    assert (tf.test.is_built_with_rocm(), tf.test.is_built_with_cuda() in (True, False)) == (False, True)


def test_devices_of_tests() -> None:
    with test_util.force_cpu():
        assert tf.constant(1).device.endswith("CPU:0")
    with test_util.device(use_gpu=False):
        assert "CPU" in tf.constant(1).device
    assert test_util.NHWCToNCHW([1, 2, 3, 4]) == [1, 4, 2, 3] and test_util.NCHWToNHWC([1, 4, 2, 3]) == [
        1,
        2,
        3,
        4,
    ]
    assert test_util.NHWCToNCHW(tf.zeros([1, 2, 3, 4])).shape.as_list() == [1, 4, 2, 3]


def test_meta_graphs_and_graphs_are_compared() -> None:
    with tf.Graph().as_default() as graph:
        tf.Variable(1.0, name="v")
        first = tf.train.export_meta_graph(graph=graph)
    test_util.assert_meta_graph_protos_equal(CASE, first, tf.train.export_meta_graph(graph=graph))
    assert test_util.get_node_def_from_graph("v", first.graph_def).op == "VariableV2"
    test_util.set_producer_version(graph, 20)
    assert graph.graph_def_versions.producer == 20
    with tf.Graph().as_default() as other:
        tf.Variable(2.0, name="v")
    with pytest.raises(AssertionError):
        test_util.assert_equal_graph_def_v2(graph.as_graph_def(), other.as_graph_def())
    CASE.assertProtoEqualsVersion("", tf.Graph().as_graph_def())


def test_counting_of_tensors_and_garbage() -> None:
    class Leaky(tf.test.TestCase):
        @test_util.assert_no_new_tensors
        def clean(self) -> None:
            with tf.Graph().as_default():
                tf.constant(1)

        @test_util.assert_no_garbage_created
        def round(self) -> None:
            made: list[Any] = []
            made.append(made)

        @test_util.assert_no_garbage_created
        def straight(self) -> None:
            collections.OrderedDict(a=1)

    case = Leaky("clean")
    case.setUp()
    case.clean()
    case.straight()
    with pytest.raises(AssertionError):
        case.round()
    case.tearDown()


def test_a_local_cluster_runs_steps() -> None:
    workers, ps = test_util.create_local_cluster(num_workers=1, num_ps=1)
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            v = tf.Variable(3.0)
        with tf.Session(workers[0].target) as session:
            session.run(v.initializer)
            assert session.run(v + 1.0) == 4.0
    assert len(ps) == 1


def test_benchmarks_report(capsys: pytest.CaptureFixture[str]) -> None:
    class Bench(tf.test.Benchmark):
        def benchmark_add(self) -> None:
            with tf.Graph().as_default(), tf.Session() as session:
                found = self.run_op_benchmark(
                    session, tf.constant(1) + 1, burn_iters=1, min_iters=3, name="add"
                )
            assert found["iters"] == 3 and found["wall_time"] > 0

    bench = Bench()
    bench.benchmark_add()
    bench.report_benchmark(
        iters=2, cpu_time=1.0, wall_time=2.0, throughput=3.0, extras={"a": "b"}, name="other"
    )
    out = capsys.readouterr().out
    assert "Bench.add" in out and "Bench.other" in out and "extras" in out


def test_benchmarks_write_messages(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from millrace.core.util import test_log_pb2

    class Writing(tf.test.Benchmark):
        def benchmark_sum(self) -> Any:
            with tf.Graph().as_default(), tf.Session() as session:
                total = tf.random_uniform([100]) + tf.ones([100])
                return self.run_op_benchmark(session, total, min_iters=3, store_trace=True, name="sum")

    monkeypatch.setenv("TEST_REPORT_FILE_PREFIX", str(tmp_path / "bench_"))
    bench = Writing()
    found = bench.benchmark_sum()
    assert "traceEvents" in found["extras"]["full_trace_chrome_format"]
    extras = {"number": 3, "text": "x"}
    metrics = [{"name": "m", "value": 1.5, "min_value": 0.5}]
    bench.report_benchmark(iters=2, extras=extras, name="a/b", metrics=metrics)
    with pytest.raises(IOError, match="File already exists"):
        bench.report_benchmark(iters=2, name="a/b")
    with pytest.raises(TypeError, match="Extras must be a dict"):
        bench.report_benchmark(extras=[1], name="c")
    (entry,) = test_log_pb2.BenchmarkEntries.FromString((tmp_path / "bench_Writing.sum").read_bytes()).entry
    assert entry.iters == 3 and entry.wall_time > 0
    assert [k for k in entry.extras if k.startswith("allocator_maximum_num_bytes_")]
    (entry,) = test_log_pb2.BenchmarkEntries.FromString((tmp_path / "bench_Writing.a__b").read_bytes()).entry
    assert entry.name == "Writing.a/b" and entry.extras["number"].double_value == 3.0
    assert entry.extras["text"].WhichOneof("kind") == "string_value"
    assert entry.metrics[0].min_value.value == 0.5 and not entry.metrics[0].HasField("max_value")
