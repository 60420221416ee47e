# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Which of two behaviours: that of 1.x is the only one."""
from __future__ import annotations

from millrace.python import tf2


def enable_v2_behavior() -> None:
    """Not there.

    Raises:
      NotImplementedError: always: Millrace runs graphs of TensorFlow 1.x.
    """
    raise NotImplementedError(
        "The behaviour of TensorFlow 2 is not there: Millrace runs graphs of TensorFlow 1.x"
    )


def disable_v2_behavior() -> None:
    """Nothing is left to do: the behaviour is that of 1.x."""
    tf2.disable()
