# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""TensorFlowTestCase: sessions, threads and messages in tests."""

from __future__ import annotations

import contextlib
import os
import random
import re
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from millrace.python.client import session
from millrace.python.framework import errors
from millrace.python.framework import errors_impl
from millrace.python.framework import ops
from millrace.python.framework import random_seed
from millrace.python.framework import sparse_tensor
from millrace.python.framework import versions
from millrace.python.framework._test_arrays import ArrayAssertions
from millrace.python.platform import googletest
from millrace.python.platform import tf_logging as logging
from millrace.python.util import compat
from millrace.python.util import nest


class ErrorLoggingSession(session.Session):
    """A session that logs errors of runs before it raises them."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().run(*args, **kwargs)
        except Exception as e:
            # Tests often expect OutOfRangeError.
            if not isinstance(e, errors.OutOfRangeError):
                logging.error(str(e))
            raise


class _CheckedThread:
    """A thread whose error fails the test when it is joined."""

    def __init__(self, testcase: Any, target: Any, args: Any = None, kwargs: Any = None) -> None:
        self._testcase = testcase
        self._target = target
        self._args = args or ()
        self._kwargs = kwargs or {}
        self._thread = threading.Thread(target=self._protected_run)
        self._exception: Any = None
        self._is_thread_joined = False

    def _protected_run(self) -> None:
        try:
            self._target(*self._args, **self._kwargs)
        except Exception as e:
            self._exception = e

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        """Waits for the end; fails the test with the thread's error."""
        self._is_thread_joined = True
        self._thread.join()
        if self._exception is not None:
            self._testcase.fail("Error in checkedThread: %s" % str(self._exception))

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def check_termination(self) -> None:
        """Fails if the thread was not joined, or is still running."""
        if not self._is_thread_joined:
            if self.is_alive():
                raise RuntimeError(
                    "Thread was not joined with main thread, and is still running when the test finished."
                )
            self._testcase.fail("A checked thread was not joined.")


