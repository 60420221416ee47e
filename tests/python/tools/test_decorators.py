# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Decorators and module wrappers that libraries take from `tensorflow.python.util`."""
from __future__ import annotations

import pickle
import sys
import types
from typing import Any
from unittest import mock

import pytest

import millrace as tf
from millrace.python.platform import tf_logging
from millrace.python.util import (
    all_util,
    deprecation,
    module_wrapper,
    object_identity,
    tf_decorator,
    tf_export,
    tf_should_use,
)
from millrace.tools.compatibility import all_renames_v2


def test_documentation_of_deprecated_functions_is_dedented_and_warns():
    @deprecation.deprecated("2016-07-04", "Use the other.")
    def function(arg: Any) -> Any:
        """Does it.

        Args:
          arg: what.
        """
        return arg

    assert function.__doc__ == (
        "Does it. (deprecated)\n\nWarning: THIS FUNCTION IS DEPRECATED. It will be removed after 2016-07-04.\n"
        "Instructions for updating:\nUse the other.\n\nArgs:\n  arg: what."
    )
    bare = deprecation.deprecated(None, "Use the other.")(lambda: 1)
    assert bare.__doc__ == (
        "DEPRECATED FUNCTION\n\nWarning: THIS FUNCTION IS DEPRECATED. It will be removed in a future version.\n"
        "Instructions for updating:\nUse the other."
    )


def test_a_decorator_has_the_name_of_its_maker():
    def target(x: Any) -> Any:
        return x + 1

    def maker(function: Any) -> Any:
        def wrapper(x: Any) -> Any:
            return wrapper.__wrapped__(x) * 10

        return tf_decorator.make_decorator(function, wrapper)

    decorated = maker(maker(target))
    assert decorated._tf_decorator.decorator_name == "maker"
    assert decorated(1) == 200
    assert tf_decorator.rewrap(decorated, target, lambda x: x + 2) is decorated
    assert decorated(1) == 300
    assert tf_decorator.rewrap(target, target, len) is len


def test_exported_names_are_recorded_once():
    def first() -> None:
        pass

    def second() -> None:
        pass

    tf_export.tf_export("name_a", v1=["name_b"])(first)
    assert (first._tf_api_names, first._tf_api_names_v1) == (("name_a",), ("name_b",))
    with pytest.raises(tf_export.SymbolAlreadyExposedError, match="first is already exposed as"):
        tf_export.tf_export("name_c")(first)
    tf_export.tf_export("name_c", allow_multiple_exports=True)(first)
    tf_export.tf_export("name_c", overrides=[first])(second)
    assert not hasattr(first, "_tf_api_names") and tf_export.get_v1_names(second) == ["name_c"]
    tf_export.tf_export(v1=["name_d"], allow_multiple_exports=True)(second)
    assert tf_export.get_canonical_name_for_symbol(second, add_prefix_to_v1_names=True) == "compat.v1.name_d"
    with pytest.raises(tf_export.InvalidSymbolNameError):
        tf_export.estimator_export("name")
    with pytest.raises(tf_export.InvalidSymbolNameError):
        tf_export.tf_export("estimator.name")
    module = types.ModuleType("module_with_constants")
    with mock.patch.dict(sys.modules, {"module_with_constants": module}):
        tf_export.tf_export("a", "b").export_constant("module_with_constants", "CONSTANT")
    assert tf_export.get_v1_constants(module) == [(("a", "b"), "CONSTANT")]


def test_results_that_are_dropped_without_use_are_logged():
    @tf_should_use.should_use_result
    def make(name: str) -> Any:
        return tf.constant(1.0, name=name)

    with tf.Graph().as_default(), mock.patch.object(tf_logging, "error") as error:
        make("used").mark_used()
        make("named").name  # pylint: disable=expression-not-assigned
        make("added") + 1  # pylint: disable=expression-not-assigned
        kept = make("kept")
        assert kept.name == "kept:0"
        with tf.Session() as sess:
            assert sess.run(kept) == 1.0 and sess.run(tf.add(kept, 2.0)) == 3.0
        assert not error.called
        make("dropped")
        (text,) = error.call_args[0]
        assert "Object was never used" in text and "dropped:0" in text and "make" in text


def test_module_wrappers_load_names_and_warn_of_renamed_ones():
    module = types.ModuleType("wrapped_for_test")
    module.old, module.new, module._hidden = 1, 2, 3  # type: ignore[attr-defined]
    apis = {"cmd": ("", "cmd"), "ABCMeta": ("abc", "ABCMeta")}
    renames = {"tf.part.old": "tf.part.new"}
    with mock.patch.dict(all_renames_v2.symbol_renames, renames), mock.patch.object(
        tf_logging, "warning"
    ) as warning:
        wrapped = module_wrapper.TFModuleWrapper(module, "part", public_apis=apis)
        assert wrapped.new == 2 and not warning.called
        assert wrapped.old == 1 and wrapped.old == 1 and warning.call_count == 1
        assert warning.call_args[0][1].startswith(__file__)
    assert wrapped.cmd is sys.modules["cmd"] and wrapped.ABCMeta.__name__ == "ABCMeta"
    wrapped.added = 5
    assert module.added == 5 and {"added", "cmd", "old"} <= set(wrapped.__all__)
    assert "_hidden" not in wrapped.__all__
    with pytest.raises(AttributeError):
        wrapped.absent  # pylint: disable=pointless-statement
    with mock.patch.dict(sys.modules, {"wrapped_for_test": wrapped}):
        assert pickle.loads(pickle.dumps(wrapped)) is wrapped


def test_sets_by_identity_change_in_place():
    a, b, c = [], [], []
    some = object_identity.ObjectIdentitySet([a, b])
    some.intersection_update([b, c])
    assert len(some) == 1 and b in some and a not in some
    some.difference_update([b])
    assert not some


def test_names_that_are_not_documented_are_taken_away():
    module = types.ModuleType("documented", "A module.\n\n@@shown\n@@absent\n")
    module.shown, module.allowed, module.hidden, module._own = 1, 2, 3, 4  # type: ignore[attr-defined]
    with mock.patch.dict(sys.modules, {"documented": module}):
        assert all_util.make_all("documented") == ["shown"]
        all_util.remove_undocumented("documented", ["allowed"])
        assert {n for n in dir(module) if not n.startswith("__")} == {"shown", "allowed", "_own"}
        other = types.ModuleType("other")
        all_util.reveal_undocumented("documented.hidden", target_module=other)
        all_util.reveal_undocumented("documented.hidden")
        assert module.hidden == other.hidden == 3  # type: ignore[attr-defined]
    with pytest.raises(LookupError, match="documented.never is not a hidden symbol"):
        all_util.reveal_undocumented("documented.never")
