# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs, sessions and what belongs to them leave no memory behind."""
from __future__ import annotations

import gc
import os
from collections.abc import Callable

import numpy as np
import pytest

import millrace as tf


def resident_kib() -> int:
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * 4


# AddressSanitizer keeps what is freed for a while, to find uses of it.
KEEPS_FREED_MEMORY = "libasan" in os.environ.get("LD_PRELOAD", "")


def graph_and_session() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        variable = tf.Variable(1.0)
        y = tf.square(x) * variable
        gradients = tf.gradients(y, [x, variable])
        called = tf.py_func(lambda z: z, [x], tf.float32)
        with tf.Session() as session:
            session.run(variable.initializer)
            session.run([y, gradients, called], {x: 2.0})


def loop() -> None:
    with tf.Graph().as_default():
        total = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 2.0), [0, 1.0])[1]
        tf.cond(total > 1.0, lambda: total, lambda: -total)


def imported() -> None:
    with tf.Graph().as_default() as graph:
        tf.add(tf.constant(1.0), 2.0, name="sum")
        definition = graph.as_graph_def()
    with tf.Graph().as_default():
        tf.import_graph_def(definition)


@pytest.mark.parametrize("make", [graph_and_session, loop, imported])
def test_graphs_are_freed(make: Callable[[], None]) -> None:
    for _ in range(200):
        make()
    gc.collect()
    objects, memory = len(gc.get_objects()), resident_kib()
    for _ in range(400):
        make()
    gc.collect()
    assert len(gc.get_objects()) - objects < 200
    if not KEEPS_FREED_MEMORY:
        assert resident_kib() - memory < 8192  # 20 KiB for each would be a leak of a graph


def test_steps_are_freed() -> None:
    x = tf.placeholder(tf.float32, [None])
    y = x * 2.0
    array = np.ones(1 << 18, np.float32)
    with tf.Session() as session:
        call = session.make_callable(y, [x])
        for _ in range(20):
            session.run([y, {"a": y}], {x: array})
            call(array)
        memory = resident_kib()
        for _ in range(100):
            session.run([y, {"a": y}], {x: array})
            call(array)
        assert resident_kib() - memory < 20 * 1024  # each step has 1 MiB of results


def test_errors_are_freed() -> None:
    x = tf.placeholder(tf.float32, [2])
    with tf.Session() as session:
        for count in (100, 300):
            for _ in range(count):
                for wrong in ({x: np.ones(3)}, {x: "a"}, {"nothing": 1}, {}):
                    with pytest.raises((ValueError, TypeError, tf.errors.OpError)):
                        session.run(x, wrong)
            gc.collect()
            objects = len(gc.get_objects()) if count == 100 else objects
        assert len(gc.get_objects()) - objects < 100
