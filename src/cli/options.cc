// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "base/strings.h"
#include "display/text.h"

namespace millrace::cli {
namespace {

constexpr double kMost = 9e18;  // what an int64 holds

// Errors read "'-1' is not ...".
template <typename Fits>
Validator NumberCheck(const std::string& range, std::string name, Fits fits) {
  return {.error = [range, fits](const std::string& text) -> std::string {
            double value = 0;
            const bool is_number = CLI::detail::lexical_cast(text, value);
            if (is_number && fits(value) && value <= kMost) return "";
            return StrCat("'", text.substr(0, 40), "' is ",
                          is_number && fits(value) ? "too large a number" : "not " + range);
          },
          .name = std::move(name)};
}

}  // namespace

Validator NotNegative() {
  return NumberCheck("a number from 0 on", "NONNEGATIVE", [](double v) { return v >= 0; });
}

Validator Positive() {
  return NumberCheck("a number above 0", "POSITIVE", [](double v) { return v > 0; });
}

Validator Between(double low, double high) {
  const std::string range = StrCat(NumberText(low), " to ", NumberText(high));
  return NumberCheck(StrCat("a number from ", range), StrCat("[", range, "]"),
                     [low, high](double v) { return v >= low && v <= high; });
}

Validator Assignment() {
  return {.error =
              [](const std::string& text) {
                const size_t equals = text.find('=');
                return equals != std::string::npos && equals > 0 ? ""
                                                                 : Quoted(text, 80) + " is not NAME=VALUE";
              },
          .name = "NAME=VALUE"};
}

const Option& Option::Required() const {
  option_.required();
  return *this;
}

const Option& Option::TypeName(const std::string& name) const {
  option_.type_name(name);
  return *this;
}

const Option& Option::Check(const Validator& validator) const {
  option_.check(CLI::Validator(validator.error, validator.name));
  return *this;
}

const Option& Option::OneOf(const std::vector<std::string>& words) const {
  option_.check(CLI::IsMember(words));
  return *this;
}

const Option& Option::OneWordEach() const {
  option_.allow_extra_args(false);
  return *this;
}

const Option& Option::Separator(char separator) const {
  option_.delimiter(separator);
  return *this;
}

const Option& Option::ShowDefault() const {
  option_.capture_default_str();
  return *this;
}

const Option& Option::ForEach(std::function<void(const std::string&)> action) const {
  option_.each(std::move(action));
  return *this;
}

Option Command::AddFlag(const std::string& name, bool& value, const std::string& what) const {
  return Option(*app_->add_flag(name, value, what));
}

Option Command::AddOption(const std::string& name, int& value, const std::string& what) const {
  return Option(*app_->add_option(name, value, what));
}

Option Command::AddOption(const std::string& name, int64_t& value, const std::string& what) const {
  return Option(*app_->add_option(name, value, what));
}

Option Command::AddOption(const std::string& name, uint64_t& value, const std::string& what) const {
  return Option(*app_->add_option(name, value, what));
}

Option Command::AddOption(const std::string& name, double& value, const std::string& what) const {
  return Option(*app_->add_option(name, value, what));
}

Option Command::AddOption(const std::string& name, std::string& value, const std::string& what) const {
  return Option(*app_->add_option(name, value, what));
}

Option Command::AddOption(const std::string& name, std::vector<std::string>& value,
                          const std::string& what) const {
  return Option(*app_->add_option(name, value, what));
}

}  // namespace millrace::cli
