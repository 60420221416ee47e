# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops of stochastic dual coordinate ascent."""
from millrace.python.ops.gen_sdca_ops import *  # type: ignore  # noqa: F401,F403
