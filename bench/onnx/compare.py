#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Compares frozen networks with ONNX Runtime: the same weights, in turns, best of all runs.

Needs Debian's python3-onnx and the package onnxruntime-node of npm:

    npm install --ignore-scripts --prefix /tmp/ort onnxruntime-node
    PYTHONPATH=build/release/python /usr/bin/python3 bench/onnx/compare.py --modules=/tmp/ort/node_modules

Options: --networks=NAME,... (all) --batches=N,... (1) --threads=N,... (1,2) --seconds=N for a case (4).
The results of both must agree to 1e-4 of the largest; it fails otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

import numpy as np
from networks import NETWORKS, Builder

import millrace as tf


PAUSE = 0.2  # seconds between turns: idle threads of either engine wait actively for a while


class Baseline:
    """ONNX Runtime in a process of its own."""

    def __init__(self, builder: Builder, model: bytes, folder: str, modules: str, threads: int) -> None:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model)
        inputs = []
        for name, value in builder.inputs:
            at = os.path.join(folder, name)
            value.tofile(at)
            kind = "int32" if value.dtype == np.int32 else "float32"
            inputs.append({"name": name, "type": kind, "dims": list(value.shape), "file": at})
        with open(os.path.join(folder, "inputs.json"), "w", encoding="utf-8") as text:
            json.dump(inputs, text)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "baseline.js")
        self.process = subprocess.Popen(
            ["node", script, path, os.path.join(folder, "inputs.json"), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "NODE_PATH": os.path.abspath(modules)},
        )
        self.values = np.array(self.answer()["values"], np.float32)

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("compare.py: ONNX Runtime failed")
        return json.loads(line)

    def ms(self, repeats: int) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"repeats": repeats}) + "\n")
        self.process.stdin.flush()
        return float(self.answer()["ms"])

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)


def best_ms(run: Callable[[], Any], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        best = min(best, 1e3 * (time.perf_counter() - start))
    return best


def compare(network: str, batch: int, threads: int, args: argparse.Namespace) -> None:
    builder = Builder()
    with builder.graph.as_default(), tempfile.TemporaryDirectory() as folder:
        output = NETWORKS[network](builder, batch)
        config = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
        with tf.Session(config=config) as session:
            step = session.make_callable(output[0], [tensor for tensor, _ in builder.feeds])
            values = [value for _, value in builder.feeds]
            result = step(*values)
            best_ms(lambda: step(*values), 30)  # the choice of threads is made, too
            baseline = Baseline(builder, builder.model(output), folder, args.modules, threads)
            mine = result.reshape(-1)[: len(baseline.values)]
            difference = np.abs(mine - baseline.values).max() / np.abs(baseline.values).max()
            if not difference < 1e-4:
                raise SystemExit(f"compare.py: {network}: the results differ by {difference:.1e}")
            own, other = best_ms(lambda: step(*values), 3), baseline.ms(3)
            rounds = 6
            repeats = max(1, int(args.seconds * 1e3 / rounds / (own + other)))
            for _ in range(rounds):
                time.sleep(PAUSE)
                own = min(own, best_ms(lambda: step(*values), repeats))
                time.sleep(PAUSE)
                other = min(other, baseline.ms(repeats))
            baseline.close()
    print(f"| {network}/{batch} | {threads} | {own:.2f} | {other:.2f} | {own / other:.2f} |", flush=True)


def main() -> int:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--modules", required=True)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--batches", type=numbers, default=[1])
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=4)
    args = parser.parse_args()
    print("| network/batch | threads | Millrace, ms | ONNX Runtime, ms | ratio |\n|---|---|---|---|---|")
    for network in args.networks.split(","):
        for batch in args.batches:
            for threads in args.threads:
                compare(network, batch, threads, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
