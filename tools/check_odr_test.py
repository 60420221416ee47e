# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""check_odr.py must find types of one name, and read C++ well enough not to see any where there are none."""

import os
import tempfile
import unittest

import check_odr

PLAN = "namespace millrace {\nstruct Plan { int a; };\n}\n"


class DefinedTypesTest(unittest.TestCase):
    def assert_types(self, text, *expected):
        self.assertEqual(set(expected), check_odr.defined_types(text))

    def test_kinds_of_types(self):
        self.assert_types("namespace a { struct S {}; class C : public S<int, 3> {}; union U {}; enum class E : int {}; }",
                          "a::S", "a::C", "a::U", "a::E")

    def test_decorated_names(self):
        self.assert_types('namespace a { class MR_CAPABILITY("mutex") M {}; struct alignas(64) B final {}; '
                          "struct [[nodiscard]] N {}; class MR_EXPORT X final : M {}; }", "a::M", "a::B", "a::N", "a::X")

    def test_templates_and_specialisations(self):
        self.assert_types("namespace a { template <typename T, class = void> struct S {}; template <> struct S<int> {}; "
                          "template <class T> requires (sizeof(T) > 1) class R {}; }", "a::S", "a::S<int>", "a::R")

    def test_namespaces(self):
        self.assert_types("namespace a::b { struct S {}; inline namespace v { struct T {}; } } namespace c = a::b; "
                          "using namespace a; struct G {};", "a::b::S", "a::b::v::T", "G")

    def test_members_of_a_type_elsewhere(self):
        self.assert_types("namespace a { struct S::Part {}; }", "a::S::Part")

    def test_what_is_unnamed_or_inside_is_left_alone(self):
        self.assert_types("namespace a { namespace { struct S {}; namespace b { struct T {}; } } "
                          "class C { struct Inner {}; enum { kX }; }; void F() { struct Local {}; } "
                          "struct { int x; } unnamed; enum { kY }; }", "a::C")

    def test_what_is_no_definition(self):
        self.assert_types("namespace a { struct S; class C; struct S f() { return {}; } struct S value = {1}; "
                          "friend class D; void g(struct S s) {} template <class T> void h() {} enum E : int; }")

    def test_comments_texts_and_the_preprocessor(self):
        self.assert_types('// struct A {};\n/* struct B {}; */\n#define X struct C { \\\n };\n'
                          'const char* s = "struct D {"; char c = \'{\'; auto r = R"x(struct F { ")x"; '
                          "int n = 1'000'000; struct G {};", "G")


class CheckOdrTest(unittest.TestCase):
    def problems(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return check_odr.check(root)[0]

    def test_two_of_the_library_clash(self):
        problems = self.problems({"src/a/x.cc": PLAN, "src/b/y.h": PLAN})
        self.assertEqual(1, len(problems))
        self.assertIn("src/b/y.h: millrace::Plan is defined in src/a/x.cc, too", problems[0])

    def test_a_test_clashes_with_the_library_and_its_neighbours(self):
        self.assertEqual(1, len(self.problems({"src/a/x.cc": PLAN, "tests/t/a_test.cc": PLAN})))
        self.assertEqual(1, len(self.problems({"tests/t/b_test.cc": PLAN, "tests/t/a_test.cc": PLAN})))
        self.assertEqual(1, len(self.problems({"src/a/b_test.cc": PLAN, "src/a/x.cc": PLAN})))

    def test_what_is_never_linked_together_is_fine(self):
        self.assertEqual([], self.problems({"tests/t/b_test.cc": PLAN, "bench/t/a.cc": PLAN, "src/a/a_test.cc": PLAN}))

    def test_other_names_and_unnamed_namespaces_are_fine(self):
        self.assertEqual([], self.problems({
            "src/a/x.cc": PLAN, "src/b/y.cc": PLAN.replace("millrace", "millrace::ops"),
            "src/b/z.cc": "namespace millrace { namespace { struct Plan {}; } }"}))


if __name__ == "__main__":
    unittest.main()
