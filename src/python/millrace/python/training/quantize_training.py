# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The name under which programs enable training with simulated quantization."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import errors


def do_quantize_training_on_graphdef(input_graph: Any, num_bits: int) -> Any:
    """Refuses: Millrace has no pass that puts quantization into a graph.

    Args:
      input_graph: a GraphDef.
      num_bits: bits of a quantized value.

    Raises:
      UnimplementedError: always, with what to use in its place.
    """
    del input_graph, num_bits
    raise errors.UnimplementedError(
        None,
        None,
        "do_quantize_training_on_graphdef: Millrace does not rewrite graphs for quantized training. Put"
        " tf.quantization.fake_quant_with_min_max_vars on the weights and activations where the model is made.",
    )
