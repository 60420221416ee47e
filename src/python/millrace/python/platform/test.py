# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The names of tf.test."""

from __future__ import annotations

from unittest import mock
from typing import Any

from millrace.python.framework import test_util as _test_util
from millrace.python.framework.test_util import TensorFlowTestCase as TestCase
from millrace.python.framework.test_util import assert_equal_graph_def_v1 as assert_equal_graph_def
from millrace.python.framework.test_util import create_local_cluster
from millrace.python.framework.test_util import gpu_device_name
from millrace.python.framework.test_util import is_gpu_available
from millrace.python.ops.gradient_checker import compute_gradient
from millrace.python.ops.gradient_checker import compute_gradient_error
from millrace.python.platform import googletest as _googletest
from millrace.python.platform.benchmark import TensorFlowBenchmark as Benchmark
from millrace.python.platform.benchmark import benchmark_config
from millrace.python.platform.googletest import StubOutForTesting

__all__ = [
    "Benchmark",
    "StubOutForTesting",
    "TestCase",
    "assert_equal_graph_def",
    "benchmark_config",
    "compute_gradient",
    "compute_gradient_error",
    "create_local_cluster",
    "get_temp_dir",
    "gpu_device_name",
    "is_built_with_cuda",
    "is_built_with_gpu_support",
    "is_built_with_rocm",
    "is_gpu_available",
    "main",
    "mock",
    "test_src_dir_path",
]


def main(argv: Any = None) -> None:
    """Runs the tests of the program."""
    _test_util.InstallStackTraceHandler()
    _googletest.main(argv)


def get_temp_dir() -> str:
    """A folder for files of the tests."""
    return _googletest.GetTempDir()


def test_src_dir_path(relative_path: str) -> str:
    """Path of a file given relative to the folder that holds the package."""
    return _googletest.test_src_dir_path(relative_path)


test_src_dir_path.__test__ = False  # type: ignore[attr-defined]


def is_built_with_cuda() -> bool:
    """Whether there are kernels for GPUs of CUDA."""
    return _test_util.IsGoogleCudaEnabled()


def is_built_with_rocm() -> bool:
    """Whether there are kernels for GPUs of ROCm: never."""
    return False


def is_built_with_gpu_support() -> bool:
    """Whether there are kernels for GPUs."""
    return is_built_with_cuda() or is_built_with_rocm()


def is_built_with_xla() -> bool:
    """Whether there is XLA: never."""
    return False
