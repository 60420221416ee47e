// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/input_env.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/strings.h"

namespace millrace::cli {
namespace {

constexpr size_t kMostBytes = size_t{2} << 30;
constexpr size_t kChunk = size_t{1} << 20;

bool IsStream(const std::string& path) {
  struct stat st = {};
  return path == "-" || (::stat(path.c_str(), &st) == 0 && S_ISFIFO(st.st_mode));
}

StatusOr<std::string> ReadToEnd(int fd, const std::string& path) {
  std::string bytes;
  for (;;) {
    const size_t old_size = bytes.size();
    if (old_size >= kMostBytes)
      return errors::ResourceExhausted(path, "; has more than ", kMostBytes, " bytes");
    bytes.resize(old_size + kChunk);
    const ssize_t n = ::read(fd, bytes.data() + old_size, kChunk);
    bytes.resize(old_size + static_cast<size_t>(n > 0 ? n : 0));
    if (n == 0) return bytes;
    if (n < 0 && errno != EINTR) return errors::Unavailable(path, "; ", std::strerror(errno));
  }
}

StatusOr<std::string> ReadStream(const std::string& path) {
  if (path == "-") return ReadToEnd(STDIN_FILENO, "standard input");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errors::NotFound(path, "; ", std::strerror(errno));
  StatusOr<std::string> bytes = ReadToEnd(fd, path);
  ::close(fd);
  return bytes;
}

}  // namespace

StatusOr<Env*> InputEnv::Holder(const std::string& path) {
  MutexLock lock(mu_);
  if (!read_.contains(path)) {
    if (!IsStream(path)) return &base_;
    MR_ASSIGN_OR_RETURN(const std::string bytes, ReadStream(path));
    MR_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, streams_.NewWritableFile(path));
    MR_RETURN_IF_ERROR(file->Append(bytes));
    MR_RETURN_IF_ERROR(file->Close());
    read_.insert(path);
  }
  return &streams_;
}

StatusOr<std::unique_ptr<RandomAccessFile>> InputEnv::NewRandomAccessFile(const std::string& path) {
  MR_ASSIGN_OR_RETURN(Env * env, Holder(path));
  return env->NewRandomAccessFile(path);
}

StatusOr<std::unique_ptr<ReadOnlyMemoryRegion>> InputEnv::NewReadOnlyMemoryRegion(const std::string& path) {
  MR_ASSIGN_OR_RETURN(Env * env, Holder(path));
  return env->NewReadOnlyMemoryRegion(path);
}

StatusOr<FileStat> InputEnv::Stat(const std::string& path) {
  MR_ASSIGN_OR_RETURN(Env * env, Holder(path));
  return env->Stat(path);
}

}  // namespace millrace::cli
