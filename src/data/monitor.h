// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "data/dataset.h"

namespace millrace::data {

class PipelineMonitor;

// The counters of one stage. Owned by its monitor. Thread-safe.
class StageMeter {
 public:
  StageMeter(PipelineMonitor& owner, int number, int reader_number, std::string kind_of, std::string node_of)
      : monitor(owner),
        id(number),
        reader(reader_number),
        kind(std::move(kind_of)),
        node(std::move(node_of)) {}

  PipelineMonitor& monitor;
  const int id, reader;
  const std::string kind, node;
  // Nanoseconds and counts; independent sums, so relaxed.
  std::atomic<int64_t> elements{0}, total{0}, input{0}, waited{0}, ahead{0};
  std::atomic<int64_t> fill{0}, samples{0}, capacity{0};
};

// A call of a measured iterator that is in progress. One thread.
struct MeteredCall {
  int64_t input = 0;   // nanoseconds in calls of iterators that it reads
  int64_t waited = 0;  // and for threads of its own
};

// Measures the stages of iterators of datasets that Monitored() returned for it. Others cost the same as
// without. Outlives the iterators. Thread-safe.
class PipelineMonitor {
 public:
  struct Stage {
    int reader = -1;   // the stage that reads from this one; -1: the caller does
    std::string kind;  // Dataset::kind
    std::string node;  // Dataset::node
    int64_t elements = 0;
    // Seconds of its calls. They are the sum of the next three.
    double total = 0;
    double own = 0;     // computing
    double input = 0;   // in calls of the stages that it reads
    double waited = 0;  // for threads of its own
    double ahead = 0;   // seconds that these threads spent in calls of its inputs, summed over threads
    // For a stage with a buffer: the mean number of elements that are ready at a request, and the size. Size
    // 0: no buffer.
    double fill = 0;
    int64_t capacity = 0;
  };

  PipelineMonitor();
  PipelineMonitor(const PipelineMonitor&) = delete;
  PipelineMonitor& operator=(const PipelineMonitor&) = delete;

  // In the order in which they were found: a stage follows its reader. Iterators that are created repeatedly,
  // by a repetition or from the datasets that a function returns, count as one stage.
  std::vector<Stage> Stages() const MR_EXCLUDES(mu_);
  // How many of the seconds that the caller of the first stage waits are caused by each stage: by its own
  // computation, or by its threads, as far as another stage waits for them.
  static std::vector<double> Delays(const std::vector<Stage>& stages);
  // The stage with the longest delay; -1: nothing was measured.
  static int Bottleneck(const std::vector<double>& delays);

  // The meter of `dataset` as an input of `reader`.
  StageMeter* Input(const StageMeter& reader, const Dataset& dataset) MR_EXCLUDES(mu_);
  StageMeter& root() { return root_; }

 private:
  StageMeter root_;  // the caller
  mutable Mutex mu_;
  std::deque<StageMeter> stages_ MR_GUARDED_BY(mu_);
  std::map<std::pair<int, std::string>, StageMeter*> by_name_ MR_GUARDED_BY(mu_);  // by reader and name
};

// The same elements; `monitor` measures the iterators.
RefPtr<const Dataset> Monitored(RefPtr<const Dataset> dataset, std::shared_ptr<PipelineMonitor> monitor);

// The iterator with its calls counted.
std::unique_ptr<Iterator> Measured(std::unique_ptr<Iterator> iterator, StageMeter& meter);

// Counts the time of its lifetime as waiting, if `call` is not null.
class MeteredWait {
 public:
  explicit MeteredWait(MeteredCall* call);
  ~MeteredWait();
  MeteredWait(const MeteredWait&) = delete;
  MeteredWait& operator=(const MeteredWait&) = delete;

 private:
  MeteredCall* const call_;
  int64_t begin_ = 0;
};

}  // namespace millrace::data
