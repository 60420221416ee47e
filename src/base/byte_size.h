// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace millrace {

// "1.50MiB", as TensorFlow writes sizes.
std::string ByteSizeText(int64_t bytes);

}  // namespace millrace
