# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Utilities for tests of ops and of programs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from millrace.python.framework import ops
from millrace.python.framework._test_case import ErrorLoggingSession
from millrace.python.framework._test_case import TensorFlowTestCase
from millrace.python.framework._test_case import _CheckedThread
from millrace.python.framework._test_decorators import *  # noqa: F401,F403
from millrace.python.framework._test_decorators import run_deprecated_v1
from millrace.python.platform import googletest

__all__ = ["ErrorLoggingSession", "TensorFlowTestCase", "_CheckedThread", "googletest", "run_deprecated_v1"]


def assert_ops_in_graph(expected_ops: dict[str, str], graph: Any) -> dict[str, Any]:
    """Returns the nodes of a graph by name; ValueError unless it has `expected_ops` with their types."""
    actual_ops = {}
    gd = graph.as_graph_def()
    for node in gd.node:
        if node.name in expected_ops:
            if expected_ops[node.name] != node.op:
                raise ValueError(
                    "Expected op for node %s is different. Expected op: %s, actual op: %s"
                    % (node.name, expected_ops[node.name], node.op)
                )
            actual_ops[node.name] = node
    if set(expected_ops.keys()) != set(actual_ops.keys()):
        raise ValueError(
            "Not all expected ops are present. Expected %s, found %s"
            % (expected_ops.keys(), actual_ops.keys())
        )
    return actual_ops


def assert_equal_graph_def_v1(
    actual: Any, expected: Any, checkpoint_v2: bool = False, hash_table_shared_name: bool = False
) -> None:
    """Raises AssertionError unless two GraphDefs have the same nodes, in any order.

    Args:
      checkpoint_v2: names of temporary shards may differ.
      hash_table_shared_name: shared names of tables may differ.

    Raises:
      TypeError: if one is no GraphDef.
    """
    assert_equal_graph_def(actual, expected, checkpoint_v2, hash_table_shared_name)


def assert_equal_graph_def_v2(expected: Any, actual: Any) -> None:
    assert_equal_graph_def(actual, expected, checkpoint_v2=True, hash_table_shared_name=True)


def assert_equal_graph_def(
    actual: Any, expected: Any, checkpoint_v2: bool = False, hash_table_shared_name: bool = False
) -> None:
    from millrace.core.framework import graph_pb2

    for what, graph_def in (("actual", actual), ("expected", expected)):
        if not isinstance(graph_def, graph_pb2.GraphDef):
            raise TypeError("Expected tf.GraphDef for %s, got %s" % (what, type(graph_def).__name__))
    actual = _normalised(actual, checkpoint_v2, hash_table_shared_name)
    expected = _normalised(expected, checkpoint_v2, hash_table_shared_name)
    actual_nodes = {node.name: node for node in actual.node}
    expected_nodes = {node.name: node for node in expected.node}
    for name, node in expected_nodes.items():
        if name not in actual_nodes:
            raise AssertionError("Did not find expected node '{{node %s}} = %s'" % (name, node.op))
    unexpected = [node for name, node in actual_nodes.items() if name not in expected_nodes]
    if unexpected:
        raise AssertionError(
            "Found unexpected node '{{node %s}} = %s'" % (unexpected[-1].name, unexpected[-1].op)
        )
    for name, node in actual_nodes.items():
        if node != expected_nodes[name]:
            raise AssertionError("Nodes differ: %s and %s" % (node, expected_nodes[name]))
    if actual.library != expected.library:
        raise AssertionError("Function libraries differ")


def _normalised(graph_def: Any, checkpoint_v2: bool, hash_table_shared_name: bool) -> Any:
    """A copy without internal attributes and random names, which differ between equal graphs."""
    result = type(graph_def)()
    result.CopyFrom(graph_def)
    for node in result.node:
        for name in [name for name in node.attr if name.startswith("_")]:
            del node.attr[name]
        if checkpoint_v2 and node.op == "Const" and node.attr["value"].tensor.string_val:
            value = node.attr["value"].tensor
            if re.match(rb"^_temp_[0-9a-z]{32}/part$", value.string_val[0]):
                value.string_val[0] = b""
        if hash_table_shared_name and node.op == "HashTableV2":
            node.attr["shared_name"].s = b""
    return result