class TensorFlowTestCase(ArrayAssertions):
    """Base of tests: a new default graph for each, with fixed seeds."""

    def __init__(self, methodName: str = "runTest") -> None:  # noqa: N803
        super().__init__(methodName)
        self._threads: list[_CheckedThread] = []
        self._tempdir: str | None = None
        self._cached_session: Any = None
        self._cached_graph: Any = None
        self._cached_config: Any = None
        self._cached_force_gpu: Any = None

    def setUp(self) -> None:  # noqa: N802
        self._ClearCachedSession()
        random.seed(random_seed.DEFAULT_GRAPH_SEED)
        np.random.seed(random_seed.DEFAULT_GRAPH_SEED)
        # A test that failed inside a with statement may have left its graph as the default.
        ops._default_graph_stack.reset()
        ops.reset_default_graph()
        random_seed.set_random_seed(random_seed.DEFAULT_GRAPH_SEED)

    def tearDown(self) -> None:  # noqa: N802
        for thread in self._threads:
            thread.check_termination()
        self._ClearCachedSession()

    def _ClearCachedSession(self) -> None:  # noqa: N802
        if self._cached_session is not None:
            self._cached_session.close()
            self._cached_session = None

    def get_temp_dir(self) -> str:
        """A folder for files of this test, the same in all calls."""
        if not self._tempdir:
            self._tempdir = tempfile.mkdtemp(dir=googletest.GetTempDir())
        return self._tempdir

    @contextlib.contextmanager
    def captureWritesToStream(self, stream: Any) -> Iterator[Any]:  # noqa: N802
        """Context whose value's `contents()` is the text written to a stream, such as sys.stderr, within it."""
        stream.flush()
        fd = stream.fileno()
        with tempfile.TemporaryFile(dir=self.get_temp_dir()) as captured:
            saved = os.dup(fd)
            os.dup2(captured.fileno(), fd)
            reader = _CapturedWrites(stream, captured)
            try:
                yield reader
            finally:
                stream.flush()
                os.dup2(saved, fd)
                os.close(saved)
                reader.finish()

    # Sessions.

    def evaluate(self, tensors: Any) -> Any:
        """Values of tensors in any structure, by the default session, or of eager tensors."""
        if ops.executing_eagerly():
            return self._eval_helper(tensors)
        sess = ops.get_default_session()
        if sess is None:
            with self.test_session() as sess:
                return sess.run(tensors)
        return sess.run(tensors)

    def _eval_tensor(self, tensor: Any) -> Any:
        """The value of a tensor, of a structure of tensors, or of a function that returns one."""
        if tensor is None:
            return None
        if callable(tensor):
            return self._eval_helper(tensor())
        if sparse_tensor.is_sparse(tensor):
            return sparse_tensor.SparseTensorValue(
                tensor.indices.numpy(), tensor.values.numpy(), tensor.dense_shape.numpy()
            )
        if isinstance(tensor, ops.IndexedSlices):
            shape = None if tensor.dense_shape is None else tensor.dense_shape.numpy()
            return ops.IndexedSlicesValue(tensor.values.numpy(), tensor.indices.numpy(), shape)
        try:
            return tensor.numpy()
        except AttributeError as error:
            raise ValueError("Unsupported type %s." % type(tensor)) from error

    def _eval_helper(self, tensors: Any) -> Any:
        return nest.map_structure(self._eval_tensor, tensors)

    @contextlib.contextmanager
    def session(
        self, graph: Any = None, config: Any = None, use_gpu: bool = False, force_gpu: bool = False
    ) -> Iterator[Any]:
        """A new session, the default one in its context, on the CPU unless `use_gpu` is set."""
        if ops.executing_eagerly():
            yield None
            return
        with self._create_session(graph, config, force_gpu) as sess:
            with self._constrain_devices_and_set_default(sess, use_gpu, force_gpu):
                yield sess

    @contextlib.contextmanager
    def cached_session(
        self, graph: Any = None, config: Any = None, use_gpu: bool = False, force_gpu: bool = False
    ) -> Iterator[Any]:
        """As `session`, but the same one in all calls of a test, which must agree in their arguments."""
        if ops.executing_eagerly():
            yield None
            return
        sess = self._get_cached_session(graph, config, force_gpu, crash_if_inconsistent_args=True)
        with self._constrain_devices_and_set_default(sess, use_gpu, force_gpu) as cached:
            yield cached

    def test_session(
        self, graph: Any = None, config: Any = None, use_gpu: bool = False, force_gpu: bool = False
    ) -> Any:
        """`cached_session` without a graph, else `session`."""
        if self.id().endswith(".test_session"):
            self.skipTest("Not a test.")
        return self._test_session(graph, config, use_gpu, force_gpu)

    # Keeps pytest and unittest from running it as a test.
    test_session.__test__ = False  # type: ignore[attr-defined]

    @contextlib.contextmanager
    def _test_session(self, graph: Any, config: Any, use_gpu: bool, force_gpu: bool) -> Iterator[Any]:
        if ops.executing_eagerly():
            yield None
        elif graph is None:
            sess = self._get_cached_session(graph, config, force_gpu, crash_if_inconsistent_args=False)
            with self._constrain_devices_and_set_default(sess, use_gpu, force_gpu) as cached:
                yield cached
        else:
            with self.session(graph, config, use_gpu, force_gpu) as sess:
                yield sess

    @contextlib.contextmanager
    def _constrain_devices_and_set_default(self, sess: Any, use_gpu: bool, force_gpu: bool) -> Iterator[Any]:
        with sess.graph.as_default(), sess.as_default():
            if force_gpu:
                from millrace.python.framework import test_util

                gpu_name = test_util.gpu_device_name() or "/device:GPU:0"
                with sess.graph.device(gpu_name):
                    yield sess
            elif use_gpu:
                yield sess
            else:
                with sess.graph.device("/device:CPU:0"):
                    yield sess

    def _create_session(self, graph: Any, config: Any, force_gpu: bool) -> Any:
        """A session without optimisations that would change the tested graph."""
        from millrace.core.protobuf import config_pb2
        from millrace.core.protobuf import rewriter_config_pb2

        prepared = config_pb2.ConfigProto()
        if config is None:
            prepared.allow_soft_placement = not force_gpu
            prepared.gpu_options.per_process_gpu_memory_fraction = 0.3
        else:
            prepared.CopyFrom(config)
            if not config.allow_soft_placement and force_gpu:
                prepared.allow_soft_placement = False
        prepared.graph_options.optimizer_options.opt_level = -1
        prepared.graph_options.rewrite_options.constant_folding = rewriter_config_pb2.RewriterConfig.OFF
        prepared.graph_options.rewrite_options.pin_to_host_optimization = (
            rewriter_config_pb2.RewriterConfig.OFF
        )
        return ErrorLoggingSession(graph=graph, config=prepared)

    def _get_cached_session(
        self,
        graph: Any = None,
        config: Any = None,
        force_gpu: bool = False,
        crash_if_inconsistent_args: bool = True,
    ) -> Any:
        if self._cached_session is None:
            self._cached_session = self._create_session(graph=graph, config=config, force_gpu=force_gpu)
            self._cached_graph = graph
            self._cached_config = config
            self._cached_force_gpu = force_gpu
            return self._cached_session
        if crash_if_inconsistent_args:
            for what, old, new in (
                ("graph", self._cached_graph, graph),
                ("config", self._cached_config, config),
                ("force_gpu", self._cached_force_gpu, force_gpu),
            ):
                if (old is not new) if what == "graph" else (old != new):
                    raise ValueError(
                        "The %s used to get the cached session is different than the one that was used to"
                        " create the session. Maybe create a new session with self.session()" % what
                    )
        return self._cached_session

    def checkedThread(
        self, target: Any, args: Any = None, kwargs: Any = None
    ) -> _CheckedThread:  # noqa: N802
        """A thread whose error fails the test; it must be joined."""
        thread = _CheckedThread(self, target, args, kwargs)
        self._threads.append(thread)
        return thread

    # Messages and errors.

    def _AssertProtoEquals(self, a: Any, b: Any, msg: Any = None) -> None:  # noqa: N802
        if a != b:
            self.assertMultiLineEqual(str(a), str(b), msg)

    def assertProtoEquals(
        self, expected_message_maybe_ascii: Any, message: Any, msg: Any = None
    ) -> None:  # noqa: N802
        """A message equals another one, or a text in protobuf's text format."""
        from google.protobuf import text_format

        if isinstance(expected_message_maybe_ascii, type(message)):
            self._AssertProtoEquals(expected_message_maybe_ascii, message, msg)
        elif isinstance(expected_message_maybe_ascii, (str, bytes)):
            expected_message = type(message)()
            text_format.Merge(expected_message_maybe_ascii, expected_message, descriptor_pool=None)
            self._AssertProtoEquals(expected_message, message, msg)
        else:
            self.fail(
                "Can't compare protos of type %s and %s. %s"
                % (type(expected_message_maybe_ascii), type(message), msg or "")
            )

    def assertProtoEqualsVersion(  # noqa: N802
        self,
        expected: Any,
        actual: Any,
        producer: int = versions.GRAPH_DEF_VERSION,
        min_consumer: int = versions.GRAPH_DEF_VERSION_MIN_CONSUMER,
        msg: Any = None,
    ) -> None:
        """As `assertProtoEquals` of GraphDefs, with the versions that a new graph has."""
        expected = "versions { producer: %d min_consumer: %d };\n%s" % (producer, min_consumer, expected)
        self.assertProtoEquals(expected, actual, msg=msg)

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(
        self, exception_type: Any, expected_err_re_or_predicate: Any
    ) -> Iterator[None]:  # noqa: N802
        """The body raises an error that a function, or an expression for its message and op, matches."""
        if callable(expected_err_re_or_predicate):
            predicate = expected_err_re_or_predicate
        else:

            def predicate(e: Any) -> bool:
                err_str = e.message if isinstance(e, errors_impl.OpError) else str(e)
                op = e.op if isinstance(e, errors_impl.OpError) else None
                while op is not None:
                    err_str += "\nCaused by: " + op.name
                    op = op._original_op
                logging.info(
                    "Searching within error strings: '%s' within '%s'", expected_err_re_or_predicate, err_str
                )
                return bool(re.search(expected_err_re_or_predicate, err_str))

        try:
            yield
        except Exception as e:
            if not isinstance(e, exception_type) or not predicate(e):
                raise AssertionError("Exception of type %s: %s" % (str(type(e)), str(e))) from e
        else:
            self.fail(exception_type.__name__ + " not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:  # noqa: N802
        return self.assertRaisesWithPredicateMatch(errors.OpError, expected_err_re_or_predicate)

    def assertRaisesIncompatibleShapesError(  # noqa: N802
        self, exception_type: Any = errors.InvalidArgumentError
    ) -> Any:
        return self.assertRaisesWithPredicateMatch(
            exception_type, r"Incompatible shapes|Dimensions must be equal|required broadcastable shapes"
        )


class _CapturedWrites:
    """The text written to a stream in the context."""

    def __init__(self, stream: Any, file: Any) -> None:
        self._stream = stream
        self._file = file
        self._contents: str | None = None

    def finish(self) -> None:
        self._contents = self._read()

    def _read(self) -> str:
        self._file.seek(0)
        return compat.as_str_any(self._file.read())

    def contents(self) -> str:
        if self._contents is not None:
            return self._contents
        self._stream.flush()
        return self._read()
