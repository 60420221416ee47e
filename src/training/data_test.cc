// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "base/env.h"
#include "base/mutex.h"
#include "base/notification.h"
#include "io/record_file.h"
#include "millrace/client_session.h"
#include "millrace/hooks.h"
#include "millrace/ops.h"
#include "millrace/variables.h"
#include "tensorflow/core/framework/summary.pb.h"
#include "training/saved_model_testing.h"

namespace millrace {
namespace {

using saved_model_testing::NewFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<int64_t> Ints(const Tensor& tensor) {
  if (tensor.dtype() != DataType::kInt64) {
    ADD_FAILURE() << tensor.ToString();
    return {};
  }
  const auto flat = tensor.flat<int64_t>();
  return {flat.begin(), flat.end()};
}

// All elements of an iterator, or the wanted number; then the status.
struct Elements {
  std::vector<std::vector<Tensor>> values;
  Status status;
};
Elements Take(const ClientSession& session, const std::vector<Output>& next, size_t most = 1000) {
  Elements all;
  while (all.values.size() < most) {
    std::vector<Tensor> values;
    all.status = session.Run(next, &values);
    if (!all.status.ok()) break;
    all.values.push_back(std::move(values));
  }
  return all;
}

// The first components of all elements of a dataset.
std::vector<std::vector<int64_t>> Read(const Dataset& dataset) {
  const Scope& scope = dataset.scope();
  const Iterator iterator = Iterator::Initializable(dataset);
  const auto next = iterator.GetNext(scope);
  EXPECT_TRUE(scope.ok()) << scope.status();
  ClientSession session(scope);
  const Status status = session.Run({}, {}, {iterator.initializer()}, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  const Elements all = Take(session, next);
  EXPECT_EQ(all.status.code(), ErrorCode::kOutOfRange) << all.status;
  std::vector<std::vector<int64_t>> result;
  for (const auto& values : all.values) result.push_back(Ints(values[0]));
  return result;
}

std::vector<int64_t> ReadScalars(const Dataset& dataset) {
  std::vector<int64_t> result;
  for (const auto& element : Read(dataset)) result.insert(result.end(), element.begin(), element.end());
  return result;
}

Dataset Numbers(int64_t stop) { return Dataset::Range(Scope::NewRootScope(), stop); }

std::vector<Output> Square(const Scope& scope, const std::vector<Output>& x) {
  return {ops::Mul(scope, x[0], x[0])};
}

TEST(Dataset, StagesOneAfterTheOther) {
  EXPECT_THAT(ReadScalars(Numbers(5).Map(Square)), ElementsAre(0, 1, 4, 9, 16));
  EXPECT_THAT(ReadScalars(Numbers(5).Map(Square, {.num_parallel_calls = 3})), ElementsAre(0, 1, 4, 9, 16));
  EXPECT_THAT(Read(Numbers(5).Batch(2)), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_THAT(Read(Numbers(5).Batch(2, /*drop_remainder=*/true)),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(ReadScalars(Numbers(3).Repeat(2)), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(ReadScalars(Numbers(9).Skip(int64_t{2}).Take(int64_t{3}).Prefetch(2)), ElementsAre(2, 3, 4));
  EXPECT_THAT(ReadScalars(Numbers(9).Shard(4, 1).Cache().Repeat(2)), ElementsAre(1, 5, 1, 5));
  EXPECT_THAT(ReadScalars(Numbers(0)), IsEmpty());
}

TEST(Dataset, ShapesAndTypesAreKnown) {
  const Dataset batch = Numbers(5).Map(Square).Batch(2);
  EXPECT_THAT(batch.types(), ElementsAre(DataType::kInt64));
  EXPECT_THAT(batch.shapes(), ElementsAre(PartialShape({-1})));
  EXPECT_THAT(Numbers(5).Batch(2, true).shapes(), ElementsAre(PartialShape({2})));
  const Scope scope = Scope::NewRootScope();
  const Dataset rows = Dataset::FromTensorSlices(scope, {ops::Const(scope, {{1.f, 2.f}})});
  EXPECT_THAT(rows.shapes(), ElementsAre(PartialShape({2})));
}

TEST(Dataset, FunctionsTakeTensorsFromOutside) {
  const Scope scope = Scope::NewRootScope();
  const Output offset = ops::Const(scope, int64_t{10});
  const Dataset numbers = Dataset::Range(scope, int64_t{4});
  const auto add = [&](const Scope& s, const std::vector<Output>& x) -> std::vector<Output> {
    return {ops::Add(s, ops::Add(s, x[0], offset), offset)};
  };
  const auto even = [](const Scope& s, const std::vector<Output>& x) -> std::vector<Output> {
    return {ops::Equal(s, ops::FloorMod(s, x[0], int64_t{2}), int64_t{0})};
  };
  EXPECT_THAT(ReadScalars(numbers.Map(add)), ElementsAre(20, 21, 22, 23));
  EXPECT_THAT(ReadScalars(numbers.Filter(even)), ElementsAre(0, 2));
  // Captured through two functions.
  const auto nested = [&](const Scope& s, const std::vector<Output>& x) {
    return Dataset::Range(s, x[0]).Map(add);
  };
  EXPECT_THAT(ReadScalars(numbers.FlatMap(nested)), ElementsAre(20, 20, 21, 20, 21, 22));
}

TEST(Dataset, InterleavesDatasets) {
  const auto repeated = [](const Scope& s, const std::vector<Output>& x) {
    return Dataset::FromTensors(s, x).Repeat(3);
  };
  for (const bool parallel : {false, true}) {
    Dataset::InterleaveOptions options{.cycle_length = 2, .block_length = 1};
    if (parallel) options.num_parallel_calls = 2;
    EXPECT_THAT(ReadScalars(Numbers(3).Interleave(repeated, options)),
                ElementsAre(0, 1, 0, 1, 0, 1, 2, 2, 2));
  }
}

TEST(Dataset, ShufflesAreThoseOfTheirSeed) {
  const auto shuffled = [](int64_t seed) { return ReadScalars(Numbers(50).Shuffle(50, seed).Repeat(2)); };
  const auto first = shuffled(7);
  EXPECT_EQ(first, shuffled(7));
  EXPECT_NE(first, shuffled(8));
  EXPECT_FALSE(std::equal(first.begin(), first.begin() + 50, first.begin() + 50));
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(sorted[static_cast<size_t>(i)], i / 2);
}

TEST(Dataset, PadsZipsAndConcatenates) {
  const auto fill = [](const Scope& s, const std::vector<Output>& x) -> std::vector<Output> {
    return {ops::Fill(s, ops::ExpandDims(s, x[0], 0), x[0])};
  };
  EXPECT_THAT(Read(Numbers(4).Map(fill).PaddedBatch(2, {PartialShape({-1})})),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 2, 0, 3, 3, 3)));
  const Scope scope = Scope::NewRootScope();
  const Dataset a = Dataset::Range(scope, int64_t{3}), b = Dataset::Range(scope, int64_t{7}, int64_t{9});
  const Dataset both = Dataset::Zip(scope, {b, a});
  EXPECT_EQ(both.types().size(), 2);
  EXPECT_THAT(ReadScalars(both), ElementsAre(7, 8));
  EXPECT_THAT(ReadScalars(a.Concatenate(b)), ElementsAre(0, 1, 2, 7, 8));
}

TEST(Dataset, ReadsFiles) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(WriteFileAtomically(Env::Posix(), folder + "/a.txt", "one\ntwo\n").ok());
  const Scope scope = Scope::NewRootScope();
  const Iterator lines = Iterator::Initializable(Dataset::TextLine(scope, folder + "/a.txt"));
  const Iterator records = Iterator::Initializable(Dataset::FixedLengthRecord(scope, folder + "/a.txt", 4));
  const Iterator gone = Iterator::Initializable(Dataset::TFRecord(scope, folder + "/none"));
  const auto line = lines.GetNext(scope), record = records.GetNext(scope), none = gone.GetNext(scope);
  ASSERT_TRUE(scope.ok()) << scope.status();
  ClientSession session(scope);
  ASSERT_TRUE(
      session.Run({}, {}, {lines.initializer(), records.initializer(), gone.initializer()}, nullptr).ok());
  const Elements of_lines = Take(session, line), of_records = Take(session, record);
  ASSERT_EQ(of_lines.values.size(), 2);
  EXPECT_EQ(of_lines.values[1][0].scalar<std::string>(), "two");
  ASSERT_EQ(of_records.values.size(), 2);
  EXPECT_EQ(of_records.values[0][0].scalar<std::string>(), "one\n");
  EXPECT_EQ(Take(session, none).status.code(), ErrorCode::kNotFound);
}

TEST(Iterator, OneShotAndByHandleAndReinitialised) {
  const Scope scope = Scope::NewRootScope();
  const Iterator once =
      Iterator::OneShot(scope, [](const Scope& s) { return Dataset::Range(s, int64_t{3}).Map(Square); });
  const Iterator other = Iterator::FromStructure(scope, {DataType::kInt64}, {PartialShape({})});
  const Operation two = other.MakeInitializer(Dataset::Range(scope, int64_t{2}));
  const Operation high = other.MakeInitializer(Dataset::Range(scope, int64_t{8}, int64_t{9}));
  const Output name = ops::Placeholder(scope, DataType::kString, ops::Placeholder::Shape(PartialShape({})));
  const Iterator fed = Iterator::FromStringHandle(scope, name, {DataType::kInt64}, {PartialShape({})});
  const auto of_once = once.GetNext(scope), of_other = other.GetNext(scope), of_fed = fed.GetNext(scope);
  const Output handle = other.StringHandle(scope);
  ASSERT_TRUE(scope.ok()) << scope.status();
  ClientSession session(scope);
  EXPECT_EQ(Take(session, of_once).values.size(), 3);
  EXPECT_EQ(Take(session, of_other).status.code(), ErrorCode::kFailedPrecondition);
  ASSERT_TRUE(session.Run({}, {}, {two}, nullptr).ok());
  EXPECT_EQ(Take(session, of_other).values.size(), 2);
  ASSERT_TRUE(session.Run({}, {}, {high}, nullptr).ok());
  std::vector<Tensor> text, value;
  ASSERT_TRUE(session.Run({handle}, &text).ok());
  const Status status = session.Run({{name, text[0]}}, {of_fed[0]}, &value);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(value[0].scalar<int64_t>(), 8);
}

TEST(Iterator, ARestoredOneContinuesWithTheNextElement) {
  const Scope scope = Scope::NewRootScope();
  const Iterator iterator = Iterator::Initializable(
      Dataset::Range(scope, int64_t{40}).Shuffle(8, 5).Repeat(2).Batch(3).Prefetch(2));
  const auto next = iterator.GetNext(scope);
  const Output state = iterator.SaveState(scope);
  const Output saved = ops::Placeholder(scope, DataType::kVariant);
  const Operation restore = iterator.RestoreState(scope, saved);
  ASSERT_TRUE(scope.ok()) << scope.status();
  ClientSession session(scope);
  ASSERT_TRUE(session.Run({}, {}, {iterator.initializer()}, nullptr).ok());
  Take(session, next, 7);
  std::vector<Tensor> kept;
  ASSERT_TRUE(session.Run({state}, &kept).ok());
  const Elements rest = Take(session, next);
  ASSERT_TRUE(session.Run({}, {}, {iterator.initializer()}, nullptr).ok());
  ASSERT_TRUE(session.Run({{saved, kept[0]}}, {}, {restore}, nullptr).ok());
  const Elements again = Take(session, next);
  ASSERT_EQ(again.values.size(), rest.values.size());
  EXPECT_EQ(rest.values.size(), 20);
  for (size_t i = 0; i < rest.values.size(); ++i) {
    EXPECT_EQ(Ints(again.values[i][0]), Ints(rest.values[i][0])) << i;
  }
}

// The numbers that a training gets in `runs` runs of `steps` steps, each in a new session as after a crash.
std::vector<int64_t> Train(const std::string& folder, int64_t steps, int runs) {
  std::vector<int64_t> seen;
  for (int run = 0; run < runs; ++run) {
    const Scope scope = Scope::NewRootScope();
    const GraphVariable step = CreateGlobalStep(scope);
    const Iterator iterator =
        Iterator::Initializable(Dataset::Range(scope, int64_t{10}).Shuffle(10, 3).Repeat());
    iterator.SaveWithModel(scope);
    const Output next = iterator.GetNext(scope)[0];
    const Output train = step.AssignAdd(scope.WithControlDependencies({next}), int64_t{1});
    const auto stop = std::make_shared<StopAtStepHook>(StopAtStepHook::Options{.num_steps = steps});
    auto session = MonitoredTrainingSession(
        scope, {.checkpoint_dir = folder, .hooks = {stop}, .save_checkpoint_steps = 1000});
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok()) break;
    const Status status = (*session)->Loop([&](MonitoredSession& s) {
      std::vector<Tensor> values;
      MR_RETURN_IF_ERROR(s.Run({next, train}, &values));
      seen.push_back(values[0].scalar<int64_t>());
      return Status();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
  return seen;
}

TEST(Iterator, CheckpointsKeepWhereItIs) {
  const auto whole = Train(NewFolder("whole"), 24, 1);
  const auto parts = Train(NewFolder("parts"), 8, 3);
  ASSERT_EQ(whole.size(), 24);
  EXPECT_EQ(parts, whole);
}

TEST(Dataset, WrongUsesAreErrors) {
  const auto error = [](const std::function<void(const Scope&)>& add) {
    const Scope scope = Scope::NewRootScope();
    add(scope);
    EXPECT_EQ(scope.status().code(), ErrorCode::kInvalidArgument) << scope.status();
    return scope.status().message();
  };
  EXPECT_THAT(error([](const Scope& s) { Dataset::Range(s, int64_t{3}).Filter(Square); }),
              HasSubstr("`predicate` must return a scalar boolean tensor."));
  EXPECT_THAT(error([](const Scope& s) {
                const Output x = ops::Const(s, int64_t{3});
                Iterator::OneShot(s, [&](const Scope& in) { return Dataset::Range(in, x); });
              }),
              HasSubstr("Cannot capture"));
  EXPECT_THAT(error([](const Scope& s) {
                Dataset::Range(s, int64_t{3}).Map([](const Scope&, const std::vector<Output>&) {
                  return std::vector<Output>{Output()};
                });
              }),
              HasSubstr("is unset"));
  EXPECT_THAT(error([](const Scope& s) {
                Dataset::Range(s, int64_t{3}).Map([](const Scope& in, const std::vector<Output>& x) {
                  return std::vector<Output>{ops::MatMul(in, x[0], x[0])};
                });
              }),
              HasSubstr("MatMul"));
  EXPECT_THAT(error([](const Scope& s) {
                Dataset::Range(s, int64_t{3}).PaddedBatch(2, {{}, {}});
              }),
              HasSubstr("2 shapes are given for 1 components"));
}

// The numbers of a pipeline of int64 scalars.
std::vector<int64_t> NumbersOf(const Scope& scope, const Dataset& dataset) {
  const Iterator iterator = Iterator::Initializable(dataset);
  const std::vector<Output> next = iterator.GetNext(scope);
  const ClientSession session(scope);
  Status status = session.Run({}, {}, {iterator.initializer()}, nullptr);
  std::vector<int64_t> numbers;
  while (status.ok()) {
    std::vector<Tensor> values;
    status = session.Run(next, &values);
    if (status.ok()) {
      for (const int64_t n : std::as_const(values[0]).flat<int64_t>()) numbers.push_back(n);
    }
  }
  EXPECT_TRUE(errors::IsOutOfRange(status)) << status;
  return numbers;
}

TEST(DatasetTest, PlainFunctionsMapAndGenerate) {
  const Scope scope = Scope::NewRootScope();
  const auto three = []() -> Dataset::Generator {
    return [next = int64_t{0}]() mutable -> StatusOr<std::optional<std::vector<Tensor>>> {
      if (next == 3) return std::optional<std::vector<Tensor>>();
      return std::optional(std::vector<Tensor>{Tensor::Scalar(next++)});
    };
  };
  const HostFn square = [](const std::vector<Tensor>& in) -> StatusOr<std::vector<Tensor>> {
    const int64_t x = in[0].scalar<int64_t>();
    return std::vector<Tensor>{Tensor::Scalar(x * x)};
  };
  const std::vector<PartialShape> scalar = {PartialShape({})};
  const Dataset numbers = Dataset::FromGenerator(scope, {DataType::kInt64}, scalar, three).Repeat(2);
  EXPECT_EQ(NumbersOf(scope, numbers), (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
  for (const std::optional<int> calls : {std::optional<int>(), std::optional<int>(2)}) {
    const Dataset squares =
        numbers.MapHost(square, {DataType::kInt64}, scalar, {.num_parallel_calls = calls});
    EXPECT_EQ(NumbersOf(scope, squares), (std::vector<int64_t>{0, 1, 4, 0, 1, 4}));
  }
}

// The maximum of some tries until one returns `wanted`: on a busy machine threads may not run at the same
// time.
int MostOf(int wanted, const std::function<int()>& once) {
  int most = 0;
  for (int i = 0; i < 20 && most < wanted; ++i) most = std::max(most, once());
  return most;
}

// The largest number of concurrent calls of a slow function.
int MostCalls(const DatasetOptions& options) {
  std::atomic<int> now{0}, most{0};
  const HostFn slow = [&](const std::vector<Tensor>& in) -> StatusOr<std::vector<Tensor>> {
    const int calls = ++now;
    for (int seen = most; seen < calls && !most.compare_exchange_weak(seen, calls);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --now;
    return in;
  };
  const Scope scope = Scope::NewRootScope();
  const Dataset numbers = Dataset::Range(scope, int64_t{100})
                              .MapHost(slow, {DataType::kInt64}, {PartialShape({})},
                                       {.num_parallel_calls = static_cast<int>(kAutotune)});
  EXPECT_EQ(NumbersOf(scope, numbers.WithOptions(options)).size(), 100u);
  return most;
}

TEST(DatasetTest, CallsAreMadeAtTheSameTimeAsFarAsTheyAreSlow) {
  EXPECT_EQ(MostCalls({.autotune_cpu_budget = 1}), 1);
  const int wanted = static_cast<int>(std::min(2u, std::thread::hardware_concurrency()));
  EXPECT_THAT(MostOf(wanted, [] { return MostCalls({.autotune_cpu_budget = 3}); }),
              ::testing::AllOf(::testing::Ge(wanted), ::testing::Le(3)));
  EXPECT_LE(MostCalls({.autotune = false}), std::thread::hardware_concurrency());
}

TEST(DatasetTest, ResultsOfPlainFunctionsAreChecked) {
  const auto error = [](const HostFn& fn, const std::vector<PartialShape>& shapes) {
    const Scope scope = Scope::NewRootScope();
    const std::vector<Output> out = CallHostFunction(scope, fn, {}, {DataType::kInt64}, shapes);
    if (!scope.ok()) return scope.status();
    std::vector<Tensor> values;
    return ClientSession(scope).Run(out, &values);
  };
  const auto giving = [](std::vector<Tensor> tensors) -> HostFn {
    return [tensors](const std::vector<Tensor>&) -> StatusOr<std::vector<Tensor>> { return tensors; };
  };
  const Tensor one = Tensor::Scalar(int64_t{1});
  EXPECT_TRUE(error(giving({one}), {PartialShape({})}).ok());
  EXPECT_TRUE(errors::IsInvalidArgument(error(giving({one, one}), {})));
  EXPECT_TRUE(errors::IsInvalidArgument(error(giving({Tensor::Scalar(1.f)}), {})));
  EXPECT_TRUE(errors::IsInvalidArgument(error(giving({one}), {PartialShape({2})})));
  EXPECT_TRUE(errors::IsInvalidArgument(error(nullptr, {})));
  const HostFn failing = [](const std::vector<Tensor>&) -> StatusOr<std::vector<Tensor>> {
    return errors::DataLoss("mine");
  };
  EXPECT_EQ(error(failing, {}).code(), ErrorCode::kDataLoss);
}

TEST(DatasetTest, RewritesCanBeSwitchedOff) {
  for (const bool on : {false, true}) {
    const Scope scope = Scope::NewRootScope();
    const auto twice = [](const Scope& s, const std::vector<Output>& in) -> std::vector<Output> {
      return {ops::Mul(s, in[0], int64_t{2})};
    };
    const Dataset numbers = Dataset::Range(scope, int64_t{5})
                                .Map(twice)
                                .Batch(2)
                                .WithOptions({.noop_elimination = on,
                                              .map_and_batch_fusion = on,
                                              .map_vectorization = on,
                                              .autotune = on});
    EXPECT_EQ(NumbersOf(scope, numbers), (std::vector<int64_t>{0, 2, 4, 6, 8}));
  }
}

TEST(DatasetTest, BatchesAreTheSameHoweverTheyAreMade) {
  for (const bool on : {false, true}) {
    const Scope scope = Scope::NewRootScope();
    const auto twice = [](const Scope& s, const std::vector<Output>& in) -> std::vector<Output> {
      return {ops::Mul(s, in[0], int64_t{2})};
    };
    const Dataset numbers = Dataset::Range(scope, int64_t{45})
                                .Map(twice)
                                .Batch(2)
                                .WithOptions({.map_vectorization = true,
                                              .use_choose_fastest = on,
                                              .hoist_random_uniform = on,
                                              .filter_with_random_uniform_fusion = on,
                                              .parallel_batch = on});
    std::vector<int64_t> even;
    for (int64_t i = 0; i < 45; ++i) even.push_back(2 * i);
    EXPECT_EQ(NumbersOf(scope, numbers), even);
  }
}

// Reads numbers 0 to 7 from slow sources, four at a time; returns the largest number of concurrent reads.
int MostReads(const DatasetOptions& options) {
  std::atomic<int> calls = 0, most = 0;
  const Scope scope = Scope::NewRootScope();
  const HostFn slow = [&](const std::vector<Tensor>& in) -> StatusOr<std::vector<Tensor>> {
    const int now = ++calls;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --calls;
    return in;
  };
  const Dataset numbers =
      Dataset::Range(scope, int64_t{40})
          .Interleave(
              [&](const Scope& s, const std::vector<Output>& start) {
                return Dataset::Range(s, int64_t{4})
                    .MapHost(slow, {DataType::kInt64}, {PartialShape({})}, {})
                    .Map([&](const Scope& inner, const std::vector<Output>&) -> std::vector<Output> {
                      return {ops::Identity(inner, start[0])};
                    });
              },
              {.cycle_length = 4, .num_parallel_calls = kAutotune})
          .WithOptions(options);
  std::vector<int64_t> all = NumbersOf(scope, numbers);
  EXPECT_EQ(all.size(), 160u);
  EXPECT_EQ((std::vector<int64_t>(all.begin(), all.begin() + 8)),
            (std::vector<int64_t>{0, 1, 2, 3, 0, 1, 2, 3}));
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<int64_t>(i / 4));
  return most;
}

TEST(DatasetTest, SourcesAreReadAtTheSameTimeAsFarAsTheyAreSlow) {
  EXPECT_EQ(MostReads({.autotune_cpu_budget = 1}), 1);
  const int most = static_cast<int>(std::min(4u, std::thread::hardware_concurrency()));
  EXPECT_EQ(MostOf(most, [] { return MostReads({}); }), most);
  EXPECT_LE(MostReads({.autotune = false}), most);
}

// For `count` elements that have waited for 50 ms: the time from the moment when the consumer takes one to
// the moment when the next one is made, in ms.
std::vector<int64_t> TimesToNext(bool slack, int count) {
  using Clock = std::chrono::steady_clock;
  Mutex mu;
  CondVar changed;
  std::vector<Clock::time_point> made;
  const HostFn note = [&](const std::vector<Tensor>& in) -> StatusOr<std::vector<Tensor>> {
    MutexLock lock(mu);
    made.push_back(Clock::now());
    changed.NotifyAll();
    return in;
  };
  const Scope scope = Scope::NewRootScope();
  const Dataset numbers = Dataset::Range(scope, int64_t{1000})
                              .MapHost(note, {DataType::kInt64}, {PartialShape({})}, {})
                              .Prefetch(1)
                              .Take(int64_t{900})
                              .WithOptions({.slack = slack});
  const Iterator iterator = Iterator::Initializable(numbers);
  const auto next = iterator.GetNext(scope);
  const ClientSession session(scope);
  EXPECT_TRUE(session.Run({}, {}, {iterator.initializer()}, nullptr).ok());
  constexpr int kBefore = 2;  // no element has waited before these
  std::vector<int64_t> times;
  for (int64_t i = 0; i < kBefore + count; ++i) {
    std::vector<Tensor> value;
    const Status status = session.Run(next, &value);
    const Clock::time_point taken = Clock::now();
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return {};
    EXPECT_EQ(value[0].scalar<int64_t>(), i);
    {
      MutexLock lock(mu);
      while (made.size() < static_cast<size_t>(i) + 2) changed.Wait(mu);
      if (i >= kBefore)
        times.push_back(
            std::chrono::duration_cast<std::chrono::milliseconds>(made[static_cast<size_t>(i) + 1] - taken)
                .count());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return times;
}

TEST(DatasetTest, AConsumerIsLeftTheProcessorsForAWhile) {
  // A busy machine may delay the thread: without a pause at least one is made at once, with a pause most are
  // not.
  const auto is_short = [](int64_t ms) { return ms < 5; };
  bool at_once = false;
  for (int i = 0; i < 20 && !at_once; ++i) at_once = std::ranges::any_of(TimesToNext(false, 3), is_short);
  EXPECT_TRUE(at_once);
  const std::vector<int64_t> paused = TimesToNext(true, 7);
  EXPECT_LE(std::ranges::count_if(paused, is_short), 3) << ::testing::PrintToString(paused);
}

TEST(DatasetTest, WithoutAnOrderElementsComeAsTheyAreReady) {
  Notification taken;
  const HostFn wait = [&](const std::vector<Tensor>& in) -> StatusOr<std::vector<Tensor>> {
    if (in[0].scalar<int64_t>() == 0) taken.Wait();
    return in;
  };
  const Scope scope = Scope::NewRootScope();
  const Dataset numbers =
      Dataset::Range(scope, int64_t{2})
          .MapHost(wait, {DataType::kInt64}, {PartialShape({})}, {.num_parallel_calls = 2})
          .WithOptions({.deterministic = false});
  const Iterator iterator = Iterator::Initializable(numbers);
  const auto next = iterator.GetNext(scope);
  const ClientSession session(scope);
  ASSERT_TRUE(session.Run({}, {}, {iterator.initializer()}, nullptr).ok());
  RunOptions options;
  options.timeout_in_ms = 20000;
  std::vector<Tensor> value;
  const Status status = session.Run(options, {}, next, {}, &value, nullptr);
  taken.Notify();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(value[0].scalar<int64_t>(), 1);
  ASSERT_TRUE(session.Run(next, &value).ok());
  EXPECT_EQ(value[0].scalar<int64_t>(), 0);
}

TEST(MultiDeviceIterator, ElementsGoToDevicesInTurn) {
  const Scope scope = Scope::NewRootScope();
  const Dataset numbers = Dataset::Range(scope, int64_t{7});
  const auto iterator = MultiDeviceIterator::Make(numbers, {"/cpu:0", "/cpu:1", "/cpu:2"}, 2);
  ASSERT_EQ(iterator.num_devices(), 3);
  std::vector<Output> next;
  next.reserve(3);
  for (int device = 0; device < 3; ++device) next.push_back(iterator.GetNext(scope, device)[0]);
  ASSERT_TRUE(scope.ok()) << scope.status();
  const ClientSession session(scope);
  std::vector<Tensor> values;
  EXPECT_FALSE(session.Run({next[0]}, &values).ok());  // not initialised
  for (int epoch = 0; epoch < 2; ++epoch) {
    ASSERT_TRUE(session.Run({}, {}, {iterator.initializer()}, nullptr).ok());
    for (const int64_t first : {0, 3}) {
      ASSERT_TRUE(session.Run(next, &values).ok());
      for (size_t i = 0; i < 3; ++i) EXPECT_EQ(values[i].scalar<int64_t>(), first + static_cast<int64_t>(i));
    }
    ASSERT_TRUE(session.Run({next[0]}, &values).ok());
    EXPECT_EQ(values[0].scalar<int64_t>(), 6);
    EXPECT_TRUE(errors::IsOutOfRange(session.Run({next[1]}, &values)));
  }
}

TEST(MultiDeviceIterator, WrongUsesAreErrors) {
  const Scope scope = Scope::NewRootScope();
  MultiDeviceIterator::Make(Dataset::Range(scope, int64_t{7}), {});
  EXPECT_TRUE(errors::IsInvalidArgument(scope.status()));
  const Scope other = Scope::NewRootScope();
  const auto iterator = MultiDeviceIterator::Make(Dataset::Range(other, int64_t{7}), {"/cpu:0"});
  EXPECT_EQ(iterator.GetNext(other, 1).size(), 1u);
  EXPECT_TRUE(errors::IsInvalidArgument(other.status()));
}

TEST(DatasetTest, RowsNumbersAndWindows) {
  const Scope scope = Scope::NewRootScope();
  const Dataset numbers = Dataset::Range(scope, int64_t{10}, int64_t{16});
  EXPECT_EQ(NumbersOf(scope, numbers.Batch(4).Unbatch()), (std::vector<int64_t>{10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(NumbersOf(scope, numbers.Enumerate(3)), (std::vector<int64_t>{3, 4, 5, 6, 7, 8}));
  const auto below = [](const Scope& s, const std::vector<Output>& in) -> std::vector<Output> {
    return {ops::Less(s, in[0], int64_t{13})};
  };
  EXPECT_EQ(NumbersOf(scope, numbers.TakeWhile(below)), (std::vector<int64_t>{10, 11, 12}));
  const auto batch = [](const Scope&, const std::vector<Dataset>& window) { return window[0].Batch(3); };
  EXPECT_EQ(NumbersOf(scope, numbers.Window({.size = 3, .shift = 2}, batch)),
            (std::vector<int64_t>{10, 11, 12, 12, 13, 14}));
}

TEST(DatasetTest, GroupsByKeysAndByLengths) {
  const Scope scope = Scope::NewRootScope();
  const Dataset numbers = Dataset::Range(scope, int64_t{10});
  const auto rest = [](const Scope& s, const std::vector<Output>& in) -> std::vector<Output> {
    return {ops::FloorMod(s, in[0], int64_t{3})};
  };
  const auto batch = [](const Scope&, const Output&, const Dataset& window) { return window.Batch(5); };
  const auto two = [](const Scope& s, const Output& key) -> Output {
    return ops::Add(s, ops::ZerosLike(s, key), int64_t{2});
  };
  EXPECT_THAT(Read(numbers.GroupByWindow(rest, batch, two)),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5), ElementsAre(6, 9),
                          ElementsAre(7), ElementsAre(8)));

  // Element n is a vector of n numbers n.
  const auto repeat = [](const Scope& s, const std::vector<Output>& in) -> std::vector<Output> {
    return {ops::Fill(s, ops::Reshape(s, in[0], {1}), in[0])};
  };
  const auto length = [](const Scope& s, const std::vector<Output>& in) -> std::vector<Output> {
    return {ops::Size(s, in[0], ops::Size::OutType(DataType::kInt64))};
  };
  const Dataset vectors = Dataset::Range(scope, int64_t{1}, int64_t{6}).Map(repeat);
  const Dataset buckets = vectors.BucketBySequenceLength(
      length, {.boundaries = {3}, .batch_sizes = {2, 1}, .padded_shapes = {PartialShape({-1})}});
  EXPECT_THAT(Read(buckets), ElementsAre(ElementsAre(1, 0, 2, 2), ElementsAre(3, 3, 3),
                                         ElementsAre(4, 4, 4, 4), ElementsAre(5, 5, 5, 5, 5)));

  const Scope wrong = Scope::NewRootScope();
  Dataset::Range(wrong, int64_t{3}).BucketBySequenceLength(length, {.boundaries = {3}, .batch_sizes = {2}});
  EXPECT_TRUE(errors::IsInvalidArgument(wrong.status()));
  const Scope without = Scope::NewRootScope();
  Dataset::Range(without, int64_t{3}).GroupByWindow(nullptr, batch, two);
  EXPECT_FALSE(without.ok());
}

TEST(DatasetTest, RowsOfADatabase) {
  const Scope scope = Scope::NewRootScope();
  // A query needs no table.
  const Dataset rows =
      Dataset::Sql(scope, ":memory:", "SELECT 3 AS n, 'x' AS t UNION ALL SELECT 4, 'y' ORDER BY n",
                   {DataType::kInt64, DataType::kString});
  EXPECT_EQ(rows.types().size(), 2u);
  EXPECT_THAT(ReadScalars(rows), ElementsAre(3, 4));
}

TEST(DatasetTest, StatisticsAreCollectedInTheSession) {
  const Scope scope = Scope::NewRootScope();
  const StatsAggregator aggregator = StatsAggregator::Make(scope, "stats");
  const Dataset numbers = Dataset::Range(scope, int64_t{7})
                              .BytesProducedStats("bytes")
                              .Batch(2)
                              .LatencyStats("wait")
                              .WithStats(aggregator, "input");
  const Iterator iterator = Iterator::Initializable(numbers);
  const auto next = iterator.GetNext(scope);
  const Output serialized = StatsAggregator::Make(scope, "stats").GetSummary(scope);
  ASSERT_TRUE(scope.ok()) << scope.status();
  ClientSession session(scope);
  ASSERT_TRUE(session.Run({}, {}, {iterator.initializer()}, nullptr).ok());
  EXPECT_EQ(Take(session, next).values.size(), 4u);
  std::vector<Tensor> out;
  ASSERT_TRUE(session.Run({serialized}, &out).ok());
  tensorflow::Summary summary;
  ASSERT_TRUE(summary.ParseFromString(out[0].scalar<std::string>()));
  std::map<std::string, tensorflow::HistogramProto> histograms;
  for (const auto& value : summary.value()) histograms[value.tag()] = value.histo();
  ASSERT_EQ(histograms.size(), 2u);
  EXPECT_EQ(histograms["input::bytes"].num(), 7);
  EXPECT_EQ(histograms["input::bytes"].sum(), 7 * 8);
  EXPECT_EQ(histograms["input::wait"].num(), 4);
  EXPECT_GT(histograms["input::wait"].min(), 0);
}

TEST(DatasetTest, CsvFilesOfAFolder) {
  const std::string folder = NewFolder();
  for (const char* name : {"a", "b"}) {
    saved_model_testing::WriteText(folder + "/" + name + ".csv", "n,text,x\n1,one,\n2,two,5\n");
  }
  const Scope scope = Scope::NewRootScope();
  const Dataset files = Dataset::ListFiles(scope, folder + "/*.csv");
  const Dataset rows = files.FlatMap([](const Scope& s, const std::vector<Output>& file) {
    return Dataset::Csv(s, file[0], {Tensor(DataType::kInt64, TensorShape({0})), Tensor::Scalar(int64_t{7})},
                        true, {0, 2});
  });
  EXPECT_EQ(NumbersOf(scope, rows), (std::vector<int64_t>{1, 2, 1, 2}));
  const auto x = [](const Scope&, const std::vector<Output>& in) -> std::vector<Output> { return {in[1]}; };
  EXPECT_EQ(NumbersOf(scope, rows.Map(x)), (std::vector<int64_t>{7, 5, 7, 5}));
}

}  // namespace
}  // namespace millrace
