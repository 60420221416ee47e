// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Clocks, files and threads.
#ifndef TENSORFLOW_CORE_PLATFORM_ENV_H_
#define TENSORFLOW_CORE_PLATFORM_ENV_H_

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tensorflow/c/env.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/core/stringpiece.h"

namespace tensorflow {

struct ThreadOptions {
  size_t stack_size = 0;
  size_t guard_size = 0;
};

// Its destructor waits until the thread has ended.
class Thread {
 public:
  explicit Thread(std::function<void()> work) : thread_(std::move(work)) {}
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  ~Thread() { thread_.join(); }

 private:
  std::thread thread_;
};

class Env {
 public:
  static Env* Default() {
    static Env* const env = new Env;
    return env;
  }
  uint64 NowNanos() const { return TF_NowNanos(); }
  uint64 NowMicros() const { return TF_NowMicros(); }
  uint64 NowSeconds() const { return TF_NowSeconds(); }
  void SleepForMicroseconds(int64 micros) const {
    std::this_thread::sleep_for(std::chrono::microseconds(micros));
  }
  // The caller deletes the thread. Null if it cannot be started.
  Thread* StartThread(const ThreadOptions&, const string& /*name*/, std::function<void()> work) const {
    try {
      return new Thread(std::move(work));
    } catch (const std::exception&) {
      return nullptr;
    }
  }
  Status FileExists(const string& path) const {
    TF_FileStatistics ignored;
    return Stat(path, &ignored);
  }
  Status GetFileSize(const string& path, uint64* size) const {
    TF_FileStatistics found;
    TF_RETURN_IF_ERROR(Stat(path, &found));
    *size = static_cast<uint64>(found.length);
    return Status();
  }
  Status IsDirectory(const string& path) const {
    TF_FileStatistics found;
    TF_RETURN_IF_ERROR(Stat(path, &found));
    return found.is_directory ? Status() : errors::FailedPrecondition(path, " is not a directory");
  }
  Status CreateDir(const string& path) const {
    const internal::CStatus status;
    TF_CreateDir(path.c_str(), status.get());
    return status.status();
  }
  Status DeleteFile(const string& path) const {
    const internal::CStatus status;
    TF_DeleteFile(path.c_str(), status.get());
    return status.status();
  }
  Status GetChildren(const string& folder, std::vector<string>* names) const {
    const internal::CStatus status;
    TF_StringStream* const stream = TF_GetChildren(folder.c_str(), status.get());
    TF_RETURN_IF_ERROR(status.status());
    names->clear();
    const char* name = nullptr;
    while (TF_StringStreamNext(stream, &name)) names->push_back(name);
    TF_StringStreamDone(stream);
    return Status();
  }

 private:
  static Status Stat(const string& path, TF_FileStatistics* found) {
    const internal::CStatus status;
    TF_FileStat(path.c_str(), found, status.get());
    return status.status();
  }
};

// Reads the whole file.
inline Status ReadFileToString(Env* env, const string& path, string* text) {
  uint64 size = 0;
  TF_RETURN_IF_ERROR(env->GetFileSize(path, &size));
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return errors::NotFound(path, "; No such file or directory");
  text->clear();
  char block[65536];
  size_t n = 0;
  while ((n = std::fread(block, 1, sizeof block, file)) > 0) text->append(block, n);
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  return failed ? errors::DataLoss(path, " cannot be read") : Status();
}
inline Status WriteStringToFile(Env*, const string& path, StringPiece text) {
  const internal::CStatus status;
  TF_WritableFileHandle* file = nullptr;
  TF_NewWritableFile(path.c_str(), &file, status.get());
  TF_RETURN_IF_ERROR(status.status());
  TF_AppendWritableFile(file, text.data(), text.size(), status.get());
  const Status written = status.status();
  TF_CloseWritableFile(file, status.get());
  return written.ok() ? status.status() : written;
}

}  // namespace tensorflow

#endif
