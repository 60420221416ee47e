# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions with custom gradients."""
from __future__ import annotations

from typing import Any, Callable

from millrace.python.framework import _gradient_registry
from millrace.python.framework import dtypes  # noqa: F401
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import resource_variable_ops
from millrace.python.ops import variable_scope
from millrace.python.platform import tf_logging as logging
from millrace.python.util import nest
from millrace.python.util import tf_decorator
from millrace.python.util import tf_inspect

VAR_OP_TYPES = ["VariableV2", "VarHandleOp"]


def copy_handle_data(source_t: Any, target_t: Any) -> None:
    """Copies the static handle data (dtype and shape) from one resource handle to another."""
    if target_t.dtype in (dtypes.resource, dtypes.variant):
        data = source_t.graph._get_handle_data(source_t)
        if data:
            target_t.graph._set_handle_data(target_t, data)


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a function that defines its own gradient.

    Args:
      f: a function of tensors that returns (result, grad_fn). `grad_fn(*dys)` returns the gradient of each argument;
        if `f` uses variables by `tf.get_variable(use_resource=True)`, it has an argument `variables` and returns
        (gradients of the arguments, list of gradients of the variables).

    Returns:
      A function that returns the first element of the result of `f`.

    Raises:
      TypeError: `f` uses variables and `grad_fn` has no argument `variables`, or `f` uses reference variables.
      ValueError: `grad_fn` returns another number of gradients.
    """

    def decorated(*args: Any, **kwargs: Any) -> Any:
        if ops.executing_eagerly():
            return _eager_mode_decorator(f, *args, **kwargs)
        return _graph_mode_decorator(f, *args, **kwargs)

    return tf_decorator.make_decorator(f, decorated)


def get_variable_by_name(var_name: str) -> Any:
    """The variable of the graph with a name; ValueError if there is none or more than one."""
    candidates = [v for v in _all_variables() if v.op.name == var_name]
    if len(candidates) != 1:
        raise ValueError(
            "Unsuccessful at finding variable {}. Number of candidates: {}.".format(var_name, len(candidates))
        )
    return candidates[0]


def _all_variables() -> list[Any]:
    keys = ops.GraphKeys
    found = ops.get_collection(keys.GLOBAL_VARIABLES) + ops.get_collection(keys.LOCAL_VARIABLES)
    unique: dict[int, Any] = {id(v): v for v in found}
    return list(unique.values())


def get_dependent_variables(input_ops: Any, output_ops: Any) -> list[Any]:
    """The variables that lie between some tensors and others that are computed from them."""
    inputs = {t.op for t in nest.flatten(input_ops)}
    seen: set[Any] = set()
    work = [t.op for t in nest.flatten(output_ops)]
    by_op = {v.op: v for v in _all_variables()}
    found = []
    while work:
        op = work.pop()
        if op in seen or op in inputs:
            continue
        seen.add(op)
        if op.type in VAR_OP_TYPES:
            if op in by_op:
                found.append(by_op[op])
            continue
        work.extend(t.op for t in op.inputs)
    return sorted(found, key=lambda v: v.op._id)


_READS = frozenset(("Identity", "ReadVariableOp", "VarHandleOp", "VariableV2", "Variable"))


def _operations_behind(tensors: Any, arguments: Any, first: int) -> set[Any]:
    """The operations, from number `first` on, that tensors depend on, and the variables that these read."""
    given = {id(t) for t in arguments}
    captured: dict[int, Any] = {}  # by the corresponding argument
    graph: Any = ops.get_default_graph()
    while graph is not None:
        captured.update(zip(map(id, getattr(graph, "extra_args", ())), getattr(graph, "extra_inputs", ())))
        graph = getattr(graph, "_outer_graph", None)
    seen: set[Any] = set()
    work = list(tensors)
    while work:
        t = work.pop()
        while id(t) in captured and id(t) not in given:
            t = captured[id(t)]
        if id(t) in given or isinstance(t, ops.EagerTensor) or t.op in seen:
            continue
        if t.op._id_value > first or t.op.type in _READS:
            seen.add(t.op)
            work.extend(t.op.inputs)
    return seen


def _used_variables(f: Any, args: Any, kwargs: Any) -> tuple[Any, Any, list[Any]]:
    """Calls `f`; returns its result, its gradient function and the variables that it uses."""
    before = {id(v) for v in _all_variables()}
    first = ops.get_default_graph()._num_ids
    with _watch_reads() as read:
        result, grad_fn = f(*args, **kwargs)
    outputs = [ops.convert_to_tensor(t) for t in nest.flatten(result)]
    behind = _operations_behind(outputs, args, first)
    used = read + [v for v in _all_variables() if id(v) not in before or v.op in behind]
    given = {id(a) for a in nest.flatten(list(args))}
    unique = {id(v): v for v in used if id(v) not in given}
    return result, grad_fn, list(unique.values())


class _watch_reads:
    """Within it variables that a variable scope returns are recorded."""

    def __enter__(self) -> list[Any]:
        self._read: list[Any] = []
        self._scope = variable_scope.variable_creator_scope(self._create)
        self._scope.__enter__()
        return self._read

    def _create(self, next_creator: Any, **kwargs: Any) -> Any:
        variable = next_creator(**kwargs)
        self._read.append(variable)
        return variable

    def __exit__(self, *args: Any) -> None:
        self._scope.__exit__(*args)


def _eager_mode_decorator(f: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls `f` and records its gradient on tapes instead of its operations."""
    from millrace.python.eager import backprop, tape

    with tape.stop_recording(), backprop.GradientTape() as own:
        result, grad_fn = f(*args, **kwargs)
        flat_result = [array_ops.identity(x) for x in nest.flatten(result)]
    given = {id(x) for x in list(args) + list(kwargs.values())}
    variables = [v for v in own.watched_variables() if id(v) not in given]
    tape.variables_accessed(variables)
    grad_argspec = tf_inspect.getfullargspec(grad_fn)
    if (
        variables
        and "variables" not in grad_argspec.args + grad_argspec.kwonlyargs
        and not grad_argspec.varkw
    ):
        raise TypeError(
            "If using @custom_gradient with a function that uses variables, then grad_fn must accept a 'variables' "
            "keyword argument."
        )
    inputs = [x.handle if hasattr(x, "handle") else ops.convert_to_tensor(x) for x in args]

    def actual_grad_fn(*result_grads: Any) -> list[Any]:
        if variables:
            input_grads, variable_grads = grad_fn(*result_grads, variables=variables)
            if len(variable_grads) != len(variables):
                raise ValueError("Must return gradient for each variable from @custom_gradient grad_fn.")
        else:
            input_grads, variable_grads = grad_fn(*result_grads), []
        flat_grads = nest.flatten(input_grads)
        if len(flat_grads) != len(args):
            raise ValueError(
                "custom_gradient function expected to return %d gradients but returned %d instead."
                % (len(args), len(flat_grads))
            )
        return flat_grads + list(variable_grads)

    tape.record_operation(f.__name__, flat_result, inputs + [v.handle for v in variables], actual_grad_fn)
    return nest.pack_sequence_as(result, list(flat_result))


