# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Each rule of check_exports.py must fire."""

import unittest

import check_exports

MAP = """/* a "comment"; */
{ global: extern "C++" {
    millrace::Status::*;
    "millrace::operator<<(std::ostream&, millrace::Status const&)";
    millrace::Reset?millrace::Options*;
  };
  local: *; };
"""
HEADER = """class Status {
 public:
  void Ignore();
};
class Call {
 public:
  template <typename T>
  StatusOr<T> Attr(std::string_view name) const;
  template <typename T>
  T Cast() const {
    return T(1);
  }
  template <typename T>
  static Call Of(const T& value);
};
template <typename T>
Call Call::Of(const T& value) { return Call(); }
struct Options;
// Hidden(): not a declaration
Status Reset(const Options& options);
"""
GOOD = {"millrace::Status::Ignore()", "millrace::operator<<(std::ostream&, millrace::Status const&)",
        "millrace::Reset(millrace::Options const&)"}


class CheckExportsTest(unittest.TestCase):
    def problems(self, exports, definitions):
        return check_exports.problems(exports, definitions, MAP, [HEADER])

    def test_a_library_that_exports_its_list_passes(self):
        self.assertEqual([], self.problems(GOOD, GOOD | {"millrace::Hidden()", "millrace::Other::Ignore()"}))

    def test_a_symbol_beyond_the_list(self):
        found = self.problems(GOOD | {"google::protobuf::Message::Clear()"}, GOOD)
        self.assertEqual(["exported but not listed: google::protobuf::Message::Clear()"], found)

    def test_the_list_is_taken_from_the_start_of_a_name(self):
        name = "std::vector<millrace::Status::Rep>::size()"
        self.assertEqual([f"exported but not listed: {name}"], self.problems(GOOD | {name}, GOOD))

    def test_a_row_without_a_symbol(self):
        found = self.problems(GOOD - {"millrace::Reset(millrace::Options const&)"}, set())
        self.assertEqual(["the list has a row that matches nothing: millrace::Reset?millrace::Options*"], found)

    def test_an_instance_of_a_public_template_that_is_not_exported(self):
        attr = "millrace::StatusOr<std::vector<long> > millrace::Call::Attr<std::vector<long> >(std::string) const"
        weak = {attr, "int millrace::Call::Cast<int>() const", "millrace::Call millrace::Call::Of<int>(int const&)",
                "millrace::StatusOr<int> millrace::Node::Attr<int>(std::string) const", "millrace::Status::Status()"}
        self.assertEqual({("Call", "Attr")}, check_exports.declared_templates([HEADER]))
        self.assertEqual(["declared by a public header but not exported: " + attr],
                         check_exports.problems(GOOD, GOOD, MAP, [HEADER], weak))

    def test_a_public_function_that_is_not_exported(self):
        found = self.problems(GOOD, GOOD | {"millrace::Status::Update(int)", "millrace::Reset[abi:cxx11](int)"})
        self.assertEqual(["declared by a public header but not exported: millrace::Reset[abi:cxx11](int)",
                          "declared by a public header but not exported: millrace::Status::Update(int)"], found)


if __name__ == "__main__":
    unittest.main()
