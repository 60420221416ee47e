# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of the platform before the library is loaded: none is needed."""


def preload_check() -> None:
    """Does nothing."""
