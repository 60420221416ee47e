# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Millrace's own version."""
__version__ = "0.2.0"
COMPILER = "12"
