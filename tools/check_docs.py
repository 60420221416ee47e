#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks what the documents say against the repository.

Links and paths in backticks lead somewhere; blocks that claim to be a file, or a part of one, are that to the letter; the
number of ops is right; folders of src/ have a README of at most 15 lines. Prints each offender and fails.
"""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import source_files  # noqa: E402

MOST_README_LINES = 15
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
# A path in backticks: it has a slash or ends like a file, and no blanks, wildcards, braces or options.
TICKED = re.compile(r"`([A-Za-z0-9_.][\w./-]*(?:/|\.(?:md|h|cc|py|sh|txt|map|cmake)))`")
# Folders where paths of the documents may start, other than the document's own folder.
STARTS = ("", "src/", "include/", "include/millrace/", "src/kernels/", "tests/")
MADE_BY_BUILD = re.compile(r"(^|/)(build|bin|lib|data|dist|mnist_report)(/|\.|$)|(^|/)ops\.h$|^generated/|\.pb\.(h|cc)$|\.so$")
# <!-- the text of examples/x.cc --> before a block: the block is that file.
SAME_AS = re.compile(r"<!-- the text of (\S+) -->\n+```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# <!-- a part of examples/x.cc --> before a block: the block is some lines in a row of that file.
PART_OF = re.compile(r"<!-- a part of (\S+) -->\n+```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- (?:the text|a part) of \S+ -->")


# The existing ops, one block each; names of internal ones begin with "_".
OP_TABLE = "tests/data/ops_signatures.txt"
OP_NAME = re.compile(r"^[A-Z]\w*$", re.MULTILINE)
OP_COUNT = re.compile(r"(\d+) ops of TensorFlow")


def exists(paths, folder, target):
    target = os.path.normpath(os.path.join(folder, target)).replace(os.sep, "/")
    return target == "." or target in paths or any(p.startswith(target + "/") for p in paths)


def check_document(path, text, paths, read, planned=()):
    problems = []
    folder = os.path.dirname(path)
    for same, block in SAME_AS.findall(text):
        if same not in paths:
            problems.append(f"{path}: shows {same}, which does not exist")
        elif block != read(same):
            problems.append(f"{path}: the block is not the text of {same} any more")
    for whole, block in PART_OF.findall(text):
        if whole not in paths:
            problems.append(f"{path}: shows a part of {whole}, which does not exist")
        elif "\n" + block not in "\n" + read(whole):
            problems.append(f"{path}: the block is no part of {whole} any more")
    if len(MARK.findall(text)) != len(SAME_AS.findall(text)) + len(PART_OF.findall(text)):
        problems.append(f"{path}: names a file of which no block follows")
    for claimed in OP_COUNT.findall(text):
        count = len(OP_NAME.findall(read(OP_TABLE))) if OP_TABLE in paths else 0
        if int(claimed) != count:
            problems.append(f"{path}: names {claimed} ops, {OP_TABLE} has {count}")
    prose = FENCE.sub("", text)
    for target in LINK.findall(prose):
        if not re.match(r"[a-z]+:", target) and not exists(paths, folder, target):
            problems.append(f"{path}: the link to {target} leads nowhere")
    for target in TICKED.findall(prose):
        if MADE_BY_BUILD.search(target) or target.startswith("../") or target in planned:
            continue
        first = target.split("/")[0]
        if "/" in target.rstrip("/") and not any(exists(paths, s, first) for s in (*STARTS, folder)):
            continue  # not a path of ours: a device, a node, a system header
        if not any(exists(paths, s, target) for s in (*STARTS, folder)) and not is_name_of_file(paths, target):
            problems.append(f"{path}: `{target}` does not exist")
    return problems


def is_name_of_file(paths, target):
    """True for a bare file name that some folder has."""
    return "/" not in target and any(p.endswith("/" + target) for p in paths)


def check(root):
    paths = set(source_files.repository_files(root))

    def read(path):
        return source_files.read(root, path)

    # Folders that are in the table of layers may be named before they exist.
    layers = re.findall(r"^(\w+):", read("docs/architecture.md"), re.MULTILINE) if "docs/architecture.md" in paths else ()
    planned = {f"{start}{layer}/" for layer in layers for start in ("", "src/")}
    problems = []
    documents = sorted(p for p in paths if p.endswith(".md"))
    for path in documents:
        problems += check_document(path, read(path), paths, read, planned)
    for folder in sorted({p.split("/")[1] for p in paths if p.startswith("src/") and p.count("/") > 1}):
        readme = f"src/{folder}/README.md"
        if readme not in paths:
            problems.append(f"{readme}: missing")
        elif len(read(readme).splitlines()) > MOST_README_LINES:
            problems.append(f"{readme}: more than {MOST_README_LINES} lines")
    return problems, len(documents)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    problems, count = check(root)
    print("\n".join(problems + [f"docs: {count} documents, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
