# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A SavedModel with one graph and one signature in one call."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.saved_model import builder
from millrace.python.saved_model import signature_constants
from millrace.python.saved_model import signature_def_utils
from millrace.python.saved_model import tag_constants


def simple_save(session: Any, export_dir: Any, inputs: Any, outputs: Any, legacy_init_op: Any = None) -> None:
    """Writes the session's graph and variables for serving.

    Args:
      session: session with the variables.
      export_dir: folder to make.
      inputs, outputs: tensors by names.
      legacy_init_op: op to run after loading.
    """
    signature_def_map = {
        signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature_def_utils.predict_signature_def(
            inputs, outputs
        )
    }
    b = builder.SavedModelBuilder(export_dir)
    b.add_meta_graph_and_variables(
        session,
        tags=[tag_constants.SERVING],
        signature_def_map=signature_def_map,
        assets_collection=ops.get_collection(ops.GraphKeys.ASSET_FILEPATHS),
        main_op=legacy_init_op,
        clear_devices=True,
    )
    b.save()
