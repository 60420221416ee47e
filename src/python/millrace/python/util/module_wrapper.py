# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Modules that tell of deprecated names."""
from __future__ import annotations

import types
from typing import Any

_PER_MODULE_WARNING_LIMIT = 1


class TFModuleWrapper(types.ModuleType):
    """A module that gives the names of another one, and others for some of them.

    Args:
      wrapped: the module.
      module_name: the name that is told.
      public_apis: public names and where they are.
      deprecation: whether deprecated names are told of.
    """

    def __init__(
        self,
        wrapped: Any,
        module_name: str,
        public_apis: Any = None,
        deprecation: bool = True,
        has_lite: bool = False,
    ) -> None:
        super().__init__(wrapped.__name__)
        self._tfmw_wrapped_module = wrapped
        self._tfmw_module_name = module_name
        self._tfmw_public_apis = public_apis or {}
        self.__dict__.update({k: v for k, v in wrapped.__dict__.items() if k.startswith("__")})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tfmw_wrapped_module, name)

    def __dir__(self) -> Any:
        return sorted(set(dir(self._tfmw_wrapped_module)) | set(self._tfmw_public_apis))

    def __repr__(self) -> str:
        return repr(self._tfmw_wrapped_module)
