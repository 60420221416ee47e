#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Finds types of one name that are defined in two files and can meet in one program.

To the linker two definitions of millrace::Plan are one: it keeps one of the functions that both have inline, and what one
file allocated is freed as if it were the other's. No compiler sees both. So a type at the level of a namespace has to be
defined once, or in an unnamed namespace. Files that are never linked together are not compared: those of tests, benchmarks
and examples are, within their folder and with the library.
"""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import source_files  # noqa: E402

TOKEN = re.compile(r'''
    (?P<skip> //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:[^\n\\]|\\.)* | \s+ )
  | (?P<text> R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
  | (?P<name> [A-Za-z_]\w* )
  | (?P<number> \.?\d(?:[\w.]|'\w|[eEpP][+-])* )
  | (?P<sign> :: | \[\[ | \]\] | . )
''', re.VERBOSE | re.DOTALL | re.MULTILINE)
KEYWORDS = ("struct", "class", "union", "enum")
UNNAMED = None  # the name of an unnamed namespace, and of what is in it


def tokens(text):
    return [m.group() for m in TOKEN.finditer(text) if m.lastgroup != "skip" and m.group("skip") is None]


def skip_balanced(words, at, opening, closing):
    """The place behind the bracket that closes the one at `at`."""
    depth = 0
    while at < len(words):
        if words[at] == opening:
            depth += 1
        elif words[at] == closing:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return at


def type_name(words, at):
    """(name, place of its brace) of the type whose keyword is before `at`; None when none is defined there."""
    while at < len(words):  # enum class, attributes, alignas(…), MACRO(…)
        if words[at] in ("class", "struct"):
            at += 1
        elif words[at] == "[[":
            at = skip_balanced(words, at, "[[", "]]")
        elif at + 1 < len(words) and words[at + 1] == "(" and re.fullmatch(r"alignas|[A-Z][A-Z0-9_]+", words[at]):
            at = skip_balanced(words, at + 1, "(", ")")
        elif re.fullmatch(r"MR_[A-Z0-9_]+", words[at]):
            at += 1
        else:
            break
    name = ""
    while at < len(words) and words[at] not in ("{", ";", ":", "(", ")", "=", ",", ">", "final"):
        if words[at] == "<":
            end = skip_balanced(words, at, "<", ">")
            name += "".join(words[at:end])
            at = end
            continue
        if name and re.match(r"\w", words[at]) and re.search(r"\w$", name):
            return None  # "struct S f": something of that type
        name += words[at]
        at += 1
    while at < len(words) and words[at] not in ("{", ";", "(", ")", "="):  # final, bases
        at = skip_balanced(words, at, "<", ">") if words[at] == "<" else at + 1
    if not name or at >= len(words) or words[at] != "{":
        return None
    return name, at


def namespace_at(words, at):
    """(name, place of its brace) of the namespace whose keyword is before `at`; None for an alias."""
    names = []
    while at < len(words) and words[at] not in ("{", ";", "="):
        if words[at] == "[[":
            at = skip_balanced(words, at, "[[", "]]")
            continue
        if re.match(r"\w", words[at]) and words[at] != "inline":
            names.append(words[at])
        at += 1
    if at >= len(words) or words[at] != "{":
        return None
    return ("::".join(names) if names else UNNAMED), at


def defined_types(text):
    """Qualified names of the types that the text defines at the level of named namespaces."""
    words = tokens(text)
    found = set()
    scopes = []  # of each open brace: ("namespace", name) or ("other", None)
    at = 0
    while at < len(words):
        word = words[at]
        in_namespaces = all(kind == "namespace" for kind, _ in scopes)
        if word == "template" and at + 1 < len(words) and words[at + 1] == "<":
            at = skip_balanced(words, at + 1, "<", ">")
            continue
        if word == "namespace" and (at == 0 or words[at - 1] != "using"):
            opened = namespace_at(words, at + 1)
            if opened is not None:
                scopes.append(("namespace", opened[0]))
                at = opened[1] + 1
                continue
        elif word in KEYWORDS and in_namespaces:
            defined = type_name(words, at + 1)
            if defined is not None:
                names = [name for _, name in scopes]
                if UNNAMED not in names:
                    found.add("::".join(names + [defined[0]]))
                scopes.append(("other", None))
                at = defined[1] + 1
                continue
        if word == "{":
            scopes.append(("other", None))
        elif word == "}" and scopes:
            scopes.pop()
        at += 1
    return found


def program_of(path):
    """The target that links the file: "" for the library, else a folder of tests, benchmarks or examples."""
    in_library = path.startswith(("src/", "include/"))
    if in_library and not re.search(r"(_test|_testing|/testing)\.(cc|h)$", path):
        return ""
    return os.path.dirname(path)


def check(root):
    files = [p for p in source_files.repository_files(root)
             if re.search(r"\.(cc|h)$", p) and p.startswith(("src/", "include/", "tests/", "bench/", "examples/"))]
    where = {}
    for path in files:
        text = source_files.read(root, path)
        if source_files.is_generated(text):
            continue
        for name in defined_types(text):
            where.setdefault(name, []).append(path)
    problems = []
    for name, paths in sorted(where.items()):
        for i, first in enumerate(paths):
            for second in paths[i + 1:]:
                programs = {program_of(first), program_of(second)}
                if len(programs) == 1 or "" in programs:
                    problems.append(f"{second}: {name} is defined in {first}, too: rename it or put it into an "
                                    "unnamed namespace")
    return problems, len(files), len(where)


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    problems, files, types = check(root)
    for problem in problems:
        print(problem)
    print(f"odr: {files} files, {types} types, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
