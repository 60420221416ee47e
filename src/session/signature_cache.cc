// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/signature_cache.h"

#include <algorithm>

#include "base/hash.h"

namespace millrace {
namespace {

constexpr size_t kInitialCapacity = 64;

template <typename FeedName>
bool SameNames(const RunSignature& s, size_t num_feeds, const FeedName& feed_name,
               std::span<const std::string> fetches, std::span<const std::string> targets) {
  // With connections it belongs to a callable.
  if (s.feeds.size() != num_feeds || !s.connections.empty() ||
      !std::equal(s.fetches.begin(), s.fetches.end(), fetches.begin(), fetches.end()) ||
      !std::equal(s.targets.begin(), s.targets.end(), targets.begin(), targets.end())) {
    return false;
  }
  for (size_t i = 0; i < num_feeds; ++i) {
    if (s.feeds[i] != feed_name(i)) return false;
  }
  return true;
}

void SortUnique(std::vector<std::string>* names) {
  std::sort(names->begin(), names->end());
  names->erase(std::unique(names->begin(), names->end()), names->end());
}

// "n:0" and "n" are one tensor.
std::string Canonical(const std::string& name) { return ParseTensorId(name).ToString(); }

StatusOr<RunSignature> Canonicalize(const RunSignature& s) {
  RunSignature c;
  for (const std::string& f : s.feeds) c.feeds.push_back(Canonical(f));
  for (const std::string& f : s.fetches) c.fetches.push_back(Canonical(f));
  c.targets = s.targets;
  c.connections = s.connections;
  SortUnique(&c.feeds);
  if (c.feeds.size() != s.feeds.size()) {
    std::vector<std::string> sorted;
    for (const std::string& f : s.feeds) sorted.push_back(Canonical(f));
    std::sort(sorted.begin(), sorted.end());
    return errors::InvalidArgument("Endpoint \"", *std::adjacent_find(sorted.begin(), sorted.end()),
                                   "\" fed more than once.");
  }
  SortUnique(&c.fetches);
  SortUnique(&c.targets);
  return c;
}

uint32_t SlotOf(const std::vector<std::string>& sorted, const std::string& name) {
  return static_cast<uint32_t>(std::lower_bound(sorted.begin(), sorted.end(), Canonical(name)) -
                               sorted.begin());
}

}  // namespace

SignatureCache::SignatureCache(Reclaimer& reclaimer, size_t limit)
    : reclaimer_(reclaimer),
      limit_(limit),
      owned_table_(std::make_unique<Table>(kInitialCapacity)),
      evict_at_(limit) {
  table_.store(owned_table_.get(), std::memory_order_release);
}

SignatureCache::~SignatureCache() = default;

uint64_t SignatureCache::Hash(size_t num_feeds, FunctionRef<std::string_view(size_t)> feed_name,
                              std::span<const std::string> fetches, std::span<const std::string> targets) {
  uint64_t h = num_feeds * 0x9e3779b97f4a7c15u + fetches.size();
  for (size_t i = 0; i < num_feeds; ++i) h = HashCombine(h, Hash64(feed_name(i)));
  for (const std::string& f : fetches) h = HashCombine(h, Hash64(f));
  for (const std::string& t : targets) h = HashCombine(h, Hash64(t));
  return h;
}

const Executable* SignatureCache::Find(uint64_t hash, size_t num_feeds,
                                       FunctionRef<std::string_view(size_t)> feed_name,
                                       std::span<const std::string> fetches,
                                       std::span<const std::string> targets) const {
  const Table& table = *table_.load(std::memory_order_acquire);  // pairs with the release in Insert
  const size_t mask = table.slots.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Executable* e = table.slots[i].load(std::memory_order_acquire);  // pairs with the release in Insert
    if (e == nullptr) return nullptr;
    if (e->hash != hash || !SameNames(e->signature, num_feeds, feed_name, fetches, targets)) continue;
    // Relaxed: a hint. Written once between two evictions, so that threads share the cache line.
    if (!e->used.load(std::memory_order_relaxed)) e->used.store(true, std::memory_order_relaxed);
    return e;
  }
}

StatusOr<std::shared_ptr<const Executable>> SignatureCache::FindOrCompile(const RunSignature& signature,
                                                                          Compiler compile) {
  auto garbage = std::make_shared<Garbage>();
  auto entry = FindOrCompile(signature, compile, garbage.get());
  // Without a lock: steps may be destroyed here.
  if (garbage->table != nullptr) reclaimer_.Retire(std::move(garbage));
  return entry;
}

