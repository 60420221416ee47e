// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Rewrites of input pipelines: that they happen, and that the elements do not change.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "compile/optimize/datasets.h"
#include "io/example/example_parser.h"
#include "tensorflow/core/example/example.pb.h"
#include "tests/datasets/pipeline_testing.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<DataType> kNone;
const std::vector<DataType> kOneInt = {DataType::kInt64};

class DatasetRewriteTest : public PipelineTest {
 protected:
  void SetUp() override {
    if (PassesAreOff()) GTEST_SKIP() << "rewrites are passes";
    if (NodesAreSpread()) GTEST_SKIP() << "stages on several devices are left alone";
  }
  // The numbers in the batches of a dataset.
  std::vector<int64_t> Rows(const std::string& dataset) {
    return Values(All(dataset, Vectors(DataType::kInt64)));
  }
  void AddFunctions() {
    for (const int64_t n : {1, 2, 5}) AddN(StrCat("add", n), n);
    // x * c, where c is captured.
    graph_.Function(FunctionBuilder("times")
                        .Arg("x: int64")
                        .Arg("c: int64")
                        .Ret("y: int64")
                        .Node("product", "Mul", {"x", "c"}, {{"T", DataType::kInt64}})
                        .Return("y", "product:z"));
    for (const int64_t n : {2, 3}) {
      graph_.Function(
          FunctionBuilder(StrCat("not_by", n))
              .Arg("x: int64")
              .Ret("y: bool")
              .Node("n", "Const", {}, {{"dtype", DataType::kInt64}, {"value", Tensor::Scalar(n)}})
              .Node("rest", "FloorMod", {"x", "n:output"}, {{"T", DataType::kInt64}})
              .Node("zero", "Const", {}, {{"dtype", DataType::kInt64}, {"value", Tensor::Scalar(int64_t{0})}})
              .Node("some", "NotEqual", {"rest:z", "zero:output"}, {{"T", DataType::kInt64}})
              .Return("y", "some:z"));
    }
  }
  std::string MapWith(const std::string& input, const std::string& f, const std::string& captured) {
    return Data("MapDataset", {input, captured}, {{"f", Fn(f)}, {"Targuments", kOneInt}});
  }
  std::string ParallelMap(const std::string& input, const std::string& f, int32_t calls) {
    return Data("ParallelMapDataset", {input, Constant(Tensor::Scalar(calls))},
                {{"f", Fn(f)}, {"Targuments", kNone}});
  }
  std::string Filter(const std::string& input, const std::string& f) {
    return Data("FilterDataset", {input}, {{"predicate", Fn(f)}, {"Targuments", kNone}});
  }
  std::string Optimize(const std::string& input, const std::vector<std::string>& names, const Type& type = {},
                       const std::vector<std::string>& configs = {}) {
    AttrMap attrs;
    if (!configs.empty()) attrs.Set("optimization_configs", configs);
    return Data("OptimizeDataset", {input, Constant(Tensor::Vector(names))}, attrs, type);
  }
  // float(x) * c + a random number from 0 to 1, of float. `shape` is that of the random number.
  void AddNoisy(const std::string& name, int64_t seed, int64_t seed2) {
    graph_.Function(
        FunctionBuilder(name)
            .Arg("x: int64")
            .Arg("c: float")
            .Ret("y: float")
            .Node("shape", "Const", {},
                  {{"dtype", DataType::kInt32}, {"value", Tensor(DataType::kInt32, TensorShape({0}))}})
            .Node("random", "RandomUniform", {"shape:output"},
                  {{"T", DataType::kInt32}, {"dtype", DataType::kFloat}, {"seed", seed}, {"seed2", seed2}})
            .Node("value", "Cast", {"x"}, {{"SrcT", DataType::kInt64}, {"DstT", DataType::kFloat}})
            .Node("product", "Mul", {"value:y", "c"}, {{"T", DataType::kFloat}})
            .Node("sum", "Add", {"product:z", "random:output"}, {{"T", DataType::kFloat}})
            .Return("y", "sum:z"));
  }
  // Whether a random number from 0 to 1 is below `rate`, written as rate > random if `turned`.
  void AddChance(const std::string& name, float rate, bool turned) {
    FunctionBuilder f(name);
    f.Arg("x: int64").Ret("y: bool");
    f.Node("shape", "Const", {},
           {{"dtype", DataType::kInt32}, {"value", Tensor(DataType::kInt32, TensorShape({0}))}});
    f.Node("random", "RandomUniform", {"shape:output"},
           {{"T", DataType::kInt32}, {"dtype", DataType::kFloat}, {"seed", 7}, {"seed2", 8}});
    f.Node("rate", "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar(rate)}});
    f.Node("less", turned ? "Greater" : "Less",
           turned ? std::vector<std::string>{"rate:output", "random:output"}
                  : std::vector<std::string>{"random:output", "rate:output"},
           {{"T", DataType::kFloat}});
    graph_.Function(f.Return("y", "less:z"));
  }
  // An error unless these stages are the consumers of the source.
  std::string ReadBy(const std::string& input, std::vector<std::string> stages, const Type& type = {}) {
    return Data("AssertNextDataset", {input, Constant(Tensor::Vector(stages))}, {}, type);
  }
  static std::vector<std::string> AllNames() {
    std::vector<std::string> names;
    for (const DatasetRewrite& rewrite : DatasetRewrites()) names.emplace_back(rewrite.name);
    return names;
  }
};

TEST_F(DatasetRewriteTest, StagesThatDoNothingGo) {
  std::string d = ReadBy(Range(5), {"Optimize"});
  d = Data("TakeDataset", {d, Int(-1)});
  d = Data("SkipDataset", {d, Int(0)});
  d = Data("RepeatDataset", {d, Int(1)});
  d = Data("PrefetchDataset", {d, Int(0)});
  d = Data("ShardDataset", {d, Int(1), Int(0)});
  EXPECT_THAT(Ints(Optimize(d, {"noop_elimination"})), ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(DatasetRewriteTest, StagesThatDoSomethingStay) {
  std::string d = ReadBy(Range(5), {"Take", "Skip"});
  d = Data("TakeDataset", {d, Int(3)});
  d = Data("SkipDataset", {d, Int(1)});
  d = Data("RepeatDataset", {d, Int(2)});
  EXPECT_THAT(Ints(Optimize(d, {"noop_elimination"})), ElementsAre(1, 2, 1, 2));
}

TEST_F(DatasetRewriteTest, WithoutItsNameNothingIsRewritten) {
  AddFunctions();
  const std::string d = ReadBy(Range(4), {"Map", "Batch"});
  EXPECT_THAT(Rows(Optimize(Batch(Map(d, "add1"), 2), {"noop_elimination"}, Vectors(DataType::kInt64))),
              ElementsAre(1, 2, 3, 4));
}

TEST_F(DatasetRewriteTest, AMapAndABatchBecomeOne) {
  AddFunctions();
  for (const int calls : {0, 2}) {
    const std::string d = ReadBy(Range(5), {"MapAndBatch"});
    const std::string map = calls == 0 ? Map(d, "add1") : ParallelMap(d, "add1", calls);
    EXPECT_THAT(Rows(Optimize(Batch(map, 2), {"map_and_batch_fusion"}, Vectors(DataType::kInt64))),
                ElementsAre(1, 2, 3, 4, 5));
    session_ = nullptr;
    graph_ = {};
    AddFunctions();
  }
}

TEST_F(DatasetRewriteTest, MapsBecomeOne) {
  AddFunctions();
  const std::string d = ReadBy(Range(4), {"Map", "Optimize"});
  const std::string maps = Map(MapWith(Map(d, "add1"), "times", Int(10)), "add2");
  EXPECT_THAT(Ints(Optimize(maps, {"map_fusion"})), ElementsAre(12, 22, 32, 42));
}

TEST_F(DatasetRewriteTest, FiltersBecomeOne) {
  AddFunctions();
  const std::string d = ReadBy(Range(13), {"Filter", "Optimize"});
  EXPECT_THAT(Ints(Optimize(Filter(Filter(d, "not_by2"), "not_by3"), {"filter_fusion"})),
              ElementsAre(1, 5, 7, 11));
}

TEST_F(DatasetRewriteTest, AMapReturnsWhatAFilterKeeps) {
  AddFunctions();
  const std::string d = ReadBy(Range(6), {"Map", "FilterByLastComponent", "Optimize"});
  EXPECT_THAT(Ints(Optimize(Filter(MapWith(d, "times", Int(5)), "not_by2"), {"map_and_filter_fusion"})),
              ElementsAre(5, 15, 25));
}

TEST_F(DatasetRewriteTest, AMapIsMadeParallel) {
  AddFunctions();
  const std::string d = ReadBy(Range(6), {"ParallelMap", "Optimize"});
  EXPECT_THAT(Ints(Optimize(Map(d, "add5"), {"map_parallelization"})), ElementsAre(5, 6, 7, 8, 9, 10));
}

TEST_F(DatasetRewriteTest, AnEpochAfterAFusedShuffleIsWhole) {
  const auto shuffled_from = [&](const std::string& d) {
    return Data("ShuffleDataset", {d, Int(4), Int(1), Int(2)}, {{"reshuffle_each_iteration", true}});
  };
  // The consumers of its input are only known at the first iteration.
  const std::string once =
      Data("RepeatDataset", {shuffled_from(ReadBy(Range(10), {"ShuffleAndRepeat", "Optimize"})), Int(1)});
  EXPECT_EQ(Ints(Optimize(once, {"shuffle_and_repeat_fusion"})).size(), 10u);
  session_ = nullptr;
  graph_ = {};
  const std::string shuffled = shuffled_from(Range(10));
  std::vector<int64_t> all =
      Ints(Optimize(Data("RepeatDataset", {shuffled, Int(3)}), {"shuffle_and_repeat_fusion"}));
  ASSERT_EQ(all.size(), 30u);
  for (auto epoch = all.begin(); epoch != all.end(); epoch += 10) {
    std::sort(epoch, epoch + 10);
    EXPECT_TRUE(std::is_sorted(epoch, epoch + 10));
    EXPECT_EQ(*epoch, 0);
    EXPECT_EQ(epoch[9], 9);
  }
}

TEST_F(DatasetRewriteTest, RandomNumbersOfAMapComeFromADatasetOfSeeds) {
  AddNoisy("noisy", 3, 5);
  const Type floats = Scalars(DataType::kFloat);
  const std::string ten = Constant(Tensor::Scalar(10.f));
  const std::string d = ReadBy(Range(4), {"Zip", "ParallelMap"});
  const std::string map =
      Data("MapDataset", {d, ten},
           {{"f", Fn("noisy")}, {"Targuments", std::vector<DataType>{DataType::kFloat}}}, floats);
  const auto got =
      Values<float>(All(Optimize(map, {"hoist_random_uniform", "map_parallelization"}, floats), floats));
  // The numbers are those of the stateless op for pairs of the dataset with these seeds.
  session_ = nullptr;
  graph_ = {};
  const std::vector<int64_t> seeds = Ints(Data("RandomDataset", {Int(3), Int(5)}), 8);
  ASSERT_EQ(seeds.size(), 8u);
  session_ = nullptr;
  graph_ = {};
  graph_.Const("shape", Tensor(DataType::kInt32, TensorShape({0})));
  graph_.Placeholder("seed", tensorflow::DT_INT64);
  graph_.Node("random", "StatelessRandomUniform", {"shape", "seed"},
              {{"dtype", DataType::kFloat}, {"T", DataType::kInt32}, {"Tseed", DataType::kInt64}});
  ASSERT_EQ(got.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const Tensor pair = Tensor::Vector<int64_t>({seeds[2 * i], seeds[2 * i + 1]});
    EXPECT_EQ(got[i], static_cast<float>(10 * i) + GetOne("random", {{"seed", pair}}).scalar<float>());
  }
}

TEST_F(DatasetRewriteTest, AMapWithMoreStateThanOneRandomNumberStays) {
  AddFunctions();
  graph_.Function(
      FunctionBuilder("two")
          .Arg("x: int64")
          .Ret("y: float")
          .Node("shape", "Const", {},
                {{"dtype", DataType::kInt32}, {"value", Tensor(DataType::kInt32, TensorShape({0}))}})
          .Node("a", "RandomUniform", {"shape:output"},
                {{"T", DataType::kInt32}, {"dtype", DataType::kFloat}})
          .Node("b", "RandomUniform", {"shape:output"},
                {{"T", DataType::kInt32}, {"dtype", DataType::kFloat}})
          .Node("sum", "Add", {"a:output", "b:output"}, {{"T", DataType::kFloat}})
          .Return("y", "sum:z"));
  const Type floats = Scalars(DataType::kFloat);
  const std::string d = ReadBy(Range(3), {"Map", "Optimize"});
  EXPECT_EQ(All(Optimize(Map(d, "two", floats), {"hoist_random_uniform"}, floats), floats).size(), 3u);
}

TEST_F(DatasetRewriteTest, AFilterByChanceBecomesASample) {
  for (const bool turned : {false, true}) {
    session_ = nullptr;
    graph_ = {};
    AddChance("chance", 0.3f, turned);
    const std::string d = ReadBy(Range(2000), {"Sampling", "Optimize"});
    const auto got = Ints(Optimize(Filter(d, "chance"), {"filter_with_random_uniform_fusion"}));
    EXPECT_NEAR(static_cast<double>(got.size()), 600, 5 * std::sqrt(2000 * 0.3 * 0.7));
    EXPECT_TRUE(std::ranges::is_sorted(got));
    EXPECT_EQ(std::ranges::adjacent_find(got), got.end());
  }
}

TEST_F(DatasetRewriteTest, AFilterThatLooksAtTheElementStays) {
  AddFunctions();
  const std::string d = ReadBy(Range(6), {"Filter", "Optimize"});
  EXPECT_THAT(Ints(Optimize(Filter(d, "not_by2"), {"filter_with_random_uniform_fusion"})),
              ElementsAre(1, 3, 5));
}

// The number of threads whose names begin with `name`.
int ThreadsNamed(const std::string& name) {
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "comm");
    std::string comm;
    n += std::getline(file, comm) && comm.starts_with(name) ? 1 : 0;
  }
  return n;
}

TEST_F(DatasetRewriteTest, LargeElementsAreCopiedBySeveralThreads) {
  Tensor x(DataType::kFloat, TensorShape({9, 1 << 18}));
  for (int64_t i = 0; i < x.num_elements(); ++i) x.data<float>()[i] = static_cast<float>(i % 8191);
  const Type row = {{DataType::kFloat}, {PartialShape({1 << 18})}};
  const Type type = {{DataType::kFloat}, {PartialShape({-1, 1 << 18})}};
  for (const bool padded : {false, true}) {
    for (const bool parallel : {false, true}) {
      session_ = nullptr;
      graph_ = {};
      // On threads of another pool, which may end before those of a prefetch.
      graph_.Function(FunctionBuilder("minus")
                          .Arg("x: float")
                          .Ret("y: float")
                          .Node("y", "Neg", {"x"}, {{"T", DataType::kFloat}})
                          .Return("y", "y:y"));
      std::string d = Map(Slices({x}), "minus", row);
      if (padded) {
        d = Data(
            "PaddedBatchDatasetV2",
            {d, Int(4), Constant(Tensor::Vector<int64_t>({-1})), Constant(Tensor::Scalar(0.f)), Bool(false)},
            {{"N", 1}}, type, "Toutput_types");
      } else {
        d = Data("BatchDatasetV2", {d, Int(4), Bool(false)}, {}, type);
      }
      d = Data("PrefetchDataset", {d, Int(1)}, {}, type);
      if (parallel) d = Optimize(d, {"parallel_batch"}, type);
      // At its end a stage releases its elements.
      std::vector<float> got = Values<float>(All(d, type, 2));
      EXPECT_EQ(ThreadsNamed("batch") > 0, parallel && std::thread::hardware_concurrency() > 1);
      for (const float v : Values<float>(Drain(type))) got.push_back(v);
      EXPECT_TRUE(std::ranges::equal(got, x.flat<float>(), {}, {}, std::negate<float>()));
    }
  }
}

TEST_F(DatasetRewriteTest, ElementsOfDifferentSizesAreAnErrorOfParallelCopiesToo) {
  const std::string a = Data("TensorDataset", {Constant(Tensor::Vector<int64_t>({1, 2}))}, {},
                             Vectors(DataType::kInt64), "Toutput_types");
  const std::string b = Data("TensorDataset", {Constant(Tensor::Vector<int64_t>({1, 2, 3}))}, {},
                             Vectors(DataType::kInt64), "Toutput_types");
  const Type type = {{DataType::kInt64}, {PartialShape()}};
  const std::string both = Data("ConcatenateDataset", {a, b}, {}, Vectors(DataType::kInt64));
  const std::string batch = Data("BatchDatasetV2", {both, Int(2), Bool(false)}, {}, type);
  EXPECT_THAT(Error(Optimize(batch, {"parallel_batch"}, type), type).message(),
              HasSubstr("First element had shape [2] and element 1 had shape [3]."));
}

TEST_F(DatasetRewriteTest, BothWaysToMapBatchesAreTried) {
  AddFunctions();
  for (const bool tries : {false, true}) {
    session_ = nullptr;
    graph_ = {};
    AddFunctions();
    const std::string d = ReadBy(Range(103), {tries ? "ChooseFastestBranch" : "Batch"});
    const std::string config = StrCat("map_vectorization:use_choose_fastest:", tries ? "true" : "false");
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < 103; ++i) expected.push_back(i + 5);
    EXPECT_EQ(
        Rows(Optimize(Batch(Map(d, "add5"), 4), {"map_vectorization"}, Vectors(DataType::kInt64), {config})),
        expected);
  }
}

