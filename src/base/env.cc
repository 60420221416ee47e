// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/file_sync.h"
#include "base/temporary_file.h"

namespace millrace {
namespace {

ErrorCode CodeOfErrno(int error) {
  switch (error) {
    case ENOENT:
    case ENXIO:  // a pipe without a reader
      return ErrorCode::kNotFound;
    case EEXIST:
      return ErrorCode::kAlreadyExists;
    case EPERM:
    case EACCES:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case EINVAL:
    case ENAMETOOLONG:
    case EBADF:
    case ESPIPE:
      return ErrorCode::kInvalidArgument;
    case EISDIR:
    case ENOTDIR:
    case ENOTEMPTY:
    case EBUSY:
    case EXDEV:
    case ETXTBSY:
      return ErrorCode::kFailedPrecondition;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return ErrorCode::kResourceExhausted;
    case EAGAIN:
      return ErrorCode::kUnavailable;
    default:
      return ErrorCode::kUnknown;
  }
}

// The path for the system: "file:///tmp/a" is "/tmp/a"; the parent of a path at the top is the root.
const char* LocalName(const std::string& path) {
  constexpr std::string_view kScheme = "file://";
  if (path.starts_with(kScheme)) return path.size() == kScheme.size() ? "/" : path.c_str() + kScheme.size();
  return path == "file:" || path == "file:/" ? "/" : path.c_str();
}

Status IoError(const std::string& path, int error) {
  return errors::Make(CodeOfErrno(error), path, "; ", std::strerror(error));
}

// Repeats a system call that a signal interrupted.
template <typename F>
auto RetryEintr(F call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result == -1 && errno == EINTR);
  return result;
}

// Opens a file to read from. Pipes would make the caller wait for a writer, devices may have no end.
StatusOr<int> OpenForReading(const std::string& path, struct stat* st) {
  const int fd = RetryEintr([&] { return ::open(LocalName(path), O_RDONLY | O_NONBLOCK | O_CLOEXEC); });
  if (fd < 0) return IoError(path, errno);
  Status status;
  if (::fstat(fd, st) != 0) {
    status = IoError(path, errno);
  } else if (!S_ISREG(st->st_mode)) {
    status = S_ISDIR(st->st_mode)
                 ? IoError(path, EISDIR)
                 : errors::FailedPrecondition(path, "; is not a file but a pipe, a socket or a device");
  }
  if (status.ok()) return fd;
  ::close(fd);
  return status;
}

class PosixWritableFile : public WritableFile {
 public:
  PosixWritableFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {
    buffer_.reserve(kBufferSize);
  }
  ~PosixWritableFile() override { Close().IgnoreError("a caller that needs the status calls Close itself"); }

  Status Append(std::string_view data) override {
    MR_RETURN_IF_ERROR(CheckOpen());
    if (buffer_.size() + data.size() > kBufferSize) MR_RETURN_IF_ERROR(Flush());
    if (data.size() >= kBufferSize) return WriteAll(data);
    buffer_.append(data);
    return Status::Ok();
  }

  Status Flush() override {
    MR_RETURN_IF_ERROR(CheckOpen());
    Status status = WriteAll(buffer_);
    buffer_.clear();
    return status;
  }

  Status Sync() override {
    MR_RETURN_IF_ERROR(Flush());
    if (SyncsFiles() && RetryEintr([&] { return ::fsync(fd_); }) != 0) error_ = IoError(path_, errno);
    return error_;
  }

  Status Close() override {
    if (fd_ < 0) return Status::Ok();
    Status status = Flush();
    // close is not repeated after EINTR: Linux has released the descriptor.
    if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) status.Update(IoError(path_, errno));
    return status;
  }

 private:
  static constexpr size_t kBufferSize = 64 << 10;

  // The first error is kept: writes after a lost one must not make the file look complete.
  Status CheckOpen() const {
    return fd_ >= 0 ? error_ : errors::FailedPrecondition(path_, "; the file has been closed");
  }

  Status WriteAll(std::string_view data) {
    while (!data.empty()) {
      const ssize_t n = RetryEintr([&] { return ::write(fd_, data.data(), data.size()); });
      if (n < 0) return error_ = IoError(path_, errno);
      data.remove_prefix(static_cast<size_t>(n));
    }
    return Status::Ok();
  }

  const std::string path_;
  int fd_;
  std::string buffer_;
  Status error_;
};

