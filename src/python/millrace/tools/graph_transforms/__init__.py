# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""TransformGraph: transforms of frozen graphs by their names, as of the tool transform_graph."""
from __future__ import annotations

import re
from typing import Any

from millrace.core.framework import graph_pb2
from millrace.python.framework import errors
from millrace.tools.graph_transforms import _passes

_CALL = re.compile(r"\s*([A-Za-z0-9_]+)\s*(?:\(([^()]*)\))?")
_PARAMETER = re.compile(r"""\s*([A-Za-z0-9_]+)\s*=\s*("[^"]*"|'[^']*'|[^,\s]+)\s*(?:,|$)""")


def _parse(text: str) -> list[tuple[str, dict[str, list[str]]]]:
    """The names of transforms, each with its parameters, which may be given several times."""
    found = []
    position = 0
    while position < len(text.rstrip()):
        call = _CALL.match(text, position)
        if call is None:
            raise errors.InvalidArgumentError(
                None, None, "Looking for a transform name, but found %r" % text[position:]
            )
        parameters: dict[str, list[str]] = {}
        rest = call.group(2) or ""
        at = 0
        while at < len(rest.rstrip()):
            parameter = _PARAMETER.match(rest, at)
            if parameter is None:
                raise errors.InvalidArgumentError(
                    None, None, "Looking for a parameter, but found %r" % rest[at:]
                )
            parameters.setdefault(parameter.group(1), []).append(parameter.group(2).strip("\"'"))
            at = parameter.end()
        found.append((call.group(1), parameters))
        position = call.end()
    return found


def TransformGraph(  # noqa: N802
    input_graph_def: Any, inputs: list[str], outputs: list[str], transforms: list[str]
) -> Any:
    """A GraphDef after some transforms, one after another.

    Args:
      input_graph_def: a GraphDef; it stays as it is.
      inputs: names of the nodes that are fed.
      outputs: names of the nodes that are fetched.
      transforms: names of transforms, each with parameters in parentheses: "remove_nodes(op=Identity)".

    Raises:
      InvalidArgumentError: a transform is not known, or its parameters are wrong.
    """
    graph = graph_pb2.GraphDef()
    graph.CopyFrom(input_graph_def)
    for name, parameters in _parse(" ".join(transforms)):
        function = _passes.TRANSFORMS.get(name)
        if function is None:
            raise errors.InvalidArgumentError(None, None, "Transform '%s' not recognized." % name)
        graph = function(graph, _passes.Context(list(inputs), list(outputs), parameters))
    return graph
