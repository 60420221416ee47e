// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <set>
#include <utility>

#include "base/env.h"

namespace millrace {
namespace {

struct MemFile {
  Mutex mu;
  std::string contents MR_GUARDED_BY(mu);
  int64_t mtime_ns MR_GUARDED_BY(mu) = 0;
};

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A file stays usable after its name is deleted or replaced, as on POSIX.
class MemWritableFile : public WritableFile {
 public:
  MemWritableFile(std::string path, std::shared_ptr<MemFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}
  Status Append(std::string_view data) override {
    MR_RETURN_IF_ERROR(CheckOpen());
    MutexLock lock(file_->mu);
    file_->contents.append(data);
    file_->mtime_ns = NowNs();
    return Status::Ok();
  }
  Status Flush() override { return CheckOpen(); }
  Status Sync() override { return CheckOpen(); }
  Status Close() override {
    closed_ = true;
    return Status::Ok();
  }

 private:
  Status CheckOpen() const {
    return closed_ ? errors::FailedPrecondition(path_, "; the file has been closed") : Status::Ok();
  }

  const std::string path_;
  const std::shared_ptr<MemFile> file_;
  bool closed_ = false;
};

class MemRandomAccessFile : public RandomAccessFile {
 public:
  MemRandomAccessFile(std::string path, std::shared_ptr<MemFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}
  Status Read(uint64_t offset, size_t n, std::string* out) const override {
    MutexLock lock(file_->mu);
    out->clear();
    if (offset < file_->contents.size()) out->assign(file_->contents, offset, n);
    if (out->size() < n) return errors::OutOfRange(path_, "; the file ends before offset ", offset + n);
    return Status::Ok();
  }
  StatusOr<size_t> ReadInto(uint64_t offset, size_t n, char* to) const override {
    MutexLock lock(file_->mu);
    return offset < file_->contents.size() ? file_->contents.copy(to, n, offset) : 0;
  }

 private:
  const std::string path_;
  const std::shared_ptr<MemFile> file_;
};

Status NotFound(const std::string& path) { return errors::NotFound(path, "; No such file or directory"); }

}  // namespace

// Names are kept as written; a directory exists when it was created or when a file lies below it.
struct MemEnv::State {
  Mutex mu;
  std::map<std::string, std::shared_ptr<MemFile>> files MR_GUARDED_BY(mu);
  std::set<std::string> dirs MR_GUARDED_BY(mu);

  std::shared_ptr<MemFile> Find(const std::string& path) MR_EXCLUDES(mu) {
    MutexLock lock(mu);
    const auto it = files.find(path);
    return it == files.end() ? nullptr : it->second;
  }
  // The names directly below `dir`.
  std::set<std::string> Children(const std::string& dir) MR_REQUIRES(mu) {
    const std::string prefix = dir.ends_with('/') ? dir : dir + "/";
    std::set<std::string> names;
    const auto add = [&](const std::string& path) {
      if (path.size() <= prefix.size() || !path.starts_with(prefix)) return;
      const std::string rest = path.substr(prefix.size());
      names.insert(rest.substr(0, rest.find('/')));
    };
    for (const auto& [path, file] : files) add(path);
    for (const std::string& path : dirs) add(path);
    return names;
  }
  bool IsDir(const std::string& dir) MR_REQUIRES(mu) { return dirs.contains(dir) || !Children(dir).empty(); }
};

std::shared_ptr<MemEnv::State> MemEnv::state() {
  MutexLock lock(mu_);
  if (state_ == nullptr) state_ = std::make_shared<State>();
  return state_;
}

StatusOr<std::unique_ptr<WritableFile>> MemEnv::NewWritableFile(const std::string& path) {
  auto s = state();
  auto file = std::make_shared<MemFile>();
  {
    MutexLock lock(file->mu);
    file->mtime_ns = NowNs();
  }
  MutexLock lock(s->mu);
  if (s->IsDir(path)) return errors::FailedPrecondition(path, "; Is a directory");
  s->files[path] = file;
  return std::unique_ptr<WritableFile>(std::make_unique<MemWritableFile>(path, std::move(file)));
}

StatusOr<std::unique_ptr<WritableFile>> MemEnv::NewAppendableFile(const std::string& path) {
  std::shared_ptr<MemFile> file = state()->Find(path);
  if (file == nullptr) return NewWritableFile(path);
  return std::unique_ptr<WritableFile>(std::make_unique<MemWritableFile>(path, std::move(file)));
}

StatusOr<std::unique_ptr<RandomAccessFile>> MemEnv::NewRandomAccessFile(const std::string& path) {
  std::shared_ptr<MemFile> file = state()->Find(path);
  if (file == nullptr) return NotFound(path);
  return std::unique_ptr<RandomAccessFile>(std::make_unique<MemRandomAccessFile>(path, std::move(file)));
}

StatusOr<FileStat> MemEnv::Stat(const std::string& path) {
  auto s = state();
  if (std::shared_ptr<MemFile> file = s->Find(path); file != nullptr) {
    MutexLock lock(file->mu);
    return FileStat{.length = file->contents.size(), .mtime_ns = file->mtime_ns, .is_directory = false};
  }
  MutexLock lock(s->mu);
  if (!s->IsDir(path)) return NotFound(path);
  return FileStat{.length = 0, .mtime_ns = 0, .is_directory = true};
}

StatusOr<std::vector<std::string>> MemEnv::GetChildren(const std::string& dir) {
  auto s = state();
  MutexLock lock(s->mu);
  if (!s->IsDir(dir)) return NotFound(dir);
  const std::set<std::string> names = s->Children(dir);
  return std::vector<std::string>(names.begin(), names.end());
}

Status MemEnv::DeleteFile(const std::string& path) {
  auto s = state();
  MutexLock lock(s->mu);
  return s->files.erase(path) == 1 ? Status::Ok() : NotFound(path);
}

Status MemEnv::CreateDir(const std::string& dir) {
  auto s = state();
  MutexLock lock(s->mu);
  if (s->files.contains(dir) || s->IsDir(dir)) return errors::AlreadyExists(dir, "; File exists");
  s->dirs.insert(dir);
  return Status::Ok();
}

Status MemEnv::DeleteDir(const std::string& dir) {
  auto s = state();
  MutexLock lock(s->mu);
  if (!s->Children(dir).empty()) return errors::FailedPrecondition(dir, "; Directory not empty");
  return s->dirs.erase(dir) == 1 ? Status::Ok() : NotFound(dir);
}

Status MemEnv::RenameFile(const std::string& from, const std::string& to) {
  auto s = state();
  MutexLock lock(s->mu);
  const auto it = s->files.find(from);
  if (it == s->files.end()) return NotFound(from);
  std::shared_ptr<MemFile> file = std::move(it->second);
  s->files.erase(it);
  s->files[to] = std::move(file);
  return Status::Ok();
}

}  // namespace millrace
