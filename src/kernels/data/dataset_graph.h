// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/dataset.h"

namespace millrace::data {

// A dataset and its inputs as a GraphDef whose node "dataset" is a _Retval. Unimplemented if a part of it
// cannot be serialized.
StatusOr<std::string> GraphOf(const Dataset& dataset, FunctionCaller* functions);

}  // namespace millrace::data
