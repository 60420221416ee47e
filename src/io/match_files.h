// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "millrace/status.h"

namespace millrace::io {

// Whether `pattern` matches all of `text`: '*' for any characters, '?' for one, "[a-z]" and "[^a-z]" (or
// "[!a-z]") for one in a set or not in it, '\' for the next character itself. Takes time at most proportional
// to the product of both lengths.
bool MatchesPattern(std::string_view pattern, std::string_view text);

// The paths that match, sorted. Wildcards do not match '/', but may match a leading '.'. Folders that do not
// exist or may not be read match nothing.
StatusOr<std::vector<std::string>> MatchingFiles(Env& env, const std::string& pattern);

// Creates the folder and its parents where they do not exist.
Status MakeFolders(Env& env, const std::string& folder);

}  // namespace millrace::io
