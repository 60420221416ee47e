# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions that act on the default graph."""
from __future__ import annotations

import contextlib
from contextlib import contextmanager
from typing import Any, Iterator, Optional

from millrace.python import _engine
from millrace.python.framework._default_stacks import (  # noqa: F401
    _DefaultGraphStack,
    _DefaultStack,
    _default_graph_stack,
    _default_session_stack,
    _eval_using_default_session,
    _run_using_default_session,
    _use_default_session,
    default_session,
    executing_eagerly,
    get_default_graph,
    get_default_session,
    has_default_graph,
    reset_default_graph,
)
from millrace.python.framework._graph import Graph
from millrace.python.framework._operation import Operation
from millrace.python.framework._tensor import Tensor


def _assert_same_graph(original_item: Any, item: Any) -> None:
    if original_item.graph is not item.graph:
        raise ValueError("%s must be from the same graph as %s." % (item, original_item))


def _graph_of(item: Any) -> Optional[Graph]:
    if isinstance(item, (_engine.TensorBase, _engine.OperationBase)):
        return None if isinstance(item, _engine.EagerTensorBase) else item.graph
    if isinstance(item, (int, float, str, bytes)) or item is None:
        return None
    element = getattr(item, "_as_graph_element", None)
    if element is not None:
        element = element()
        if isinstance(element, (_engine.TensorBase, _engine.OperationBase)):
            return None if isinstance(element, _engine.EagerTensorBase) else element.graph
    if isinstance(getattr(item, "values", None), _engine.EagerTensorBase):
        return None
    if hasattr(item, "_type_spec") or hasattr(item, "dense_shape"):
        return getattr(item, "graph", None)
    return None


def _get_graph_from_inputs(op_input_list: Any, graph: Any = None) -> Graph:
    """The graph that all inputs are of, or the default graph; ValueError when they disagree."""
    current = get_default_graph()
    if current.building_function:
        return current
    if not isinstance(op_input_list, (list, tuple)):
        op_input_list = tuple(op_input_list)
    if graph is not None and not isinstance(graph, Graph):
        raise TypeError("Input graph needs to be a Graph: %s" % graph)
    original = None
    for op_input in op_input_list:
        items = op_input if isinstance(op_input, (list, tuple)) else (op_input,)
        for item in items:
            item_graph = _graph_of(item)
            if item_graph is None:
                continue
            if graph is None:
                original, graph = item, item_graph
            elif original is not None and item_graph is not graph:
                raise ValueError("%s must be from the same graph as %s." % (item, original))
            elif item_graph is not graph:
                raise ValueError("%s is not from the passed-in graph." % item)
    return graph or current


# --- Functions on the default graph


def device(device_name_or_function: Any) -> Any:
    """Graph.device of the default graph; in eager mode the device on which ops run.

    Raises:
      RuntimeError: a function is given in eager mode.
    """
    if executing_eagerly():
        if callable(device_name_or_function):
            raise RuntimeError("tf.device does not support functions when eager execution is enabled.")
        from millrace.python.eager import context

        return context.device(device_name_or_function)
    return get_default_graph().device(device_name_or_function)


def device_v2(device_name: Any) -> Any:
    if callable(device_name):
        raise RuntimeError("tf.device does not support functions.")
    return device(device_name)


def container(container_name: str) -> Any:
    """Graph.container of the default graph."""
    return get_default_graph().container(container_name)


def _colocate_with_for_gradient(op: Any, gradient_uid: Any, ignore_existing: bool = False) -> Any:
    if executing_eagerly():
        return contextlib.nullcontext()
    return get_default_graph().colocate_with(op, ignore_existing)


def colocate_with(op: Any, ignore_existing: bool = False) -> Any:
    """Graph.colocate_with of the default graph."""
    if executing_eagerly():
        return contextlib.nullcontext()
    return get_default_graph().colocate_with(op, ignore_existing)


_colocate_with = colocate_with


