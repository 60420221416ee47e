# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The generated functions of the ops that update variables, under their old module name."""

from millrace.python.ops.gen_training_ops import *  # noqa: F401,F403
