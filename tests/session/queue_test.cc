// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Queues between steps of a session.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "base/notification.h"
#include "session/direct_session.h"
#include "tensor/testing.h"
#include "tests/session/def_builder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::vector<int32_t> Values(const Tensor& t) {
  const auto flat = t.flat<int32_t>();
  return {flat.begin(), flat.end()};
}

// Both kinds of handles, one thread and two.
struct Setup {
  const char* version;
  int threads;
};
void PrintTo(const Setup& s, std::ostream* os) { *os << "V" << s.version << "threads" << s.threads; }

class SessionQueueTest : public ::testing::TestWithParam<Setup> {
 protected:
  std::string V(const std::string& op) const { return op + GetParam().version; }

  // A queue of one int32 scalar.
  tensorflow::NodeDef* Queue(const std::string& name, const std::string& op = "FIFOQueue",
                             int64_t capacity = -1) {
    tensorflow::NodeDef* node = graph_.Add(name, V(op), {});
    (*node->mutable_attr())["component_types"].mutable_list()->add_type(tensorflow::DT_INT32);
    (*node->mutable_attr())["shapes"].mutable_list()->add_shape();
    (*node->mutable_attr())["capacity"].set_i(capacity);
    return node;
  }
  // <queue>/{enqueue,enqueue_many,dequeue,many,up_to,close,cancel,size,closed}, fed by x, xs and n.
  void Access(const std::string& queue) {
    const auto typed = [&](const std::string& name, const std::string& op, const char* attr,
                           std::vector<std::string> inputs) {
      inputs.insert(inputs.begin(), queue);
      tensorflow::NodeDef* node = graph_.Add(queue + "/" + name, V(op), inputs);
      (*node->mutable_attr())[attr].mutable_list()->add_type(tensorflow::DT_INT32);
    };
    typed("enqueue", "QueueEnqueue", "Tcomponents", {"x"});
    typed("enqueue_many", "QueueEnqueueMany", "Tcomponents", {"xs"});
    typed("dequeue", "QueueDequeue", "component_types", {});
    typed("many", "QueueDequeueMany", "component_types", {"n"});
    typed("up_to", "QueueDequeueUpTo", "component_types", {"n"});
    graph_.Add(queue + "/close", V("QueueClose"), {queue});
    auto* cancel = graph_.Add(queue + "/cancel", V("QueueClose"), {queue});
    (*cancel->mutable_attr())["cancel_pending_enqueues"].set_b(true);
    graph_.Add(queue + "/size", V("QueueSize"), {queue});
    graph_.Add(queue + "/closed", V("QueueIsClosed"), {queue});
  }
  void SetUp() override {
    for (const char* name : {"x", "xs", "n"}) graph_.Placeholder(name, tensorflow::DT_INT32);
  }
  std::unique_ptr<Session> Make() {
    SessionOptions o;
    o.inter_op_parallelism_threads = GetParam().threads;
    o.intra_op_parallelism_threads = 1;
    return SessionWith(graph_, o);
  }
  static Status Enqueue(Session& s, int32_t value, const std::string& queue = "q") {
    return s.Run({{"x", Tensor::Scalar(value)}}, {}, {queue + "/enqueue"}, nullptr);
  }
  static Status EnqueueMany(Session& s, const std::vector<int32_t>& values, const std::string& queue = "q") {
    return s.Run({{"xs", Tensor::Vector(values)}}, {}, {queue + "/enqueue_many"}, nullptr);
  }
  static StatusOr<Tensor> Get(Session& s, const std::string& fetch, int32_t n = 0) {
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(s.Run({{"n", Tensor::Scalar(n)}}, {fetch}, {}, &out));
    return out[0];
  }
  static Status RunFor(Session& s, int64_t timeout_ms, const std::string& target) {
    RunOptions options;
    options.timeout_in_ms = timeout_ms;
    return s.Run(
        options,
        {{"x", Tensor::Scalar(7)}, {"xs", Tensor::Vector<int32_t>({7, 8})}, {"n", Tensor::Scalar(4)}}, {},
        {target}, nullptr, nullptr);
  }

  DefBuilder graph_;
};

