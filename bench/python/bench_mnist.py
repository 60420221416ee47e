# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Time of a training step of the six digit models: the Python program against the C++ program, as JSON.

    PYTHONPATH=build/release/python /usr/bin/python3 bench/python/bench_mnist.py [--benchmark_filter REGEX]
        [--steps N] [--threads N] [--repetitions N] [--benchmark_out FILE]

MODEL/python and MODEL/cpp are the medians of a run in microseconds, the least of the repetitions, which take turns;
MODEL/ratio is their quotient. Both programs read MNIST where it is and draw digits where it is not.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = ["softmax", "mlp_sigmoid", "mlp_relu", "mlp_dropout", "conv", "conv_dropout"]


def python_step(model: str, steps: int, threads: int) -> float:
    """Median of a step of the Python program in microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.json")
        program = os.path.join(ROOT, "examples", "python", "mnist.py")
        options = ["--model=" + model, "--steps=%d" % steps, "--threads=%d" % threads, "--json=" + result]
        command = [sys.executable, "-m", "millrace", program, *options]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        with open(result, encoding="utf-8") as file:
            return float(json.load(file)["step_us"])


def cpp_step(model: str, steps: int, threads: int) -> float:
    """Median of a step of the C++ program in microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(ROOT, "build", "release", "bin", "mnist")
        options = [
            "--model=" + model,
            "--steps=%d" % steps,
            "--report=" + os.path.join(folder, "report.html"),
        ]
        options += ["--threads=%d" % threads] if threads else []
        done = subprocess.run([program, *options], check=True, cwd=ROOT, capture_output=True, text=True)
        return float(json.loads(done.stdout.splitlines()[-1])["step_us_median"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--benchmark_filter", default="")
    parser.add_argument("--benchmark_out")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    results = []
    for model in MODELS:
        if not re.search(options.benchmark_filter, model):
            continue
        python, cpp = [], []
        for _ in range(options.repetitions):
            python.append(python_step(model, options.steps, options.threads))
            cpp.append(cpp_step(model, options.steps, options.threads))
        ratio = min(python) / min(cpp)
        print(
            "%-13s python %8.1f us   C++ %8.1f us   ratio %.3f" % (model, min(python), min(cpp), ratio),
            flush=True,
        )
        for name, value, unit in (
            ("python", min(python), "us"),
            ("cpp", min(cpp), "us"),
            ("ratio", ratio, "1"),
        ):
            results.append({"name": model + "/" + name, "real_time": value, "time_unit": unit})
    if options.benchmark_out:
        with open(options.benchmark_out, "w", encoding="utf-8") as file:
            json.dump({"context": vars(options), "benchmarks": results}, file, indent=2)


if __name__ == "__main__":
    main()
