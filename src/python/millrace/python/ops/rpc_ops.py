# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The ops Rpc and TryRpc, which have no kernels here."""
from __future__ import annotations

from millrace.python.framework import ops
from millrace.python.ops.gen_rpc_ops import rpc, try_rpc  # noqa: F401

ops.NotDifferentiable("Rpc")
ops.NotDifferentiable("TryRpc")