def assert_meta_graph_protos_equal(tester: Any, a: Any, b: Any) -> None:
    """Two MetaGraphDefs are equal, their collections in any order."""
    tester.assertEqual(set(a.collection_def), set(b.collection_def))
    for key in a.collection_def:
        tester.assertProtoEquals(a.collection_def[key], b.collection_def[key])
    assert_equal_graph_def(a.graph_def, b.graph_def, checkpoint_v2=True)
    tester.assertEqual(a.graph_def.versions, b.graph_def.versions)
    rest_of_a, rest_of_b = type(a)(), type(b)()
    for rest, whole in ((rest_of_a, a), (rest_of_b, b)):
        rest.CopyFrom(whole)
        rest.ClearField("graph_def")
        rest.ClearField("collection_def")
    tester.assertProtoEquals(rest_of_a, rest_of_b)


def get_node_def_from_graph(node_name: str, graph_def: Any) -> Any:
    """The node of that name, or None."""
    for node_def in graph_def.node:
        if node_def.name == node_name:
            return node_def
    return None


def set_producer_version(graph: Any, producer_version: int) -> None:
    """Sets the version of an empty graph to that of an older producer."""
    from millrace.core.framework import graph_pb2
    from millrace.python.framework import importer

    graph_def = graph_pb2.GraphDef()
    graph_def.versions.producer = producer_version
    with graph.as_default():
        importer.import_graph_def(graph_def)
    assert graph.graph_def_versions.producer == producer_version


# Devices.


def gpu_device_name() -> str:
    """Name of the first GPU, or an empty string."""
    from millrace.python.client import device_lib

    for x in device_lib.list_local_devices():
        if x.device_type in ("GPU", "SYCL"):
            return str(x.name)
    return ""


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """Whether there is a GPU (of a capability at least, given as a pair)."""
    from millrace.python.client import device_lib

    for local_device in device_lib.list_local_devices():
        if local_device.device_type == "GPU":
            found = re.search(r"compute capability: (\d+)\.(\d+)", local_device.physical_device_desc)
            capability = (int(found.group(1)), int(found.group(2))) if found else (0, 0)
            if not min_cuda_compute_capability or capability >= tuple(min_cuda_compute_capability):
                return True
    return False


def IsGoogleCudaEnabled() -> bool:  # noqa: N802
    return is_gpu_available()


def IsBuiltWithROCm() -> bool:  # noqa: N802
    return False


def IsMklEnabled() -> bool:  # noqa: N802
    return False


def GpuSupportsHalfMatMulAndConv() -> bool:  # noqa: N802
    return is_gpu_available()


def CudaSupportsHalfMatMulAndConv() -> bool:  # noqa: N802
    return is_gpu_available()


def is_xla_enabled() -> bool:
    return False


def InstallStackTraceHandler() -> None:  # noqa: N802
    """Prints Python's stacks when the process is ended by a fault."""
    import faulthandler
    import io

    try:
        faulthandler.enable()
    except (io.UnsupportedOperation, ValueError, AttributeError):
        pass  # stderr has no file descriptor


@contextlib.contextmanager
def device(use_gpu: bool) -> Iterator[None]:
    """Context that places ops on a GPU, if `use_gpu` and there is one, or on the CPU."""
    with ops.device("/device:GPU:0" if use_gpu and is_gpu_available() else "/device:CPU:0"):
        yield


@contextlib.contextmanager
def use_gpu() -> Iterator[None]:
    with device(use_gpu=True):
        yield


@contextlib.contextmanager
def force_gpu() -> Iterator[None]:
    with ops.device("/device:GPU:0"):
        yield


@contextlib.contextmanager
def force_cpu() -> Iterator[None]:
    with ops.device("/device:CPU:0"):
        yield


