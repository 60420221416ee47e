// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "base/env.h"

namespace millrace::cli {

// Files as named on the command line: "-" is standard input, and pipes are read to their end, once, into
// memory. A stream of more than 2 GiB is ResourceExhausted. Thread-safe.
class InputEnv final : public EnvWrapper {
 public:
  explicit InputEnv(Env& base) : EnvWrapper(base) {}

  StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(const std::string& path) override;
  StatusOr<std::unique_ptr<ReadOnlyMemoryRegion>> NewReadOnlyMemoryRegion(const std::string& path) override;
  StatusOr<FileStat> Stat(const std::string& path) override;

 private:
  // The file system of the file: `streams_` once a stream has been read.
  StatusOr<Env*> Holder(const std::string& path) MR_EXCLUDES(mu_);

  Mutex mu_;
  std::set<std::string> read_ MR_GUARDED_BY(mu_);
  MemEnv streams_;
};

}  // namespace millrace::cli
