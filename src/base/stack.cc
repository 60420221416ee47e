// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/stack.h"

#include <pthread.h>

#include <cstdint>
#include <limits>

namespace millrace {
namespace {

struct Bounds {
  uintptr_t low = 0;
  uintptr_t high = 0;  // equal: not known
};

Bounds BoundsOfThisThread() {
  Bounds bounds;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return bounds;
  void* low = nullptr;
  size_t size = 0;
  if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
    bounds.low = reinterpret_cast<uintptr_t>(low);
    bounds.high = bounds.low + size;
  }
  pthread_attr_destroy(&attributes);
  return bounds;
}

}  // namespace

size_t StackLeft() {
  thread_local const Bounds bounds = BoundsOfThisThread();
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (here < bounds.low || here >= bounds.high) return std::numeric_limits<size_t>::max();
  return here - bounds.low;
}

}  // namespace millrace
