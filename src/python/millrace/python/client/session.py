# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions, which run graphs."""
from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np

from millrace.python import _engine
from millrace.python.client import _fetches
from millrace.python.client._fetches import (  # noqa: F401
    _FetchHandler,
    _FetchMapper,
    register_session_run_conversion_functions,
)
from millrace.python.client._session_interface import (  # noqa: F401
    SessionInterface,
    _DeviceAttributes,
    _message_bytes,
)
from millrace.python.framework import dtypes, error_interpolation, errors_impl, ops
from millrace.python.training.experimental import mixed_precision_global_state


def _with_mixed_precision(config: Any) -> Any:
    """`config`, or a copy with mixed precision if that is enabled and `config` does not refuse it."""
    if not mixed_precision_global_state.mixed_precision_graph_rewrite_is_enabled:
        mixed_precision_global_state.non_mixed_precision_session_created = True
        return config
    from millrace.core.protobuf import config_pb2, rewriter_config_pb2

    asked = config_pb2.ConfigProto()
    if config is not None:
        asked.CopyFrom(config)
    options = asked.graph_options.rewrite_options
    if options.auto_mixed_precision != rewriter_config_pb2.RewriterConfig.OFF:
        options.auto_mixed_precision = rewriter_config_pb2.RewriterConfig.ON
    return asked


