#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks the includes of the sources, and the link edges of CMake, against docs/architecture.md.

The document holds two fenced blocks that are read here: `include-table` (folder: the folders it may include) and
`public-headers` (header of include/millrace: the folder it belongs to). Prints each offending line and fails.
"""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import source_files  # noqa: E402

DOCUMENT = "docs/architecture.md"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
MOST_PUBLIC_HEADERS = 56  # docs/decisions/0015-headers-of-the-training-library.md
GENERATED_HEADERS = ("ops.h",)  # made by the build, so not among the files of the repository

# Third-party headers with a home. Value: (regular expression of the files that may include it, where that is).
HOMES = {
    re.compile(r"^(unsupported/)?Eigen/"): (r"src/kernels/cpu/(.*\.cc|linalg/.*)|include/tensorflow/core/framework/tensor_types\.h|bench/.*\.cc", "src/kernels/cpu/*.cc and linalg/"),
    re.compile(r"^re2/"): (r"src/kernels/cpu/.*\.cc", "src/kernels/cpu/*.cc"),
    re.compile(r"^(dnnl|oneapi/dnnl/dnnl)[\w.]*$"): (r"(src/kernels/cpu|bench)/.*", "src/kernels/cpu and bench"),
    re.compile(r"^(grpc|grpcpp|absl)/"): (r"(src/rpc|bench)/.*", "src/rpc and bench"),
    re.compile(r"^(jpeglib|jerror|png)\.h$"): (r"(src/io/image|examples/mnist)/.*", "src/io/image and examples/mnist"),
    re.compile(r"^sqlite3\.h$"): (r"(src/kernels/data|(src/kernels/cpu|tests/optest)/logging)/.*",
                                   "src/kernels/data and the folders logging"),
    re.compile(r"^snappy\.h$"): (r"src/io/checkpoint/.*", "src/io/checkpoint"),
    re.compile(r"^cuda"): (r"src/(device/cuda|kernels/cuda)/.*", "device/cuda and kernels/cuda"),
}
# A generated protobuf header costs about a second in every file that sees it: only codecs show one in a header.
PROTO_HEADER = re.compile(r"^(tensorflow|google/protobuf)/.*\.pb\.h$")
MAY_SHOW_PROTOS = re.compile(r"(_codec|codec_\w+|_pb|_testing)\.h$|^tests/")


class Rules:
    """The tables of the document."""

    def __init__(self, may_include, header_owner):
        self.may_include = may_include
        self.header_owner = header_owner

    def allows(self, folder, other):
        return other == folder or other in self.may_include.get(folder, ())


def fenced_block(text, name):
    found = re.search(r"^```" + name + r"\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise ValueError(f"{DOCUMENT}: no block ```{name}")
    rows = {}
    for line in found.group(1).splitlines():
        line = line.split("#")[0].strip()
        if line:
            key, _, value = line.partition(":")
            rows[key.strip()] = [v for v in value.split() if v != "-"]
    return rows


def parse_document(text):
    """Returns (rules, problems of the tables themselves)."""
    table = fenced_block(text, "include-table")
    owners = {header: folders[0] for header, folders in fenced_block(text, "public-headers").items()}
    problems = []
    done = set()
    for folder, others in table.items():
        for other in others:
            if other not in done:
                problems.append(f"{DOCUMENT}: {folder} names {other}, which is not above it in the table")
        done.add(folder)
    for header, owner in owners.items():
        if owner not in table:
            problems.append(f"{DOCUMENT}: {header} belongs to {owner}, which is not in the table")
    return Rules(table, owners), problems


def folder_of(path):
    """The layer that a file belongs to, or None outside src/."""
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def is_test(path):
    return bool(re.search(r"_(test|testing|bench|fuzz)\.(cc|h)$", path))


def target_layer(include, rules):
    """The layer that a quoted include belongs to: (layer, error)."""
    first = include.split("/")[0]
    if first == "millrace":
        header = include[len("millrace/"):]
        if header in rules.header_owner:
            return rules.header_owner[header], None
        return None, f"public header {header} is not in the public-headers block of {DOCUMENT}"
    if first == "tensorflow":
        return "proto", None
    if "/" not in include:
        return None, "include project headers as \"folder/file.h\""
    if first in rules.may_include:
        return first, None
    return None, f"no folder '{first}' in the include table of {DOCUMENT}"


def check_include(path, quote, include, rules):
    """Returns what is wrong with one include, or None."""
    if "../" in include:
        return "no ../ in includes"
    for pattern, (files, home) in HOMES.items():
        if pattern.search(include) and not re.fullmatch(files, path):
            return f"<{include}> is for {home} only"
    if PROTO_HEADER.search(include) and path.endswith(".h") and not MAY_SHOW_PROTOS.search(path):
        return f"{include} in a header that is not a codec; declare the message instead"
    if quote == "<":
        return None
    if path.startswith("include/millrace/c/"):
        allowed = include.startswith(("millrace/c/", "tensorflow/c/"))
        return None if allowed else "headers for C include only each other and those of the C API"
    if path.startswith("include/millrace/"):
        return None if include.startswith("millrace/") else "public headers include only each other"
    if path.startswith("examples/"):
        ours = include.startswith("millrace/") or "/" not in include
        return None if ours else "examples include public headers and their own files only"
    folder = folder_of(path)
    if folder is None:
        return None
    if folder == "python" and include.startswith("tensorflow/c/"):
        return None  # the C API, which stands on `c`
    layer, error = target_layer(include, rules)
    if error:
        return error
    if not rules.allows(folder, layer) and not is_test(path):
        return f"{folder} may not include {layer}"
    return None


def check_source(path, text, rules):
    problems = []
    folder = folder_of(path)
    if folder is not None and folder not in rules.may_include:
        return [f"{path}: folder '{folder}' is not in the include table of {DOCUMENT}"]
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            error = check_include(path, match.group(1), match.group(2), rules)
            if error:
                problems.append(f"{path}:{number}: {error}: {line.strip()}")
    return problems


def libraries_in(path, text):
    """Yields (name, names in DEPS) of each mr_library of a CMakeLists.txt."""
    for body in re.findall(r"\bmr_library\s*\(([^)]*)\)", re.sub(r"#.*", "", text)):
        words = body.split()
        section, deps = "", []
        for word in words[1:]:
            if word in ("SOURCES", "DEPS", "LINK", "PCH"):
                section = word
            elif section == "DEPS":
                deps.append(word)
        yield words[0], deps


def check_link_edges(lists, rules):
    """A library links only what its folder may include. `lists`: the text of each CMakeLists.txt by its path."""
    home = {layer: layer for layer in rules.may_include}  # of a library, by name; a folder may have several
    for path, text in lists.items():
        home.update((name, folder_of(path)) for name, _ in libraries_in(path, text) if folder_of(path))
    problems = []
    for path, text in lists.items():
        folder = folder_of(path)
        for name, deps in libraries_in(path, text) if folder else ():
            for dep in deps:
                if dep not in home:
                    problems.append(f"{path}: mr_library({name}) links {dep}, which no mr_library makes")
                elif not rules.allows(folder, home[dep]):
                    problems.append(f"{path}: mr_library({name}) may not link {dep}")
    return problems


def check(root):
    """Returns all problems below root."""
    try:
        rules, problems = parse_document(source_files.read(root, DOCUMENT))
    except (OSError, ValueError) as error:
        return [str(error)], 0
    paths = source_files.repository_files(root)
    headers = [p[len("include/millrace/"):] for p in paths if p.startswith("include/millrace/")]
    for header in headers:
        if header not in rules.header_owner:
            problems.append(f"include/millrace/{header}: not in the public-headers block of {DOCUMENT}")
    for header in rules.header_owner:
        if header not in headers and header not in GENERATED_HEADERS:
            problems.append(f"{DOCUMENT}: include/millrace/{header} is listed but does not exist")
    if len([h for h in headers if h.endswith(".h")]) > MOST_PUBLIC_HEADERS:
        problems.append(f"include/millrace: {len(headers)} public headers, at most {MOST_PUBLIC_HEADERS}")
    sources = [p for p in paths if re.search(r"\.(h|cc|cu|cuh|def|inc)$", p) and not p.startswith("proto/")]
    for path in sources:
        problems += check_source(path, source_files.read(root, path), rules)
    lists = {p: source_files.read(root, p) for p in paths if p.endswith("CMakeLists.txt")}
    problems += check_link_edges(lists, rules)
    return problems, len(sources)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    problems, count = check(root)
    for problem in problems:
        print(problem)
    print(f"layers: {count} sources, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
