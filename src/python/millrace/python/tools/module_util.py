# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Folders of packages."""
from __future__ import annotations

import os
import sys
from types import ModuleType


def get_parent_dir(module: ModuleType) -> str:
    """The folder that contains a module's package."""
    return os.path.abspath(os.path.join(os.path.dirname(module.__file__ or ""), ".."))


def get_parent_dir_for_name(module_name: str) -> str | None:
    """The folder that contains a package, by name; None if there is no such module."""
    name_split = module_name.split(".")
    if not name_split:
        return None
    try:
        import importlib.util

        spec = importlib.util.find_spec(name_split[0])
    except ValueError:
        return None
    if not spec or not spec.origin:
        module = sys.modules.get(module_name)
        return get_parent_dir(module) if module is not None else None
    base_path = os.path.join(os.path.dirname(spec.origin), *name_split[1:])
    return os.path.dirname(base_path)
