// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/validators.h"

#include <cmath>

#include "base/strings.h"
#include "display/text.h"

namespace millrace::cli {
namespace {

constexpr double kMost = 9e18;  // what an int64 holds

// Errors read "'-1' is not ...".
template <typename Fits>
CLI::Validator Check(const std::string& wanted, const std::string& name, Fits fits) {
  return CLI::Validator(
      [wanted, fits](const std::string& text) -> std::string {
        double value = 0;
        const bool is_number = CLI::detail::lexical_cast(text, value);
        if (is_number && fits(value) && value <= kMost) return "";
        return StrCat("'", text.substr(0, 40), "' is ",
                      is_number && fits(value) ? "too large a number" : "not " + wanted);
      },
      name);
}

}  // namespace

CLI::Validator NotNegative() {
  return Check("a number from 0 on", "NONNEGATIVE", [](double v) { return v >= 0; });
}

CLI::Validator Positive() {
  return Check("a number above 0", "POSITIVE", [](double v) { return v > 0; });
}

CLI::Validator Between(double low, double high) {
  const std::string range = StrCat(NumberText(low), " to ", NumberText(high));
  return Check(StrCat("a number from ", range), StrCat("[", range, "]"),
               [low, high](double v) { return v >= low && v <= high; });
}

CLI::Validator Assignment() {
  return CLI::Validator(
      [](const std::string& text) {
        const size_t equals = text.find('=');
        return equals != std::string::npos && equals > 0 ? "" : Quoted(text, 80) + " is not NAME=VALUE";
      },
      "NAME=VALUE");
}

}  // namespace millrace::cli
