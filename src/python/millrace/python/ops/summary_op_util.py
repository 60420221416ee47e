# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Names, tags and collections of summary ops."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from millrace.python.framework import ops
from millrace.python.platform import tf_logging

_INVALID_TAG_CHARACTERS = re.compile(r"[^-/\w\.]")


def collect(val: Any, collections: Any, default_collections: Any) -> None:
    """Adds a summary to collections, the default ones where None are given."""
    if collections is None:
        collections = default_collections
    for key in collections:
        ops.add_to_collection(key, val)


def clean_tag(name: str | None) -> str | None:
    """`name` without a leading slash and with invalid characters of name scopes replaced."""
    if name is not None:
        new_name = _INVALID_TAG_CHARACTERS.sub("_", name).lstrip("/")
        if new_name != name:
            tf_logging.info("Summary name %s is illegal; using %s instead.", name, new_name)
            name = new_name
    return name


@contextlib.contextmanager
def summary_scope(
    name: Any, family: Any = None, default_name: Any = None, values: Any = None
) -> Iterator[tuple[str, str]]:
    """Enters the scope of a summary; returns its tag and the scope.

    With a family the tag is family/scope, so that TensorBoard groups it.
    """
    name = clean_tag(name)
    family = clean_tag(family)
    scope_base_name = name if family is None else "{}/{}".format(family, name)
    with ops.name_scope(scope_base_name, default_name, values) as scope:
        if family is None:
            tag = scope.rstrip("/")
        else:
            # The family is a prefix of the scope as well as a part of it.
            tag = "{}/{}".format(family, scope.rstrip("/"))
        yield tag, scope
