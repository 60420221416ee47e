# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles several source files as one unit: headers and templates are read once.

unity.py plan BYTES FILES...     prints a line per unit, its files separated by ';'; a file that stands in no line is
                                 compiled alone
unity.py unit OUT PLAN FILES...  writes the unit of FILES

Each file keeps its own names: what it declares in an anonymous namespace is renamed by a macro while the unit includes
it, so that two files may use one name and no call finds the function of another file. All headers are included before
that. A name that also stands for a member or for something of another namespace cannot be renamed: its file comes into
no unit with a file that uses the name, and into none at all if a header of the project has the name. If an edit brings
two such files together, `unit` touches PLAN, which makes the next build configure again, and fails.

A file of a unit sees the headers of the others. Functions that these overload must mean the same for every argument. Kernels
whose speed depends on what the compiler inlines are not compiled in units.
"""

import pathlib
import re
import sys

NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|(?<![\w])\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL)
INCLUDE = re.compile(r'^#include ([<"][^>"]+[>"]).*$', re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w*")
ALONE = re.compile(r"^using namespace |^#(pragma GCC|if)|^int main\(|^extern \"C\"", re.MULTILINE)
TYPE = re.compile(r"(?:using|concept) (\w+) =|(?:class|struct|union|enum(?: class)?) (?:\[\[\w+\]\] )?(?:alignas\(\w+\) )?(?:MR_\w+(?:\([^)]*\))? )*(\w+)(?: final)?[\s:;={]|"
                  r"(?:class|struct|enum class) (\w+)$")
KEYWORDS = {"if", "for", "while", "return", "namespace", "static_assert", "switch", "template", "extern", "operator"}

FOUND_BY_TYPE = {"PrintTo", "swap", "begin", "end"}  # overloads, which callers elsewhere find by the type


class Source:
    """The names and words of a file."""

    def __init__(self, path):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        self.path = path
        self.alone = bool(ALONE.search(text)) or bool(re.search(r"^#include [^\n]*\.(def|inc)\b|\.inc\.h", text, re.MULTILINE))
        self.includes = [self.whole_path(header) for header in INCLUDE.findall(text)]
        self.macros = set(re.findall(r"^#define (\w+)", text, re.MULTILINE)) - set(re.findall(r"^#undef (\w+)", text, re.MULTILINE))
        code = NOISE.sub(lambda m: '""' if m[0][0] in "\"R'" else " ", INCLUDE.sub("", text))
        self.words = set(WORD.findall(code))
        names = self.local_names(code)
        fixed = set(re.findall(r"(?:\.|->|::)\s*(?:template )?~?([A-Za-z_]\w*)", code))
        for call in re.findall(r"^(?:TYPED_)?(?:TEST|INSTANTIATE|REGISTER)\w*\(([^)]*)", code, re.MULTILINE):
            fixed |= set(WORD.findall(call))
        for line in re.findall(r"^.*\boverride\b.*$", code, re.MULTILINE):
            fixed |= set(WORD.findall(line))
        self.fixed = (names & fixed) - FOUND_BY_TYPE
        self.names = names - fixed - FOUND_BY_TYPE

    def whole_path(self, header):
        """Of a header beside the file the path, as the unit lies elsewhere."""
        beside = pathlib.Path(self.path).parent / header[1:-1]
        return f'"{beside}"' if header[0] == '"' and beside.exists() else header

    @staticmethod
    def local_names(code):
        names, hidden, depth = set(), [], 0
        lines = code.split("\n")
        for number, line in enumerate(lines):
            if re.match(r"namespace\s*\{", line):
                hidden.append(depth)
            elif line and (line[0].isalpha() or line[0] in "_["):
                if hidden or re.match(r"static |constexpr |const |using \w+ =", line):
                    name = declared(lines, number)
                    # `const char* NameOf(` outside of anonymous namespaces is a function for other files.
                    shared = not hidden and line.startswith("const ") and re.search(rf"\b{name}\(", line)
                    if name and not shared:
                        names.add(name)
            depth += line.count("{") - line.count("}")
            while hidden and depth <= hidden[-1]:
                hidden.pop()
        return names


def declared(lines, number):
    """The name that a declaration at the start of a line declares, or None."""
    text = lines[number]
    for line in lines[number + 1 : number + 6]:
        text += "\n" + line
    text = re.sub(r"^(template\s*<[^\n]*>\s*)+", "", text)
    text = re.sub(r"^requires [^\n]*\n", "", text)
    text = re.sub(r"\[\[[^\]]*\]\]\s*|__attribute__\(\([^)]*\)\)\)?\s*", "", text)
    found = TYPE.match(text)
    if found:
        return found[1] or found[2] or found[3]
    angle = 0
    for place, char in enumerate(text):
        if char == "<":
            angle += 1
        elif char == ">" and text[place - 1] != "-":
            angle -= 1
        elif angle == 0 and char in "(={;[":
            before = re.search(r"(::\s*)?([A-Za-z_]\w*)\s*$", text[:place])
            if not before or before[1] or before[2] in KEYWORDS or " " not in text[:place].strip().replace("\n", " "):
                return None
            return before[2]
    return None


def fits(source, others):
    return not any(
        source.fixed & other.words or other.fixed & source.words or source.macros & other.words or other.macros & source.words
        for other in others
    )


def words_of_headers():
    root = pathlib.Path(__file__).parent.parent
    text = "\n".join(
        NOISE.sub(" ", path.read_text(encoding="utf-8"))
        for folder in ("src", "include", "tests")
        for path in root.joinpath(folder).rglob("*.h")
    )
    return set(WORD.findall(text))


def plan(limit, paths):
    units = []  # [size, sources]
    headers = words_of_headers()
    for path in paths:
        file = pathlib.Path(path)
        length = file.stat().st_size
        source = Source(path)
        if source.alone or length > limit // 2 or source.fixed & headers:
            continue
        for unit in units[-4:]:
            if unit[0] + length <= limit and fits(source, unit[1]):
                unit[0] += length
                unit[1].append(source)
                break
        else:
            units.append([length, [source]])
    for _, sources in units:
        if len(sources) > 1:
            print(";".join(source.path for source in sources))


def write_unit(out, plan_file, paths):
    sources = [Source(path) for path in paths]
    for number, source in enumerate(sources):
        if source.alone or not fits(source, sources[:number]):
            pathlib.Path(plan_file).touch()
            raise SystemExit(f"unity.py: {source.path} no longer fits into its unit; build again, which configures anew")
    # g++ takes what is included for a header, where a type with a member of a local type would be a fault.
    lines = ["// Made by cmake/unity.py.", '#pragma GCC diagnostic ignored "-Wsubobject-linkage"']
    lines += [f"#include {header}" for header in dict.fromkeys(header for source in sources for header in source.includes)]
    for number, source in enumerate(sources):
        lines += [f"#define {name} {name}_{number}" for name in sorted(source.names)]
        lines += [f'#include "{source.path}"']
        lines += [f"#undef {name}" for name in sorted(source.names | source.macros)]
    text = "\n".join([*lines, ""])
    path = pathlib.Path(out)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "plan":
        plan(int(sys.argv[2]), sys.argv[3:])
    else:
        write_unit(sys.argv[2], sys.argv[3], sys.argv[4:])
