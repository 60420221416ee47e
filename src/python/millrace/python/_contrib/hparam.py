# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Hyperparameters by name, with types, from text."""
from __future__ import annotations

import json
import numbers
import re
from typing import Any

_PARAM_RE = re.compile(
    r"""
  (?P<name>[a-zA-Z][\w\.]*)      # name
  (\[\s*(?P<index>\d+)\s*\])?    # perhaps an index
  \s*=\s*
  ((?P<val>[^,\[]*)              # one value
   |
   \[(?P<vals>[^\]]*)\])         # or a list
  ($|,\s*)""",
    re.VERBOSE,
)


def _failure(name: str, var_type: Any, value: Any, values: str) -> ValueError:
    return ValueError(
        "Could not parse hparam '%s' of type '%s' with value '%s' in %s"
        % (name, var_type.__name__, value, values)
    )


def _reuse(name: str, values: str) -> ValueError:
    return ValueError("Multiple assignments to variable '%s' in %s" % (name, values))


def _parse_one(name: str, var_type: Any, text: str, values: str) -> Any:
    """A value of a type from text."""
    if var_type is bool:
        if text in ("true", "True"):
            return True
        if text in ("false", "False"):
            return False
        try:
            return bool(int(text))
        except ValueError:
            raise _failure(name, var_type, text, values) from None
    try:
        return var_type(text)
    except ValueError:
        raise _failure(name, var_type, text, values) from None


def parse_values(values: str, type_map: dict[str, Any], ignore_unknown: bool = False) -> dict[str, Any]:
    """Values of "a=1,b=[1,2],c[0]=5" with types by name; indices become dicts.

    Raises:
      ValueError: the text is malformed, a name is unknown or occurs twice, or a value is not of its type.
    """
    results: dict[str, Any] = {}
    pos = 0
    while pos < len(values):
        match = _PARAM_RE.match(values, pos)
        if not match:
            raise ValueError("Malformed hyperparameter value: %s" % values[pos:])
        pos = match.end()
        parts = match.groupdict()
        name = parts["name"]
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError("Unknown hyperparameter type for %s" % name)
        var_type = type_map[name]
        if parts["val"] is not None:
            value = _parse_one(name, var_type, parts["val"], values)
            if parts["index"] is None:
                if name in results:
                    raise _reuse(name, values)
                results[name] = value
            else:
                if name in results and not isinstance(results[name], dict):
                    raise _reuse(name, values)
                indexed = results.setdefault(name, {})
                if int(parts["index"]) in indexed:
                    raise _reuse("%s[%s]" % (name, parts["index"]), values)
                indexed[int(parts["index"])] = value
        else:
            if parts["index"] is not None:
                raise ValueError("Assignment of a list to a list index.")
            if name in results:
                raise _reuse(name, values)
            elements = filter(None, re.split("[ ,]", parts["vals"]))
            results[name] = [_parse_one(name, var_type, element, values) for element in elements]
    return results


def _cast_to_type_if_compatible(name: str, param_type: Any, value: Any) -> Any:
    """The value converted to a type; ValueError when that loses information."""
    fail_msg = "Could not cast hparam '%s' of type '%s' from value %r" % (name, param_type, value)
    if issubclass(param_type, type(None)):
        return value
    if issubclass(param_type, (str, bytes)) and not isinstance(value, (str, bytes)):
        raise ValueError(fail_msg)
    if issubclass(param_type, bool) != isinstance(value, bool):
        raise ValueError(fail_msg)
    if issubclass(param_type, numbers.Integral) and not isinstance(value, numbers.Integral):
        raise ValueError(fail_msg)
    if issubclass(param_type, numbers.Number) and not isinstance(value, numbers.Number):
        raise ValueError(fail_msg)
    return param_type(value)


class HParams:
    """Hyperparameters: attributes with fixed types.

    Args:
      hparam_def: an HParamDef message, or None.
      model_structure: an arbitrary object that is kept with them.
      **kwargs: names and values; types are those of the values.
    """

    _HAS_DYNAMIC_ATTRIBUTES = True

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        self._hparam_types: dict[str, tuple[Any, bool]] = {}
        self._model_structure = model_structure
        if hparam_def:
            self._init_from_proto(hparam_def)
        else:
            for name, value in kwargs.items():
                self.add_hparam(name, value)

    def _init_from_proto(self, hparam_def: Any) -> None:
        for name, value in hparam_def.hparam.items():
            kind = value.WhichOneof("kind")
            field = getattr(value, kind)
            self.add_hparam(name, list(field.value) if kind.endswith("_list") else field)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a hyperparameter; ValueError when the name is taken, or for an empty list."""
        if getattr(self, name, None) is not None:
            raise ValueError("Hyperparameter name is reserved: %s" % name)
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError("Multi-valued hyperparameters cannot be empty: %s" % name)
            self._hparam_types[name] = (type(value[0]), True)
        else:
            self._hparam_types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Sets a hyperparameter; ValueError for another type, or if only one of old and new is a list."""
        param_type, is_list = self._hparam_types[name]
        if isinstance(value, list):
            if not is_list:
                raise ValueError("Must not pass a list for single-valued parameter: %s" % name)
            setattr(self, name, [_cast_to_type_if_compatible(name, param_type, v) for v in value])
        else:
            if is_list:
                raise ValueError("Must pass a list for multi-valued parameter: %s." % name)
            setattr(self, name, _cast_to_type_if_compatible(name, param_type, value))

    def del_hparam(self, name: str) -> None:
        """Removes a hyperparameter if it exists."""
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values: str) -> HParams:
        """Sets hyperparameters from text; see `parse_values`."""
        types = {name: kind for name, (kind, _) in self._hparam_types.items()}
        return self.override_from_dict(parse_values(values, types))

    def override_from_dict(self, values_dict: dict[str, Any]) -> HParams:
        """Sets hyperparameters from a dict by name; a value that is a dict sets elements by index."""
        for name, value in values_dict.items():
            if isinstance(value, dict):
                changed = list(getattr(self, name))
                for index, element in value.items():
                    changed[index] = element
                value = changed
            self.set_hparam(name, value)
        return self

    def set_model_structure(self, model_structure: Any) -> None:
        self._model_structure = model_structure

    def get_model_structure(self) -> Any:
        return self._model_structure

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """The values as JSON; functions are left out."""

        def plain(x: Any) -> Any:
            if callable(x):
                return "callable"
            if isinstance(x, dict):
                return {k: plain(v) for k, v in x.items()}
            return [plain(v) for v in x] if isinstance(x, list) else x

        values = {k: plain(v) for k, v in self.values().items() if not callable(v)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def parse_json(self, values_json: str) -> HParams:
        """Sets hyperparameters from a JSON object."""
        return self.override_from_dict(json.loads(values_json))

    def values(self) -> dict[str, Any]:
        """All values by name."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or a default; ValueError for a default of another type."""
        if key not in self._hparam_types:
            return default
        if default is not None:
            param_type, is_list = self._hparam_types[key]
            fail_msg = "Hparam '%s' of type '%s' is incompatible with default=%s" % (
                key, "List[%s]" % param_type if is_list else param_type, default,
            )  # fmt: skip
            if isinstance(default, list) != is_list:
                raise ValueError(fail_msg)
            try:
                for value in default if is_list else [default]:
                    _cast_to_type_if_compatible(key, param_type, value)
            except ValueError as e:
                raise ValueError("%s. %s" % (fail_msg, e)) from None
        return getattr(self, key)

    def __contains__(self, key: str) -> bool:
        return key in self._hparam_types

    def __str__(self) -> str:
        return str(sorted(self.values().items()))

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__, self.__str__())
