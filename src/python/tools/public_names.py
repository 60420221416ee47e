# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of public names, millrace/_public_names.txt, out of the lists of TensorFlow's API.

    public_names.py --api python_api_v1.15.txt --api python_api_v1.2.txt --source src/python [--missing FILE]

A row of the table is "nn.relu millrace.python.ops.gen_nn_ops relu": public name, module, symbol in it. Classes are looked
for in the module that the list names as their home; functions in the modules of _PLACES, in order; functions of ops are
those of the table op_names.txt. Names for which the package has nothing are left out and written to --missing.
"""
from __future__ import annotations

import argparse
import ast
import os
import re
from typing import Any, Optional

from gen_families import family_of
from gen_ops import function_name, read_names
from public_places import ABSENT, BARRED, EXTRA, LONG, LONG_FIRST, NOT_VERSION_1, PLACES, RENAMED, ROOT_PLACES

PACKAGE = "millrace.python."


class Tree:
    """The modules of the package and what each defines at its top level."""

    def __init__(self, source: str) -> None:
        self.defined: dict[str, set[str]] = {}
        self.imported: dict[str, set[str]] = {}
        self.stars: dict[str, list[str]] = {}
        root = os.path.join(source, "millrace")
        for folder, _, files in os.walk(root):
            for name in files:
                if not name.endswith(".py"):
                    continue
                path = os.path.join(folder, name)
                module = os.path.relpath(path, source)[:-3].replace(os.sep, ".")
                self._read(path, module[: -len(".__init__")] if module.endswith(".__init__") else module)

    def _read(self, path: str, module: str) -> None:
        defined: set[str] = set()
        imported: set[str] = set()
        stars: list[str] = []
        with open(path, encoding="utf-8") as file:
            body = list(ast.parse(file.read()).body)
        while body:
            node = body.pop()
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                defined.add(node.name)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    for part in ast.walk(target):
                        if isinstance(part, ast.Name):
                            defined.add(part.id)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.name == "*":
                        stars.append(node.module or "")
                    else:
                        imported.add(alias.asname or alias.name)
            elif isinstance(node, (ast.If, ast.Try, ast.With)):
                for part in ast.iter_child_nodes(node):
                    if isinstance(part, ast.stmt):
                        body.append(part)
                    elif isinstance(part, ast.ExceptHandler):
                        body += part.body
        self.defined[module], self.imported[module], self.stars[module] = defined, imported, stars

    def has(self, module: str, symbol: str) -> bool:
        """Whether a module gives a name: by itself or from another one."""
        if module not in self.defined:
            return False
        if symbol in self.defined[module] or symbol in self.imported[module]:
            return True
        return any(self.has(star, symbol) for star in self.stars[module] if star != module)

    def definers(self, symbol: str) -> list[str]:
        """The modules that define a symbol, public ones that give it in the place of private ones."""
        found = []
        for module in sorted(m for m, names in self.defined.items() if symbol in names):
            if module.rpartition(".")[2].startswith("_"):
                folder = module.rpartition(".")[0]
                givers = [
                    m
                    for m in self.defined
                    if m.startswith(folder + ".") and m != module and self.has(m, symbol)
                ]
                givers = sorted(
                    (m for m in givers if "._" not in m),
                    key=lambda m: (m.endswith((".nn", "standard_ops")), m),
                )
                found += givers[:1] or [module]
            else:
                found.append(module)
        return list(dict.fromkeys(found))


def read_api(path: str) -> dict[str, list[str]]:
    """Public name -> homes of its class; names of functions, values and messages have none."""
    names: dict[str, list[str]] = {}
    kind, current = "", ""
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.rstrip("\n")
            if not line.startswith(" "):
                kind, current = line.split(" ")[:2]
                if kind in ("class", "message"):
                    names.setdefault(current.partition(".")[2], [])
                continue
            text = line.strip()
            if kind == "class" and text.startswith("is_a "):
                home = text[5:]
                if home.startswith(("tensorflow.python", "tensorflow.core")):
                    names[current.partition(".")[2]].append(home)
            elif kind == "module":
                name = re.match(r"[A-Za-z_]\w*", text)
                value = text[name.end() :] if name else ""
                if name is None or value.startswith(": module"):
                    continue
                names.setdefault((current + "." + name.group(0)).partition(".")[2], [])
    return names


def message_names(protos: str) -> dict[str, str]:
    """Module of each message of the protocol files."""
    found: dict[str, str] = {}
    for folder, _, files in os.walk(protos):
        for name in files:
            if name.endswith(".proto"):
                path = os.path.join(folder, name)
                module = os.path.relpath(path, protos)[: -len(".proto")].replace(os.sep, ".") + "_pb2"
                module = "millrace" + module[len("tensorflow") :]
                with open(path, encoding="utf-8") as file:
                    for symbol in re.findall(r"^(?:message|enum) (\w+)", file.read(), flags=re.MULTILINE):
                        found.setdefault(symbol, module)
    return found


def op_functions(table: str) -> dict[str, tuple[str, str]]:
    """(module, function) by the public names of ops; ops that are only in raw_ops are not here."""
    found: dict[str, tuple[str, str]] = {}
    for op, row in read_names(table).items():
        if not row["visible"]:
            continue
        for name in row["as"] or [function_name(op)]:
            found[name] = (PACKAGE + "ops." + gen_module(op), function_name(op))
    return found


def gen_module(op: str) -> str:
    family = family_of(op)
    return "gen_no_op" if family == "no_op" else "gen_%s_ops" % family


class Resolver:
    """Finds module and symbol of a public name."""

    def __init__(
        self, tree: Tree, messages: dict[str, str], ops: dict[str, tuple[str, str]], table: str
    ) -> None:
        self.tree, self.messages, self.ops = tree, messages, ops
        self.gen = {function_name(op): PACKAGE + "ops." + gen_module(op) for op in read_names(table)}

    def _in(self, module: str, symbol: str) -> Optional[tuple[str, str]]:
        module = PACKAGE + module
        if self.tree.has(module, symbol):
            return module, symbol
        if ".gen_" in module and self.gen.get(symbol) == module:
            return module, symbol
        return None

    def __call__(self, public: str, homes: list[str]) -> Optional[tuple[str, str]]:
        prefix, _, name = public.rpartition(".")
        if public in RENAMED:
            home, _, symbol = RENAMED[public].partition(" ")
            if not symbol:
                return (PACKAGE + home, "") if PACKAGE + home in self.tree.defined else None
            return self._in(home, symbol)
        for home in homes[:1]:
            module, _, symbol = home.rpartition(".")
            if module.startswith("tensorflow.python."):
                found = self._in(module[len("tensorflow.python.") :], symbol)
                if found:
                    return found
        if public in self.ops:
            return self.ops[public]
        # Functions of version 1 that differ from version 2 end in _v1.
        long_name = LONG.get(prefix, "") + name
        versions = [] if name in NOT_VERSION_1 else [name + "_v1"]
        symbols = [long_name, *versions, name] if prefix in LONG_FIRST else [*versions, name, long_name]
        for modules in (PLACES.get(prefix, []), ROOT_PLACES):
            for symbol in symbols:
                for module in modules:
                    found = self._in(module, symbol)
                    if found:
                        return found
        if name in self.messages:
            return self.messages[name], name
        outer, _, inner = public.rpartition(".")
        last = outer.rpartition(".")[2]
        if last[:1].isupper() and last in self.messages:
            return self.messages[last], last + "." + inner
        definers = self.tree.definers(name)
        return (definers[0], name) if len(definers) == 1 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", action="append", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--missing")
    options = parser.parse_args()
    table = os.path.join(options.source, "tables", "op_names.txt")
    protos = os.path.join(options.source, "..", "..", "proto")
    names: dict[str, list[str]] = {}
    for path in options.api:
        for name, homes in read_api(path).items():
            if not names.get(name):
                names[name] = homes
    for name in EXTRA:
        names.setdefault(name, [])
    ops = op_functions(table)
    for name in ops:
        names.setdefault(name, [])
    resolve = Resolver(Tree(options.source), message_names(protos), ops, table)
    rows: dict[str, str] = {}
    missing: list[str] = []
    for name, homes in sorted(names.items()):
        if name.startswith(BARRED) or name.split(".")[0] in ABSENT or name.startswith("raw_ops."):
            continue
        if any(other.startswith(name + ".") for other in PLACES) or name in PLACES:
            continue  # a module of names
        if any(part[:1].isupper() for part in name.split(".")[:-1]):
            continue  # inner classes come with the outer ones
        found: Any = resolve(name, homes)
        if found is None:
            missing.append(name)
        else:
            rows[name] = " ".join((name, *found)).rstrip() + "\n"
    with open(os.path.join(options.source, "millrace", "_public_names.txt"), "w", encoding="utf-8") as file:
        file.write(
            "# Public name, module, symbol. Written by tools/public_names.py; see there how to make it anew.\n"
        )
        file.writelines(rows[name] for name in sorted(rows))
    if options.missing:
        with open(options.missing, "w", encoding="utf-8") as file:
            file.writelines(name + "\n" for name in missing)
    print("%d names, %d missing" % (len(rows), len(missing)))


if __name__ == "__main__":
    main()
