// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The results of a monitor for pipelines of the engine.
#include "data/monitor.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "tests/datasets/pipeline_testing.h"

namespace millrace {
namespace {

using data::PipelineMonitor;
using ::testing::ElementsAre;

class MonitorTest : public PipelineTest {
 protected:
  using Stage = PipelineMonitor::Stage;

  // Reads the whole dataset with measurements. Adds the last nodes to the graph.
  std::vector<std::vector<Tensor>> Measure(const std::string& dataset, const Type& type = {}) {
    graph_.Node("measured", "Placeholder", {}, {{"dtype", DataType::kVariant}, {"shape", PartialShape()}});
    MakeIterator("measured", type);
    const auto made = data::DatasetFromTensor(GetOne(dataset));
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) return {};
    const Tensor monitored = data::DatasetToTensor(data::Monitored(*made, monitor_));
    const Status started = Do("it/init", {{"measured", monitored}});
    EXPECT_TRUE(started.ok()) << started;
    auto elements = Drain(type);
    EXPECT_TRUE(errors::IsOutOfRange(last_)) << last_;
    session_.reset();  // joins the threads
    stages_ = monitor_->Stages();
    return elements;
  }
  const Stage& Find(const std::string& node) {
    const auto found = std::ranges::find_if(stages_, [&](const Stage& s) { return s.node == node; });
    EXPECT_NE(found, stages_.end()) << node;
    static const Stage none;
    return found == stages_.end() ? none : *found;
  }
  std::string ReaderOf(const std::string& node) {
    const int reader = Find(node).reader;
    return reader < 0 ? "" : stages_[static_cast<size_t>(reader)].node;
  }
  std::string Bottleneck() {
    const int i = PipelineMonitor::Bottleneck(PipelineMonitor::Delays(stages_));
    return i < 0 ? "" : stages_[static_cast<size_t>(i)].node;
  }
  // Delays each element by that time.
  std::string Slow(const std::string& input, int64_t microseconds = 2000) {
    return Data("SleepDataset", {input, Int(microseconds)});
  }
  std::string Prefetch(const std::string& input, int64_t size) {
    return Data("PrefetchDataset", {input, Int(size)});
  }
  std::string ParallelMap(const std::string& input, const std::string& f, int32_t calls) {
    return Data("ParallelMapDataset", {input, Constant(Tensor::Scalar(calls))},
                {{"f", Fn(f)}, {"Targuments", std::vector<DataType>{}}});
  }
  // A function from x to a slow dataset of three numbers.
  void AddSlowThree() {
    graph_.Function(
        FunctionBuilder("SlowThree")
            .Arg("x: int64")
            .Ret("dataset: variant")
            .Node("zero", "Const", {}, {{"dtype", DataType::kInt64}, {"value", Tensor::Scalar(int64_t{0})}})
            .Node("three", "Const", {}, {{"dtype", DataType::kInt64}, {"value", Tensor::Scalar(int64_t{3})}})
            .Node("one", "Const", {}, {{"dtype", DataType::kInt64}, {"value", Tensor::Scalar(int64_t{1})}})
            .Node("us", "Const", {}, {{"dtype", DataType::kInt64}, {"value", Tensor::Scalar(int64_t{2000})}})
            .Node("range", "RangeDataset", {"zero:output", "three:output", "one:output"},
                  {{"output_types", Type().types}, {"output_shapes", Type().shapes}})
            .Node("slow", "SleepDataset", {"range:handle", "us:output"},
                  {{"output_types", Type().types}, {"output_shapes", Type().shapes}})
            .Return("dataset", "slow:handle"));
  }

