// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The devices that OpKernelContext::eigen_device returns for functors that are written for several devices. A
// source that defines EIGEN_USE_THREADS before its first header gets Eigen's device with threads of the
// library of ops; in others the device is only a type that can be passed on.
#ifndef TENSORFLOW_CORE_FRAMEWORK_EIGEN_DEVICES_H_
#define TENSORFLOW_CORE_FRAMEWORK_EIGEN_DEVICES_H_

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tensorflow/core/framework/tensor_types.h"

namespace Eigen {
struct DefaultDevice;
struct GpuDevice;
struct ThreadPoolDevice;
}  // namespace Eigen

namespace tensorflow {
namespace internal {

inline int NumCores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// One of the two for each source: different names avoid violations of the one-definition rule.
#if defined(MR_TF_HAS_EIGEN) && defined(EIGEN_USE_THREADS)
struct EigenDevicesWithThreads {
  // Never destroyed: the threads may be in use when the process ends. A child of fork() makes another one.
  struct Made {
    Made() : pool(NumCores()), device(&pool, NumCores()), process(::getpid()) {}
    Eigen::ThreadPool pool;
    Eigen::ThreadPoolDevice device;
    const pid_t process;
  };
  static const void* Get(const Eigen::ThreadPoolDevice*) {
    static std::atomic<Made*> made{nullptr};
    Made* found = made.load(std::memory_order_acquire);
    while (found == nullptr || found->process != ::getpid()) {
      Made* const fresh = new Made;
      if (made.compare_exchange_strong(found, fresh, std::memory_order_acq_rel)) {
        found = fresh;
      } else {
        delete fresh;
      }
    }
    return &found->device;
  }
  static const void* Get(const Eigen::DefaultDevice*) {
    static const Eigen::DefaultDevice device = {};
    return &device;
  }
};
using EigenDevices = EigenDevicesWithThreads;
#else
struct NamesOfEigenDevices {
  static const void* Get(const void*) {
    static const char name = 0;
    return &name;
  }
};
using EigenDevices = NamesOfEigenDevices;
#endif

}  // namespace internal
}  // namespace tensorflow

#endif
