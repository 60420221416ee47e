# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of SavedModels."""

from millrace.python.saved_model import builder
from millrace.python.saved_model import constants
from millrace.python.saved_model import loader
from millrace.python.saved_model import main_op
from millrace.python.saved_model import signature_constants
from millrace.python.saved_model import signature_def_utils
from millrace.python.saved_model import tag_constants
from millrace.python.saved_model import utils
from millrace.python.saved_model.simple_save import simple_save

__all__ = [
    "builder",
    "constants",
    "loader",
    "main_op",
    "signature_constants",
    "signature_def_utils",
    "simple_save",
    "tag_constants",
    "utils",
]
