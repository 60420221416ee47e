# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Decorators that mark the members that belong in the documentation."""
from __future__ import annotations

from typing import Any, TypeVar

_T = TypeVar("_T")

_DO_NOT_DOC = "_tf_docs_do_not_document"
_DO_NOT_DOC_INHERITABLE = "_tf_docs_do_not_doc_inheritable"
_FOR_SUBCLASS_IMPLEMENTERS = "_tf_docs_tools_for_subclass_implementers"


def _mark(obj: _T, name: str) -> _T:
    setattr(obj, name, None)
    return obj


def do_not_generate_docs(obj: _T) -> _T:
    """Keeps a class, method, property or function out of the documentation."""
    return _mark(obj, _DO_NOT_DOC)


def do_not_doc_inheritable(obj: _T) -> _T:
    """Keeps a method out, in derived classes too."""
    return _mark(obj, _DO_NOT_DOC_INHERITABLE)


def for_subclass_implementers(obj: _T) -> _T:
    """A method is of interest only when deriving a class, and is documented in its own class alone."""
    return _mark(obj, _FOR_SUBCLASS_IMPLEMENTERS)


do_not_doc_in_subclasses = for_subclass_implementers


def should_skip(obj: Any) -> bool:
    """Whether an object is kept out."""
    if isinstance(obj, type):
        # Of a class only the decorator on itself counts.
        return _DO_NOT_DOC in obj.__dict__
    return hasattr(obj, _DO_NOT_DOC) or hasattr(obj, _DO_NOT_DOC_INHERITABLE)


def should_skip_class_attr(cls: Any, name: str) -> bool:
    """Whether a member of a class is left out, possibly because of a base class."""
    member = cls.__dict__.get(name)
    if member is not None:
        if isinstance(member, property):
            member = member.fget
        elif isinstance(member, (staticmethod, classmethod)):
            member = member.__func__
        if hasattr(member, _DO_NOT_DOC) or hasattr(member, _DO_NOT_DOC_INHERITABLE):
            return True
    for base in cls.__mro__[1:]:
        inherited = base.__dict__.get(name)
        if isinstance(inherited, property):
            inherited = inherited.fget
        elif isinstance(inherited, (staticmethod, classmethod)):
            inherited = inherited.__func__
        if hasattr(inherited, _DO_NOT_DOC_INHERITABLE):
            return True
        if member is None and hasattr(inherited, _FOR_SUBCLASS_IMPLEMENTERS):
            return True
    return False
