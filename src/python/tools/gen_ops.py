# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the modules gen_*_ops.py, one function for each op of the registry, and their stubs.

    gen_ops.py --out DIR --names TABLE

DIR is the package folder millrace/python/ops. TABLE has a row for each op with the renames of its arguments, DOCS rows
"Op<TAB>sentence". The extension module must be importable; the messages are those of millrace.core.
"""
from __future__ import annotations

import argparse
import collections
import json
import keyword
import os
import re
from typing import Any

from gen_families import family_of

TYPE_NAMES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string", 8: "complex64", 9: "int64",
    10: "bool", 11: "qint8", 12: "quint8", 13: "qint32", 14: "bfloat16", 15: "qint16", 16: "quint16", 17: "uint16",
    18: "complex128", 19: "float16", 20: "resource", 21: "variant", 22: "uint32", 23: "uint64",
}  # fmt: skip
# Names that would hide something of Python, or of the modules that import all names of a generated one.
UNDERSCORED = set(
    """abs all any apply bin bool buffer bytearray bytes callable chr classmethod cmp coerce compile complex copyright
    credits delattr dict dir divmod enumerate eval execfile exit file filter float format frozenset getattr globals
    hasattr hash help hex id input int intern isinstance issubclass iter len license list locals long map max memoryview
    min next object oct open ord pow print property quit range raw_input reduce reload repr reversed set setattr slice
    sorted staticmethod str sum super tuple type unichr unicode vars xrange zip fused_batch_norm histogram_fixed_width
    stack batch_norm_with_global_normalization clip_by_value""".split()
)
SHAPE_NONE = "None"


def snake_case(name: str) -> str:
    """ "MatMul" -> "mat_mul", as TensorFlow splits names."""
    result = ""
    for i, c in enumerate(name):
        if c.isupper() and i > 0 and (name[i - 1].islower() or name[i + 1 : i + 2].islower()):
            result += "_"
        result += c.lower()
    return result


def function_name(op_name: str) -> str:
    name = snake_case(op_name)
    return "_" + name if name in UNDERSCORED or keyword.iskeyword(name) else name


def parameter_name(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) else name


def arg_type(arg: Any) -> str:
    text = "&" if arg.is_ref else ""
    if arg.type_list_attr:
        return text + "*" + arg.type_list_attr
    kind = arg.type_attr if arg.type_attr else "#%d" % arg.type
    return text + (arg.number_attr + "*" + kind if arg.number_attr else kind)


def arg_type_text(arg: Any) -> str:
    if arg.type_list_attr:
        return "a list of tensors"
    kind = "`%s`" % arg.type_attr if arg.type_attr else TYPE_NAMES[arg.type]
    mutable = "a mutable " if arg.is_ref else "a "
    return (
        ("a list of %s tensors of type %s" % (arg.number_attr, kind))
        if arg.number_attr
        else mutable + "tensor of type " + kind
    )


class Attr:
    """One attribute of an op."""

    def __init__(self, attr: Any, renames: dict[str, str], defaults: dict[str, str]) -> None:
        self.name = attr.name
        self.parameter = parameter_name(renames.get(attr.name, attr.name))
        self.type = attr.type
        self.has_default = attr.HasField("default_value")
        self.default = value_of(attr.default_value, attr.type) if self.has_default else None
        if attr.name in defaults:
            self.has_default, self.default = True, defaults[attr.name]
        self.allowed = ()
        if attr.HasField("allowed_values"):
            values = attr.allowed_values.list
            self.allowed = tuple(values.type) or tuple(s.decode() for s in values.s)
        self.minimum = attr.minimum if attr.has_minimum else None

    def default_source(self) -> str:
        if self.type == "type":
            return "_dtypes.%s" % TYPE_NAMES[self.default] if self.default else "None"
        if self.type == "list(type)":
            return "[%s]" % ", ".join("_dtypes." + TYPE_NAMES[t] for t in self.default)
        if isinstance(self.default, bytes):
            return repr(self.default.decode("latin-1"))
        if isinstance(self.default, list):
            return repr([v.decode("latin-1") if isinstance(v, bytes) else v for v in self.default])
        if isinstance(self.default, float) and self.default in (float("inf"), float("-inf")):
            return "float('%s')" % self.default
        return repr(self.default)

    def spec(self) -> str:
        default = self.default if self.type == "type" and self.has_default else 0
        return "(%r, %r, %r, %r, %r)" % (self.name, self.type, self.allowed, self.minimum, default)

    def text(self) -> str:
        words = {"list(type)": "types", "type": "a type", "int": "an integer", "bool": "a bool", "string": "a string",
                 "float": "a float", "shape": "a shape", "func": "a function", "tensor": "a TensorProto"}  # fmt: skip
        text = words.get(self.type, "a list of %ss" % self.type[5:-1])
        if self.allowed:
            text += ": " + ", ".join(
                TYPE_NAMES.get(v, repr(v)) if isinstance(v, int) else '"%s"' % v for v in self.allowed
            )
        if self.minimum is not None:
            text += ", at least %d%s" % (self.minimum, " of them" if self.type.startswith("list") else "")
        return text


def round_float(value: float) -> float:
    """The shortest number that is this float32."""
    for digits in range(1, 10):
        text = "%.*g" % (digits, value)
        import struct

        if struct.pack("f", float(text)) == struct.pack("f", value):
            return float(text)
    return value


def value_of(value: Any, kind: str) -> Any:
    if kind.startswith("list("):
        inner = kind[5:-1]
        fields = {"int": "i", "float": "f", "bool": "b", "string": "s", "type": "type", "shape": "shape"}
        found = list(getattr(value.list, fields[inner])) if inner in fields else []
        if inner == "shape":
            return [shape_value(s) for s in found]
        return [round_float(v) for v in found] if inner == "float" else found
    if kind == "shape":
        return shape_value(value.shape)
    if kind == "float":
        return round_float(value.f)
    if kind in ("func", "tensor"):
        return None
    return getattr(value, {"int": "i", "bool": "b", "string": "s", "type": "type"}[kind])


def shape_value(shape: Any) -> Any:
    return None if shape.unknown_rank else [dim.size for dim in shape.dim]


class Op:
    """One op with what its function is made of."""

    def __init__(self, op_def: Any, row: dict[str, Any]) -> None:
        self.name = op_def.name
        self.function = function_name(op_def.name)
        self.doc = op_def.summary
        self.deprecation = op_def.deprecation if op_def.HasField("deprecation") else None
        renames = row.get("in", {})
        self.inputs = op_def.input_arg
        self.input_parameters = [parameter_name(renames.get(arg.name, arg.name)) for arg in op_def.input_arg]
        self.outputs = op_def.output_arg
        inferred = {
            name for arg in op_def.input_arg for name in (arg.type_attr, arg.number_attr, arg.type_list_attr)
        }
        self.attrs = [Attr(a, row.get("attr", {}), row.get("default", {})) for a in op_def.attr]
        explicit = [a for a in self.attrs if a.name not in inferred]
        self.parameters = [a for a in explicit if not a.has_default] + [a for a in explicit if a.has_default]
        self.is_stateful = op_def.is_stateful

    def signature(self) -> str:
        parts = list(self.input_parameters)
        parts += [a.parameter + ("=" + a.default_source() if a.has_default else "") for a in self.parameters]
        return ", ".join(parts + ["name=None"])

    def result_name(self) -> str:
        return self.name + "Output" if False else self.name

    def spec(self) -> str:
        inputs = ["%s:%s" % (p, arg_type(a)) for p, a in zip(self.input_parameters, self.inputs)]
        outputs = ["%s:%s" % (a.name, arg_type(a)) for a in self.outputs]
        attrs = "".join(a.spec() + ", " for a in self.attrs)
        defaults = "".join(
            "%s, " % (a.default_source() if a.has_default else "_NONE") for a in self.parameters
        )
        return '_op("%s", "%s", "%s", (%s), "%s", (%s))' % (
            self.name, " ".join(inputs), " ".join(outputs), attrs, " ".join(a.name for a in self.parameters), defaults,
        )  # fmt: skip

    def docstring(self) -> str:
        lines = [self.doc or "The op %s." % self.name, ""]
        if self.deprecation is not None and self.deprecation.explanation:
            lines[1:] = ["", "Deprecated: " + self.deprecation.explanation, ""]
        lines.append("Args:")
        for name, arg in zip(self.input_parameters, self.inputs):
            lines.append("  %s: %s." % (name, arg_type_text(arg)))
        for attr in self.parameters:
            default = " (%s)" % attr.default_source().replace("_dtypes.", "tf.") if attr.has_default else ""
            lines.append("  %s: %s%s." % (attr.parameter, attr.text(), default))
        lines.append("  name: of the operation.")
        types = [a for a in self.attrs if a.type == "type" and a.allowed and a not in self.parameters]
        if types:
            lines.append("")
        for attr in types:
            lines.append("`%s` is one of %s." % (attr.name, ", ".join(TYPE_NAMES[t] for t in attr.allowed)))
        lines += ["", "Returns:"]
        if not self.outputs:
            lines.append("  The operation.")
        for arg in self.outputs:
            lines.append("  %s: %s." % (arg.name, arg_type_text(arg)))
        text = "\n".join("  " + line if line else "" for line in lines)
        return text.replace("\\", "\\\\").replace('"""', "'''").lstrip()

    def result_annotation(self) -> str:
        if not self.outputs:
            return "Operation"
        if len(self.outputs) > 1:
            return "Any"
        arg = self.outputs[0]
        return "list[Tensor]" if arg.number_attr or arg.type_list_attr else "Tensor"

    def source(self) -> str:
        arguments = ", ".join(self.input_parameters + [a.parameter for a in self.parameters] + ["name"])
        variable = "_spec_" + self.name
        return '%s = %s\n\n\ndef %s(%s):\n  """%s\n  """\n  return %s(%s)\n' % (
            variable, self.spec(), self.function, self.signature(), self.docstring(), variable, arguments,
        )  # fmt: skip

    def stub(self) -> str:
        parts = ["%s: Any" % p for p in self.input_parameters]
        parts += ["%s: Any%s" % (a.parameter, " = ..." if a.has_default else "") for a in self.parameters]
        return "def %s(%s) -> %s: ...\n" % (
            self.function,
            ", ".join(parts + ["name: str | None = ..."]),
            self.result_annotation(),
        )


