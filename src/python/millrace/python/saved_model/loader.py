# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The names of tf.saved_model.loader."""

from millrace.python.saved_model.loader_impl import load
from millrace.python.saved_model.loader_impl import maybe_saved_model_directory

__all__ = ["load", "maybe_saved_model_directory"]
