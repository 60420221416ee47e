// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/partial_runs.h"

#include "session/feed_check.h"

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

// The canonical name of a tensor: "n:0".
std::string Canonical(const std::string& name) {
  const TensorId id = ParseTensorId(name);
  return StrCat(id.name, ":", id.index);
}

std::string TensorName(const Node& node, int output) { return StrCat(node.name(), ":", output); }

bool IsPlaceholder(const Node& node) { return node.op_name().starts_with("Placeholder"); }

Status UnknownHandle() { return errors::InvalidArgument("Must run 'setup' before performing partial runs!"); }

}  // namespace

FetchNeeds FindFetchNeeds(const Graph& full, const RunSignature& signature) {
  std::set<std::string> feeds;
  for (const std::string& name : signature.feeds) feeds.insert(Canonical(name));
  FetchNeeds needs;
  for (const std::string& name : signature.fetches) {
    const std::string fetch = Canonical(name);
    const auto [it, is_new] = needs.try_emplace(fetch);
    if (!is_new) continue;
    if (feeds.contains(fetch)) {
      it->second.insert(fetch);
      continue;
    }
    const Node* root = full.FindNode(ParseTensorId(name).name);
    if (root == nullptr) continue;
    std::vector<const Node*> queue{root};
    std::vector<bool> seen(static_cast<size_t>(full.num_node_ids()), false);
    seen[static_cast<size_t>(root->id())] = true;
    for (size_t next = 0; next < queue.size(); ++next) {
      for (const Edge* edge : queue[next]->in_edges()) {
        if (edge == nullptr || !edge->src->IsOp()) continue;
        // Waiting for a placeholder is waiting for its value, as in pruning.
        const bool whole = edge->IsControl() && IsPlaceholder(*edge->src);
        if (!edge->IsControl() || whole) {
          const std::string source = TensorName(*edge->src, whole ? 0 : edge->src_output);
          if (feeds.contains(source)) {
            it->second.insert(source);
            continue;
          }
        }
        const auto id = static_cast<size_t>(edge->src->id());
        if (seen[id]) continue;
        seen[id] = true;
        queue.push_back(edge->src);
      }
    }
  }
  return needs;
}

PartialRuns::Entry::~Entry() {
  if (step != nullptr) step->Cancel(errors::Cancelled("PRun cancellation"));
}

std::string PartialRuns::Add(std::shared_ptr<const Executable> executable, FetchNeeds fetch_needs,
                             RefPtr<PartialStep> step) {
  auto entry = std::make_shared<Entry>();
  entry->fetch_needs = std::move(fetch_needs);
  entry->step = std::move(step);
  {
    MutexLock lock(entry->mu);
    for (const std::string& name : executable->signature.feeds) entry->feeds[Canonical(name)] = false;
    for (const std::string& name : executable->signature.fetches) entry->fetches[Canonical(name)] = false;
  }
  entry->executable = std::move(executable);
  MutexLock lock(mu_);
  std::string handle = StrCat("partial_run;", next_++);
  runs_[handle] = std::move(entry);
  return handle;
}

std::shared_ptr<PartialRuns::Entry> PartialRuns::Find(const std::string& handle) {
  MutexLock lock(mu_);
  const auto it = runs_.find(handle);
  return it == runs_.end() ? nullptr : it->second;
}

void PartialRuns::Clear() {
  std::map<std::string, std::shared_ptr<Entry>> runs;
  MutexLock lock(mu_);
  runs.swap(runs_);
}

// Checks that feeds and fetches are among those of the setup, and new.
Status PartialRuns::Check(Entry& entry, const Session::Feeds& feeds, const std::vector<std::string>& fetches,
                          const Call& call) {
  const RunSignature& signature = entry.executable->signature;
  std::set<std::string_view> now;
  for (size_t i = 0; i < feeds.size(); ++i) {
    const auto it = entry.feeds.find(call.feeds[i]);
    if (it == entry.feeds.end()) {
      return errors::InvalidArgument("The feed ", feeds[i].first, " was not specified in partial_run_setup.");
    }
    if (it->second || !now.insert(call.feeds[i]).second) {
      return errors::InvalidArgument("The feed ", feeds[i].first, " has already been fed.");
    }
    const auto position = std::find_if(signature.feeds.begin(), signature.feeds.end(),
                                       [&](const std::string& f) { return Canonical(f) == call.feeds[i]; });
    const uint32_t slot =
        entry.executable->feed_slots[static_cast<size_t>(position - signature.feeds.begin())];
    MR_RETURN_IF_ERROR(CheckFeed(entry.executable->step->feeds[slot], feeds[i].first, i, feeds[i].second));
  }
  for (size_t i = 0; i < fetches.size(); ++i) {
    const auto it = entry.fetches.find(call.fetches[i]);
    if (it == entry.fetches.end()) {
      return errors::InvalidArgument("The fetch ", fetches[i], " was not specified in partial_run_setup.");
    }
    if (it->second) return errors::InvalidArgument("The fetch ", fetches[i], " has already been fetched.");
  }
  return CheckComputable(entry, call);
}

