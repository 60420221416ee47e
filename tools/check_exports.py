#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Holds what libmillrace.so exports to cmake/exports.map, and the map to the public headers.

    check_exports.py LIBRARY MAP HEADER_DIR ARCHIVE...

Every exported symbol matches a row of the map; every row of the map matches a symbol; and what the public headers declare
and the archives define is exported. Prints each offender and fails.
"""

import fnmatch
import os
import re
import subprocess
import sys

# Namespaces within millrace whose functions are public.
CATALOGUES = ("ops", "initializers", "layers", "losses", "metrics", "summary")


def run(*command):
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def exported(library):
    """Demangled names of the symbols that a program can link to."""
    names = set()
    for line in run("nm", "-D", "--defined-only", "--demangle", library).splitlines():
        kind, name = line.split(" ", 2)[1:]
        if kind.isupper():
            names.add(name)
    return names


def defined(archives):
    """Demangled names of what the archives define and do not hide: (functions and objects, weak functions)."""
    names = {"GLOBAL": set(), "WEAK": set()}
    for archive in archives:
        for line in run("readelf", "-sW", "--demangle", archive).splitlines():
            fields = line.split(None, 7)
            if len(fields) == 8 and fields[3] in ("FUNC", "OBJECT") and fields[4] in names \
                    and fields[5] == "DEFAULT" and fields[6] != "UND":
                names[fields[4]].add(fields[7])
    return names["GLOBAL"], names["WEAK"]


def rows(text):
    """The patterns of the global part: (pattern, regular expression)."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    part = re.search(r'global:\s*extern "C\+\+" \{(.*?)\};(.*?)local:', text, re.DOTALL)
    found = []
    for row in filter(None, (r.strip() for r in (part.group(1) + part.group(2)).split(";"))):
        if row.startswith('"'):
            found.append((row, re.compile(re.escape(row.strip('"')) + r"\Z")))
        else:
            found.append((row, re.compile(fnmatch.translate(row))))
    return found


def public_names(headers):
    """(classes, functions) that the texts of the headers declare; more functions than there are do no harm."""
    classes, functions = set(), set()
    for text in headers:
        text = re.sub(r"//[^\n]*", "", text)
        classes.update(re.findall(r"^(?:class|struct) (\w+)[^;{]*\{", text, re.MULTILINE))
        functions.update(re.findall(r"^[\w:<>,&* ]*?\b(\w+)\(", text, re.MULTILINE))
    return classes, functions


def declared_templates(headers):
    """(class or "", name) of the function templates that the headers declare but do not define."""
    template = r"\btemplate\s*<[^;{}]*?>\s*[^;{}()]*?\b(?:(\w+)::)?(\w+)\([^;{}]*\)[^;{}()]*"
    declared, defined_here = set(), set()
    for text in headers:
        text = re.sub(r"//[^\n]*", "", text)
        parts = [("", text)]
        for found in re.finditer(r"^(?:class|struct) (\w+)[^;{]*\{(.*?)^\};", text, re.MULTILINE | re.DOTALL):
            parts.append((found.group(1), found.group(2)))
            parts[0] = ("", parts[0][1].replace(found.group(0), ""))
        for owner, part in parts:
            declared.update((owner or of, name) for of, name in re.findall(template + ";", part))
            defined_here.update((owner or of, name) for of, name in re.findall(template + r"\{", part))
    return declared - defined_here


def is_instance(name, templates):
    """Whether it is an instance of one of the templates; its name begins with the type of the result."""
    found = re.findall(r"(?:^| )millrace::(?:(?:%s)::)?(?:(\w+)::)?(\w+)(?:\[abi:\w+\])?<" % "|".join(CATALOGUES), name)
    return any(template in templates for template in found)


def is_public(name, classes, functions):
    match = re.match(r"millrace::(?:(?:%s)::)?(\w+)(::|\(|\[abi)" % "|".join(CATALOGUES), name)
    if not match:
        return False
    return match.group(1) in (classes if match.group(2) == "::" else functions)


def problems(exports, definitions, map_text, headers, weak=frozenset()):
    patterns = rows(map_text)
    found = []
    for name in sorted(exports):
        if not any(regex.match(name) for _, regex in patterns):
            found.append(f"exported but not listed: {name}")
    for row, regex in patterns:
        if not any(regex.match(name) for name in exports):
            found.append(f"the list has a row that matches nothing: {row}")
    classes, functions = public_names(headers)
    for name in sorted(definitions - exports):
        if is_public(name, classes, functions):
            found.append(f"declared by a public header but not exported: {name}")
    templates = declared_templates(headers)
    for name in sorted(weak - exports):
        if is_instance(name, templates):
            found.append(f"declared by a public header but not exported: {name}")
    return found


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    library, map_path, header_dir, *archives = sys.argv[1:]
    headers = [read(os.path.join(header_dir, name)) for name in sorted(os.listdir(header_dir)) if name.endswith(".h")]
    exports = exported(library)
    definitions, weak = defined(archives)
    found = problems(exports, definitions, read(map_path), headers, weak)
    print("\n".join(found + [f"exports: {len(exports)} symbols, {len(found)} problems"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
