// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/thread_pool.h"
#include "millrace/session.h"

namespace millrace {

class DirectSession;

// A kind of session, chosen by the target: "" is the direct session; others are registered.
struct SessionFactory {
  std::function<bool(const SessionOptions&)> accepts;
  std::function<StatusOr<std::unique_ptr<Session>>(const SessionOptions&)> make;
  std::function<Status(const SessionOptions&, const std::vector<std::string>& containers)> reset;
};
// Names are unique: AlreadyExists otherwise. Thread-safe.
Status RegisterSessionFactory(std::string name, SessionFactory factory);

// The direct sessions of the process, for Reset. Thread-safe.
class DirectSessions {
 public:
  static DirectSessions& Get();
  void Add(DirectSession* session) MR_EXCLUDES(mu_);
  void Remove(DirectSession* session) MR_EXCLUDES(mu_);
  void ResetAll(const std::vector<std::string>& containers) MR_EXCLUDES(mu_);

 private:
  Mutex mu_;
  std::set<DirectSession*> sessions_ MR_GUARDED_BY(mu_);
};

// A pool of that parallelism: shared with other sessions unless `own`. Null for one thread.
std::shared_ptr<ThreadPool> GetThreadPool(int parallelism, bool own);
// The pool of that name, for as long as the process lives. InvalidArgument when it was made with another
// `num_threads`; 0 means `default_threads`. Null for one thread.
StatusOr<std::shared_ptr<ThreadPool>> GetGlobalThreadPool(const std::string& name, int num_threads,
                                                          int default_threads);

}  // namespace millrace
