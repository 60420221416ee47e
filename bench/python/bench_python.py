# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Speed of the Python client, as JSON in the form of Google Benchmark.

    PYTHONPATH=build/release/python /usr/bin/python3 bench/python/bench_python.py [--benchmark_filter REGEX] [--benchmark_out FILE]

import/millrace      seconds of `import millrace` in a new process, less those of `import numpy`
make_op/add          an addition of two tensors by the operator, in graphs of 10^4 operations
make_op/add_scoped   the same in a name scope and under a control input
make_op/add_number   tensor + number: two operations
make_op/100000       10^5 additions in one graph, seconds
run/scalar           Session.run of one fetch with one fed NumPy scalar
run/callable         the same by make_callable
run/feed_64mb        a fed array of 64 MB, of which the sum is fetched
run/fetch_64mb       a fetched array of 64 MB
gradients/1000       tf.gradients of 1,000 layers
"""
from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def import_seconds() -> float:
    """The best of five of `import numpy, millrace` less the best of five of `import numpy`."""

    def best(statement: str) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)
            times.append(time.perf_counter() - start)
        return min(times)

    return best("import numpy, millrace; millrace.constant") - best("import numpy")


def best_of(function: Callable[[int], None], count: int, repetitions: int = 5) -> float:
    """Seconds of one of `count` calls."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        function(count)
        times.append(time.perf_counter() - start)
    return min(times) / count


def cases() -> dict[str, tuple[Callable[[], float], str]]:
    """Functions that measure, with the unit of what they return in seconds."""
    import millrace as tf

    def adds(count: int) -> None:
        with tf.Graph().as_default():
            x = y = tf.constant(1.0)
            for _ in range(count):
                y = y + x

    def scoped(count: int) -> None:
        with tf.Graph().as_default():
            x = y = tf.constant(1.0)
            with tf.name_scope("scope"), tf.control_dependencies([x]):
                for _ in range(count):
                    y = y + x

    def numbers(count: int) -> None:
        with tf.Graph().as_default():
            y = tf.constant(1.0)
            for _ in range(count):
                y = y + 1.0

    def run(call: Any, count: int) -> float:
        def loop(times: int) -> None:
            for _ in range(times):
                call()

        loop(1)
        return best_of(loop, count)

    def scalar() -> float:
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [])
            y, value = x + 1.0, np.float32(2)
            return run(lambda: session.run(y, {x: value}), 20000)

    def called() -> float:
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [])
            step, value = session.make_callable(x + 1.0, [x]), np.float32(2)
            return run(lambda: step(value), 20000)

    def fed() -> float:
        array = np.ones(16 << 20, np.float32)
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [None])
            y = x[0]
            return run(lambda: session.run(y, {x: array}), 20)

    def fetched() -> float:
        with tf.Graph().as_default(), tf.Session() as session:
            y = tf.fill([16 << 20], tf.placeholder_with_default(1.0, []))
            return run(lambda: session.run(y), 10)

    def gradients() -> float:
        def build(_: int) -> None:
            with tf.Graph().as_default():
                x = y = tf.placeholder(tf.float32, [1, 4])
                weights = []
                for _ in range(1000):
                    weights.append(tf.placeholder(tf.float32, [4, 4]))
                    y = tf.nn.relu(tf.matmul(y, weights[-1]))
                start = time.perf_counter()
                tf.gradients(y, weights + [x])
                seconds.append(time.perf_counter() - start)

        seconds: list[float] = []
        for _ in range(3):
            build(1)
        return min(seconds)

    return {
        "import/millrace": (import_seconds, "s"),
        "make_op/add": (lambda: best_of(adds, 10000), "us"),
        "make_op/add_scoped": (lambda: best_of(scoped, 10000), "us"),
        "make_op/add_number": (lambda: best_of(numbers, 5000), "us"),
        "make_op/100000": (lambda: best_of(adds, 100000, 2) * 100000, "s"),
        "run/scalar": (scalar, "us"),
        "run/callable": (called, "us"),
        "run/feed_64mb": (fed, "us"),
        "run/fetch_64mb": (fetched, "us"),
        "gradients/1000": (gradients, "s"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--benchmark_filter", default="")
    parser.add_argument("--benchmark_out")
    options = parser.parse_args()
    factors = {"s": 1.0, "us": 1e6}
    results = []
    for name, (measure, unit) in cases().items():
        if re.search(options.benchmark_filter, name):
            value = measure() * factors[unit]
            results.append({"name": name, "real_time": value, "time_unit": unit})
            print("%-22s %10.3f %s" % (name, value, unit))
    if options.benchmark_out:
        with open(options.benchmark_out, "w", encoding="utf-8") as file:
            context = {"python": sys.version.split()[0], "numpy": np.__version__}
            json.dump({"context": context, "benchmarks": results}, file, indent=2)


if __name__ == "__main__":
    main()
