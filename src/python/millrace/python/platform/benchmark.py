# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: methods whose name begins with `benchmark`, run by a program with --benchmarks=PATTERN."""

from __future__ import annotations

import numbers
import os
import re
import sys
import time
from typing import Any

from millrace.python.platform import tf_logging as logging

GLOBAL_BENCHMARK_REGISTRY: set[Any] = set()
# Environment variable with a folder or prefix to which results are written.
TEST_REPORTER_TEST_ENV = "TEST_REPORT_FILE_PREFIX"
_BENCHMARK_METHOD = re.compile("benchmark.*")


class _BenchmarkRegistrar(type):
    """Metaclass that registers every benchmark class."""

    def __new__(mcs, clsname: str, base: Any, attrs: Any) -> Any:
        newclass = super().__new__(mcs, clsname, base, attrs)
        if not newclass.is_abstract():
            GLOBAL_BENCHMARK_REGISTRY.add(newclass)
        return newclass

    def is_abstract(cls) -> bool:
        return False


class Benchmark(metaclass=_BenchmarkRegistrar):
    """Base of benchmarks: reports results by name."""

    @classmethod
    def is_abstract(cls) -> bool:
        """Whether this is only a base."""
        return cls.__mro__[0].__name__ in ("Benchmark", "TensorFlowBenchmark")

    def _get_name(self, overwrite_name: str | None = None) -> str:
        """Class and method that report, or class and given name."""
        name = overwrite_name
        if name is None:
            frame: Any = sys._getframe(1)
            while frame is not None:
                calling_class = frame.f_locals.get("self", None)
                if calling_class is self and _BENCHMARK_METHOD.fullmatch(frame.f_code.co_name):
                    name = frame.f_code.co_name
                    break
                frame = frame.f_back
            if name is None:
                raise ValueError("Unable to determine calling Benchmark class.")
        return "%s.%s" % (type(self).__name__, name)

    def report_benchmark(
        self,
        iters: int | None = None,
        cpu_time: float | None = None,
        wall_time: float | None = None,
        throughput: float | None = None,
        extras: Any = None,
        name: str | None = None,
        metrics: Any = None,
    ) -> None:
        """Reports a result: iterations, seconds of an iteration, MB/s, further values by name."""
        _global_report_benchmark(
            name=self._get_name(overwrite_name=name),
            iters=iters,
            cpu_time=cpu_time,
            wall_time=wall_time,
            throughput=throughput,
            extras=extras,
            metrics=metrics,
        )


def _global_report_benchmark(
    name: str,
    iters: int | None = None,
    cpu_time: float | None = None,
    wall_time: float | None = None,
    throughput: float | None = None,
    extras: Any = None,
    metrics: Any = None,
) -> None:
    """Prints BenchmarkEntries with one entry, or writes them to a file set by the environment.

    Raises:
      TypeError: extras is not None and no dict.
      IOError: the file exists.
    """
    from millrace.core.util import test_log_pb2

    if extras is not None and not isinstance(extras, dict):
        raise TypeError("Extras must be a dict, but got: %s" % (extras,))
    entries = test_log_pb2.BenchmarkEntries()
    given = dict(name=name, iters=iters, cpu_time=cpu_time, wall_time=wall_time, throughput=throughput)
    entry = entries.entry.add(**{key: value for key, value in given.items() if value is not None})
    for key, value in (extras or {}).items():
        if isinstance(value, numbers.Number):
            entry.extras[key].double_value = value
        else:
            entry.extras[key].string_value = str(value)
    for metric in metrics or ():
        added = entry.metrics.add(name=metric["name"], value=metric["value"])
        for bound in ("min_value", "max_value"):
            if metric.get(bound) is not None:
                getattr(added, bound).value = metric[bound]
    prefix = os.environ.get(TEST_REPORTER_TEST_ENV, None)
    if prefix is None:
        print(str(entries))
        return
    path = "%s%s" % (prefix, name.replace("/", "__"))
    if os.path.exists(path):
        raise IOError("File already exists: %s" % path)
    with open(path, "wb") as out:
        out.write(entries.SerializeToString())