class BaseSession(_engine.SessionBase, SessionInterface):
    """Runs the operations of one graph."""

    def __init__(self, target: Any = "", graph: Any = None, config: Any = None) -> None:
        """Opens a session.

        Args:
          target: "" for this process, or the address of a server.
          graph: the graph; None: the default graph.
          config: a ConfigProto.
        """
        if graph is None:
            graph = ops.get_default_graph()
        elif not isinstance(graph, ops.Graph):
            raise TypeError("graph must be a tf.Graph, but got %s" % type(graph))
        self._graph = graph
        self._opened = False
        self._closed = False
        if target is None:
            target = ""
        if isinstance(target, bytes):
            target = target.decode()
        if not isinstance(target, str):
            raise TypeError("target must be a string, but got %s" % type(target))
        self._target = target.encode()
        self._delete_lock = threading.Lock()
        self._dead_handles: list[str] = []
        self._watched_runs = 0
        if config is not None and type(config).__name__ != "ConfigProto":
            raise TypeError("config must be a tf.ConfigProto, but got %s" % type(config))
        config = _with_mixed_precision(config)
        self._config = config
        self._add_shapes = bool(config is not None and config.graph_options.infer_shapes)
        self._open(graph, target, None if config is None else config.SerializeToString())
        self._opened = True
        graph._sessions.add(self)

    def list_devices(self) -> list[_DeviceAttributes]:
        """The devices of the session."""
        return [_DeviceAttributes(*entry) for entry in self._device_list()]

    def close(self) -> None:
        """Ends the session; runs in progress are cancelled."""
        if self._opened and not self._closed:
            self._closed = True
            self._close_session()

    @property
    def graph(self) -> Any:
        """The graph that the session runs."""
        return self._graph

    @property
    def graph_def(self) -> Any:
        """The graph as a GraphDef."""
        return self._graph.as_graph_def(add_shapes=self._add_shapes)

    @property
    def sess_str(self) -> Any:
        return self._target

    def as_default(self) -> Any:
        """A context in which this is the default session. It does not close the session."""
        return ops.default_session(self)

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs the operations that the fetches need, and returns the fetches' values.

        Args:
          fetches: a tensor, an operation, a name of one, a variable, or a list, tuple, named tuple, dict or attrs
            object of these.
          feed_dict: values by tensor.
          options: a RunOptions.
          run_metadata: a RunMetadata that is filled in.

        Returns:
          The values in the structure of `fetches`: arrays for tensors, None for operations.

        Raises:
          RuntimeError: if the session is closed.
          TypeError: if a fetch or a key of `feed_dict` is of a wrong type.
          ValueError: if a name is not in the graph, or a value has another shape or type.
        """
        if options is None and run_metadata is None:
            try:
                result = self._fast_run(fetches, feed_dict)
            except errors_impl.OpError as error:
                raise self._with_operation(error) from None
            if result is not NotImplemented:
                return result
        encoded = _message_bytes(options, "options", "RunOptions")
        if options is not None and options.debug_options.debug_tensor_watch_opts:
            from millrace.python.debug.lib import _watched_runs

            return _watched_runs.run(self, fetches, feed_dict, options, run_metadata)
        return self._run(None, fetches, feed_dict, encoded, run_metadata)

    def _fast_run(self, fetches: Any, feed_dict: Any) -> Any:
        graph = self._graph
        if self._closed or graph._has_session_handles or self._dead_handles:
            return NotImplemented
        return super()._fast_run(  # type: ignore[misc]
            fetches, feed_dict, graph._unfetchable_ops, graph._unfeedable_tensors
        )

    def partial_run(self, handle: Any, fetches: Any, feed_dict: Any = None) -> Any:
        """Runs a part of a step that partial_run_setup prepared: feeds more, fetches more."""
        return self._run(handle, fetches, feed_dict, None, None)

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> Any:
        """Prepares a step that is fed and fetched in several calls.

        Args:
          fetches: all that will be fetched.
          feeds: all that will be fed.

        Returns:
          A handle for partial_run.
        """
        self._check_open()
        feed_list = []
        for feed in feeds if isinstance(feeds, (list, tuple)) else ([] if feeds is None else [feeds]):
            for subfeed in _fetches.expand_feed_keys(feed):
                try:
                    tensor = self.graph.as_graph_element(subfeed, allow_tensor=True, allow_operation=False)
                except Exception as e:
                    e.args = (
                        "Cannot interpret feed_list key as Tensor: " + str(e.args[0] if e.args else ""),
                    )
                    raise e
                feed_list.append(tensor)
        handler = _FetchHandler(self._graph, fetches, {})
        try:
            return self._partial_run_setup(feed_list, handler.fetches(), handler.targets())
        except errors_impl.OpError as error:
            raise self._with_operation(error) from None

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if self.graph.version == 0:
            raise RuntimeError(
                "The Session graph is empty.  Add operations to the graph before calling run()."
            )

    def _run(self, handle: Any, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        self._check_open()
        feeds: dict[Any, Any] = {}
        if feed_dict:
            feeds = self._feeds_of(feed_dict)
        handler = _FetchHandler(self._graph, fetches, {t: v for t, v in feeds.items()})
        self._update_with_movers(feeds)
        fetched, targets = handler.fetches(), handler.targets()
        if fetched or targets or (handle is not None and feeds):
            results = self._do_run(handle, targets, fetched, feeds, options, run_metadata)
        else:
            results = []
        return handler.build_results(self, results)

    def _feeds_of(self, feed_dict: Any) -> dict[Any, Any]:
        from millrace.python.util import nest

        if hasattr(nest, "flatten_dict_items"):
            feed_dict = nest.flatten_dict_items(feed_dict)
        feeds: dict[Any, Any] = {}
        for feed, feed_val in feed_dict.items():
            for subfeed, value in _fetches.expand_feed(feed, feed_val):
                try:
                    tensor = self.graph.as_graph_element(subfeed, allow_tensor=True, allow_operation=False)
                except Exception as e:
                    raise TypeError(
                        "Cannot interpret feed_dict key as Tensor: " + str(e.args[0] if e.args else "")
                    ) from None
                if isinstance(value, ops.Tensor):
                    raise TypeError(
                        "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, "
                        "strings, lists, numpy ndarrays, or TensorHandles. For reference, the tensor object was %s which "
                        "was passed to the feed with key %s." % (str(feed_val), str(feed))
                    )
                feeds[tensor] = self._value_for(tensor, value)
        return feeds

    def _value_for(self, tensor: Any, value: Any) -> Any:
        kind = tensor.dtype.as_numpy_dtype if tensor.dtype.is_numpy_compatible else None
        if isinstance(value, int) and kind is not None:
            exact = kind is not object and (
                np.dtype(kind).kind not in "iu" or int(np.asarray(value).astype(kind)) == value
            )
            if not exact:
                raise TypeError(
                    "Type of feed value "
                    + str(value)
                    + " with type "
                    + str(type(value))
                    + " is not compatible with Tensor "
                    "type "
                    + str(kind)
                    + ". Try explicitly setting the type of the feed tensor to a larger type (e.g. int64)."
                )
        if hasattr(value, "_get_numpy_handle") or type(value).__name__ == "TensorHandle":
            array = value.to_numpy_array()
        elif kind is None:
            array = np.asarray(value)
        else:
            array = np.asarray(value, dtype=kind)
        is_handle = type(value).__name__ == "TensorHandle"
        if (
            not is_handle
            and not tensor.shape.is_compatible_with(array.shape)
            and tensor.dtype != dtypes.resource
        ):
            raise ValueError(
                "Cannot feed value of shape %r for Tensor %r, which has shape %r"
                % (array.shape, tensor.name, str(tensor.shape))
            )
        if not self.graph.is_feedable(tensor):
            raise ValueError("Tensor %s may not be fed." % tensor)
        return array

    def _do_run(
        self, handle: Any, targets: Any, fetches: Any, feeds: dict[Any, Any], options: Any, run_metadata: Any
    ) -> Any:
        try:
            if handle is not None:
                if targets:
                    raise RuntimeError("partial_run() requires empty target_list.")
                return self._partial_run_step(handle, list(feeds.items()), fetches)
            results, metadata = self._run_step(
                list(feeds.items()), fetches, targets, options, run_metadata is not None
            )
        except errors_impl.OpError as error:
            raise self._with_operation(error) from None
        if run_metadata is not None and metadata is not None:
            run_metadata.ParseFromString(metadata)
        return results

    _NODEDEF_NAME_RE = re.compile(r"\[\[(?:\{\{)?(?:node|Node:) ?([^\}\] =]*)")

    def _with_operation(self, error: Any) -> Any:
        """The exception, with the operation that its text names."""
        message = error.message
        found = self._NODEDEF_NAME_RE.search(message)
        node_def = op = None
        if found is not None:
            op = self._graph._nodes_by_name.get(found.group(1))
            if op is not None:
                node_def = op.node_def
        message = error_interpolation.interpolate(message, self._graph)
        return errors_impl._make_specific_exception(node_def, op, message, error.error_code)

    def _update_with_movers(self, feeds: dict[Any, Any]) -> None:
        """Does nothing: handles of tensors work on all devices."""

    def _register_dead_handle(self, handle: str) -> None:
        # These handles are deleted together before the next run.
        with self._delete_lock:
            self._dead_handles.append(handle)
            tensors = self._dead_handles if len(self._dead_handles) >= 10 else None
            if tensors is not None:
                self._dead_handles = []
        if tensors:
            from millrace.python.ops import session_ops

            feeds: dict[Any, Any] = {}
            fetches = []
            for deleter_key, tensor_handle in enumerate(tensors):
                holder, deleter = session_ops._get_handle_deleter(self.graph, deleter_key, tensor_handle)
                feeds[holder] = tensor_handle
                fetches.append(deleter)
            self.run(fetches, feed_dict=feeds)

    def make_callable(self, fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Any:
        """A function that runs a step: `feed_list` are its arguments by position.

        Args:
          fetches: as for run.
          feed_list: tensors or names.
          accept_options: whether the function takes `options` and `run_metadata`, too.
        """
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise TypeError("`feed_list` must be a list or tuple.")
        feeds = [self.graph.as_graph_element(feed, allow_operation=False) for feed in feed_list or []]
        handler = _FetchHandler(self._graph, fetches, {})
        fetched, targets = handler.fetches(), handler.targets()
        if accept_options:
            return self._callable_with_options(feeds, handler)
        single = isinstance(fetches, (ops.Tensor, ops.Operation))
        if single:
            # A fast path; errors get the operation that they name.
            return _CallableWithErrors(self, self._make_fast_callable(feeds, fetched, targets, True), None)
        return _CallableWithErrors(self, self._make_fast_callable(feeds, fetched, targets, False), handler)

    def _make_callable_from_options(self, callable_options: Any) -> Any:
        """A function of arrays that returns a list: the feeds and fetches are those of CallableOptions."""
        for field in ("tensor_connection", "feed_devices", "fetch_devices"):
            if getattr(callable_options, field):
                raise NotImplementedError("CallableOptions.%s is not supported in Python" % field)
        run_options = callable_options.run_options
        graph = self.graph
        feeds = [graph.as_graph_element(name, allow_operation=False) for name in callable_options.feed]
        handler = _FetchHandler(graph, list(callable_options.fetch) + list(callable_options.target), {})
        count = len(callable_options.fetch)
        call = self._callable_with_options(feeds, handler)
        options = run_options if callable_options.HasField("run_options") else None

        def run(*values: Any, **kwargs: Any) -> Any:
            if len(values) != len(feeds):
                raise ValueError("Expected %d feeds, but got %d" % (len(feeds), len(values)))
            return call(*values, options=options, run_metadata=kwargs.get("run_metadata"))[:count]

        return run

    def _callable_with_options(self, feeds: list[Any], handler: Any) -> Any:
        def call(*values: Any, **kwargs: Any) -> Any:
            options = _message_bytes(kwargs.pop("options", None), "options", "RunOptions")
            metadata = kwargs.pop("run_metadata", None)
            fed = {t: self._value_for(t, v) for t, v in zip(feeds, values)}
            results = self._do_run(None, handler.targets(), handler.fetches(), fed, options, metadata)
            return handler.build_results(self, results)

        return call


class _CallableWithErrors:
    """The result of make_callable."""

    __slots__ = ("_session", "_fast", "_handler")

    def __init__(self, session: Any, fast: Any, handler: Any) -> None:
        self._session, self._fast, self._handler = session, fast, handler

    def __call__(self, *args: Any) -> Any:
        try:
            results = self._fast(*args)
        except errors_impl.OpError as error:
            raise self._session._with_operation(error) from None
        return results if self._handler is None else self._handler.build_results(self._session, results)


class Session(BaseSession):
    """Runs the operations of a graph: `with tf.Session() as sess: sess.run(...)`."""

    def __init__(self, target: Any = "", graph: Any = None, config: Any = None) -> None:
        """Opens a session.

        Args:
          target: "" for this process, or the address of a server.
          graph: the graph; None: the default graph.
          config: a ConfigProto.
        """
        super().__init__(target, graph, config=config)
        self._default_graph_context_manager: Any = None
        self._default_session_context_manager: Any = None

    def __enter__(self) -> Any:
        if self._default_graph_context_manager is None:
            self._default_graph_context_manager = self.graph.as_default()
        else:
            raise RuntimeError(
                "Session context managers are not re-entrant. Use `Session.as_default()` if you want to enter a session multiple times."
            )
        if self._default_session_context_manager is None:
            self._default_session_context_manager = self.as_default()
        self._default_graph_context_manager.__enter__()
        return self._default_session_context_manager.__enter__()

    def __exit__(self, exec_type: Any, exec_value: Any, exec_tb: Any) -> None:
        try:
            self._default_session_context_manager.__exit__(exec_type, exec_value, exec_tb)
        except RuntimeError as error:
            if error is not exec_value:
                raise
        self._default_graph_context_manager.__exit__(exec_type, exec_value, exec_tb)
        self._default_session_context_manager = None
        self._default_graph_context_manager = None
        self.close()

    @staticmethod
    def reset(target: Any, containers: Any = None, config: Any = None) -> None:
        """Drops the resources in containers (all when none are named) of the sessions of a target, and closes those."""
        if target is not None and not isinstance(target, (str, bytes)):
            raise TypeError("target must be a string, but got %s" % type(target))
        target = target.decode() if isinstance(target, bytes) else (target or "")
        if containers is not None and not isinstance(containers, list):
            raise TypeError("containers must be a list")
        names = [c.decode() if isinstance(c, bytes) else c for c in containers or []]
        _engine.reset_containers(target, names, None if config is None else config.SerializeToString())


class InteractiveSession(BaseSession):
    """A session that makes itself the default, for shells and notebooks."""

    _count_lock = threading.Lock()
    _active_session_count = 0

    def __init__(self, target: Any = "", graph: Any = None, config: Any = None) -> None:
        """Opens a session and makes it the default session."""
        from millrace.core.protobuf import config_pb2

        config = (
            config_pb2.ConfigProto()
            if config is None
            else type(config).FromString(config.SerializeToString())
        )
        # In a shell the graph grows between runs.
        config.graph_options.place_pruned_graph = True
        super().__init__(target, graph, config)
        with InteractiveSession._count_lock:
            if InteractiveSession._active_session_count > 0:
                import warnings

                warnings.warn(
                    "An interactive session is already active. This can cause out-of-memory errors in some cases. You must "
                    "explicitly call `InteractiveSession.close()` to release resources held by the other session(s)."
                )
            InteractiveSession._active_session_count += 1
        self._explicitly_closed = False
        # Shells close sessions in any order, so nesting is not enforced.
        self._default_stack = ops._default_session_stack.stack
        self._default_stack.append(self)
        self._explicit_graph = graph
        self._default_graph: Any = None
        if self._explicit_graph is not None:
            self._default_graph = graph.as_default()
            self._default_graph.__enter__()

    def close(self) -> None:
        """Ends the session; another one becomes the default."""
        super().close()
        with InteractiveSession._count_lock:
            if self._explicitly_closed:
                return
            InteractiveSession._active_session_count -= 1
            self._explicitly_closed = True
        if self._explicit_graph is not None:
            self._default_graph.__exit__(None, None, None)
            self._default_graph = None
        if self in self._default_stack:
            self._default_stack.remove(self)
