#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks the length of files and functions: a file at most 800 lines, a function at most 100.

Beyond 500 and 60 lines they are only counted and the worst named. Files that say on line 1 that they are generated, and
tables of data (.def, .optest, .proto), may be longer.
"""

import ast
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import source_files  # noqa: E402

FILE_SOFT, FILE_HARD = 500, 800
FUNCTION_SOFT, FUNCTION_HARD = 60, 100
CHECKED = re.compile(r"(\.(h|hpp|cc|cpp|cu|cuh|c|py|sh|js|css|html|cmake)|(^|/)(CMakeLists\.txt|run|test))$")
CXX = re.compile(r"\.(h|hpp|cc|cpp|cu|cuh|c)$")

NOT_CODE = re.compile(
    r"""//[^\n]* | /\*.*?\*/                                        # comments
      | R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"                  # raw strings
      | "(?:\\.|[^"\\\n])*" | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'   # strings, characters (not digit separators)
      | ^[ \t]*\#(?:\\\n|[^\n])*                                    # preprocessor lines
    """, re.DOTALL | re.MULTILINE | re.VERBOSE)


ATTRIBUTE = re.compile(r"\b(alignas|__attribute__|MR_\w+)\s*\((?:\([^()]*\)|[^()])*\)|\[\[[^\]]*\]\]")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def brace_kind(head, before, inside_function):
    """The kind of block that a { opens, from the text since the last statement and the character before it."""
    if inside_function:
        return "block"
    if re.search(r"\b(namespace|extern)\b", head):
        return "scope"
    plain, angles = head, 1
    while angles:
        plain, angles = re.subn(r"<[^<>]*>", "", plain)
    if re.search(r"\b(class|struct|union|enum)\b[^()=]*$", plain):
        return "scope"
    if re.match(r"[\w>]", before) or before in "=,({":
        return "value"  # a member initialiser or an initialiser list: clang-format puts no space before it
    return "function" if ")" in head and not re.search(r"=\s*$", head) else "value"


def cxx_functions(text):
    """Yields (name, first line, lines) of every function that has a body, by counting braces."""
    code = NOT_CODE.sub(blank, text)
    stack, head, head_line, line = [], "", 1, 1
    for at, c in enumerate(code):
        if c == "\n":
            line += 1
        if c == "{":
            head = ATTRIBUTE.sub("", head)
            kind = brace_kind(head.strip(), code[at - 1:at], any(k == "function" for k, _, _ in stack))
            stack.append((kind, head.strip(), head_line))
            if kind != "value":
                head = ""
        elif c == "}" and stack:
            kind, name, first = stack.pop()
            if kind == "function":
                words = re.findall(r"[\w:~]+(?=\s*\()", name)
                yield (words[0] if words else "?"), first, line - first + 1
            if kind != "value":
                head = ""
        elif c == ";" and not any(k == "value" for k, _, _ in stack):
            head = ""
        elif not any(k in ("value", "function") for k, _, _ in stack):
            if not head.strip():
                head, head_line = "", line
            head += c
            if c == ":" and head.strip() in ("public:", "private:", "protected:"):
                head = ""


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def functions(path, text):
    if CXX.search(path):
        return cxx_functions(text)
    return python_functions(text) if path.endswith(".py") else ()


def measure(root):
    """Returns ([(lines, path)], [(lines, place and name)])."""
    files, all_functions = [], []
    for path in source_files.repository_files(root):
        if not CHECKED.search(path):
            continue
        text = source_files.read(root, path)
        if source_files.is_generated(text):
            continue
        files.append((len(text.splitlines()), path))
        all_functions += [(lines, f"{path}:{first} {name}") for name, first, lines in functions(path, text)]
    return files, all_functions


def report(what, sizes, soft, hard):
    """Prints the offenders and the longest; returns how many are beyond the hard limit."""
    sizes = sorted(sizes, reverse=True)
    beyond = [s for s in sizes if s[0] > hard]
    for lines, name in beyond:
        print(f"{name}: {what} of {lines} lines, at most {hard}")
    longest = f"; longest {sizes[0][0]}: {sizes[0][1]}" if sizes else ""
    print(f"size: {len(sizes)} {what}s, {len([s for s in sizes if s[0] > soft])} over {soft} lines, "
          f"{len(beyond)} over {hard}{longest}")
    return len(beyond)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files, all_functions = measure(root)
    bad = report("file", files, FILE_SOFT, FILE_HARD)
    bad += report("function", all_functions, FUNCTION_SOFT, FUNCTION_HARD)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