def control_dependencies(control_inputs: Any) -> Any:
    """Graph.control_dependencies of the default graph; in eager mode functions in the list are called."""
    if executing_eagerly():
        # Eager tensors are computed already; functions are called to run their ops.
        for control in [control_inputs] if callable(control_inputs) else control_inputs or ():
            if callable(control):
                control()
        return contextlib.nullcontext()
    return get_default_graph().control_dependencies(control_inputs)


control_dependencies_v2 = control_dependencies


def add_to_collection(name: Any, value: Any) -> None:
    """Graph.add_to_collection of the default graph."""
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names: Any, value: Any) -> None:
    """Graph.add_to_collections of the default graph."""
    get_default_graph().add_to_collections(names, value)


def get_collection_ref(key: Any) -> list[Any]:
    """Graph.get_collection_ref of the default graph."""
    return get_default_graph().get_collection_ref(key)


def get_collection(key: Any, scope: Any = None) -> list[Any]:
    """Graph.get_collection of the default graph."""
    return get_default_graph().get_collection(key, scope)


def get_all_collection_keys() -> list[Any]:
    """Graph.get_all_collection_keys of the default graph."""
    return get_default_graph().get_all_collection_keys()


def _op_to_colocate_with(v: Any, graph: Any) -> Any:
    if v is None:
        return None
    if isinstance(v, Operation):
        return v
    handle = getattr(v, "handle", None)
    if isinstance(v, _engine.EagerTensorBase):
        handle = v
    if isinstance(handle, _engine.EagerTensorBase):
        return graph.capture(handle).op if graph.building_function else None
    if isinstance(handle, Tensor):
        return handle.op
    if isinstance(getattr(v, "op", None), Operation):
        return v.op
    return convert(v).op


def convert(value: Any) -> Any:
    from millrace.python.framework import _conversion

    return _conversion.internal_convert_to_tensor(value, as_ref=True)


def _outside_of_functions() -> Any:
    """The graph around the functions that are being built; None if that is eager mode."""
    if executing_eagerly():
        return None
    graph: Any = get_default_graph()
    while graph.building_function:
        if getattr(graph, "_outer_is_eager", False):
            return None
        outer = getattr(graph, "_outer_graph", None)
        if outer is None:
            break
        graph = outer
    return graph


def executing_eagerly_outside_functions() -> bool:
    """Whether eager mode is on, or would be outside of the function that is being built."""
    return _outside_of_functions() is None


@contextmanager
def _eager_init_scope() -> Iterator[None]:
    from millrace.python.eager import tape

    was_eager = _engine.set_eager(True)
    try:
        with tape.stop_recording():
            yield
    finally:
        _engine.set_eager(was_eager)


@contextmanager
def init_scope() -> Iterator[None]:
    """Operations made in the context are initialisers: outside of functions, control flow and control inputs."""
    if _outside_of_functions() is None:
        with _eager_init_scope():
            yield
        return
    default = get_default_graph()
    scope = default.get_name_scope()
    if scope and scope[-1] != "/":
        scope += "/"
    outer = default
    if default.building_function:
        for graph in reversed(_default_graph_stack.stack):
            if not graph.building_function:
                outer = graph
                break
        else:
            outer = _default_graph_stack._global_default_graph
    with outer.as_default(), outer.name_scope(scope or None), control_dependencies(None):
        yield


_thread: Any = None  # eager.context's manager, with the name scope


def _load_thread() -> None:
    global _thread
    from millrace.python.eager import context

    _thread = context._thread


