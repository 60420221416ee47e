# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The folders of the headers and the library, and the flags to compile against them."""

from __future__ import annotations

import os.path as _os_path
import platform as _platform

__all__ = ["get_compile_flags", "get_include", "get_lib", "get_link_flags"]


def _package() -> str:
    return _os_path.dirname(_os_path.dirname(_os_path.dirname(_os_path.abspath(__file__))))


def get_include() -> str:
    """The folder with the headers of the C API and of ops of one's own."""
    return _os_path.join(_package(), "include")


def get_lib() -> str:
    """The folder with libtensorflow_framework.so."""
    return _package()


def get_compile_flags() -> list[str]:
    """Flags to compile ops of one's own with."""
    return ["-I%s" % get_include(), "-D_GLIBCXX_USE_CXX11_ABI=1"]


def get_link_flags() -> list[str]:
    """Flags to link ops of one's own with."""
    if _platform.system() == "Darwin":
        return ["-L%s" % get_lib(), "-ltensorflow_framework.1"]
    return ["-L%s" % get_lib(), "-l:libtensorflow_framework.so.1"]
