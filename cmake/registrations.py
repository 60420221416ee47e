# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the function that calls every registering function of a folder.

registrations.py OUT FUNCTION REGISTRY HEADER FILES...

A registering function is a definition at the start of a line, in namespace millrace, of the form
`void RegisterFooKernels(KernelRegistry& registry) {` or `Status RegisterFooOps(OpRegistry& registry) {`, not in a file
called register.cc. REGISTRY says which of them count. OUT includes HEADER, which declares FUNCTION, and is written only when its text changes. A FUNCTION
whose name ends with "Families" returns a table of them with their folders instead of calling them.
"""

import pathlib
import re
import sys

LICENSE = "// SPDX-FileCopyrightText: The Millrace Authors\n// SPDX-License-Identifier: Apache-2.0\n"


def functions(registry, files):
    """Returns (result type, [(folder, name)]) of the registering functions in `files`, in order of file and line."""
    pattern = re.compile(rf"^(Status|void) (Register\w+)\({registry}& registry\) {{", re.MULTILINE)
    types, found = set(), []
    for file in sorted(map(pathlib.Path, files)):
        if file.name != "register.cc":
            for result, name in pattern.findall(file.read_text(encoding="utf-8")):
                types.add(result)
                found.append((file.parent.name, name))
    names = {name for _, name in found}
    if len(types) != 1 or len(names) != len(found):
        raise SystemExit(f"registrations.py: {registry}: no functions, two result types, or one name twice: {found}")
    return types.pop(), found


def text(function, registry, header, result, found):
    lines = [LICENSE + "// Made by cmake/registrations.py.", f'#include "{header}"', "", "namespace millrace {", ""]
    lines += [f"{result} {name}({registry}& registry);" for _, name in found]
    if function.endswith("Families"):
        lines += ["", f"std::span<const OpFamily> {function}() {{", "  static constexpr OpFamily kFamilies[] = {"]
        lines += [f'      {{"{folder}", {name}}},' for folder, name in found]
        lines += ["  };", "  return kFamilies;"]
    elif result == "void":
        lines += ["", f"void {function}({registry}& registry) {{"]
        lines += [f"  {name}(registry);" for _, name in found]
    else:
        lines += ["", f"Status {function}({registry}& registry) {{"]
        lines += [f"  MR_RETURN_IF_ERROR({name}(registry));" for _, name in found] + ["  return Status();"]
    return "\n".join(lines + ["}", "", "}  // namespace millrace", ""])


def main(out, function, registry, header, *files):
    new = text(function, registry, header, *functions(registry, files))
    path = pathlib.Path(out)
    if not path.exists() or path.read_text(encoding="utf-8") != new:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
