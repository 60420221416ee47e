# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Lists of the public names of modules."""
from __future__ import annotations

import re
import sys
from typing import Any, Iterable, List, Optional

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


def reveal_undocumented(symbol_name: str, target_module: Any = None) -> None:
    """Does nothing: no name is hidden. Raises LookupError for a name that the module lacks."""
    module = target_module or sys.modules.get(symbol_name.rpartition(".")[0])
    name = symbol_name.rpartition(".")[2]
    if module is not None and not hasattr(module, name):
        raise LookupError("Symbol %s is not a hidden symbol" % symbol_name)


def remove_undocumented(
    module_name: str, allowed_exception_list: Any = None, doc_string_modules: Any = None
) -> None:
    """Does nothing: names that are not documented stay."""
