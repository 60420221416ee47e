# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The name `tensorflow` for Millrace: `tensorflow.anything` is `millrace.anything`, the same object."""
import importlib
import sys

from millrace import _import_hook

_import_hook.install()
# The import system returns what stands here when this file ends.
del sys.modules[__name__]
importlib.import_module("tensorflow")