def _graph_mode_decorator(f: Any, *args: Any, **kwargs: Any) -> Any:
    if kwargs:
        raise ValueError(
            "The custom_gradient decorator currently supports keywords arguments only when eager execution is enabled."
        )
    name = "CustomGradient-%s" % ops.uid()
    tensors = [ops.convert_to_tensor(x) for x in args]
    graph = ops.get_default_graph()
    if tensors and not hasattr(graph, "capture"):
        graph = tensors[0].graph
    result, grad_fn, variables = _used_variables(f, tensors, kwargs)
    for v in variables:
        if not resource_variable_ops.is_resource_variable(v):
            raise TypeError(
                "All variables used by `f` in `tf.custom_gradient` must be `ResourceVariable`s. Ensure that no variables "
                "are created in the default graph with `use_resource=False`."
            )
    grad_argspec = tf_inspect.getfullargspec(grad_fn)
    takes_variables = (
        "variables" in grad_argspec.args or grad_argspec.varkw or "variables" in grad_argspec.kwonlyargs
    )
    if variables and not takes_variables:
        raise TypeError(
            "If using @custom_gradient with a function that uses variables, then grad_fn must accept a 'variables' "
            "keyword argument."
        )
    if "variables" in grad_argspec.args and not variables:
        logging.warn(
            "@custom_gradient grad_fn has 'variables' in signature, but no ResourceVariables were used on the forward pass."
        )
    flat_result = nest.flatten(result)
    all_tensors = flat_result + tensors + [v.handle for v in variables]

    def tape_grad_fn(*result_grads: Any) -> list[Any]:
        dys = result_grads[: len(flat_result)]
        if variables:
            input_grads, variable_grads = grad_fn(*dys, variables=variables)
            if len(variable_grads) != len(variables):
                raise ValueError("Must return gradient for each variable from @custom_gradient grad_fn.")
        else:
            input_grads, variable_grads = grad_fn(*dys), []
        input_grads = nest.flatten(input_grads)
        if len(input_grads) != len(tensors):
            raise ValueError(
                "custom_gradient function expected to return %d gradients but returned %d instead."
                % (len(tensors), len(input_grads))
            )
        return [None] * len(flat_result) + input_grads + list(variable_grads)

    _gradient_registry.register_in_graph(graph, name, lambda op, *grads: tape_grad_fn(*grads))
    original = all_tensors
    with graph.gradient_override_map({"IdentityN": name, "Identity": name}):
        all_tensors = array_ops.identity_n(all_tensors)
    for source, target in zip(original, all_tensors):
        copy_handle_data(source, target)
    return nest.pack_sequence_as(structure=result, flat_sequence=all_tensors[: len(flat_result)])


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function like `f` whose intermediate values are recomputed for its gradient instead of being kept.

    Args:
      f: a function of tensors; variables must be resource variables.
    """

    @custom_gradient
    def inner(*args: Any, **kwargs: Any) -> Any:
        from millrace.python.eager import backprop

        result = f(*args, **kwargs)

        def grad(dresult: Any, variables: Any = None) -> Any:
            variables = list(variables or [])
            with backprop.GradientTape() as tape, ops.control_dependencies([dresult]):
                copies = [array_ops.identity(x) for x in args]
                tape.watch(copies)
                again = f(*copies, **kwargs)
            found = tape.gradient(again, copies + variables, output_gradients=dresult)
            if not variables:
                return found
            return found[: len(args)], found[len(args) :]

        return result, grad

    return inner


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function like `f` whose gradient is that of the identity."""

    @custom_gradient
    def _grad_pass_through_op(*args: Any, **kwargs: Any) -> Any:
        def grad(*args: Any, **kwargs: Any) -> Any:
            variables = kwargs.get("variables")
            if variables is not None:
                return args, [None] * len(variables)
            return args

        return f(*args, **kwargs), grad

    return tf_decorator.make_decorator(f, _grad_pass_through_op)
