# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors that stay in a session between runs."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import gen_data_flow_ops


def get_session_handle(data: Any, name: str | None = None) -> Any:
    """Returns a handle to `data`, a tensor that stays in the session; TypeError for what is no tensor."""
    if not isinstance(data, ops.Tensor):
        raise TypeError("`data` must be of type Tensor.")
    with ops.colocate_with(data):
        return gen_data_flow_ops.get_session_handle(data, name=name)


def get_session_tensor(handle: Any, dtype: Any, name: str | None = None) -> Any:
    """Returns (a placeholder for the handle, the tensor of `dtype` that a handle fed to it stands for)."""
    del handle
    with ops.device(None):
        holder = array_ops.placeholder(dtypes.string)
        tensor = gen_data_flow_ops.get_session_tensor(holder, dtype, name=name)
    return holder, tensor


def delete_session_tensor(handle: Any, name: str | None = None) -> Any:
    """Returns (a placeholder for the handle, the op that deletes the tensor of a handle fed to it)."""
    del handle
    with ops.device(None):
        holder = array_ops.placeholder(dtypes.string)
        deleter = gen_data_flow_ops.delete_session_tensor(holder, name=name)
    return holder, deleter
