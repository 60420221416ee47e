# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Subclassed models: layers that are made of layers."""

from __future__ import annotations

from typing import Any

from millrace.python.layers import base


class Model(base.Layer):
    """A layer of other layers, which are set as attributes in the constructor and used in `call`.

    Their variables are the model's, and checkpoints of objects find them. The parts of Keras - compile, fit,
    losses, the functional API - are not available.
    """

    @property
    def layers(self) -> list[Any]:
        """The layers that are attributes, in order."""
        return list(self._layers)

    def __getattr__(self, name: str) -> Any:
        if name in (
            "compile",
            "fit",
            "evaluate",
            "predict",
            "train_on_batch",
            "save",
            "save_weights",
            "load_weights",
        ):
            raise NotImplementedError(
                "Keras is not part of this package: train the model in a Session, and save it with tf.train.Checkpoint"
            )
        raise AttributeError("%r object has no attribute %r" % (type(self).__name__, name))
