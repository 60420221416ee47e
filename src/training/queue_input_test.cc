// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/queue_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "graph/graph.h"
#include "millrace/client_session.h"
#include "millrace/coordinator.h"
#include "millrace/meta_graph.h"
#include "millrace/ops.h"
#include "millrace/variables.h"

namespace millrace {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::vector<int32_t> Ints(const Tensor& tensor) {
  const auto flat = tensor.flat<int32_t>();
  return {flat.begin(), flat.end()};
}

// A session whose queues are being filled.
class Running {
 public:
  explicit Running(const Scope& scope) : session_(scope) {
    Check(scope.status());
    Check(session_.Run({}, {}, {LocalVariablesInitializer(scope)}, nullptr));
    Check(StartQueueRunners(scope, *session_.session(), coordinator_));
  }
  ~Running() {
    coordinator_.RequestStop();
    Check(coordinator_.Join());
  }

  // The values of each run until the input ends, or of at most `most` runs.
  std::vector<std::vector<Tensor>> Take(const std::vector<Output>& fetches, int most = 1000) {
    std::vector<std::vector<Tensor>> all;
    while (static_cast<int>(all.size()) < most) {
      std::vector<Tensor> values;
      const Status status = session_.Run(fetches, &values);
      if (!status.ok()) {
        EXPECT_EQ(status.code(), ErrorCode::kOutOfRange) << status;
        break;
      }
      all.push_back(std::move(values));
    }
    return all;
  }

 private:
  static void Check(const Status& status) { EXPECT_TRUE(status.ok()) << status; }

  ClientSession session_;
  Coordinator coordinator_;
};

std::vector<std::string> Names(const Scope& scope) {
  std::vector<std::string> names;
  for (const Node* node : scope.graph().OpNodes()) names.push_back(node->name());
  return names;
}

// A queue of 0 … n-1 for that number of epochs, in order, and an element of it.
Output Numbers(const Scope& scope, int n, int64_t epochs) {
  const Output queue = RangeInputProducer(scope, n, {.num_epochs = epochs, .shuffle = false});
  return ops::QueueDequeueV2(scope, queue, {DataType::kInt32})[0];
}

TEST(QueueInput, NamesOfAProducerAreThoseOfTheClientInPython) {
  const Scope scope = Scope::NewRootScope();
  const Output queue = StringInputProducer(scope, {"a", "b"}, {.num_epochs = 2});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(Scope::NameOf(queue), "input_producer");
  for (const char* name : {"input_producer/Const",
                           "input_producer/Size",
                           "input_producer/Greater/y",
                           "input_producer/Greater",
                           "input_producer/Assert/Const",
                           "input_producer/Assert/Assert",
                           "input_producer/Identity",
                           "input_producer/RandomShuffle",
                           "input_producer/limit_epochs/Const",
                           "input_producer/limit_epochs/epochs",
                           "input_producer/limit_epochs/epochs/Assign",
                           "input_producer/limit_epochs/epochs/read",
                           "input_producer/limit_epochs/CountUpTo",
                           "input_producer/limit_epochs",
                           "input_producer/input_producer_EnqueueMany",
                           "input_producer/input_producer_Close",
                           "input_producer/input_producer_Close_1",
                           "input_producer/input_producer_Size",
                           "input_producer/Cast",
                           "input_producer/mul/y",
                           "input_producer/mul",
                           "input_producer/fraction_of_32_full/tags",
                           "input_producer/fraction_of_32_full"}) {
    EXPECT_THAT(Names(scope), Contains(name));
  }
  ASSERT_EQ(LocalVariables(scope).size(), 1);
  EXPECT_EQ(LocalVariables(scope)[0].name(), "input_producer/limit_epochs/epochs");
  EXPECT_TRUE(GlobalVariables(scope).empty());
}

TEST(QueueInput, NamesOfABatchAreThoseOfTheClientInPython) {
  const Scope scope = Scope::NewRootScope();
  const auto batch =
      ShuffleBatch(scope, {ops::Const(scope, 1)}, 4, {.min_after_dequeue = 2}, {.capacity = 10});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(Scope::NameOf(batch[0]), "shuffle_batch");
  for (const char* name :
       {"shuffle_batch/Const", "shuffle_batch/random_shuffle_queue",
        "shuffle_batch/random_shuffle_queue_enqueue", "shuffle_batch/random_shuffle_queue_Close",
        "shuffle_batch/random_shuffle_queue_Close_1", "shuffle_batch/random_shuffle_queue_Size",
        "shuffle_batch/sub/y", "shuffle_batch/sub", "shuffle_batch/Maximum/x", "shuffle_batch/Maximum",
        "shuffle_batch/Cast", "shuffle_batch/mul/y", "shuffle_batch/mul",
        "shuffle_batch/fraction_over_2_of_8_full/tags", "shuffle_batch/fraction_over_2_of_8_full",
        "shuffle_batch/n", "shuffle_batch"}) {
    EXPECT_THAT(Names(scope), Contains(name));
  }
  EXPECT_EQ(scope.ShapeOf(batch[0]), PartialShape({4}));
}

TEST(QueueInput, EpochsInOrderAndShuffled) {
  const Scope scope = Scope::NewRootScope();
  const Output ordered = Numbers(scope.WithOpName("ordered"), 3, 2);
  const Output queue =
      RangeInputProducer(scope.WithOpName("mixed"), 20, {.num_epochs = 2, .shuffle = true, .seed = 3});
  const Output mixed = ops::QueueDequeueV2(scope, queue, {DataType::kInt32})[0];
  Running running(scope);
  std::vector<int32_t> seen;
  for (const auto& values : running.Take({ordered})) seen.push_back(values[0].scalar<int32_t>());
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 0, 1, 2));
  seen.clear();
  for (const auto& values : running.Take({mixed})) seen.push_back(values[0].scalar<int32_t>());
  ASSERT_EQ(seen.size(), 40);
  EXPECT_FALSE(std::is_sorted(seen.begin(), seen.begin() + 20));
  EXPECT_FALSE(std::equal(seen.begin(), seen.begin() + 20, seen.begin() + 20));
  for (const int half : {0, 20}) {
    EXPECT_EQ(std::set<int32_t>(seen.begin() + half, seen.begin() + half + 20).size(), 20);
  }
}