TEST_P(SessionQueueTest, ElementsLiveFromRunToRun) {
  Queue("q");
  Access("q");
  const auto s = Make();
  ASSERT_TRUE(Enqueue(*s, 1).ok());
  ASSERT_TRUE(EnqueueMany(*s, {2, 3, 4, 5, 6}).ok());
  ASSERT_TRUE(EnqueueMany(*s, {}).ok());
  EXPECT_EQ(Get(*s, "q/size")->scalar<int32_t>(), 6);
  EXPECT_EQ(Get(*s, "q/dequeue")->scalar<int32_t>(), 1);
  const auto many = Get(*s, "q/many", 3);
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_EQ(Values(*many), (std::vector<int32_t>{2, 3, 4}));
  EXPECT_EQ(Get(*s, "q/many", 0)->shape(), TensorShape({0}));
  EXPECT_FALSE(Get(*s, "q/closed")->scalar<bool>());
  ASSERT_TRUE(s->Run({}, {}, {"q/close"}, nullptr).ok());
  EXPECT_TRUE(Get(*s, "q/closed")->scalar<bool>());
  EXPECT_EQ(Values(*Get(*s, "q/up_to", 5)), (std::vector<int32_t>{5, 6}));
  const Status empty = Get(*s, "q/dequeue").status();
  EXPECT_TRUE(errors::IsOutOfRange(empty));
  EXPECT_THAT(std::string(empty.message()),
              ::testing::ContainsRegex("^FIFOQueue '_[0-9]+_q' is closed and has insufficient elements "
                                       "\\(requested 1, current size 0\\)"));
  const Status closed = Enqueue(*s, 1);
  EXPECT_TRUE(errors::IsCancelled(closed));
  EXPECT_THAT(closed.ToString(), HasSubstr("_q' is closed."));
  const Status again = s->Run({}, {}, {"q/close"}, nullptr);
  EXPECT_TRUE(errors::IsCancelled(again));
  EXPECT_THAT(again.ToString(), HasSubstr("_q' is already closed."));
  EXPECT_TRUE(s->Run({}, {}, {"q/cancel"}, nullptr).ok());
}

TEST_P(SessionQueueTest, WithinOneStepADequeueWaitsForTheEnqueue) {
  Queue("q");
  Access("q");
  const auto s = Make();
  for (int i = 0; i < 20; ++i) {
    std::vector<Tensor> out;
    // The names sort the dequeues before the enqueue.
    ASSERT_TRUE(s->Run({{"xs", Tensor::Vector<int32_t>({i, i + 1, i + 2})}, {"n", Tensor::Scalar(2)}},
                       {"q/dequeue", "q/many"}, {"q/enqueue_many"}, &out)
                    .ok());
    std::multiset<int32_t> got{out[0].scalar<int32_t>(), out[1].data<int32_t>()[0],
                               out[1].data<int32_t>()[1]};
    EXPECT_EQ(got, (std::multiset<int32_t>{i, i + 1, i + 2}));
  }
}

TEST_P(SessionQueueTest, BlockedOperationsEndAtTheirDeadline) {
  Queue("empty");
  Access("empty");
  Queue("full", "FIFOQueue", 1);
  Access("full");
  const auto s = Make();
  ASSERT_TRUE(Enqueue(*s, 1, "full").ok());
  for (const char* target :
       {"empty/dequeue", "empty/many", "empty/up_to", "full/enqueue", "full/enqueue_many", "full/many"}) {
    EXPECT_TRUE(errors::IsDeadlineExceeded(RunFor(*s, 5, target))) << target;
  }
  EXPECT_EQ(Get(*s, "full/size")->scalar<int32_t>(), 1) << "what full/many had gathered is back";
  EXPECT_EQ(Get(*s, "full/dequeue")->scalar<int32_t>(), 1);
  ASSERT_TRUE(Enqueue(*s, 2, "empty").ok());
  EXPECT_EQ(Get(*s, "empty/dequeue")->scalar<int32_t>(), 2) << "cancelled callers do not take it";
}

TEST_P(SessionQueueTest, ClosingTheSessionEndsWhatIsBlocked) {
  Queue("empty");
  Access("empty");
  Queue("full", "FIFOQueue", 1);
  Access("full");
  const auto s = Make();
  ASSERT_TRUE(Enqueue(*s, 1, "full").ok());
  std::vector<std::thread> threads;
  std::atomic<int> started{0}, cancelled{0};
  for (const char* target :
       {"empty/dequeue", "empty/many", "empty/up_to", "full/enqueue", "full/enqueue_many"}) {
    threads.emplace_back([&, target] {
      ++started;
      if (errors::IsCancelled(RunFor(*s, 0, target))) ++cancelled;
    });
  }
  while (started < 5) std::this_thread::yield();
  ASSERT_TRUE(s->Close().ok());
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(cancelled, 5);
}

