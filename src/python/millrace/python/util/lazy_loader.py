# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Modules that are loaded when they are first used."""
from __future__ import annotations

import importlib
import types
from typing import Any, Dict, List, Optional


class LazyLoader(types.ModuleType):
    """A proxy of the module `name`, imported on first use as `local_name` of `parent_module_globals`."""

    def __init__(
        self, local_name: str, parent_module_globals: Dict[str, Any], name: str, warning: Optional[str] = None
    ):
        self._local_name = local_name
        self._parent_module_globals = parent_module_globals
        self._warning = warning
        super().__init__(name)

    def _load(self) -> types.ModuleType:
        module = importlib.import_module(self.__name__)
        self._parent_module_globals[self._local_name] = module
        if self._warning:
            from millrace.python.platform import tf_logging

            tf_logging.warning(self._warning)
            self._warning = None
        self.__dict__.update(module.__dict__)
        return module

    def __getattr__(self, item: str) -> Any:
        return getattr(self._load(), item)

    def __dir__(self) -> List[str]:
        return dir(self._load())