TEST_F(DatasetRewriteTest, ASharedStageStaysForOthers) {
  AddFunctions();
  const std::string map = Map(ReadBy(Range(4), {"Map"}), "add1");
  const std::string a = Data("TakeDataset", {Map(map, "add2"), Int(2)}),
                    b = Data("SkipDataset", {map, Int(2)});
  EXPECT_THAT(Ints(Optimize(Data("ConcatenateDataset", {a, b}), {"map_fusion"})), ElementsAre(3, 4, 3, 4));
}

// Applies the operations of a map on rows to batches.
class VectorizeTest : public DatasetRewriteTest {
 protected:
  // Maps the rows of `x` by a function with these nodes, in batches of two, with the rewrite and without.
  void Check(const Tensor& x, const FunctionBuilder& f, const Type& result, bool is_vectorized = true) {
    std::vector<std::vector<Tensor>> with[2];
    for (const bool on : {false, true}) {
      session_ = nullptr;
      graph_ = {};
      graph_.Function(f);
      std::vector<int64_t> row(x.shape().dims().begin() + 1, x.shape().dims().end());
      const Type type = {{x.dtype()}, {PartialShape(std::move(row))}};
      const std::string rows = ReadBy(Slices({x}),
                                      on && is_vectorized ? std::vector<std::string>{"Batch", "Map"}
                                                          : std::vector<std::string>{"Map", "Batch"},
                                      type);
      const std::string batch =
          Data("BatchDatasetV2", {Map(rows, "f", result), Int(2), Bool(false)}, {}, result);
      with[on ? 1 : 0] =
          All(Optimize(batch, on ? std::vector<std::string>{"map_vectorization"} : std::vector<std::string>{},
                       result),
              result);
    }
    ASSERT_EQ(with[0].size(), with[1].size());
    ASSERT_FALSE(with[0].empty());
    for (size_t i = 0; i < with[0].size(); ++i) {
      for (size_t k = 0; k < result.types.size(); ++k) {
        EXPECT_EQ(with[0][i][k].shape(), with[1][i][k].shape());
        EXPECT_EQ(with[0][i][k].DebugString(1000), with[1][i][k].DebugString(1000)) << "batch " << i;
      }
    }
  }
  static Tensor Matrices() {
    Tensor x(DataType::kFloat, TensorShape({5, 2, 3}));
    for (int i = 0; i < 30; ++i) x.data<float>()[i] = static_cast<float>(i * i % 17) - 6.5f;
    return x;
  }
  static AttrMap Float() { return {{"T", DataType::kFloat}}; }
  static AttrMap ConstOf(Tensor value) {
    const DataType dtype = value.dtype();
    return {{"dtype", dtype}, {"value", std::move(value)}};
  }
  static Type Floats() { return {{DataType::kFloat}, {PartialShape()}}; }
  // y of a function of x with one op after constants "a", "b", ….
  static FunctionBuilder OneOp(const std::string& op, AttrMap attrs, const std::vector<Tensor>& constants,
                               const char* output, const char* type = "float") {
    FunctionBuilder f("f");
    f.Arg("x: float").Ret(StrCat("y: ", type));
    std::vector<std::string> inputs = {"x"};
    for (const Tensor& value : constants) {
      const std::string name(1, static_cast<char>('a' + inputs.size()));
      f.Node(name, "Const", {}, ConstOf(value));
      inputs.push_back(name + ":output");
    }
    f.Node("op", op, inputs, std::move(attrs)).Return("y", StrCat("op:", output));
    return f;
  }
};