TEST_P(SessionQueueTest, ResetEndsWhatIsBlockedAndDropsTheQueue) {
  Queue("q");
  Access("q");
  const auto s = Make();
  Status blocked;
  std::thread thread([&] { blocked = RunFor(*s, 0, "q/dequeue"); });
  ASSERT_TRUE(Reset(SessionOptions(), {}).ok());
  thread.join();
  EXPECT_TRUE(errors::IsCancelled(blocked)) << blocked;
  const Status after = Enqueue(*s, 1);
  EXPECT_THAT(after.ToString(), HasSubstr("Session has been closed."));
}

TEST_P(SessionQueueTest, ManyProducersAndConsumers) {
  for (const char* kind : {"FIFOQueue", "RandomShuffleQueue", "PaddingFIFOQueue"}) {
    graph_ = DefBuilder();
    SetUp();
    Queue("q", kind, 7);
    Access("q");
    const auto s = Make();
    constexpr int kThreads = 4, kEach = 120;
    std::vector<std::thread> producers, consumers;
    std::atomic<int> wrong{0};
    std::mutex mu;
    std::multiset<int32_t> got;
    for (int t = 0; t < kThreads; ++t) {
      producers.emplace_back([&, t] {
        for (int i = 0; i < kEach; i += 3) {
          const int32_t v = t * kEach + i;
          if (!Enqueue(*s, v).ok() || !EnqueueMany(*s, {v + 1, v + 2}).ok()) ++wrong;
        }
      });
      consumers.emplace_back([&, t] {
        while (true) {
          const auto out = t % 2 == 0 ? Get(*s, "q/up_to", 5) : Get(*s, "q/dequeue");
          if (!out.ok()) {
            if (!errors::IsOutOfRange(out.status())) ++wrong;
            return;
          }
          const std::lock_guard lock(mu);
          for (const int32_t v : Values(*out)) got.insert(v);
        }
      });
    }
    for (std::thread& t : producers) t.join();
    ASSERT_TRUE(s->Run({}, {}, {"q/close"}, nullptr).ok());
    for (std::thread& t : consumers) t.join();
    EXPECT_EQ(wrong, 0);
    ASSERT_EQ(got.size(), static_cast<size_t>(kThreads * kEach)) << kind;
    int32_t want = 0;
    for (const int32_t v : got) ASSERT_EQ(v, want++);
  }
}

TEST_P(SessionQueueTest, ClosingWithCancelEndsProducers) {
  Queue("q", "FIFOQueue", 1);
  Access("q");
  const auto s = Make();
  std::vector<std::thread> producers;
  producers.reserve(3);
  std::atomic<int> cancelled{0};
  for (int t = 0; t < 3; ++t) {
    producers.emplace_back([&] {
      Status status;
      while (status.ok()) status = Enqueue(*s, 1);
      if (errors::IsCancelled(status)) ++cancelled;
    });
  }
  while (Get(*s, "q/size")->scalar<int32_t>() == 0) std::this_thread::yield();
  ASSERT_TRUE(s->Run({}, {}, {"q/cancel"}, nullptr).ok());
  for (std::thread& t : producers) t.join();
  EXPECT_EQ(cancelled, 3);
  EXPECT_EQ(Get(*s, "q/size")->scalar<int32_t>(), 1);
}

TEST_P(SessionQueueTest, NodesWithTheSameSharedNameShareTheQueue) {
  for (const char* name : {"a", "b", "c"}) {
    auto* node = Queue(name, "FIFOQueue", name[0] == 'c' ? 5 : -1);
    (*node->mutable_attr())["shared_name"].set_s("common");
    Access(name);
  }
  (*Queue("elsewhere")->mutable_attr())["container"].set_s("box");
  Access("elsewhere");
  const auto s = Make();
  ASSERT_TRUE(Enqueue(*s, 3, "a").ok());
  EXPECT_EQ(Get(*s, "b/dequeue")->scalar<int32_t>(), 3);
  EXPECT_EQ(Get(*s, "elsewhere/size")->scalar<int32_t>(), 0);
  EXPECT_THAT(Get(*s, "c/size").status().ToString(),
              HasSubstr("Shared queue 'common' has capacity 2147483647 but requested capacity was 5"));
}

