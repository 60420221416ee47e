# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes graphs and sessions, trains a step in each and drops them; prints the memory, threads and files of the process.

    PYTHONPATH=build/release/python /usr/bin/python3 tests/python/soundness/many_graphs.py [--graphs N]

The memory is flat when the last lines show what the third one does.
"""
from __future__ import annotations

import argparse
import gc
import os

import millrace as tf


def one(with_python: bool) -> None:
    """A network with a branch, a loop and an optimizer, and a call of Python in some."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3])
        y = tf.nn.relu(tf.matmul(x, tf.get_variable("w", [3, 4])))
        z = tf.cond(tf.reduce_sum(y) > 0, lambda: y * 2.0, lambda: y)
        total = tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a * 2.0), [0, z])[1]
        train = tf.train.AdamOptimizer().minimize(tf.reduce_sum(total))
        last = tf.py_func(lambda a: a + 1, [y], tf.float32) if with_python else y
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run([train, last], {x: [[1.0, 2.0, 3.0]]})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", type=int, default=10000)
    count = parser.parse_args().graphs
    shown = {count * tenths // 10 for tenths in range(1, 11)}
    for number in range(1, count + 1):
        one(number % 10 == 0)
        if number in shown:
            gc.collect()
            with open("/proc/self/statm", encoding="ascii") as file:
                megabytes = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
            tasks, files = (len(os.listdir("/proc/self/" + name)) for name in ("task", "fd"))
            print("%6d graphs  %.1f MB  %d threads  %d files" % (number, megabytes, tasks, files), flush=True)


if __name__ == "__main__":
    main()
