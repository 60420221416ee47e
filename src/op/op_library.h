// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "millrace/status.h"
#include "op/op_registry.h"

namespace millrace {

// Loads a library that registers ops and kernels when it is initialised; it stays loaded. Returns the ops
// that it registered, also if it was already loaded. The system's loader searches for a path without '/'.
// NotFound, with the loader's text, for files that are not libraries or lack a symbol.
StatusOr<std::vector<const OpRegistration*>> LoadOpLibrary(const std::string& path);

}  // namespace millrace
