# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""cmake/unity.py: which names it renames, which files it joins, and that the joined ones compile."""

import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cmake"))
import unity  # noqa: E402

FIRST = """#include <string>

#include "beside.h"

namespace n {
namespace {

// Comment: Helper
class Thing final : public Base {
 public:
  int Get() const override { return 1; }
};
template <typename T>
std::pair<T,
          std::string>
Broken(T t) {
  return {t, "Helper"};
}
constexpr int kSize = 3, *kNone = nullptr;
using Row = std::pair<int, int>;
using std::string;
int Helper(int a) { return a + kSize; }
int Out::Member() { return 2; }

}  // namespace

int First() { return Helper(1) + Thing().Get() + Broken(1).first; }

}  // namespace n
"""


class UnityTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def plan(self, limit: int, *paths: str) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            unity.plan(limit, paths)
        return out.getvalue()

    def test_own_names_are_found(self) -> None:
        self.write("beside.h", "")
        source = unity.Source(self.write("a.cc", FIRST))
        self.assertEqual(source.names, {"Thing", "Broken", "kSize", "Row", "Helper"})
        self.assertEqual(source.includes, ["<string>", f'"{self.folder}/beside.h"'])

    def test_attributes_of_classes_are_no_names(self) -> None:
        text = "namespace {\nclass MR_SCOPED_CAPABILITY SoonLock {\n};\nstruct MR_X(a) Row {};\n}  // namespace\n"
        self.assertEqual(unity.Source(self.write("a.cc", text)).names, {"SoonLock", "Row"})

    def test_objects_outside_of_anonymous_namespaces_are_for_other_files(self) -> None:
        text = "namespace n {\nconstinit thread_local const int* owner = nullptr;\nthread_local int depth;\n}  // namespace n\n"
        self.assertEqual(unity.Source(self.write("a.cc", text)).names, set())

    def test_names_of_members_stay(self) -> None:
        text = "namespace {\nint Size(const X& x) { return x.Size(); }\n}  // namespace\n"
        source = unity.Source(self.write("zz_a.cc", text))
        self.assertEqual((source.names, source.fixed), (set(), {"Size"}))
        other = unity.Source(self.write("b.cc", "int F(int Size) { return Size; }\n"))
        self.assertFalse(unity.fits(source, [other]))
        self.assertTrue(unity.fits(source, [unity.Source(self.write("c.cc", "int G();  // Size\n"))]))

    def test_fixtures_of_tests_stay(self) -> None:
        text = "namespace {\nclass UnseenTest : public A {};\nTEST_F(UnseenTest, Works) {}\n}  // namespace\n"
        self.assertEqual(unity.Source(self.write("a.cc", text)).names, set())

    def test_files_go_into_units_by_size(self) -> None:
        paths = [self.write(f"{i}.cc", f"int F{i}();" + " " * 100) for i in range(5)]
        self.assertEqual(self.plan(250, *paths), f"{paths[0]};{paths[1]}\n{paths[2]};{paths[3]}\n")
        self.assertEqual(self.plan(150, *paths), "")

    def test_a_name_of_a_header_of_the_project_keeps_its_file_alone(self) -> None:
        text = "namespace {\nint Scalar(const X& x) { return Tensor::Scalar(x); }\n}  // namespace\n"
        paths = [self.write("a.cc", text), self.write("b.cc", "int F();\n"), self.write("c.cc", "int G();\n")]
        self.assertEqual(self.plan(1000, *paths), f"{paths[1]};{paths[2]}\n")

    def test_a_unit_of_files_with_the_same_names_compiles(self) -> None:
        compiler = shutil.which("g++") or shutil.which("clang++")
        if compiler is None:
            self.skipTest("no compiler")
        own = "namespace {\nint Helper(int a) { return 2 * a; }\n}  // namespace\nint %s() { return Helper(%d); }\n"
        paths = [self.write("a.cc", own % ("A", 1)), self.write("b.cc", own % ("B", 2))]
        unit = str(self.folder / "unit.cc")
        unity.write_unit(unit, str(self.folder / "plan"), paths)
        subprocess.run([compiler, "-Wall", "-Werror", "-fsyntax-only", unit], check=True)

    def test_a_file_that_no_longer_fits_touches_the_plan(self) -> None:
        text = "namespace {\nint Size(const X& x) { return x.Size(); }\n}  // namespace\n"
        paths = [self.write("a.cc", text), self.write("b.cc", text)]
        plan = self.write("plan", "")
        os.utime(plan, (0, 0))
        with self.assertRaises(SystemExit):
            unity.write_unit(str(self.folder / "unit.cc"), plan, paths)
        self.assertGreater(os.stat(plan).st_mtime, 0)


if __name__ == "__main__":
    unittest.main()
