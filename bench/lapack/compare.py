#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Compares decompositions with the LAPACK that NumPy uses: one thread, the same matrices, in turns, best of all runs.

    PYTHONPATH=build/release/python /usr/bin/python3 bench/lapack/compare.py

Options: --sizes=N,... (32,128,384) --dtypes=NAME,... (float32,float64) --seconds=N for each side of a case (0.25).
NumPy takes Debian's alternative for liblapack.so.3; another one is chosen with, for example,

    LD_PRELOAD="/usr/lib/x86_64-linux-gnu/blas/libblas.so.3 /usr/lib/x86_64-linux-gnu/lapack/liblapack.so.3"

The results of both must agree; it fails otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any, Callable

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before NumPy loads the library

import numpy as np  # noqa: E402

import millrace as tf  # noqa: E402


def libraries() -> str:
    """Returns the files of BLAS and LAPACK that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        found = {line.split()[-1] for line in maps if "blas" in line or "lapack" in line}
    return " ".join(sorted(path for path in found if path.startswith("/usr/lib") and "python" not in path))


def best(functions: list[Callable[[], Any]], seconds: float) -> list[float]:
    """Returns the shortest time of each function in microseconds; they run in turns, each for `seconds` at least."""
    least, used = [float("inf")] * len(functions), [0.0] * len(functions)
    for function in functions:
        function()
    while min(used) < seconds:
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            taken = time.perf_counter() - start
            least[i] = min(least[i], taken)
            used[i] += taken
    return [1e6 * t for t in least]


def compare(n: int, dtype: np.dtype, seconds: float) -> bool:
    """Prints a line for matrices of n x n; whether the results agree."""
    random = np.random.RandomState(1)
    any_, other = random.randn(n, n).astype(dtype), random.randn(n, n).astype(dtype)
    symmetric = (any_ + any_.T) / 2
    positive = any_ @ any_.T + n * np.eye(n, dtype=dtype)
    agree, texts = True, []
    with tf.Graph().as_default():
        a, s, p, b = (tf.Variable(value) for value in (any_, symmetric, positive, other))
        # Millrace, NumPy, and what of their results must be the same.
        cases: list[tuple[str, Any, Callable[[], Any], Callable[[Any], Any]]] = [
            ("svd", tf.svd(a), lambda: np.linalg.svd(any_, full_matrices=False), lambda r: sorted(r, key=np.ndim)[0]),
            ("singular values", tf.svd(a, compute_uv=False), lambda: np.linalg.svd(any_, compute_uv=False), lambda r: r),
            ("self-adjoint", tf.self_adjoint_eig(s), lambda: np.linalg.eigh(symmetric), lambda r: r[0]),
            ("qr", tf.qr(a), lambda: np.linalg.qr(any_), lambda r: np.abs(r[1])),
            ("solve", tf.matrix_solve(a, b), lambda: np.linalg.solve(any_, other), lambda r: r),
            ("cholesky", tf.cholesky(p), lambda: np.linalg.cholesky(positive), lambda r: r),
            ("inverse", tf.matrix_inverse(a), lambda: np.linalg.inv(any_), lambda r: r),
        ]
        config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            for name, fetches, reference, same in cases:
                first = fetches[0] if isinstance(fetches, (tuple, list)) else fetches
                ours, theirs = best([session.make_callable(first.op), reference], seconds)
                mine, its = same(session.run(fetches)), same(reference())
                close = 2e-2 if dtype == np.float32 else 1e-6
                if not np.allclose(mine, its, rtol=close, atol=close * np.abs(its).max()):
                    agree = False
                    name += " (DIFFERENT)"
                texts.append(f"{name} {ours:.0f} / {theirs:.0f} = {ours / theirs:.2f}")
    print(f"{n} {dtype.name}: " + ", ".join(texts), flush=True)
    return agree


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="32,128,384")
    parser.add_argument("--dtypes", default="float32,float64")
    parser.add_argument("--seconds", default=0.25, type=float)
    args = parser.parse_args()
    print("us of Millrace / NumPy = ratio; NumPy with", libraries())
    results = [
        compare(int(n), np.dtype(dtype), args.seconds) for n in args.sizes.split(",") for dtype in args.dtypes.split(",")
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
