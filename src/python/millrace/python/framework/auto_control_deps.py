# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Automatic control dependencies: operations with side effects run in the order of their creation."""
from __future__ import annotations

import functools
from typing import Any

from millrace.python.framework import dtypes, ops
from millrace.python.util import nest, tf_decorator

# Stateful operations whose order does not matter, or that run only as inputs of others.
ASYNC_STATEFUL_OPS = [
    "CollectiveGather", "CollectiveReduce", "CollectiveBcastSend", "CollectiveBcastRecv", "NcclAllReduce", "Send", "Recv",
    "RandomUniform", "RandomStandardNormal", "RandomUniformInt", "TruncatedNormal", "RandomShuffle", "Multinomial",
    "RandomGamma", "RandomPoissonV2",
]  # fmt: skip
_NO_EFFECT = frozenset(["Placeholder", "PlaceholderV2", "VarHandleOp", "VariableV2", "Variable", "NoOp"])
_PASSES_ON = frozenset(
    ["Switch", "RefSwitch", "Identity", "IdentityN", "Merge", "Enter", "Exit", "NextIteration"]
)


def op_is_stateful(op: Any) -> bool:
    """Whether an operation has a side effect, so that a function must run it."""
    return op._is_stateful and op.type not in ASYNC_STATEFUL_OPS and op.type not in _NO_EFFECT


class _Effect:
    """An operation with a side effect, or a condition with such operations in its branches."""

    def __init__(self, op: Any, keys: list[Any], stateful: bool) -> None:
        self.op, self.keys, self.stateful = op, keys, stateful


def _effects_of(new_ops: Any, context: Any) -> list[_Effect]:
    """The effects of operations in a context; conditions within it count as one each, at their last operation."""
    effects: list[_Effect] = []
    branches: dict[Any, dict[int, Any]] = {}
    for op in new_ops:
        own = op._control_flow_context
        if own is context:
            if op.type in _NO_EFFECT or op.type in _PASSES_ON:
                continue
            keys = [_origin(t) for t in op.inputs if t.dtype == dtypes.resource]
            stateful = op_is_stateful(op)
            if stateful or keys:
                effects.append(_Effect(op, keys or ([None] if stateful else []), stateful))
            continue
        branch = _branch_below(own, context)
        if branch is not None and op.type not in _PASSES_ON:
            found = branches.setdefault(branch.pred, {})
            if branch.branch not in found:
                found[branch.branch] = branch
                if len(found) == 1:
                    effects.append(_Effect(branch.pred, [], False))  # reserves its position; set below
    return [
        e for e in (_condition(effect, branches, new_ops, context) for effect in effects) if e is not None
    ]


def _origin(tensor: Any) -> Any:
    """The resource that a tensor comes from, through Switches and identities."""
    while tensor.op.type in ("Switch", "Identity", "Enter") and tensor.op.inputs:
        tensor = tensor.op.inputs[0]
    return tensor


def _branch_below(context: Any, outer: Any) -> Any:
    """The branch right below `outer` that a context is, or is in; None within loops and outside."""
    while context is not None and context.outer_context is not outer:
        if context.IsWhileContext():
            return None
        context = context.outer_context
    return context if context is not None and context.IsCondContext() else None


def _condition(effect: _Effect, branches: Any, new_ops: Any, context: Any) -> Any:
    """For a condition: an operation that runs after the effects of the branch that was taken; None without any."""
    from millrace.python.ops import array_ops, control_flow_ops

    if isinstance(effect.op, ops.Operation):
        return effect
    ends = []
    keys: dict[Any, None] = {}
    stateful = False
    for branch in branches[effect.op].values():
        inner = _effects_of(new_ops, branch)
        for one in inner:
            keys.update(dict.fromkeys(one.keys))
            stateful = stateful or one.stateful
        _chain(inner)
        firsts = [op for one in inner for op in getattr(one, "first", [one.op])]
        branch.Enter()
        try:
            with ops.control_dependencies([one.op for one in inner]):
                ends.append((array_ops.identity(branch.pivot), firsts))
        finally:
            branch.Exit()
    if not keys or len(ends) != 2:
        return None
    if context is not None:
        context.Enter()
    merged = control_flow_ops.merge([end for end, _ in ends], name="after_branches")[0]
    if context is not None:
        context.Exit()
    joined = _Effect(merged.op, list(keys), stateful)
    joined.first = [op for _, own in ends for op in own]  # type: ignore[attr-defined]
    return joined


def _chain(effects: list[_Effect]) -> None:
    """Makes each operation wait for the last one before it that has the same resource."""
    last: dict[Any, Any] = {}
    for effect in effects:
        for key in effect.keys:
            before = last.get(key)
            if before is not None and before is not effect.op:
                for op in getattr(effect, "first", None) or [effect.op]:
                    if before not in op.control_inputs:
                        op._add_control_inputs([before])
            last[key] = effect.op


def order(new_ops: Any, context: Any = None) -> list[Any]:
    """Orders operations with effects, those of one resource each; returns those that must run."""
    effects = _effects_of(list(new_ops), context)
    _chain(effects)
    return [effect.op for effect in effects if effect.stateful or effect.keys]


class AutomaticControlDependencies:
    """A context: effects of operations made in it happen in order, and before the tensors marked as returned.

    In TensorFlow the graph must be the body of a function; here it may be any graph.
    """

    def __init__(self) -> None:
        self._returned: list[Any] = []
        self.ops_which_must_run: set[Any] = set()

    def mark_as_return(self, tensor: Any) -> Any:
        """Returns an identity of the tensor that depends on all effects."""
        from millrace.python.framework import indexed_slices, sparse_tensor
        from millrace.python.ops import array_ops

        if isinstance(tensor, indexed_slices.IndexedSlices):
            shape = tensor.dense_shape
            return indexed_slices.IndexedSlices(
                self.mark_as_return(tensor.values), tensor.indices, None if shape is None else shape
            )
        if isinstance(tensor, sparse_tensor.SparseTensor):
            return sparse_tensor.SparseTensor(
                tensor.indices, self.mark_as_return(tensor.values), tensor.dense_shape
            )
        marked = array_ops.identity(tensor)
        self._returned.append(marked)
        return marked

    def __enter__(self) -> AutomaticControlDependencies:
        self._graph = ops.get_default_graph()
        self._first = self._graph._num_ids
        self._context = self._graph._control_flow_context
        return self

    def ops_which_must_run_list(self) -> list[Any]:
        """`ops_which_must_run` in order."""
        return sorted(self.ops_which_must_run, key=lambda op: op._id)

    def __exit__(self, unused_type: Any, unused_value: Any, unused_traceback: Any) -> None:
        if unused_type is not None:
            return
        if self._graph is not ops.get_default_graph():
            raise RuntimeError("Graph changed while trying to add control dependencies.")
        marked = {t.op for t in self._returned}
        new_ops = [op for op in self._graph._operations() if op._id_value > self._first and op not in marked]
        must_run = order(new_ops, self._context)
        self.ops_which_must_run = set(must_run)
        for tensor in self._returned:
            tensor.op._add_control_inputs([op for op in must_run if op is not tensor.op])


def automatic_control_dependencies(f: Any) -> Any:
    """Decorator: the effects of a function's operations happen in order, before its results are returned."""

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with AutomaticControlDependencies() as a:
            result = f(*args, **kwargs)
            return nest.pack_sequence_as(result, [a.mark_as_return(t) for t in nest.flatten(result)])

    return tf_decorator.make_decorator(f, wrapper)
