# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Dense, Dropout and Flatten."""

from millrace.python.layers.core import Dense, Dropout, Flatten  # noqa: F401