StatusOr<std::shared_ptr<const Executable>> SignatureCache::FindOrCompile(const RunSignature& signature,
                                                                          Compiler compile,
                                                                          Garbage* garbage) {
  const auto feed_name = [&](size_t i) { return std::string_view(signature.feeds[i]); };
  const uint64_t hash = Hash(signature.feeds.size(), feed_name, signature.fetches, signature.targets);
  MR_ASSIGN_OR_RETURN(RunSignature canonical, Canonicalize(signature));
  MutexLock compiling(compile_mu_);  // entries are only removed with it
  if (const Executable* e = !signature.connections.empty() ? nullptr
                                                           : Find(hash, signature.feeds.size(), feed_name,
                                                                  signature.fetches, signature.targets))
    return e->shared_from_this();
  auto entry = std::make_shared<Executable>();
  {
    MutexLock lock(mu_);
    for (const Compiled& c : compiled_) {
      if (entry->step == nullptr && c.canonical == canonical) entry->step = c.step.lock();
    }
  }
  const bool fresh = entry->step == nullptr;
  if (fresh) {
    MR_ASSIGN_OR_RETURN(entry->step, compile(canonical));
  }
  entry->signature = signature;
  entry->hash = hash;
  for (const std::string& f : signature.feeds) entry->feed_slots.push_back(SlotOf(canonical.feeds, f));
  for (const std::string& f : signature.fetches) entry->fetch_slots.push_back(SlotOf(canonical.fetches, f));
  entry->fetches_in_order = entry->fetch_slots.size() == canonical.fetches.size();
  for (size_t i = 0; i < entry->fetch_slots.size(); ++i)
    entry->fetches_in_order &= entry->fetch_slots[i] == i;
  MutexLock lock(mu_);
  if (fresh) compiled_.push_back({std::move(canonical), entry->step});
  *garbage = Insert(entry);
  return entry;
}

SignatureCache::Entries SignatureCache::TakeUnused() {
  const size_t quarter = limit_ / 4 + 1;
  const size_t wanted = entries_.size() + quarter - std::min(entries_.size(), limit_);
  Entries taken;
  // First the entries that were not found since the last time, then the oldest.
  for (const bool also_used : {false, true}) {
    Entries kept;
    for (std::shared_ptr<Executable>& e : entries_) {
      // References are only added with compile_mu_, so 1 stays 1.
      const bool free = taken.size() < wanted && e.use_count() == 1 &&
                        (also_used || !e->used.load(std::memory_order_relaxed));
      (free ? taken : kept).push_back(std::move(e));
    }
    entries_ = std::move(kept);
  }
  for (const auto& e : entries_) e->used.store(false, std::memory_order_relaxed);
  std::erase_if(compiled_, [](const Compiled& c) { return c.step.expired(); });
  evict_at_ = std::max(limit_, entries_.size() + quarter);
  return taken;
}

SignatureCache::Garbage SignatureCache::Insert(std::shared_ptr<Executable> entry) {
  const auto place = [](Table& table, const Executable* e) {
    const size_t mask = table.slots.size() - 1;
    size_t i = e->hash & mask;
    while (table.slots[i].load(std::memory_order_relaxed) != nullptr) i = (i + 1) & mask;
    table.slots[i].store(e, std::memory_order_release);
  };
  Garbage garbage;
  if (entries_.size() >= evict_at_) garbage.entries = TakeUnused();
  entries_.push_back(std::move(entry));
  const bool full = entries_.size() * 2 > owned_table_->slots.size();
  if (garbage.entries.empty() && !full) {
    place(*owned_table_, entries_.back().get());
    return garbage;
  }
  auto table = std::make_unique<Table>(owned_table_->slots.size() * (full ? 2 : 1));
  for (const auto& e : entries_) place(*table, e.get());
  garbage.table = std::exchange(owned_table_, std::move(table));
  table_.store(owned_table_.get(), std::memory_order_release);
  return garbage;
}

size_t SignatureCache::num_compiled() const {
  MutexLock lock(mu_);
  return static_cast<size_t>(
      std::count_if(compiled_.begin(), compiled_.end(), [](const Compiled& c) { return !c.step.expired(); }));
}

}  // namespace millrace
