// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace millrace::cli {

// The least number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
size_t EditDistance(std::string_view a, std::string_view b);
// The name nearest to `word`, empty if none is near: a third of the letters may differ, and two in short
// words.
std::string NearestName(std::string_view word, const std::vector<std::string>& names);

// The error of a command line that could not be parsed because a word is not the name of a command or option:
// "there is no command 'shwo'; did you mean 'show'?". Empty for other errors.
std::string UnknownWord(const CLI::App& app, const std::vector<std::string>& args);

}  // namespace millrace::cli
