// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/save_guard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/env.h"
#include "base/strings.h"

namespace millrace {
namespace {

constexpr std::string_view kPrefix = "chief-";
constexpr int64_t kMostTerms = int64_t{1} << 50;

// 0 for another file.
int64_t TermOf(std::string_view name) {
  if (!ConsumePrefix(&name, kPrefix)) return 0;
  const int64_t term = SafeStringToInt64(name).value_or(0);
  return term > 0 && term < kMostTerms ? term : 0;
}

// The latest term in the folder; 0 if there is none, or no folder.
StatusOr<int64_t> LatestTerm(const std::string& folder) {
  const auto names = Env::Posix().GetChildren(folder);
  if (errors::IsNotFound(names.status())) return int64_t{0};
  MR_RETURN_IF_ERROR(names.status());
  int64_t latest = 0;
  for (const std::string& name : *names) latest = std::max(latest, TermOf(name));
  return latest;
}

}  // namespace

int64_t SaveGuard::term() const {
  MutexLock lock(mu_);
  return term_;
}

Status SaveGuard::Take() {
  MutexLock lock(mu_);
  std::error_code error;
  std::filesystem::create_directories(folder_, error);  // errors are reported by the following calls
  MR_ASSIGN_OR_RETURN(int64_t latest, LatestTerm(folder_));
  if (term_ != 0 && term_ == latest) return Status();
  // The file system lets only one process create a file. A process with an old view of the folder may get a
  // term that others have had and left: it is not the latest then.
  while (true) {
    const std::string path = StrCat(folder_, "/", kPrefix, ++latest);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) {
      ::close(file);
      break;
    }
    if (errno != EEXIST) return errors::Unavailable(path, ": ", std::strerror(errno));
  }
  term_ = latest;
  const auto names = Env::Posix().GetChildren(folder_);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const int64_t term = TermOf(name);
    if (term > 0 && term < term_)
      Env::Posix().DeleteFile(StrCat(folder_, "/", name)).IgnoreError("another one may have deleted it");
  }
  return Status();
}

Status SaveGuard::Check() const {
  MutexLock lock(mu_);
  MR_ASSIGN_OR_RETURN(const int64_t latest, LatestTerm(folder_));
  if (term_ != 0 && latest <= term_) return Status();
  return errors::Aborted("This worker is not the chief any more: another one has taken over in ", folder_,
                         ", and nothing is saved");
}

}  // namespace millrace
