// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Part of every test program: testing::TempDir() is a folder of the process, so that the same test may run
// twice at the same time. It is removed at the end.
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

namespace millrace {
namespace {

class TestFolder {
 public:
  TestFolder() {
    const char* const parent = ::getenv("TEST_TMPDIR");
    path_ = std::string(parent != nullptr && *parent != '\0' ? parent : "/tmp") + "/millrace_test_XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      std::perror(path_.c_str());
      ::_exit(1);
    }
    ::setenv("TEST_TMPDIR", path_.c_str(), 1);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  // Not in a process that was forked.
  ~TestFolder() {
    std::error_code ignored;
    if (::getpid() == owner_) std::filesystem::remove_all(path_, ignored);
  }

 private:
  std::string path_;
  const pid_t owner_ = ::getpid();
};

const TestFolder test_folder;

}  // namespace
}  // namespace millrace