TEST_F(VectorizeTest, ElementWise) {
  Check(Matrices(), OneOp("Tanh", Float(), {}, "y"), Floats());
  Check(Matrices(), OneOp("Exp", Float(), {}, "y"), Floats());
  Check(Matrices(), OneOp("Mul", Float(), {Tensor::Scalar(0.3f)}, "z"), Floats());
  Check(Matrices(), OneOp("Add", Float(), {Tensor::Vector<float>({1, 2, 3})}, "z"), Floats());
  Check(Matrices(), OneOp("Cast", {{"SrcT", DataType::kFloat}, {"DstT", DataType::kInt32}}, {}, "y", "int32"),
        {{DataType::kInt32}, {PartialShape()}});
}

TEST_F(VectorizeTest, OpsThatHaveAxes) {
  const AttrMap axes = {{"T", DataType::kFloat}, {"Tidx", DataType::kInt32}};
  for (const int32_t axis : {0, 1, -1, -2}) {
    Check(Matrices(), OneOp("Sum", axes, {Tensor::Scalar(axis)}, "output"), Floats());
    Check(Matrices(), OneOp("Max", axes, {Tensor::Vector<int32_t>({axis})}, "output"), Floats());
    Check(Matrices(),
          OneOp("ExpandDims", {{"T", DataType::kFloat}, {"Tdim", DataType::kInt32}}, {Tensor::Scalar(axis)},
                "output"),
          Floats());
  }
  Check(Matrices(),
        OneOp("Transpose", {{"T", DataType::kFloat}, {"Tperm", DataType::kInt32}},
              {Tensor::Vector<int32_t>({1, 0})}, "y"),
        Floats());
  Check(Matrices(),
        OneOp("Reshape", {{"T", DataType::kFloat}, {"Tshape", DataType::kInt32}},
              {Tensor::Vector<int32_t>({3, -1})}, "output"),
        Floats());
  Check(Matrices(),
        OneOp("Slice", {{"T", DataType::kFloat}, {"Index", DataType::kInt32}},
              {Tensor::Vector<int32_t>({1, 0}), Tensor::Vector<int32_t>({1, 2})}, "output"),
        Floats());
  for (const int64_t shrink : {0, 1, 2}) {
    Check(Matrices(),
          OneOp("StridedSlice",
                {{"T", DataType::kFloat},
                 {"Index", DataType::kInt32},
                 {"begin_mask", 0},
                 {"end_mask", 2},
                 {"ellipsis_mask", 0},
                 {"new_axis_mask", 0},
                 {"shrink_axis_mask", shrink}},
                {Tensor::Vector<int32_t>({1, 1}), Tensor::Vector<int32_t>({2, 0}),
                 Tensor::Vector<int32_t>({1, 1})},
                "output"),
          Floats());
  }
}

