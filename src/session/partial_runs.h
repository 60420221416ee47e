// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "graph/graph.h"
#include "millrace/session.h"
#include "session/signature_cache.h"
#include "step/partial_step.h"

namespace millrace {

// The feeds that each fetch of a signature needs, according to the full graph: positions in `feeds`,
// canonical names. The producers of fed values are not visited.
using FetchNeeds = std::map<std::string, std::set<std::string>>;
FetchNeeds FindFetchNeeds(const Graph& full, const RunSignature& signature);

// The partial runs of a session that are in progress, by handle. Thread-safe.
class PartialRuns {
 public:
  // `fetch_needs` by canonical name of the fetch.
  std::string Add(std::shared_ptr<const Executable> executable, FetchNeeds fetch_needs,
                  RefPtr<PartialStep> step) MR_EXCLUDES(mu_);
  // One PRun. A run that fails, or has all its feeds and fetches, ends together with its handle; a refused
  // call changes nothing.
  Status Run(const std::string& handle, const Session::Feeds& feeds, const std::vector<std::string>& fetches,
             int64_t timeout_in_ms, std::vector<Tensor>* outputs) MR_EXCLUDES(mu_);
  // Cancels all, without waiting for their ends.
  void Clear() MR_EXCLUDES(mu_);

 private:
  struct Entry {
    ~Entry();
    std::shared_ptr<const Executable> executable;
    FetchNeeds fetch_needs;
    RefPtr<PartialStep> step;
    Mutex mu;
    std::map<std::string, bool> feeds MR_GUARDED_BY(mu);    // by canonical name: fed?
    std::map<std::string, bool> fetches MR_GUARDED_BY(mu);  // by canonical name: fetched?
    // Values of feeds that are also fetched: both ends of the step would have the same name in the
    // rendezvous, so these values don't pass through it a second time.
    std::map<std::string, Tensor> fed_values MR_GUARDED_BY(mu);
    bool ended MR_GUARDED_BY(mu) = false;
  };
  struct Call {
    std::vector<std::string> feeds;  // canonical
    std::vector<std::string> fetches;
    std::map<std::string, Tensor> values;  // of fetches
  };

  static Status Check(Entry& entry, const Session::Feeds& feeds, const std::vector<std::string>& fetches,
                      const Call& call) MR_REQUIRES(entry.mu);
  static Status CheckComputable(const Entry& entry, const Call& call) MR_REQUIRES(entry.mu);
  static bool Mark(Entry& entry, const Session::Feeds& feeds, Call* call) MR_REQUIRES(entry.mu);
  static Status Exchange(Entry& entry, const Session::Feeds& feeds, bool last, int64_t timeout_in_ms,
                         Call* call);
  std::shared_ptr<Entry> Find(const std::string& handle) MR_EXCLUDES(mu_);

  Mutex mu_;
  int64_t next_ MR_GUARDED_BY(mu_) = 0;
  std::map<std::string, std::shared_ptr<Entry>> runs_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
