# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The simplest training loop of a Supervisor."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import errors


def basic_train_loop(
    supervisor: Any, train_step_fn: Any, args: Any = None, kwargs: Any = None, master: str = ""
) -> None:
    """Calls `train_step_fn(session, *args, **kwargs)` until the supervisor stops.

    A new session replaces an aborted one.
    """
    args = args or []
    kwargs = kwargs or {}
    should_retry = True
    while should_retry:
        try:
            should_retry = False
            with supervisor.managed_session(master) as sess:
                while not supervisor.should_stop():
                    train_step_fn(sess, *args, **kwargs)
        except errors.AbortedError:
            # The variables may have been reset: the session is made again.
            should_retry = True
