// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/temporary_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/strings.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class StaleTemporariesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = StrCat(::testing::TempDir(), "stale_temporaries.", ::getpid());
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  static void Write(const std::string& path) { std::ofstream(path) << "half"; }
  static void MakeOld(const std::string& path, std::chrono::hours age) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - age);
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }
  // A child process writes a temporary file for `name`. It ends when it can read from `until`, or at once if
  // that is -1. Returns the name of the temporary file.
  std::string WriteInChild(const std::string& name, int until, pid_t* child) {
    int out[2];
    EXPECT_EQ(::pipe(out), 0);
    *child = ::fork();
    if (*child == 0) {
      const std::string temporary = TemporaryName(Path(name));
      Write(temporary);
      if (::write(out[1], temporary.data(), temporary.size()) < 0) ::_exit(1);
      ::close(out[1]);
      char c;
      if (until >= 0 && ::read(until, &c, 1) < 0) ::_exit(1);
      ::_exit(0);
    }
    ::close(out[1]);
    std::string temporary(4096, '\0');
    const ssize_t n = ::read(out[0], temporary.data(), temporary.size());
    ::close(out[0]);
    temporary.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return temporary;
  }
  // The temporary name with one of its parts, process, start and host, replaced.
  static std::string With(const std::string& temporary, int part, const std::string& value) {
    const size_t at = temporary.find(".tempstate") + std::string_view(".tempstate").size();
    const std::string rest = temporary.substr(at);
    std::vector<std::string> parts = {
        rest.substr(0, rest.find('-')), rest.substr(rest.find('-') + 1, rest.rfind('-') - rest.find('-') - 1),
        rest.substr(rest.rfind('-') + 1, rest.rfind('.') - rest.rfind('-') - 1)};
    parts[static_cast<size_t>(part)] = value;
    return StrCat(temporary.substr(0, at), parts[0], "-", parts[1], "-", parts[2],
                  rest.substr(rest.rfind('.')));
  }

  std::string folder_;
};

TEST_F(StaleTemporariesTest, NamesDifferAndContainTheWriter) {
  const std::string a = TemporaryName("dir/x"), b = TemporaryName("dir/x");
  EXPECT_NE(a, b);
  EXPECT_EQ(a.find(StrCat("dir/x.tempstate", ::getpid(), "-")), 0u) << a;
}

TEST_F(StaleTemporariesTest, FilesOfAKilledProcessGo) {
  int hold[2];
  ASSERT_EQ(::pipe(hold), 0);
  pid_t child = 0;
  WriteInChild("model.data", hold[0], &child);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(Files().size(), 1u);
  DeleteStaleTemporaries(Env::Posix(), Path("model.index"));
  EXPECT_THAT(Files(), IsEmpty());
  ::close(hold[0]);
  ::close(hold[1]);
}

TEST_F(StaleTemporariesTest, AProcessThatItsParentHasNotWaitedForIsNotAlive) {
  pid_t child = 0;
  WriteInChild("model.data", -1, &child);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  DeleteStaleTemporaries(Env::Posix(), Path("model.index"));
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(StaleTemporariesTest, FilesOfLivingProcessesStayHoweverOld) {
  int hold[2];
  ASSERT_EQ(::pipe(hold), 0);
  pid_t child = 0;
  const std::string other = WriteInChild("model.data", hold[0], &child);
  const std::string own = TemporaryName(Path("model.index"));
  Write(own);
  MakeOld(other, std::chrono::hours(1000));
  MakeOld(own, std::chrono::hours(1000));
  DeleteStaleTemporaries(Env::Posix(), Path("model"));
  EXPECT_THAT(Files(), UnorderedElementsAre(fs::path(other).filename(), fs::path(own).filename()));
  EXPECT_EQ(::write(hold[1], "x", 1), 1);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(hold[0]);
  ::close(hold[1]);
}

TEST_F(StaleTemporariesTest, AnotherProcessWithTheIdOfAKilledOneIsNotTakenForIt) {
  Write(With(TemporaryName(Path("model")), 1, "1"));
  EXPECT_EQ(Files().size(), 1u);
  DeleteStaleTemporaries(Env::Posix(), Path("model"));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(StaleTemporariesTest, FilesOfOtherHostsGoAfterADay) {
  const std::string name = With(TemporaryName(Path("model")), 2, "123abc");
  Write(name);
  MakeOld(name, std::chrono::hours(23));
  DeleteStaleTemporaries(Env::Posix(), Path("model"));
  EXPECT_THAT(Files(), ElementsAre(HasSubstr("-123abc.")));
  MakeOld(name, std::chrono::hours(25));
  DeleteStaleTemporaries(Env::Posix(), Path("model"));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(StaleTemporariesTest, OtherNamesStay) {
  const std::string dead = With(TemporaryName("model"), 1, "1");
  const std::vector<std::string> names = {"model.index",
                                          "model.tempstate",
                                          "model.tempstate17.4",
                                          "model.tempstate0123456789",  // TensorFlow's
                                          dead + "x",
                                          dead + ".index",
                                          dead.substr(5),  // no text before the marker
                                          With(dead, 0, "0"),
                                          With(dead, 0, "99999999999")};
  for (const std::string& name : names) {
    Write(Path(name));
    MakeOld(Path(name), std::chrono::hours(1000));
  }
  fs::create_directory(Path(With(dead, 1, "2")));
  DeleteStaleTemporaries(Env::Posix(), Path("model"));
  EXPECT_EQ(Files().size(), names.size() + 1);
}

TEST_F(StaleTemporariesTest, AMissingFolderIsNoError) {
  DeleteStaleTemporaries(Env::Posix(), Path("none/model"));
  EXPECT_THAT(Files(), IsEmpty());
}

}  // namespace
}  // namespace millrace
