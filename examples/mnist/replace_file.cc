// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "replace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace millrace::mnist {
namespace {

Status FileError(const std::string& path, const char* what, int error) {
  return errors::Unavailable(path, ": cannot ", what, ": ", std::strerror(error));
}

Status WriteAndSync(int file, std::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t written = ::write(file, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(path, "write", errno);
    data.remove_prefix(static_cast<size_t>(written));
  }
  if (::fsync(file) != 0) return FileError(path, "flush", errno);
  return Status::Ok();
}

}  // namespace

Status ReplaceFile(const std::string& path, std::string_view data) {
  const std::string temporary = StrCat(path, ".", ::getpid(), ".tmp");
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return FileError(temporary, "create", errno);
  Status status = WriteAndSync(file, data, temporary);
  if (::close(file) != 0) status.Update(FileError(temporary, "close", errno));
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = FileError(path, "replace", errno);
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

}  // namespace millrace::mnist
