# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The base class of layers."""

from millrace.python.layers.base import Layer  # noqa: F401
