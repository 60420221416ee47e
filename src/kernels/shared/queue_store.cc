// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/shared/queue_store.h"

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/random/philox.h"

namespace millrace {
namespace {

class FifoStore final : public QueueStore {
 public:
  explicit FifoStore(int components) : columns_(components) {}
  int64_t size() const override { return static_cast<int64_t>(columns_[0].size()); }
  void Push(Tensor* element) override {
    for (size_t i = 0; i < columns_.size(); ++i) columns_[i].push_back(std::move(element[i]));
  }
  void Pop(Tensor* element) override {
    for (size_t i = 0; i < columns_.size(); ++i) {
      element[i] = std::move(columns_[i].front());
      columns_[i].pop_front();
    }
  }
  void GiveBack(Tensor* elements, int64_t count) override {
    const size_t n = columns_.size();
    for (size_t e = static_cast<size_t>(count); e-- > 0;) {
      for (size_t i = 0; i < n; ++i) columns_[i].push_front(std::move(elements[e * n + i]));
    }
  }

 private:
  std::vector<std::deque<Tensor>> columns_;
};

class RandomStore final : public QueueStore {
 public:
  RandomStore(int components, int64_t seed, int64_t seed2) : columns_(components) {
    if (seed == 0 && seed2 == 0) {
      generator_ = PhiloxRandom(RandomSeed64(), RandomSeed64());
    } else {
      generator_ = PhiloxRandom(static_cast<uint64_t>(seed), static_cast<uint64_t>(seed2));
    }
  }
  int64_t size() const override { return static_cast<int64_t>(columns_[0].size()); }
  void Push(Tensor* element) override {
    for (size_t i = 0; i < columns_.size(); ++i) columns_[i].push_back(std::move(element[i]));
  }
  void Pop(Tensor* element) override {
    const size_t at = NextSample() % columns_[0].size();
    for (size_t i = 0; i < columns_.size(); ++i) {
      element[i] = std::move(columns_[i][at]);
      if (at + 1 != columns_[i].size()) columns_[i][at] = std::move(columns_[i].back());
      columns_[i].pop_back();
    }
  }
  void GiveBack(Tensor* elements, int64_t count) override {
    for (int64_t e = 0; e < count; ++e) Push(elements + e * static_cast<int64_t>(columns_.size()));
  }

 private:
  // The samples of a block are used from the first to the last.
  uint32_t NextSample() {
    if (next_ == PhiloxRandom::kResultElementCount) {
      block_ = generator_();
      next_ = 0;
    }
    return block_[next_++];
  }

  std::vector<std::vector<Tensor>> columns_;
  PhiloxRandom generator_;
  PhiloxRandom::Block block_{};
  int next_ = PhiloxRandom::kResultElementCount;
};

class PriorityStore final : public QueueStore {
 public:
  explicit PriorityStore(int components) : components_(components) {}
  int64_t size() const override { return static_cast<int64_t>(elements_.size()); }
  void Push(Tensor* element) override { Insert(element, next_++); }
  void Pop(Tensor* element) override {
    const auto first = elements_.begin();
    std::move(first->second.begin(), first->second.end(), element);
    elements_.erase(first);
  }
  void GiveBack(Tensor* elements, int64_t count) override {
    // Before all others of their priority, in their old order.
    before_ -= count;
    for (int64_t e = 0; e < count; ++e) Insert(elements + e * components_, before_ + e);
  }

 private:
  void Insert(Tensor* element, int64_t order) {
    const int64_t priority = element[0].scalar<int64_t>();
    elements_.emplace(std::pair(priority, order),
                      std::vector<Tensor>(std::make_move_iterator(element),
                                          std::make_move_iterator(element + components_)));
  }

  const int components_;
  int64_t next_ = 0;
  int64_t before_ = 0;
  std::map<std::pair<int64_t, int64_t>, std::vector<Tensor>> elements_;  // by priority and order of arrival
};

}  // namespace

std::unique_ptr<QueueStore> MakeFifoStore(int components) { return std::make_unique<FifoStore>(components); }

std::unique_ptr<QueueStore> MakeRandomStore(int components, int64_t seed, int64_t seed2) {
  return std::make_unique<RandomStore>(components, seed, seed2);
}

std::unique_ptr<QueueStore> MakePriorityStore(int components) {
  return std::make_unique<PriorityStore>(components);
}

}  // namespace millrace
