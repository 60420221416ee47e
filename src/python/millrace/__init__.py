# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Millrace: graphs of TensorFlow 1.x, built and run in Python. `import millrace as tf`."""
from millrace import _namespace
from millrace._version import __version__  # noqa: F401
from millrace.python import _engine  # noqa: F401
from millrace.python.framework.versions import (  # noqa: F401
    __compiler_version__,
    __cxx11_abi_flag__,
    __git_version__,
    __monolithic_build__,
)

_namespace.install(__name__, "")
