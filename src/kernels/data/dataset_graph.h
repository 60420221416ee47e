// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/dataset.h"

namespace millrace::data {

// A dataset with all that it reads, as a GraphDef whose node "dataset" is a _Retval. Unimplemented when
// something in it cannot be written.
StatusOr<std::string> GraphOf(const Dataset& dataset, FunctionCaller* functions);

}  // namespace millrace::data
