// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace millrace::cli {

// A check of one word of the command line. CLI11's own checks print the limits of double with all their
// digits.
struct Validator {
  std::function<std::string(const std::string& word)> error;  // empty when the word is valid
  std::string name;                                           // the type in --help
};
Validator NotNegative();
Validator Positive();
Validator Between(double low, double high);
Validator Assignment();  // NAME=VALUE; the name is not empty

// An option or positional argument under construction. Only these two classes and the parser of the whole
// command line include CLI11: its headers take several seconds to compile in each file.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(option) {}

  const Option& Required() const;
  const Option& TypeName(const std::string& name) const;
  const Option& Check(const Validator& validator) const;
  const Option& OneOf(const std::vector<std::string>& words) const;
  const Option& OneWordEach() const;  // for a vector: the option is repeated for each word
  const Option& Separator(char separator) const;
  const Option& ShowDefault() const;  // in --help: the current value
  const Option& ForEach(std::function<void(const std::string& word)> action) const;

 private:
  CLI::Option& option_;
};

// A command, or a group of commands, under construction. A value must live until the command line was
// parsed.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  CLI::App& app() const { return *app_; }
  // `name` in CLI11's form: "-o,--output", or "file" for a positional argument.
  Option AddFlag(const std::string& name, bool& value, const std::string& what) const;
  Option AddOption(const std::string& name, int& value, const std::string& what) const;
  Option AddOption(const std::string& name, int64_t& value, const std::string& what) const;
  Option AddOption(const std::string& name, uint64_t& value, const std::string& what) const;
  Option AddOption(const std::string& name, double& value, const std::string& what) const;
  Option AddOption(const std::string& name, std::string& value, const std::string& what) const;
  Option AddOption(const std::string& name, std::vector<std::string>& value, const std::string& what) const;

 private:
  CLI::App* app_;
};

}  // namespace millrace::cli
