// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/monitor.h"

#include <algorithm>
#include <chrono>

namespace millrace::data {
namespace {

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Add(std::atomic<int64_t>& to, int64_t value) { to.fetch_add(value, std::memory_order_relaxed); }
int64_t Get(const std::atomic<int64_t>& from) { return from.load(std::memory_order_relaxed); }
double Seconds(const std::atomic<int64_t>& ns) { return static_cast<double>(Get(ns)) * 1e-9; }

class MeasuredIterator final : public Iterator {
 public:
  MeasuredIterator(std::unique_ptr<Iterator> iterator, StageMeter& meter)
      : iterator_(std::move(iterator)), meter_(meter) {}
  Status GetNext(Context& ctx, Element* out, bool* end) override {
    if (const BufferFill buffer = iterator_->fill(); buffer.capacity > 0) {
      Add(meter_.fill, buffer.elements);
      Add(meter_.samples, 1);
      meter_.capacity.store(buffer.capacity, std::memory_order_relaxed);
    }
    MeteredCall call;
    StageMeter* const reader = std::exchange(ctx.meter, &meter_);
    MeteredCall* const caller = std::exchange(ctx.call, &call);
    const int64_t begin = Now();
    Status status = iterator_->GetNext(ctx, out, end);
    const int64_t took = Now() - begin;
    ctx.meter = reader;
    ctx.call = caller;
    Add(meter_.total, took);
    Add(meter_.input, call.input);
    Add(meter_.waited, call.waited);
    if (status.ok() && !*end) Add(meter_.elements, 1);
    // Without a call of the reader, a thread of the reader is the caller.
    if (caller != nullptr) {
      caller->input += took;
    } else if (reader != nullptr) {
      Add(reader->ahead, took);
    }
    return status;
  }
  bool MayWait(int64_t n) const override { return iterator_->MayWait(n); }
  BufferFill fill() const override { return iterator_->fill(); }
  Status Save(Context& ctx, StateWriter& state) override { return iterator_->Save(ctx, state); }
  Status Restore(Context& ctx, const StateReader& state) override {
    StageMeter* const reader = std::exchange(ctx.meter, &meter_);  // for the creation of input iterators
    Status status = iterator_->Restore(ctx, state);
    ctx.meter = reader;
    return status;
  }

 private:
  const std::unique_ptr<Iterator> iterator_;
  StageMeter& meter_;
};

class MonitoredDataset final : public Dataset {
 public:
  MonitoredDataset(RefPtr<const Dataset> dataset, std::shared_ptr<PipelineMonitor> monitor)
      : Dataset("Monitored", dataset->signature()),
        dataset_(std::move(dataset)),
        monitor_(std::move(monitor)) {}
  int64_t Cardinality() const override { return dataset_->Cardinality(); }

 protected:
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    ctx.meter = &monitor_->root();
    ctx.call = nullptr;
    return dataset_->NewIterator(ctx);
  }

 private:
  const RefPtr<const Dataset> dataset_;
  const std::shared_ptr<PipelineMonitor> monitor_;
};

}  // namespace

PipelineMonitor::PipelineMonitor() : root_(*this, -1, -1, "", "") {}

StageMeter* PipelineMonitor::Input(const StageMeter& reader, const Dataset& dataset) {
  MutexLock lock(mu_);
  StageMeter*& meter = by_name_[{reader.id, dataset.node() + '\n' + dataset.kind()}];
  if (meter == nullptr) {
    const int id = static_cast<int>(stages_.size());
    meter = &stages_.emplace_back(*this, id, reader.id, dataset.kind(), dataset.node());
  }
  return meter;
}

std::vector<PipelineMonitor::Stage> PipelineMonitor::Stages() const {
  std::vector<Stage> stages;
  MutexLock lock(mu_);
  for (const StageMeter& m : stages_) {
    Stage stage;
    stage.reader = m.reader;
    stage.kind = m.kind;
    stage.node = m.node;
    stage.elements = Get(m.elements);
    stage.total = Seconds(m.total);
    stage.input = Seconds(m.input);
    stage.waited = Seconds(m.waited);
    stage.own = std::max(0.0, stage.total - stage.input - stage.waited);
    stage.ahead = Seconds(m.ahead);
    stage.capacity = Get(m.capacity);
    if (const int64_t n = Get(m.samples); n > 0) {
      stage.fill = static_cast<double>(Get(m.fill)) / static_cast<double>(n);
    }
    stages.push_back(std::move(stage));
  }
  return stages;
}

std::vector<double> PipelineMonitor::Delays(const std::vector<Stage>& stages) {
  // The proportion of a stage's time for which the caller waits. Time that threads spend in an input counts
  // in the proportion in which these threads are waited for.
  std::vector<double> share(stages.size(), 1), delays;
  for (size_t i = 0; i < stages.size(); ++i) {
    const Stage& s = stages[i];
    if (s.reader >= 0) {
      const Stage& reader = stages[static_cast<size_t>(s.reader)];
      share[i] = share[static_cast<size_t>(s.reader)];
      if (reader.ahead > 0) share[i] *= std::min(1.0, (reader.waited + reader.input) / reader.ahead);
    }
    delays.push_back(share[i] * (s.own + std::max(0.0, s.waited - s.ahead)));
  }
  return delays;
}

int PipelineMonitor::Bottleneck(const std::vector<double>& delays) {
  const auto longest = std::max_element(delays.begin(), delays.end());
  return longest == delays.end() || *longest <= 0 ? -1 : static_cast<int>(longest - delays.begin());
}

RefPtr<const Dataset> Monitored(RefPtr<const Dataset> dataset, std::shared_ptr<PipelineMonitor> monitor) {
  return MakeRef<MonitoredDataset>(std::move(dataset), std::move(monitor));
}

std::unique_ptr<Iterator> Measured(std::unique_ptr<Iterator> iterator, StageMeter& meter) {
  return std::make_unique<MeasuredIterator>(std::move(iterator), meter);
}

MeteredWait::MeteredWait(MeteredCall* call) : call_(call) {
  if (call_ != nullptr) begin_ = Now();
}

MeteredWait::~MeteredWait() {
  if (call_ != nullptr) call_->waited += Now() - begin_;
}

}  // namespace millrace::data
