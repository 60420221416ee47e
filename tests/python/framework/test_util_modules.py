# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Modules of tensorflow.python.util and small ones of framework, as libraries use them."""
from __future__ import annotations

import collections
import functools
import sys
import threading
from typing import Any

import pytest

import millrace as tf
from millrace.python.framework import composite_tensor, registry, smart_cond, traceable_stack
from millrace.python.ops import op_selector

from millrace.python.util import (
    all_util, decorator_utils, deprecation, dispatch, function_utils, keyword_args, lazy_loader, lock_util, nest,
    object_identity, tf_contextlib, tf_decorator, tf_export, tf_inspect, tf_should_use, tf_stack,
)  # fmt: skip
from millrace.python.util.protobuf import compare


def _logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []
    from millrace.python.platform import tf_logging

    monkeypatch.setattr(
        tf_logging, "warning", lambda text, *args: texts.append(text % args if args else text)
    )
    monkeypatch.setattr(tf_logging, "warn", lambda text, *args: texts.append(text % args if args else text))
    return texts


def test_deprecated_functions_warn_once_for_each_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = _logged(monkeypatch)

    @deprecation.deprecated("2016-07-04", "Use other.")
    def old(x: int) -> int:
        """Doubles.

        Args:
          x: a number.
        """
        return 2 * x

    for _ in range(3):
        assert old(2) == 4
    assert len(texts) == 1 and "is deprecated and will be removed after 2016-07-04" in texts[0]
    assert "Instructions for updating:\nUse other." in texts[0]
    assert (old.__doc__ or "").startswith("Doubles. (deprecated)") and "THIS FUNCTION IS DEPRECATED" in (
        old.__doc__ or ""
    )
    with deprecation.silence():
        old(1)
    with pytest.raises(ValueError):
        deprecation.deprecated("07/04/2016", "x")
    with pytest.raises(ValueError):
        deprecation.deprecated("2016-07-04", "")


def test_deprecated_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = _logged(monkeypatch)

    @deprecation.deprecated_args(None, "No more.", "old", ("flag", False))
    def f(new: Any = None, old: Any = None, flag: Any = False) -> Any:
        """Does."""
        return new, old, flag

    assert f(1) == (1, None, False) and f(1, flag=False) == (1, None, False) and not texts
    f(1, old=2)
    assert "(from" in texts[-1] and "calling" in texts[-1] and "with old is deprecated" in texts[-1]
    f(flag=True)
    assert "flag" in texts[-1]
    with pytest.raises(ValueError, match="not present in the function signature"):
        deprecation.deprecated_args(None, "x", "absent")(lambda a: a)

    @deprecation.deprecated_arg_values(None, "Better is True.", warn_once=False, mode=False)
    def g(mode: Any = True) -> Any:
        """Does."""
        return mode

    count = len(texts)
    g(), g(mode=True), g(mode=False)
    assert len(texts) == count + 1 and "mode=False" in texts[-1]
    assert deprecation.deprecated_argument_lookup("a", None, "b", 3) == 3
    assert deprecation.deprecated_argument_lookup("a", 4, "b", None) == 4
    with pytest.raises(ValueError, match="Cannot specify both 'b' and 'a'"):
        deprecation.deprecated_argument_lookup("a", 1, "b", 2)
    assert "new" in deprecation.rewrite_argument_docstring("Args:\n  old: text", "old", "new")

    class C:
        """A class."""

        def __init__(self, x: int) -> None:
            self.x = x

    alias = deprecation.deprecated_alias("tf.Old", "tf.New", C)
    assert alias(3).x == 3 and isinstance(alias(3), C) and "tf.Old is deprecated" in texts[-1]


