# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The names of tf.saved_model.builder."""

from millrace.python.saved_model.builder_impl import SavedModelBuilder
from millrace.python.saved_model.builder_impl import _SavedModelBuilder

__all__ = ["SavedModelBuilder", "_SavedModelBuilder"]
