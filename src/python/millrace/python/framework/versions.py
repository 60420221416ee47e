# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The versions that programs query: those of the TensorFlow whose interface this is."""
from millrace import _version

__version__ = VERSION = "1.15.5"
__git_version__ = GIT_VERSION = "millrace-" + _version.__version__
__compiler_version__ = COMPILER_VERSION = _version.COMPILER
__cxx11_abi_flag__ = CXX11_ABI_FLAG = 1
__monolithic_build__ = MONOLITHIC_BUILD = 0
GRAPH_DEF_VERSION = 134
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0