def test_inspection_sees_through_decorators() -> None:
    def plain(a: Any, b: Any = 2, *args: Any, **kwargs: Any) -> None:
        """Doc."""

    @functools.wraps(plain)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    decorated = tf_decorator.make_decorator(plain, wrapper, "name of it", "its doc")
    spec = tf_inspect.getargspec(decorated)
    assert (spec.args, spec.varargs, spec.keywords, spec.defaults) == (["a", "b"], "args", "kwargs", (2,))
    assert tf_inspect.getfullargspec(decorated).args == ["a", "b"]
    assert list(tf_inspect.signature(decorated).parameters) == ["a", "b", "args", "kwargs"]
    assert tf_inspect.getcallargs(decorated, 1)["b"] == 2
    decorators, target = tf_decorator.unwrap(decorated)
    assert (
        target is plain
        and decorators[0].decorator_name == "name of it"
        and decorators[0].decorator_doc == "its doc"
    )
    assert tf_inspect.getdoc(decorated) == "its doc" and tf_inspect.getsource(decorated).lstrip().startswith(
        "def plain"
    )
    assert (
        tf_inspect.getfile(decorated) == __file__ and tf_inspect.getmodule(decorated) is sys.modules[__name__]
    )
    assert tf_inspect.isfunction(decorated) and not tf_inspect.isclass(decorated)
    assert (
        tf_inspect.isbuiltin(len)
        and tf_inspect.ismodule(tf_inspect)
        and tf_inspect.isgeneratorfunction(_numbers)
    )
    assert dict(tf_inspect.getmembers(_Point))["x"] is _Point.x
    partial = functools.partial(plain, 1, b=5)
    assert tf_inspect.getfullargspec(partial).kwonlydefaults == {"b": 5} or tf_inspect.getargspec(partial)
    assert function_utils.fn_args(partial) == () or "b" not in function_utils.fn_args(partial)
    assert function_utils.fn_args(plain) == ("a", "b") and function_utils.has_kwargs(plain)
    assert (
        function_utils.get_func_name(plain).endswith("plain")
        and function_utils.get_func_code(plain) is plain.__code__
    )
    again = tf_decorator.rewrap(decorated, plain, _other)
    assert again is decorated and tf_decorator.unwrap(decorated)[1] is _other


def _other(a: Any, b: Any = 3, *args: Any, **kwargs: Any) -> str:
    return "other"


def _numbers() -> Any:
    yield 1


_Point = collections.namedtuple("_Point", "x y")


def test_contexts_and_classes_properties() -> None:
    @tf_contextlib.contextmanager
    def doubled(x: int) -> Any:
        yield 2 * x

    with doubled(4) as value:
        assert value == 8
    assert tf_inspect.getargspec(doubled).args == ["x"]

    class C:
        @decorator_utils.classproperty
        def kind(cls) -> str:  # noqa: N805
            return cls.__name__

    assert C.kind == "C"

    @keyword_args.keyword_args_only
    def only(a: int, b: int) -> int:
        return a - b

    assert only(a=3, b=1) == 2
    with pytest.raises(ValueError, match="Must use keyword args to call only"):
        only(3, 1)


def test_dispatch_to_types() -> None:
    class Odd:
        pass

    @dispatch.add_dispatch_support
    def f(x: Any) -> Any:
        raise TypeError("no")

    class Dispatcher(dispatch.OpDispatcher):
        def handle(self, args: Any, kwargs: Any) -> Any:
            return "odd" if any(isinstance(a, Odd) for a in args) else self.NOT_SUPPORTED

    Dispatcher().register(f)
    assert f(Odd()) == "odd"
    with pytest.raises(TypeError, match="no"):
        f(1)

    @dispatch.dispatch_for_types(f, int)
    def _for_int(x: Any) -> Any:
        return x + 1

    assert f(1) == 2
    with pytest.raises(AssertionError):
        dispatch.dispatch_for_types(f, str)(lambda y: y)


def test_exported_names() -> None:
    @tf_export.tf_export("my.name", v1=["my.name", "my.old"])
    def f() -> None:
        """Does."""

    assert tf_export.get_canonical_name_for_symbol(f) == "my.name"
    assert tf_export.get_v1_names(f) == ["my.name", "my.old"] and tf_export.get_v2_names(f) == ["my.name"]
    assert tf_export.get_canonical_name(["x.deprecated", "y"], ["x.deprecated"]) == "y"

    @tf_export.kwarg_only
    def g(a: int, b: int = 2) -> int:
        return a + b

    assert g(a=1) == 3
    with pytest.raises(TypeError):
        g(1)


def test_lazy_modules_and_stacks() -> None:
    scope: dict[str, Any] = {}
    lazy = lazy_loader.LazyLoader("colorsys", scope, "colorsys")
    assert (
        "colorsys" not in scope
        and lazy.rgb_to_hsv(0, 0, 0) == (0, 0, 0)
        and scope["colorsys"].__name__ == "colorsys"
    )
    assert "rgb_to_hsv" in dir(lazy)
    frames = tf_stack.extract_stack()
    assert frames[-1][0] == __file__ and frames[-1][2] == "test_lazy_modules_and_stacks"
    assert all_util.make_all("colorsys") is not None


def test_locks_of_groups() -> None:
    lock = lock_util.GroupLock(num_groups=2)
    seen = []
    with lock.group(0), lock.group(0):

        def other() -> None:
            with lock.group(1):
                seen.append(1)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.05)
        assert not seen
    thread.join(10)
    assert seen == [1]
    for wrong in (2, -1):
        with pytest.raises(ValueError):
            lock.acquire(wrong)
    with pytest.raises(ValueError):
        lock_util.GroupLock(num_groups=0)


