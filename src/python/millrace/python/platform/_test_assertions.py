# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Assertions of test cases beyond those of unittest, by the names that tests of the time use."""

from __future__ import annotations

import collections
import difflib
import re
import unittest
from typing import Any


class TestCase(unittest.TestCase):
    """unittest.TestCase with more assertions."""

    maxDiff = None

    def shortDescription(self) -> str:  # noqa: N802
        """The test's name, and the first line of its docstring."""
        desc = str(self)
        doc = super().shortDescription()
        return "%s\n%s" % (desc, doc) if doc else desc

    def assertStartsWith(self, actual: Any, expected_start: Any, msg: Any = None) -> None:  # noqa: N802
        if not actual.startswith(expected_start):
            self.fail("%r does not start with %r%s" % (actual, expected_start, " : %s" % msg if msg else ""))

    def assertNotStartsWith(self, actual: Any, unexpected_start: Any, msg: Any = None) -> None:  # noqa: N802
        if actual.startswith(unexpected_start):
            self.fail("%r does start with %r : %s" % (actual, unexpected_start, msg))

    def assertEndsWith(self, actual: Any, expected_end: Any, msg: Any = None) -> None:  # noqa: N802
        if not actual.endswith(expected_end):
            self.fail("%r does not end with %r : %s" % (actual, expected_end, msg))

    def assertNotEndsWith(self, actual: Any, unexpected_end: Any, msg: Any = None) -> None:  # noqa: N802
        if actual.endswith(unexpected_end):
            self.fail("%r does end with %r : %s" % (actual, unexpected_end, msg))

    def assertEmpty(self, container: Any, msg: Any = None) -> None:  # noqa: N802
        if len(container):
            self.fail("%r has length of %d, expected 0. %s" % (container, len(container), msg or ""))

    def assertNotEmpty(self, container: Any, msg: Any = None) -> None:  # noqa: N802
        if not len(container):
            self.fail("%r has length of 0. %s" % (container, msg or ""))

    def assertLen(self, container: Any, expected_len: int, msg: Any = None) -> None:  # noqa: N802
        if len(container) != expected_len:
            self.fail(
                "%r has length of %d, expected %d. %s" % (container, len(container), expected_len, msg or "")
            )

    def assertBetween(self, value: Any, minv: Any, maxv: Any, msg: Any = None) -> None:  # noqa: N802
        if not minv <= value <= maxv:
            self.fail(msg or "%s unexpectedly not in range [%s, %s]" % (value, minv, maxv))

    def assertItemsEqual(self, expected_seq: Any, actual_seq: Any, msg: Any = None) -> None:  # noqa: N802
        self.assertCountEqual(expected_seq, actual_seq, msg)

    def assertSameElements(self, expected_seq: Any, actual_seq: Any, msg: Any = None) -> None:  # noqa: N802
        """Asserts that both have the same elements, regardless of repetitions and order."""
        try:
            same = set(expected_seq) == set(actual_seq)
        except TypeError:
            same = all(e in actual_seq for e in expected_seq) and all(a in expected_seq for a in actual_seq)
        if not same:
            self.fail("Elements differ: %r and %r. %s" % (expected_seq, actual_seq, msg or ""))

    def assertSetEqual(self, first: Any, second: Any, msg: Any = None) -> None:  # noqa: N802
        super().assertSetEqual(set(first), set(second), msg)

    def assertListEqual(self, list1: Any, list2: Any, msg: Any = None) -> None:  # noqa: N802
        # Lists of the client that are subclasses count as lists.
        super().assertSequenceEqual(list1, list2, msg)

    def assertSequenceStartsWith(self, prefix: Any, whole: Any, msg: Any = None) -> None:  # noqa: N802
        if list(whole[: len(prefix)]) != list(prefix):
            self.fail("prefix: %s not found at start of whole: %s. %s" % (prefix, whole, msg or ""))

    def assertSequenceAlmostEqual(  # noqa: N802
        self, expected_seq: Any, actual_seq: Any, places: Any = None, msg: Any = None, delta: Any = None
    ) -> None:
        self.assertEqual(len(expected_seq), len(actual_seq), msg)
        for expected, actual in zip(expected_seq, actual_seq):
            self.assertAlmostEqual(expected, actual, places=places, msg=msg, delta=delta)

    def assertContainsSubset(
        self, expected_subset: Any, actual_set: Any, msg: Any = None
    ) -> None:  # noqa: N802
        missing = set(expected_subset) - set(actual_set)
        if missing:
            self.fail("Missing elements %s from %s. %s" % (missing, actual_set, msg or ""))

    def assertNoCommonElements(
        self, expected_seq: Any, actual_seq: Any, msg: Any = None
    ) -> None:  # noqa: N802
        common = set(expected_seq) & set(actual_seq)
        if common:
            self.fail("Common elements %s. %s" % (common, msg or ""))

    def assertContainsInOrder(self, strings: Any, target: Any, msg: Any = None) -> None:  # noqa: N802
        start = 0
        for string in [strings] if isinstance(strings, str) else strings:
            at = target.find(string, start)
            if at < 0:
                self.fail("Did not find %r in %r from %d on. %s" % (string, target, start, msg or ""))
            start = at

    def assertContainsSubsequence(
        self, container: Any, subsequence: Any, msg: Any = None
    ) -> None:  # noqa: N802
        rest = iter(container)
        for item in subsequence:
            if not any(item == other for other in rest):
                self.fail(
                    "%r is not a subsequence of %r, from %r on. %s" % (subsequence, container, item, msg or "")
                )

    def assertContainsExactSubsequence(
        self, container: Any, subsequence: Any, msg: Any = None
    ) -> None:  # noqa: N802
        n = len(subsequence)
        if not any(list(container[i : i + n]) == list(subsequence) for i in range(len(container) - n + 1)):
            self.fail("%r is not a part of %r. %s" % (subsequence, container, msg or ""))

    def assertTotallyOrdered(self, *groups: Any, **kwargs: Any) -> None:  # noqa: N802
        for i, group in enumerate(groups):
            for smaller in group:
                for other in group:
                    self.assertEqual(smaller, other)
                for later in groups[i + 1 :]:
                    for bigger in later:
                        self.assertLess(smaller, bigger)

    def assertRegexMatch(self, actual_str: Any, regexes: Any, message: Any = None) -> None:  # noqa: N802
        """Asserts that one of the expressions is found in the string."""
        patterns = [regexes] if isinstance(regexes, (str, bytes)) else regexes
        if not any(re.search(r, actual_str, re.MULTILINE) for r in patterns):
            self.fail('"%s" does not contain any of %s. %s' % (actual_str, patterns, message or ""))

    def assertRaisesWithLiteralMatch(  # noqa: N802
        self,
        expected_exception: Any,
        expected_exception_message: str,
        callable_obj: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Asserts that the error has exactly this text."""
        expression = "^%s$" % re.escape(expected_exception_message)
        if callable_obj is None:
            return self.assertRaisesRegex(expected_exception, expression)
        return self.assertRaisesRegex(expected_exception, expression, callable_obj, *args, **kwargs)

    def assertMultiLineEqual(
        self, first: Any, second: Any, msg: Any = None, **kwargs: Any
    ) -> None:  # noqa: N802
        if first == second:
            return
        diff = "".join(difflib.ndiff(str(first).splitlines(True), str(second).splitlines(True)))
        self.fail("%s\n%s" % (msg or "Texts differ:", diff))

    def assertDictEqual(self, a: Any, b: Any, msg: Any = None) -> None:  # noqa: N802
        super().assertDictEqual(dict(a), dict(b), msg)

    def assertCounterEqual(self, first: Any, second: Any) -> None:  # noqa: N802
        self.assertEqual(collections.Counter(first), collections.Counter(second))

    assertRaisesRegexp = unittest.TestCase.assertRaisesRegex  # noqa: N815
    assertRegexpMatches = unittest.TestCase.assertRegex  # noqa: N815
    assertNotRegexpMatches = unittest.TestCase.assertNotRegex  # noqa: N815
    assertEquals = unittest.TestCase.assertEqual  # noqa: N815
    assertNotEquals = unittest.TestCase.assertNotEqual  # noqa: N815
    assert_ = unittest.TestCase.assertTrue
