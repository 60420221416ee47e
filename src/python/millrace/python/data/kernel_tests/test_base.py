# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""DatasetTestBase: assertions about the elements of datasets."""
from __future__ import annotations

import re
from typing import Any

from millrace.python.data.ops import dataset_ops
from millrace.python.data.util import nest, structure
from millrace.python.eager import context
from millrace.python.framework import dtypes, errors, sparse_tensor
from millrace.python.ops import array_ops
from millrace.python.platform import test


class DatasetTestBase(test.TestCase):  # type: ignore[misc]
    """A test case about datasets."""

    def assert_op_cancelled(self, op: Any) -> None:
        """Evaluating an op ends with CancelledError."""
        with self.assertRaisesRegexp(errors.CancelledError, "was cancelled"):
            self.evaluate(op)

    def assertValuesEqual(self, expected: Any, actual: Any) -> None:  # noqa: N802
        """Two values are equal: numbers, texts, arrays, or values of SparseTensors."""
        if sparse_tensor.is_sparse(expected):
            self.assertSparseValuesEqual(expected, actual)
        else:
            self.assertAllEqual(expected, actual)

    def assertSparseValuesEqual(self, a: Any, b: Any) -> None:  # noqa: N802
        """Two values of SparseTensors are equal."""
        self.assertAllEqual(a.indices, b.indices)
        self.assertAllEqual(a.values, b.values)
        self.assertAllEqual(a.dense_shape, b.dense_shape)

    def getNext(  # noqa: N802
        self, dataset: Any, requires_initialization: bool = False, shared_name: str | None = None
    ) -> Any:
        """A function that returns the next element: a structure of tensors.

        Args:
          dataset: the dataset.
          requires_initialization: whether the dataset has state, so that its iterator needs an initializer.
          shared_name: of the iterator.
        """
        if context.executing_eagerly():
            iterator = iter(dataset)
            return iterator._next_internal
        if requires_initialization:
            iterator = dataset_ops.make_initializable_iterator(dataset, shared_name)
            self.evaluate(iterator.initializer)
        else:
            iterator = dataset_ops.make_one_shot_iterator(dataset)
        get_next = iterator.get_next()
        return lambda: get_next

    def _compareOutputToExpected(  # noqa: N802
        self, result_values: Any, expected_values: Any, assert_items_equal: bool
    ) -> None:
        if assert_items_equal:
            self.assertItemsEqual(result_values, expected_values)
            return
        for expected, result in zip(expected_values, result_values):
            nest.assert_same_structure(result, expected)
            for expected_part, part in zip(nest.flatten(expected), nest.flatten(result)):
                self.assertValuesEqual(expected_part, part)

    def getDatasetOutput(
        self, dataset: Any, requires_initialization: bool = False
    ) -> list[Any]:  # noqa: N802
        """All elements."""
        get_next = self.getNext(dataset, requires_initialization=requires_initialization)
        results: list[Any] = []
        while True:
            try:
                results.append(self.evaluate(get_next()))
            except errors.OutOfRangeError:
                return results

    def assertDatasetProduces(  # noqa: N802
        self, dataset: Any, expected_output: Any = None, expected_shapes: Any = None,
        expected_error: Any = None,
        requires_initialization: bool = False, num_test_iterations: int = 1, assert_items_equal: bool = False,
        expected_error_iter: int = 1,
    ) -> None:  # fmt: skip
        """A dataset has these elements, or ends with this error.

        Args:
          dataset: the dataset.
          expected_output: its elements.
          expected_shapes: their static shapes.
          expected_error: (class of the error, regular expression or "").
          requires_initialization: see `getNext`.
          num_test_iterations: how often the dataset is read.
          assert_items_equal: whether the order does not matter.
          expected_error_iter: how many elements are read until the error.
        """
        self.assertTrue(
            expected_error is not None or expected_output is not None,
            "Exactly one of expected_output or expected error should be provided.",
        )
        if expected_error:
            self.assertTrue(
                expected_output is None,
                "Exactly one of expected_output or expected error should be provided.",
            )
            with self.assertRaisesWithPredicateMatch(expected_error[0], expected_error[1]):
                get_next = self.getNext(dataset, requires_initialization=requires_initialization)
                for _ in range(expected_error_iter):
                    self.evaluate(get_next())
            return
        if expected_shapes:
            self.assertEqual(expected_shapes, dataset_ops.get_legacy_output_shapes(dataset))
        self.assertGreater(num_test_iterations, 0)
        for _ in range(num_test_iterations):
            get_next = self.getNext(dataset, requires_initialization=requires_initialization)
            result = [self.evaluate(get_next()) for _ in range(len(expected_output))]
            self._compareOutputToExpected(result, expected_output, assert_items_equal)
            for _ in range(2):  # an iterator at its end stays there
                with self.assertRaises(errors.OutOfRangeError):
                    self.evaluate(get_next())

    def assertDatasetsEqual(self, dataset1: Any, dataset2: Any) -> None:  # noqa: N802
        """Two datasets have the same structure and the same elements."""
        self.assertTrue(
            structure.are_compatible(dataset_ops.get_structure(dataset1), dataset_ops.get_structure(dataset2))
        )
        next1, next2 = self.getNext(dataset1), self.getNext(dataset2)
        while True:
            try:
                op1 = self.evaluate(next1())
            except errors.OutOfRangeError:
                with self.assertRaises(errors.OutOfRangeError):
                    self.evaluate(next2())
                return
            op2 = self.evaluate(next2())
            flat1, flat2 = nest.flatten(op1), nest.flatten(op2)
            self.assertEqual(len(flat1), len(flat2))
            for a, b in zip(flat1, flat2):
                if sparse_tensor.is_sparse(a):
                    self.assertSparseValuesEqual(a, b)
                else:
                    self.assertAllEqual(a, b)

    def assertDatasetsRaiseSameError(  # noqa: N802
        self, dataset1: Any, dataset2: Any, exception_class: Any, replacements: Any = None
    ) -> None:
        """Two datasets end their first elements with the same error, after replacements in the first one's
        text."""
        next1, next2 = self.getNext(dataset1), self.getNext(dataset2)
        try:
            self.evaluate(next1())
        except exception_class as e:
            expected_message = re.escape(str(e))
            for old, new in replacements or []:
                expected_message = expected_message.replace(old, new)
            with self.assertRaisesRegexp(exception_class, expected_message):
                self.evaluate(next2())
            return
        raise ValueError(
            "Expected dataset1 to raise an error of type %s, but it did not." % repr(exception_class)
        )

    def structuredDataset(  # noqa: N802
        self, dataset_structure: Any, shape: Any = None, dtype: Any = dtypes.int64
    ) -> Any:
        """A dataset of one shape and type in a structure of tuples."""
        if dataset_structure is None:
            return dataset_ops.Dataset.from_tensors(array_ops.zeros(shape or [], dtype=dtype))
        return dataset_ops.Dataset.zip(
            tuple(self.structuredDataset(part, shape, dtype) for part in dataset_structure)
        )

    def structuredElement(  # noqa: N802
        self, element_structure: Any, shape: Any = None, dtype: Any = dtypes.int64
    ) -> Any:
        """An element of one shape and type in a structure of tuples."""
        if element_structure is None:
            return array_ops.zeros(shape or [], dtype=dtype)
        return tuple(self.structuredElement(part, shape, dtype) for part in element_structure)

    def graphRoundTrip(self, dataset: Any, allow_stateful: bool = False) -> Any:  # noqa: N802
        """The dataset; the engine does not write datasets as graphs."""
        del allow_stateful
        return dataset

    def checkDeterminism(  # noqa: N802
        self, dataset_fn: Any, expect_determinism: bool, expected_elements: Any
    ) -> None:
        """A dataset returns its elements in this order, or in another one if that is allowed."""
        if expect_determinism:
            self.assertDatasetProduces(dataset_fn(100), expected_elements)
            return
        for delay in (10, 100, 1000):
            actual = self.getDatasetOutput(dataset_fn(delay))
            self.assertCountEqual(expected_elements, actual)
            if actual != list(expected_elements):
                return