TEST_F(VectorizeTest, SeveralOps) {
  FunctionBuilder f("f");
  f.Arg("x: float").Ret("y: float").Ret("z: float");
  f.Node("axis", "Const", {}, ConstOf(Tensor::Scalar(1)));
  f.Node("mean", "Mean", {"x", "axis:output"},
         {{"T", DataType::kFloat}, {"Tidx", DataType::kInt32}, {"keep_dims", true}});
  f.Node("centred", "Sub", {"x", "mean:output"}, Float());
  f.Node("square", "Square", {"centred:z"}, Float());
  f.Node("sum", "AddN", {"square:y", "x"}, {{"T", DataType::kFloat}, {"N", 2}});
  f.Return("y", "sum:sum").Return("z", "centred:z");
  Check(Matrices(), f, {{DataType::kFloat, DataType::kFloat}, {PartialShape(), PartialShape()}});
}

TEST_F(VectorizeTest, OpsWithoutSuchAFormStay) {
  Check(Matrices(), OneOp("Softmax", Float(), {}, "softmax"), Floats(), false);
  // Ranks of rows that differ.
  FunctionBuilder f("f");
  f.Arg("x: float").Ret("y: float");
  f.Node("axis", "Const", {}, ConstOf(Tensor::Scalar(0)));
  f.Node("sum", "Sum", {"x", "axis:output"}, {{"T", DataType::kFloat}, {"Tidx", DataType::kInt32}});
  f.Node("rest", "Sub", {"x", "sum:output"}, Float()).Return("y", "rest:z");
  Check(Matrices(), f, Floats(), false);
}

