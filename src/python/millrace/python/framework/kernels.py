# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The kernels of the engine."""
from __future__ import annotations

from typing import Any

from millrace.python import _engine


def get_all_registered_kernels() -> Any:
    """A KernelList of all kernels."""
    from millrace.core.framework import kernel_def_pb2

    return kernel_def_pb2.KernelList.FromString(_engine.kernels())


def get_registered_kernels_for_op(name: str) -> Any:
    """A KernelList of the kernels of an op."""
    from millrace.core.framework import kernel_def_pb2

    return kernel_def_pb2.KernelList.FromString(_engine.kernels(name))
