# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The folders of the headers and the library, and the flags to compile against them."""

from __future__ import annotations

import os.path as _os_path
import sysconfig as _sysconfig

__all__ = ["get_compile_flags", "get_include", "get_lib", "get_link_flags"]


def _package() -> str:
    return _os_path.dirname(_os_path.dirname(_os_path.dirname(_os_path.abspath(__file__))))


def _first_with(file: str, *folders: str) -> str:
    """The first of the folders, relative to the package, that has the file; else the first."""
    paths = [_os_path.normpath(_os_path.join(_package(), folder)) for folder in folders]
    return next((path for path in paths if _os_path.exists(_os_path.join(path, file))), paths[0])


def get_include() -> str:
    """The folder with the headers of the C API and for user-defined ops."""
    # Either in a wheel or build folder, or below the prefix of an installation.
    return _first_with("tensorflow/core/framework/op.h", "include", "../../../../include")


def get_lib() -> str:
    """The folder with the library with which user-defined ops are linked."""
    # Either in a wheel, in a build folder, or below the prefix of an installation.
    multiarch = _sysconfig.get_config_var("MULTIARCH") or ""
    return _first_with("libtensorflow.so.1", "lib", "../../lib", "../../..", "../../../" + multiarch)


def get_compile_flags() -> list[str]:
    """Compiler flags for user-defined ops."""
    return ["-I%s" % get_include(), "-isystem", "/usr/include/eigen3", "-D_GLIBCXX_USE_CXX11_ABI=1"]


def get_link_flags() -> list[str]:
    """Linker flags for user-defined ops."""
    return ["-L%s" % get_lib(), "-l:libtensorflow.so.1"]
