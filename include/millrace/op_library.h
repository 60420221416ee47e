// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "millrace/status.h"

namespace millrace {

// Loads a library of ops and kernels (see millrace/user_op.h), which stays loaded. Graphs can use its ops
// afterwards, through OpMaker or by import. Returns the names of the ops that it registered, also when it was
// loaded before. A path without '/' is looked for as the system's loader does. NotFound, with the loader's
// text, for a file that is missing, that is no library, or that needs a symbol which is nowhere.
StatusOr<std::vector<std::string>> LoadLibrary(const std::string& path);

}  // namespace millrace
