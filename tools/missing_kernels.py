#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Prints which ops of TensorFlow have no kernel, as the table of docs/ops.md.

    tools/missing_kernels.py --program build/release/bin/millrace OPS_1.2 OPS_1.15

An op list has the name of each op at the start of a line and its signature below, indented, as
tests/data/ops_signatures.txt has. The last list is complete; the earlier ones show which ops are older. With --write
FILE the table replaces what stands between the marks in that file.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys

BEGIN = "<!-- The table up to the next mark is made by tools/missing_kernels.py. -->"
END = "<!-- The end of the table. -->"

# What an op is for, by its name; the first that fits. Those of other devices have no kernel for CPUs in TensorFlow either.
GROUPS = (
    ("TPUs", r"TPU|^(Infeed|Outfeed|Prelinearize|CrossReplicaSum|AllToAll|CollectivePermute|HostConst|WorkerHeartbeat)"),
    ("GPUs", r"Cudnn|^Nccl"),
    ("programs in Python, for which the package has kernels of its own", r"PyFunc"),
    ("other processes and chips", r"Rpc$|^RemoteFusedGraphExecute$"),
    ("boosted trees and forests", r"BoostedTrees|^TensorForest"),
    ("builds with Intel's MKL",
     r"^Quantized(DepthwiseConv|.*(AndRe|WithBias|PerChannel)|ReluX)|^Requanti.*PerChannel$"),
    ("quantised arithmetic", r"Quantize|^Requantiz|^Requantization|^Dequantize"),
    ("datasets", r"Dataset|^(Delete(MemoryCache|RandomSeedGenerator)|StatsAggregatorSetSummaryWriter)$"),
    ("ragged tensors", r"^Ragged"),
    ("text", r"^Unicode"),
    ("messages", r"^(Decode|Encode)Proto"),
    ("debugging", r"^(Debug|Copy)"),
    ("summaries", r"Summary|^ImportEvent$"),
    ("batching", r"^(Batch|Unbatch)"),
    ("linear models", r"^Sdca"),
    ("clustering", r"Kmeans|KMC2|^NearestNeighbors$"),
    ("sparse matrices", r"CSR|^SparseMatrix"),
)
OTHER = "others"
NOT_FOR_CPUS = ("TPUs", "GPUs", "other processes and chips", "builds with Intel's MKL")


def listed(text):
    """The names of an op list, in its order."""
    return re.findall(r"^([A-Z]\w*)$", text, re.MULTILINE)


def with_kernels(listing):
    """The ops of `millrace ops --json` that have a kernel."""
    return {op["name"] for op in json.loads(listing)["ops"] if op["kernels"]}


def group_of(op):
    return next((name for name, pattern in GROUPS if re.search(pattern, op)), OTHER)


def table(names, older, kernels):
    """The lines of the table: a row for each group with its missing ops; those of `older` in bold."""
    missing = collections.defaultdict(list)
    for name in sorted(set(names) - kernels):
        missing[group_of(name)].append(f"**{name}**" if name in older else name)
    order = [group for group, _ in GROUPS] + [OTHER]
    lines = ["| for | number | ops |", "|---|---|---|"]
    lines += [f"| {group} | {len(missing[group])} | {', '.join(missing[group])} |" for group in order if missing[group]]
    not_for_cpus = [group for group in NOT_FOR_CPUS if missing[group]]
    elsewhere = sum(len(missing[group]) for group in not_for_cpus)
    total = sum(len(ops) for ops in missing.values())
    lines += ["", f"With a kernel: {len(set(names)) - total} of {len(set(names))}. Of the other {total}, {elsewhere} are for "
              f"{', '.join(not_for_cpus)}: TensorFlow's usual build has none on CPUs either."]
    return lines


def replaced(text, lines):
    """The text with the lines between the marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the marks of the table are missing")
    return f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.path.join("build", "release", "bin", "millrace"))
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("lists", nargs="+", metavar="OP_LIST")
    args = parser.parse_args()
    listing = subprocess.run([args.program, "ops", "--json"], capture_output=True, check=True).stdout
    older = {name for path in args.lists[:-1] for name in listed(read(path))}
    lines = table(listed(read(args.lists[-1])), older, with_kernels(listing))
    if args.write is None:
        print("\n".join(lines))
        return
    text = replaced(read(args.write), lines)
    with open(args.write, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main())