TEST(QueueInput, SlicesOfSeveralTensorsStayTogether) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Const(scope, {{1, 10}, {2, 20}, {3, 30}});
  const Output y = ops::Const(scope, {-1, -2, -3});
  const auto slices = SliceInputProducer(scope, {x, y}, {.num_epochs = 1});
  Running running(scope);
  std::set<int32_t> seen;
  for (const auto& values : running.Take(slices)) {
    const int32_t i = -values[1].scalar<int32_t>();
    EXPECT_THAT(Ints(values[0]), ElementsAre(i, 10 * i));
    seen.insert(i);
  }
  EXPECT_EQ(seen.size(), 3);
}

TEST(QueueInput, BatchesAndTheSmallerLast) {
  for (const bool smaller : {false, true}) {
    const Scope scope = Scope::NewRootScope();
    const Output i = Numbers(scope, 7, 1);
    const auto batch = Batch(scope, {i, ops::Mul(scope, i, i)}, 3, {.allow_smaller_final_batch = smaller});
    Running running(scope);
    const auto all = running.Take(batch);
    ASSERT_EQ(all.size(), smaller ? 3 : 2);
    EXPECT_THAT(Ints(all[0][0]), ElementsAre(0, 1, 2));
    EXPECT_THAT(Ints(all[1][1]), ElementsAre(9, 16, 25));
    if (smaller) {
      EXPECT_THAT(Ints(all[2][0]), ElementsAre(6));
    }
  }
}

TEST(QueueInput, SeveralThreadsAndSourcesLoseNothing) {
  const Scope scope = Scope::NewRootScope();
  const auto shuffled = ShuffleBatch(scope, {Numbers(scope, 50, 1)}, 5, {.min_after_dequeue = 10, .seed = 1},
                                     {.num_threads = 4, .capacity = 20});
  const Output more = ops::Add(scope, Numbers(scope, 25, 1), 100);
  const auto joined = BatchJoin(scope, {{Numbers(scope, 25, 1)}, {more}}, 5);
  Running running(scope);
  std::multiset<int32_t> seen;
  for (const auto& values : running.Take(shuffled)) {
    for (const int32_t i : Ints(values[0])) seen.insert(i);
  }
  EXPECT_EQ(std::set<int32_t>(seen.begin(), seen.end()).size(), 50);
  EXPECT_EQ(seen.size(), 50);
  seen.clear();
  for (const auto& values : running.Take(joined)) {
    for (const int32_t i : Ints(values[0])) seen.insert(i);
  }
  EXPECT_EQ(seen.size(), 50);
  EXPECT_EQ(*seen.rbegin(), 124);
}

TEST(QueueInput, ManyAtATimeAndOnlySomeOfThem) {
  const Scope scope = Scope::NewRootScope();
  const Output queue = InputProducer(scope, {{1, 2}, {3, 4}, {5, 6}}, {.num_epochs = 1, .shuffle = false});
  const Output pair = ops::QueueDequeueV2(scope, queue, {DataType::kInt32})[0];
  const Output rows = ops::EnsureShape(scope, pair, PartialShape({2}));
  const auto all = Batch(scope, {rows}, 2,
                         {.enqueue_many = true,
                          .allow_smaller_final_batch = true,
                          .keep_input = Input(ops::Greater(scope, rows, 2))});
  const Output number = Numbers(scope, 6, 1);
  const auto odd =
      Batch(scope, {number}, 3, {.keep_input = Input(ops::Equal(scope, ops::FloorMod(scope, number, 2), 1))});
  Running running(scope);
  std::vector<int32_t> seen;
  for (const auto& values : running.Take(all)) {
    for (const int32_t i : Ints(values[0])) seen.push_back(i);
  }
  EXPECT_THAT(seen, ElementsAre(3, 4, 5, 6));
  const auto batches = running.Take(odd);
  ASSERT_EQ(batches.size(), 1);
  EXPECT_THAT(Ints(batches[0][0]), ElementsAre(1, 3, 5));
}

