// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function.h"
#include "base/mutex.h"
#include "millrace/status.h"
#include "session/reclaimer.h"
#include "step/step_compiler.h"

namespace millrace {

// One way to call a compiled step: the slots of the caller's feeds and fetches.
struct Executable : std::enable_shared_from_this<Executable> {
  Executable() = default;
  ~Executable() { delete any_shapes.load(std::memory_order_acquire); }

  RunSignature signature;  // as the caller spelled it
  uint64_t hash = 0;
  std::shared_ptr<const CompiledStep> step;
  std::vector<uint32_t> feed_slots;
  std::vector<uint32_t> fetch_slots;
  bool fetches_in_order = false;         // fetch_slots is 0, 1, 2, … and complete
  mutable std::atomic<int64_t> runs{0};  // counted when the session builds a cost model
  // The same for feeds whose shapes are not those of their placeholders; null before the first such call.
  mutable std::atomic<const std::shared_ptr<const Executable>*> any_shapes{nullptr};
  // Set by Find since the last search for unused entries.
  mutable std::atomic<bool> used{false};
};

// The compiled steps, by signature. A look-up takes no lock. Beyond `limit` entries a quarter of them is
// evicted: those not found since the last eviction first, then the oldest. Entries held by a callable or a
// partial run stay. Signatures that differ only in order, in repetitions or in spelling ("n" for "n:0") share
// one compiled step. Thread-safe.
class SignatureCache {
 public:
  using Compiler = FunctionRef<StatusOr<std::unique_ptr<CompiledStep>>(const RunSignature& canonical)>;
  static constexpr size_t kDefaultLimit = 1024;

  explicit SignatureCache(Reclaimer& reclaimer, size_t limit = kDefaultLimit);
  ~SignatureCache();

  // Names are read from any container through `feed_name(i)`, so that a hit copies no string.
  static uint64_t Hash(size_t num_feeds, FunctionRef<std::string_view(size_t)> feed_name,
                       std::span<const std::string> fetches, std::span<const std::string> targets);
  // Null when there is none. The entry lives as long as a Reclaimer::Reader that began before.
  const Executable* Find(uint64_t hash, size_t num_feeds, FunctionRef<std::string_view(size_t)> feed_name,
                         std::span<const std::string> fetches, std::span<const std::string> targets) const;
  // The entry of `signature`, compiled when it is new. Signatures are compiled one at a time; this does not
  // delay Find. InvalidArgument for a tensor that is fed twice.
  StatusOr<std::shared_ptr<const Executable>> FindOrCompile(const RunSignature& signature, Compiler compile)
      MR_EXCLUDES(mu_);
  // Compiled steps that are in memory.
  size_t num_compiled() const MR_EXCLUDES(mu_);

 private:
  // An open-addressing table of entries; replaced when it is half full and when entries are evicted.
  struct Table {
    explicit Table(size_t capacity) : slots(capacity) {}
    std::vector<std::atomic<const Executable*>> slots;
  };
  struct Compiled {
    RunSignature canonical;
    std::weak_ptr<const CompiledStep> step;
  };
  using Entries = std::vector<std::shared_ptr<Executable>>;
  // Objects that readers may still see after a change.
  struct Garbage {
    std::unique_ptr<Table> table;
    Entries entries;
  };
  StatusOr<std::shared_ptr<const Executable>> FindOrCompile(const RunSignature& signature, Compiler compile,
                                                            Garbage* garbage) MR_EXCLUDES(mu_);
  // Takes entries out of entries_; the table must be rebuilt.
  Entries TakeUnused() MR_REQUIRES(mu_);
  Garbage Insert(std::shared_ptr<Executable> entry) MR_REQUIRES(mu_);

  Reclaimer& reclaimer_;
  const size_t limit_;
  std::atomic<Table*> table_;
  mutable Mutex mu_;
  std::unique_ptr<Table> owned_table_ MR_GUARDED_BY(mu_);
  Entries entries_ MR_GUARDED_BY(mu_);                 // oldest first
  size_t evict_at_ MR_GUARDED_BY(mu_);                 // number of entries
  std::vector<Compiled> compiled_ MR_GUARDED_BY(mu_);  // some are freed already
  Mutex compile_mu_;                                   // held while compiling; before mu_
};

}  // namespace millrace
