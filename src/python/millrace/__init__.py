# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Millrace: graphs of TensorFlow 1.x, built and run in Python. `import millrace as tf`."""
from millrace import _namespace
from millrace.python import _engine  # noqa: F401
from millrace.python.framework.versions import VERSION as __version__  # noqa: F401

_namespace.install(__name__, "")
