/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "tensorflow/c/env.h"

static void write_file(const char* path, TF_Status* status) {
  TF_WritableFileHandle* file = NULL;
  TF_NewWritableFile(path, &file, status);
  CHECK_OK(status);
  TF_AppendWritableFile(file, "hello ", 6, status);
  CHECK_OK(status);
  TF_FlushWritableFile(file, status);
  CHECK_OK(status);
  TF_AppendWritableFile(file, "world", 5, status);
  TF_SyncWritableFile(file, status);
  CHECK_OK(status);
  TF_CloseWritableFile(file, status);
  CHECK_OK(status);
}

void test_files(void) {
  TF_Status* status = TF_NewStatus();
  TF_StringStream* dirs = TF_GetLocalTempDirectories();
  const char* temp = NULL;
  CHECK(TF_StringStreamNext(dirs, &temp));
  char dir[512], path[600], inner[600];
  snprintf(dir, sizeof(dir), "%s/millrace_c_api_%llu", temp, (unsigned long long)TF_NowNanos());
  TF_StringStreamDone(dirs);
  snprintf(path, sizeof(path), "%s/file", dir);
  snprintf(inner, sizeof(inner), "%s/inner", dir);
  TF_CreateDir(dir, status);
  CHECK_OK(status);
  TF_CreateDir(dir, status);
  CHECK_ERROR(status, TF_ALREADY_EXISTS, dir);
  write_file(path, status);
  TF_FileStatistics stats = {0, 0, true};
  TF_FileStat(path, &stats, status);
  CHECK_OK(status);
  CHECK_INT(stats.length, 11);
  CHECK(!stats.is_directory);
  CHECK(stats.mtime_nsec > 0);
  TF_FileStat(inner, &stats, status);
  CHECK_ERROR(status, TF_NOT_FOUND, inner);

  TF_StringStream* children = TF_GetChildren(dir, status);
  CHECK_OK(status);
  const char* child = NULL;
  CHECK(TF_StringStreamNext(children, &child));
  CHECK_STR(child, "file");
  CHECK(!TF_StringStreamNext(children, &child));
  CHECK(child == NULL);
  TF_StringStreamDone(children);
  CHECK(TF_GetChildren(inner, status) == NULL);
  TF_DeleteDir(dir, status);
  CHECK(TF_GetCode(status) != TF_OK); /* not empty */
  TF_DeleteFile(path, status);
  CHECK_OK(status);
  TF_DeleteFile(path, status);
  CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);

  TF_CreateDir(inner, status);
  snprintf(path, sizeof(path), "%s/inner/file", dir);
  write_file(path, status);
  int64_t files = 9, folders = 9;
  TF_DeleteRecursively(dir, &files, &folders, status);
  CHECK_OK(status);
  CHECK(files == 0 && folders == 0);
  TF_FileStat(dir, &stats, status);
  CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
  TF_DeleteRecursively(dir, &files, &folders, status);
  CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
  CHECK_INT(folders, 1);
  TF_NewWritableFile(path, NULL, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_CreateDir(NULL, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_AppendWritableFile(NULL, "x", 1, status);
  CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeleteStatus(status);
}

static void add_one(void* param) { ++*(int*)param; }

void test_threads(void) {
  TF_ThreadOptions options;
  TF_DefaultThreadOptions(&options);
  CHECK_INT(options.stack_size, 0);
  CHECK_INT(options.guard_size, 0);
  CHECK_INT(options.numa_node, -1);
  int count = 0;
  TF_JoinThread(TF_StartThread(&options, "a_name_that_is_rather_long", add_one, &count));
  options.stack_size = 256 * 1024;
  TF_JoinThread(TF_StartThread(&options, NULL, add_one, &count));
  CHECK_INT(count, 2);
  CHECK(TF_StartThread(&options, "none", NULL, NULL) == NULL);
  TF_JoinThread(NULL);
  const uint64_t seconds = TF_NowSeconds();
  CHECK(seconds > 1600000000u);
  CHECK(TF_NowMicros() / 1000000 >= seconds);
  CHECK(TF_NowNanos() / 1000000000 >= seconds);
}
