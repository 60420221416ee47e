// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/shared/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <random>
#include <set>
#include <thread>

#include "base/notification.h"
#include "base/random/philox.h"

namespace millrace {
namespace {

using Action = Queue::Action;
using ::testing::ElementsAre;

constexpr QueueKind kAllKinds[] = {QueueKind::kFifo, QueueKind::kPaddingFifo, QueueKind::kRandomShuffle,
                                   QueueKind::kPriority};

// A queue of int64 scalars, of any kind.
QueueSpec Scalars(int64_t capacity = 100) {
  QueueSpec spec;
  spec.name = "q";
  spec.types = {DataType::kInt64};
  spec.shapes = {PartialShape(TensorShape())};
  spec.capacity = capacity;
  spec.seed = 1;
  return spec;
}

RefPtr<Queue> Make(QueueKind kind, const QueueSpec& spec) {
  auto made = Queue::Make(kind, spec);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

// One operation and its result.
struct Op {
  CancellationManager cancellation;
  bool done = false;
  Status status;
  std::vector<int64_t> values;

  void Submit(Queue& queue, Action action, int64_t requested = 1, std::vector<Tensor> tensors = {}) {
    Queue::Attempt attempt;
    attempt.action = action;
    attempt.requested = requested;
    attempt.tensors = std::move(tensors);
    attempt.done = [this](const Status& s, Queue::Attempt& a) {
      EXPECT_FALSE(done) << "ended twice";
      done = true;
      status = s;
      if (!s.ok() || !a.is_dequeue()) return;
      for (const Tensor& t : a.tensors) values.push_back(t.scalar<int64_t>());
    };
    queue.Submit(std::move(attempt), cancellation);
  }
  void Enqueue(Queue& queue, int64_t value) {
    Submit(queue, Action::kEnqueue, 1, {Tensor::Scalar<int64_t>(value)});
  }
  void EnqueueMany(Queue& queue, const std::vector<int64_t>& values_in) {
    Submit(queue, Action::kEnqueueMany, static_cast<int64_t>(values_in.size()),
           {Tensor::Vector<int64_t>(values_in)});
  }
  void Dequeue(Queue& queue) { Submit(queue, Action::kDequeue); }
  void DequeueMany(Queue& queue, int64_t n) { Submit(queue, Action::kDequeueMany, n); }
  void DequeueUpTo(Queue& queue, int64_t n) { Submit(queue, Action::kDequeueUpTo, n); }
  void Close(Queue& queue) { Submit(queue, Action::kClose, 0); }
};

TEST(QueueTest, ElementsComeOutInTheOrderOfTheKind) {
  for (const QueueKind kind : kAllKinds) {
    const auto q = Make(kind, Scalars());
    Op in, one, rest;
    in.EnqueueMany(*q, {3, 1, 2, 1});
    EXPECT_EQ(q->size(), 4);
    one.Dequeue(*q);
    rest.DequeueMany(*q, 3);
    std::vector<int64_t> got = one.values;
    got.insert(got.end(), rest.values.begin(), rest.values.end());
    if (kind == QueueKind::kPriority) {
      EXPECT_THAT(got, ElementsAre(1, 1, 2, 3));
    } else if (kind == QueueKind::kRandomShuffle) {
      EXPECT_THAT(got, ::testing::UnorderedElementsAre(3, 1, 2, 1));
    } else {
      EXPECT_THAT(got, ElementsAre(3, 1, 2, 1));
    }
  }
}

TEST(QueueTest, EqualPrioritiesComeOutInTheOrderOfTheirArrival) {
  QueueSpec spec = Scalars();
  spec.types.push_back(DataType::kString);
  spec.shapes.push_back(PartialShape(TensorShape()));
  const auto q = Make(QueueKind::kPriority, spec);
  const std::pair<int64_t, const char*> in[] = {{5, "a"}, {1, "b"}, {5, "c"}, {1, "d"}, {5, "e"}};
  for (const auto& [priority, name] : in) {
    Op op;
    op.Submit(*q, Action::kEnqueue, 1, {Tensor::Scalar<int64_t>(priority), Tensor::Scalar(name)});
  }
  std::string order;
  for (int i = 0; i < 5; ++i) {
    Queue::Attempt a;
    a.action = Action::kDequeue;
    Status status;
    ASSERT_TRUE(q->RunNow(a, &status));
    order += a.tensors[1].scalar<std::string>();
  }
  EXPECT_EQ(order, "bdace");
}

TEST(QueueTest, OperationsWaitInTheirOrder) {
  const auto q = Make(QueueKind::kFifo, Scalars(2));
  Op a, b, in;
  a.Dequeue(*q);
  b.DequeueMany(*q, 2);
  EXPECT_FALSE(a.done || b.done);
  in.EnqueueMany(*q, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(a.values, ElementsAre(1));
  EXPECT_THAT(b.values, ElementsAre(2, 3));
  EXPECT_FALSE(in.done) << "4 and 5 fill the queue, 6 waits";
  EXPECT_EQ(q->size(), 2);
  Op late, out;
  late.Enqueue(*q, 7);
  out.DequeueMany(*q, 4);
  EXPECT_TRUE(in.done && late.done);
  EXPECT_THAT(out.values, ElementsAre(4, 5, 6, 7));
}

TEST(QueueTest, ABatchLargerThanTheCapacityPassesThrough) {
  const auto q = Make(QueueKind::kFifo, Scalars(1));
  Op out, in;
  out.DequeueMany(*q, 3);
  in.EnqueueMany(*q, {1, 2, 3});
  EXPECT_TRUE(in.done);
  EXPECT_THAT(out.values, ElementsAre(1, 2, 3));
}

TEST(QueueTest, ACancelledDequeueGivesBackWhatItGathered) {
  for (const QueueKind kind : kAllKinds) {
    const auto q = Make(kind, Scalars());
    Op in, out, waits, next;
    in.EnqueueMany(*q, {1, 2, 3});
    out.DequeueMany(*q, 5);
    EXPECT_EQ(q->size(), 0) << "existing elements are gathered";
    waits.DequeueMany(*q, 2);
    EXPECT_FALSE(waits.done) << "its turn is second";
    out.cancellation.StartCancel();
    EXPECT_EQ(out.status, errors::Cancelled("Dequeue operation was cancelled"));
    EXPECT_TRUE(waits.done) << "and so the next gets it";
    next.Dequeue(*q);
    std::vector<int64_t> got = waits.values;
    got.insert(got.end(), next.values.begin(), next.values.end());
    EXPECT_THAT(got, ::testing::UnorderedElementsAre(1, 2, 3));
    if (kind != QueueKind::kRandomShuffle) {
      EXPECT_THAT(got, ElementsAre(1, 2, 3));
    }
  }
}

TEST(QueueTest, ACancelledEnqueueLetsTheNextContinue) {
  const auto q = Make(QueueKind::kFifo, Scalars(1));
  Op a, b, c, out;
  a.Enqueue(*q, 1);
  b.Enqueue(*q, 2);
  c.Enqueue(*q, 3);
  b.cancellation.StartCancel();
  EXPECT_EQ(b.status, errors::Cancelled("Enqueue operation was cancelled"));
  EXPECT_FALSE(c.done);
  out.DequeueMany(*q, 2);
  EXPECT_THAT(out.values, ElementsAre(1, 3));
  EXPECT_TRUE(c.done);
}

TEST(QueueTest, ACancelledWaitFailsImmediately) {
  const auto q = Make(QueueKind::kFifo, Scalars(1));
  Op full, in, close, out;
  full.Enqueue(*q, 1);
  in.cancellation.StartCancel();
  in.Enqueue(*q, 2);
  EXPECT_EQ(in.status, errors::Cancelled("Enqueue operation was cancelled"));
  Op waits;
  waits.Enqueue(*q, 3);
  close.cancellation.StartCancel();
  close.Close(*q);
  EXPECT_EQ(close.status, errors::Cancelled("Close operation was cancelled"));
  out.cancellation.StartCancel();
  out.DequeueMany(*q, 3);
  EXPECT_EQ(out.status, errors::Cancelled("Dequeue operation was cancelled"));
  EXPECT_EQ(q->size(), 2) << "what it gathered is back; there was room for 3 meanwhile";
  EXPECT_FALSE(q->is_closed());
}

TEST(QueueTest, CloseWaitsForPendingEnqueues) {
  const auto q = Make(QueueKind::kFifo, Scalars(1));
  Op a, b, close, late, again, out, none;
  a.Enqueue(*q, 1);
  b.Enqueue(*q, 2);
  close.Close(*q);
  late.Enqueue(*q, 3);
  EXPECT_FALSE(close.done);
  EXPECT_FALSE(q->is_closed());
  out.DequeueMany(*q, 2);
  EXPECT_THAT(out.values, ElementsAre(1, 2));
  EXPECT_TRUE(close.done && close.status.ok() && q->is_closed());
  EXPECT_EQ(late.status, errors::Cancelled("FIFOQueue 'q' is closed."));
  again.Close(*q);
  EXPECT_EQ(again.status, errors::Cancelled("Queue 'q' is already closed."));
  none.Dequeue(*q);
  EXPECT_EQ(none.status,
            errors::OutOfRange(
                "FIFOQueue 'q' is closed and has insufficient elements (requested 1, current size 0)"));
}

TEST(QueueTest, CloseAndCancelEndsPendingEnqueues) {
  const auto q = Make(QueueKind::kFifo, Scalars(1));
  Op a, b, c, out;
  a.Enqueue(*q, 1);
  b.Enqueue(*q, 2);
  c.Close(*q);
  q->CloseAndCancel();
  EXPECT_EQ(b.status, errors::Cancelled("Enqueue operation was cancelled"));
  EXPECT_EQ(c.status, errors::Cancelled("Enqueue operation was cancelled"));
  EXPECT_TRUE(q->is_closed());
  out.Dequeue(*q);
  EXPECT_THAT(out.values, ElementsAre(1)) << "the elements of the queue stay";
  q->CloseAndCancel();
}

TEST(QueueTest, ClosingEndsPendingDequeues) {
  const std::string names[] = {"FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue", "PriorityQueue"};
  for (const QueueKind kind : kAllKinds) {
    const std::string& name = names[static_cast<int>(kind)];
    const auto q = Make(kind, Scalars());
    Op in, many, up_to, one, close;
    in.EnqueueMany(*q, {1, 2, 3});
    many.DequeueMany(*q, 5);
    up_to.DequeueUpTo(*q, 5);
    one.Dequeue(*q);
    close.Close(*q);
    EXPECT_EQ(many.status,
              errors::OutOfRange(
                  name, " 'q' is closed and has insufficient elements (requested 2, current size 0)"));
    EXPECT_THAT(up_to.values, ::testing::UnorderedElementsAre(1, 2, 3)) << "what the first gathered";
    const std::string single = kind == QueueKind::kPaddingFifo ? "FIFOQueue" : name;
    EXPECT_EQ(one.status,
              errors::OutOfRange(
                  single, " 'q' is closed and has insufficient elements (requested 1, current size 0)"));
    Op empty, in_closed;
    empty.DequeueUpTo(*q, 4);
    EXPECT_EQ(empty.status,
              errors::OutOfRange(
                  name, " 'q' is closed and has insufficient elements (requested 4, current size 0)"));
    in_closed.Enqueue(*q, 1);
    EXPECT_EQ(in_closed.status, errors::Cancelled(single, " 'q' is closed."));
  }
}

TEST(QueueTest, ARandomQueueKeepsSomeElementsUntilClosed) {
  QueueSpec spec = Scalars(10);
  spec.min_after_dequeue = 3;
  const auto q = Make(QueueKind::kRandomShuffle, spec);
  Op in, two, third, close, rest;
  in.EnqueueMany(*q, {1, 2, 3, 4, 5});
  two.DequeueMany(*q, 2);
  EXPECT_TRUE(two.done);
  third.Dequeue(*q);
  EXPECT_FALSE(third.done);
  close.Close(*q);
  EXPECT_TRUE(third.done && third.status.ok());
  rest.DequeueMany(*q, 2);
  EXPECT_EQ(rest.values.size(), 2u);
}

// The order by definition: swap the drawn element with the last, Philox numbers of the seeds.
TEST(QueueTest, ARandomQueueDrawsByItsSeeds) {
  QueueSpec spec = Scalars();
  spec.seed = 87654321;
  spec.seed2 = 42;
  const auto q = Make(QueueKind::kRandomShuffle, spec);
  std::vector<int64_t> model;
  for (int64_t i = 0; i < 20; ++i) model.push_back(i);
  Op in, out;
  in.EnqueueMany(*q, model);
  out.DequeueMany(*q, 20);
  PhiloxRandom philox(87654321, 42);
  std::vector<int64_t> want;
  for (int i = 0; i < 20; i += 4) {
    for (const uint32_t sample : philox()) {
      const size_t at = sample % model.size();
      want.push_back(model[at]);
      model[at] = model.back();
      model.pop_back();
    }
  }
  EXPECT_EQ(out.values, want);
}

TEST(QueueTest, RunNowHasNoEffectWhenItWouldHaveToWait) {
  const auto q = Make(QueueKind::kFifo, Scalars(2));
  Status status;
  Queue::Attempt many;
  many.action = Action::kDequeueMany;
  many.requested = 2;
  Op in, waits;
  in.Enqueue(*q, 1);
  EXPECT_FALSE(q->RunNow(many, &status));
  EXPECT_EQ(q->size(), 1);
  Queue::Attempt batch;
  batch.action = Action::kEnqueueMany;
  batch.requested = 2;
  batch.tensors = {Tensor::Vector<int64_t>({2, 3})};
  EXPECT_FALSE(q->RunNow(batch, &status));
  EXPECT_EQ(q->size(), 1);
  waits.DequeueMany(*q, 2);
  Queue::Attempt one;
  one.action = Action::kDequeue;
  EXPECT_FALSE(q->RunNow(one, &status)) << "another caller's turn";
  EXPECT_TRUE(q->RunNow(batch, &status)) << "1 was gathered";
  EXPECT_THAT(waits.values, ElementsAre(1, 2));
}

TEST(QueueTest, DeclarationsAreChecked) {
  const auto error = [](QueueKind kind, const QueueSpec& spec) { return Queue::Make(kind, spec).status(); };
  QueueSpec spec = Scalars();
  spec.types.clear();
  spec.shapes.clear();
  EXPECT_EQ(error(QueueKind::kFifo, spec), errors::InvalidArgument("Empty component types for queue q"));
  spec = Scalars();
  spec.shapes.push_back(PartialShape({2}));
  EXPECT_EQ(error(QueueKind::kFifo, spec),
            errors::InvalidArgument("Different number of component types.  Types: int64, Shapes: [[], [2]]"));
  EXPECT_EQ(error(QueueKind::kPaddingFifo, spec),
            errors::InvalidArgument(
                "Shapes must be provided for all components, but received 1 dtypes and 2 shapes."));
  spec = Scalars();
  spec.shapes[0] = PartialShape();
  EXPECT_EQ(error(QueueKind::kPaddingFifo, spec),
            errors::InvalidArgument("shape <unknown> must have known rank"));
  spec.shapes[0] = PartialShape({-1});
  EXPECT_TRUE(error(QueueKind::kPaddingFifo, spec).ok());
  EXPECT_TRUE(errors::IsInvalidArgument(error(QueueKind::kFifo, spec)));
  spec = Scalars(4);
  spec.min_after_dequeue = 4;
  EXPECT_EQ(error(QueueKind::kRandomShuffle, spec),
            errors::InvalidArgument("min_after_dequeue 4 must be < capacity 4"));
  spec.min_after_dequeue = -1;
  EXPECT_EQ(error(QueueKind::kRandomShuffle, spec),
            errors::InvalidArgument("min_after_dequeue -1 must be >= 0"));
}

TEST(QueueTest, SharingDemandsTheSameDeclaration) {
  QueueSpec spec = Scalars(7);
  const auto q = Make(QueueKind::kRandomShuffle, spec);
  const auto share = [&](const QueueSpec& want, QueueKind kind = QueueKind::kRandomShuffle) {
    return q->CheckShared(kind, want, "node", "Op");
  };
  EXPECT_TRUE(share(spec).ok());
  EXPECT_EQ(share(spec, QueueKind::kFifo),
            errors::InvalidArgument("Shared queue 'q' has type 'RandomShuffleQueue' that does not match type "
                                    "of Node 'node': Op"));
  QueueSpec other = spec;
  other.capacity = 8;
  EXPECT_EQ(share(other),
            errors::InvalidArgument("Shared queue 'q' has capacity 7 but requested capacity was 8"));
  other = spec;
  other.types = {DataType::kFloat, DataType::kInt32};
  EXPECT_EQ(share(other), errors::InvalidArgument("Shared queue 'q' has component types int64 but requested "
                                                  "component types were float, int32"));
  other = spec;
  other.shapes = {PartialShape({2})};
  EXPECT_EQ(share(other), errors::InvalidArgument("Shared queue 'q' has component shapes [[]] but requested "
                                                  "component shapes were [[2]]"));
  other = spec;
  other.min_after_dequeue = 2;
  EXPECT_EQ(share(other), errors::InvalidArgument("Shared queue 'q' has min_after_dequeue 0 but requested "
                                                  "min_after_dequeue was 2."));
  other = spec;
  other.seed2 = 9;
  EXPECT_EQ(share(other), errors::InvalidArgument("Shared queue 'q' has random seeds (1, 0) but requested "
                                                  "seeds are (1, 9)."));
}

TEST(QueueTest, ElementsAndBatchesAreChecked) {
  QueueSpec spec = Scalars();
  spec.types = {DataType::kFloat, DataType::kInt32};
  spec.shapes.clear();
  const auto free = Make(QueueKind::kFifo, spec);
  const Tensor f = Tensor::Vector<float>({1, 2}), i = Tensor::Vector<int32_t>({1, 2, 3});
  EXPECT_TRUE(free->CheckElement({f, i}).ok());
  EXPECT_EQ(free->CheckElement({f}),
            errors::InvalidArgument("Wrong number of components in tuple. Expected 2, got 1"));
  EXPECT_EQ(free->CheckElement({f, f}),
            errors::InvalidArgument("Type mismatch in tuple component 1. Expected int32, got float"));
  EXPECT_EQ(free->CheckBatch({f, i}),
            errors::InvalidArgument("All input tensors must have the same size in the 0th dimension. "
                                    "Component 1 has 3, and should have 2"));
  EXPECT_TRUE(errors::IsInvalidArgument(free->CheckBatch({Tensor::Scalar(1.0f), i})));
  EXPECT_EQ(free->CheckBatchable(), errors::InvalidArgument("FIFOQueue's DequeueMany and DequeueUpTo require "
                                                            "the components to have specified shapes."));
  spec.shapes = {PartialShape({2}), PartialShape({-1})};
  const auto padding = Make(QueueKind::kPaddingFifo, spec);
  EXPECT_TRUE(padding->CheckElement({f, i}).ok());
  EXPECT_EQ(padding->CheckElement({Tensor::Vector<float>({1}), i}),
            errors::InvalidArgument("Shape mismatch in tuple component 0. Expected [2], got [1]"));
  EXPECT_EQ(padding->CheckBatch({f, i}),
            errors::InvalidArgument("Shape mismatch in tuple component 0. Expected [2,2], got [2]"));
  const auto priority = Make(QueueKind::kPriority, [] {
    QueueSpec p = Scalars();
    p.shapes.clear();
    return p;
  }());
  EXPECT_EQ(priority->CheckElement({Tensor::Vector<int64_t>({1, 2})}),
            errors::InvalidArgument("Expected priority element to be a scalar, but received shape: [2]"));
}

// Random operations, compared with a model of a deque and two lines of waiting operations.
class Model {
 public:
  explicit Model(int64_t capacity) : capacity_(capacity) {}
  struct Waiting {
    size_t op;
    Action action;
    std::deque<int64_t> values;  // enqueue: still to be added; dequeue: collected
    size_t requested;
  };
  std::vector<std::string> results;  // by operation; "" while it waits

  void Submit(size_t op, Action action, std::deque<int64_t> values, size_t requested) {
    results.resize(op + 1);
    (action >= Action::kDequeue ? out_ : in_).push_back({op, action, std::move(values), requested});
    Settle();
  }
  void Cancel(size_t op) {
    for (auto* line : {&in_, &out_}) {
      for (auto w = line->begin(); w != line->end(); ++w) {
        if (w->op != op) continue;
        if (line == &out_) elements_.insert(elements_.begin(), w->values.begin(), w->values.end());
        results[op] = "cancelled";
        line->erase(w);
        return Settle();
      }
    }
  }
  size_t size() const { return elements_.size(); }

 private:
  void Settle() {
    for (bool changed = true; changed;) {
      changed = false;
      while (!in_.empty()) {
        Waiting& w = in_.front();
        if (w.action == Action::kClose) {
          results[w.op] = closed_ ? "closed" : "ok";
          closed_ = true;
        } else if (closed_) {
          results[w.op] = "closed";
        } else {
          while (!w.values.empty() && elements_.size() < static_cast<size_t>(capacity_)) {
            elements_.push_back(w.values.front());
            w.values.pop_front();
            changed = true;
          }
          if (!w.values.empty()) break;
          results[w.op] = "ok";
        }
        changed = true;
        in_.pop_front();
      }
      while (!out_.empty()) {
        Waiting& w = out_.front();
        if (closed_ && elements_.size() < w.requested - w.values.size()) {
          elements_.insert(elements_.begin(), w.values.begin(), w.values.end());
          w.values.clear();
          if (w.action == Action::kDequeueUpTo && !elements_.empty())
            w.requested = elements_.size();
          else {
            results[w.op] = "exhausted";
            out_.pop_front();
            changed = true;
            continue;
          }
        }
        while (w.values.size() < w.requested && !elements_.empty()) {
          w.values.push_back(elements_.front());
          elements_.pop_front();
          changed = true;
        }
        if (w.values.size() < w.requested) break;
        results[w.op] = "got";
        for (const int64_t v : w.values) results[w.op] += " " + std::to_string(v);
        changed = true;
        out_.pop_front();
      }
    }
  }

  const int64_t capacity_;
  bool closed_ = false;
  std::deque<int64_t> elements_;
  std::deque<Waiting> in_, out_;
};

std::string Result(const Op& op, bool dequeue) {
  if (!op.done) return "";
  if (errors::IsOutOfRange(op.status)) return "exhausted";
  if (!op.status.ok())
    return op.status.message().find("cancelled") != std::string::npos ? "cancelled" : "closed";
  if (!dequeue) return "ok";
  std::string text = "got";
  for (const int64_t v : op.values) text += " " + std::to_string(v);
  return text;
}

TEST(QueueTest, RandomOperationsDoWhatTheModelDoes) {
  for (int round = 0; round < 300; ++round) {
    std::mt19937 random(static_cast<unsigned>(round));
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int64_t capacity = 1 + pick(6);
    const auto q = Make(QueueKind::kFifo, Scalars(capacity));
    Model model(capacity);
    std::deque<Op> ops;
    std::vector<Action> actions;
    int64_t next = 0;
    for (int step = 0; step < 60; ++step) {
      const size_t id = ops.size();
      const int what = pick(100);
      if (what < 20 && id > 0) {
        const auto victim = static_cast<size_t>(pick(static_cast<int>(id)));
        ops[victim].cancellation.StartCancel();
        model.Cancel(victim);
        continue;
      }
      Op& op = ops.emplace_back();
      const auto n = static_cast<size_t>(1 + pick(5));
      if (what < 60) {
        std::vector<int64_t> values;
        for (size_t i = 0; i < n; ++i) values.push_back(next++);
        model.Submit(id, actions.emplace_back(Action::kEnqueueMany), {values.begin(), values.end()}, n);
        op.EnqueueMany(*q, values);
      } else if (what < 97) {
        const Action action = what < 80 ? Action::kDequeueMany : Action::kDequeueUpTo;
        model.Submit(id, actions.emplace_back(action), {}, n);
        op.Submit(*q, action, static_cast<int64_t>(n));
      } else {
        model.Submit(id, actions.emplace_back(Action::kClose), {}, 0);
        op.Close(*q);
      }
      for (size_t i = 0; i < ops.size(); ++i) {
        ASSERT_EQ(Result(ops[i], actions[i] >= Action::kDequeue), model.results[i]) << round << " op " << i;
      }
      ASSERT_EQ(static_cast<size_t>(q->size()), model.size());
    }
    for (Op& op : ops) op.cancellation.StartCancel();
  }
}

TEST(QueueTest, ManyThreadsLoseAndRepeatNothing) {
  constexpr int kThreads = 3, kEach = 400;
  for (const QueueKind kind : kAllKinds) {
    const auto q = Make(kind, Scalars(5));
    std::mutex mu;
    std::multiset<int64_t> got;
    std::atomic<int> left{kThreads * kEach};
    std::vector<std::thread> threads;
    // Returns when the operation has ended.
    const auto run = [&](Action action, int64_t requested, std::vector<Tensor> tensors, bool cancelled) {
      CancellationManager cancellation;
      Notification ended;
      Queue::Attempt attempt;
      attempt.action = action;
      attempt.requested = requested;
      attempt.tensors = std::move(tensors);
      attempt.done = [&](const Status& s, Queue::Attempt& a) {
        if (s.ok() && a.is_dequeue()) {
          std::lock_guard lock(mu);
          for (const Tensor& t : a.tensors) got.insert(t.scalar<int64_t>());
          left -= static_cast<int>(a.tensors.size());
        }
        ended.Notify();
      };
      std::thread cancel;
      if (cancelled && requested == 1) cancel = std::thread([&] { cancellation.StartCancel(); });
      q->Submit(std::move(attempt), cancellation);
      if (cancelled && requested != 1) cancellation.StartCancel();
      if (cancel.joinable()) cancel.join();
      ended.Wait();
    };
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t v = t * kEach; v < (t + 1) * kEach; v += 4) {
          run(Action::kEnqueueMany, 4, {Tensor::Vector<int64_t>({v, v + 1, v + 2, v + 3})}, false);
        }
      });
      threads.emplace_back([&] {
        // Some are cancelled from another thread while they may be about to end.
        for (int i = 0; left > 0; ++i) run(Action::kDequeueMany, 1 + i % 3, {}, true);
      });
    }
    for (std::thread& t : threads) t.join();
    ASSERT_EQ(got.size(), static_cast<size_t>(kThreads * kEach));
    int64_t want = 0;
    for (const int64_t v : got) ASSERT_EQ(v, want++);
  }
}

}  // namespace
}  // namespace millrace