TEST_F(VectorizeTest, Examples) {
  std::vector<std::string> rows;
  for (int i = 0; i < 5; ++i) {
    tensorflow::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    features["id"].mutable_int64_list()->add_value(i);
    for (int k = 0; k < 3; ++k) features["x"].mutable_float_list()->add_value(static_cast<float>(i * k));
    rows.push_back(example.SerializeAsString());
  }
  const std::vector<DataType> types = {DataType::kInt64, DataType::kFloat};
  const std::vector<PartialShape> shapes = {PartialShape({}), PartialShape({3})};
  FunctionBuilder f("f");
  f.Arg("x: string").Ret("id: int64").Ret("v: float");
  f.Node("none", "Const", {}, ConstOf(Tensor(DataType::kInt64, TensorShape({0}))));
  f.Node("zero", "Const", {}, ConstOf(Tensor(DataType::kFloat, TensorShape({0}))));
  f.Node("parse", "ParseSingleExample", {"x", "none:output", "zero:output"},
         {{"num_sparse", 0},
          {"sparse_keys", std::vector<std::string>{}},
          {"dense_keys", std::vector<std::string>{"id", "x"}},
          {"sparse_types", kNone},
          {"Tdense", types},
          {"dense_shapes", shapes}});
  f.Return("id", "parse:dense_values:0").Return("v", "parse:dense_values:1");
  Check(Tensor::Vector(rows), f, {types, shapes});
}

