# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of a state and an element, which are called for all elements in order."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops._functions import StructuredFunctionWrapper
from millrace.python.data.util import nest, structure
from millrace.python.framework import ops, tensor_spec
from millrace.python.ops import gen_dataset_ops


def state_function(
    dataset: Any, initial_state: Any, func: Any, name: str, with_output: bool
) -> tuple[Any, Any, Any]:
    """A function of (state, element), whose results may have less known shapes than its arguments.

    Args:
      dataset: the source of the elements.
      initial_state: the state before the first.
      func: the Python function.
      name: name of the transformation, for messages.
      with_output: whether `func` returns (state, output) instead of the state.

    Returns:
      (function wrapper, structure of the state, structure of the output).

    Raises:
      TypeError: the function returns a state of other classes or types.
    """
    state_structure = structure.type_spec_from_value(initial_state)
    while True:
        wrapped = StructuredFunctionWrapper(
            func, name, input_structure=(state_structure, dataset.element_spec), add_to_graph=False
        )
        output = wrapped.output_structure
        output_structure = None
        if with_output:
            if not (isinstance(output, tuple) and len(output) == 2):
                raise TypeError(
                    "The scan function must return a pair comprising the new state and the output value."
                )
            output, output_structure = output
        _check_state(state_structure, output)
        relaxed = nest.pack_sequence_as(
            state_structure,
            [_relax(old, new) for old, new in zip(nest.flatten(state_structure), nest.flatten(output))],
        )
        if relaxed == state_structure:
            break
        state_structure = relaxed
    wrapped.function.add_to_graph(ops.get_default_graph())
    return wrapped, state_structure, output_structure


def _relax(old: Any, new: Any) -> Any:
    if isinstance(old, tensor_spec.TensorSpec):
        return tensor_spec.TensorSpec(old.shape.most_specific_compatible_shape(new.shape), old.dtype)
    return old.most_specific_compatible_type(new)


def _check_state(expected: Any, got: Any) -> None:
    def classes(spec: Any) -> Any:
        return nest.map_structure(lambda s: s._to_legacy_output_classes(), spec)

    def types(spec: Any) -> Any:
        return nest.map_structure(lambda s: s._to_legacy_output_types(), spec)

    for what, of in (("classes", classes), ("types", types)):
        if of(expected) != of(got):
            raise TypeError(
                "The element %s for the new state must match the initial state. Expected %s; got %s."
                % (what, of(expected), of(got))
            )


def reduce(dataset: Any, initial_state: Any, reduce_func: Any) -> Any:
    """The state that `reduce_func` returns after all elements of a dataset."""
    with ops.name_scope("initial_state"):
        initial_state = structure.normalize_element(initial_state)
    wrapped, state_structure, _ = state_function(dataset, initial_state, reduce_func, "reduce()", False)
    return structure.from_compatible_tensor_list(
        state_structure,
        list(
            gen_dataset_ops.reduce_dataset(
                dataset._apply_options()._variant_tensor, structure.to_tensor_list(state_structure, initial_state),
                wrapped.function.captured_inputs, f=wrapped.function,
                output_shapes=structure.get_flat_tensor_shapes(state_structure),
                output_types=structure.get_flat_tensor_types(state_structure),
            )
        ),
    )  # fmt: skip