def test_identity_collections() -> None:
    a, b = [1], [1]
    table = object_identity.ObjectIdentityDictionary()
    table[a], table[b] = "a", "b"
    assert len(table) == 2 and table[a] == "a" and b in table and list(table) == [a, b]
    del table[a]
    assert a not in table and len(table) == 1
    things = object_identity.ObjectIdentitySet([a])
    things.add(b)
    assert len(things) == 2 and things.difference([a]) is not None
    things.discard(a)
    assert a not in things and b in things
    things.update([a])
    assert len(things.intersection([a])) == 1
    things.clear()
    assert not len(things)

    class C:
        pass

    kept = C()
    weak = object_identity.ObjectIdentityWeakSet([kept, C()])
    assert len(weak) == 1 and kept in weak
    keys = object_identity.ObjectIdentityWeakKeyDictionary()
    keys[kept] = 1
    assert len(keys) == 1 and list(keys) == [kept]
    reference = object_identity.Reference(a)
    assert reference.deref() is a and reference == object_identity.Reference(a) != object_identity.Reference(
        b
    )


def test_messages_are_compared() -> None:
    first, second = tf.ConfigProto(allow_soft_placement=True), tf.ConfigProto()
    case = tf.test.TestCase("run")
    with pytest.raises(AssertionError, match="allow_soft_placement"):
        compare.assertProtoEqual(case, first, second)
    compare.assertProtoEqual(case, "allow_soft_placement: true", first)
    case.assertProtoEquals("allow_soft_placement: true", first)
    assert compare.ProtoEq(first, first) and not compare.ProtoEq(first, second)
    number = tf.train.FloatList(value=[0.1]) if hasattr(tf.train, "FloatList") else None
    assert compare.NormalizeNumberFields(number) is number


def test_registries_and_traceable_stacks() -> None:
    names = registry.Registry("things")
    names.register(3, "three")
    assert names.lookup("three") == 3 and names.list() == ["three"] or list(names.list()) == ["three"]
    with pytest.raises(KeyError, match="Registering two things with name 'three'"):
        names.register(4, "three")
    with pytest.raises(LookupError, match="things registry has no entry for: four"):
        names.lookup("four")
    stack = traceable_stack.TraceableStack()
    stack.push_obj("a"), stack.push_obj("b")
    assert stack.peek_objs() == ["b", "a"] and stack.peek_top_obj() == "b" and len(stack) == 2
    assert stack.peek_traceable_objs()[0].filename == __file__
    copied = stack.copy()
    assert stack.pop_obj() == "b" and len(copied) == 2


def test_smart_conditions() -> None:
    p = tf.placeholder(tf.bool, [])
    assert smart_cond.smart_cond(True, lambda: 1, lambda: 2) == 1
    assert smart_cond.smart_cond(tf.constant(False), lambda: 1, lambda: 2) == 2
    assert smart_cond.smart_constant_value(1) is True and smart_cond.smart_constant_value(p) is None
    with pytest.raises(TypeError, match="`pred` must be a Tensor, or a Python bool, or 1 or 0"):
        smart_cond.smart_constant_value("x")
    with pytest.raises(TypeError, match="`true_fn` must be callable"):
        smart_cond.smart_cond(True, 1, 2)
    with tf.Session() as session:
        chosen = smart_cond.smart_cond(p, lambda: tf.constant(1), lambda: tf.constant(2))
        assert session.run(chosen, {p: False}) == 2
    assert smart_cond.smart_case([(False, lambda: 1), (True, lambda: 2)], default=lambda: 3) == 2
    assert smart_cond.smart_case([(tf.constant(False), lambda: 1)], default=lambda: 3) == 3


def test_walks_over_graphs() -> None:
    a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
    c = tf.add(a, b, name="c")
    d = tf.identity(c, name="d")
    assert [op.name for op in op_selector.get_backward_walk_ops(d, inclusive=True)] == ["d", "c", "a", "b"]
    assert {op.name for op in op_selector.get_backward_walk_ops(d, within_ops=[d.op, c.op])} == {"d", "c"}
    assert op_selector.get_generating_ops([c, d]) == [c.op, d.op] and op_selector.get_consuming_ops([c]) == [
        d.op
    ]
    assert op_selector.is_differentiable(d.op) and op_selector.make_list_of_op(d.op) == [d.op]
    assert op_selector.concatenate_unique([a.op], [a.op, b.op]) == [a.op, b.op]
    with pytest.raises(TypeError):
        op_selector.make_list_of_t([1])


def test_results_that_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tf_should_use.should_use_result(lambda: 3)() == 3

    @tf_should_use.should_use_result
    def make() -> Any:
        return tf.constant(1)

    used = make()
    used.mark_used() if hasattr(used, "mark_used") else None
    assert used.op.type == "Const"


