# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Decorators of tests."""

from __future__ import annotations

import contextlib
import functools
import gc
import unittest
from collections.abc import Callable, Iterator
from typing import Any

_Function = Callable[..., Any]


def for_all_test_methods(decorator: Any, *args: Any, **kwargs: Any) -> Any:
    """Class decorator that applies `decorator` to every method whose name begins with test."""

    def decorate_class(cls: Any) -> Any:
        for name in dir(cls):
            value = getattr(cls, name)
            if callable(value) and name.startswith("test") and name != "test_session":
                setattr(cls, name, decorator(*args, **kwargs)(value))
        return cls

    return decorate_class


def _optional_call(decorate: Callable[[_Function], _Function], func: Any) -> Any:
    """The decorator, or its result for `func`: for decorators with and without brackets."""
    return decorate if func is None else decorate(func)


def run_in_graph_and_eager_modes(
    func: Any = None,
    config: Any = None,
    use_gpu: bool = True,
    reset_test: bool = True,
    assert_no_eager_garbage: bool = False,
) -> Any:
    """Runs a test twice: in a session of a graph, and in eager mode."""
    from millrace.python.eager import context
    from millrace.python.framework import ops

    def decorate(f: _Function) -> _Function:
        if isinstance(f, type):
            raise ValueError(
                "`run_in_graph_and_eager_modes` only supports test methods. Did you mean to use "
                "`run_all_in_graph_and_eager_modes`?"
            )

        @functools.wraps(f)
        def decorated(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                with context.graph_mode():
                    with self.test_session(use_gpu=use_gpu, config=config):
                        f(self, *args, **kwargs)
            except unittest.case.SkipTest:
                pass
            # The second run starts in the same state as the first.
            if reset_test:
                self.tearDown()
                self._tempdir = None
            with ops.Graph().as_default(), context.eager_mode():
                if reset_test:
                    self.setUp()
                f(self, *args, **kwargs)

        return decorated

    return _optional_call(decorate, func)


def run_all_in_graph_and_eager_modes(cls: Any) -> Any:
    """`run_in_graph_and_eager_modes` of all test methods of a class."""
    base_decorator = run_in_graph_and_eager_modes
    for name in dir(cls):
        if (
            not name.startswith("test")
            or name.startswith("testSkipEager")
            or name.startswith("test_skip_eager")
            or name == "test_session"
        ):
            continue
        value = getattr(cls, name, None)
        if callable(value):
            setattr(cls, name, base_decorator(value))
    return cls


def _identity_decorator(func: Any = None, *unused_args: Any, **unused_kwargs: Any) -> Any:
    return _optional_call(lambda f: f, func)


def deprecated_graph_mode_only(func: Any = None) -> Any:
    """Runs a test, or all of a class, in graph mode."""

    def decorate(f: Any) -> Any:
        if isinstance(f, type):
            for name in dir(f):
                value = getattr(f, name)
                if callable(value) and name.startswith(("setUp", "test")) and name != "test_session":
                    setattr(f, name, decorate(value))
            return f

        @functools.wraps(f)
        def decorated(self: Any, *args: Any, **kwargs: Any) -> Any:
            from millrace.python.eager import context

            with context.graph_mode():
                return f(self, *args, **kwargs)

        return decorated

    return _optional_call(decorate, func)


run_deprecated_v1 = deprecated_graph_mode_only
run_all_in_deprecated_graph_mode_only = deprecated_graph_mode_only
build_as_function_and_v1_graph = _identity_decorator
run_in_deprecated_eager_and_graph_modes = run_in_graph_and_eager_modes
disable_cudnn_autotune = _identity_decorator
use_deterministic_cudnn = _identity_decorator
deprecated_eager_and_graph_modes = run_in_graph_and_eager_modes


def also_run_as_tf_function(f: _Function) -> _Function:
    """Runs a test twice: in eager mode, and as a function of the graph."""

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> None:
        from millrace.python.eager import context, def_function

        def bound() -> None:
            f(*args, **kwargs)

        with context.eager_mode():
            bound()
            def_function.function(bound, autograph=False)()

    return decorated


def py_func_if_in_function(f: _Function) -> _Function:
    """While a function is traced, wraps `f` in a py_function, which gets the values of tensor arguments."""

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        from millrace.python.framework import ops
        from millrace.python.ops import script_ops, variables

        if not ops.get_default_graph().building_function:
            return f(*args, **kwargs)
        places = [i for i, arg in enumerate(args) if isinstance(arg, (ops.Tensor, variables.Variable))]

        def inner(*values: Any) -> list[Any]:
            changed = list(args)
            for place, value in zip(places, values):
                changed[place] = value
            f(*changed, **kwargs)
            return []

        return script_ops.py_func(inner, [args[i] for i in places], [])

    return decorated


def run_v1_only(reason: Any, func: Any = None) -> Any:
    """Skips a test, or all of a class, where the program has the behaviour of version 2."""
    if not isinstance(reason, str):
        # Without brackets the function comes first.
        func, reason = (reason if func is None else func), ""

    def decorate(f: Any) -> Any:
        if isinstance(f, type):
            for name in dir(f):
                value = getattr(f, name)
                if callable(value) and name.startswith(("setUp", "test")) and name != "test_session":
                    setattr(f, name, decorate(value))
            return f

        @functools.wraps(f)
        def decorated(self: Any, *args: Any, **kwargs: Any) -> Any:
            from millrace.python import tf2

            if tf2.enabled():
                self.skipTest(reason)
            return f(self, *args, **kwargs)

        return decorated

    return _optional_call(decorate, func)


def run_v2_only(func: Any = None) -> Any:
    """Skips a test where the program has the behaviour of version 1."""

    def decorate(f: _Function) -> _Function:
        @functools.wraps(f)
        def decorated(self: Any, *args: Any, **kwargs: Any) -> Any:
            from millrace.python import tf2

            if not tf2.enabled():
                self.skipTest("Test is only compatible with v2")
            return f(self, *args, **kwargs)

        return decorated

    return _optional_call(decorate, func)


def run_gpu_only(func: Any = None) -> Any:
    """Skips a test where there is no GPU."""

    def decorate(f: _Function) -> _Function:
        @functools.wraps(f)
        def decorated(self: Any, *args: Any, **kwargs: Any) -> Any:
            from millrace.python.framework import test_util

            if not test_util.is_gpu_available():
                self.skipTest("Test requires GPU")
            return f(self, *args, **kwargs)

        return decorated

    return _optional_call(decorate, func)


run_cuda_only = run_gpu_only


def enable_control_flow_v2(fn: _Function) -> _Function:
    """Runs a test with loops and conditions that are functional ops."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        from millrace.python.ops import control_flow_util

        before = control_flow_util.ENABLE_CONTROL_FLOW_V2
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = True
        try:
            return fn(*args, **kwargs)
        finally:
            control_flow_util.ENABLE_CONTROL_FLOW_V2 = before

    return wrapper


def disable_control_flow_v2(unused_msg: Any) -> Any:
    """Keeps a test of a class with `with_control_flow_v2` from running a second time."""

    def wrapper(func: Any) -> Any:
        func._disable_control_flow_v2 = True
        return func

    return wrapper


def with_control_flow_v2(cls: Any) -> Any:
    """Adds to each test of a class one with `enable_control_flow_v2`."""
    from millrace.python.ops import control_flow_util

    if control_flow_util.ENABLE_CONTROL_FLOW_V2:
        return cls
    for name, value in dict(cls.__dict__).items():
        if (
            callable(value)
            and name.startswith(unittest.TestLoader.testMethodPrefix)
            and not getattr(value, "_disable_control_flow_v2", False)
        ):
            setattr(cls, name + "WithControlFlowV2", enable_control_flow_v2(value))
    return cls


def enable_output_all_intermediates(fn: _Function) -> _Function:
    return fn


def skip_if(condition: Any) -> Any:
    """Does not run a test if the condition, a value or a function, is true."""

    def real_skip_if(fn: _Function) -> _Function:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            skip = condition() if callable(condition) else condition
            return None if skip else fn(*args, **kwargs)

        return wrapper

    return real_skip_if


@contextlib.contextmanager
def skip_if_error(test_obj: Any, error_type: Any, messages: Any = None) -> Iterator[None]:
    """Skips the test when its body raises an error of a type, with one of the messages."""
    texts = [messages] if isinstance(messages, str) else messages
    try:
        yield
    except error_type as e:
        if texts is None or any(m in str(e) for m in texts):
            test_obj.skipTest("Skipping error: {}: {}".format(type(e).__name__, str(e)))
        raise


def assert_no_new_tensors(f: _Function) -> _Function:
    """Fails a test after which there are more tensors alive than before."""

    @functools.wraps(f)
    def decorator(self: Any, *args: Any, **kwargs: Any) -> Any:
        from millrace.python.framework import ops

        def tensors() -> set[int]:
            gc.collect()
            return {id(obj) for obj in gc.get_objects() if isinstance(obj, ops.Tensor)}

        before = tensors()
        with ops.Graph().as_default():
            result = f(self, *args, **kwargs)
        remaining = len(tensors() - before)
        if remaining:
            raise AssertionError("%d Tensors not deallocated after test." % remaining)
        return result

    return decorator


def _object_count() -> int:
    """The number of objects, except tuples and dicts: the collector untracks those of plain values."""
    return sum(type(obj) not in (tuple, dict) for obj in gc.get_objects())


def assert_no_new_pyobjects_executing_eagerly(f: _Function) -> _Function:
    """Runs a test in eager mode, and fails it when repeating it leaves more objects behind."""

    @functools.wraps(f)
    def decorator(self: Any, *args: Any, **kwargs: Any) -> None:
        from millrace.python.eager import context

        with context.eager_mode():
            gc.disable()
            try:
                for _ in range(2):  # objects that are made once: caches, functions
                    f(self, *args, **kwargs)
                gc.collect()
                before = _object_count()
                for _ in range(3):
                    f(self, *args, **kwargs)
                gc.collect()
                after = _object_count()
            finally:
                gc.enable()
        if after > before:  # the class may not be a TestCase
            raise AssertionError(
                "new_count(%d) is not less than or equal to previous_count(%d)" % (after, before)
            )

    return decorator


def assert_no_garbage_created(f: _Function) -> _Function:
    """Fails a test that leaves reference cycles behind."""

    @functools.wraps(f)
    def decorator(self: Any, **kwargs: Any) -> Any:
        gc.disable()
        previous_debug_flags = gc.get_debug()
        gc.set_debug(0)
        gc.collect()
        previous_garbage = len(gc.garbage)
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            result = f(self, **kwargs)
            gc.collect()
            new_garbage = len(gc.garbage)
            self.assertEqual(previous_garbage, new_garbage)
        finally:
            gc.set_debug(previous_debug_flags)
            del gc.garbage[previous_garbage:]
            gc.enable()
        return result

    return decorator


def disable_xla(description: Any) -> Any:
    """Leaves a test as it is: there is no XLA."""
    return lambda func: func


def disable_all_xla(description: Any) -> Any:
    return lambda cls: cls


def xla_allow_fallback(description: Any) -> Any:
    return lambda func: func


def disable_tfrt(description: Any) -> Any:
    return lambda func: func


def generate_combinations_with_testcase_name(**kwargs: Any) -> list[Any]:
    """All combinations of values by name, as dicts with a `testcase_name`."""
    import itertools

    names = sorted(kwargs)
    result = []
    for values in itertools.product(
        *[kwargs[n] if isinstance(kwargs[n], list) else [kwargs[n]] for n in names]
    ):
        named = dict(zip(names, values))
        label = "".join(
            "_%s_%s" % ("".join(filter(str.isalnum, k)), "".join(filter(str.isalnum, str(v))))
            for k, v in named.items()
        )
        result.append({**named, "testcase_name": "_test" + label})
    return result


def enable_all_xla(description: Any) -> Any:
    """Leaves a test as it is: there is no XLA."""
    return _identity_decorator


def no_xla_auto_jit(description: Any) -> Any:
    """Leaves a test as it is: there is no XLA."""
    return _identity_decorator


def enable_tf_xla_constant_folding(description: Any) -> Any:
    """Leaves a test as it is: there is no XLA."""
    return _identity_decorator


with_c_api = _identity_decorator
with_c_shapes = _identity_decorator


def run_in_async_and_sync_mode(f: _Function) -> _Function:
    """Runs a test in both modes of eager execution, which behave alike here: once is enough."""
    return f


def with_forward_compatibility_horizons(*horizons: Any) -> Any:
    """Runs a test for each forward compatibility horizon (year, month, day); None: the default one."""

    def decorator(test_method: Any) -> Any:
        @functools.wraps(test_method)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
            from millrace.python.compat import compat

            for horizon in horizons:
                if horizon is None:
                    test_method(self, *args, **kwargs)
                else:
                    with compat.forward_compatibility_horizon(*horizon):
                        test_method(self, *args, **kwargs)

        return wrapper

    return decorator


class FakeEagerSession:
    """A substitute for a session in eager mode: `run` returns the values of eager
    tensors."""

    def __init__(self, test_case: Any) -> None:
        self._test_case = test_case

    def run(self, fetches: Any, *args: Any, **kwargs: Any) -> Any:
        """The values of fetches; ValueError for feeds."""
        feed_dict = kwargs.pop("feed_dict", args[0] if args else None)
        if feed_dict:
            raise ValueError("Feeding is not possible where ops are executed at once")
        return self._test_case.evaluate(fetches)
