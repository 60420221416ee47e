# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import tempfile
import unittest

import check_clang

COMMAND = ("/m/cmake/ccache.sh /usr/bin/ccache /usr/bin/c++ -DX=1 -I/src -O2 -Winvalid-pch -include /b/cmake_pch.hxx"
           " -std=c++20 -MD -MT a.o -MF a.o.d -o a.o -c /src/a.cc")


class CheckClangTest(unittest.TestCase):
    def test_arguments_keep_what_says_how_to_read(self) -> None:
        got = check_clang.arguments_for_clang(COMMAND, "clang++-14")
        self.assertEqual(got[0], "clang++-14")
        self.assertEqual(got[1:len(check_clang.WARNINGS) + 1], check_clang.WARNINGS)
        self.assertEqual(got[len(check_clang.WARNINGS) + 1:], ["-DX=1", "-I/src", "-std=c++20", "/src/a.cc"])

    def test_arguments_without_ccache(self) -> None:
        got = check_clang.arguments_for_clang("/usr/bin/g++-12 -O1 -fsanitize=thread -c b.cc -o b.o", "clang++")
        self.assertEqual(got, ["clang++"] + check_clang.WARNINGS + ["b.cc"])

    def test_tidy_reads_with_the_same_flags(self) -> None:
        got = check_clang.arguments_for_tidy(check_clang.arguments_for_clang(COMMAND, "clang++-14"), "/src/a.cc", "clang-tidy-14")
        self.assertEqual((got[0], got[-1]), ("clang-tidy-14", "-std=c++20"))
        self.assertEqual(got[got.index("--") - 1], "/src/a.cc")
        self.assertEqual(got[got.index("--") + 1:], check_clang.WARNINGS + ["-DX=1", "-I/src", "-std=c++20"])

    def test_each_source_once_and_only_those_wanted(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for source in ("a.cc", "b.cc", "c.c"):
                (folder / source).touch()
            entries = [{"file": str(folder / f), "directory": name, "command": f"c++ -c {f}"}
                       for f in ("a.cc", "a.cc", "b.cc", "c.c", "gone.cc")]
            (folder / "compile_commands.json").write_text(json.dumps(entries), encoding="utf-8")
            self.assertEqual(list(check_clang.commands(folder, ".", "clang++")), [str(folder / "a.cc"), str(folder / "b.cc")])
            self.assertEqual(list(check_clang.commands(folder, r"/b\.cc$", "clang++")), [str(folder / "b.cc")])


if __name__ == "__main__":
    unittest.main()