HEADER = '''# Generated by tools/gen_ops.py: do not edit.
"""Functions of the ops of the family %s."""
from millrace.python.framework import dtypes as _dtypes
from millrace.python.framework.op_def_library import _NONE, make_op_function as _op, gen_module_getattr as _getattr

'''


def write(path: str, text: str) -> None:
    """Writes a file if its text changes, so that nothing is compiled again without need."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def read_names(path: str) -> dict[str, Any]:
    """Rows "Op | hidden | as a, b | in x rename y | attr x rename y | attr x default b True"."""
    table: dict[str, Any] = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("#") or not line.strip():
                continue
            fields = [field.strip() for field in line.rstrip("\n").split("|")]
            row: dict[str, Any] = {
                "visible": fields[1] == "visible",
                "in": {},
                "attr": {},
                "default": {},
                "as": [],
            }
            for field in fields[2:]:
                words = field.split()
                if words[0] == "as":
                    row["as"] = re.findall(
                        r"([\w.]+)(?: \(deprecated\))?", field[3:].replace(" (deprecated)", "")
                    )
                elif words[0] == "in" and words[2] == "rename":
                    row["in"][words[1]] = words[3]
                elif words[0] == "attr" and words[2] == "rename":
                    row["attr"][words[1]] = words[3]
                elif words[0] == "attr" and words[2] == "default":
                    row["default"][words[1]] = {"True": True, "False": False}.get(words[4], words[4])
            table[fields[0]] = row
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--names", required=True)
    options = parser.parse_args()
    from millrace.core.framework import op_def_pb2
    from millrace.python import _engine

    names = read_names(options.names)
    families: dict[str, list[Op]] = collections.defaultdict(list)
    index: dict[str, Any] = {}
    for op_def in op_def_pb2.OpList.FromString(_engine.all_ops()).op:
        if not re.fullmatch(r"_?[A-Za-z0-9]+", op_def.name):
            continue
        op = Op(op_def, names.get(op_def.name, {}))
        if op_def.name.startswith("_"):
            continue
        family = family_of(op_def.name)
        families[family].append(op)
        index[op_def.name] = ["gen_%s_ops" % family if family != "no_op" else "gen_no_op", op.function]
    os.makedirs(options.out, exist_ok=True)
    for family, ops in families.items():
        ops.sort(key=lambda o: o.name)
        module = "gen_%s_ops" % family if family != "no_op" else "gen_no_op"
        source = HEADER % family + "\n\n".join(op.source() for op in ops)
        aliases = ["%r: %r" % (op.function[1:], op.function) for op in ops if op.function.startswith("_")]
        source += (
            "\n\n_ALIASES = {%s}\n\n\ndef __getattr__(name):\n  return _getattr(__name__, _ALIASES, name)\n"
            % ", ".join(aliases)
        )
        write(os.path.join(options.out, module + ".py"), source)
        stub = "# Generated by tools/gen_ops.py: do not edit.\nfrom typing import Any\n\nfrom millrace.python.framework.ops import Operation, Tensor\n\n"
        write(
            os.path.join(options.out, module + ".pyi"),
            stub + "".join(op.stub() for op in ops) + "def __getattr__(name: str) -> Any: ...\n",
        )
    rows = "".join(
        "    %s: %s,\n" % (json.dumps(name), tuple(entry)) for name, entry in sorted(index.items())
    )
    write(
        os.path.join(options.out, "_op_index.py"),
        '# Generated by tools/gen_ops.py: do not edit.\n"""Module and function of each op."""\nOPS = {\n%s}\n'
        % rows,
    )


if __name__ == "__main__":
    main()
