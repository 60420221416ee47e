// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "graph/graph.h"
#include "kernel/collectives.h"
#include "step/collective_groups.h"
#include "step/step_sequences.h"

namespace millrace {

// Whether a node is a collective operation, which all devices of a group run together.
bool IsCollective(const Node& node);

// The other tasks of collective operations. Callbacks are called once; `cancellation`, which lives until
// then, means that the answer is no longer needed. Thread-safe.
class CollectivePeers {
 public:
  virtual ~CollectivePeers() = default;
  struct Buffer {
    int64_t step_id = 0;
    std::string key;
    std::string_view from, to;  // devices
    DataType dtype = DataType::kFloat;
    int64_t num_elements = 0;
  };
  // The buffer that the step offers under the key at the task of the sending device.
  virtual void Fetch(const Buffer& buffer, CancellationManager& cancellation,
                     StepCollectives::Fetched done) = 0;
  // Calls to the leader of the groups.
  virtual void CompleteGroup(std::string_view leader, const CollectiveMember& member,
                             CancellationManager& cancellation, CollectiveGroups::Completed done) = 0;
  virtual void CompleteInstance(std::string_view leader, const CollectiveMember& member,
                                CancellationManager& cancellation, CollectiveGroups::Source done) = 0;
  struct NumberedStep {
    int64_t number = 0;
    bool for_taker =
        false;  // that of the taker's own sequence; a leader of TensorFlow sends its own next one
  };
  virtual StatusOr<NumberedStep> NextStep(std::string_view leader, int64_t graph_key,
                                          const StepTaker& taker) = 0;
};

// Collective operations at one task: the buffers that its steps offer to others, by step id, and the
// groups that it leads. The step or the first request for a buffer creates the entry of a step.
// Thread-safe.
class TaskCollectives {
 public:
  using Fetched = StepCollectives::Fetched;
  explicit TaskCollectives(std::string task);
  ~TaskCollectives();

  // A step begins here; Aborted if it has ended. An empty leader means that this task leads the groups.
  StatusOr<RefPtr<StepCollectives>> Begin(int64_t step_id, std::string_view leader) MR_EXCLUDES(mu_);
  // The step has ended here: after an error all requests for its buffers get the error.
  void End(int64_t step_id, const Status& status) MR_EXCLUDES(mu_);
  // For another task. Errors name this task and have the mark of MakeDerived.
  void FetchHere(int64_t step_id, const std::string& key, std::string_view from, std::string_view to,
                 Fetched done) MR_EXCLUDES(mu_);
  CollectiveGroups& groups() { return groups_; }
  StepSequences& sequences() { return sequences_; }

  // To be called before the first step: the other tasks, if there are any, and the leader of groups of
  // sessions that name none.
  void SetPeers(std::shared_ptr<CollectivePeers> peers) { peers_ = std::move(peers); }
  void set_default_leader(std::string leader) { default_leader_ = std::move(leader); }
  const std::string& default_leader() const { return default_leader_; }
  // The id by which tasks know the next step of graphs with that key, whose sessions have different masters.
  // It is above earlier ones of the task, unless the leader has restarted. May wait for the leader.
  StatusOr<int64_t> NextStep(std::string_view leader, int64_t graph_key) MR_EXCLUDES(mu_);
  // The step has ended here. To be called for each result of NextStep.
  void Retire(std::string_view leader, int64_t graph_key, int64_t step_id, const Status& status)
      MR_EXCLUDES(mu_);

  // Asks the tasks that should take waiting buffers to report the end of their part of the step. If it has
  // ended or a task has died, the step ends here, too. To be called periodically.
  void WatchTakers() MR_EXCLUDES(mu_);
  size_t size() const MR_EXCLUDES(mu_);

 private:
  class Step;
  static constexpr size_t kRemembered = 4096;  // steps that have ended
  StatusOr<RefPtr<Step>> Find(int64_t step_id) MR_EXCLUDES(mu_);
  // Whether this task has skipped the step: it is at a later one of the same graph.
  bool Missed(int64_t step_id) const MR_REQUIRES(mu_);
  std::vector<RefPtr<Step>> Steps() const MR_EXCLUDES(mu_);
  bool IsHere(std::string_view leader) const { return leader.empty() || leader == task_; }

  const std::string task_;
  std::shared_ptr<CollectivePeers> peers_;
  std::string default_leader_;
  const int64_t incarnation_;
  CollectiveGroups groups_;
  StepSequences sequences_;
  mutable Mutex mu_;
  std::unordered_map<int64_t, RefPtr<Step>> steps_ MR_GUARDED_BY(mu_);
  std::unordered_map<int64_t, Status> ended_ MR_GUARDED_BY(mu_);
  std::deque<int64_t> ended_order_ MR_GUARDED_BY(mu_);
  struct LastStep {
    int64_t number = 0;
    bool failed = false;
  };
  std::map<int64_t, LastStep> last_steps_ MR_GUARDED_BY(mu_);  // by graph key
  std::set<int64_t> own_ MR_GUARDED_BY(mu_);                   // steps of those that have not ended
};

}  // namespace millrace
