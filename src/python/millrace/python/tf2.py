# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Whether `tf.enable_v2_behavior` enabled the behaviour of TensorFlow 2."""
from __future__ import annotations

_enabled = False


def enable() -> None:
    """Notes that it did."""
    global _enabled
    _enabled = True


def disable() -> None:
    """Notes that the behaviour is that of 1.x."""
    global _enabled
    _enabled = False


def enabled() -> bool:
    """Whether it did."""
    return _enabled
