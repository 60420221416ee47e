#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes millrace.1.gz, the manual page, from what the program says of itself: man_page.py PROGRAM OUTPUT."""

import gzip
import re
import subprocess
import sys


def help_of(program, *words):
    return subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout


def escape(text):
    text = text.replace("\\", "\\\\").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def sections(text):
    """{"Options": [(term, description)], …}, and the sentences before "Usage:" under ""."""
    found = {"": []}
    current = ""
    for line in text.splitlines():
        heading = re.match(r"(\w+):$", line)
        entry = re.match(r"  (\S.*?)(?:\s{2,}(.*))?$", line)
        if heading:
            current = heading.group(1)
            found[current] = []
        elif line.startswith("Usage: "):
            found["Usage"] = [(line[len("Usage: "):], "")]
            current = None
        elif current is None:
            continue
        elif current == "":
            if line.strip():
                found[""].append((line.strip(), ""))
        elif line.startswith(" " * 20) and found[current]:
            term, description = found[current][-1]
            found[current][-1] = (term, f"{description} {line.strip()}".strip())
        elif entry:
            found[current].append((entry.group(1), entry.group(2) or ""))
    return found


def commands(program, *words):
    """(words, sections) of the program and all its commands."""
    parts = sections(help_of(program, *words))
    yield words, parts
    for name, _ in parts.get("Subcommands", []):
        yield from commands(program, *words, name)


def page(program, version):
    everything = list(commands(program))
    summary = everything[0][1][""][0][0].rstrip(".")
    lines = [f'.TH MILLRACE 1 "" "{escape(version)}" "User Commands"', ".SH NAME", f"millrace \\- {escape(summary)}",
             ".SH SYNOPSIS", ".B millrace", "COMMAND [OPTIONS]", ".SH COMMANDS"]
    for words, parts in everything[1:]:
        lines += [".SS " + escape("millrace " + " ".join(words)), *(escape(text) for text, _ in parts[""])]
        for heading in "Positionals", "Options":
            for term, description in parts.get(heading, []):
                if not term.startswith("-h,"):
                    lines += [".TP", ".B " + escape(term), escape(description) or "\\&"]
    lines += [".SH EXIT STATUS", "0: all is well. 1: something failed. 2: the command line is wrong. "
              "3: all is well, and the answer is no: checkpoints differ, a model cannot run here."]
    return "\n".join(lines) + "\n"


def main():
    program, output = sys.argv[1:]
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    with open(output, "wb") as file:
        file.write(gzip.compress(page(program, version).encode(), mtime=0))


if __name__ == "__main__":
    main()