def test_nested_structures_by_path() -> None:
    structure = {"b": [1, (2, 3)], "a": _Point(4, 5)}
    paths = nest.flatten_with_tuple_paths(structure)
    assert paths == [
        (("a", "x"), 4), (("a", "y"), 5), (("b", 0), 1), (("b", 1, 0), 2), (("b", 1, 1), 3),
    ]  # fmt: skip
    assert nest.flatten_with_joined_string_paths(structure, separator=".")[0] == ("a.x", 4)
    doubled = nest.map_structure_with_paths(lambda path, v: "%s=%d" % (path, v), structure)
    assert doubled["b"][1] == ("b/1/0=2", "b/1/1=3") and doubled["a"] == _Point("a/x=4", "a/y=5")
    assert nest.map_structure_with_tuple_paths(lambda path, v: len(path), structure)["a"] == _Point(2, 2)
    shallow = nest.get_traverse_shallow_structure(lambda s: not isinstance(s, tuple), structure)
    assert nest.flatten_up_to(shallow, structure) == [_Point(4, 5), 1, (2, 3)]
    assert nest.list_to_tuple([1, [2]]) == (1, (2,))
    assert list(nest.yield_flattened_paths([1, [2]])) == [(0,), (1, 0)]


def test_graphs_of_operations() -> None:
    a = tf.constant(1)
    with tf.Graph().as_default():
        b = tf.constant(1)
    assert (
        op_selector.get_unique_graph([a, a.op]) is a.graph
        and op_selector.get_unique_graph(b.graph) is b.graph
    )
    assert op_selector.get_unique_graph([], none_if_empty=True) is None
    for wrong, error in (([a, b], ValueError), ([], ValueError), ([1], TypeError), (3, TypeError)):
        with pytest.raises(error):
            op_selector.get_unique_graph(wrong)
    op_selector.check_graphs(a, a.op)
    with pytest.raises(ValueError, match="Wrong graph"):
        op_selector.check_graphs(a, b)
    with pytest.raises(ValueError):
        op_selector.make_list_of_op([a.op, b.op])
    with pytest.raises(TypeError):
        op_selector.make_list_of_t(b.graph, allow_graph=False)


def test_modules_that_were_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = _logged(monkeypatch)
    getter = deprecation.deprecate_moved_module("old.nest", nest, "2.0")
    assert getter("flatten") is nest.flatten and getter("pack_sequence_as") is nest.pack_sequence_as
    assert len(texts) == 1 and "old.nest has been moved to millrace.python.util.nest" in texts[0]
    holder = type("Holder", (), {"hidden": deprecation.HiddenTfApiAttribute("gone")})
    with pytest.raises(AttributeError, match="gone"):
        holder().hidden


def test_texts_of_shallow_structures() -> None:
    for wrong, error, text in (
        (([1], [1, 2]), ValueError, nest._STRUCTURES_HAVE_MISMATCHING_LENGTHS.format(input_length=2, shallow_length=1)),
        (({"z": 1}, {"a": 1}), ValueError, nest._SHALLOW_TREE_HAS_INVALID_KEYS.format(["z"])),
        (([1], 3), TypeError, nest._IF_SHALLOW_IS_SEQ_INPUT_MUST_BE_SEQ.format(int)),
        (([1], (3,)), TypeError, nest._STRUCTURES_HAVE_MISMATCHING_TYPES.format(input_type=tuple, shallow_type=list)),
    ):  # fmt: skip
        with pytest.raises(error) as caught:
            nest.assert_shallow_structure(*wrong)
        assert str(caught.value) == text
    assert nest.flatten_up_to([1], [3, 4], check_subtrees_length=False) == [3]
    assert nest.map_structure_up_to({"a": 1}, len, {"a": [3, 4], "b": 2}, check_subtrees_length=False) == {
        "a": 2
    }
    with pytest.raises(ValueError, match="has fewer elements"):
        nest.flatten_up_to([1, 2], [3], check_subtrees_length=False)


def test_numbers_that_are_close() -> None:
    assert compare.isClose(1.0, 1.0 + 1e-7, 1e-6) and not compare.isClose(1.0, 1.1, 1e-6)
    assert compare.isClose(float("inf"), float("inf"), 1e-6) and not compare.isClose(float("inf"), 1e300, 1.0)


def test_composites_become_lists() -> None:
    sp = tf.SparseTensor([[0, 0]], [1.0], [2, 2])
    found = composite_tensor.replace_composites_with_components({"a": sp, "b": [1]})
    assert found == {"a": [sp.indices, sp.values, sp.dense_shape], "b": [1]}
