# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the package with a list of TensorFlow's Python API: names that exist, that differ, and that are missing.

    PYTHONPATH=build/release/python python3 src/python/tools/compare_api.py LIST [--markdown] [--all]

LIST has a line for each class, message and module, and below it, indented, the members: `name: kind` and
`name(self, argument, argument=default)`.
"""
from __future__ import annotations

import argparse
import ast
import collections
import importlib
import inspect
import re
from typing import Any, Iterator, NamedTuple

import millrace as tf

# Areas of the API that Millrace leaves out on purpose.
LEFT_OUT = (
    "keras estimator feature_column distribute autograph lite tpu xla ragged distributions profiler".split()
)


class Member(NamedTuple):
    owner: str
    name: str
    # Names and defaults as text, None without one; None: no function or not known.
    arguments: list[tuple[str, str | None]] | None


def is_left_out(path: str) -> bool:
    return any(part in LEFT_OUT for part in path.split(".")) or "Ragged" in path


def split_arguments(text: str) -> list[str]:
    """Splits at the commas that stand outside brackets and quotes."""
    parts, depth, current = [], 0, ""
    for c in text:
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth <= 0:
            parts.append(current.strip())
            current = ""
        else:
            current += c
    return [part for part in [*parts, current.strip()] if part]


def members(path: str) -> Iterator[tuple[str, str, Member | None]]:
    """Kind and path of each entry, alone and with each of its members."""
    kind = owner = ""
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.rstrip("\n")
            if not line.startswith(" "):
                kind, _, owner = line.partition(" ")
                yield kind, owner, None
                continue
            line = line.strip()
            if line.startswith("is_a ") or kind not in ("class", "module"):
                continue
            function = re.match(r"^(\w+)\((.*)\)$", line)
            if function:
                text = function.group(2)
                arguments = None
                if text != "..." and "(" not in text.replace("()", ""):
                    arguments = [
                        (n, d if eq else None)
                        for n, eq, d in (p.partition("=") for p in split_arguments(text))
                    ]
                yield kind, owner, Member(owner, function.group(1), arguments)
            else:
                yield kind, owner, Member(owner, line.split(":")[0], None)


def resolve(path: str) -> Any:
    parts = path.split(".")
    value: Any = importlib.import_module("millrace")
    for part in parts[1:]:
        value = getattr(value, part)
    return value


def default_text(value: Any) -> str:
    """A default as the lists write it."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if callable(value) and hasattr(value, "__name__"):
        return "<function %s instance>" % value.__name__
    if isinstance(value, tf.DType):
        return str(value.name)
    return str(value)


def same_default(found: str, wanted: str) -> bool:
    """Whether two defaults agree; objects of other classes than those of numbers and texts count as equal."""
    wanted = wanted.encode().decode("unicode_escape") if "\\" in wanted else wanted
    if found.strip(", ") == wanted.strip(", ") or "object" in wanted or "<" in wanted + found:
        return True
    try:
        return bool(ast.literal_eval(found) == ast.literal_eval(wanted))
    except (SyntaxError, ValueError):
        return False


def arguments_of(function: Any) -> list[tuple[str, str | None]] | None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    found = []
    for p in signature.parameters.values():
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        found.append((prefix + p.name, None if p.default is p.empty else default_text(p.default)))
    return found


def difference(owner: Any, member: Member, is_class: bool) -> str | None:
    """The difference of a member, or None."""
    try:
        value = inspect.getattr_static(owner, member.name) if is_class else getattr(owner, member.name)
    except (AttributeError, ImportError, NotImplementedError):
        if is_class and any(
            member.name in getattr(base, "__slots__", ()) for base in getattr(owner, "__mro__", ())
        ):
            return None
        try:
            getattr(owner, member.name)
            return None
        except Exception:  # noqa: BLE001: an attribute that raises counts as missing
            return "missing"
    if member.arguments is None:
        return None
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if inspect.isclass(value):
        return None
    found = arguments_of(value)
    if found is None:
        return None
    wanted = [("self" if name == "instance" else name, default) for name, default in member.arguments]
    if [name for name, _ in wanted if name != "self"] in (["*args", "**kwargs"], ["*args", "**kwds"]):
        return None  # the list has the function of a decorator
    if found and found[0][0] in ("self", "cls") and (not wanted or wanted[0][0] not in ("self", "cls")):
        found = found[1:]
    if [name for name, _ in found if name[0] == "*"] and not [name for name, _ in wanted if name[0] == "*"]:
        return None if len(found) == 2 else f"({', '.join(n for n, _ in found)})"
    if [name for name, _ in found][: len(wanted)] != [name for name, _ in wanted]:
        return f"({', '.join(n for n, _ in found)}) for ({', '.join(n for n, _ in wanted)})"
    for (name, default), (_, should) in zip(found, wanted):
        if should is not None and default is None:
            return f"{name} has no default"
        if should is not None and default is not None and not same_default(default, should):
            return f"{name}={default} for {name}={should}"
    return None


def compare(path_of_list: str) -> Iterator[tuple[str, str, str]]:
    """Area, full name and the result for each entry: "present", "left out", "missing" or how the entry differs."""
    for kind, path, member in members(path_of_list):
        area = (
            path.split(".")[1] if path.count(".") and kind == "module" else path.split(".")[1:-1] or "(top)"
        )
        area = area if isinstance(area, str) else area[0]
        full = f"{path}.{member.name}" if member else path
        if is_left_out(full):
            yield area, full, "left out"
            continue
        try:
            owner = resolve(path.replace("tensorflow", "millrace", 1))
        except Exception:  # noqa: BLE001
            yield area, full, "missing"
            continue
        yield area, full, (difference(owner, member, kind == "class") if member else None) or "present"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("list")
    parser.add_argument("--markdown", action="store_true", help="a table by area and nothing else")
    options = parser.parse_args()
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for area, full, what in compare(options.list):
        plain = what in ("present", "left out", "missing")
        counts[area][what if plain else "differs"] += 1
        if what not in ("present", "left out") and not options.markdown:
            print("missing %s" % full if plain else "differs %s %s" % (full, what))
    total: collections.Counter[str] = collections.Counter()
    print("\n| area | present | differs | missing | left out |\n|---|---|---|---|---|")
    for area in sorted(counts):
        total += counts[area]
        print(
            f"| {area} | "
            + " | ".join(str(counts[area][k]) for k in ("present", "differs", "missing", "left out"))
            + " |"
        )
    print("| all | " + " | ".join(str(total[k]) for k in ("present", "differs", "missing", "left out")) + " |")


if __name__ == "__main__":
    main()
