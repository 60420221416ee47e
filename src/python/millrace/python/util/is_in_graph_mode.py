# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A function for programs of the time before eager execution."""
from __future__ import annotations


def IS_IN_GRAPH_MODE() -> bool:  # pylint: disable=invalid-name
    """Returns True."""
    return True
