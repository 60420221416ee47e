// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Stages with threads or much state: their elements, their ends, and how they continue after they were saved.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <numeric>
#include <thread>

#include "base/random/philox.h"
#include "tests/datasets/pipeline_testing.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

// Builds pipelines of int64 scalars.
class StagesTest : public PipelineTest {
 public:
  std::string ParallelMap(const std::string& input, int32_t calls, bool sloppy = false) {
    AddOnce();
    return Data("ParallelMapDataset", {input, Constant(Tensor::Scalar(calls))},
                {{"f", Fn("AddTen")}, {"Targuments", std::vector<DataType>{}}, {"sloppy", sloppy}});
  }
  std::string Prefetch(const std::string& input, int64_t size) {
    return Data("PrefetchDataset", {input, Int(size)});
  }
  std::string Shuffle(const std::string& input, int64_t size, int64_t seed, bool again = true) {
    return Data("ShuffleDataset", {input, Int(size), Int(seed), Int(1)},
                {{"reshuffle_each_iteration", again}});
  }
  std::string Repeat(const std::string& input, int64_t count) {
    return Data("RepeatDataset", {input, Int(count)});
  }
  // For each element x a range of x numbers.
  std::string Interleave(const std::string& op, const std::string& input, std::vector<std::string> sizes) {
    RangesOnce();
    sizes.insert(sizes.begin(), input);
    return Data(op, sizes, {{"f", Fn("RangeOf")}, {"Targuments", std::vector<DataType>{}}});
  }
  std::string MapOf(const std::string& input) {
    AddOnce();
    return Map(input, "AddTen");
  }
  std::string Group(const std::string& input) {
    GroupsOnce();
    const std::vector<DataType> none;
    return Data("GroupByWindowDataset", {input},
                {{"key_func", Fn("Key")},
                 {"reduce_func", Fn("Window")},
                 {"window_size_func", Fn("WindowSize")},
                 {"Tkey_func_other_arguments", none},
                 {"Treduce_func_other_arguments", none},
                 {"Twindow_size_func_other_arguments", none}});
  }
  // Drops the graph and its session.
  void StartAgain() {
    session_.reset();
    graph_ = DefBuilder();
    has_add_ = has_ranges_ = has_groups_ = false;
  }
  using PipelineTest::Data;
  using PipelineTest::Int;
  using PipelineTest::Range;
  using PipelineTest::Text;

 private:
  void AddOnce() {
    if (!std::exchange(has_add_, true)) AddN("AddTen", 10);
  }
  void RangesOnce() {
    if (std::exchange(has_ranges_, true)) return;
    graph_.Function(FunctionBuilder("RangeOf")
                        .Arg("x: int64")
                        .Ret("dataset: variant")
                        .Node("zero", "Const", {}, Of(0))
                        .Node("one", "Const", {}, Of(1))
                        .Node("range", "RangeDataset", {"zero:output", "x", "one:output"},
                              {{"output_types", Type().types}, {"output_shapes", Type().shapes}})
                        .Return("dataset", "range:handle"));
  }
  void GroupsOnce() {
    if (std::exchange(has_groups_, true)) return;
    graph_.Function(FunctionBuilder("Key")
                        .Arg("x: int64")
                        .Ret("key: int64")
                        .Node("three", "Const", {}, Of(3))
                        .Node("mod", "FloorMod", {"x", "three:output"}, {{"T", DataType::kInt64}})
                        .Return("key", "mod:z"));
    graph_.Function(FunctionBuilder("Window")
                        .Arg("key: int64")
                        .Arg("window: variant")
                        .Ret("dataset: variant")
                        .Return("dataset", "window"));
    graph_.Function(FunctionBuilder("WindowSize")
                        .Arg("key: int64")
                        .Ret("size: int64")
                        .Node("two", "Const", {}, Of(2))
                        .Return("size", "two:output"));
  }
  static AttrMap Of(int64_t v) { return {{"dtype", DataType::kInt64}, {"value", Tensor::Scalar(v)}}; }
  bool has_add_ = false, has_ranges_ = false, has_groups_ = false;
};

std::vector<int64_t> Numbers(int64_t n, int64_t from = 0) {
  std::vector<int64_t> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), from);
  return v;
}

TEST_F(StagesTest, ParallelMapKeepsTheOrder) {
  EXPECT_EQ(Ints(ParallelMap(Range(200), 4)), Numbers(200, 10));
}

TEST_F(StagesTest, SloppyParallelMapGivesAll) {
  EXPECT_THAT(Ints(ParallelMap(Range(200), 4, true)), UnorderedElementsAreArray(Numbers(200, 10)));
}

TEST_F(StagesTest, ParallelMapNeedsCalls) {
  EXPECT_THAT(Error(ParallelMap(Range(2), 0)).message(),
              HasSubstr("num_parallel_calls must be greater than zero."));
}

