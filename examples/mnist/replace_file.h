// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "millrace/status.h"

namespace millrace::mnist {

// Makes `data` the file at `path`: it is replaced at once or, on an error, left as it was.
Status ReplaceFile(const std::string& path, std::string_view data);

}  // namespace millrace::mnist
