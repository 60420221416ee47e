# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Lists of the public names of modules."""
from __future__ import annotations

import re
import sys
from typing import Any, Dict, Iterable, List, Optional

from millrace.python.util import tf_inspect

_reference_pattern = re.compile(r"^@@(\w+)$", flags=re.MULTILINE)


def make_all(module_name: str, doc_string_modules: Optional[Iterable[Any]] = None) -> List[str]:
    """Returns the names that the documentation of the modules refers to by `@@name`."""
    modules = list(doc_string_modules) if doc_string_modules is not None else [sys.modules[module_name]]
    present = {name for name, _ in tf_inspect.getmembers(sys.modules[module_name])}
    results: set[Any] = set()
    for module in modules:
        results.update(
            m.group(1) for m in _reference_pattern.finditer(module.__doc__ or "") if m.group(1) in present
        )
    return list(results)


# full name -> (module that had the name, value)
_HIDDEN_ATTRIBUTES: Dict[str, Any] = {}


def reveal_undocumented(symbol_name: str, target_module: Any = None) -> None:
    """Restores a name that `remove_undocumented` removed, in `target_module` or its original module.

    Raises:
      LookupError: no such name was removed.
    """
    if symbol_name not in _HIDDEN_ATTRIBUTES:
        raise LookupError("Symbol %s is not a hidden symbol" % symbol_name)
    module, value = _HIDDEN_ATTRIBUTES[symbol_name]
    setattr(target_module or module, symbol_name.rpartition(".")[2], value)


def remove_undocumented(
    module_name: str, allowed_exception_list: Any = None, doc_string_modules: Any = None
) -> None:
    """Removes the names of a module that are neither documented by `@@name` nor allowed, except _names."""
    module = sys.modules[module_name]
    kept = set(make_all(module_name, doc_string_modules)) | set(allowed_exception_list or [])
    for name in set(dir(module)) - kept:
        if not name.startswith("_"):
            _HIDDEN_ATTRIBUTES[module_name + "." + name] = (module, getattr(module, name))
            delattr(module, name)
