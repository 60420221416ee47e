// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Files, times and threads.
#include "tensorflow/c/env.h"

#include <pthread.h>

#include <chrono>
#include <climits>
#include <cstdlib>

#include "base/env.h"
#include "c/internal.h"

struct TF_WritableFileHandle {
  std::unique_ptr<millrace::WritableFile> file;
};

struct TF_StringStream {
  std::vector<std::string> strings;
  size_t next = 0;
};

struct TF_Thread {
  pthread_t thread;
};

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::Env;
using millrace::Status;
namespace errors = millrace::errors;

namespace {

// Runs an operation on a path.
template <typename F>
void OnPath(const char* path, TF_Status* status, F&& operation) {
  Enter(status, [&]() -> Status {
    if (path == nullptr) return NullArgument("The path");
    return operation(Env::Posix(), std::string(path));
  });
}

template <typename F>
void OnFile(TF_WritableFileHandle* handle, TF_Status* status, F&& operation) {
  Enter(status,
        [&]() -> Status { return handle == nullptr ? NullArgument("The file") : operation(*handle->file); });
}

struct Undeleted {
  int64_t files = 0;
  int64_t dirs = 0;
};

// Deletes what can be deleted below `dir`, and then itself; links are not followed by deleting files first.
Status DeleteTree(Env& env, const std::string& root, Undeleted* undeleted) {
  std::vector<std::string> dirs{root};
  Status first;
  for (size_t i = 0; i < dirs.size(); ++i) {
    const std::string dir = dirs[i];
    auto children = env.GetChildren(dir);
    if (!children.ok()) {
      first.Update(children.status());
      continue;
    }
    for (const std::string& child : *children) {
      const std::string path = dir + "/" + child;
      const Status deleted = env.DeleteFile(path);
      if (deleted.ok()) continue;
      const auto stat = env.Stat(path);
      if (stat.ok() && stat->is_directory) {
        dirs.push_back(path);
      } else {
        first.Update(deleted);
        ++undeleted->files;
      }
    }
  }
  for (size_t i = dirs.size(); i-- > 0;) {
    const Status deleted = env.DeleteDir(dirs[i]);
    if (!deleted.ok()) ++undeleted->dirs;
    first.Update(deleted);
  }
  return first;
}

template <typename Unit>
uint64_t Now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<Unit>(now).count());
}

struct ThreadStart {
  void (*work)(void*);
  void* param;
  std::string name;
};

void* RunThread(void* argument) {
  const std::unique_ptr<ThreadStart> start(static_cast<ThreadStart*>(argument));
  if (!start->name.empty()) pthread_setname_np(pthread_self(), start->name.substr(0, 15).c_str());
  start->work(start->param);
  return nullptr;
}

}  // namespace

void TF_CreateDir(const char* dirname, TF_Status* status) {
  OnPath(dirname, status, [](Env& env, const std::string& path) { return env.CreateDir(path); });
}

void TF_DeleteDir(const char* dirname, TF_Status* status) {
  OnPath(dirname, status, [](Env& env, const std::string& path) { return env.DeleteDir(path); });
}

void TF_DeleteRecursively(const char* dirname, int64_t* undeleted_file_count, int64_t* undeleted_dir_count,
                          TF_Status* status) {
  Undeleted undeleted;
  OnPath(dirname, status, [&](Env& env, const std::string& path) -> Status {
    const auto stat = env.Stat(path);
    if (!stat.ok()) ++undeleted.dirs;
    MR_RETURN_IF_ERROR(stat.status());
    if (!stat->is_directory) return env.DeleteFile(path);
    return DeleteTree(env, path, &undeleted);
  });
  if (undeleted_file_count != nullptr) *undeleted_file_count = undeleted.files;
  if (undeleted_dir_count != nullptr) *undeleted_dir_count = undeleted.dirs;
}

void TF_FileStat(const char* filename, TF_FileStatistics* stats, TF_Status* status) {
  OnPath(filename, status, [&](Env& env, const std::string& path) -> Status {
    if (stats == nullptr) return NullArgument("The statistics");
    MR_ASSIGN_OR_RETURN(const millrace::FileStat stat, env.Stat(path));
    *stats = {static_cast<int64_t>(stat.length), stat.mtime_ns, stat.is_directory};
    return Status();
  });
}

