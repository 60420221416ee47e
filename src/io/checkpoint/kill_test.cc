// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// A process that is killed while it replaces a checkpoint. Each run of the test dies at 50 random bytes or
// system calls; `io_test --gtest_filter=KillTest.* --gtest_repeat=10 --gtest_shuffle` at 500 different
// ones.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "io/checkpoint/bundle.h"
#include "tensor/testing.h"

namespace millrace::io {
namespace {

// Counts the written bytes and the other operations, and ends the process at one of them.
class MortalEnv : public EnvWrapper {
 public:
  MortalEnv(Env& base, uint64_t last) : EnvWrapper(base), left_(last) {}

  uint64_t spent() const { return spent_; }
  StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path) override {
    Spend();
    MR_ASSIGN_OR_RETURN(auto file, base_.NewWritableFile(path));
    return std::unique_ptr<WritableFile>(std::make_unique<File>(*this, std::move(file)));
  }
  Status DeleteFile(const std::string& path) override {
    Spend();
    return base_.DeleteFile(path);
  }
  Status RenameFile(const std::string& from, const std::string& to) override {
    Spend();
    return base_.RenameFile(from, to);
  }

 private:
  class File : public WritableFile {
   public:
    File(MortalEnv& env, std::unique_ptr<WritableFile> base) : env_(env), base_(std::move(base)) {}
    Status Append(std::string_view data) override {
      if (data.size() > env_.left_) {
        base_->Append(data.substr(0, env_.left_)).IgnoreError("the process ends");
        base_->Flush().IgnoreError("the process ends");
        env_.Die();
      }
      env_.left_ -= data.size();
      env_.spent_ += data.size();
      return base_->Append(data);
    }
    Status Flush() override { return base_->Flush(); }
    Status Sync() override {
      env_.Spend();
      return base_->Sync();
    }
    Status Close() override {
      env_.Spend();
      return base_->Close();
    }

   private:
    MortalEnv& env_;
    const std::unique_ptr<WritableFile> base_;
  };

  void Spend() {
    if (left_ == 0) Die();
    --left_;
    ++spent_;
  }
  [[noreturn]] void Die() {
    ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }

  uint64_t left_;
  uint64_t spent_ = 0;
};

constexpr int64_t kElements = 1000;
const char* const kNames[] = {"a", "b", "c", "generation"};

Status Save(Env& env, const std::string& prefix, int32_t generation) {
  MR_ASSIGN_OR_RETURN(const auto writer, BundleWriter::Open(env, prefix));
  for (const char* name : kNames) {
    MR_RETURN_IF_ERROR(
        writer->Add(name, Tensor::Vector<int32_t>(std::vector<int32_t>(kElements, generation))));
  }
  return writer->Finish();
}

// The common generation of all tensors of the checkpoint.
StatusOr<int32_t> Load(const std::string& prefix) {
  MR_ASSIGN_OR_RETURN(const auto reader, BundleReader::Open(Env::Posix(), prefix));
  std::optional<int32_t> generation;
  for (const char* name : kNames) {
    MR_ASSIGN_OR_RETURN(const Tensor tensor, reader->Read(name));
    for (const int32_t value : tensor.flat<int32_t>()) {
      if (generation.value_or(value) != value) return errors::DataLoss("generations are mixed");
      generation = value;
    }
  }
  return *generation;
}

TEST(KillTest, TheCheckpointBeforeOrTheNewOneIsWhole) {
  const std::string folder = StrCat(::testing::TempDir(), "kill_test.", ::getpid()), prefix = folder + "/p";
  std::filesystem::create_directory(folder);
  uint64_t cost = 0;
  for (int32_t i = 0; i < 2; ++i) {  // the second replaces the first, as all later ones do
    MortalEnv env(Env::Posix(), UINT64_MAX);
    ASSERT_EQ(Save(env, prefix, i), Status::Ok());
    cost = env.spent();
  }
  std::mt19937_64 rng(static_cast<uint64_t>(::testing::UnitTest::GetInstance()->random_seed()) + 1);
  int32_t last = 1;
  int replaced = 0;
  for (int32_t generation = 2; generation < 52; ++generation) {
    // Half of them among the operations at the end, where the files get their names.
    const uint64_t at = rng() % 2 == 0 ? rng() % cost : cost - 1 - rng() % 12;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      MortalEnv env(Env::Posix(), at);
      Save(env, prefix, generation).IgnoreError("never returns");
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const auto found = Load(prefix);
    ASSERT_TRUE(found.ok()) << found.status() << " after dying at " << at << " of " << cost;
    ASSERT_TRUE(*found == last || *found == generation) << *found << " " << last << " " << generation;
    // A save that completed before it was killed, because it had less to delete, is there.
    EXPECT_TRUE(WIFSIGNALED(status) || *found == generation);
    replaced += *found == generation;
    last = *found;
  }
  EXPECT_GT(replaced, 0);
  EXPECT_LT(replaced, 50);
  // The next save removes the files that they left, also if it has another name.
  ASSERT_EQ(Save(Env::Posix(), folder + "/q", 1), Status::Ok());
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    EXPECT_EQ(file.path().filename().string().find("tempstate"), std::string::npos) << file.path();
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace millrace::io
