# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Code that the tests of filters share."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.data.kernel_tests import test_base
from millrace.python.data.ops import dataset_ops
from millrace.python.framework import dtypes, errors, sparse_tensor
from millrace.python.ops import array_ops, functional_ops, math_ops


class FilterTestBase(test_base.DatasetTestBase):
    """A test of each kind of predicate; tests `apply_filter(dataset, predicate)`."""

    def apply_filter(self, input_dataset: Any, predicate: Any) -> Any:
        raise NotImplementedError("FilterTestBase._apply_filter")

    def testFilterDataset(self) -> None:  # noqa: N802
        components = (
            np.arange(7, dtype=np.int64),
            np.array([[1, 2, 3]], dtype=np.int64) * np.arange(7, dtype=np.int64)[:, np.newaxis],
            np.array(37.0, dtype=np.float64) * np.arange(7),
        )

        def do_test(count: int, modulus: int) -> None:
            dataset = dataset_ops.Dataset.from_tensor_slices(components)
            dataset = dataset.map(
                lambda x, y, z: (math_ops.square(x), math_ops.square(y), math_ops.square(z))
            )
            dataset = dataset.repeat(count)
            dataset = self.apply_filter(
                dataset, lambda x, _y, _z: math_ops.equal(math_ops.mod(x, modulus), 0)
            )
            get_next = self.getNext(dataset)
            for _ in range(count):
                for i in [x for x in range(7) if x ** 2 % modulus == 0]:
                    for component, result in zip(components, self.evaluate(get_next())):
                        self.assertAllEqual(component[i] ** 2, result)
            with self.assertRaises(errors.OutOfRangeError):
                self.evaluate(get_next())

        do_test(14, 2)
        do_test(4, 18)
        do_test(0, 1)

    def testFilterRange(self) -> None:  # noqa: N802
        dataset = self.apply_filter(
            dataset_ops.Dataset.range(4), lambda x: math_ops.not_equal(math_ops.mod(x, 3), 2)
        )
        self.assertDatasetProduces(dataset, expected_output=[0, 1, 3])

    def testFilterDict(self) -> None:  # noqa: N802
        dataset = dataset_ops.Dataset.range(10).map(lambda x: {"foo": x * 2, "bar": x**2})
        dataset = self.apply_filter(dataset, lambda d: math_ops.equal(d["bar"] % 2, 0))
        dataset = dataset.map(lambda d: d["foo"] + d["bar"])
        self.assertDatasetProduces(
            dataset, expected_output=[i * 2 + i**2 for i in range(10) if i ** 2 % 2 == 0]
        )

    def testUseStepContainerInFilter(self) -> None:  # noqa: N802
        def predicate(row: Any) -> Any:
            squares = functional_ops.map_fn(lambda x: x * x, row)
            return math_ops.equal(squares[0], 1)

        dataset = dataset_ops.Dataset.from_tensor_slices([[1, 2, 3], [4, 5, 6]])
        self.assertDatasetProduces(self.apply_filter(dataset, predicate), expected_output=[[1, 2, 3]])

    def testSparse(self) -> None:  # noqa: N802
        def sparse(i: Any) -> Any:
            return sparse_tensor.SparseTensorValue(
                indices=np.array([[0, 0]]), values=(i * np.array([1])), dense_shape=np.array([1, 1])
            )

        dataset = dataset_ops.Dataset.range(10).map(lambda i: (self._sparse_of(i), i))
        dataset = self.apply_filter(dataset, lambda _, i: math_ops.equal(i % 2, 0)).map(lambda x, _: x)
        self.assertDatasetProduces(dataset, expected_output=[sparse(i * 2) for i in range(5)])

    @staticmethod
    def _sparse_of(i: Any) -> Any:
        return sparse_tensor.SparseTensor(
            indices=array_ops.zeros([1, 2], dtypes.int64),
            values=i * np.array([1]),
            dense_shape=np.array([1, 1]),
        )

    def testShortCircuit(self) -> None:  # noqa: N802
        dataset = dataset_ops.Dataset.zip(
            (dataset_ops.Dataset.range(10), dataset_ops.Dataset.from_tensors(True).repeat(None))
        )
        dataset = self.apply_filter(dataset, lambda x, y: y)
        self.assertDatasetProduces(dataset, expected_output=[(i, True) for i in range(10)])

    def testParallelFilters(self) -> None:  # noqa: N802
        dataset = self.apply_filter(dataset_ops.Dataset.range(10), lambda x: math_ops.equal(x % 2, 0))
        get_next = [self.getNext(dataset) for _ in range(10)]
        self.assertEqual([0 for _ in range(10)], self.evaluate([step() for step in get_next]))
