# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""What Grappler makes of graphs, for tests of how they are folded."""
from __future__ import annotations

from typing import Any

from millrace.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
from millrace.python.framework import ops
from millrace.python.grappler import tf_optimizer
from millrace.python.training import saver


def grappler_optimize(graph: Any, fetches: Any = None, rewriter_config: Any = None) -> Any:
    """The graph as GraphDef after optimisation.

    Args:
      graph: a Graph.
      fetches: tensors that the result must still compute.
      rewriter_config: a RewriterConfig; None: what sessions do.
    """
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.CopyFrom(rewriter_config or rewriter_config_pb2.RewriterConfig())
    config.graph_options.rewrite_options.min_graph_nodes = -1
    if fetches is not None:
        for fetch in fetches:
            graph.add_to_collection(ops.GraphKeys.TRAIN_OP, fetch)
    meta_graph: meta_graph_pb2.MetaGraphDef = saver.export_meta_graph(
        graph_def=graph.as_graph_def(), graph=graph
    )
    return tf_optimizer.OptimizeGraph(config, meta_graph)
