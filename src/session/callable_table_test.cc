// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/callable_table.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace millrace {
namespace {

class CallableTableTest : public ::testing::Test {
 protected:
  Session::CallableHandle Add(int64_t timeout) {
    auto callable = std::make_unique<Callable>();
    callable->options.timeout_in_ms = timeout;
    callable->executable = executable_;
    return *table_.Add(std::move(callable));
  }

  std::shared_ptr<const Executable> executable_ = std::make_shared<Executable>();
  Reclaimer reclaimer_;
  CallableTable table_{reclaimer_};
};

TEST_F(CallableTableTest, FindsWhatWasAdded) {
  std::vector<Session::CallableHandle> handles;
  for (int64_t i = 0; i < 600; ++i) handles.push_back(Add(i));  // more than a chunk
  for (int64_t i = 0; i < 600; ++i) {
    const Callable* callable = table_.Find(handles[static_cast<size_t>(i)]);
    ASSERT_NE(callable, nullptr);
    EXPECT_EQ(callable->options.timeout_in_ms, i);
  }
}

TEST_F(CallableTableTest, UnknownHandlesAreNotFound) {
  const Session::CallableHandle handle = Add(1);
  for (const Session::CallableHandle unknown :
       {handle + 1, handle - 1, handle + (int64_t{1} << 20), std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::min()}) {
    EXPECT_EQ(table_.Find(unknown), nullptr) << unknown;
    EXPECT_FALSE(table_.Release(unknown)) << unknown;
  }
  EXPECT_NE(table_.Find(handle), nullptr);
}

TEST_F(CallableTableTest, AReleasedCallableIsFreed) {
  const Session::CallableHandle handle = Add(1);
  EXPECT_EQ(executable_.use_count(), 2);
  EXPECT_TRUE(table_.Release(handle));
  EXPECT_EQ(executable_.use_count(), 1);
  EXPECT_EQ(table_.Find(handle), nullptr);
  EXPECT_FALSE(table_.Release(handle));
}

TEST_F(CallableTableTest, ARunInProgressKeepsItsCallable) {
  const Session::CallableHandle handle = Add(7);
  const Reclaimer::Reader reader(reclaimer_);
  const Callable* callable = table_.Find(handle);
  EXPECT_TRUE(table_.Release(handle));
  EXPECT_EQ(callable->options.timeout_in_ms, 7);
  EXPECT_EQ(executable_.use_count(), 2);
}

// Entries are reused, so that creating and releasing callables in a loop does not allocate more memory.
TEST_F(CallableTableTest, NoHandleIsUsedTwice) {
  std::set<Session::CallableHandle> seen;
  for (int i = 0; i < 1000; ++i) {
    const Session::CallableHandle handle = Add(i);
    EXPECT_TRUE(seen.insert(handle).second);
    EXPECT_TRUE(table_.Release(handle));
  }
  for (const Session::CallableHandle handle : seen) EXPECT_EQ(table_.Find(handle), nullptr);
  EXPECT_EQ(*seen.begin() % 256, *seen.rbegin() % 256);
}

}  // namespace
}  // namespace millrace