TEST_F(StagesTest, PrefetchGivesAllInOrder) {
  EXPECT_EQ(Ints(Prefetch(Prefetch(Range(300), 3), -1)), Numbers(300));
}

TEST_F(StagesTest, InterleavingTakesTurns) {
  const std::string input = Data("RangeDataset", {Int(1), Int(5), Int(1)});
  const std::vector<int64_t> expected = {0, 0, 1, 0, 1, 2, 0, 1, 2, 3};
  EXPECT_EQ(Ints(Interleave("InterleaveDataset", input, {Int(2), Int(2)})), expected);
}

TEST_F(StagesTest, ParallelInterleavingTakesTheSameTurns) {
  for (const int64_t calls : {1, 2, 5}) {
    for (const int64_t cycle : {1, 2, 3, 7}) {
      StartAgain();
      const std::string input = Data("RangeDataset", {Int(0), Int(9), Int(1)});
      MakeIterator(Interleave("InterleaveDataset", input, {Int(cycle), Int(2)}), {}, "plain");
      MakeIterator(Interleave("ParallelInterleaveDatasetV2", input, {Int(cycle), Int(2), Int(calls)}), {},
                   "parallel");
      ASSERT_TRUE(Do("plain/init").ok());
      ASSERT_TRUE(Do("parallel/init").ok());
      EXPECT_EQ(Values(Drain({}, 1000, "parallel")), Values(Drain({}, 1000, "plain")))
          << calls << " calls, cycle of " << cycle;
    }
  }
}

TEST_F(StagesTest, FlatMapGoesThroughOneAfterTheOther) {
  EXPECT_THAT(Ints(Interleave("FlatMapDataset", Range(4), {})), ElementsAre(0, 0, 1, 0, 1, 2));
}

TEST_F(StagesTest, GroupsByWindow) {
  EXPECT_THAT(Ints(Group(Range(8))), ElementsAre(0, 3, 1, 4, 2, 5, 6, 7));
}

// The words of Philox, drawn from a buffer that is filled in order.
std::vector<int64_t> Shuffled(int64_t n, size_t size, uint64_t seed, uint64_t seed2) {
  PhiloxRandom philox(seed, seed2);
  PhiloxRandom::Block block = philox();
  size_t used = 0;
  std::vector<int64_t> buffer, out;
  for (int64_t next = 0; next < n || !buffer.empty();) {
    while (next < n && buffer.size() < size) buffer.push_back(next++);
    if (used == 4) {
      block = philox();
      used = 0;
    }
    const size_t at = block[used++] % buffer.size();
    out.push_back(buffer[at]);
    buffer[at] = buffer[0];
    buffer.erase(buffer.begin());
  }
  return out;
}

TEST_F(StagesTest, ShufflesAreThoseOfTheSeeds) {
  EXPECT_EQ(Ints(Shuffle(Range(100), 10, 7, false)), Shuffled(100, 10, 7, 1));
}

TEST_F(StagesTest, EachIterationIsShuffledAnew) {
  PhiloxRandom seeds(7, 1);
  const auto s = seeds();
  std::vector<int64_t> expected = Shuffled(20, 20, s[0], s[1]);
  const std::vector<int64_t> second = Shuffled(20, 20, s[2], s[3]);
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(Ints(Repeat(Shuffle(Range(20), 20, 7), 2)), expected);
}

TEST_F(StagesTest, ShuffleAndRepeatMixesAtMostNeighbours) {
  const auto got = Ints(Data("ShuffleAndRepeatDataset", {Range(10), Int(5), Int(3), Int(4), Int(3)}));
  ASSERT_EQ(got.size(), 30u);
  for (size_t epoch = 0; epoch < 3; ++epoch) {
    const auto begin = got.begin() + static_cast<ptrdiff_t>(10 * epoch);
    EXPECT_THAT(std::vector<int64_t>(begin, begin + 10), UnorderedElementsAreArray(Numbers(10)));
  }
}

// A pipeline, by name.
struct Pipeline {
  const char* name;
  std::function<std::string(StagesTest&)> build;
};
void PrintTo(const Pipeline& p, std::ostream* os) { *os << p.name; }

class SavedPipelineTest : public StagesTest, public ::testing::WithParamInterface<Pipeline> {
 protected:
  void Build() {
    MakeIterator(GetParam().build(*this));
    graph_.Node("save", "SerializeIterator", {"it"}, {});
    graph_.Placeholder("state", tensorflow::DT_VARIANT);
    graph_.Node("restore", "DeserializeIterator", {"it", "state"}, {});
  }
};