void TF_NewWritableFile(const char* filename, TF_WritableFileHandle** handle, TF_Status* status) {
  if (handle != nullptr) *handle = nullptr;
  OnPath(filename, status, [&](Env& env, const std::string& path) -> Status {
    if (handle == nullptr) return NullArgument("The handle");
    MR_ASSIGN_OR_RETURN(std::unique_ptr<millrace::WritableFile> file, env.NewWritableFile(path));
    *handle = new TF_WritableFileHandle{std::move(file)};
    return Status();
  });
}

void TF_CloseWritableFile(TF_WritableFileHandle* handle, TF_Status* status) {
  OnFile(handle, status, [](millrace::WritableFile& file) { return file.Close(); });
  delete handle;
}

void TF_SyncWritableFile(TF_WritableFileHandle* handle, TF_Status* status) {
  OnFile(handle, status, [](millrace::WritableFile& file) { return file.Sync(); });
}

void TF_FlushWritableFile(TF_WritableFileHandle* handle, TF_Status* status) {
  OnFile(handle, status, [](millrace::WritableFile& file) { return file.Flush(); });
}

void TF_AppendWritableFile(TF_WritableFileHandle* handle, const char* data, size_t length,
                           TF_Status* status) {
  OnFile(handle, status, [&](millrace::WritableFile& file) {
    return data == nullptr && length > 0 ? NullArgument("The data") : file.Append({data, length});
  });
}

void TF_DeleteFile(const char* filename, TF_Status* status) {
  OnPath(filename, status, [](Env& env, const std::string& path) { return env.DeleteFile(path); });
}

bool TF_StringStreamNext(TF_StringStream* list, const char** result) {
  if (result != nullptr) *result = nullptr;
  if (list == nullptr || result == nullptr || list->next >= list->strings.size()) return false;
  *result = list->strings[list->next++].c_str();
  return true;
}

void TF_StringStreamDone(TF_StringStream* list) { delete list; }

TF_StringStream* TF_GetChildren(const char* filename, TF_Status* status) {
  TF_StringStream* result = nullptr;
  OnPath(filename, status, [&](Env& env, const std::string& path) -> Status {
    auto list = std::make_unique<TF_StringStream>();
    MR_ASSIGN_OR_RETURN(list->strings, env.GetChildren(path));
    result = list.release();
    return Status();
  });
  return result;
}

TF_StringStream* TF_GetLocalTempDirectories(void) {
  return EnterOr<TF_StringStream*>(nullptr, [] {
    auto list = std::make_unique<TF_StringStream>();
    for (const char* variable : {"TEST_TMPDIR", "TMPDIR", "TMP"}) {
      const char* dir = std::getenv(variable);
      if (dir == nullptr || *dir == '\0') continue;
      const auto stat = Env::Posix().Stat(dir);
      if (stat.ok() && stat->is_directory) list->strings.emplace_back(dir);
    }
    list->strings.emplace_back("/tmp");
    return list.release();
  });
}

uint64_t TF_NowNanos(void) { return Now<std::chrono::nanoseconds>(); }
uint64_t TF_NowMicros(void) { return Now<std::chrono::microseconds>(); }
uint64_t TF_NowSeconds(void) { return Now<std::chrono::seconds>(); }

void TF_DefaultThreadOptions(TF_ThreadOptions* options) {
  if (options != nullptr) *options = {0, 0, -1};
}

TF_Thread* TF_StartThread(const TF_ThreadOptions* options, const char* thread_name, void (*work_func)(void*),
                          void* param) {
  if (work_func == nullptr) return nullptr;
  return EnterOr<TF_Thread*>(nullptr, [&]() -> TF_Thread* {
    auto thread = std::make_unique<TF_Thread>();
    auto start = std::make_unique<ThreadStart>(ThreadStart{work_func, param, OrEmpty(thread_name)});
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (options != nullptr && options->stack_size > 0) {
      pthread_attr_setstacksize(&attributes, std::max<size_t>(options->stack_size, PTHREAD_STACK_MIN));
    }
    if (options != nullptr && options->guard_size > 0) {
      pthread_attr_setguardsize(&attributes, options->guard_size);
    }
    const int failed = pthread_create(&thread->thread, &attributes, RunThread, start.get());
    pthread_attr_destroy(&attributes);
    if (failed != 0) return nullptr;
    start.release();  // the thread's
    return thread.release();
  });
}

void TF_JoinThread(TF_Thread* thread) {
  if (thread == nullptr) return;
  pthread_join(thread->thread, nullptr);
  delete thread;
}
