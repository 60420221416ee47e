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


def IsGoogleCudaEnabled() -> bool:  # noqa: N802
    """Whether there is an engine for GPUs."""
    from millrace.python.framework import test_util

    return test_util.IsGoogleCudaEnabled()


def IsMklEnabled() -> bool:  # noqa: N802
    return False


def IsBuiltWithROCm() -> bool:  # noqa: N802
    return False