def NHWCToNCHW(input_tensor: Any) -> Any:  # noqa: N802
    """Converts a tensor, or list of sizes, from NHWC (NWC, NDHWC) to NCHW (NCW, NCDHW)."""
    from millrace.python.ops import array_ops

    new_axes = {3: [0, 2, 1], 4: [0, 3, 1, 2], 5: [0, 4, 1, 2, 3]}
    if isinstance(input_tensor, ops.Tensor):
        return array_ops.transpose(input_tensor, new_axes[input_tensor.get_shape().ndims])
    return [input_tensor[a] for a in new_axes[len(input_tensor)]]


def NCHWToNHWC(input_tensor: Any) -> Any:  # noqa: N802
    """Converts a tensor, or list of sizes, from NCHW to NHWC."""
    from millrace.python.ops import array_ops

    new_axes = {3: [0, 2, 1], 4: [0, 2, 3, 1], 5: [0, 2, 3, 4, 1]}
    if isinstance(input_tensor, ops.Tensor):
        return array_ops.transpose(input_tensor, new_axes[input_tensor.get_shape().ndims])
    return [input_tensor[a] for a in new_axes[len(input_tensor)]]


def create_local_cluster(
    num_workers: int, num_ps: int, protocol: str = "grpc", worker_config: Any = None, ps_config: Any = None
) -> tuple[list[Any], list[Any]]:
    """Servers of a cluster in this process.

    Returns:
      Lists of the started servers: workers, parameter servers.
    """
    import socket

    from millrace.python.training import server_lib

    def free_port() -> int:
        with socket.socket() as s:
            s.bind(("localhost", 0))
            return int(s.getsockname()[1])

    cluster_dict = {
        "worker": ["localhost:%s" % free_port() for _ in range(num_workers)],
        "ps": ["localhost:%s" % free_port() for _ in range(num_ps)],
    }
    cs = server_lib.ClusterSpec(cluster_dict)

    def servers(job: str, count: int, config: Any) -> list[Any]:
        return [
            server_lib.Server(cs, job_name=job, protocol=protocol, task_index=ix, config=config, start=True)
            for ix in range(count)
        ]

    return servers("worker", num_workers, worker_config), servers("ps", num_ps, ps_config)


def NHWCToNCHW_VECT_C(input_shape_or_tensor: Any) -> Any:  # noqa: N802
    """Converts a tensor, or list of sizes, from NHWC to NCHW_VECT_C: [N, C / 4, H, W, 4].

    Raises:
      ValueError: if the number of channels is no multiple of four.
    """
    from millrace.python.ops import array_ops

    permutations = {5: [0, 3, 1, 2, 4]}
    is_tensor = isinstance(input_shape_or_tensor, ops.Tensor)
    shape = input_shape_or_tensor.shape.as_list() if is_tensor else list(input_shape_or_tensor)
    if shape[-1] % 4 != 0:
        raise ValueError("Last dimension of input must be evenly divisible by 4 to convert to NCHW_VECT_C.")
    split = shape[:-1] + [shape[-1] // 4, 4]
    permutation = permutations[len(split)]
    if is_tensor:
        return array_ops.transpose(array_ops.reshape(input_shape_or_tensor, split), permutation)
    return [split[a] for a in permutation]


def NCHW_VECT_CToNHWC(input_shape_or_tensor: Any) -> Any:  # noqa: N802
    """A tensor, or list of sizes, of [N, C / 4, H, W, 4] as NHWC."""
    from millrace.python.ops import array_ops

    permutation = [0, 2, 3, 1, 4]
    is_tensor = isinstance(input_shape_or_tensor, ops.Tensor)
    shape = input_shape_or_tensor.shape.as_list() if is_tensor else list(input_shape_or_tensor)
    moved = [shape[a] for a in permutation]
    joined = moved[:3] + [moved[3] * moved[4]]
    if is_tensor:
        return array_ops.reshape(array_ops.transpose(input_shape_or_tensor, permutation), joined)
    return joined


def test_src_dir_path(relative_path: str) -> str:
    """Path of a file given relative to the folder that holds the package."""
    return googletest.test_src_dir_path(relative_path)


test_src_dir_path.__test__ = False  # type: ignore[attr-defined]