  const std::shared_ptr<PipelineMonitor> monitor_ = std::make_shared<PipelineMonitor>();
  std::vector<Stage> stages_;
};

TEST_F(MonitorTest, CountsAndNamesTheStagesOfOneThread) {
  AddN("AddTen", 10);
  const std::string range = Range(30), slow = Slow(range), map = Map(slow, "AddTen"), batch = Batch(map, 4);
  const auto elements = Measure(batch, Vectors(DataType::kInt64));
  EXPECT_EQ(Values(elements).back(), 39);
  EXPECT_EQ(Find(batch).elements, 8);
  EXPECT_EQ(Find(map).elements, 30);
  EXPECT_EQ(Find(slow).elements, 30);
  EXPECT_EQ(Find(range).kind, "Range");
  EXPECT_EQ(ReaderOf(batch), "");
  EXPECT_EQ(ReaderOf(map), batch);
  EXPECT_EQ(ReaderOf(range), slow);
  EXPECT_EQ(Bottleneck(), slow);
}

TEST_F(MonitorTest, APrefetchDoesNotHideWhatIsSlowBelowIt) {
  const std::string range = Range(20), slow = Slow(range), prefetch = Prefetch(slow, 4);
  Measure(prefetch);
  EXPECT_EQ(Bottleneck(), slow);
  EXPECT_EQ(ReaderOf(slow), prefetch);
  EXPECT_EQ(Find(prefetch).capacity, 4);
  EXPECT_GT(Find(prefetch).waited, 0);
  EXPECT_GT(Find(prefetch).ahead, 0);
}

TEST_F(MonitorTest, AboveAPrefetchTheSlowerStageIsNamed) {
  const std::string low = Slow(Range(20), 1000), prefetch = Prefetch(low, 4), high = Slow(prefetch, 5000);
  Measure(high);
  EXPECT_EQ(Bottleneck(), high);
  EXPECT_GT(Find(prefetch).fill, 0);
}

TEST_F(MonitorTest, ThreadsOfAParallelMapReadASlowInput) {
  AddN("AddTen", 10);
  const std::string slow = Slow(Range(20)), map = ParallelMap(slow, "AddTen", 2);
  EXPECT_EQ(Measure(map).size(), 20u);
  EXPECT_EQ(ReaderOf(slow), map);
  EXPECT_EQ(Find(slow).elements, 20);
  EXPECT_EQ(Find(map).capacity, 2 + 16);
  EXPECT_EQ(Bottleneck(), slow);
}

TEST_F(MonitorTest, AParallelMapWithASlowFunctionIsNamed) {
  // The sum of the elements of a slow dataset takes long.
  AddSlowThree();
  graph_.Function(FunctionBuilder("AddTwo")
                      .Arg("x: int64")
                      .Arg("y: int64")
                      .Ret("z: int64")
                      .Node("sum", "Add", {"x", "y"}, {{"T", DataType::kInt64}})
                      .Return("z", "sum:z"));
  const std::vector<DataType> one = {DataType::kInt64};
  graph_.Function(
      FunctionBuilder("SlowSum")
          .Arg("x: int64")
          .Ret("y: int64")
          .Node("three", "PartitionedCall", {"x"},
                {{"f", Fn("SlowThree")}, {"Tin", one}, {"Tout", std::vector<DataType>{DataType::kVariant}}})
          .Node("sum", "ReduceDataset", {"three:output", "x"},
                {{"f", Fn("AddTwo")},
                 {"Tstate", one},
                 {"Targuments", std::vector<DataType>{}},
                 {"output_types", one},
                 {"output_shapes", Type().shapes}})
          .Return("y", "sum:components"));
  const std::string range = Range(10), map = ParallelMap(range, "SlowSum", 2);
  EXPECT_EQ(Values(Measure(map)).back(), 12);
  EXPECT_EQ(Bottleneck(), map);
}

TEST_F(MonitorTest, DatasetsOfFunctionsAreOneStage) {
  AddSlowThree();
  for (const char* op : {"InterleaveDataset", "ParallelInterleaveDatasetV2"}) {
    std::vector<std::string> inputs = {Range(5), Int(2), Int(1)};
    const std::string range = inputs[0];
    if (std::string(op) != "InterleaveDataset") inputs.push_back(Int(2));
    const std::string interleave =
        Data(op, inputs, {{"f", Fn("SlowThree")}, {"Targuments", std::vector<DataType>{}}});
    stages_.clear();
    EXPECT_EQ(Measure(interleave).size(), 15u) << op;
    EXPECT_EQ(ReaderOf(range), interleave);
    const auto slow = std::ranges::find_if(stages_, [&](const Stage& s) {
      return s.kind == "Sleep" && stages_[static_cast<size_t>(s.reader)].node == interleave;
    });
    ASSERT_NE(slow, stages_.end()) << op;
    EXPECT_EQ(slow->elements, 15) << op;
    stages_.erase(stages_.begin(),
                  std::ranges::find_if(stages_, [&](const Stage& s) { return s.node == interleave; }));
    graph_ = DefBuilder();
    AddSlowThree();
  }
}

TEST_F(MonitorTest, ZipsReadAllTheirInputs) {
  const std::string fast = Range(10), slow = Slow(Range(12));
  const Type two = {{DataType::kInt64, DataType::kInt64}, {PartialShape({}), PartialShape({})}};
  const std::string zip = Data("ZipDataset", {fast, slow}, {{"N", 2}}, two);
  EXPECT_EQ(Measure(zip, two).size(), 10u);
  EXPECT_EQ(ReaderOf(fast), zip);
  EXPECT_EQ(ReaderOf(slow), zip);
  EXPECT_EQ(Find(fast).elements, 10);
  EXPECT_EQ(Bottleneck(), slow);
}

TEST_F(MonitorTest, ConcatenationsReadOneInputAfterTheOther) {
  const std::string first = Range(3), slow = Slow(Range(7));
  const std::string both = Data("ConcatenateDataset", {first, slow});
  EXPECT_EQ(Measure(both).size(), 10u);
  EXPECT_EQ(Find(first).elements, 3);
  EXPECT_EQ(Find(slow).elements, 7);
  EXPECT_EQ(ReaderOf(slow), both);
  EXPECT_EQ(Bottleneck(), slow);
}

TEST_F(MonitorTest, AShuffleShowsItsBuffer) {
  const std::string slow = Slow(Range(20));
  const std::string shuffle = Data("ShuffleDataset", {slow, Int(8), Int(1), Int(2)});
  EXPECT_EQ(Measure(shuffle).size(), 20u);
  EXPECT_EQ(Find(shuffle).capacity, 8);
  EXPECT_GT(Find(shuffle).fill, 0);
  EXPECT_LE(Find(shuffle).fill, 8);
  EXPECT_EQ(Bottleneck(), slow);
}

TEST_F(MonitorTest, ACacheReadsItsInputOnce) {
  const std::string slow = Slow(Range(5));
  const std::string cache = Data("CacheDataset", {slow, Text("")});
  const std::string repeat = Data("RepeatDataset", {cache, Int(3)});
  EXPECT_EQ(Measure(repeat).size(), 15u);
  EXPECT_EQ(Find(repeat).elements, 15);
  EXPECT_EQ(Find(cache).elements, 15);
  EXPECT_EQ(Find(slow).elements, 5);
  EXPECT_EQ(Bottleneck(), slow);
}

}  // namespace
}  // namespace millrace
