# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The contents of a SavedModel."""
from __future__ import annotations

from typing import Any

from millrace.python.saved_model import loader_impl as loader


def read_saved_model(saved_model_dir: str) -> Any:
    """The SavedModel message of a folder; IOError if there is none."""
    return loader._parse_saved_model(saved_model_dir)


def get_saved_model_tag_sets(saved_model_dir: str) -> list[list[str]]:
    """The tags of each MetaGraphDef."""
    return [
        list(meta_graph.meta_info_def.tags) for meta_graph in read_saved_model(saved_model_dir).meta_graphs
    ]


def get_meta_graph_def(saved_model_dir: str, tag_set: str) -> Any:
    """The MetaGraphDef with exactly these tags, which commas separate; RuntimeError if there is none."""
    wanted = set(tag_set.split(","))
    for meta_graph_def in read_saved_model(saved_model_dir).meta_graphs:
        if set(meta_graph_def.meta_info_def.tags) == wanted:
            return meta_graph_def
    raise RuntimeError(
        "MetaGraphDef associated with tag-set " + tag_set + " could not be found in SavedModel"
    )
