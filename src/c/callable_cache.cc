// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "c/session.h"

namespace millrace::c_api {
namespace {

bool Same(const TF_Output& a, const TF_Output& b) { return a.oper == b.oper && a.index == b.index; }

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

}  // namespace

CallableCache::~CallableCache() {
  for (std::atomic<Entry*>& head : buckets_) {
    Entry* entry = head.load(std::memory_order_relaxed);
    while (entry != nullptr) delete std::exchange(entry, entry->next);
  }
}

uint64_t CallableCache::Hash(const RunCall& call) {
  uint64_t hash = Mix(call.feeds.size(), call.fetches.size());
  const auto mix = [&](const TF_Output& tensor) {
    hash = Mix(hash, reinterpret_cast<uintptr_t>(tensor.oper) + static_cast<uint32_t>(tensor.index));
  };
  std::for_each(call.feeds.begin(), call.feeds.end(), mix);
  std::for_each(call.fetches.begin(), call.fetches.end(), mix);
  for (const TF_Operation* target : call.targets) hash = Mix(hash, reinterpret_cast<uintptr_t>(target));
  return hash;
}

bool CallableCache::Entry::Is(uint64_t other_hash, const RunCall& call) const {
  return hash == other_hash &&
         std::equal(feeds.begin(), feeds.end(), call.feeds.begin(), call.feeds.end(), Same) &&
         std::equal(fetches.begin(), fetches.end(), call.fetches.begin(), call.fetches.end(), Same) &&
         std::equal(targets.begin(), targets.end(), call.targets.begin(), call.targets.end());
}

Session::CallableHandle CallableCache::Find(uint64_t hash, const RunCall& call) const {
  // The acquire pairs with the release in Insert.
  const Entry* entry = buckets_[hash % kBuckets].load(std::memory_order_acquire);
  while (entry != nullptr && !entry->Is(hash, call)) entry = entry->next;
  return entry == nullptr ? -1 : entry->handle;
}

bool CallableCache::Insert(uint64_t hash, const RunCall& call, Session::CallableHandle handle) {
  auto entry = std::make_unique<Entry>();
  entry->hash = hash;
  entry->feeds.assign(call.feeds.begin(), call.feeds.end());
  entry->fetches.assign(call.fetches.begin(), call.fetches.end());
  entry->targets.assign(call.targets.begin(), call.targets.end());
  entry->handle = handle;
  std::atomic<Entry*>& head = buckets_[hash % kBuckets];
  MutexLock lock(mu_);
  if (size_ == kLimit) return false;
  ++size_;
  entry->next = head.load(std::memory_order_relaxed);
  head.store(entry.release(), std::memory_order_release);
  return true;
}

}  // namespace millrace::c_api