class name_scope:
    """A context in which names of operations begin with a scope's.

    Args:
      name: the name, or None for default_name.
      default_name: where name is None.
      values: tensors whose graph becomes the default graph.

    Raises:
      ValueError: if neither name is given but values are.
    """

    __slots__ = ("_name", "_default_name", "_values", "_graph", "_old", "_has_graph", "_scope")

    def __init__(self, name: Any, default_name: Any = None, values: Any = None) -> None:
        if name is not None and not isinstance(name, (str, bytes)):
            raise TypeError("name for name_scope must be a string.")
        self._name = default_name if name is None else name
        self._default_name = default_name
        self._values = values
        self._scope: Any = None

    @property
    def name(self) -> Any:
        return self._name

    def __enter__(self) -> str:
        if executing_eagerly():
            return self._enter_eager()
        if self._name is None and self._values is not None:
            raise ValueError(
                "At least one of name (%s) and default_name (%s) must be provided."
                % (None, self._default_name)
            )
        values = self._values
        graph = get_default_graph()
        self._has_graph = False
        if values:
            other = _get_graph_from_inputs(values)
            if other is not graph:
                self._has_graph = True
                _default_graph_stack.stack.append(other)
                graph = other
        self._graph = graph
        self._old = graph._name_stack
        name = self._name
        try:
            if name:
                if isinstance(name, bytes):
                    name = name.decode()
                if name[-1] == "/":
                    _check_scope_name(graph, name)
                    new = name[:-1]
                else:
                    _check_scope_name(graph, name)
                    new = graph.unique_name(name)
                graph._name_stack = new
                return new + "/"
            graph._name_stack = ""
            return ""
        except BaseException:
            self._leave()
            raise

    def _enter_eager(self) -> str:
        if _thread is None:
            _load_thread()
        self._graph = None  # type: ignore[assignment]
        self._old = old = _thread.scope_name
        name = self._name
        if not name:
            scope = ""
        else:
            if isinstance(name, bytes):
                name = name.decode()
            scope = name if name[-1] == "/" else (old + name + "/" if old else name + "/")
        _thread.scope_name = scope
        return scope

    def _leave(self) -> None:
        if self._graph is None:
            _thread.scope_name = self._old
            return
        self._graph._name_stack = self._old
        if self._has_graph:
            _default_graph_stack.stack.pop()

    def __exit__(self, type_arg: Any, value_arg: Any, traceback_arg: Any) -> None:
        self._leave()

    def __call__(self, function: Any) -> Any:
        import functools

        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self._name, self._default_name, self._values):
                return function(*args, **kwargs)

        return inner


def _check_scope_name(graph: Graph, name: str) -> None:
    from millrace.python.framework import _graph

    regex = _graph._VALID_SCOPE_NAME_REGEX if graph._name_stack else _graph._VALID_OP_NAME_REGEX
    if not regex.match(name):
        raise ValueError("'%s' is not a valid scope name" % name)


name_scope_v1 = name_scope


class name_scope_v2(name_scope):
    """name_scope with a name only."""

    __slots__ = ()

    def __init__(self, name: Any) -> None:
        if name is None or not isinstance(name, str):
            raise ValueError("name for name_scope must be a string.")
        super().__init__(name)


def strip_name_scope(name: Any, export_scope: Any) -> Any:
    """A name without the scope it begins with; "" scopes change nothing."""
    import re

    if not export_scope:
        return name
    if isinstance(name, bytes):
        name = name.decode()
    if export_scope[-1] == "/":
        export_scope = export_scope[:-1]
    try:
        return re.sub(r"([\^]|loc:@|^)" + re.escape(export_scope) + r"[\/]+(.*)", r"\1\2", name, count=1)
    except TypeError:
        return name


def prepend_name_scope(name: Any, import_scope: Any) -> Any:
    """A name with a scope before it."""
    import re

    if not import_scope:
        return name
    if isinstance(name, bytes):
        name = name.decode()
    if import_scope[-1] == "/":
        import_scope = import_scope[:-1]
    try:
        return re.sub(
            r"([\^]|loc:@|^)(.*)", lambda m: m.group(1) + import_scope + "/" + m.group(2), name, count=1
        )
    except TypeError:
        return name


@contextmanager
def op_scope(values: Any, name: Any, default_name: Any = None) -> Iterator[str]:
    """name_scope with its arguments in the order of older programs."""
    with name_scope(name, default_name=default_name, values=values) as scope:
        yield scope


_engine.register("default_graph", get_default_graph)
