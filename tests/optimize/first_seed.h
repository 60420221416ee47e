// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>

namespace millrace {

// The value of MILLRACE_TEST_SEED, which is added to the seeds of random graphs: other values give other
// graphs.
inline uint32_t FirstSeed() {
  const char* text = std::getenv("MILLRACE_TEST_SEED");
  return text == nullptr ? 0 : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

}  // namespace millrace
