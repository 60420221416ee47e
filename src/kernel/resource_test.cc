// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/resource.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

namespace millrace {
namespace {

using ::testing::HasSubstr;

class Counter : public Resource {
 public:
  explicit Counter(int* destroyed = nullptr) : destroyed_(destroyed) {}
  ~Counter() override {
    if (destroyed_ != nullptr) ++*destroyed_;
  }
  std::string DebugString() const override { return "a counter"; }

 private:
  int* const destroyed_;
};
class Other : public Resource {
 public:
  std::string DebugString() const override { return "other"; }
};

class Counted : public Resource {
 public:
  explicit Counted(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
  ~Counted() override { --alive_; }
  std::string DebugString() const override { return "counted"; }

 private:
  std::atomic<int>& alive_;
};

TEST(ResourceManagerTest, FindsWhatWasCreatedUnderItsTypeOnly) {
  ResourceManager m("dev");
  auto c = MakeRef<Counter>();
  ASSERT_TRUE(m.Create<Counter>("box", "c", c).ok());
  auto found = m.Lookup<Counter>("box", "c");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->get(), c.get());
  EXPECT_TRUE(errors::IsNotFound(m.Lookup<Other>("box", "c").status()));
  EXPECT_TRUE(errors::IsNotFound(m.Lookup<Counter>("", "c").status()));
  EXPECT_TRUE(errors::IsAlreadyExists(m.Create<Counter>("box", "c", MakeRef<Counter>())));
  EXPECT_TRUE(m.Create<Other>("box", "c", MakeRef<Other>()).ok());
}

TEST(ResourceManagerTest, AnEmptyContainerIsTheDefaultOne) {
  ResourceManager m("dev");
  ASSERT_TRUE(m.Create<Counter>("", "c", MakeRef<Counter>()).ok());
  EXPECT_TRUE(m.Lookup<Counter>("localhost", "c").ok());
  const Status missing = m.Lookup<Counter>("", "d").status();
  EXPECT_THAT(missing.message(), HasSubstr("Resource localhost/d/"));
  EXPECT_THAT(missing.message(), HasSubstr(" does not exist."));
}

TEST(ResourceManagerTest, DeleteCleanupAndClearDropTheResources) {
  ResourceManager m("dev");
  int destroyed = 0;
  ASSERT_TRUE(m.Create<Counter>("a", "1", MakeRef<Counter>(&destroyed)).ok());
  ASSERT_TRUE(m.Create<Counter>("a", "2", MakeRef<Counter>(&destroyed)).ok());
  ASSERT_TRUE(m.Create<Counter>("b", "1", MakeRef<Counter>(&destroyed)).ok());
  ASSERT_TRUE(m.Delete<Counter>("a", "1").ok());
  EXPECT_EQ(destroyed, 1);
  EXPECT_TRUE(errors::IsNotFound(m.Delete<Counter>("a", "1")));
  m.Cleanup("a");
  EXPECT_EQ(destroyed, 2);
  m.Cleanup("a");
  m.Clear();
  EXPECT_EQ(destroyed, 3);
}

TEST(ResourceManagerTest, AHandleFindsItsResourceAndIsChecked) {
  ResourceManager m("dev"), elsewhere("dev2");
  ASSERT_TRUE(m.Create<Counter>("", "c", MakeRef<Counter>()).ok());
  const ResourceHandle handle = m.MakeHandle<Counter>("", "c");
  EXPECT_TRUE(m.LookupHandle<Counter>(handle).ok());
  const Status device = elsewhere.LookupHandle<Counter>(handle).status();
  EXPECT_EQ(device,
            errors::InvalidArgument("Trying to access resource c located in device dev from device dev2"));
  const Status type = m.LookupHandle<Other>(handle).status();
  EXPECT_TRUE(errors::IsInvalidArgument(type));
  EXPECT_THAT(type.message(), HasSubstr("Trying to access resource using the wrong type."));
  EXPECT_TRUE(m.DeleteHandle(handle).ok());
  EXPECT_TRUE(errors::IsNotFound(m.LookupHandle<Counter>(handle).status()));
}

TEST(ResourceManagerTest, AMissingContainerIsNamed) {
  ResourceManager m("dev");
  const Status missing = errors::NotFound("Container box does not exist. (Could not find resource: box/c)");
  EXPECT_EQ(m.Lookup<Counter>("box", "c").status(), missing);
  EXPECT_EQ(m.Delete<Counter>("box", "c"), missing);
  ASSERT_TRUE(m.Create<Counter>("box", "c", MakeRef<Counter>()).ok());
  m.Cleanup("box");
  EXPECT_EQ(m.Lookup<Counter>("box", "c").status(), missing);
}

TEST(ResourceManagerTest, AResourceOutlivesItsContainerWhileItIsUsed) {
  ResourceManager m("dev");
  int destroyed = 0;
  ASSERT_TRUE(m.Create<Counter>("", "c", MakeRef<Counter>(&destroyed)).ok());
  auto held = m.Lookup<Counter>("", "c");
  ASSERT_TRUE(held.ok());
  m.Clear();
  EXPECT_EQ(destroyed, 0);
  held->reset();
  EXPECT_EQ(destroyed, 1);
}

TEST(ResourceManagerTest, ACreatorMayUseTheManager) {
  ResourceManager m("dev");
  auto outer = m.LookupOrCreate<Counter>("", "outer", [&]() -> StatusOr<RefPtr<Counter>> {
    MR_RETURN_IF_ERROR(m.LookupOrCreate<Other>("", "inner", []() -> StatusOr<RefPtr<Other>> {
                          return MakeRef<Other>();
                        }).status());
    return MakeRef<Counter>();
  });
  EXPECT_TRUE(outer.ok()) << outer.status();
  EXPECT_TRUE(m.Lookup<Other>("", "inner").ok());
}

TEST(ResourceManagerTest, RacingCreatorsGetTheSameResource) {
  ResourceManager m("dev");
  std::atomic<int> created{0};
  std::vector<Counter*> got(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&, i] {
      auto r = m.LookupOrCreate<Counter>("", "c", [&] {
        ++created;
        return StatusOr<RefPtr<Counter>>(MakeRef<Counter>());
      });
      got[i] = r.ok() ? r->get() : nullptr;
    });
  }
  for (std::thread& t : threads) t.join();
  for (Counter* c : got) {
    EXPECT_NE(c, nullptr);
    EXPECT_EQ(c, got[0]);
  }
  EXPECT_EQ(created, 1) << "the others waited for it";
}

