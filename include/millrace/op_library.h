// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "millrace/status.h"

namespace millrace {

// Loads a library of ops and kernels (see millrace/user_op.h), which stays loaded. Graphs can use its ops
// afterwards, through OpMaker or by import. Returns the names of its registered ops, also if it was loaded
// before. A path without '/' is searched for as by the system's loader. NotFound, with the loader's text, for
// a file that does not exist, is no library, or has unresolved symbols.
StatusOr<std::vector<std::string>> LoadLibrary(const std::string& path);

}  // namespace millrace
