// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/callable_table.h"

#include <utility>

namespace millrace {

CallableTable::~CallableTable() {
  for (std::atomic<Chunk*>& slot : chunks_) {
    Chunk* chunk = slot.load(std::memory_order_acquire);
    if (chunk == nullptr) break;
    for (std::atomic<Callable*>& callable : *chunk) delete callable.load(std::memory_order_acquire);
    delete chunk;
  }
}

StatusOr<Session::CallableHandle> CallableTable::Add(std::unique_ptr<Callable> callable) {
  MutexLock lock(mu_);
  if (free_.empty() && used_places_ == kPlaces)
    return errors::ResourceExhausted("Too many callables in one session: ", used_places_);
  Session::CallableHandle handle = used_places_;
  if (free_.empty()) {
    ++used_places_;
  } else {
    handle = free_.back();
    free_.pop_back();
  }
  callable->handle = handle;
  const int64_t place = handle % kPlaces;
  std::atomic<Chunk*>& slot = chunks_[place / kChunk];
  if (slot.load(std::memory_order_relaxed) == nullptr) slot.store(new Chunk{}, std::memory_order_release);
  // Releases of chunk and entry pair with the acquires in Find.
  (*slot.load(std::memory_order_relaxed))[place % kChunk].store(callable.release(),
                                                                std::memory_order_release);
  return handle;
}

const Callable* CallableTable::Find(Session::CallableHandle handle) const {
  if (handle < 0) return nullptr;
  const int64_t place = handle % kPlaces;
  const Chunk* chunk = chunks_[place / kChunk].load(std::memory_order_acquire);
  if (chunk == nullptr) return nullptr;
  const Callable* callable = (*chunk)[place % kChunk].load(std::memory_order_acquire);
  return callable != nullptr && callable->handle == handle ? callable : nullptr;
}

bool CallableTable::Release(Session::CallableHandle handle) {
  std::shared_ptr<const Callable> released;
  {
    MutexLock lock(mu_);
    if (Find(handle) == nullptr) return false;
    const int64_t place = handle % kPlaces;
    Chunk& chunk = *chunks_[place / kChunk].load(std::memory_order_acquire);
    released.reset(chunk[place % kChunk].exchange(nullptr, std::memory_order_acq_rel));
    free_.push_back(handle + kPlaces);
  }
  reclaimer_.Retire(std::move(released));
  return true;
}

}  // namespace millrace
