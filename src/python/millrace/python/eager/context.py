# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Whether this thread is in eager mode or builds graphs, and on which device ops are executed."""
from __future__ import annotations

import random
import threading
from contextlib import contextmanager
from typing import Any, Callable, Iterator

from millrace.python import _engine
from millrace.python.eager._context_settings import (  # noqa: F401
    ContextSettings,
    device_policy,
    get_log_device_placement,
    placement,
    set_log_device_placement,
)
from millrace.python.framework import device as pydev

GRAPH_MODE = 0
EAGER_MODE = 1
DEVICE_PLACEMENT_EXPLICIT = 0
DEVICE_PLACEMENT_WARN = 1
DEVICE_PLACEMENT_SILENT = 2
DEVICE_PLACEMENT_SILENT_FOR_INT32 = 3
SYNC = 0
ASYNC = 1
_MAXINT32 = 2**31 - 1
_FIRST_CPU = "/job:localhost/replica:0/task:0/device:CPU:0"

default_execution_mode = GRAPH_MODE
executing_eagerly: Callable[[], bool] = _engine.executing_eagerly


def in_eager_mode() -> bool:
    """Whether eager execution is enabled in this thread."""
    return executing_eagerly()


def in_graph_mode() -> bool:
    """Whether ops are added to a graph."""
    return not executing_eagerly()


class _ThreadLocalData(threading.local):
    """The state of a thread."""

    def __init__(self) -> None:
        self.scope_name = ""
        self.device_name = ""
        self.summary_writer: Any = None
        self.summary_recording: Any = None
        self.summary_recording_distribution_strategy: Any = True
        self.summary_step: Any = None
        self.invoking_op_callbacks = False
        self.function_call_options: Any = None


_thread = _ThreadLocalData()


class _Mode:
    """A context in which the thread has a mode."""

    __slots__ = ("_eager", "_old")

    def __init__(self, eager: bool) -> None:
        self._eager = eager
        self._old: list[bool] = []

    def __enter__(self) -> _Mode:
        self._old.append(_engine.set_eager(self._eager))
        return self

    def __exit__(self, *args: Any) -> None:
        _engine.set_eager(self._old.pop())

    def __call__(self, function: Any) -> Any:
        import functools

        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with _Mode(self._eager):
                return function(*args, **kwargs)

        return inner


def eager_mode() -> Any:
    """A context in which ops are executed eagerly."""
    return _Mode(True)


def graph_mode() -> Any:
    """A context in which ops are added to the default graph."""
    return _Mode(False)


class FunctionCallOptions:
    """Options of calls of functions."""

    def __init__(self, executor_type: Any = None, config_proto: Any = None) -> None:
        self.executor_type = executor_type
        self.config_proto_serialized = config_proto if isinstance(config_proto, (bytes, type(None))) else (
            config_proto.SerializeToString()
        )  # fmt: skip


class _EagerDeviceContext:
    """A context in which ops are executed on a device."""

    def __init__(self, ctx: Context, device_name: Any) -> None:
        self._name = device_name
        self._stack: list[str] = []
        del ctx

    def __enter__(self) -> None:
        old, new = _thread.device_name, self._name
        if new is not None:
            if not isinstance(new, str):
                if not hasattr(new, "to_string"):
                    raise ValueError("Expecting a string device name, got %s(%s)" % (type(new), new))
                new = new.to_string()
            if new:
                base = pydev.DeviceSpec.from_string(old or _FIRST_CPU)
                new = base.make_merged_spec(pydev.DeviceSpec.from_string(new)).to_string()
        self._stack.append(old)
        _set_device(new or "")

    def __exit__(self, *args: Any) -> None:
        _set_device(self._stack.pop())


def _set_device(name: str) -> None:
    _thread.device_name = name
    placement.device = "" if name == _FIRST_CPU else name
    _engine.set_eager_device(name or None)


def _thread_property(name: str, doc: str) -> Any:
    return property(
        lambda self: getattr(_thread, name), lambda self, value: setattr(_thread, name, value), doc=doc
    )


