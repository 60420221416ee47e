// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/cancellation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace millrace {
namespace {

using Token = CancellationManager::Token;

TEST(CancellationTest, CancelRunsEachCallbackOnce) {
  CancellationManager manager;
  int a = 0, b = 0;
  EXPECT_NE(manager.Register([&] { ++a; }), CancellationManager::kInvalidToken);
  EXPECT_NE(manager.Register([&] { ++b; }), CancellationManager::kInvalidToken);
  EXPECT_FALSE(manager.IsCancelled());
  manager.StartCancel();
  manager.StartCancel();
  EXPECT_TRUE(manager.IsCancelled());
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 1);
}

TEST(CancellationTest, RegisterAfterCancelKeepsNothing) {
  CancellationManager manager;
  manager.StartCancel();
  auto token = std::make_shared<int>(0);
  EXPECT_EQ(manager.Register([token] { FAIL(); }), CancellationManager::kInvalidToken);
  EXPECT_EQ(token.use_count(), 1);
}

TEST(CancellationTest, DeregisteredCallbackDoesNotRun) {
  CancellationManager manager;
  bool ran = false;
  const Token a = manager.Register([&] { ran = true; });
  const Token b = manager.Register([&] { ran = true; });
  EXPECT_TRUE(manager.Deregister(a));
  EXPECT_TRUE(manager.TryDeregister(b));
  manager.StartCancel();
  EXPECT_FALSE(ran);
}

TEST(CancellationTest, DeregisterAfterCancelReturnsThatItRan) {
  CancellationManager manager;
  const Token token = manager.Register([] {});
  manager.StartCancel();
  EXPECT_FALSE(manager.Deregister(token));
  EXPECT_FALSE(manager.TryDeregister(token));
}

TEST(CancellationTest, DeregisterWaitsForARunningCallback) {
  CancellationManager manager;
  std::latch running(1), finish(1);
  std::atomic<bool> finished{false};
  const Token token = manager.Register([&] {
    running.count_down();
    finish.wait();
    finished = true;
  });
  std::jthread canceller([&] { manager.StartCancel(); });
  running.wait();
  EXPECT_FALSE(manager.TryDeregister(token));  // does not wait
  EXPECT_FALSE(finished);
  finish.count_down();
  EXPECT_FALSE(manager.Deregister(token));
  EXPECT_TRUE(finished);
}

TEST(CancellationTest, CallbackMayUseTheManager) {
  CancellationManager manager;
  Token inner = 0;
  manager.Register([&] {
    EXPECT_TRUE(manager.IsCancelled());
    inner = manager.Register([] {});
    manager.StartCancel();
  });
  manager.StartCancel();
  EXPECT_EQ(inner, CancellationManager::kInvalidToken);
}

TEST(CancellationTest, CallbackMayTakeBackItselfAndOthers) {
  CancellationManager manager;
  std::vector<Token> tokens(3);
  int runs = 0;
  for (Token& token : tokens) {
    token = manager.Register([&] {
      ++runs;
      int taken_back = 0;
      for (const Token t : tokens) taken_back += manager.Deregister(t) ? 1 : 0;
      EXPECT_EQ(taken_back, 2);
    });
  }
  manager.StartCancel();
  EXPECT_EQ(runs, 1);
}

TEST(CancellationTest, CallbackIsDestroyedBeforeDeregisterReturns) {
  CancellationManager manager;
  auto token = std::make_shared<int>(0);
  const Token registered = manager.Register([token] {});
  EXPECT_TRUE(manager.Deregister(registered));
  EXPECT_EQ(token.use_count(), 1);
}

TEST(CancellationTest, ParentCancelsItsChildren) {
  CancellationManager parent;
  CancellationManager child(&parent);
  bool ran = false;
  child.Register([&] { ran = true; });
  parent.StartCancel();
  EXPECT_TRUE(child.IsCancelled());
  EXPECT_TRUE(ran);
}

TEST(CancellationTest, ChildDoesNotCancelItsParent) {
  CancellationManager parent;
  CancellationManager child(&parent);
  child.StartCancel();
  EXPECT_FALSE(parent.IsCancelled());
}

TEST(CancellationTest, ChildOfACancelledParentIsCancelled) {
  CancellationManager parent;
  parent.StartCancel();
  CancellationManager child(&parent);
  EXPECT_TRUE(child.IsCancelled());
}

TEST(CancellationTest, ParentForgetsDestroyedChildren) {
  CancellationManager parent;
  { CancellationManager child(&parent); }
  parent.StartCancel();
}

TEST(CancellationTest, DestructorReleasesWaitingThreads) {
  bool ran = false;
  {
    CancellationManager manager;
    manager.Register([&] { ran = true; });
  }
  EXPECT_TRUE(ran);
}

TEST(CancellationTest, ResetMakesItUsableAgain) {
  CancellationManager manager;
  manager.StartCancel();
  manager.Reset();
  EXPECT_FALSE(manager.IsCancelled());
  int runs = 0;
  manager.Register([&] { ++runs; });
  manager.StartCancel();
  EXPECT_EQ(runs, 1);
}

// Each callback runs, or its deregistration says that it will not: never both, never neither.
TEST(CancellationTest, RacingDeregisterAndCancelAgree) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    CancellationManager manager;
    std::latch start(kThreads + 1);
    std::atomic<int> inconsistent{0};
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          start.arrive_and_wait();
          for (int i = 0; i < 20; ++i) {
            int ran = 0;  // not atomic: Deregister orders it
            const Token token = manager.Register([&ran] { ++ran; });
            if (token == CancellationManager::kInvalidToken) break;
            const bool will_not_run = t % 2 == 0 ? manager.Deregister(token)
                                                 : manager.TryDeregister(token) || manager.Deregister(token);
            if (will_not_run == (ran == 1)) inconsistent.fetch_add(1);
          }
        });
      }
      start.arrive_and_wait();
      manager.StartCancel();
    }
    ASSERT_EQ(inconsistent.load(), 0);
  }
}

}  // namespace
}  // namespace millrace
