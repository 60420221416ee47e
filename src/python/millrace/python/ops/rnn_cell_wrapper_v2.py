# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Wrappers of recurrent cells under the names of version 2: those of version 1, which are layers as well."""
from __future__ import annotations

from millrace.python.ops.rnn_cell_wrapper_impl import DeviceWrapper, DropoutWrapper, ResidualWrapper

__all__ = ["DeviceWrapper", "DropoutWrapper", "ResidualWrapper"]