def benchmark_config() -> Any:
    """ConfigProto for benchmarks: without dependency optimization, which may remove measured ops."""
    from millrace.core.protobuf import config_pb2
    from millrace.core.protobuf import rewriter_config_pb2

    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.dependency_optimization = rewriter_config_pb2.RewriterConfig.OFF
    return config


class TensorFlowBenchmark(Benchmark):
    """Benchmarks of ops in sessions."""

    def __init__(self) -> None:
        from millrace.python.framework import ops

        ops.reset_default_graph()
        super().__init__()

    @classmethod
    def is_abstract(cls) -> bool:
        return cls.__name__ in ("Benchmark", "TensorFlowBenchmark")

    def run_op_benchmark(
        self,
        sess: Any,
        op_or_tensor: Any,
        feed_dict: Any = None,
        burn_iters: int = 2,
        min_iters: int = 10,
        store_trace: bool = False,
        store_memory_usage: bool = True,
        name: str | None = None,
        extras: Any = None,
        mbs: float = 0,
    ) -> dict[str, Any]:
        """Runs an op repeatedly, and reports the median.

        Args:
          burn_iters, min_iters: the number of runs before measuring, and of measured runs.
          store_trace: whether to add a trace of another run to the returned extras, as
            "full_trace_chrome_format".
          store_memory_usage: whether to add the peak memory of each allocator to the extras.
          extras: further values by name.
          mbs: megabytes that a run processes.

        Returns:
          The reported values, as a dict.
        """
        import numpy as np

        for _ in range(burn_iters):
            sess.run(op_or_tensor, feed_dict=feed_dict)
        deltas = []
        for _ in range(min_iters):
            start_time = time.perf_counter()
            sess.run(op_or_tensor, feed_dict=feed_dict)
            deltas.append(time.perf_counter() - start_time)
        extras = dict(extras or {})
        trace = self._timeline(sess, op_or_tensor, feed_dict) if store_trace or store_memory_usage else None
        if store_memory_usage and trace is not None:
            for allocator, most in trace.analyze_step_stats().allocator_maximums.items():
                extras["allocator_maximum_num_bytes_%s" % allocator] = most.num_bytes
        median_delta = float(np.median(deltas)) if deltas else 0.0
        result: dict[str, Any] = {
            "iters": min_iters,
            "wall_time": median_delta,
            "extras": extras,
            "name": name,
            "throughput": mbs / median_delta if median_delta else 0.0,
        }
        self.report_benchmark(**result)
        if store_trace and trace is not None:
            extras["full_trace_chrome_format"] = trace.generate_chrome_trace_format()
        return result

    @staticmethod
    def _timeline(sess: Any, op_or_tensor: Any, feed_dict: Any) -> Any:
        from millrace.core.protobuf import config_pb2
        from millrace.python.client import timeline

        run_options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE)
        run_metadata = config_pb2.RunMetadata()
        sess.run(op_or_tensor, feed_dict=feed_dict, options=run_options, run_metadata=run_metadata)
        return timeline.Timeline(run_metadata.step_stats)

    def evaluate(self, tensors: Any) -> Any:
        """Values of tensors in the default session."""
        from millrace.python.framework import ops

        sess = ops.get_default_session()
        if sess is None:
            from millrace.python.client import session

            with session.Session() as new_session:
                return new_session.run(tensors)
        return sess.run(tensors)


def _run_benchmarks(regex: str) -> None:
    """Runs the benchmarks whose "Class.method" matches."""
    for benchmark in list(GLOBAL_BENCHMARK_REGISTRY):
        for attribute in sorted(dir(benchmark)):
            full_name = "%s.%s.%s" % (benchmark.__module__, benchmark.__name__, attribute)
            if _BENCHMARK_METHOD.fullmatch(attribute) and re.search(regex, full_name):
                getattr(benchmark(), attribute)()


def benchmarks_main(true_main: Any, argv: Any = None) -> None:
    """Runs benchmarks if the command line has --benchmarks=PATTERN, else `true_main`."""
    args = list(sys.argv if argv is None else argv)
    chosen = [arg for arg in args if re.match(r"--?benchmarks=", arg)]
    if chosen:
        regex = chosen[0].partition("=")[2]
        logging.info("Running benchmarks that match %s", regex)
        _run_benchmarks("" if regex == "all" else regex)
    else:
        true_main()
