# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions that can be cancelled."""
from __future__ import annotations

import threading
from typing import Any

from millrace.python.eager import context
from millrace.python.framework import errors_impl


class CancellationManager:
    """Cancels the functions that were made cancelable with it."""

    def __init__(self) -> None:
        self._cancelled = False
        self._changed = threading.Condition()

    @property
    def is_cancelled(self) -> bool:
        """Whether start_cancel was called."""
        return self._cancelled

    def start_cancel(self) -> None:
        """Makes running and later calls fail with CancelledError."""
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    def get_cancelable_function(self, concrete_function: Any) -> Any:
        """A function that calls `concrete_function`, and raises CancelledError once this is cancelled.

        A call that is cancelled while it runs continues in a thread of its own, whose result is dropped.
        """

        def cancellable(*args: Any, **kwargs: Any) -> Any:
            if not context.executing_eagerly() and not self._cancelled:
                return concrete_function(*args, **kwargs)  # it adds operations to a graph
            outcome: list[Any] = []

            def call() -> None:
                result: tuple[Any, Any]
                try:
                    with context.eager_mode():
                        result = (concrete_function(*args, **kwargs), None)
                except BaseException as error:  # raised in the caller's thread
                    result = (None, error)
                with self._changed:
                    outcome.append(result)
                    self._changed.notify_all()

            with self._changed:
                if not self._cancelled:
                    threading.Thread(target=call, daemon=True).start()
                    self._changed.wait_for(lambda: self._cancelled or outcome)
                if not outcome:
                    name = getattr(concrete_function, "name", concrete_function)
                    raise errors_impl.CancelledError(None, None, "The call of %s was cancelled" % name)
            result, error = outcome[0]
            if error is not None:
                raise error
            return result

        return cancellable
