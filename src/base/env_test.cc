// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "base/file_sync.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Runs on the real file system and on the one in memory.
class EnvTest : public ::testing::TestWithParam<bool> {
 protected:
  EnvTest() {
    std::string unique = ::testing::TempDir() + "/millrace_env_XXXXXX";
    if (is_posix()) {
      dir_ = ::mkdtemp(unique.data());
    } else {
      dir_ = "/mem";
      EXPECT_TRUE(mem_.CreateDir(dir_).ok());
    }
  }
  ~EnvTest() override {
    if (is_posix()) std::filesystem::remove_all(dir_);
  }
  bool is_posix() const { return GetParam(); }
  Env& env() { return is_posix() ? Env::Posix() : mem_; }
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  std::vector<std::string> Children() {
    auto names = env().GetChildren(dir_);
    EXPECT_TRUE(names.ok()) << names.status();
    return names.value_or({});
  }
  std::string Contents(const std::string& name) {
    auto contents = ReadFileToString(env(), Path(name));
    EXPECT_TRUE(contents.ok()) << contents.status();
    return contents.value_or("");
  }

  MemEnv mem_;
  std::string dir_;
};
INSTANTIATE_TEST_SUITE_P(Envs, EnvTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Posix" : "Mem"; });

// A file of procfs can't be synced.
TEST(FileSyncTest, SyncsOnlyWhenAsked) {
  auto file = Env::Posix().NewWritableFile("/proc/self/comm");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(SyncsFiles());
  SetSyncsFiles(false);
  EXPECT_EQ((*file)->Sync(), Status());
  SetSyncsFiles(true);
  EXPECT_FALSE((*file)->Sync().ok());
}

TEST_P(EnvTest, WhatIsWrittenIsRead) {
  auto file = env().NewWritableFile(Path("f"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::string want;
  for (int i = 0; i < 300; ++i) {
    const std::string part(static_cast<size_t>(i * 7), static_cast<char>(i));
    want += part;
    ASSERT_TRUE((*file)->Append(part).ok());
  }
  const std::string large(300000, 'x');  // larger than any buffer
  want += large;
  ASSERT_TRUE((*file)->Append(large).ok());
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(Contents("f"), want);
  EXPECT_EQ(env().Stat(Path("f"))->length, want.size());
}

TEST_P(EnvTest, FlushMakesBytesVisible) {
  auto file = env().NewWritableFile(Path("f"));
  ASSERT_TRUE((*file)->Append("abc").ok());
  ASSERT_TRUE((*file)->Flush().ok());
  EXPECT_EQ(Contents("f"), "abc");
}

TEST_P(EnvTest, WritableFileTruncatesAndAppendableContinues) {
  for (const char* text : {"first", "second"}) {
    auto file = env().NewWritableFile(Path("f"));
    ASSERT_TRUE((*file)->Append(text).ok());
    ASSERT_TRUE((*file)->Close().ok());
  }
  auto file = env().NewAppendableFile(Path("f"));
  ASSERT_TRUE((*file)->Append("+third").ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(Contents("f"), "second+third");
}

TEST_P(EnvTest, AppendAfterCloseFailsAndSecondCloseDoesNot) {
  auto file = env().NewWritableFile(Path("f"));
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_TRUE(errors::IsFailedPrecondition((*file)->Append("x")));
  EXPECT_TRUE(errors::IsFailedPrecondition((*file)->Sync()));
  EXPECT_TRUE((*file)->Close().ok());
}

TEST_P(EnvTest, ReadPastTheEndGivesWhatThereIs) {
  ASSERT_TRUE(WriteFileAtomically(env(), Path("f"), "0123456789").ok());
  auto file = env().NewRandomAccessFile(Path("f"));
  ASSERT_TRUE(file.ok());
  std::string out;
  EXPECT_TRUE((*file)->Read(2, 3, &out).ok());
  EXPECT_EQ(out, "234");
  EXPECT_TRUE(errors::IsOutOfRange((*file)->Read(8, 10, &out)));
  EXPECT_EQ(out, "89");
  EXPECT_TRUE(errors::IsOutOfRange((*file)->Read(100, 1, &out)));
  EXPECT_EQ(out, "");
  EXPECT_TRUE((*file)->Read(100, 0, &out).ok());
}

// A length from a damaged file must not determine how much memory is allocated.
TEST_P(EnvTest, HugeReadOfASmallFileFailsQuietly) {
  ASSERT_TRUE(WriteFileAtomically(env(), Path("f"), "abc").ok());
  auto file = env().NewRandomAccessFile(Path("f"));
  std::string out;
  EXPECT_TRUE(errors::IsOutOfRange((*file)->Read(0, size_t{1} << 50, &out)));
  EXPECT_EQ(out, "abc");
  EXPECT_LT(out.capacity(), size_t{64} << 20);
}

TEST_P(EnvTest, BytesAreReadIntoMemoryOfTheCaller) {
  ASSERT_TRUE(WriteFileAtomically(env(), Path("f"), "abcdef").ok());
  const auto file = env().NewRandomAccessFile(Path("f"));
  char bytes[8] = "-------";
  EXPECT_EQ(*(*file)->ReadInto(1, 3, bytes), 3u);
  EXPECT_STREQ(bytes, "bcd----");
  EXPECT_EQ(*(*file)->ReadInto(4, 8, bytes), 2u);
  EXPECT_STREQ(bytes, "efd----");
  EXPECT_EQ(*(*file)->ReadInto(100, 8, bytes), 0u);
}

TEST_P(EnvTest, ARegionHoldsTheFilesBytesThoughTheNameGoes) {
  const std::string contents(10000, 'r');
  ASSERT_TRUE(WriteFileAtomically(env(), Path("r"), contents).ok());
  const auto region = env().NewReadOnlyMemoryRegion(Path("r"));
  ASSERT_TRUE(region.ok()) << region.status();
  ASSERT_TRUE(env().DeleteFile(Path("r")).ok());
  EXPECT_EQ((*region)->length(), contents.size());
  EXPECT_EQ((*region)->bytes(), contents);
  EXPECT_TRUE(errors::IsNotFound(env().NewReadOnlyMemoryRegion(Path("r")).status()));
  ASSERT_TRUE(WriteFileAtomically(env(), Path("empty"), "").ok());
  EXPECT_FALSE(env().NewReadOnlyMemoryRegion(Path("empty")).ok());
  EXPECT_FALSE(env().NewReadOnlyMemoryRegion(dir_).ok());
}

TEST_P(EnvTest, MissingFilesAreNotFoundByName) {
  for (const Status& status :
       {env().NewRandomAccessFile(Path("no")).status(), env().Stat(Path("no")).status(),
        env().DeleteFile(Path("no")), env().RenameFile(Path("no"), Path("f")),
        env().GetChildren(Path("no")).status(), env().DeleteDir(Path("no")),
        ReadFileToString(env(), Path("no")).status()}) {
    EXPECT_TRUE(errors::IsNotFound(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(Path("no")));
  }
  EXPECT_FALSE(env().FileExists(Path("no")));
}

TEST_P(EnvTest, DirectoriesListTheirEntries) {
  EXPECT_THAT(Children(), IsEmpty());
  ASSERT_TRUE(env().CreateDir(Path("d")).ok());
  EXPECT_TRUE(errors::IsAlreadyExists(env().CreateDir(Path("d"))));
  ASSERT_TRUE(WriteFileAtomically(env(), Path("b"), "").ok());
  ASSERT_TRUE(WriteFileAtomically(env(), Path("d/inner"), "").ok());
  EXPECT_THAT(Children(), ElementsAre("b", "d"));
  EXPECT_TRUE(env().Stat(Path("d"))->is_directory);
  EXPECT_FALSE(env().Stat(Path("b"))->is_directory);
  EXPECT_FALSE(env().DeleteDir(Path("d")).ok());  // not empty
  ASSERT_TRUE(env().DeleteFile(Path("d/inner")).ok());
  ASSERT_TRUE(env().DeleteDir(Path("d")).ok());
  EXPECT_THAT(Children(), ElementsAre("b"));
}

TEST_P(EnvTest, RenameReplacesTheTarget) {
  ASSERT_TRUE(WriteFileAtomically(env(), Path("a"), "new").ok());
  ASSERT_TRUE(WriteFileAtomically(env(), Path("b"), "old").ok());
  ASSERT_TRUE(env().RenameFile(Path("a"), Path("b")).ok());
  EXPECT_EQ(Contents("b"), "new");
  EXPECT_THAT(Children(), ElementsAre("b"));
}

TEST_P(EnvTest, OpenFileSurvivesItsReplacement) {
  ASSERT_TRUE(WriteFileAtomically(env(), Path("f"), "old").ok());
  auto file = env().NewRandomAccessFile(Path("f"));
  ASSERT_TRUE(WriteFileAtomically(env(), Path("f"), "new!").ok());
  std::string out;
  EXPECT_TRUE((*file)->Read(0, 3, &out).ok());
  EXPECT_EQ(out, "old");
  EXPECT_EQ(Contents("f"), "new!");
}

TEST_P(EnvTest, ReadFileToStringKeepsItsLimit) {
  ASSERT_TRUE(WriteFileAtomically(env(), Path("f"), "12345").ok());
  EXPECT_EQ(*ReadFileToString(env(), Path("f"), 5), "12345");
  EXPECT_TRUE(errors::IsResourceExhausted(ReadFileToString(env(), Path("f"), 4).status()));
  EXPECT_FALSE(ReadFileToString(env(), dir_).ok());
}

// When any step fails, readers keep the old contents and no temporary file remains.
TEST_P(EnvTest, FailedAtomicWriteLeavesTheOldFile) {
  ASSERT_TRUE(WriteFileAtomically(env(), Path("f"), "old").ok());
  for (const std::string failing : {"open", "append", "sync", "close", "rename"}) {
    int faults = 0;
    FaultyEnv faulty(env(), [&](std::string_view operation, const std::string& path) {
      if (operation != failing) return Status::Ok();
      ++faults;
      return errors::DataLoss("injected into ", operation, " of ", path);
    });
    const Status status = WriteFileAtomically(faulty, Path("f"), "new contents");
    EXPECT_TRUE(errors::IsDataLoss(status)) << failing << ": " << status;
    EXPECT_GE(faults, 1) << failing;
    EXPECT_EQ(Contents("f"), "old") << failing;
    EXPECT_THAT(Children(), ElementsAre("f")) << failing;
  }
}

TEST_P(EnvTest, FailingAppendWritesABeginning) {
  bool fail = false;
  FaultyEnv faulty(env(), [&](std::string_view operation, const std::string&) {
    return operation == "append" && fail ? errors::ResourceExhausted("full") : Status::Ok();
  });
  auto file = faulty.NewWritableFile(Path("f"));
  ASSERT_TRUE((*file)->Append("good.").ok());
  fail = true;
  EXPECT_TRUE(errors::IsResourceExhausted((*file)->Append("12345678")));
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(Contents("f"), "good.1234");
}

TEST_P(EnvTest, FaultsReachReadsAndDeletions) {
  ASSERT_TRUE(WriteFileAtomically(env(), Path("f"), "abc").ok());
  std::set<std::string> seen;
  FaultyEnv faulty(env(), [&](std::string_view operation, const std::string& path) {
    EXPECT_EQ(path, Path("f"));
    seen.emplace(operation);
    return operation == "read" || operation == "delete" ? errors::Unavailable("injected") : Status::Ok();
  });
  auto file = faulty.NewRandomAccessFile(Path("f"));
  ASSERT_TRUE(file.ok());
  std::string out;
  EXPECT_TRUE(errors::IsUnavailable((*file)->Read(0, 1, &out)));
  EXPECT_TRUE(errors::IsUnavailable(faulty.DeleteFile(Path("f"))));
  EXPECT_TRUE(env().FileExists(Path("f")));
  EXPECT_THAT(seen, ElementsAre("delete", "open", "read"));
}

TEST_P(EnvTest, WrapperForwardsEverything) {
  EnvWrapper wrapper(env());
  ASSERT_TRUE(wrapper.CreateDir(Path("d")).ok());
  ASSERT_TRUE(WriteFileAtomically(wrapper, Path("d/f"), "abc").ok());
  { ASSERT_TRUE((*wrapper.NewAppendableFile(Path("d/f")))->Append("d").ok()); }
  EXPECT_EQ(*ReadFileToString(wrapper, Path("d/f")), "abcd");
  EXPECT_THAT(*wrapper.GetChildren(Path("d")), ElementsAre("f"));
  ASSERT_TRUE(wrapper.DeleteFile(Path("d/f")).ok());
  ASSERT_TRUE(wrapper.DeleteDir(Path("d")).ok());
}

// A program that the engine starts must not inherit its files.
TEST(PosixEnvTest, FileUrisNameLocalFiles) {
  std::string dir = ::testing::TempDir() + "/millrace_uri_XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  Env& env = Env::Posix();
  ASSERT_TRUE(env.CreateDir("file://" + dir + "/sub").ok());
  ASSERT_TRUE(WriteFileAtomically(env, "file://" + dir + "/sub/a", "text").ok());
  EXPECT_EQ(ReadFileToString(env, dir + "/sub/a").value_or(""), "text");
  EXPECT_EQ(ReadFileToString(env, "file://" + dir + "/sub/a").value_or(""), "text");
  EXPECT_TRUE(env.Stat("file://").value_or(FileStat{}).is_directory);
  EXPECT_FALSE(std::filesystem::exists("file:"));
  std::filesystem::remove_all(dir);
}

TEST(PosixEnvTest, FilesAreClosedOnExec) {
  const std::string path = ::testing::TempDir() + "/millrace_cloexec";
  auto writable = Env::Posix().NewWritableFile(path);
  auto readable = Env::Posix().NewRandomAccessFile(path);
  ASSERT_TRUE(writable.ok() && readable.ok());
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry, error) != std::filesystem::path(path) || error) continue;
    ++found;
    EXPECT_NE(::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(found, 2);
  std::filesystem::remove(path);
}

TEST(PosixEnvTest, PipesAndDevicesAreNotReadAndNotReplaced) {
  Env& env = Env::Posix();
  std::string folder = ::testing::TempDir() + "/millrace_env_XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), std::string("/dev/null")}) {
    EXPECT_TRUE(errors::IsFailedPrecondition(env.NewRandomAccessFile(path).status())) << path;
    EXPECT_TRUE(errors::IsFailedPrecondition(env.NewReadOnlyMemoryRegion(path).status())) << path;
    EXPECT_THAT(ReadFileToString(env, path).status().message(), HasSubstr(path));
  }
  EXPECT_TRUE(errors::IsFailedPrecondition(env.NewReadOnlyMemoryRegion(folder).status()));
  EXPECT_TRUE(errors::IsNotFound(env.NewWritableFile(pipe).status())) << "the pipe has no reader";
  EXPECT_EQ(WriteFileAtomically(env, "/dev/null", "gone"), Status());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  EXPECT_EQ(WriteFileAtomically(env, pipe, "text"), Status());
  char text[8] = {};
  EXPECT_EQ(::read(reader, text, sizeof text), 4);
  EXPECT_STREQ(text, "text");
  ::close(reader);
  std::filesystem::create_symlink("loop", folder + "/loop");
  EXPECT_FALSE(ReadFileToString(env, folder + "/loop").ok());
  EXPECT_TRUE(
      errors::IsInvalidArgument(ReadFileToString(env, folder + "/" + std::string(5000, 'x')).status()));
  std::filesystem::remove_all(folder);
}

TEST(PosixEnvTest, WriteErrorsAreReported) {
  auto file = Env::Posix().NewWritableFile("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("x").ok());  // still in the buffer
  const Status status = (*file)->Close();
  EXPECT_TRUE(errors::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("/dev/full"));
}

TEST(PosixEnvTest, FirstWriteErrorStays) {
  auto file = Env::Posix().NewWritableFile("/dev/full");
  ASSERT_TRUE((*file)->Append("x").ok());
  EXPECT_FALSE((*file)->Flush().ok());
  EXPECT_TRUE(errors::IsResourceExhausted((*file)->Append("y")));
  EXPECT_TRUE(errors::IsResourceExhausted((*file)->Close()));
  EXPECT_TRUE((*file)->Close().ok());  // closed by now
}

TEST(PosixEnvTest, FileOfReportedLengthZeroIsReadCompletely) {
  auto contents = ReadFileToString(Env::Posix(), "/proc/self/status");  // its reported length is 0
  ASSERT_TRUE(contents.ok());
  EXPECT_THAT(*contents, HasSubstr("Pid:"));
}

TEST(FaultyEnvTest, ErrorsOfAtomicWritesNameTheFileThatWasMeant) {
  MemEnv files;
  for (const char* const failing : {"open", "append", "sync", "close", "rename"}) {
    FaultyEnv env(files, [&](std::string_view operation, const std::string& path) {
      return operation == failing ? errors::Unavailable(path, "; no") : Status();
    });
    const Status status = WriteFileAtomically(env, "/a/file", "text");
    EXPECT_FALSE(status.ok()) << failing;
    EXPECT_EQ(status.message(), "/a/file; no") << failing;
  }
}

}  // namespace
}  // namespace millrace
