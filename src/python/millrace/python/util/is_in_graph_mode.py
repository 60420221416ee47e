# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Says that graphs are being made: there is no other mode."""
from __future__ import annotations


def IS_IN_GRAPH_MODE() -> bool:  # pylint: disable=invalid-name
    """Returns True."""
    return True
