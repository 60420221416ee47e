# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The names of tf.saved_model.main_op."""

from millrace.python.saved_model.main_op_impl import main_op
from millrace.python.saved_model.main_op_impl import main_op_with_restore

__all__ = ["main_op", "main_op_with_restore"]