// Chains of random stages give the same elements with every rewrite.
TEST_F(DatasetRewriteTest, RandomPipelines) {
  std::mt19937 random(15);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 60; ++round) {
    std::vector<int> stages;
    for (int i = 0, n = 1 + below(7); i < n; ++i) stages.push_back(below(12));
    const int64_t batch = 1 + below(4);
    const bool drop = below(2) == 0;
    std::vector<std::string> some;
    for (const std::string& name : AllNames()) {
      // These change the order.
      if (name == "shuffle_and_repeat_fusion" || name == "make_sloppy") continue;
      if (below(2) == 0) some.push_back(name);
    }
    std::vector<int64_t> expected;
    for (const bool on : {false, true}) {
      session_ = nullptr;
      graph_ = {};
      AddFunctions();
      std::string d = Range(12);
      for (const int stage : stages) {
        switch (stage) {
          case 0:
            d = Map(d, "add1");
            break;
          case 1:
            d = Map(d, "add5");
            break;
          case 2:
            d = MapWith(d, "times", Int(3));
            break;
          case 3:
            d = ParallelMap(d, "add2", 2);
            break;
          case 4:
            d = Filter(d, "not_by2");
            break;
          case 5:
            d = Filter(d, "not_by3");
            break;
          case 6:
            d = Data("TakeDataset", {d, Int(-1)});
            break;
          case 7:
            d = Data("SkipDataset", {d, Int(stage % 2)});
            break;
          case 8:
            d = Data("RepeatDataset", {d, Int(2)});
            break;
          case 9:
            d = Data("PrefetchDataset", {d, Int(0)});
            break;
          case 10:
            d = Data("ShuffleDataset", {d, Int(3), Int(1), Int(2)});
            break;
          default:
            d = Data("ConcatenateDataset", {d, Map(d, "add1")});
            break;
        }
      }
      if (on) {
        std::vector<std::string> configs;
        if (below(2) == 0) configs.emplace_back("map_vectorization:use_choose_fastest:true");
        d = Optimize(Batch(d, batch, drop), some, Vectors(DataType::kInt64), configs);
        EXPECT_EQ(Rows(d), expected) << "round " << round << ", " << testing::PrintToString(stages) << ", "
                                     << testing::PrintToString(some);
      } else {
        expected = Rows(Batch(d, batch, drop));
      }
    }
  }
}

}  // namespace
}  // namespace millrace
