// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/signature_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using Entry = std::shared_ptr<const Executable>;

class SignatureCacheTest : public ::testing::Test {
 protected:
  StatusOr<Entry> Make(SignatureCache& cache, const RunSignature& signature) {
    return cache.FindOrCompile(signature,
                               [&](const RunSignature& canonical) -> StatusOr<std::unique_ptr<CompiledStep>> {
                                 compiled_.push_back(canonical);
                                 if (!error_.ok()) return error_;
                                 return std::make_unique<CompiledStep>();
                               });
  }
  StatusOr<Entry> Make(SignatureCache& cache, int i) { return Make(cache, Fetch(i)); }
  static RunSignature Fetch(int i) { return {{}, {StrCat("n", i)}, {}}; }
  static const Executable* Find(const SignatureCache& cache, const RunSignature& s) {
    const auto feed_name = [&](size_t i) { return std::string_view(s.feeds[i]); };
    return cache.Find(SignatureCache::Hash(s.feeds.size(), feed_name, s.fetches, s.targets), s.feeds.size(),
                      feed_name, s.fetches, s.targets);
  }

  Reclaimer reclaimer_;
  std::vector<RunSignature> compiled_;
  Status error_;
};

TEST_F(SignatureCacheTest, CompilesASignatureOnce) {
  SignatureCache cache(reclaimer_);
  const RunSignature signature{{"x"}, {"y"}, {"t"}};
  EXPECT_EQ(Find(cache, signature), nullptr);
  const Entry made = *Make(cache, signature);
  EXPECT_EQ(*Make(cache, signature), made);
  EXPECT_EQ(Find(cache, signature), made.get());
  EXPECT_EQ(compiled_.size(), 1u);
}

TEST_F(SignatureCacheTest, OrderRepetitionAndSpellingShareAStep) {
  SignatureCache cache(reclaimer_);
  const Entry a = *Make(cache, {{"x", "b"}, {"y", "z"}, {}});
  const Entry b = *Make(cache, {{"b:0", "x"}, {"z:0", "y", "z"}, {}});
  EXPECT_NE(a, b);
  EXPECT_EQ(a->step, b->step);
  EXPECT_EQ(compiled_.size(), 1u);
  EXPECT_THAT(a->feed_slots, ::testing::ElementsAre(1, 0));  // sorted: b, x
  EXPECT_THAT(b->feed_slots, ::testing::ElementsAre(0, 1));
  EXPECT_TRUE(a->fetches_in_order);
  EXPECT_THAT(b->fetch_slots, ::testing::ElementsAre(1, 0, 1));
  EXPECT_FALSE(b->fetches_in_order);
}

TEST_F(SignatureCacheTest, ATensorFedTwiceIsRefused) {
  SignatureCache cache(reclaimer_);
  const StatusOr<Entry> made = Make(cache, {{"x", "x:0"}, {"y"}, {}});
  EXPECT_EQ(made.status().message(), "Endpoint \"x\" fed more than once.");
  EXPECT_TRUE(compiled_.empty());
}

TEST_F(SignatureCacheTest, AnErrorLeavesNoEntry) {
  SignatureCache cache(reclaimer_);
  error_ = errors::NotFound("no such node");
  EXPECT_EQ(Make(cache, 1).status(), error_);
  EXPECT_EQ(Find(cache, Fetch(1)), nullptr);
  error_ = Status();
  EXPECT_TRUE(Make(cache, 1).ok());
  EXPECT_EQ(cache.num_compiled(), 1u);
}

TEST_F(SignatureCacheTest, MemoryIsBounded) {
  SignatureCache cache(reclaimer_, 16);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Make(cache, i).ok());
    EXPECT_NE(Find(cache, Fetch(i)), nullptr);
    EXPECT_LE(cache.num_compiled(), 17u);
  }
  EXPECT_EQ(reclaimer_.num_retired(), 0u);
  EXPECT_EQ(Find(cache, Fetch(0)), nullptr);
  EXPECT_EQ(compiled_.size(), 1000u);
  EXPECT_TRUE(Make(cache, 0).ok());  // compiled again
  EXPECT_EQ(compiled_.size(), 1001u);
}

TEST_F(SignatureCacheTest, WhatIsFoundNowAndThenStays) {
  SignatureCache cache(reclaimer_, 16);
  const Executable* const often = Make(cache, 0)->get();
  for (int i = 1; i < 200; ++i) {
    ASSERT_TRUE(Make(cache, i).ok());
    ASSERT_EQ(Find(cache, Fetch(0)), often) << i;
  }
}

TEST_F(SignatureCacheTest, ReferencedObjectsStay) {
  SignatureCache cache(reclaimer_, 16);
  std::vector<Entry> held;
  held.reserve(100);
  for (int i = 0; i < 100; ++i) held.push_back(*Make(cache, i));
  for (int i = 100; i < 300; ++i) ASSERT_TRUE(Make(cache, i).ok());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Find(cache, Fetch(i)), held[static_cast<size_t>(i)].get());
  EXPECT_LE(cache.num_compiled(), 100u + 17u);
  held.clear();
  for (int i = 300; i < 600; ++i) ASSERT_TRUE(Make(cache, i).ok());
  EXPECT_LE(cache.num_compiled(), 100u);
  EXPECT_EQ(Find(cache, Fetch(0)), nullptr);
}

TEST_F(SignatureCacheTest, AReaderKeepsWhatItFound) {
  SignatureCache cache(reclaimer_, 16);
  std::weak_ptr<const CompiledStep> step;
  {
    ASSERT_TRUE(Make(cache, 0).ok());
    const Reclaimer::Reader reader(reclaimer_);
    const Executable* const found = Find(cache, Fetch(0));
    ASSERT_NE(found, nullptr);
    step = found->step;
    for (int i = 1; i < 200; ++i) ASSERT_TRUE(Make(cache, i).ok());
    EXPECT_EQ(Find(cache, Fetch(0)), nullptr);
    EXPECT_EQ(found->signature.fetches[0], "n0");
    EXPECT_FALSE(step.expired());
  }
  for (int i = 200; i < 400; ++i) ASSERT_TRUE(Make(cache, i).ok());
  EXPECT_TRUE(step.expired());
}

}  // namespace
}  // namespace millrace
