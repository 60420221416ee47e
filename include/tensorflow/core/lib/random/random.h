// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// 64 unpredictable bits.
#ifndef TENSORFLOW_CORE_LIB_RANDOM_RANDOM_H_
#define TENSORFLOW_CORE_LIB_RANDOM_RANDOM_H_

#include <random>

#include "tensorflow/core/platform/types.h"

namespace tensorflow {
namespace random {

inline uint64 New64() {
  std::random_device device;
  return static_cast<uint64>(device()) << 32 | device();
}

}  // namespace random
}  // namespace tensorflow

#endif
