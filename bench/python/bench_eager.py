# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Speed of ops that Python executes one by one, as JSON in the form of Google Benchmark.

    PYTHONPATH=build/release/python /usr/bin/python3 bench/python/bench_eager.py [--benchmark_filter REGEX] [--benchmark_out FILE]

Microseconds, the best of seven: op functions and operators on scalars, constants, slices, reductions; a layer with its gradient;
a step of gradient descent by a function; calls of tf.function.
"""
from __future__ import annotations

import argparse
import json
import re
import sys
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

import millrace as tf


def cases() -> dict[str, tuple[Callable[[], Any], int]]:
    """Functions to call, and how often."""
    a, b, vector = tf.constant(1.0), tf.constant(2.0), tf.constant([1.0, 2.0, 3.0])
    x = tf.constant(np.random.RandomState(0).rand(3, 4), tf.float32)
    w, bias, v = tf.constant(np.ones([4, 2], np.float32)), tf.zeros([2]), tf.Variable(tf.zeros([4, 2]))
    optimizer = tf.train.GradientDescentOptimizer(0.1)

    def layer() -> Any:
        with tf.GradientTape() as tape:
            tape.watch([w, bias])
            loss = tf.reduce_sum(tf.nn.relu(tf.matmul(x, w) + bias))
        return tape.gradient(loss, [w, bias])

    @tf.function
    def dense(x: Any) -> Any:
        return tf.nn.relu(tf.matmul(x, w) + bias)

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(x, v) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, v), v)])
        return loss

    return {
        "op/add_function": (lambda: tf.add(a, b), 20000),
        "op/add_operator": (lambda: a + b, 20000),
        "op/add_number": (lambda: a + 1.0, 20000),
        "op/constant": (lambda: tf.constant(1.0), 20000),
        "op/numpy": (lambda: a.numpy(), 20000),
        "op/reduce_sum": (lambda: tf.reduce_sum(vector), 5000),
        "op/element": (lambda: vector[0], 5000),
        "op/read_variable": (lambda: v.value(), 20000),
        "gradient/layer": (layer, 1000),
        "function/dense": (lambda: dense(x), 2000),
        "function/train": (lambda: step(x), 1000),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--benchmark_filter", default="")
    parser.add_argument("--benchmark_out")
    options = parser.parse_args()
    tf.enable_eager_execution()
    results = []
    for name, (function, count) in cases().items():
        if not re.search(options.benchmark_filter, name):
            continue
        function()
        value = min(timeit.repeat(function, number=count, repeat=7)) / count * 1e6
        results.append({"name": name, "real_time": value, "time_unit": "us"})
        print("%-20s %8.2f us" % (name, value))
    if options.benchmark_out:
        with open(options.benchmark_out, "w", encoding="utf-8") as file:
            context = {"python": sys.version.split()[0], "numpy": np.__version__}
            json.dump({"context": context, "benchmarks": results}, file, indent=2)


if __name__ == "__main__":
    main()