Status PartialRuns::CheckComputable(const Entry& entry, const Call& call) {
  for (const std::string& fetch : call.fetches) {
    const auto needs = entry.fetch_needs.find(fetch);
    if (needs == entry.fetch_needs.end()) continue;
    for (const std::string& feed : needs->second) {
      if (entry.feeds.at(feed) || std::find(call.feeds.begin(), call.feeds.end(), feed) != call.feeds.end())
        continue;
      return errors::InvalidArgument("Fetch ", feed,
                                     " can't be computed from the feeds that have been fed so far.");
    }
  }
  return Status();
}

// Records the call's feeds and fetches; true if nothing is left for later calls.
bool PartialRuns::Mark(Entry& entry, const Session::Feeds& feeds, Call* call) {
  for (size_t i = 0; i < feeds.size(); ++i) {
    entry.feeds[call->feeds[i]] = true;
    if (entry.fetches.contains(call->feeds[i])) entry.fed_values[call->feeds[i]] = feeds[i].second;
  }
  for (const std::string& fetch : call->fetches) {
    entry.fetches[fetch] = true;
    if (const auto it = entry.fed_values.find(fetch); it != entry.fed_values.end()) call->values.insert(*it);
  }
  const auto done = [](const auto& item) { return item.second; };
  return std::all_of(entry.feeds.begin(), entry.feeds.end(), done) &&
         std::all_of(entry.fetches.begin(), entry.fetches.end(), done);
}

// Passes on the feeds and waits for the fetches; after the last ones waits for the end of the
// step.
Status PartialRuns::Exchange(Entry& entry, const Session::Feeds& feeds, bool last, int64_t timeout_in_ms,
                             Call* call) {
  for (size_t i = 0; i < feeds.size(); ++i) {
    MR_RETURN_IF_ERROR(entry.step->Feed(call->feeds[i], feeds[i].second, timeout_in_ms));
  }
  std::set<std::string> missing;
  for (const std::string& fetch : call->fetches) {
    if (!call->values.contains(fetch)) missing.insert(fetch);
  }
  const std::vector<std::string> names(missing.begin(), missing.end());
  std::vector<Tensor> values;
  MR_RETURN_IF_ERROR(entry.step->Fetch(names, timeout_in_ms, &values));
  for (size_t i = 0; i < names.size(); ++i) call->values[names[i]] = std::move(values[i]);
  entry.step->KeepSessionTensors(names);
  return last ? entry.step->Wait(timeout_in_ms) : Status();
}

Status PartialRuns::Run(const std::string& handle, const Session::Feeds& feeds,
                        const std::vector<std::string>& fetches, int64_t timeout_in_ms,
                        std::vector<Tensor>* outputs) {
  const std::shared_ptr<Entry> entry = Find(handle);
  if (entry == nullptr) return UnknownHandle();
  Call call;
  for (const auto& feed : feeds) call.feeds.push_back(Canonical(feed.first));
  for (const std::string& fetch : fetches) call.fetches.push_back(Canonical(fetch));
  bool last = false;
  {
    MutexLock lock(entry->mu);
    if (entry->ended) return UnknownHandle();
    MR_RETURN_IF_ERROR(Check(*entry, feeds, fetches, call));
    last = Mark(*entry, feeds, &call);
    entry->ended = last;
  }
  Status status = Exchange(*entry, feeds, last, timeout_in_ms, &call);
  if (!status.ok()) {
    entry->step->Cancel(status);
    MutexLock lock(entry->mu);
    entry->ended = true;
  }
  // Dropped with the last call that uses it.
  if (!status.ok() || last) {
    MutexLock lock(mu_);
    runs_.erase(handle);
  }
  if (!status.ok() || outputs == nullptr) return status;
  outputs->clear();
  for (const std::string& fetch : call.fetches) outputs->push_back(call.values.at(fetch));
  return Status();
}

}  // namespace millrace
