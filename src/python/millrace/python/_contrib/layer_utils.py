# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The module `utils` of tf.contrib.layers and tf.contrib.slim: outputs in collections under their aliases,
and sizes."""
from __future__ import annotations

import collections
from typing import Any

from millrace.python.framework import ops, smart_cond as smart_module, tensor_util
from millrace.python.ops import control_flow_ops, variables

NamedOutputs = collections.namedtuple("NamedOutputs", ["name", "outputs"])


def collect_named_outputs(collection_name: Any, alias: str, outputs: Any) -> Any:
    """Adds outputs to a collection under an alias; returns the outputs."""
    if collection_name:
        append_tensor_alias(outputs, alias)
        ops.add_to_collections(collection_name, outputs)
    return outputs


def append_tensor_alias(tensor: Any, alias: str) -> Any:
    """Gives a tensor another alias, without the slash at its end."""
    if alias[-1] == "/":
        alias = alias[:-1]
    if hasattr(tensor, "aliases"):
        tensor.aliases.append(alias)
    else:
        tensor.aliases = [alias]
    return tensor


def get_tensor_aliases(tensor: Any) -> list[str]:
    """The aliases of a tensor; its name if it has none."""
    if hasattr(tensor, "aliases"):
        return list(tensor.aliases)
    if tensor.name[-2:] == ":0":
        return [tensor.op.name]
    return [tensor.name]


def gather_tensors_aliases(tensors: Any) -> list[str]:
    """The aliases of all tensors."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


def convert_collection_to_dict(collection: Any, clear_collection: bool = False) -> Any:
    """The tensors of a collection by their aliases, in their order."""
    outputs = collections.OrderedDict(
        (alias.rstrip("/"), tensor)
        for tensor in ops.get_collection(collection)
        for alias in get_tensor_aliases(tensor)
    )
    if clear_collection:
        ops.get_default_graph().clear_collection(collection)
    return outputs


def constant_value(value_or_tensor_or_var: Any, dtype: Any = None) -> Any:
    """The static value, or None if it is unknown; ValueError for None or another type."""
    if value_or_tensor_or_var is None:
        raise ValueError("value_or_tensor_or_var cannot be None")
    value = value_or_tensor_or_var
    if isinstance(value, (ops.Tensor, variables.Variable)):
        if dtype and value.dtype != dtype:
            raise ValueError("It has the wrong type %s instead of %s" % (value.dtype, dtype))
        return None if isinstance(value, variables.Variable) else tensor_util.constant_value(value)
    if dtype and not isinstance(value, dtype):
        raise ValueError("It has the wrong type %s instead of %s" % (type(value), dtype))
    return value


def static_cond(pred: Any, fn1: Any, fn2: Any) -> Any:
    """The result of `fn1` if `pred` is true, else of `fn2`; TypeError for wrong arguments."""
    if not callable(fn1):
        raise TypeError("fn1 must be callable.")
    if not callable(fn2):
        raise TypeError("fn2 must be callable.")
    return fn1() if pred else fn2()


def smart_cond(pred: Any, fn1: Any, fn2: Any, name: Any = None) -> Any:
    """As `tf.cond`, without an op where the condition is known."""
    value = smart_module.smart_constant_value(pred)
    if value is not None:
        return static_cond(value, fn1, fn2)
    return control_flow_ops.cond(pred, fn1, fn2, name=name)


def get_variable_collections(variables_collections: Any, name: str) -> Any:
    """The collections of the variable `name`: of a dictionary, or the same for all."""
    if isinstance(variables_collections, dict):
        return variables_collections.get(name, None)
    return variables_collections


def _dimension(shape: Any, axis: int, min_rank: int) -> Any:
    dims = shape.dims
    if dims is None:
        raise ValueError("dims of shape must be known but is None")
    if len(dims) < min_rank:
        raise ValueError("rank of shape must be at least %d not: %d" % (min_rank, len(dims)))
    return dims[axis].value


def channel_dimension(shape: Any, data_format: str, min_rank: int = 1) -> Any:
    """The number of channels, or None; ValueError for a rank that is unknown or too small."""
    return _dimension(shape, 1 if data_format == "NCHW" else -1, min_rank)


def last_dimension(shape: Any, min_rank: int = 1) -> Any:
    """The last size, or None; ValueError for a rank that is unknown or too small."""
    return _dimension(shape, -1, min_rank)


def first_dimension(shape: Any, min_rank: int = 1) -> Any:
    """The first size, or None; ValueError for a rank that is unknown or too small."""
    return _dimension(shape, 0, min_rank)


def two_element_tuple(int_or_tuple: Any) -> Any:
    """Converts a number or a pair to a pair; ValueError for anything else."""
    if isinstance(int_or_tuple, (list, tuple)):
        if len(int_or_tuple) != 2:
            raise ValueError("Must be a list with 2 elements: %s" % (int_or_tuple,))
        return int(int_or_tuple[0]), int(int_or_tuple[1])
    if isinstance(int_or_tuple, int):
        return int(int_or_tuple), int(int_or_tuple)
    dims = getattr(int_or_tuple, "dims", None)
    if dims is not None and len(dims) == 2:
        return dims[0].value, dims[1].value
    raise ValueError("Must be an int, a list with 2 elements or a TensorShape of length 2")


def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """Converts one positive integer, or `n` of them, to `n`; ValueError for anything else."""
    try:
        sequence = [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)]
    except (TypeError, ValueError):
        raise ValueError("invalid value: %r" % (value,)) from None
    if any(v < 1 for v in sequence):
        raise ValueError("value must be positive: %r" % (value,))
    if len(sequence) == 1:
        return tuple(sequence) * n
    if len(sequence) != n:
        raise ValueError("value must be an int or a list of %d ints: %r" % (n, value))
    return tuple(sequence)