class PosixRandomAccessFile : public RandomAccessFile {
 public:
  PosixRandomAccessFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~PosixRandomAccessFile() override { ::close(fd_); }

  Status Read(uint64_t offset, size_t n, std::string* out) const override {
    out->clear();
    // The size may come from an untrusted file, so memory follows the bytes that are really there.
    static constexpr size_t kChunk = 4 << 20;
    while (out->size() < n) {
      const size_t have = out->size();
      const size_t want = std::min(n - have, kChunk);
      out->resize(have + want);
      const ssize_t got = RetryEintr(
          [&] { return ::pread(fd_, out->data() + have, want, static_cast<off_t>(offset + have)); });
      out->resize(have + static_cast<size_t>(std::max<ssize_t>(got, 0)));
      if (got < 0) return IoError(path_, errno);
      if (got == 0) return errors::OutOfRange(path_, "; the file ends before offset ", offset + n);
    }
    return Status::Ok();
  }

  StatusOr<size_t> ReadInto(uint64_t offset, size_t n, char* to) const override {
    size_t have = 0;
    while (have < n) {
      const ssize_t got =
          RetryEintr([&] { return ::pread(fd_, to + have, n - have, static_cast<off_t>(offset + have)); });
      if (got < 0) return IoError(path_, errno);
      if (got == 0) break;
      have += static_cast<size_t>(got);
    }
    return have;
  }

 private:
  const std::string path_;
  const int fd_;
};

