# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Status bars of environments that have them; none here."""

from typing import Any


def SetupStatusBarInsideGoogle(unused_link_text: Any, unused_port: Any) -> None:  # noqa: N802
    """Does nothing."""
