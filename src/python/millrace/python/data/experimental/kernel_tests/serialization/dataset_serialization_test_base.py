# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""DatasetSerializationTestBase: iterators that are saved and restored continue where they were."""
from __future__ import annotations

import os
from typing import Any, Callable

import numpy as np

from millrace.python.data.experimental.ops import iterator_ops as contrib_iterator_ops
from millrace.python.data.ops import dataset_ops
from millrace.python.framework import dtypes, errors, ops, sparse_tensor
from millrace.python.ops import variables
from millrace.python.platform import gfile, test
from millrace.python.training import checkpoint_management, saver as saver_lib
from millrace.python.util import nest

Make = Callable[[], Any]


def remove_variants(get_next_op: Any) -> Any:
    """A structure of tensors with empty tuples instead of variants, which cannot be fetched."""

    def without(element: Any) -> Any:
        if isinstance(element, ops.Tensor) and element.dtype == dtypes.variant:
            return ()
        return element

    return nest.map_structure(without, get_next_op)


class DatasetSerializationTestBase(test.TestCase):  # type: ignore[misc]
    """A test case about saved iterators. `ds_fn` makes a dataset; each part of a test has its own graph."""

    def tearDown(self) -> None:  # noqa: N802
        """Deletes the checkpoints."""
        self._delete_ckpt()
        super().tearDown()

    def run_core_tests(self, ds_fn: Make, num_outputs: int, sparse_tensors: bool = False) -> None:
        """All checks of a dataset with `num_outputs` elements."""
        checks: tuple[Callable[..., None], ...] = (
            self.verify_unused_iterator,
            self.verify_fully_used_iterator,
            self.verify_exhausted_iterator,
            self.verify_multiple_breaks,
            self.verify_reset_restored_iterator,
        )
        for check in checks:
            check(ds_fn, num_outputs, sparse_tensors=sparse_tensors)

    def verify_unused_iterator(
        self, ds_fn: Make, num_outputs: int, sparse_tensors: bool = False, verify_exhausted: bool = True
    ) -> None:
        """An iterator that was saved before its first element returns all elements after it was restored."""
        self.verify_run_with_breaks(
            ds_fn, [0], num_outputs, sparse_tensors=sparse_tensors, verify_exhausted=verify_exhausted
        )

    def verify_fully_used_iterator(self, ds_fn: Make, num_outputs: int, sparse_tensors: bool = False) -> None:
        """An iterator that has returned all elements returns none after it was restored."""
        self.verify_run_with_breaks(ds_fn, [num_outputs], num_outputs, sparse_tensors=sparse_tensors)

    def verify_exhausted_iterator(self, ds_fn: Make, num_outputs: int, sparse_tensors: bool = False) -> None:
        """An iterator that has ended is at its end after it was restored."""
        self.gen_outputs(ds_fn, [], num_outputs, verify_exhausted=True, sparse_tensors=sparse_tensors)
        actual = self.gen_outputs(
            ds_fn, [], 0, ckpt_saved=True, verify_exhausted=True, sparse_tensors=sparse_tensors
        )
        self.assertEqual(len(actual), 0)

    def verify_multiple_breaks(
        self,
        ds_fn: Make,
        num_outputs: int,
        num_breaks: int = 10,
        sparse_tensors: bool = False,
        verify_exhausted: bool = True,
    ) -> None:
        """An iterator may be saved and restored many times."""
        self.verify_run_with_breaks(
            ds_fn,
            self.gen_break_points(num_outputs, num_breaks),
            num_outputs,
            sparse_tensors=sparse_tensors,
            verify_exhausted=verify_exhausted,
        )

    def verify_reset_restored_iterator(
        self,
        ds_fn: Make,
        num_outputs: int,
        break_point: int | None = None,
        sparse_tensors: bool = False,
        verify_exhausted: bool = True,
    ) -> None:
        """A restored iterator that is initialised again begins from the start."""
        break_point = num_outputs // 2 if not break_point else break_point
        self.gen_outputs(ds_fn, [], break_point, verify_exhausted=False, sparse_tensors=sparse_tensors)
        actual: list[Any] = []
        expected = self.gen_outputs(
            ds_fn,
            [],
            num_outputs,
            ckpt_saved=False,
            verify_exhausted=verify_exhausted,
            sparse_tensors=sparse_tensors,
        )
        with ops.Graph().as_default() as graph:
            saver = self._import_meta_graph()
            init_op, get_next_op = self._get_iterator_ops_from_collection(ds_fn, sparse_tensors)
            get_next_op = remove_variants(get_next_op)
            with self.session(graph=graph) as sess:
                self._initialize(init_op, sess)
                self._restore(saver, sess)
                self._initialize(init_op, sess)
                for _ in range(num_outputs):
                    actual.append(sess.run(get_next_op))
                if verify_exhausted:
                    with self.assertRaises(errors.OutOfRangeError):
                        sess.run(get_next_op)
        self.match(expected, actual)

    def verify_error_on_save(
        self,
        ds_fn: Make,
        num_outputs: int,
        error: Any,
        break_point: int | None = None,
        sparse_tensors: bool = False,
    ) -> None:
        """Saving the iterator raises an error of a class."""
        break_point = num_outputs // 2 if not break_point else break_point
        with ops.Graph().as_default() as graph:
            init_op, get_next_op, saver = self._build_graph(ds_fn, sparse_tensors=sparse_tensors)
            get_next_op = remove_variants(get_next_op)
            with self.session(graph=graph) as sess:
                self._initialize(init_op, sess)
                for _ in range(break_point):
                    sess.run(get_next_op)
                with self.assertRaises(error):
                    self._save(sess, saver)

    def verify_run_with_breaks(
        self,
        ds_fn: Make,
        break_points: list[int],
        num_outputs: int,
        sparse_tensors: bool = False,
        verify_exhausted: bool = True,
    ) -> None:
        """Fails unless an iterator that is saved and restored at some points returns the elements of one that is not."""
        expected = self.gen_outputs(
            ds_fn,
            [],
            num_outputs,
            sparse_tensors=sparse_tensors,
            verify_exhausted=verify_exhausted,
        )
        actual = self.gen_outputs(
            ds_fn,
            break_points,
            num_outputs,
            sparse_tensors=sparse_tensors,
            verify_exhausted=verify_exhausted,
        )
        self.match(expected, actual)

    def gen_outputs(
        self,
        ds_fn: Make,
        break_points: list[int],
        num_outputs: int,
        ckpt_saved: bool = False,
        sparse_tensors: bool = False,
        verify_exhausted: bool = True,
        save_checkpoint_at_end: bool = True,
    ) -> list[Any]:
        """The first `num_outputs` elements, where the iterator is saved and restored at each break point."""
        outputs: list[Any] = []

        def graph_of(saved: bool) -> tuple[Any, Any, Any]:
            if saved:
                saver = self._import_meta_graph()
                return (*self._get_iterator_ops_from_collection(ds_fn, sparse_tensors), saver)
            return self._build_graph(ds_fn, sparse_tensors=sparse_tensors)

        for i in range(len(break_points) + 1):
            with ops.Graph().as_default() as graph:
                init_op, get_next_op, saver = graph_of(ckpt_saved)
                get_next_op = remove_variants(get_next_op)
                with self.session(graph=graph) as sess:
                    self._initialize(init_op, sess)
                    if ckpt_saved:
                        self._restore(saver, sess)
                    start = break_points[i - 1] if i > 0 else 0
                    end = break_points[i] if i < len(break_points) else num_outputs
                    for _ in range(end - start):
                        outputs.append(sess.run(get_next_op))
                    if i == len(break_points) and verify_exhausted:
                        with self.assertRaises(errors.OutOfRangeError):
                            sess.run(get_next_op)
                    if save_checkpoint_at_end or i < len(break_points):
                        self._save(sess, saver)
                        ckpt_saved = True
        return outputs

    def match(self, expected: Any, actual: Any) -> None:
        """Two structures of values are equal."""
        if isinstance(expected, (list, tuple)):
            self.assertEqual(len(expected), len(actual))
            for first, second in zip(expected, actual):
                self.match(first, second)
        elif isinstance(expected, dict):
            self.assertEqual(sorted(expected), sorted(actual))
            for key in expected:
                self.match(expected[key], actual[key])
        elif isinstance(expected, sparse_tensor.SparseTensorValue):
            self.match(tuple(expected), tuple(actual))
        else:
            self.assertAllEqual(expected, actual)

    def does_not_match(self, expected: Any, actual: Any) -> None:
        """Two structures of values are not equal."""
        with self.assertRaises(AssertionError):
            self.match(expected, actual)

    def gen_break_points(self, num_outputs: int, num_samples: int = 10) -> list[int]:
        """Points among `num_outputs` elements, the first and the last among them."""
        return [int(point) for point in np.linspace(0, num_outputs, num_samples, dtype=int)]

    def _build_graph(self, ds_fn: Make, sparse_tensors: bool = False) -> tuple[Any, Any, Any]:
        iterator = dataset_ops.make_initializable_iterator(ds_fn())
        saveable = contrib_iterator_ops.make_saveable_from_iterator(iterator)
        ops.add_to_collection(ops.GraphKeys.SAVEABLE_OBJECTS, saveable)
        init_op = iterator.initializer
        get_next = iterator.get_next()
        self._add_iterator_ops_to_collection(init_op, get_next, ds_fn, sparse_tensors)
        return init_op, get_next, saver_lib.Saver(allow_empty=True)

    def _add_iterator_ops_to_collection(
        self, init_op: Any, get_next: Any, ds_fn: Make, sparse_tensors: bool = False
    ) -> None:
        ops.add_to_collection("iterator_ops", init_op)
        if sparse_tensors:
            for part in (get_next.indices, get_next.values, get_next.dense_shape):
                ops.add_to_collection("iterator_ops", part)
            return
        for element in nest.flatten(get_next):
            ops.add_to_collection("iterator_ops", element)

    def _get_iterator_ops_from_collection(self, ds_fn: Make, sparse_tensors: bool = False) -> tuple[Any, Any]:
        all_ops = ops.get_collection("iterator_ops")
        if sparse_tensors:
            init_op, indices, values, dense_shape = all_ops
            return init_op, sparse_tensor.SparseTensor(indices, values, dense_shape)
        return all_ops[0], nest.pack_sequence_as(self._get_output_types(ds_fn), all_ops[1:])

    def _get_output_types(self, ds_fn: Make) -> Any:
        with ops.Graph().as_default():
            return dataset_ops.get_legacy_output_types(ds_fn())

    def _ckpt_path(self) -> str:
        return os.path.join(self.get_temp_dir(), "iterator")

    def _latest_ckpt(self) -> Any:
        return checkpoint_management.latest_checkpoint(self.get_temp_dir())

    def _save(self, sess: Any, saver: Any) -> None:
        saver.save(sess, self._ckpt_path())

    def _restore(self, saver: Any, sess: Any) -> None:
        sess.run(variables.global_variables_initializer())
        saver.restore(sess, self._latest_ckpt())

    def _initialize(self, init_op: Any, sess: Any) -> None:
        sess.run(variables.global_variables_initializer())
        sess.run(init_op)

    def _import_meta_graph(self) -> Any:
        return saver_lib.import_meta_graph(self._ckpt_path() + ".meta")

    def _delete_ckpt(self) -> None:
        for name in gfile.Glob(self._ckpt_path() + "*"):
            gfile.Remove(name)
