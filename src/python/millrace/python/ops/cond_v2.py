# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Conditions as one operation, If, whose branches are functions."""
from __future__ import annotations

from typing import Any

from millrace.python.eager import function as eager_function
from millrace.python.framework import func_graph as func_graph_module
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_util_v2
from millrace.python.ops import gen_functional_ops
from millrace.python.util import nest


class _Branch:
    """A function of all tensors that any of the branches takes from outside."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def take(self, captures: list[Any]) -> None:
        """Makes `captures` the arguments of the function, in this order."""
        self.arguments = []
        with self.graph.as_default():
            for tensor in captures:
                self.arguments.append(self.graph.capture(tensor))

    def function(self) -> Any:
        made = eager_function._EagerDefinedFunction(
            self.graph.name, self.graph, self.arguments, self.graph.outputs, None
        )
        made.add_to_graph(ops.get_default_graph())
        return made


def cond_v2(pred: Any, true_fn: Any, false_fn: Any, name: Any = "cond") -> Any:
    """Runs `true_fn` where `pred` is true, else `false_fn`, as an operation If.

    Args:
      pred: a boolean scalar.
      true_fn, false_fn: functions without arguments that return structures of tensors of the same types.
      name: of the operation.

    Raises:
      TypeError, ValueError: the branches return different structures or types, or `pred` is a Python bool.
    """
    if isinstance(pred, bool):
        raise TypeError("pred must not be a Python bool", pred)
    name = name or "cond"
    with ops.name_scope(name) as scope:
        pred = ops.convert_to_tensor(pred)
        branches = [
            _Branch(
                func_graph_module.func_graph_from_py_func(
                    control_flow_util_v2.unique_fn_name(scope, part), fn, [], {}
                )
            )
            for part, fn in (("true", true_fn), ("false", false_fn))
        ]
    return _build(pred, branches, scope)


def _check(branches: list[_Branch]) -> None:
    first, second = (b.graph for b in branches)
    try:
        nest.assert_same_structure(
            first.structured_outputs, second.structured_outputs, expand_composites=True
        )
    except TypeError as e:
        raise TypeError(
            "true_fn and false_fn arguments to tf.cond must have the same number, type, and overall structure of return values.\n\n%s"
            % e
        ) from None
    except ValueError as e:
        raise ValueError(
            "true_fn and false_fn arguments to tf.cond must have the same number, type, and overall structure of return values.\n\n%s"
            % e
        ) from None
    for x, y in zip(first.outputs, second.outputs):
        if x.dtype != y.dtype:
            raise TypeError(
                "true_fn and false_fn arguments to tf.cond must have the same number, type, and overall structure of return values.\n\nDtypes differ: %s, %s"
                % (x.dtype.name, y.dtype.name)
            )


def _build(pred: Any, branches: list[_Branch], scope: str) -> Any:
    _check(branches)
    captures: dict[int, Any] = {}
    for branch in branches:
        for tensor in branch.graph.external_captures:
            captures[id(tensor)] = tensor
    for branch in branches:
        branch.take(list(captures.values()))
    then_branch, else_branch = (b.function() for b in branches)
    stateful = then_branch.stateful_ops or else_branch.stateful_ops
    make = gen_functional_ops._if if stateful else gen_functional_ops.stateless_if
    outputs = branches[0].graph.outputs
    shapes = [
        x.shape
        if x.shape.is_compatible_with(y.shape) and x.shape.is_fully_defined() and x.shape == y.shape
        else None
        for x, y in zip(outputs, branches[1].graph.outputs)
    ]
    results = make(
        pred, list(captures.values()), Tout=[t.dtype for t in outputs], then_branch=then_branch, else_branch=else_branch,
        name=scope,
    )  # fmt: skip
    if isinstance(results, ops.Operation):
        return results
    for result, shape in zip(results, shapes):
        if shape is not None:
            result.set_shape(shape)
    with ops.name_scope(scope):
        results = [array_ops.identity(result) for result in results]
    structure = branches[0].graph.structured_outputs
    packed = nest.pack_sequence_as(structure, list(results), expand_composites=True)
    return packed[0] if isinstance(packed, (list, tuple)) and len(packed) == 1 else packed


def indexed_case(branch_index: Any, branch_fns: Any, name: str = "indexed_case") -> Any:
    """Runs branch_fns[branch_index]; the last one if `branch_index` is out of range."""
    from millrace.python.ops import control_flow_ops

    return control_flow_ops.switch_case(branch_index, list(branch_fns), name=name)


def __getattr__(name: str) -> Any:
    """`_IfGrad` and others: the engine's gradient functions."""
    from millrace.python.ops import _engine_gradients

    return _engine_gradients.function_of_name(__name__, name)
