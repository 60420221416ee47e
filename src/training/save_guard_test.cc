// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/save_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "millrace/checkpoint_reader.h"
#include "millrace/monitored_session.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "millrace/replicas.h"
#include "millrace/saver.h"
#include "training/saved_model_testing.h"

namespace millrace {
namespace {

using saved_model_testing::NewFolder;
using testing::ElementsAre;
using testing::HasSubstr;

std::set<std::string> FilesOf(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

TEST(SaveGuardTest, TheLatestChiefSaves) {
  const std::string folder = NewFolder() + "/new";
  SaveGuard a(folder), b(folder);
  EXPECT_TRUE(errors::IsAborted(a.Check())) << "it was never the chief";
  ASSERT_EQ(a.Take(), Status());
  ASSERT_EQ(a.Take(), Status());
  EXPECT_EQ(a.term(), 1) << "it has the term already";
  EXPECT_EQ(a.Check(), Status());
  ASSERT_EQ(b.Take(), Status());
  EXPECT_EQ(b.Check(), Status());
  const Status late = a.Check();
  EXPECT_TRUE(errors::IsAborted(late)) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr(folder));
  EXPECT_THAT(FilesOf(folder), ElementsAre("chief-2"));
  ASSERT_EQ(a.Take(), Status());
  EXPECT_EQ(a.term(), 3);
  EXPECT_TRUE(errors::IsAborted(b.Check()));
  // A new process continues from there, whatever else is in the folder.
  for (const char* odd :
       {"chief-", "chief-x", "chief-12x", "chief--9", "chief-99999999999999999999", "chief"})
    std::ofstream(StrCat(folder, "/", odd)) << "x";
  SaveGuard c(folder);
  ASSERT_EQ(c.Take(), Status());
  EXPECT_EQ(c.term(), 4);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(c.Check(), Status()) << "no other process saved there";
}

TEST(SaveGuardTest, OneOfManyAtTheSameTimeIsTheLatest) {
  constexpr int kChiefs = 8;
  const std::string folder = NewFolder();
  std::vector<std::unique_ptr<SaveGuard>> guards;
  for (int i = 0; i < kChiefs; ++i) guards.push_back(std::make_unique<SaveGuard>(folder));
  std::vector<std::thread> threads;
  for (const auto& guard : guards) threads.emplace_back([&] { EXPECT_EQ(guard->Take(), Status()); });
  for (std::thread& thread : threads) thread.join();
  int latest = 0;
  for (const auto& guard : guards) latest += guard->Check().ok() ? 1 : 0;
  EXPECT_EQ(latest, 1);
}

TEST(SaveGuardTest, AFolderThatCannotBeWrittenIsNamed) {
  const std::string file = NewFolder() + "/file";
  std::ofstream(file) << "x";
  SaveGuard guard(file);
  const Status status = guard.Take();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(file));
}

// A variable that counts steps.
struct Model {
  Model() : step(CreateGlobalStep(scope)), add(step.AssignAdd(scope, int64_t{1})) {}
  Scope scope = Scope::NewRootScope();
  GraphVariable step;
  Output add;
};

Status Step(MonitoredSession& session, const Model& model) {
  std::vector<Tensor> step;
  return session.Run({model.add}, &step);
}

// A chief loses its role before a save, and during it.
class LostPlaceTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Behind, LostPlaceTest, ::testing::Bool());

TEST_P(LostPlaceTest, LeavesTheCheckpointsAsTheyAre) {
  const std::string folder = NewFolder();
  Model model;
  ClientSession session(model.scope);
  ASSERT_EQ(session.Run({}, {}, {GlobalVariablesInitializer(model.scope)}, nullptr), Status());
  Saver saver(model.scope, {.max_to_keep = 1});
  int left = 100;
  const auto save = [&](int64_t step) -> Status {
    MR_RETURN_IF_ERROR(
        saver
            .Save(session, folder + "/model",
                  {.global_step = step,
                   .write_behind = GetParam(),
                   .may_save = [&]() -> Status { return left-- > 0 ? Status() : errors::Aborted("lost"); }})
            .status());
    return saver.Finish();
  };
  ASSERT_EQ(save(1), Status());
  EXPECT_EQ(LatestCheckpoint(folder), folder + "/model-1");
  for (const int asked : {0, 1}) {
    left = asked;
    EXPECT_TRUE(errors::IsAborted(save(2 + asked)));
    EXPECT_EQ(LatestCheckpoint(folder), folder + "/model-1");
    EXPECT_TRUE(CheckpointExists(folder + "/model-1")) << "it is not the one too many";
  }
  left = 100;
  ASSERT_EQ(save(9), Status());
  EXPECT_EQ(LatestCheckpoint(folder), folder + "/model-9");
  EXPECT_FALSE(CheckpointExists(folder + "/model-1"));
}

// A lease with the answers of the test.
class SaidLease : public ChiefLease {
 public:
  bool IsChief() const override { return true; }
};

TEST(SaveGuardTest, OfTwoThatThinkThatTheyAreTheChiefTheFormerOneDoesNotSave) {
  const std::string folder = NewFolder();
  Model a, b;
  const auto open = [&](Model& model) {
    MonitoredTrainingSessionOptions options;
    options.lease = std::make_shared<SaidLease>();
    options.checkpoint_dir = folder;
    options.save_checkpoint_steps = 1;
    options.monitored.recover = false;
    return MonitoredTrainingSession(model.scope, options);
  };
  auto former = open(a);
  ASSERT_TRUE(former.ok()) << former.status();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Step(**former, a), Status());
  EXPECT_EQ(LatestCheckpoint(folder), folder + "/model.ckpt-3");
  auto latter = open(b);  // restores
  ASSERT_TRUE(latter.ok()) << latter.status();
  ASSERT_EQ(Step(**latter, b), Status());
  EXPECT_EQ(LatestCheckpoint(folder), folder + "/model.ckpt-4");
  const Status refused = Step(**former, a);
  EXPECT_TRUE(errors::IsAborted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("another one has taken over"));
  ASSERT_EQ(Step(**latter, b), Status());
  ASSERT_EQ((*latter)->Close(), Status());
  EXPECT_EQ(LatestCheckpoint(folder), folder + "/model.ckpt-5");
}

}  // namespace
}  // namespace millrace
