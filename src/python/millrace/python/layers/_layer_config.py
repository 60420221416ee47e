# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Serialization of layers as dictionaries of plain values."""
from __future__ import annotations

import inspect
from typing import Any, Dict


def serialize(value: Any) -> Any:
    """Returns an object with `get_config` as its class name and configuration, a function as its name, others as they are."""
    if hasattr(value, "get_config"):
        return {"class_name": type(value).__name__, "config": value.get_config()}
    return value.__name__ if callable(value) else value


def deserialize(config: Any, places: Any, custom_objects: Any = None) -> Any:
    """Makes the object from `serialize`'s result; finds names in `custom_objects` or in modules `places`.

    Raises ValueError for values that are neither a name nor a class name with a configuration, and for unknown names.
    """
    name = config.get("class_name") if isinstance(config, dict) else config
    if not isinstance(name, str) or (isinstance(config, dict) and "config" not in config):
        raise ValueError("Improper config format: " + str(config))
    found = (custom_objects or {}).get(name)
    for place in places:
        found = found if found is not None else getattr(place, name, None)
    if found is None:
        raise ValueError("Unknown object: " + name)
    return found.from_config(config["config"]) if isinstance(config, dict) else found


def config_of(layer: Any) -> Dict[str, Any]:
    """Returns those arguments of the constructor of `layer` that it keeps, under their own name or with an underscore."""
    config: Dict[str, Any] = {}
    for name, parameter in inspect.signature(type(layer).__init__).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name == "self":
            continue
        for attribute in (name, "_" + name):
            if attribute in vars(layer):
                value = vars(layer)[attribute]
                config[name] = "linear" if name == "activation" and value is None else serialize(value)
                break
    return config
