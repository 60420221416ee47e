#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""SaveV2 of 32 MB beside plain writes of the same bytes to the same folder, with and without sync.

    for sync in 1 0; do
      MILLRACE_SYNC_FILES=$sync PYTHONPATH=build/release/python /usr/bin/python3 bench/python/bench_save.py
    done
"""
from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import millrace as tf

TENSORS, FLOATS, ROUNDS = 8, 1 << 20, 25


def report(name: str, call: Callable[[], Any]) -> None:
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - started))
    times.sort()
    print(f"{name}: best {times[0]:.1f} ms, median {times[ROUNDS // 2]:.1f} ms")


def plain(folder: str, values: list[bytes], sync: bool) -> None:
    path = os.path.join(folder, "plain")
    with open(path + ".new", "wb", buffering=0) as file:
        for value in values:
            file.write(value)
        if sync:
            os.fsync(file.fileno())
    os.rename(path + ".new", path)


def main() -> None:
    values = [np.random.rand(FLOATS).astype(np.float32) for _ in range(TENSORS)]
    names = [f"v{i}" for i in range(TENSORS)]
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder, tf.Session() as session:
        variables = [tf.Variable(value) for value in values]
        session.run(tf.global_variables_initializer())
        prefix = os.path.join(folder, "model")
        tensors = [variable.value() for variable in variables]
        save = tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=names, shape_and_slices=[""] * TENSORS, tensors=tensors
        )
        report(f"SaveV2, sync {os.environ.get('MILLRACE_SYNC_FILES', '1')}", session.make_callable(save))
        pieces = [value.tobytes() for value in values]
        report("plain write", lambda: plain(folder, pieces, False))
        report("plain write, fsync", lambda: plain(folder, pieces, True))


if __name__ == "__main__":
    main()
