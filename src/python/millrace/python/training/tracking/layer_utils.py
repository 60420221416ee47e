# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Whether an object looks like a layer: has variables and weights of its own."""

from __future__ import annotations

from typing import Any


def is_layer(obj: Any) -> bool:
    return hasattr(obj, "_is_layer") and not isinstance(obj, type)


def has_weights(obj: Any) -> bool:
    return hasattr(type(obj), "trainable_weights") and hasattr(type(obj), "non_trainable_weights")