TEST_P(SessionQueueTest, BadUsesAreRefused) {
  Queue("q");
  Access("q");
  auto* wrong = graph_.Add("wrong", V("QueueEnqueue"), {"q", "f"});
  (*wrong->mutable_attr())["Tcomponents"].mutable_list()->add_type(tensorflow::DT_FLOAT);
  graph_.Placeholder("f");
  auto* timed = graph_.Add("timed", V("QueueDequeue"), {"q"});
  (*timed->mutable_attr())["component_types"].mutable_list()->add_type(tensorflow::DT_INT32);
  (*timed->mutable_attr())["timeout_ms"].set_i(10);
  const auto s = Make();
  const std::string handle = GetParam().version[0] != '\0' ? "resource" : "string_ref";
  EXPECT_THAT(
      s->Run({{"f", Tensor::Scalar(1.0f)}}, {}, {"wrong"}, nullptr).ToString(),
      HasSubstr("Signature mismatch, have: " + handle + ", float-> expected: " + handle + ", int32->"));
  EXPECT_THAT(Get(*s, "timed").status().ToString(), HasSubstr("Timeout not supported."));
  EXPECT_THAT(Get(*s, "q/many", -1).status().ToString(),
              HasSubstr("DequeueManyOp requested -1 < 0 elements"));
  EXPECT_THAT(Get(*s, "q/up_to", -2).status().ToString(),
              HasSubstr("DequeueUpToOp requested -2 < 0 elements"));
  EXPECT_THAT(s->Run({{"x", Tensor::Vector<int32_t>({1})}}, {}, {"q/enqueue"}, nullptr).ToString(),
              HasSubstr("Shape mismatch in tuple component 0. Expected [], got [1]"));
  EXPECT_THAT(s->Run({{"xs", Tensor::Scalar<int32_t>(1)}}, {}, {"q/enqueue_many"}, nullptr).ToString(),
              HasSubstr("at least rank 1"));
}

INSTANTIATE_TEST_SUITE_P(Setups, SessionQueueTest,
                         ::testing::Values(Setup{"", 1}, Setup{"V2", 1}, Setup{"", 2}, Setup{"V2", 2}));

// A padding queue of strings and of int32 matrices of unknown width.
TEST(SessionPaddingQueueTest, RowsGrowToTheLargest) {
  DefBuilder g;
  g.Placeholder("s", tensorflow::DT_STRING);
  g.Placeholder("m", tensorflow::DT_INT32);
  g.Const("two", Tensor::Scalar<int32_t>(2));
  auto* q = g.Add("q", "PaddingFIFOQueueV2", {});
  const auto types = [](tensorflow::NodeDef* node, const char* attr) {
    auto* list = (*node->mutable_attr())[attr].mutable_list();
    list->add_type(tensorflow::DT_STRING);
    list->add_type(tensorflow::DT_INT32);
  };
  types(q, "component_types");
  auto* shapes = (*q->mutable_attr())["shapes"].mutable_list();
  shapes->add_shape()->add_dim()->set_size(-1);
  auto* matrix = shapes->add_shape();
  matrix->add_dim()->set_size(2);
  matrix->add_dim()->set_size(-1);
  types(g.Add("in", "QueueEnqueueV2", {"q", "s", "m"}), "Tcomponents");
  types(g.Add("out", "QueueDequeueManyV2", {"q", "two"}), "component_types");
  const auto session = SessionWith(g);
  const auto put = [&](const Tensor& strings, const Tensor& ints) {
    return session->Run({{"s", strings}, {"m", ints}}, {}, {"in"}, nullptr);
  };
  ASSERT_TRUE(put(Tensor::Vector<std::string>({"a"}), AsTensor<int32_t>({1, 2, 3, 4, 5, 6}, {2, 3})).ok());
  ASSERT_TRUE(put(Tensor::Vector<std::string>({"b", "c"}), AsTensor<int32_t>({7, 8}, {2, 1})).ok());
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({}, {"out:0", "out:1"}, {}, &out).ok());
  EXPECT_TRUE(TensorsEqual(AsTensor<std::string>({"a", "", "b", "c"}, {2, 2}), out[0]));
  EXPECT_TRUE(TensorsEqual(AsTensor<int32_t>({1, 2, 3, 4, 5, 6, 7, 0, 0, 8, 0, 0}, {2, 2, 3}), out[1]));
}

}  // namespace
}  // namespace millrace
