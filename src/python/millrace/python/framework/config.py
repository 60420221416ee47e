# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of the process, which new sessions use by default."""
from __future__ import annotations

import collections
from typing import Any

_settings: dict[str, Any] = {"intra_op": 0, "inter_op": 0, "soft": False, "log": False, "jit": False}
_optimizer_options: dict[str, Any] = {}
_visible: dict[Any, Any] = {}

PhysicalDevice = collections.namedtuple("PhysicalDevice", ["name", "device_type"])
LogicalDevice = collections.namedtuple("LogicalDevice", ["name", "device_type"])


_POLICIES = ["explicit", "warn", "silent", "silent_for_int32"]  # the numbers of policies in the context


def _started() -> Any:
    """The context of eager execution where it runs, else None."""
    from millrace.python.eager import context

    found = context._context
    return found if found is not None and found._started else None


def _change(table: dict[Any, Any], key: Any, value: Any, text: str) -> None:
    """Sets an entry; RuntimeError if eager execution has started with another value."""
    if _started() is not None and table.get(key) != value:
        raise RuntimeError(text)
    table[key] = value


def get_intra_op_parallelism_threads() -> int:
    """Threads of one operation; 0: as many as there are processors."""
    return int(_settings["intra_op"])


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Sets the threads of one operation."""
    _change(
        _settings, "intra_op", num_threads, "Intra op parallelism cannot be modified after initialization."
    )


def get_inter_op_parallelism_threads() -> int:
    """Threads between operations; 0: as many as there are processors."""
    return int(_settings["inter_op"])


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Sets the threads between operations."""
    _change(
        _settings, "inter_op", num_threads, "Inter op parallelism cannot be modified after initialization."
    )


def get_soft_device_placement() -> bool:
    """Whether operations are placed on another device if the requested one has no kernel."""
    return bool(_settings["soft"])


def set_soft_device_placement(enabled: bool) -> None:
    """Sets whether operations are placed on another device if the requested one has no kernel."""
    _settings["soft"] = bool(enabled)


def get_device_policy() -> str:
    """The policy for inputs on another device, which is ignored: they are always copied."""
    from millrace.python.eager import context

    return _POLICIES[context.context().device_policy]


def get_optimizer_jit() -> bool:
    return bool(_settings["jit"])


def set_optimizer_jit(enabled: bool) -> None:
    _settings["jit"] = bool(enabled)


def get_optimizer_experimental_options() -> dict[str, Any]:
    """The options that set_optimizer_experimental_options has set."""
    return dict(_optimizer_options)


def set_optimizer_experimental_options(options: dict[str, Any]) -> None:
    """Sets options of the graph optimizer."""
    _optimizer_options.update(options)


def get_log_device_placement() -> bool:
    return bool(_settings["log"])


def set_log_device_placement(enabled: bool) -> None:
    _settings["log"] = bool(enabled)


def list_physical_devices(device_type: Any = None) -> list[PhysicalDevice]:
    """The devices of this machine."""
    from millrace.python.client import device_lib

    found = []
    for device in device_lib.list_local_devices():
        name = "/physical_device:%s" % device.name.partition("/device:")[2]
        found.append(PhysicalDevice(name, device.device_type))
    return [d for d in found if device_type is None or d.device_type == device_type]


def list_logical_devices(device_type: Any = None) -> list[LogicalDevice]:
    """The devices of the process; starts eager execution, after which devices cannot be configured."""
    from millrace.python.eager import context

    found = [LogicalDevice(name, name.split(":")[-2]) for name in context.context().devices()]
    return [d for d in found if device_type is None or d.device_type == device_type]


def get_visible_devices(device_type: Any = None) -> list[PhysicalDevice]:
    """The devices made visible by `set_visible_devices`, or all."""
    if device_type in _visible:
        return list(_visible[device_type])
    return list_physical_devices(device_type)


def set_visible_devices(devices: Any, device_type: Any = None) -> None:
    """Sets the result of `get_visible_devices`; ValueError for unknown devices or those of another type."""
    chosen = list(devices) if isinstance(devices, (list, tuple)) else [devices]
    present = list_physical_devices()
    for device in chosen:
        if device not in present or device_type not in (None, device.device_type):
            raise ValueError("Unrecognized device: %s" % (device,))
    _change(_visible, device_type, chosen, "Visible devices cannot be modified after being initialized")


