# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the behaviour is that of TensorFlow 2: it never is."""
from __future__ import annotations


def enable() -> None:
    """Not there.

    Raises:
      NotImplementedError: always.
    """
    raise NotImplementedError("The behaviour of TensorFlow 2 is not there: Millrace runs graphs of TensorFlow 1.x")


def disable() -> None:
    """Nothing is left to do."""


def enabled() -> bool:
    """False."""
    return False
