// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The number of processors that threads of the process may use.
#ifndef TENSORFLOW_CORE_PLATFORM_CPU_INFO_H_
#define TENSORFLOW_CORE_PLATFORM_CPU_INFO_H_

#include <algorithm>
#include <thread>

namespace tensorflow {
namespace port {

inline int NumSchedulableCPUs() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace port
}  // namespace tensorflow

#endif
