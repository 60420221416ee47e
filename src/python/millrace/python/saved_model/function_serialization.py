# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions as messages of a SavedObjectGraph."""
from __future__ import annotations

import collections
from typing import Any

from millrace.python.framework import ops, tensor_spec
from millrace.python.saved_model import nested_structure_coder
from millrace.python.util import nest

FullArgSpec = collections.namedtuple(
    "FullArgSpec", ["args", "varargs", "varkw", "defaults", "kwonlyargs", "kwonlydefaults", "annotations"]
)


def specs_of(structure: Any, names: Any = None) -> Any:
    """The structure with TensorSpecs for tensors; `names` are those of its leaves."""
    flat = nest.flatten(structure, expand_composites=True)
    names = [None] * len(flat) if names is None else names
    specs = [
        tensor_spec.TensorSpec(
            v.shape, v.dtype, name or getattr(v, "name", None) if not _has_value(v) else name
        )
        if isinstance(v, (ops.Tensor, tensor_spec.TensorSpec))
        else v
        for v, name in zip(flat, names)
    ]
    return nest.pack_sequence_as(structure, specs, expand_composites=True)


def _has_value(value: Any) -> bool:
    return isinstance(value, ops.EagerTensor)


def serialize_concrete_function(concrete_function: Any, node_ids: dict[int, int]) -> Any:
    """The SavedConcreteFunction.

    Args:
      concrete_function: the function.
      node_ids: by id() of tensors that functions capture: nodes of the object graph.

    Raises:
      AssertionError: it captures the handle of an object that the object graph lacks.
    """
    from millrace.core.protobuf import saved_object_graph_pb2

    coder = nested_structure_coder.StructureCoder()
    proto = saved_object_graph_pb2.SavedConcreteFunction()
    for capture in concrete_function.captured_inputs:
        if id(capture) not in node_ids:
            raise AssertionError(
                "Tried to export a function which references untracked object {}. TensorFlow objects (e.g. tf.Variable) "
                "captured by functions must be tracked by assigning them to an attribute of a tracked object or assigned "
                "to an attribute of the main object directly.".format(str(capture))
            )
        proto.bound_inputs.append(node_ids[id(capture)])
    args, kwargs = concrete_function.structured_input_signature
    proto.canonicalized_input_signature.CopyFrom(
        coder.encode_structure((specs_of(tuple(args)), specs_of(kwargs)))
    )
    outputs = specs_of(concrete_function.structured_outputs)
    proto.output_signature.CopyFrom(coder.encode_structure(outputs))
    return proto


def serialize_bare_concrete_function(concrete_function: Any) -> Any:
    """The SavedBareConcreteFunction of a function that is called by names of arguments."""
    from millrace.core.protobuf import saved_object_graph_pb2

    keywords = concrete_function._arg_keywords
    if keywords is None:
        keywords = [
            t.op.name for t in concrete_function._ordered_inputs()[: concrete_function._num_arguments]
        ]
    return saved_object_graph_pb2.SavedBareConcreteFunction(
        concrete_function_name=concrete_function.name,
        argument_keywords=keywords,
        allowed_positional_arguments=concrete_function._num_positional_args or 0,
    )


def serialize_function(function: Any, concrete_functions: Any) -> Any:
    """The SavedFunction of a function with one body for each kind of arguments."""
    from millrace.core.protobuf import saved_object_graph_pb2

    coder = nested_structure_coder.StructureCoder()
    proto = saved_object_graph_pb2.SavedFunction()
    proto.concrete_functions.extend(f.name for f in concrete_functions)
    spec = function._fullargspec
    is_method = function._is_method
    # Annotations may be anything.
    full = FullArgSpec(
        list(spec.args),
        spec.varargs,
        spec.varkw,
        spec.defaults,
        list(spec.kwonlyargs),
        spec.kwonlydefaults,
        {},
    )
    if not coder.can_encode(full):
        full = full._replace(defaults=None, kwonlydefaults=None)
    proto.function_spec.fullargspec.CopyFrom(coder.encode_structure(full))
    proto.function_spec.is_method = is_method
    signature = None if function.input_signature is None else specs_of(tuple(function.input_signature))
    proto.function_spec.input_signature.CopyFrom(coder.encode_structure(signature))
    return proto
