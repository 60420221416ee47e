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
#include "step/step_compiler.h"

namespace millrace {

// One way to call a compiled step: which slot each feed and fetch of the caller has.
struct Executable {
  RunSignature signature;  // as the caller spelled it
  uint64_t hash = 0;
  const CompiledStep* step = nullptr;
  std::vector<uint32_t> feed_slots;
  std::vector<uint32_t> fetch_slots;
  bool fetches_in_order = false;         // fetch_slots is 0, 1, 2, … and complete
  mutable std::atomic<int64_t> runs{0};  // counted when the session builds a cost model
  // The same for feeds whose shapes are not those of their placeholders; null until there was such a call.
  mutable std::atomic<const Executable*> any_shapes{nullptr};
};

// What has been compiled, by signature. A look-up takes no lock. Entries live as long as the cache.
// Signatures that differ only in order, in repetitions or in spelling ("n" for "n:0") share one compiled
// step. Thread-safe.
class SignatureCache {
 public:
  using Compiler = FunctionRef<StatusOr<std::unique_ptr<CompiledStep>>(const RunSignature& canonical)>;

  SignatureCache();
  ~SignatureCache();

  // Names are read from any container through `feed_name(i)`, so that a hit copies no string.
  static uint64_t Hash(size_t num_feeds, FunctionRef<std::string_view(size_t)> feed_name,
                       std::span<const std::string> fetches, std::span<const std::string> targets);
  // Null when there is none.
  const Executable* Find(uint64_t hash, size_t num_feeds, FunctionRef<std::string_view(size_t)> feed_name,
                         std::span<const std::string> fetches, std::span<const std::string> targets) const;
  // The entry of `signature`, compiled when it is new. Signatures are compiled one at a time, each once; Find
  // is not held up. InvalidArgument for a tensor that is fed twice.
  StatusOr<const Executable*> FindOrCompile(const RunSignature& signature, Compiler compile) MR_EXCLUDES(mu_);
  size_t num_compiled() const MR_EXCLUDES(mu_);

 private:
  // An open-addressing table of entries; replaced by one of twice the size when it is half full.
  struct Table {
    explicit Table(size_t capacity) : slots(capacity) {}
    std::vector<std::atomic<const Executable*>> slots;
  };
  struct Compiled {
    RunSignature canonical;
    std::unique_ptr<CompiledStep> step;
  };
  void Insert(std::unique_ptr<Executable> entry) MR_REQUIRES(mu_);

  std::atomic<Table*> table_;
  mutable Mutex mu_;
  std::vector<std::unique_ptr<Table>> tables_ MR_GUARDED_BY(mu_);  // old ones stay: readers may be in them
  std::vector<std::unique_ptr<Executable>> entries_ MR_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Compiled>> compiled_ MR_GUARDED_BY(mu_);
  Mutex compile_mu_;  // held while compiling; before mu_
};

}  // namespace millrace
