# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets of Python generators."""
from __future__ import annotations

import threading
from typing import Any

import numpy as np

from millrace.python.data.ops import _datasets, dataset_ops
from millrace.python.data.ops._functions import StructuredFunctionWrapper
from millrace.python.data.util import nest
from millrace.python.framework import constant_op, dtypes, ops, tensor_shape
from millrace.python.ops import gen_dataset_ops, script_ops


class _GeneratorState:
    """The iterators of a generator, by number, as long as they are read."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self._lock = threading.Lock()
        self._next_id = 0  # Guarded by _lock.
        self._args: dict[int, Any] = {}
        self._iterators: dict[int, Any] = {}

    def get_next_id(self, *args: Any) -> Any:
        with self._lock:
            number = self._next_id
            self._next_id += 1
        self._args[number] = args
        return np.array(number, dtype=np.int64)

    def get_iterator(self, iterator_id: Any) -> Any:
        number = int(iterator_id)
        if number not in self._iterators:
            self._iterators[number] = iter(self._generator(*self._args.pop(number)))
        return self._iterators[number]

    def iterator_completed(self, iterator_id: Any) -> None:
        self._iterators.pop(int(iterator_id), None)
        self._args.pop(int(iterator_id), None)


class _GeneratorDataset(_datasets._WithSpec, _datasets.DatasetSource):
    """A dataset of three functions: one makes a state, one returns the next element, one ends it."""

    def __init__(self, init_args: Any, init_func: Any, next_func: Any, finalize_func: Any) -> None:
        from millrace.python.data.util import structure

        self._init_args = init_args
        self._init_structure = structure.type_spec_from_value(init_args)
        name = "Dataset.from_generator()"
        self._init_func = StructuredFunctionWrapper(init_func, name, input_structure=self._init_structure)
        state = self._init_func.output_structure
        self._next_func = StructuredFunctionWrapper(next_func, name, input_structure=state)
        self._finalize_func = StructuredFunctionWrapper(finalize_func, name, input_structure=state)
        self._structure = self._next_func.output_structure
        super().__init__(
            gen_dataset_ops.generator_dataset(
                structure.to_tensor_list(self._init_structure, init_args) + self._init_func.function.captured_inputs,
                self._next_func.function.captured_inputs, self._finalize_func.function.captured_inputs,
                init_func=self._init_func.function, next_func=self._next_func.function,
                finalize_func=self._finalize_func.function, **self._flat_structure,
            )
        )  # fmt: skip


def from_generator(generator: Any, output_types: Any, output_shapes: Any = None, args: Any = None) -> Any:
    """A dataset of the elements of a Python generator.

    Args:
      generator: a callable that returns an iterable; it is called each time the dataset is read from its
        start.
      output_types: the structure of the types of an element.
      output_shapes: the structure of the shapes; None: unknown shapes.
      args: tensors whose values are arguments of `generator`.

    Raises:
      TypeError: `generator` is not callable or does not return an iterable.
    """
    if not callable(generator):
        raise TypeError("`generator` must be callable.")
    if output_shapes is None:
        output_shapes = nest.map_structure(lambda _: tensor_shape.TensorShape(None), output_types)
    else:
        output_shapes = nest.map_structure_up_to(output_types, tensor_shape.as_shape, output_shapes)
    args = () if args is None else tuple(ops.convert_n_to_tensor(args, name="args"))
    flat_types = [dtypes.as_dtype(dt) for dt in nest.flatten(output_types)]
    flat_shapes = nest.flatten(output_shapes)
    state = _GeneratorState(generator)

    def get_iterator_id_fn(_: Any) -> Any:
        ret = script_ops.numpy_function(state.get_next_id, args, dtypes.int64)
        ret.set_shape([])
        return ret

    def next_py_func(iterator_id: Any) -> Any:
        values = next(state.get_iterator(iterator_id))
        return _arrays_of(values, output_types, flat_types, flat_shapes)

    def generator_next_fn(iterator_id: Any) -> Any:
        flat = script_ops.numpy_function(next_py_func, [iterator_id], flat_types)
        flat = list(flat) if isinstance(flat, (list, tuple)) else [flat]
        for tensor, shape in zip(flat, flat_shapes):
            tensor.set_shape(shape)
        return nest.pack_sequence_as(output_types, flat)

    def finalize_py_func(iterator_id: Any) -> Any:
        state.iterator_completed(iterator_id)
        return np.array(0, dtype=np.int64)

    def finalize_fn(iterator_id: Any) -> Any:
        ret = script_ops.numpy_function(finalize_py_func, [iterator_id], dtypes.int64)
        ret.set_shape([])
        return ret

    dummy = constant_op.constant(0, dtype=dtypes.int64)

    def flat_map_fn(dummy_arg: Any) -> Any:
        return _GeneratorDataset(dummy_arg, get_iterator_id_fn, generator_next_fn, finalize_fn)

    # A nested dataset, so that each iteration has a state of its own.
    return dataset_ops.DatasetV2.from_tensors(dummy).flat_map(flat_map_fn)


def _arrays_of(values: Any, output_types: Any, flat_types: Any, flat_shapes: Any) -> Any:
    """The components of an element of a generator, checked.

    Raises:
      TypeError: the structure or a type differs.
      ValueError: a shape differs.
    """
    if isinstance(values, list):
        values = tuple(values)
    try:
        flattened = nest.flatten_up_to(output_types, values)
    except (TypeError, ValueError):
        raise TypeError(
            "`generator` yielded an element that did not match the expected structure. The expected structure was %s, but "
            "the yielded element was %s." % (output_types, values)
        ) from None
    arrays = []
    for ret, dtype in zip(flattened, flat_types):
        try:
            arrays.append(_as_array(ret, dtype))
        except (TypeError, ValueError):
            raise TypeError(
                "`generator` yielded an element that could not be converted to the expected type. The expected type was "
                "%s, but the yielded element was %s." % (dtype.name, ret)
            ) from None
    for array, dtype, shape in zip(arrays, flat_types, flat_shapes):
        if dtype != dtypes.string and array.dtype != dtype.as_numpy_dtype:
            raise TypeError(
                "`generator` yielded an element of type %s where an element of type %s was expected."
                % (array.dtype, dtype.as_numpy_dtype)
            )
        if not shape.is_compatible_with(array.shape):
            raise ValueError(
                "`generator` yielded an element of shape %s where an element of shape %s was expected."
                % (array.shape, shape)
            )
    return arrays


def _as_array(value: Any, dtype: Any) -> Any:
    if dtype == dtypes.string:
        array = np.asarray(value)
        if array.dtype.kind not in "USO":
            raise TypeError("no string")
        return array.astype(object)
    array = np.asarray(value)
    if array.dtype == dtype.as_numpy_dtype:
        return array
    if array.dtype.kind in "USO" or isinstance(value, (np.ndarray, np.generic)):
        if array.dtype.kind in "USO":
            raise TypeError("no number")
        return array
    # Python's numbers have no type of their own.
    if array.dtype.kind == "f" and array.size and dtype.is_integer:
        raise TypeError("no integer")
    return array.astype(dtype.as_numpy_dtype)
