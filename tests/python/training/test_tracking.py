# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Dependencies of trackable objects."""

import pytest

from millrace.python.training.tracking import data_structures
from millrace.python.training.tracking import tracking


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
