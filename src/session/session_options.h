// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "millrace/session.h"

namespace millrace {

// The limit of the BFC allocator that CPUs use, by the options or, where they say nothing, the environment;
// 0: none.
StatusOr<int64_t> CpuBfcLimit(const SessionOptions& options);

}  // namespace millrace
