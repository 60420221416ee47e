# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The debugger of TensorFlow 1.x (tfdbg): writes the tensors of a run to files, and shows them."""
from __future__ import annotations

from millrace.python.debug.lib.debug_data import (  # noqa: F401
    DebugDumpDir,
    DebugTensorDatum,
    has_inf_or_nan,
    load_tensor_from_event_file,
)
from millrace.python.debug.lib.debug_gradients import GradientsDebugger  # noqa: F401
from millrace.python.debug.lib.debug_graphs import reconstruct_non_debug_graph_def  # noqa: F401
from millrace.python.debug.lib.debug_utils import (  # noqa: F401
    add_debug_tensor_watch,
    watch_graph,
    watch_graph_with_blacklists,
)
from millrace.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession  # noqa: F401
from millrace.python.debug.wrappers.framework import WatchOptions  # noqa: F401
from millrace.python.debug.wrappers.grpc_wrapper import (  # noqa: F401
    GrpcDebugWrapperSession,
    TensorBoardDebugWrapperSession,
)
from millrace.python.debug.wrappers.hooks import (  # noqa: F401
    DumpingDebugHook,
    GrpcDebugHook,
    LocalCLIDebugHook,
    TensorBoardDebugHook,
)
from millrace.python.debug.wrappers.local_cli_wrapper import LocalCLIDebugWrapperSession  # noqa: F401
