// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "millrace/tensor.h"
#include "step/step_compiler.h"

namespace millrace {

// Whether the feed has a value and the type that the graph declares; `index` is its position in the call. The
// shape is not checked.
Status CheckFeed(const EndpointInfo& info, const std::string& name, size_t index, const Tensor& value);

}  // namespace millrace