TEST(QueueInput, BucketsHaveExamplesOfOneKind) {
  const Scope scope = Scope::NewRootScope();
  const Output length = Numbers(scope, 12, 1);
  const Output sequence = ops::Fill(scope, ops::ExpandDims(scope, length, 0), length);
  const auto batches = BucketBySequenceLength(scope, length, {sequence}, 2, {4, 8},
                                              {.dynamic_pad = true, .allow_smaller_final_batch = true});
  Running running(scope);
  std::multiset<int32_t> lengths;
  for (const auto& values : running.Take(batches)) {
    const std::vector<int32_t> of_batch = Ints(values[0]);
    const int32_t longest = *std::max_element(of_batch.begin(), of_batch.end());
    for (size_t row = 0; row < of_batch.size(); ++row) {
      EXPECT_EQ(of_batch[row] / 4, longest / 4);
      for (int32_t i = 0; i < longest; ++i) {
        EXPECT_EQ(values[1].matrix<int32_t>()(static_cast<int64_t>(row), i),
                  i < of_batch[row] ? of_batch[row] : 0);
      }
    }
    EXPECT_EQ(values[1].shape().dim(1), longest);
    lengths.insert(of_batch.begin(), of_batch.end());
  }
  EXPECT_THAT(lengths, UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(QueueInput, WrongArgumentsAreErrors) {
  const auto error = [](const std::function<void(const Scope&)>& add) {
    const Scope scope = Scope::NewRootScope();
    add(scope);
    EXPECT_EQ(scope.status().code(), ErrorCode::kInvalidArgument);
    return scope.status().message();
  };
  EXPECT_THAT(
      error([](const Scope& s) { StringInputProducer(s, Tensor::Vector(std::vector<std::string>())); }),
      HasSubstr("string_input_producer requires a non-null input tensor"));
  EXPECT_THAT(error([](const Scope& s) { RangeInputProducer(s, 3, {.num_epochs = 0}); }),
              HasSubstr("num_epochs must be > 0 not 0."));
  EXPECT_THAT(error([](const Scope& s) { SliceInputProducer(s, {}); }),
              HasSubstr("Expected at least one tensor in slice_input_producer()."));
  EXPECT_THAT(error([](const Scope& s) { Batch(s, {}, 3); }),
              HasSubstr("Expected at least one tensor in batch()."));
  EXPECT_THAT(error([](const Scope& s) { BatchJoin(s, {}, 3); }),
              HasSubstr("Expected at least one input in batch_join()."));
  EXPECT_THAT(error([](const Scope& s) {
                ShuffleBatch(s, {ops::Const(s, 1)}, 3, {.min_after_dequeue = 9}, {.capacity = 9});
              }),
              HasSubstr("capacity 9 must be bigger than min_after_dequeue 9."));
  EXPECT_THAT(error([](const Scope& s) { Batch(s, {ops::Placeholder(s, DataType::kFloat)}, 3); }),
              HasSubstr("Cannot infer Tensor's rank: Placeholder"));
  EXPECT_THAT(error([](const Scope& s) {
                Batch(s, {ops::Const(s, 1)}, 3, {.keep_input = Input({true, false})});
              }),
              HasSubstr("`keep_input` cannot be a vector when `enqueue_many=False`."));
  EXPECT_THAT(error([](const Scope& s) {
                BatchJoin(s, {{ops::Const(s, 1)}, {ops::Const(s, 1.f)}}, 3);
              }),
              HasSubstr("Expected types to be consistent"));
  EXPECT_THAT(error([](const Scope& s) {
                BatchJoin(s, {{ops::Const(s, 1)}, {ops::Const(s, {1})}}, 3);
              }),
              HasSubstr("another source"));
  EXPECT_THAT(error([](const Scope& s) {
                BucketBySequenceLength(s, ops::Const(s, 1), {ops::Const(s, 1)}, 2, {8, 4});
              }),
              HasSubstr("strictly increasing"));
  EXPECT_THAT(error([](const Scope& s) { InputProducer(s, Output(ops::Placeholder(s, DataType::kFloat))); }),
              HasSubstr("`element_shape` must be specified"));
}

}  // namespace
}  // namespace millrace
