// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "millrace/status.h"

namespace millrace::io {

// Whether `pattern` stands for all of `text`: '*' for any characters, '?' for one, "[a-z]" and "[^a-z]" (or
// "[!a-z]") for one of a set or none of it, '\' for the next character itself. Time is at most in proportion
// to the product of both lengths.
bool MatchesPattern(std::string_view pattern, std::string_view text);

// The paths that match, sorted. Wildcards do not match '/', and names that begin with '.' are no exception.
// Folders that are not there or may not be read match nothing.
StatusOr<std::vector<std::string>> MatchingFiles(Env& env, const std::string& pattern);

// Makes the folder and those above it, where they are not there yet.
Status MakeFolders(Env& env, const std::string& folder);

}  // namespace millrace::io
