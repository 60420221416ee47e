#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that an op's gradient, kernel and tests are in the family that declares it.

A family is a folder of src/ops. src/gradients, src/kernels/cpu and tests/optest have folders of the same names only, and
the ops that their files and the tests of shape functions name are looked up in the declarations. ELSEWHERE lists the ops that are in another family on
purpose, with the reason. Prints each op in a wrong place and fails.
"""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import source_files  # noqa: E402

OPS = "src/ops"
ROUTINES = {"contract", "vector"}  # folders of src/kernels/cpu that know raw arrays, not ops

# The name at the start of a declaration, "MatMul: The product of two matrices.", in C++ and in the form of op_table.h.
# "T: type" and similar texts declare attributes.
DECLARATION = re.compile(r'(?:"|^)(_?[A-Z]\w+): (?!type|list\b|numbertype|realnumbertype|quantizedtype|int|\{)', re.MULTILINE)
# The patterns that name ops, by folder: gradients and kernels as registered, rows of tests by their op.
NAMED = {
    "src/gradients": re.compile(r'\{"(_?[A-Z]\w*)",'),
    "src/kernels/cpu": re.compile(r'KernelDef\("(_?[A-Z]\w*)"'),
    "tests/optest": re.compile(r"^(_?[A-Z]\w*)[({]", re.MULTILINE),
}
# The ops in tests of shape functions, in src/ops.
SHAPE_TESTED = re.compile(r'\bOp\("(_?[A-Z]\w*)"\)')
# Declarations are made of parts: "Queue" + "V2", "FFT" + "2D", "Resource" + "Apply" + "Adam".
PREFIX = re.compile(r"^(Batch|Map|OrderedMap|Resource|Sparse)?(Sparse)?(Apply)?(?=[A-Z])")
SUFFIX = re.compile(r"(V[2-9]|[23]D)$")

# {(folder, family that has it): ops}, each group with the reason.
ELSEWHERE = {
    # One formula serves them and the op of the family: resource and dense, of volumes and of images.
    ("src/gradients", "array"): {"ExtractVolumePatches", "ResourceGather", "ResourceGatherNd"},
    ("src/gradients", "linalg"): {"ConjugateTranspose"},
    ("src/gradients", "math"): {"RandomGamma"},
    ("src/gradients", "sparse"): {"DynamicPartition", "DynamicStitch", "ParallelDynamicStitch"},
    # One search among sorted elements serves them.
    ("src/kernels/cpu", "array"): {"HistogramFixedWidth", "NthElement", "QuantizedReshape"},
    # One kernel class serves the plain and the quantized or fused op.
    ("src/kernels/cpu", "math"): {"_FusedMatMul", "_PackMatrix"},
    ("src/kernels/cpu", "nn"): {"_FusedConv2D", "_FusedDepthwiseConv2dNative"},
}


def folder_of(path, top):
    """"math" for src/ops/math/math.cc; None for a file at the root of the folder."""
    parts = os.path.relpath(path, top).split("/")
    return parts[0] if len(parts) > 1 else None


def sources(texts, top, tests=False):
    """[(path, family, text)] of the files in the families of a folder: either the unit tests or the other files."""
    for path, text in sorted(texts.items()):
        folder = folder_of(path, top) if path.startswith(top + "/") else None
        if folder is not None and os.path.splitext(path)[0].endswith("_test") == tests:
            yield path, folder, text


def declarations(texts):
    """{op: family}, of ops whose names are put together the parts."""
    declared = {}
    for path, family, text in sources(texts, OPS):
        if path.endswith((".cc", ".def")):
            for name in DECLARATION.findall(text):
                declared.setdefault(name, family)
    return declared


def family_of(op, declared):
    """The family that declares the op; None if it is not known."""
    for name in (op, SUFFIX.sub("", op)):
        for part in (name, PREFIX.sub("", name)):
            if part in declared:
                return declared[part]
    return None


def is_elsewhere(top, folder, op):
    return op in ELSEWHERE.get((top, folder), ())


def check(texts):
    """The problems of a tree given as {path: text}."""
    problems = []
    families = {family for _, family, _ in sources(texts, OPS)}
    declared = declarations(texts)
    for top, pattern in NAMED.items():
        others = {folder for _, folder, _ in sources(texts, top)} - families - ROUTINES
        problems += [f"{top}/{folder}: no family of {OPS} has this name" for folder in sorted(others)]
        for path, folder, text in sources(texts, top):
            for op in sorted(set(pattern.findall(text))):
                family = family_of(op, declared)
                if folder in families and family not in (None, folder) and not is_elsewhere(top, folder, op):
                    problems.append(f"{path}: {op} is declared in {OPS}/{family}")
    for path, folder, text in sources(texts, OPS, tests=True):
        for op in sorted(set(SHAPE_TESTED.findall(text))):
            family = family_of(op, declared)
            if family not in (None, folder):
                problems.append(f"{path}: {op} is declared in {OPS}/{family}")
    return problems


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    paths = source_files.repository_files(root)
    tops = tuple(top + "/" for top in (OPS, *NAMED))
    texts = {path: source_files.read(root, path) for path in paths if path.startswith(tops)}
    problems = check(texts)
    for problem in problems:
        print(problem)
    print(f"families: {len(declarations(texts))} declarations, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
