// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "c/session.h"

namespace millrace::c_api {
namespace {

// Handles are compared and never followed.
TF_Operation* Operation(uintptr_t number) { return reinterpret_cast<TF_Operation*>(number * 64); }

struct Call {
  std::vector<TF_Output> feeds, fetches;
  std::vector<const TF_Operation*> targets;
  RunCall run() const { return {feeds, fetches, targets}; }
};

TEST(CallableCacheTest, CallsAreDistinguished) {
  CallableCache cache;
  const std::vector<Call> calls = {
      {{}, {}, {}},
      {{{Operation(1), 0}}, {}, {}},
      {{{Operation(1), 1}}, {}, {}},
      {{}, {{Operation(1), 0}}, {}},
      {{}, {}, {Operation(1)}},
      {{}, {{Operation(1), 0}, {Operation(2), 0}}, {}},
      {{}, {{Operation(2), 0}, {Operation(1), 0}}, {}},
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    const RunCall call = calls[i].run();
    EXPECT_EQ(cache.Find(CallableCache::Hash(call), call), -1) << i;
    EXPECT_TRUE(cache.Insert(CallableCache::Hash(call), call, static_cast<int64_t>(i) + 10));
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const RunCall call = calls[i].run();
    EXPECT_EQ(cache.Find(CallableCache::Hash(call), call), static_cast<int64_t>(i) + 10);
    // The hash alone does not decide.
    const RunCall other = calls[(i + 1) % calls.size()].run();
    EXPECT_EQ(cache.Find(CallableCache::Hash(call), other), -1);
  }
}

TEST(CallableCacheTest, ThereIsALimit) {
  CallableCache cache;
  int kept = 0;
  for (uintptr_t i = 1; i <= 3000; ++i) {
    const Call call{{}, {{Operation(i), 0}}, {}};
    kept += cache.Insert(CallableCache::Hash(call.run()), call.run(), static_cast<int64_t>(i)) ? 1 : 0;
  }
  EXPECT_EQ(kept, 1024);
  const Call first{{}, {{Operation(1), 0}}, {}};
  EXPECT_EQ(cache.Find(CallableCache::Hash(first.run()), first.run()), 1) << "entries stay";
}

TEST(CallableCacheTest, ReadersAndWritersShareIt) {
  CallableCache cache;
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (uintptr_t i = 1; i <= 200; ++i) {
        const Call call{{}, {{Operation(i), t % 2}}, {}};
        const uint64_t hash = CallableCache::Hash(call.run());
        const auto found = cache.Find(hash, call.run());
        EXPECT_TRUE(found == -1 || found == static_cast<int64_t>(i)) << found;
        if (found < 0) cache.Insert(hash, call.run(), static_cast<int64_t>(i));
      }
    });
  }
}

}  // namespace
}  // namespace millrace::c_api
