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
  if (s.feeds.size() != num_feeds ||
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

SignatureCache::SignatureCache() {
  tables_.push_back(std::make_unique<Table>(kInitialCapacity));
  table_.store(tables_.back().get(), std::memory_order_release);
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
    if (e->hash == hash && SameNames(e->signature, num_feeds, feed_name, fetches, targets)) return e;
  }
}

StatusOr<const Executable*> SignatureCache::FindOrCompile(const RunSignature& signature, Compiler compile) {
  const auto feed_name = [&](size_t i) { return std::string_view(signature.feeds[i]); };
  const uint64_t hash = Hash(signature.feeds.size(), feed_name, signature.fetches, signature.targets);
  MR_ASSIGN_OR_RETURN(RunSignature canonical, Canonicalize(signature));
  MutexLock compiling(compile_mu_);
  if (const Executable* e =
          Find(hash, signature.feeds.size(), feed_name, signature.fetches, signature.targets))
    return e;
  const CompiledStep* step = nullptr;
  {
    MutexLock lock(mu_);
    for (const auto& c : compiled_) {
      if (c->canonical == canonical) step = c->step.get();
    }
  }
  std::unique_ptr<CompiledStep> fresh;
  if (step == nullptr) {
    MR_ASSIGN_OR_RETURN(fresh, compile(canonical));
    step = fresh.get();
  }
  auto entry = std::make_unique<Executable>();
  entry->signature = signature;
  entry->hash = hash;
  entry->step = step;
  for (const std::string& f : signature.feeds) entry->feed_slots.push_back(SlotOf(canonical.feeds, f));
  for (const std::string& f : signature.fetches) entry->fetch_slots.push_back(SlotOf(canonical.fetches, f));
  entry->fetches_in_order = entry->fetch_slots.size() == canonical.fetches.size();
  for (size_t i = 0; i < entry->fetch_slots.size(); ++i)
    entry->fetches_in_order &= entry->fetch_slots[i] == i;
  const Executable* result = entry.get();
  MutexLock lock(mu_);
  if (fresh != nullptr) {
    compiled_.push_back(std::make_unique<Compiled>(Compiled{std::move(canonical), std::move(fresh)}));
  }
  Insert(std::move(entry));
  return result;
}

void SignatureCache::Insert(std::unique_ptr<Executable> entry) {
  const auto place = [](Table& table, const Executable* e) {
    const size_t mask = table.slots.size() - 1;
    size_t i = e->hash & mask;
    while (table.slots[i].load(std::memory_order_relaxed) != nullptr) i = (i + 1) & mask;
    table.slots[i].store(e, std::memory_order_release);
  };
  entries_.push_back(std::move(entry));
  Table* table = tables_.back().get();
  if (entries_.size() * 2 <= table->slots.size()) {
    place(*table, entries_.back().get());
    return;
  }
  tables_.push_back(std::make_unique<Table>(table->slots.size() * 2));
  for (const auto& e : entries_) place(*tables_.back(), e.get());
  table_.store(tables_.back().get(), std::memory_order_release);
}

size_t SignatureCache::num_compiled() const {
  MutexLock lock(mu_);
  return compiled_.size();
}

}  // namespace millrace
