// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "millrace/status.h"

namespace millrace {

// Allows only the latest chief of a training to write checkpoints: a file "chief-<term>" in their folder
// identifies it. Each new chief takes a higher term than all before it. One that was stopped and continued
// finds the term of its successor there, regardless of its lease. Thread-safe.
class SaveGuard {
 public:
  explicit SaveGuard(std::string folder) : folder_(std::move(folder)) {}

  // Becomes the latest chief, if it is not. Creates the folder.
  Status Take() MR_EXCLUDES(mu_);
  // Aborted when there is a later one.
  Status Check() const MR_EXCLUDES(mu_);
  int64_t term() const MR_EXCLUDES(mu_);

 private:
  const std::string folder_;
  mutable Mutex mu_;
  int64_t term_ MR_GUARDED_BY(mu_) = 0;  // 0: was never the chief
};

}  // namespace millrace