TEST(ResourceManagerTest, AfterAnErrorTheNextRacingThreadTries) {
  for (int round = 0; round < 50; ++round) {
    ResourceManager m("dev");
    std::atomic<int> tries{0};
    std::atomic<int> errors_seen{0};
    std::vector<Counter*> got(8, nullptr);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < got.size(); ++i) {
      threads.emplace_back([&, i] {
        auto r = m.LookupOrCreate<Counter>("", "c", [&]() -> StatusOr<RefPtr<Counter>> {
          if (++tries <= 3) return errors::Internal("not yet");
          return MakeRef<Counter>();
        });
        if (r.ok()) {
          got[i] = r->get();
        } else {
          ++errors_seen;
        }
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(errors_seen, 3);
    EXPECT_EQ(tries, 4);
    std::set<Counter*> made(got.begin(), got.end());
    made.erase(nullptr);
    EXPECT_EQ(made.size(), 1u);
  }
}

TEST(ResourceManagerTest, ManyThreadsMakeDropAndFind) {
  ResourceManager m("dev");
  std::atomic<int> alive{0};
  std::vector<std::thread> threads;
  threads.reserve(6);
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const std::string name = std::to_string(i % 5);
        const std::string container = i % 2 == 0 ? "a" : "b";
        auto r = m.LookupOrCreate<Counted>(
            container, name, [&]() -> StatusOr<RefPtr<Counted>> { return MakeRef<Counted>(alive); });
        ASSERT_TRUE(r.ok()) << r.status();
        if (t == 0 && i % 7 == 0) m.Cleanup(container);
        if (t == 1 && i % 11 == 0) m.Delete<Counted>(container, name).IgnoreError("another was first");
        if (t == 2 && i % 50 == 0) m.Clear();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_GT(alive, 0);
  m.Clear();
  EXPECT_EQ(alive, 0);
}

// The destructor of a resource may use the manager, which holds no lock then.
TEST(ResourceManagerTest, AResourceMayUseTheManagerAsItGoes) {
  class Asking : public Resource {
   public:
    explicit Asking(ResourceManager& m, int* asked) : m_(m), asked_(asked) {}
    ~Asking() override {
      m_.Delete<Other>("x", "companion").IgnoreError("it may be gone");
      *asked_ += m_.DebugString().empty() ? 1 : 2;
    }
    std::string DebugString() const override { return "asking"; }

   private:
    ResourceManager& m_;
    int* const asked_;
  };
  ResourceManager m("dev");
  int asked = 0;
  const auto make = [&] {
    ASSERT_TRUE(m.Create<Asking>("x", "a", MakeRef<Asking>(m, &asked)).ok());
    ASSERT_TRUE(m.Create<Other>("x", "companion", MakeRef<Other>()).ok());
  };
  make();
  EXPECT_TRUE(m.Delete<Asking>("x", "a").ok());
  EXPECT_FALSE(m.Lookup<Other>("x", "companion").ok());
  make();
  m.Cleanup("x");
  make();
  m.Clear();
  EXPECT_EQ(asked, 3);
}

TEST(ResourceManagerTest, ACreatorsErrorIsReturned) {
  ResourceManager m("dev");
  auto r = m.LookupOrCreate<Counter>("", "c",
                                     []() -> StatusOr<RefPtr<Counter>> { return errors::Internal("no"); });
  EXPECT_EQ(r.status(), errors::Internal("no"));
}

TEST(ResourceManagerTest, DescribesEveryResource) {
  ResourceManager m("dev");
  ASSERT_TRUE(m.Create<Counter>("a", "x", MakeRef<Counter>()).ok());
  EXPECT_THAT(m.DebugString(), HasSubstr("a counter"));
}

}  // namespace
}  // namespace millrace
