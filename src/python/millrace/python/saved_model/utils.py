# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The names of tf.saved_model.utils."""

from millrace.python.saved_model.utils_impl import build_tensor_info
from millrace.python.saved_model.utils_impl import build_tensor_info_from_op
from millrace.python.saved_model.utils_impl import get_tensor_from_tensor_info

__all__ = ["build_tensor_info", "build_tensor_info_from_op", "get_tensor_from_tensor_info"]