TEST_P(SavedPipelineTest, ContinuesWhereItWasSaved) {
  Build();
  ASSERT_TRUE(Do("it/init").ok());
  const std::vector<int64_t> whole = Values(Drain());
  ASSERT_GE(whole.size(), 4u);
  for (const size_t taken : {size_t{0}, size_t{1}, whole.size() / 2, whole.size()}) {
    session_.reset();
    ASSERT_TRUE(Do("it/init").ok());
    Drain({}, taken);
    const Tensor state = GetOne("save");
    // Saving changes nothing.
    EXPECT_EQ(Values(Drain()),
              std::vector<int64_t>(whole.begin() + static_cast<ptrdiff_t>(taken), whole.end()));
    session_.reset();
    ASSERT_TRUE(Do("it/init").ok());
    const Status restored = Do("restore", {{"state", state}});
    ASSERT_TRUE(restored.ok()) << restored;
    EXPECT_EQ(Values(Drain()),
              std::vector<int64_t>(whole.begin() + static_cast<ptrdiff_t>(taken), whole.end()))
        << "after " << taken;
  }
}

TEST_P(SavedPipelineTest, RefusesTheStateOfAnotherOne) {
  Build();
  ASSERT_TRUE(Do("it/init").ok());
  EXPECT_TRUE(
      errors::IsInvalidArgument(Do("restore", {{"state", Tensor(DataType::kVariant, TensorShape())}})));
}

const Pipeline kPipelines[] = {
    {"Range", [](StagesTest& t) { return t.Range(9); }},
    {"TakeSkip",
     [](StagesTest& t) {
       return t.Data("TakeDataset", {t.Data("SkipDataset", {t.Range(20), t.Int(3)}), t.Int(9)});
     }},
    {"Shard",
     [](StagesTest& t) {
       return t.Data("ShardDataset", {t.Range(20), t.Int(2), t.Int(1)});
     }},
    {"Concatenate",
     [](StagesTest& t) {
       return t.Data("ConcatenateDataset", {t.Range(5), t.Range(4)});
     }},
    {"Repeat", [](StagesTest& t) { return t.Repeat(t.Range(4), 3); }},
    {"Shuffle", [](StagesTest& t) { return t.Repeat(t.Shuffle(t.Range(10), 4, 9), 2); }},
    {"ShuffleAndRepeat",
     [](StagesTest& t) {
       return t.Data("ShuffleAndRepeatDataset", {t.Range(10), t.Int(5), t.Int(3), t.Int(4), t.Int(3)});
     }},
    {"Map", [](StagesTest& t) { return t.MapOf(t.Range(9)); }},
    {"ParallelMap", [](StagesTest& t) { return t.ParallelMap(t.Range(30), 3); }},
    {"Prefetch", [](StagesTest& t) { return t.Prefetch(t.Range(30), 4); }},
    {"FlatMap", [](StagesTest& t) { return t.Interleave("FlatMapDataset", t.Range(6), {}); }},
    {"Interleave",
     [](StagesTest& t) {
       return t.Interleave("InterleaveDataset", t.Range(7), {t.Int(3), t.Int(2)});
     }},
    {"ParallelInterleave",
     [](StagesTest& t) {
       return t.Interleave("ParallelInterleaveDatasetV2", t.Range(7), {t.Int(3), t.Int(2), t.Int(2)});
     }},
    {"Cache",
     [](StagesTest& t) {
       return t.Repeat(t.Data("CacheDataset", {t.Range(5), t.Text("")}), 2);
     }},
    {"Group", [](StagesTest& t) { return t.Group(t.Range(11)); }},
    {"Random", [](StagesTest& t) {
       return t.Data("TakeDataset", {t.Data("RandomDataset", {t.Int(3), t.Int(5)}), t.Int(9)});
     }}};
INSTANTIATE_TEST_SUITE_P(Stages, SavedPipelineTest, ::testing::ValuesIn(kPipelines),
                         [](const auto& p) { return p.param.name; });

// Stages after a map that waits for a queue that stays empty.
class WaitingPipelineTest : public StagesTest, public ::testing::WithParamInterface<Pipeline> {
 public:
  std::string Waiting() {
    graph_.Function(
        FunctionBuilder("Wait")
            .Arg("x: int64")
            .Ret("y: int64")
            .Node("queue", "FIFOQueueV2", {},
                  {{"component_types", Type().types}, {"shapes", Type().shapes}, {"shared_name", "empty"}})
            .Node("take", "QueueDequeueV2", {"queue:handle"}, {{"component_types", Type().types}})
            .Return("y", "take:components:0"));
    return Map(Range(5), "Wait");
  }
};

