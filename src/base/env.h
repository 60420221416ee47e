// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "millrace/status.h"

namespace millrace {

// A file being written from start to end. One thread at a time.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status Append(std::string_view data) = 0;
  virtual Status Flush() = 0;
  virtual Status Sync() = 0;   // to stable storage
  virtual Status Close() = 0;  // flushes; errors are not lost
};

// A file read at any position. Thread-safe.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;
  // Reads up to n bytes; OutOfRange, with fewer bytes, when the file ends first.
  virtual Status Read(uint64_t offset, size_t n, std::string* out) const = 0;
  // Reads up to n bytes into memory of the caller. Returns their number: fewer only when the file ends first.
  // Unlike Read it makes no copy.
  virtual StatusOr<size_t> ReadInto(uint64_t offset, size_t n, char* to) const = 0;
};

// The bytes of a file at a fixed address, as long as this lives. Thread-safe.
class ReadOnlyMemoryRegion {
 public:
  virtual ~ReadOnlyMemoryRegion() = default;
  virtual const char* data() const = 0;
  virtual uint64_t length() const = 0;
  std::string_view bytes() const { return {data(), static_cast<size_t>(length())}; }
};

struct FileStat {
  uint64_t length = 0;
  int64_t mtime_ns = 0;
  bool is_directory = false;
};

// The file system, so that tests can replace it. Thread-safe. Errors name the path.
class Env {
 public:
  virtual ~Env() = default;
  virtual StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path) = 0;
  virtual StatusOr<std::unique_ptr<WritableFile>> NewAppendableFile(const std::string& path) = 0;
  virtual StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(const std::string& path) = 0;
  // The file mapped into memory or, where mappings are not supported, read. A file must not be truncated
  // while it is mapped. An empty file is an error.
  virtual StatusOr<std::unique_ptr<ReadOnlyMemoryRegion>> NewReadOnlyMemoryRegion(const std::string& path);
  virtual StatusOr<FileStat> Stat(const std::string& path) = 0;
  virtual StatusOr<std::vector<std::string>> GetChildren(const std::string& dir) = 0;
  virtual Status DeleteFile(const std::string& path) = 0;
  virtual Status CreateDir(const std::string& dir) = 0;
  virtual Status DeleteDir(const std::string& dir) = 0;
  // Replaces `to` atomically and makes the rename durable.
  virtual Status RenameFile(const std::string& from, const std::string& to) = 0;

  bool FileExists(const std::string& path) { return Stat(path).ok(); }

  static Env& Posix();
};

// Reads a whole file of at most `max_bytes`; ResourceExhausted when longer.
StatusOr<std::string> ReadFileToString(Env& env, const std::string& path,
                                       uint64_t max_bytes = uint64_t{1} << 32);
// Writes to a temporary name, syncs and renames: readers see the old file or the complete new one.
Status WriteFileAtomically(Env& env, const std::string& path, std::string_view data);

// Forwards all calls; the base class of the decorators below.
class EnvWrapper : public Env {
 public:
  explicit EnvWrapper(Env& base) : base_(base) {}
  StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path) override;
  StatusOr<std::unique_ptr<WritableFile>> NewAppendableFile(const std::string& path) override;
  StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(const std::string& path) override;
  StatusOr<std::unique_ptr<ReadOnlyMemoryRegion>> NewReadOnlyMemoryRegion(const std::string& path) override;
  StatusOr<FileStat> Stat(const std::string& path) override;
  StatusOr<std::vector<std::string>> GetChildren(const std::string& dir) override;
  Status DeleteFile(const std::string& path) override;
  Status CreateDir(const std::string& dir) override;
  Status DeleteDir(const std::string& dir) override;
  Status RenameFile(const std::string& from, const std::string& to) override;

 protected:
  Env& base_;
};

// Calls `fault(operation, path)` before each operation ("open", "append", "sync", "close", "rename", "read",
// …) and fails with its status when that is an error.
class FaultyEnv : public EnvWrapper {
 public:
  using Fault = std::function<Status(std::string_view operation, const std::string& path)>;
  FaultyEnv(Env& base, Fault fault) : EnvWrapper(base), fault_(std::move(fault)) {}
  StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path) override;
  StatusOr<std::unique_ptr<WritableFile>> NewAppendableFile(const std::string& path) override;
  StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(const std::string& path) override;
  StatusOr<std::unique_ptr<ReadOnlyMemoryRegion>> NewReadOnlyMemoryRegion(const std::string& path) override;
  Status DeleteFile(const std::string& path) override;
  Status RenameFile(const std::string& from, const std::string& to) override;

 private:
  Fault fault_;
};

// Files in memory, for tests.
class MemEnv : public Env {
 public:
  StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path) override;
  StatusOr<std::unique_ptr<WritableFile>> NewAppendableFile(const std::string& path) override;
  StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(const std::string& path) override;
  StatusOr<FileStat> Stat(const std::string& path) override;
  StatusOr<std::vector<std::string>> GetChildren(const std::string& dir) override;
  Status DeleteFile(const std::string& path) override;
  Status CreateDir(const std::string& dir) override;
  Status DeleteDir(const std::string& dir) override;
  Status RenameFile(const std::string& from, const std::string& to) override;

 private:
  struct State;
  std::shared_ptr<State> state() MR_EXCLUDES(mu_);
  Mutex mu_;
  std::shared_ptr<State> state_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
