# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Loops whose iterations do not depend on each other."""
from millrace.python.ops.parallel_for.control_flow_ops import for_loop, pfor  # noqa: F401
from millrace.python.ops.parallel_for.gradients import batch_jacobian, jacobian  # noqa: F401
