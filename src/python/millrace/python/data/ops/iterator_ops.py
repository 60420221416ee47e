# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Iterators of datasets."""
from __future__ import annotations

import warnings
from typing import Any

from millrace.python.data.ops import _spec, optional_ops
from millrace.python.data.util import nest, structure
from millrace.python import _engine
from millrace.python.framework import dtypes, errors_impl, ops, tensor_shape
from millrace.python.ops import gen_dataset_ops
from millrace.python.training.saving import saveable_object
from millrace.python.training.tracking import base as trackable

# Number of calls of get_next() after which a warning says that each call adds an operation.
GET_NEXT_CALL_WARNING_THRESHOLD = 32
GET_NEXT_CALL_WARNING_MESSAGE = (
    "An unusually high number of `Iterator.get_next()` calls was detected. This often indicates that `Iterator.get_next()` "
    "is being called inside a training loop, which will cause gradual slowdown and eventual resource exhaustion. If this is "
    "the case, restructure your code to call `next_element = iterator.get_next()` once outside the loop, and use "
    "`next_element` as the input to some computation that is invoked inside the loop."
)
GLOBAL_ITERATORS = "iterators"


def _device_is(resource: Any) -> Any:
    return ops.colocate_with(resource)


class Iterator(trackable.Trackable):
    """An iterator of a dataset, a resource of the session."""

    def __init__(
        self,
        iterator_resource: Any,
        initializer: Any,
        output_types: Any,
        output_shapes: Any,
        output_classes: Any,
    ) -> None:
        self._begin(
            iterator_resource,
            initializer,
            structure.convert_legacy_structure(output_types, output_shapes, output_classes),
        )

    def _begin(self, iterator_resource: Any, initializer: Any, element_spec: Any) -> None:
        self._iterator_resource = iterator_resource
        self._initializer = initializer
        self._element_spec = element_spec
        self._string_handle = gen_dataset_ops.iterator_to_string_handle(iterator_resource)
        self._get_next_call_count = 0
        ops.add_to_collection(GLOBAL_ITERATORS, iterator_resource)

    @staticmethod
    def from_structure(
        output_types: Any, output_shapes: Any = None, shared_name: Any = None, output_classes: Any = None
    ) -> Any:
        """An iterator that any dataset of a structure can initialize: see `make_initializer`.

        Args:
          output_types: the structure of types.
          output_shapes: the structure of shapes; None: unknown shapes.
          shared_name: name under which sessions share the iterator.
          output_classes: the structure of classes; None: all are tensors.
        """
        spec = _legacy_structure(output_types, output_shapes, output_classes)
        resource = gen_dataset_ops.iterator_v2(
            container="", shared_name=shared_name or "", output_types=structure.get_flat_tensor_types(spec),
            output_shapes=structure.get_flat_tensor_shapes(spec),
        )  # fmt: skip
        return _of_spec(resource, None, spec)

    @staticmethod
    def from_string_handle(
        string_handle: Any, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> Any:
        """The iterator of the given structure whose `string_handle()` is `string_handle`, usually fed."""
        spec = _legacy_structure(output_types, output_shapes, output_classes)
        string_handle = ops.convert_to_tensor(string_handle, dtype=dtypes.string)
        resource = gen_dataset_ops.iterator_from_string_handle_v2(
            string_handle, output_types=structure.get_flat_tensor_types(spec),
            output_shapes=structure.get_flat_tensor_shapes(spec),
        )  # fmt: skip
        return _of_spec(resource, None, spec)

    @property
    def initializer(self) -> Any:
        """The operation to run before the first element.

        Raises:
          ValueError: there is none.
        """
        if self._initializer is not None:
            return self._initializer
        raise ValueError("Iterator does not have an initializer.")

    def make_initializer(self, dataset: Any, name: Any = None) -> Any:
        """An operation that starts the iterator with a dataset of its structure.

        Raises:
          TypeError: the dataset is of another structure.
        """
        with ops.name_scope(name, "make_initializer") as name:
            spec = _spec.get_structure(dataset)
            for what, of in (
                ("types", _spec.get_legacy_output_types),
                ("classes", _spec.get_legacy_output_classes),
            ):
                nest.assert_same_structure(of(self), of(dataset))
                for mine, its in zip(nest.flatten(of(self)), nest.flatten(of(dataset))):
                    if mine != its and not hasattr(mine, "is_compatible_with"):
                        raise TypeError("Expected output %s %r but got dataset with output %s %r." % (
                            what, of(self), what, of(dataset)))  # fmt: skip
                    if what == "types" and mine != its:
                        raise TypeError(
                            "Expected output types %r but got dataset with output types %r."
                            % (of(self), of(dataset))
                        )
            shapes, its_shapes = _spec.get_legacy_output_shapes(self), _spec.get_legacy_output_shapes(dataset)
            nest.assert_same_structure(shapes, its_shapes)
            for mine, its in zip(nest.flatten(shapes), nest.flatten(its_shapes)):
                if isinstance(mine, tensor_shape.TensorShape) and not (
                    mine.ndims is None
                    or (mine.is_compatible_with(its) and mine == mine.most_specific_compatible_shape(its))
                ):
                    raise TypeError(
                        "Expected output shapes compatible with %r but got dataset with output shapes %r."
                        % (shapes, its_shapes)
                    )
            del spec
            with _device_is(self._iterator_resource):
                return gen_dataset_ops.make_iterator(
                    dataset._apply_options()._variant_tensor, self._iterator_resource, name=name
                )

    def get_next(self, name: Any = None) -> Any:
        """The next element, a structure of tensors; each run of them is one element.

        Raises (when it is run):
          OutOfRangeError: the end of the dataset.
        """
        self._get_next_call_count += 1
        if self._get_next_call_count > GET_NEXT_CALL_WARNING_THRESHOLD:
            warnings.warn(GET_NEXT_CALL_WARNING_MESSAGE)
        flat = gen_dataset_ops.iterator_get_next(
            self._iterator_resource, output_types=structure.get_flat_tensor_types(self._element_spec),
            output_shapes=structure.get_flat_tensor_shapes(self._element_spec), name=name,
        )  # fmt: skip
        return structure.from_tensor_list(
            self._element_spec, list(flat) if isinstance(flat, (list, tuple)) else [flat]
        )

    def string_handle(self, name: Any = None) -> Any:
        """A scalar string that represents the iterator, to be fed to `from_string_handle`."""
        if name is None:
            return self._string_handle
        return gen_dataset_ops.iterator_to_string_handle(self._iterator_resource, name=name)

    @property
    def output_classes(self) -> Any:
        return _spec.get_legacy_output_classes(self)

    @property
    def output_shapes(self) -> Any:
        return _spec.get_legacy_output_shapes(self)

    @property
    def output_types(self) -> Any:
        return _spec.get_legacy_output_types(self)

    @property
    def element_spec(self) -> Any:
        """The structure of TypeSpecs of an element."""
        return self._element_spec

    def _gather_saveables_for_checkpoint(self) -> Any:
        return {"ITERATOR": lambda name: _IteratorSaveable(self._iterator_resource, name)}


class IteratorV2(trackable.Trackable):
    """An iterator over a dataset in eager mode.

    Args:
      dataset: the dataset.

    Raises:
      RuntimeError: eager execution is not enabled.
    """

    def __init__(self, dataset: Any = None, components: Any = None, element_spec: Any = None) -> None:
        del components, element_spec
        if not ops.executing_eagerly():
            raise RuntimeError(
                "Iterator should only be used when eager execution is enabled or inside a tf.function."
            )
        if dataset is None:
            raise ValueError("Either `dataset` or both `components` and `element_spec` need to be provided.")
        applied = dataset._apply_options()
        self._dataset = applied  # kept alive, since the iterator uses its functions and resources
        self._element_spec = applied.element_spec
        self._types = structure.get_flat_tensor_types(self._element_spec)
        self._shapes = structure.get_flat_tensor_shapes(self._element_spec)
        self._iterator_resource, self._deleter = gen_dataset_ops.anonymous_iterator_v2(
            output_types=self._types, output_shapes=self._shapes
        )
        gen_dataset_ops.make_iterator(applied._variant_tensor, self._iterator_resource)

    def __del__(self) -> None:
        try:
            _engine.eager_execute("DeleteIterator", None, [self._iterator_resource, self._deleter], [], 0)
        except Exception:  # at exit of the interpreter, or no iterator was made
            pass

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self.next()

    def _next_internal(self) -> Any:
        with ops.device("/device:CPU:0"):
            flat = gen_dataset_ops.iterator_get_next(
                self._iterator_resource, output_types=self._types, output_shapes=self._shapes
            )
        return structure.from_compatible_tensor_list(self._element_spec, list(flat))

    def next(self) -> Any:
        """The next element; StopIteration at the end."""
        try:
            return self._next_internal()
        except errors_impl.OutOfRangeError:
            raise StopIteration from None

    def get_next(self, name: Any = None) -> Any:
        """The next element; OutOfRangeError at the end."""
        del name
        return self._next_internal()

    @property
    def output_classes(self) -> Any:
        return _spec.get_legacy_output_classes(self)

    @property
    def output_shapes(self) -> Any:
        return _spec.get_legacy_output_shapes(self)

    @property
    def output_types(self) -> Any:
        return _spec.get_legacy_output_types(self)

    @property
    def element_spec(self) -> Any:
        """The structure of TypeSpecs of an element."""
        return self._element_spec

    def _gather_saveables_for_checkpoint(self) -> Any:
        return {"ITERATOR": lambda name: _IteratorSaveable(self._iterator_resource, name)}


EagerIterator = OwnedIterator = IteratorV2


def _of_spec(resource: Any, initializer: Any, element_spec: Any) -> Any:
    iterator = Iterator.__new__(Iterator)
    iterator._begin(resource, initializer, element_spec)
    return iterator


def _legacy_structure(output_types: Any, output_shapes: Any, output_classes: Any) -> Any:
    output_types = nest.map_structure(dtypes.as_dtype, output_types)
    if output_shapes is None:
        output_shapes = nest.map_structure(lambda _: tensor_shape.TensorShape(None), output_types)
    else:
        output_shapes = nest.map_structure_up_to(output_types, tensor_shape.as_shape, output_shapes)
    if output_classes is None:
        output_classes = nest.map_structure(lambda _: ops.Tensor, output_types)
    nest.assert_same_structure(output_types, output_shapes)
    return structure.convert_legacy_structure(output_types, output_shapes, output_classes)


def get_next_as_optional(iterator: Any) -> Any:
    """The next element of an iterator as Optional, without a value at the end."""
    spec = iterator.element_spec
    variant = gen_dataset_ops.iterator_get_next_as_optional(
        iterator._iterator_resource, output_types=structure.get_flat_tensor_types(spec),
        output_shapes=structure.get_flat_tensor_shapes(spec),
    )  # fmt: skip
    return optional_ops._OptionalImpl(variant, spec)


class _IteratorSaveable(saveable_object.SaveableObject):
    """Saves an iterator's state with a checkpoint."""

    def __init__(self, iterator_resource: Any, name: str) -> None:
        serialized = gen_dataset_ops.serialize_iterator(iterator_resource)
        specs = [saveable_object.SaveSpec(serialized, "", name + "_STATE", dtype=dtypes.variant)]
        super().__init__(iterator_resource, specs, name)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        with ops.colocate_with(self.op):
            return gen_dataset_ops.deserialize_iterator(self.op, restored_tensors[0])
