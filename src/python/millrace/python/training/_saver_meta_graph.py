# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Export and import of graphs with their collections."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import meta_graph
from millrace.python.ops import variables
from millrace.python.platform import tf_logging as logging


def import_meta_graph(
    meta_graph_or_file: Any, clear_devices: bool = False, import_scope: str | None = None, **kwargs: Any
) -> Any:
    """Adds the graph of a MetaGraphDef, and its collections, to the default graph.

    Args:
      meta_graph_or_file: MetaGraphDef, or name of a file that holds one.
      clear_devices: drop the devices that nodes request.
      import_scope: prefix of the names.
      kwargs: further arguments of `import_scoped_meta_graph`.

    Returns:
      The Saver that the message describes, a new one of all variables where it describes none, or None where
      there are no variables.
    """
    return _import_meta_graph_with_return_elements(meta_graph_or_file, clear_devices, import_scope, **kwargs)[
        0
    ]


def _import_meta_graph_with_return_elements(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    import_scope: str | None = None,
    return_elements: Any = None,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """As `import_meta_graph`; also returns the tensors and ops that `return_elements` names."""
    from millrace.core.protobuf import meta_graph_pb2

    if isinstance(meta_graph_or_file, meta_graph_pb2.MetaGraphDef):
        meta_graph_def = meta_graph_or_file
    else:
        meta_graph_def = meta_graph.read_meta_graph_file(meta_graph_or_file)
    imported_vars, imported_return_elements = meta_graph.import_scoped_meta_graph_with_return_elements(
        meta_graph_def,
        clear_devices=clear_devices,
        import_scope=import_scope,
        return_elements=return_elements,
        **kwargs,
    )
    saver = _create_saver_from_imported_meta_graph(meta_graph_def, import_scope, imported_vars)
    return saver, imported_return_elements


def _create_saver_from_imported_meta_graph(
    meta_graph_def: Any, import_scope: str | None, imported_vars: dict[str, Any]
) -> Any:
    from millrace.python.training.saver import Saver

    if meta_graph_def.HasField("saver_def"):
        # The scope's name may have a number appended: it is taken from a variable's name.
        scope = import_scope
        var_names = list(imported_vars.keys())
        if var_names:
            sample_key = var_names[0]
            sample_var = imported_vars[sample_key]
            scope = sample_var.name[: -len(sample_key)]
        return Saver(saver_def=meta_graph_def.saver_def, name=scope)
    if variables._all_saveable_objects(scope=import_scope):
        return Saver()
    logging.info("Saver not created because there are no variables in the graph to restore")
    return None


def export_meta_graph(
    filename: str | None = None,
    meta_info_def: Any = None,
    graph_def: Any = None,
    saver_def: Any = None,
    collection_list: Any = None,
    as_text: bool = False,
    graph: Any = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    save_debug_info: bool = False,
    **kwargs: Any,
) -> Any:
    """A graph with its collections as a MetaGraphDef, written to a file if `filename` is given.

    Args:
      filename: of the file.
      meta_info_def, graph_def, saver_def: parts of the message, instead of those of the graph.
      collection_list: names of the collections, all if None.
      as_text: write text instead of binary.
      graph: the graph, the default one if None.
      export_scope: export only nodes in this scope, with names relative to it.
      clear_devices: drop the devices that nodes request.
      clear_extraneous_savers: drop savers and their ops other than `saver_def`.
      strip_default_attrs: leave attributes that have their defaults out.
      save_debug_info: also write a file ".debug" with the Python lines that made the operations.
    """
    meta_graph_def, _ = meta_graph.export_scoped_meta_graph(
        filename=filename,
        meta_info_def=meta_info_def,
        graph_def=graph_def,
        saver_def=saver_def,
        collection_list=collection_list,
        as_text=as_text,
        graph=graph,
        export_scope=export_scope,
        clear_devices=clear_devices,
        clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs,
        save_debug_info=save_debug_info,
        **kwargs,
    )
    return meta_graph_def
