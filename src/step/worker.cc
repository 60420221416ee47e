// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/worker.h"

#include <atomic>
#include <random>
#include <utility>

#include "base/notification.h"

namespace millrace {
namespace {

constexpr uint64_t kStride = 0x9e3779b97f4a7c15u;

uint64_t RandomSeed() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

// The top byte of a step id is 1: TensorFlow reserves other values.
int64_t StepIdOf(uint64_t state) {
  uint64_t z = state;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return static_cast<int64_t>((z & ((uint64_t{1} << 56) - 1)) | uint64_t{1} << 56);
}

}  // namespace

StepIds::StepIds() : state_(RandomSeed()) {}

int64_t StepIds::Next() { return StepIdOf(state_ += kStride); }

int64_t StepIds::NextShared() {
  static std::atomic<uint64_t> state{RandomSeed()};
  // Relaxed: only distinctness matters.
  return StepIdOf(state.fetch_add(kStride, std::memory_order_relaxed));
}

StatusOr<std::unique_ptr<InstalledPartition>> Worker::Install(PartitionSpec spec) {
  StatusOr<std::unique_ptr<InstalledPartition>> result = errors::Internal("No answer");
  Notification answered;
  InstallAsync(std::move(spec), [&](StatusOr<std::unique_ptr<InstalledPartition>> installed) {
    result = std::move(installed);
    answered.Notify();
  });
  answered.Wait();
  return result;
}

}  // namespace millrace