std::string DirName(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Makes a change of the directory's entries durable.
Status SyncDir(const std::string& dir) {
  if (!SyncsFiles()) return Status::Ok();
  const int fd = RetryEintr([&] { return ::open(LocalName(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) return IoError(dir, errno);
  Status status;
  // Some file systems cannot sync a directory and say EINVAL; there is nothing better to do on them.
  if (RetryEintr([&] { return ::fsync(fd); }) != 0 && errno != EINVAL) status = IoError(dir, errno);
  ::close(fd);
  return status;
}

class MappedRegion : public ReadOnlyMemoryRegion {
 public:
  MappedRegion(void* data, size_t length) : data_(data), length_(length) {}
  ~MappedRegion() override { ::munmap(data_, length_); }
  const char* data() const override { return static_cast<const char*>(data_); }
  uint64_t length() const override { return length_; }

 private:
  void* const data_;
  const size_t length_;
};

class ReadRegion : public ReadOnlyMemoryRegion {
 public:
  explicit ReadRegion(std::string bytes) : bytes_(std::move(bytes)) {}
  const char* data() const override { return bytes_.data(); }
  uint64_t length() const override { return bytes_.size(); }

 private:
  const std::string bytes_;
};

class PosixEnv : public Env {
 public:
  StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path) override {
    return OpenForWriting(path, O_TRUNC);
  }
  StatusOr<std::unique_ptr<WritableFile>> NewAppendableFile(const std::string& path) override {
    return OpenForWriting(path, O_APPEND);
  }
  StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(const std::string& path) override {
    struct stat st;
    MR_ASSIGN_OR_RETURN(const int fd, OpenForReading(path, &st));
    return std::unique_ptr<RandomAccessFile>(std::make_unique<PosixRandomAccessFile>(path, fd));
  }
  StatusOr<std::unique_ptr<ReadOnlyMemoryRegion>> NewReadOnlyMemoryRegion(const std::string& path) override {
    struct stat st;
    MR_ASSIGN_OR_RETURN(const int fd, OpenForReading(path, &st));
    void* const data = ::mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    const int error = data == MAP_FAILED ? errno : 0;
    ::close(fd);
    if (error != 0) return IoError(path, error);
    return std::unique_ptr<ReadOnlyMemoryRegion>(
        std::make_unique<MappedRegion>(data, static_cast<size_t>(st.st_size)));
  }
  StatusOr<FileStat> Stat(const std::string& path) override {
    struct stat st;
    if (::stat(LocalName(path), &st) != 0) return IoError(path, errno);
    return FileStat{.length = static_cast<uint64_t>(st.st_size),
                    .mtime_ns = int64_t{st.st_mtim.tv_sec} * 1000000000 + st.st_mtim.tv_nsec,
                    .is_directory = S_ISDIR(st.st_mode)};
  }
  StatusOr<std::vector<std::string>> GetChildren(const std::string& dir) override {
    DIR* d = ::opendir(LocalName(dir));
    if (d == nullptr) return IoError(dir, errno);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(d)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    const int error = errno;
    ::closedir(d);
    if (error != 0) return IoError(dir, error);
    std::sort(names.begin(), names.end());
    return names;
  }
  Status DeleteFile(const std::string& path) override {
    return ::unlink(LocalName(path)) == 0 ? Status::Ok() : IoError(path, errno);
  }
  Status CreateDir(const std::string& dir) override {
    return ::mkdir(LocalName(dir), 0777) == 0 ? Status::Ok() : IoError(dir, errno);
  }
  Status DeleteDir(const std::string& dir) override {
    return ::rmdir(LocalName(dir)) == 0 ? Status::Ok() : IoError(dir, errno);
  }
  Status RenameFile(const std::string& from, const std::string& to) override {
    if (::rename(LocalName(from), LocalName(to)) != 0) return IoError(from, errno);
    return SyncDir(DirName(to));
  }

 private:
  static StatusOr<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path, int flag) {
    // Opening a pipe without a reader is an error; with a reader, the data waits in the pipe for it.
    const int flags = O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC | flag;
    const int fd = RetryEintr([&] { return ::open(LocalName(path), flags, 0666); });
    if (fd < 0) return IoError(path, errno);
    ::fcntl(fd, F_SETFL, flag & O_APPEND);
    return std::unique_ptr<WritableFile>(std::make_unique<PosixWritableFile>(path, fd));
  }
};

bool IsPipeOrDevice(const std::string& path) {
  struct stat st;
  return ::stat(LocalName(path), &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

Status WriteAndSync(Env& env, const std::string& path, std::string_view data) {
  MR_ASSIGN_OR_RETURN(auto file, env.NewWritableFile(path));
  MR_RETURN_IF_ERROR(file->Append(data));
  MR_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

Env& Env::Posix() {
  static PosixEnv& env = *new PosixEnv;  // never destroyed: other static objects may still write
  return env;
}

StatusOr<std::unique_ptr<ReadOnlyMemoryRegion>> Env::NewReadOnlyMemoryRegion(const std::string& path) {
  MR_ASSIGN_OR_RETURN(std::string bytes, ReadFileToString(*this, path));
  if (bytes.empty()) return errors::InvalidArgument(path, "; is empty and has no memory to map");
  return std::unique_ptr<ReadOnlyMemoryRegion>(std::make_unique<ReadRegion>(std::move(bytes)));
}

StatusOr<std::string> ReadFileToString(Env& env, const std::string& path, uint64_t max_bytes) {
  MR_ASSIGN_OR_RETURN(const FileStat stat, env.Stat(path));
  if (stat.is_directory) return errors::FailedPrecondition(path, "; is a directory");
  if (stat.length > max_bytes) {
    return errors::ResourceExhausted(path, "; has ", stat.length, " bytes, more than the limit of ",
                                     max_bytes);
  }
  MR_ASSIGN_OR_RETURN(auto file, env.NewRandomAccessFile(path));
  std::string contents;
  // Asks for a byte more than is allowed: the length above may be old, and is 0 for files made on the fly.
  const Status status = file->Read(0, max_bytes + (max_bytes < UINT64_MAX ? 1 : 0), &contents);
  if (!status.ok() && !errors::IsOutOfRange(status)) return status;
  if (contents.size() > max_bytes) {
    return errors::ResourceExhausted(path, "; is longer than the limit of ", max_bytes, " bytes");
  }
  return contents;
}

Status WriteFileAtomically(Env& env, const std::string& path, std::string_view data) {
  if (&env == &Env::Posix() && IsPipeOrDevice(path)) {  // is written to, not replaced
    MR_ASSIGN_OR_RETURN(const auto file, env.NewWritableFile(path));
    MR_RETURN_IF_ERROR(file->Append(data));
    return file->Close();
  }
  const std::string temporary = TemporaryName(path);
  Status status = WriteAndSync(env, temporary, data);
  if (status.ok()) status = env.RenameFile(temporary, path);
  if (status.ok()) return status;
  env.DeleteFile(temporary).IgnoreError("the first error is the one to report");
  // Errors name the path that the caller gave.
  std::string message = status.message();
  if (const size_t at = message.find(temporary); at != std::string::npos)
    message.replace(at, temporary.size(), path);
  return Status(status.code(), std::move(message));
}

}  // namespace millrace
