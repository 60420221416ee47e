# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Collective ops: each member of a group runs one, and all take part in it."""
from __future__ import annotations

from typing import Any

from millrace.python.ops import gen_collective_ops


def _check(group_size: int) -> None:
    if group_size <= 1:
        raise ValueError("Parameter group_size to broadcast_send must be at least 2.")


def all_reduce(
    t: Any, group_size: int, group_key: int, instance_key: int, merge_op: str, final_op: str, subdiv_offsets: Any = (0,),
    communication_hint: str = "auto",
) -> Any:  # fmt: skip
    """Returns the group's tensors, reduced by `merge_op` (such as "Add") and `final_op` ("Id", "Div")."""
    if group_size < 1:
        raise ValueError("Parameter group_size to all_reduce must be at least 1.")
    return gen_collective_ops.collective_reduce(
        t, group_size=group_size, group_key=group_key, instance_key=instance_key, merge_op=merge_op, final_op=final_op,
        subdiv_offsets=list(subdiv_offsets), communication_hint=communication_hint,
    )  # fmt: skip


def all_gather(
    t: Any, group_size: int, group_key: int, instance_key: int, communication_hint: str = "auto"
) -> Any:
    """Returns the tensors of all members of a group, concatenated along the first dimension."""
    if group_size < 1:
        raise ValueError("Parameter group_size to all_gather must be at least 1.")
    return gen_collective_ops.collective_gather(
        t, shape=[0], group_size=group_size, group_key=group_key, instance_key=instance_key,
        communication_hint=communication_hint,
    )  # fmt: skip


def broadcast_send(
    t: Any,
    shape: Any,
    dtype: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    communication_hint: str = "auto",
) -> Any:
    """Sends a tensor to all members of a group; returns it."""
    _check(group_size)
    if t.shape != shape:
        raise ValueError("Shape of broadcast_send tensor not equal to delcared shape")
    if t.dtype != dtype:
        raise ValueError("Type of broadcast_send tensor not equal to declared type")
    return gen_collective_ops.collective_bcast_send(
        t, shape=shape, group_size=group_size, group_key=group_key, instance_key=instance_key,
        communication_hint=communication_hint,
    )  # fmt: skip


def broadcast_recv(
    shape: Any,
    dtype: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    communication_hint: str = "auto",
) -> Any:
    """Returns the tensor that a member of the group sends by `broadcast_send`."""
    _check(group_size)
    return gen_collective_ops.collective_bcast_recv(
        shape=shape, T=dtype, group_size=group_size, group_key=group_key, instance_key=instance_key,
        communication_hint=communication_hint,
    )  # fmt: skip