VirtualDeviceConfiguration = collections.namedtuple(
    "VirtualDeviceConfiguration", ["memory_limit"], defaults=[None]
)
_virtual: dict[Any, Any] = {}
_growth: dict[Any, bool] = {}


def get_memory_growth(device: Any) -> bool:
    """Whether a device allocates memory as needed."""
    _check_present(device)
    return _growth.get(device, False)


def set_memory_growth(device: Any, enable: bool) -> None:
    """Sets whether a device allocates memory as needed."""
    _check_present(device)
    if device.device_type != "GPU":
        raise ValueError("Cannot set memory growth on non-GPU devices")
    _change(_growth, device, bool(enable), "Physical devices cannot be modified after being initialized")


def get_virtual_device_configuration(device: Any) -> Any:
    """The value that set_virtual_device_configuration has set, or None."""
    _check_present(device)
    return _virtual.get(device)


def set_virtual_device_configuration(device: Any, virtual_devices: Any) -> None:
    """Splits a device for eager execution, before that has started.

    Raises:
      ValueError: there is no such device, or a memory limit is given for a CPU.
      RuntimeError: eager execution has started with another number of devices.
    """
    _check_present(device)
    if device.device_type == "CPU" and any(v.memory_limit is not None for v in virtual_devices):
        raise ValueError("Setting memory limit on CPU virtual devices is currently not supported")
    _change(
        _virtual, device, list(virtual_devices), "Virtual devices cannot be modified after being initialized"
    )


def _check_present(device: Any) -> None:
    if device not in list_physical_devices():
        raise ValueError("Unrecognized device: %s" % (device,))


def _eager_config(config: Any) -> Any:
    """The ConfigProto with which eager execution starts: the program's, with later settings."""
    from millrace.core.protobuf import config_pb2

    found = config_pb2.ConfigProto()
    if config is not None:
        found.CopyFrom(config)
    found.intra_op_parallelism_threads = found.intra_op_parallelism_threads or int(_settings["intra_op"])
    found.inter_op_parallelism_threads = found.inter_op_parallelism_threads or int(_settings["inter_op"])
    for device, parts in _virtual.items():
        if device.device_type == "CPU" and "CPU" not in found.device_count and len(parts) > 1:
            found.device_count["CPU"] = len(parts)
    return found


def get_synchronous_execution() -> bool:
    """Whether eager calls wait for their operations."""
    from millrace.python.eager import context

    return bool(context.context().execution_mode == context.SYNC)


def set_synchronous_execution(enable: bool) -> None:
    """Sets whether eager calls wait for their operations."""
    from millrace.python.eager import context

    context.context().execution_mode = context.SYNC if enable else context.ASYNC


def set_device_policy(device_policy: Any) -> None:
    """Sets the device policy: one of its names, or None; ValueError for another one."""
    from millrace.python.eager import context

    if device_policy is not None and device_policy not in _POLICIES:
        raise ValueError("Not a valid device policy: %s" % (device_policy,))
    context.context().device_policy = None if device_policy is None else _POLICIES.index(device_policy)


def experimental_list_devices() -> list[str]:
    """The names of the devices of the process."""
    return [device.name for device in list_logical_devices()]


def experimental_connect_to_host(remote_host: Any = None, job_name: str = "worker") -> None:
    """Not supported: sessions connect to servers by their targets.

    Raises:
      NotImplementedError: always.
    """
    raise NotImplementedError(
        "Eager execution on other hosts is not supported: open a tf.Session with the address of a server"
    )


def experimental_connect_to_cluster(
    cluster_spec_or_resolver: Any, job_name: str = "localhost", task_index: int = 0, protocol: Any = None
) -> None:
    """Not supported, like `experimental_connect_to_host`.

    Raises:
      NotImplementedError: always.
    """
    del cluster_spec_or_resolver, task_index, protocol
    experimental_connect_to_host(None, job_name)
