# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions on GraphDefs."""
from millrace.python.framework.graph_util_impl import (  # noqa: F401
    convert_variables_to_constants,
    extract_sub_graph,
    must_run_on_cpu,
    remove_training_nodes,
    set_cpu0,
    tensor_shape_from_node_def_name,
)
