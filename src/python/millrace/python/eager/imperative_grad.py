# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients of what a tape recorded: tapes are in eager.backprop."""
from millrace.python.ops.unconnected_gradients import UnconnectedGradients  # noqa: F401
