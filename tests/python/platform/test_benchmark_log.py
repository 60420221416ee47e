# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Results of benchmarks as messages, comparison of messages, and marks for documentation."""
import os

import pytest

import millrace as tf
from millrace.core.util import test_log_pb2
from millrace.python.platform import benchmark
from millrace.python.util.protobuf import compare, compare_test_pb2
from millrace.tools.docs import doc_controls


class SomeBenchmark(benchmark.Benchmark):
    def benchmark_it(self):
        self.report_benchmark(
            iters=7, wall_time=0.5, throughput=2.0, extras={"text": "a", "number": 3},
            metrics=[{"name": "m", "value": 1.5, "max_value": 2.0}],
        )  # fmt: skip

    def benchmark_again(self):
        self.report_benchmark(name="some/other", iters=1)


def test_results_are_written_as_messages(tmp_path, monkeypatch):
    prefix = str(tmp_path / "result.")
    monkeypatch.setenv(benchmark.TEST_REPORTER_TEST_ENV, prefix)
    SomeBenchmark().benchmark_it()
    SomeBenchmark().benchmark_again()
    with open(prefix + "SomeBenchmark.benchmark_it", "rb") as file:
        (entry,) = test_log_pb2.BenchmarkEntries.FromString(file.read()).entry
    assert (entry.iters, entry.wall_time, entry.throughput, entry.cpu_time) == (7, 0.5, 2.0, 0.0)
    assert entry.extras["text"].string_value == "a" and entry.extras["number"].double_value == 3
    assert entry.metrics[0].max_value.value == 2.0 and not entry.metrics[0].HasField("min_value")
    assert os.path.exists(prefix + "SomeBenchmark.some__other")
    with pytest.raises(IOError, match="already exists"):
        SomeBenchmark().benchmark_it()


def test_run_op_benchmark_reports_the_median(tmp_path, monkeypatch):
    class OpBenchmark(tf.test.Benchmark):
        def benchmark_op(self):
            with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
                self.run_op_benchmark(sess, tf.constant(1.0) * 2, min_iters=3, name="op")

    prefix = str(tmp_path) + "/"
    monkeypatch.setenv(benchmark.TEST_REPORTER_TEST_ENV, prefix)
    OpBenchmark().benchmark_op()
    with open(prefix + "OpBenchmark.op", "rb") as file:
        (entry,) = test_log_pb2.BenchmarkEntries.FromString(file.read()).entry
    assert entry.iters == 3 and entry.wall_time > 0


def test_messages_are_compared():
    a = compare_test_pb2.Large(string_="x", int64_=3)
    b = compare_test_pb2.Large(string_="x", int64_=4)
    assert compare.ProtoEq(a, a) and not compare.ProtoEq(a, b)
    medium = compare_test_pb2.Medium(int32s=[1])
    medium.groupa.add().groupb.add(strings="s")
    assert compare.ProtoEq(medium, compare_test_pb2.Medium.FromString(medium.SerializeToString()))


def test_marks_for_documentation():
    class Base:
        @doc_controls.do_not_doc_inheritable
        def hidden(self):
            pass

        @doc_controls.for_subclass_implementers
        def for_derived(self):
            pass

        @doc_controls.do_not_generate_docs
        def here_only(self):
            pass

    class Derived(Base):
        def hidden(self):
            pass

        def here_only(self):
            pass

    skip = doc_controls.should_skip_class_attr
    assert skip(Base, "hidden") and skip(Derived, "hidden")
    assert not skip(Base, "for_derived") and skip(Derived, "for_derived")
    assert skip(Base, "here_only") and not skip(Derived, "here_only")
    assert doc_controls.should_skip(Base.here_only) and not doc_controls.should_skip(Derived)
