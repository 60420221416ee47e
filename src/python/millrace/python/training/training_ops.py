# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops that update variables during training (Apply*, SparseApply*, ResourceApply*, ...)."""

from millrace.python.ops.gen_training_ops import *  # noqa: F401,F403