TEST_P(WaitingPipelineTest, EndsWithItsStep) {
  MakeIterator(GetParam().build(*this));
  ASSERT_TRUE(Do("it/init").ok());
  for (int i = 0; i < 2; ++i) {
    const Status status = DoFor(30, "it/next");
    EXPECT_TRUE(errors::IsDeadlineExceeded(status)) << status;
  }
  // Two concurrent calls, one of which waits for the other.
  Status first;
  std::thread thread([&] { first = DoFor(60, "it/next"); });
  EXPECT_TRUE(errors::IsDeadlineExceeded(DoFor(30, "it/next")));
  thread.join();
  EXPECT_TRUE(errors::IsDeadlineExceeded(first)) << first;
}

TEST_P(WaitingPipelineTest, EndsWithItsSession) {
  MakeIterator(GetParam().build(*this));
  ASSERT_TRUE(Do("it/init").ok());
  EXPECT_TRUE(errors::IsDeadlineExceeded(DoFor(30, "it/next")));
  session_.reset();  // joins the threads of the stages
}

std::string WaitIn(StagesTest& t) { return static_cast<WaitingPipelineTest&>(t).Waiting(); }
const Pipeline kWaiting[] = {
    {"Map", WaitIn},
    {"Repeat", [](StagesTest& t) { return t.Repeat(WaitIn(t), 2); }},
    {"Prefetch", [](StagesTest& t) { return t.Prefetch(WaitIn(t), 2); }},
    {"PrefetchTwice", [](StagesTest& t) { return t.Prefetch(t.Prefetch(WaitIn(t), 2), 2); }},
    {"ParallelMap", [](StagesTest& t) { return t.ParallelMap(WaitIn(t), 3); }},
    {"Shuffle", [](StagesTest& t) { return t.Shuffle(WaitIn(t), 3, 1); }},
    {"ParallelInterleave",
     [](StagesTest& t) {
       return t.Interleave("ParallelInterleaveDatasetV2", WaitIn(t), {t.Int(3), t.Int(2), t.Int(2)});
     }},
    {"Sleep", [](StagesTest& t) {
       return t.Data("SleepDataset", {t.Range(2), t.Int(3600000000)});
     }}};
INSTANTIATE_TEST_SUITE_P(Stages, WaitingPipelineTest, ::testing::ValuesIn(kWaiting),
                         [](const auto& p) { return p.param.name; });

TEST_F(StagesTest, ManyThreadsTakeEachElementOnce) {
  MakeIterator(Prefetch(ParallelMap(Range(400), 2), 4));
  ASSERT_TRUE(Do("it/init").ok());
  std::vector<std::vector<int64_t>> got(4);
  std::vector<std::thread> threads;
  threads.reserve(got.size());
  for (auto& mine : got) {
    threads.emplace_back([this, &mine] {
      while (true) {
        std::vector<Tensor> out;
        if (!session().Run({}, {"it/next"}, {}, &out).ok()) return;
        mine.push_back(out[0].scalar<int64_t>());
      }
    });
  }
  for (std::thread& t : threads) t.join();
  std::vector<int64_t> all;
  for (const auto& mine : got) all.insert(all.end(), mine.begin(), mine.end());
  EXPECT_THAT(all, UnorderedElementsAreArray(Numbers(400, 10)));
}

TEST_F(StagesTest, SeveralDevicesShareADataset) {
  const AttrMap types = {{"output_types", Type().types}, {"output_shapes", Type().shapes}};
  AttrMap attrs = types;
  attrs.Set("devices", std::vector<std::string>{"a", "b"});
  attrs.Set("shared_name", "");
  attrs.Set("container", "");
  graph_.Node("multi", "MultiDeviceIterator", {}, attrs);
  graph_.Node("start", "MultiDeviceIteratorInit", {Range(5), "multi", Int(1)}, {});
  graph_.Placeholder("id", tensorflow::DT_INT64);
  graph_.Const("shard0", Tensor::Scalar(int32_t{0}));
  graph_.Const("shard1", Tensor::Scalar(int32_t{1}));
  graph_.Node("next0", "MultiDeviceIteratorGetNextFromShard", {"multi", "shard0", "id"}, types);
  graph_.Node("next1", "MultiDeviceIteratorGetNextFromShard", {"multi", "shard1", "id"}, types);
  const Tensor id = GetOne("start");
  std::vector<int64_t> got;
  for (const char* fetch : {"next0", "next1", "next0", "next1", "next0"}) {
    got.push_back(GetOne(fetch, {{"id", id}}).scalar<int64_t>());
  }
  EXPECT_THAT(got, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_TRUE(errors::IsOutOfRange(Get({"next1"}, {{"id", id}}).status()));
  EXPECT_THAT(Get({"next0"}, {{"id", Tensor::Scalar(int64_t{99})}}).status().message(),
              HasSubstr("Invalid incarnation id. Provided: 99; Expected: 1"));
}

}  // namespace
}  // namespace millrace