class Context(ContextSettings):
    """The devices, functions and seeds with which ops are executed. The process has one."""

    def __init__(
        self,
        config: Any = None,
        device_policy: Any = None,
        execution_mode: Any = None,
        server_def: Any = None,
    ) -> None:
        self._config = config
        self._device_policy = device_policy
        self._execution_mode = SYNC if execution_mode is None else execution_mode
        self._server_def = server_def
        self._seed: Any = None
        self._rng: Any = None
        self._post_execution_callbacks: list[Any] = []
        self._context_switches = None
        self._lock = threading.RLock()
        self._started = False

    scope_name = _thread_property("scope_name", "The scope of names.")
    summary_writer = _thread_property("summary_writer", "The default writer of summaries.")
    summary_recording = _thread_property("summary_recording", "Whether summaries are written.")
    summary_recording_distribution_strategy = _thread_property(
        "summary_recording_distribution_strategy", "Whether summaries are written, for strategies."
    )
    summary_step = _thread_property("summary_step", "The default step of summaries.")
    function_call_options = _thread_property("function_call_options", "Options of calls of functions.")

    def executing_eagerly(self) -> bool:
        return executing_eagerly()

    def ensure_initialized(self) -> None:
        """Makes devices and threads, if that was not done yet."""
        if self._started:
            return
        from millrace.python.framework import config as config_module

        with self._lock:
            config = config_module._eager_config(self._config).SerializeToString()
            policy = DEVICE_PLACEMENT_SILENT if self._device_policy is None else self._device_policy
            _engine.eager_start(config, policy, self._execution_mode == ASYNC)
            _engine.eager_devices()
            self._started = True

    @property
    def _handle(self) -> Any:
        self.ensure_initialized()
        return self

    @property
    def _context_handle(self) -> Any:
        return self if self._started else None

    def _mode(self, mode: int) -> Any:
        return _Mode(mode == EAGER_MODE)

    @property
    def config(self) -> Any:
        return self._config

    @property
    def device_policy(self) -> Any:
        return DEVICE_PLACEMENT_SILENT if self._device_policy is None else self._device_policy

    @device_policy.setter
    def device_policy(self, policy: Any) -> None:
        self._device_policy = policy

    @property
    def execution_mode(self) -> int:
        """SYNC or ASYNC."""
        return self._execution_mode

    @execution_mode.setter
    def execution_mode(self, mode: Any) -> None:
        if mode not in (None, SYNC, ASYNC):
            raise ValueError("Execution mode should be None/SYNC/ASYNC. Got %s" % mode)
        # After ops were executed, the engine keeps its mode. Both modes have the same results; errors may be
        # raised earlier than in ASYNC.
        self._execution_mode = SYNC if mode is None else mode

    def is_async(self) -> bool:
        """Whether the execution mode is ASYNC."""
        return self._execution_mode == ASYNC

    @property
    def device_name(self) -> str:
        """The device on which ops are executed; "" when none was set."""
        return _thread.device_name

    @property
    def device_spec(self) -> Any:
        return pydev.DeviceSpec.from_string(_thread.device_name)

    def device(self, name: Any) -> Any:
        """A context in which ops are executed on the device of that name."""
        return _EagerDeviceContext(self, name)

    def devices(self) -> list[str]:
        """The names of all devices."""
        self.ensure_initialized()
        return [name for name, _ in _engine.eager_devices()]

    list_devices = devices

    def host_address_space(self) -> Any:
        return 0

    def num_gpus(self) -> int:
        self.ensure_initialized()
        return sum(1 for _, kind in _engine.eager_devices() if kind == "GPU")

    def add_function(self, fn: Any) -> None:
        raise NotImplementedError("Functions are added as FunctionDefs: add_function_def")

    def add_function_def(self, fdef: Any) -> None:
        """Adds a FunctionDef, unless there is one of that name."""
        self.ensure_initialized()
        if not _engine.eager_has_function(fdef.signature.name):
            _engine.eager_add_function(fdef.SerializeToString())

    def remove_function(self, name: Any) -> None:
        self.ensure_initialized()
        _engine.eager_remove_function(name)

    def has_function(self, name: Any) -> bool:
        self.ensure_initialized()
        return _engine.eager_has_function(name.decode() if isinstance(name, bytes) else name)

    def add_post_execution_callback(self, callback: Any) -> None:
        """`callback(op name, inputs, attributes, outputs, name)` is called after each op that is executed."""
        from millrace.python.eager import tape

        self._post_execution_callbacks.append(callback)
        tape._listen(self._post_execution_callbacks)

    def clear_post_execution_callbacks(self) -> None:
        from millrace.python.eager import tape

        self._post_execution_callbacks.clear()
        tape._listen([])

    @property
    def post_execution_callbacks(self) -> list[Any]:
        return self._post_execution_callbacks

    def _set_global_seed(self, seed: Any) -> None:
        self._seed = seed
        self._rng = random.Random(seed)
        # Existing kernels of random ops continue their sequences; new ones start.
        if self._started:
            _engine.eager_clear_caches()

    def _internal_operation_seed(self) -> int:
        """The seed of an op that has none of its own."""
        return self._rng.randint(0, _MAXINT32)

    def _clear_caches(self) -> None:
        _engine.eager_clear_caches()

    def start_step(self) -> None:
        _engine.eager_step(True)

    def end_step(self) -> None:
        _engine.eager_step(False)

    def async_wait(self) -> None:
        """Waits for running ops; does nothing if ops are executed synchronously."""

    def async_clear_error(self) -> None:
        """Clears the error of an op that was executed asynchronously."""

    def enable_run_metadata(self) -> None:
        """Does nothing: eagerly executed ops are not measured."""

    def disable_run_metadata(self) -> None:
        """Does nothing: eagerly executed ops are not measured."""

    def export_run_metadata(self) -> Any:
        from millrace.core.protobuf import config_pb2

        return config_pb2.RunMetadata()


