# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Signatures of exported objects: functions from named tensors to named tensors."""
from __future__ import annotations

import collections
from typing import Any, Iterator

from millrace.python.eager import def_function, function as defun
from millrace.python.framework import ops, tensor_spec
from millrace.python.saved_model import signature_constants

DEFAULT_SIGNATURE_ATTR = "_default_save_signature"
SIGNATURE_ATTRIBUTE_NAME = "signatures"


def _get_signature(function: Any) -> Any:
    """The one body of a function, None where there may be several."""
    if isinstance(function, defun.Function) and function.input_signature is not None:
        function = function.get_concrete_function()
    return function if isinstance(function, defun.ConcreteFunction) else None


def _valid_signature(concrete_function: Any) -> bool:
    """Whether the results of a function could be those of a signature."""
    try:
        _normalize_outputs(concrete_function.structured_outputs, "unused", "unused")
    except ValueError:
        return False
    return True


def find_function_to_export(functions: dict[str, Any]) -> Any:
    """The only function of an object that can be a signature; None if there is none or more than one."""
    if functions.get(DEFAULT_SIGNATURE_ATTR) is not None:
        return functions[DEFAULT_SIGNATURE_ATTR]
    possible = []
    for function in functions.values():
        concrete = _get_signature(function)
        if concrete is not None and _valid_signature(concrete):
            possible.append(concrete)
    return possible[0] if len(possible) == 1 else None


def canonicalize_signatures(signatures: Any) -> dict[str, Any]:
    """ConcreteFunctions that take and return dicts of tensors, by names of signatures.

    Args:
      signatures: a function, a dict of functions by names, or None.

    Raises:
      ValueError: one of them is no function with known arguments, or returns something that is no tensor.
    """
    if signatures is None:
        return {}
    if not isinstance(signatures, collections.abc.Mapping):
        signatures = {signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signatures}
    made = {}
    for key, function in signatures.items():
        original = _get_signature(function)
        if original is None:
            raise ValueError(
                "Expected a TensorFlow function to generate a signature for, but got {}. Only `tf.functions` with an input "
                "signature or concrete functions can be used as a signature.".format(function)
            )
        made[key] = _by_name(original, key)
    return made


def _by_name(original: Any, key: str) -> Any:
    """`original` as a function of a dict."""
    tensors = original._ordered_inputs()[: original._num_arguments]
    names = original._arg_keywords or [t.op.name for t in tensors]

    def signature_wrapper(**kwargs: Any) -> Any:
        outputs = original._call_flat([kwargs[name] for name in names])
        return _normalize_outputs(outputs, original.name, key)

    specs = {name: tensor_spec.TensorSpec(t.shape, t.dtype, name) for name, t in zip(names, tensors)}
    concrete = def_function.Function(signature_wrapper, "signature_wrapper").get_concrete_function(**specs)
    concrete._arg_keywords = sorted(specs)
    concrete._num_positional_args = 1 if len(specs) == 1 else 0
    return concrete


def _normalize_outputs(outputs: Any, function_name: str, signature_key: str) -> dict[str, Any]:
    """Results as a dict of tensors: those of a sequence are called output_0, output_1, …"""
    if outputs is None:
        outputs = []
    if not isinstance(outputs, collections.abc.Mapping):
        if not isinstance(outputs, collections.abc.Sequence):
            outputs = [outputs]
        outputs = {"output_%d" % i: output for i, output in enumerate(outputs)}
    for key, value in outputs.items():
        if not isinstance(key, (str, bytes)):
            raise ValueError(
                "Got a dictionary with a non-string key in the output of the function {} used to generate a SavedModel "
                "signature: {}".format(function_name, key)
            )
        if not isinstance(value, (ops.Tensor, tensor_spec.TensorSpec)):
            raise ValueError(
                "Got a non-Tensor value {!r} for key {!r} in the output of the function {} used to generate the SavedModel "
                "signature {!r}. Outputs for functions used as signatures must be a single Tensor, a sequence of Tensors, "
                "or a dictionary from string to Tensor.".format(value, key, function_name, signature_key)
            )
    return dict(outputs)


class SignatureMap(collections.abc.Mapping):  # type: ignore[type-arg]
    """The signatures of a loaded object by their names; cannot be changed."""

    def __init__(self, signatures: Any = ()) -> None:
        self._signatures: dict[str, Any] = dict(signatures)

    def __getitem__(self, key: str) -> Any:
        return self._signatures[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._signatures)

    def __len__(self) -> int:
        return len(self._signatures)

    def __repr__(self) -> str:
        return "_SignatureMap({})".format(self._signatures)


_SignatureMap = SignatureMap
