# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Names of TensorFlow's extension module that programs use."""
from __future__ import annotations

import importlib
from typing import Any

from millrace.python.framework import dtypes, versions
from millrace.python.lib.io.file_io import FileIO  # noqa: F401
from millrace.python.lib.io.tf_record import tf_record_iterator  # noqa: F401
from millrace.python.training.py_checkpoint_reader import NewCheckpointReader  # noqa: F401


def TF_bfloat16_type() -> Any:  # noqa: N802
    """Returns the class of NumPy's scalars of the type bfloat16."""
    return dtypes.bfloat16.as_numpy_dtype


__version__ = versions.VERSION
__git_version__ = versions.GIT_VERSION
__compiler_version__ = versions.COMPILER_VERSION
__cxx11_abi_flag__ = versions.CXX11_ABI_FLAG
__monolithic_build__ = versions.MONOLITHIC_BUILD

# Kinds of attributes, as in the C API.
TF_ATTR_STRING = 0
TF_ATTR_INT = 1
TF_ATTR_FLOAT = 2
TF_ATTR_BOOL = 3
TF_ATTR_TYPE = 4
TF_ATTR_SHAPE = 5
TF_ATTR_TENSOR = 6
TF_ATTR_PLACEHOLDER = 7
TF_ATTR_FUNC = 8

# Name -> module and name there.
_ELSEWHERE = {
    "CheckpointReader": ("training.py_checkpoint_reader", "CheckpointReader"),
    "CopyFile": ("lib.io.file_io", "copy"),
    "CreateDir": ("lib.io.file_io", "create_dir"),
    "DeleteFile": ("lib.io.file_io", "delete_file"),
    "EventsWriter": ("summary.writer.event_file_writer", "EventsWriter"),
    "FileExists": ("lib.io.file_io", "file_exists"),
    "Flatten": ("util.nest", "flatten"),
    "GetMatchingFiles": ("lib.io.file_io", "get_matching_files"),
    "IsSequence": ("util.nest", "is_sequence"),
    "IsTensor": ("framework.tensor_util", "is_tensor"),
    "IsDirectory": ("lib.io.file_io", "is_directory"),
    "ReadFileToString": ("lib.io.file_io", "read_file_to_string"),
    "RecursivelyCreateDir": ("lib.io.file_io", "recursive_create_dir"),
    "RenameFile": ("lib.io.file_io", "rename"),
    "Stat": ("lib.io.file_io", "stat"),
    "do_quantize_training_on_graphdef": ("training.quantize_training", "do_quantize_training_on_graphdef"),
    "list_devices": ("client.device_lib", "list_local_devices"),
}


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        module, symbol = _ELSEWHERE[name]
        return getattr(importlib.import_module("millrace.python." + module), symbol)
    raise AttributeError("module 'tensorflow.python.pywrap_tensorflow' has no attribute %r" % name)


def TFE_Py_FastPathExecute(  # noqa: N802
    handle: Any, device_name: Any, op_name: str, name: Any, callbacks: Any, *args: Any
) -> Any:
    """Executes an op.

    Args:
      handle: of the context; not used, as `callbacks`.
      device_name: the device; None or "": the context's.
      op_name: the name of the op.
      name: not used.
      callbacks: not used.
      *args: the inputs, then names of attributes and their values in turn.
    """
    from millrace.python.framework import op_def_registry, ops

    raw_ops = importlib.import_module("millrace.raw_ops")
    op_def = op_def_registry.get(op_name)
    if op_def is None:
        raise RuntimeError("Op type not registered '%s'" % op_name)
    count = len(op_def.input_arg)
    inputs, attributes = args[:count], args[count:]
    if len(inputs) < count or len(attributes) % 2 != 0:
        raise ValueError(
            "Tensor conversion requested: %s takes %d inputs and pairs of attributes, got %d values"
            % (op_name, count, len(args))
        )
    names = [arg.name for arg in op_def.input_arg]
    values = dict(zip(names, inputs)) | dict(zip(attributes[::2], attributes[1::2]))
    inferred = {a for arg in op_def.input_arg for a in (arg.type_attr, arg.number_attr, arg.type_list_attr)}
    values = {key: value for key, value in values.items() if key in names or key not in inferred}
    with ops.device(device_name or None):
        return getattr(raw_ops, op_name)(**values)


def TFE_Py_Execute(  # noqa: N802
    handle: Any, device_name: Any, op_name: str, inputs: Any, attrs: Any, num_outputs: Any
) -> list[Any]:
    """Executes an op with inputs that are eager tensors; all arguments are given. As execute.quick_execute."""
    from millrace.python.eager import context, execute
    from millrace.python.framework import ops

    with ops.device(device_name or None):
        return execute.execute(op_name, num_outputs, list(inputs), attrs, context.context())


def TFE_Py_UID() -> int:  # noqa: N802
    """A number that no other call returns."""
    from millrace.python.framework import ops

    return ops.uid()


def IsGoogleCudaEnabled() -> bool:  # noqa: N802
    """Whether there is an engine for GPUs."""
    from millrace.python.framework import test_util

    return test_util.IsGoogleCudaEnabled()


def IsMklEnabled() -> bool:  # noqa: N802
    return False


def IsBuiltWithROCm() -> bool:  # noqa: N802
    return False