_context: Any = None
_context_lock = threading.Lock()


def context() -> Context:
    """The context of the process."""
    global _context
    if _context is None:
        with _context_lock:
            if _context is None:
                _context = Context()
    return _context


context_safe = context


def ensure_initialized() -> None:
    """Makes devices and threads, if that was not done yet."""
    context().ensure_initialized()


def shared_name(name: Any = None) -> Any:
    """The name that a resource is shared under: a unique one in eager mode.

    Raises nothing: graphs keep the name that is given.
    """
    if name or not executing_eagerly():
        return name
    # In eager mode each op makes a resource of its own.
    return "cd2c89b7-88b7-44c8-ad83-06c2a9158347"


def anonymous_name() -> str:
    """The name under which nothing is shared."""
    return "cd2c89b7-88b7-44c8-ad83-06c2a9158347"


def global_seed() -> Any:
    return context()._seed


def set_global_seed(seed: Any) -> None:
    """Sets the seed from which ops without one get theirs."""
    context()._set_global_seed(seed)


def internal_operation_seed() -> int:
    return context()._internal_operation_seed()


def device(name: Any) -> Any:
    """A context in which ops are executed on a device."""
    context().ensure_initialized()
    return context().device(name)


def list_devices() -> list[str]:
    return context().devices()


def num_gpus() -> int:
    return context().num_gpus()


def set_execution_mode(mode: Any) -> None:
    """SYNC or ASYNC, before anything is executed."""
    context().execution_mode = mode


@contextmanager
def execution_mode(mode: Any) -> Iterator[None]:
    """A context with an execution mode."""
    old = context().execution_mode
    context().execution_mode = mode
    try:
        yield
    finally:
        context().execution_mode = old


def is_async() -> bool:
    """Whether the execution mode is ASYNC."""
    return context().is_async()


def async_wait() -> None:
    context().async_wait()


def async_clear_error() -> None:
    context().async_clear_error()


def add_function(fdef: Any) -> None:
    context().add_function(fdef)


def remove_function(name: Any) -> None:
    context().remove_function(name)


def enable_run_metadata() -> None:
    context().enable_run_metadata()


def disable_run_metadata() -> None:
    context().disable_run_metadata()


def export_run_metadata() -> Any:
    return context().export_run_metadata()


@contextmanager
def function_executor_type(executor_type: Any) -> Iterator[None]:
    """A context in which calls of functions request an executor type; the engine has one type only."""
    old = _thread.function_call_options
    _thread.function_call_options = FunctionCallOptions(executor_type)
    try:
        yield
    finally:
        _thread.function_call_options = old


function_config_proto = function_executor_type


def enable_by_default(config: Any, device_policy: Any, mode: Any, server_def: Any = None) -> None:
    """Implements tf.enable_eager_execution after its arguments have been checked."""
    global default_execution_mode, _context
    default_execution_mode = EAGER_MODE
    with _context_lock:
        if _context is None:
            _context = Context(config, device_policy, mode, server_def)
        elif (
            (config is not None and config is not _context._config)
            or (device_policy is not None and device_policy is not _context._device_policy)
            or (mode is not None and mode is not _context._execution_mode)
        ):
            raise ValueError(
                "Trying to change the options of an active eager execution. Context config: %s, specified config: %s. "
                "Context device policy: %s, specified device policy: %s. Context execution mode: %s, specified "
                "execution mode %s."
                % (
                    _context._config, config, _context._device_policy, device_policy, _context._execution_mode, mode,
                )
            )  # fmt: skip
    _engine.set_eager_by_default(True)
    _engine.set_eager(True)


def disable_by_default() -> None:
    """Threads add ops to graphs from now on."""
    global default_execution_mode
    default_execution_mode = GRAPH_MODE
    _engine.set_eager_by_default(False)
    _engine.set_eager(False)


def __getattr__(name: str) -> Any:
    if name in ("PhysicalDevice", "LogicalDevice", "VirtualDeviceConfiguration"):
        from millrace.python.framework import config as config_module

        return getattr(config_module, name)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
