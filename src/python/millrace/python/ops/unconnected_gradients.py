# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The gradient of tensors that are not connected."""
from __future__ import annotations

import enum


class UnconnectedGradients(enum.Enum):
    """NONE: the gradient is None. ZERO: it is zeros of the shape of x."""

    NONE = "none"
    ZERO = "zero"
