# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Dependencies of trackable objects."""

import collections
import json
from typing import Any

import pytest

import millrace as tf
from millrace.python.training.tracking import data_structures
from millrace.python.training.tracking import graph_view
from millrace.python.training.tracking import tracking
from millrace.python.training.tracking import util as tracking_util


def names(trackable):
    return [name for name, _ in trackable._checkpoint_dependencies]


def test_attributes_become_dependencies_once():
    root, child = tracking.AutoTrackable(), tracking.AutoTrackable()
    root.child = child
    root.number = 3
    root.child = child
    assert names(root) == ["child"] and root._lookup_dependency("child") is child


def test_an_attribute_set_anew_replaces_the_dependency_and_deleting_removes_it():
    root, first, second = (tracking.AutoTrackable() for _ in range(3))
    root.child = first
    root.child = second
    assert [ref for _, ref in root._checkpoint_dependencies] == [second]
    del root.child
    assert names(root) == [] and not hasattr(root, "child")


def test_elements_of_lists_and_dicts_are_dependencies():
    root, a, b = (tracking.AutoTrackable() for _ in range(3))
    root.parts = [a, 5]
    root.parts.append(b)
    root.named = {"a": a}
    assert names(root) == ["parts", "named"] and root.parts == [a, 5, b]
    assert names(root.parts) == ["0", "2"] and names(root.named) == ["a"]


def test_what_is_wrapped_is_no_dependency():
    root, child = tracking.AutoTrackable(), tracking.AutoTrackable()
    root.child = data_structures.NoDependency(child)
    assert names(root) == [] and root.child is child


def test_names_are_unique_and_dependencies_trackable():
    root = tracking.AutoTrackable()
    root._track_trackable(tracking.AutoTrackable(), name="x")
    with pytest.raises(ValueError, match="Names must be unique"):
        root._track_trackable(tracking.AutoTrackable(), name="x")
    with pytest.raises(TypeError, match="not a Trackable"):
        root._track_trackable(3, name="y")


def test_lists_and_dicts_that_changed_are_not_saved(tmp_path: Any) -> None:
    changes: list[Any] = [
        lambda o: o.list.pop(), lambda o: o.list.remove(o.list[0]), lambda o: o.list.reverse(), lambda o: o.list.clear(),
        lambda o: o.list.insert(0, 1), lambda o: o.list.__delitem__(0), lambda o: o.list.__setitem__(0, None),
        lambda o: o.list.__setitem__(slice(0, 1), []), lambda o: o.dict.pop("k"), lambda o: o.dict.__setitem__("k", 3),
        lambda o: o.dict.__setitem__(5, tracking.AutoTrackable()), lambda o: o.dict.clear(),
    ]  # fmt: skip
    for change in [None, *changes]:
        obj = tracking.AutoTrackable()
        obj.list = [tracking.AutoTrackable(), 2]
        obj.dict = {"k": tracking.AutoTrackable(), "n": 1}
        obj.list.append(tracking.AutoTrackable())
        obj.list += [3]
        obj.dict.setdefault("z", 4)
        assert len(obj.list) == 4 and isinstance(obj.list, list) and isinstance(obj.dict, dict)
        view = graph_view.ObjectGraphView(obj)
        if change is None:
            names = [
                ref.name for ref in obj.list._checkpoint_dependencies + obj.dict._checkpoint_dependencies
            ]
            assert names == ["0", "2", "k"] and len(view.list_objects()) == 6
            continue
        change(obj)
        with pytest.raises(ValueError, match="Unable to save the object .*append-only"):
            view.list_objects()


def test_numbers_in_lists_may_change() -> None:
    obj = tracking.AutoTrackable()
    obj.list = [1, 2]
    obj.list.remove(1)
    obj.list[0] = 5
    obj.ordered = collections.OrderedDict([("b", tracking.AutoTrackable()), ("a", 1)])
    assert obj.list == [5] and obj.list._checkpoint_dependencies == []
    assert list(obj.ordered) == ["b", "a"] and len(obj.ordered._checkpoint_dependencies) == 1


def test_containers_that_only_grow() -> None:
    plain = data_structures.List(tracking.AutoTrackable())
    with pytest.raises(TypeError):
        plain[0] = 1
    mapping = data_structures.Mapping(a=tracking.AutoTrackable())
    with pytest.raises(ValueError, match="append-only"):
        mapping["a"] = 1
    with pytest.raises(TypeError, match="only string keys"):
        mapping[3] = 1


def test_variables_of_a_trackable() -> None:
    obj = tracking.AutoTrackable()
    with pytest.raises(ValueError, match="do not specify shape"):
        tracking_util.add_variable(obj, "a", shape=[], initializer=1)
    v = tracking_util.add_variable(obj, "b", shape=[2], dtype=tf.float64, initializer=tf.zeros_initializer)
    assert v.shape.as_list() == [2] and v.dtype == tf.float64


def test_variables_of_a_module_come_before_those_of_inner_ones() -> None:
    class Net(tf.Module):
        def __init__(self, name: str) -> None:
            super().__init__(name=name)
            self.w = tf.Variable(1.0, name=name + "_w")
            self.inner: list[Any] = []

    net = Net("outer")
    net.inner.append(Net("first"))
    net.inner.append(Net("second"))
    assert [v.op.name for v in net.trainable_variables] == ["outer_w", "first_w", "second_w"]
    assert [m.name for m in net.submodules] == ["first", "second"]


def test_a_wrapped_list_shares_later_changes():
    obj = tracking.AutoTrackable()
    plain = [1, 2]
    obj.l = plain
    assert isinstance(obj.l, list) and obj.l is not plain and obj.l == plain
    plain.append(3)
    assert obj.l == [1, 2, 3] and len(obj.l) == 3 and list(obj.l) == [1, 2, 3] and obj.l[-1] == 3
    obj.l.append(4)
    obj.l.extend([5, 6])
    obj.l[0] = 7
    del obj.l[1]
    assert plain == [7, 3, 4, 5, 6] == obj.l
    plain.sort()
    assert [2] + obj.l == [2, 3, 4, 5, 6, 7] and json.dumps(obj.l) == "[3, 4, 5, 6, 7]"
    with pytest.raises(
        ValueError, match="modified outside the wrapper .its final value was \\[3, 4, 5, 6, 7\\]"
    ):
        obj.l._checkpoint_dependencies


def test_a_wrapped_dict_shares_later_changes():
    obj = tracking.AutoTrackable()
    plain = {"a": 1}
    obj.d = plain
    plain["b"] = [2]
    assert obj.d == {"a": 1, "b": [2]} and sorted(obj.d) == ["a", "b"] and "b" in obj.d and {**obj.d} == plain
    obj.d["c"] = 3
    obj.d.pop("a")
    assert plain == {"b": [2], "c": 3} == obj.d and list(obj.d.items()) == [("b", [2]), ("c", 3)]
    with pytest.raises(ValueError, match="dictionary was modified outside the wrapper"):
        obj.d._checkpoint_dependencies


def test_containers_changed_through_their_wrappers_are_saved():
    obj = tracking.AutoTrackable()
    plain, table = [], collections.OrderedDict()
    obj.l, obj.d = plain, table
    v, w = tracking.AutoTrackable(), tracking.AutoTrackable()
    obj.l.append(v)
    obj.d["w"] = w
    obj.l.append([w])
    assert plain[0] is v and plain[1] is obj.l[1] and table["w"] is w
    assert [name for name, _ in obj.l._checkpoint_dependencies] == ["0", "1"]
    assert [name for name, _ in obj.d._checkpoint_dependencies] == ["w"]
