# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Interrupts, forks and the end of the interpreter, each in a process of its own."""
from __future__ import annotations

import os
import subprocess
import sys

import pytest

BEGIN = "import os, signal, sys, threading, time\nimport millrace as tf\n"


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "fetch",
    [
        "tf.FIFOQueue(1, [tf.float32]).dequeue()",
        "tf.while_loop(lambda i: i >= 0, lambda i: tf.maximum(i - 1, 0) + 1, [tf.constant(5)])",
    ],
)
def test_interrupts_end_steps(fetch: str) -> None:
    program = """
fetch = %s
with tf.Session() as session:
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        session.run(fetch)
        print("no interrupt")
    except KeyboardInterrupt:
        print("interrupted", session.run(tf.constant(1)))
"""
    assert run(program % fetch) == "interrupted 1\n"


@pytest.mark.parametrize(
    "fetch",
    ["tf.constant(1)", "tf.py_func(lambda: 1, [], tf.int64)", "tf.FIFOQueue(1, [tf.int32]).dequeue()"],
)
def test_the_interpreter_ends_while_threads_run(fetch: str) -> None:
    program = """
fetch = %s
session = tf.Session()
def spin():
    while True:
        session.run(fetch)
for _ in range(4):
    threading.Thread(target=spin, daemon=True).start()
time.sleep(0.2)
print("ending")
"""
    for _ in range(3):
        assert run(program % fetch) == "ending\n"


def test_forks_have_sessions_of_their_own() -> None:
    program = """
with tf.Session() as session:
    session.run(tf.constant(1))
pid = os.fork()
if pid == 0:
    with tf.Session() as session:
        value = session.run(tf.constant(3) * 2)
    os._exit(0 if value == 6 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run(program) == "0\n"


def test_children_of_a_process_with_busy_sessions() -> None:
    program = """
import multiprocessing
x = tf.placeholder(tf.float32, [100, 100])
norm = tf.reduce_sum(tf.matmul(x, x))
called = tf.py_func(lambda v: v + v.dtype.type(1), [norm], tf.float32)
session = tf.Session()
ones = [[1.0] * 100] * 100
stop = False
def busy():
    while not stop:
        session.run(called, {x: ones})
threads = [threading.Thread(target=busy, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
def work(value):
    try:
        session.run(norm, {x: ones})
        return "the parent's session ran"
    except tf.errors.FailedPreconditionError:
        pass
    session.close()
    with tf.Session() as own:
        return float(own.run(called, {x: [[value] * 100] * 100}))
with multiprocessing.get_context("fork").Pool(2, maxtasksperchild=1) as pool:
    print(pool.map_async(work, [1.0, 2.0, 3.0]).get(40))
stop = True
for thread in threads:
    thread.join()
print(session.run(called, {x: ones}))
"""
    n = 100.0**3
    assert run(program) == f"{[n + 1, 4 * n + 1, 9 * n + 1]}\n{n + 1}\n"


def test_sessions_that_are_left_open_end_with_the_process() -> None:
    assert (
        run(
            "session = tf.Session()\nprint(session.run(tf.constant(2)))\ninteractive = tf.InteractiveSession()\n"
        )
        == "2\n"
    )
    assert run("tf.Variable(1.0)\ntf.gradients(tf.square(tf.constant(2.0)), [])\nprint(1)\n") == "1\n"


@pytest.mark.parametrize("seed", [1, 2])
def test_random_calls_end_in_results_or_exceptions(seed: int) -> None:
    program = os.path.join(os.path.dirname(__file__), "fuzz_api.py")
    command = [sys.executable, program, "--calls", "800", "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert (
        "800 calls" in done.stdout and "MemoryError" not in done.stdout and "SystemError" not in done.stdout
    )
