# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Eager ops on other machines: Millrace executes eager ops in its own process only."""
from __future__ import annotations

from typing import Any

_TEXT = (
    "%s is not implemented: Millrace executes eager ops in its own process. "
    "Use tf.Session with the target of a tf.train.Server instead."
)


def connect_to_remote_host(remote_host: Any = None, job_name: str = "worker") -> None:
    """Not supported.

    Raises:
      ValueError: if no host is given.
      NotImplementedError: otherwise.
    """
    if not remote_host:
        raise ValueError("Must provide at least one remote_host")
    raise NotImplementedError(_TEXT % "connect_to_remote_host")


def connect_to_cluster(
    cluster_spec_or_resolver: Any, job_name: str = "localhost", task_index: int = 0, protocol: Any = None
) -> None:
    """Not supported.

    Raises:
      NotImplementedError: always.
    """
    raise NotImplementedError(_TEXT % "connect_to_cluster")
