// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/asymmetric_fence.h"
#include "base/mutex.h"
#include "base/thread_slot.h"

namespace millrace {

// Frees objects that readers find without a lock. A writer first unlinks an object, then retires it; it is
// freed by a later Retire, at the earliest when all readers that began before have ended. A reader on a
// thread with a slot of its own counts without an atomic addition, one on another thread adds twice to memory
// that threads seldom share. Thread-safe.
class Reclaimer {
 public:
  using Object = std::shared_ptr<const void>;

  // Objects found during the lifetime of a Reader are not freed before its end.
  class Reader {
   public:
    explicit Reader(Reclaimer& reclaimer)
        : owned_(ThreadSlot() < kOwnedSlots),
          count_(reclaimer.stripes_[PlaceOfSlot(ThreadSlot(), kShared)]
                     .readers[reclaimer.side_.load(std::memory_order_relaxed)]) {
      // Pairs with the fence and the addition of 0 in Advance: either that sees this reader, or this reader
      // sees the unlinking.
      if (owned_) [[likely]] {
        count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        LightFence();
      } else {
        count_.fetch_add(1, std::memory_order_acq_rel);
      }
    }
    ~Reader() {
      if (owned_) [[likely]]
        count_.store(count_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
      else
        count_.fetch_sub(1, std::memory_order_release);
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

   private:
    const bool owned_;
    std::atomic<int64_t>& count_;
  };

  Reclaimer() = default;
  ~Reclaimer() = default;  // frees all retired objects; no reader may be left
  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;

  // REQUIRES: no reader that begins from now on can find the object.
  void Retire(Object object) MR_EXCLUDES(mu_);
  // Retired, not freed yet.
  size_t num_retired() const MR_EXCLUDES(mu_);

 private:
  static constexpr unsigned kShared = 16;
  static constexpr size_t kStripes = kOwnedSlots + kShared;
  struct alignas(kCacheApart) Stripe {
    std::array<std::atomic<int64_t>, 2> readers = {};
  };
  // Adds to `free` the objects that no reader can see any more.
  void Advance(std::vector<Object>* free) MR_REQUIRES(mu_);

  std::array<Stripe, kStripes> stripes_;
  std::atomic<size_t> side_{0};  // for new readers, so that the other side becomes empty
  mutable Mutex mu_;
  // Counts that were not seen at 0 since the objects in waiting_ were retired.
  std::array<std::array<bool, 2>, kStripes> busy_ MR_GUARDED_BY(mu_) = {};
  std::vector<Object> waiting_ MR_GUARDED_BY(mu_);
  std::vector<Object> next_ MR_GUARDED_BY(mu_);  // retired later; not yet waiting
};

}  // namespace millrace
