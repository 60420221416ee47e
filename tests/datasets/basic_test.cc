// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Datasets of tensors, and those that forward elements.
#include <gmock/gmock.h>

#include "base/random/philox.h"
#include "tensor/variant.h"
#include "tests/datasets/pipeline_testing.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BasicDatasetTest : public PipelineTest {};

TEST_F(BasicDatasetTest, RangeCountsUp) { EXPECT_THAT(Ints(Range(5)), ElementsAre(0, 1, 2, 3, 4)); }

TEST_F(BasicDatasetTest, RangeCountsDownInSteps) {
  EXPECT_THAT(Ints(Data("RangeDataset", {Int(10), Int(0), Int(-4)})), ElementsAre(10, 6, 2));
}

TEST_F(BasicDatasetTest, RangeEndsWhereItWouldOverflow) {
  EXPECT_THAT(Ints(Data("RangeDataset", {Int(INT64_MAX - 2), Int(INT64_MAX), Int(2)})),
              ElementsAre(INT64_MAX - 2));
}

TEST_F(BasicDatasetTest, RangeRefusesAStepOfZero) {
  EXPECT_THAT(Error(Data("RangeDataset", {Int(0), Int(5), Int(0)})).message(),
              HasSubstr("step must be a non-zero integer."));
}

TEST_F(BasicDatasetTest, ATensorIsOneElement) {
  const Type type{{DataType::kInt64, DataType::kString}, {PartialShape({2}), PartialShape({})}};
  const auto all = All(Data("TensorDataset", {Constant(Tensor::Vector<int64_t>({3, 4})), Text("a")}, {}, type,
                            "Toutput_types"),
                       type);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_THAT(Values(all), ElementsAre(3, 4));
  EXPECT_EQ(all[0][1].scalar<std::string>(), "a");
}

TEST_F(BasicDatasetTest, RowsOfTensorsAreElements) {
  const Type type{{DataType::kInt64, DataType::kString}, {PartialShape({2}), PartialShape({})}};
  const auto all = All(
      Slices({Tensor::From<int64_t>({1, 2, 3, 4}, {2, 2}), Tensor::Vector<std::string>({"x", "y"})}), type);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1][0].shape(), TensorShape({2}));
  EXPECT_THAT(Values(all), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Values<std::string>(all, 1), ElementsAre("x", "y"));
}

TEST_F(BasicDatasetTest, RowsOfASparseTensor) {
  const Type type{{DataType::kInt64, DataType::kFloat, DataType::kInt64},
                  {PartialShape({-1, 1}), PartialShape({-1}), PartialShape({1})}};
  const std::string indices = Constant(Tensor::From<int64_t>({0, 1, 2, 0, 2, 3}, {3, 2}));
  const std::string dataset =
      Plain("SparseTensorSliceDataset",
            {indices, Constant(Tensor::Vector<float>({1, 2, 3})), Constant(Tensor::Vector<int64_t>({3, 4}))},
            {{"Tvalues", DataType::kFloat}});
  const auto all = All(dataset, type);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_THAT(Values(all), ElementsAre(1, 0, 3));
  EXPECT_EQ(all[1][1].num_elements(), 0);
  EXPECT_EQ(all[1][0].shape(), TensorShape({0, 1}));
  EXPECT_THAT(Values<float>(all, 1), ElementsAre(1, 2, 3));
  EXPECT_THAT(Values(all, 2), ElementsAre(4, 4, 4));
}

TEST_F(BasicDatasetTest, RepeatTakeAndSkip) {
  const std::string repeated = Data("RepeatDataset", {Range(3), Int(3)});
  const std::string skipped = Data("SkipDataset", {repeated, Int(2)});
  EXPECT_THAT(Ints(Data("TakeDataset", {skipped, Int(5)})), ElementsAre(2, 0, 1, 2, 0));
}

TEST_F(BasicDatasetTest, NegativeCountsMeanAll) {
  const std::string forever = Data("RepeatDataset", {Range(2), Int(-1)});
  EXPECT_THAT(Ints(Data("TakeDataset", {forever, Int(-1)}), 5), ElementsAre(0, 1, 0, 1, 0));
}

TEST_F(BasicDatasetTest, SkippingAllLeavesNothing) {
  EXPECT_THAT(Ints(Data("SkipDataset", {Range(3), Int(-1)})), IsEmpty());
}

TEST_F(BasicDatasetTest, RepeatingNothingForEverEnds) {
  EXPECT_THAT(Ints(Data("RepeatDataset", {Range(0), Int(-1)})), IsEmpty());
}

TEST_F(BasicDatasetTest, Shards) {
  EXPECT_THAT(Ints(Data("ShardDataset", {Range(8), Int(3), Int(1)})), ElementsAre(1, 4, 7));
}

TEST_F(BasicDatasetTest, ShardsAreCounted) {
  EXPECT_THAT(Error(Data("ShardDataset", {Range(8), Int(3), Int(3)})).message(),
              HasSubstr("Index must be between 0 and 2 (currently index = 3)."));
}

TEST_F(BasicDatasetTest, OneAfterTheOther) {
  EXPECT_THAT(Ints(Data("ConcatenateDataset", {Range(2), Range(3)})), ElementsAre(0, 1, 0, 1, 2));
}

TEST_F(BasicDatasetTest, SideBySideUntilTheShorterEnds) {
  const Type type{{DataType::kInt64, DataType::kInt64}, {PartialShape({}), PartialShape({})}};
  const auto all = All(Data("ZipDataset", {Range(2), Range(5)}, {{"N", 2}}, type), type);
  EXPECT_THAT(Values(all, 0), ElementsAre(0, 1));
  EXPECT_THAT(Values(all, 1), ElementsAre(0, 1));
}

TEST_F(BasicDatasetTest, RandomNumbersAreThoseOfPhilox) {
  // The words of the block for key 3 and upper counter 5, by the paper's algorithm.
  PhiloxRandom philox(3, 5);
  const auto block = philox();
  EXPECT_THAT(Ints(Data("RandomDataset", {Int(3), Int(5)}), 4),
              ElementsAre(block[0], block[1], block[2], block[3]));
}

TEST_F(BasicDatasetTest, MapCallsAFunction) {
  AddN("AddTen", 10);
  EXPECT_THAT(Ints(Map(Range(3), "AddTen")), ElementsAre(10, 11, 12));
}

TEST_F(BasicDatasetTest, MapHandsArgumentsOn) {
  graph_.Function(FunctionBuilder("Swap")
                      .Arg("a: int64")
                      .Arg("b: int64")
                      .Ret("x: int64")
                      .Ret("y: int64")
                      .Ret("z: int64")
                      .Return("x", "b")
                      .Return("y", "a")
                      .Return("z", "b"));
  AddN("AddTen", 10);
  const Type two{{DataType::kInt64, DataType::kInt64}, {PartialShape({}), PartialShape({})}};
  const Type three{std::vector<DataType>(3, DataType::kInt64),
                   std::vector<PartialShape>(3, PartialShape({}))};
  const auto all = All(
      Map(Data("ZipDataset", {Range(2), Map(Range(2), "AddTen")}, {{"N", 2}}, two), "Swap", three), three);
  EXPECT_THAT(Values(all, 0), ElementsAre(10, 11));
  EXPECT_THAT(Values(all, 1), ElementsAre(0, 1));
  EXPECT_THAT(Values(all, 2), ElementsAre(10, 11));
}

TEST_F(BasicDatasetTest, MapChecksTheFunction) {
  AddN("AddTen", 10);
  EXPECT_THAT(
      Error(Map(Slices({Tensor::Vector<float>({1})}), "AddTen")).message(),
      HasSubstr("Function 'AddTen' takes [int64] and returns [int64], called with [float] for [int64]"));
}

void Less(DefBuilder* g, int64_t limit) {
  g->Function(
      FunctionBuilder("IsLess")
          .Arg("x: int64")
          .Ret("y: bool")
          .Node("n", "Const", {}, {{"dtype", DataType::kInt64}, {"value", Tensor::Scalar(limit)}})
          .Node("mod", "Const", {}, {{"dtype", DataType::kInt64}, {"value", Tensor::Scalar(int64_t{4})}})
          .Node("rest", "FloorMod", {"x", "mod:output"}, {{"T", DataType::kInt64}})
          .Node("less", "Less", {"rest:z", "n:output"}, {{"T", DataType::kInt64}})
          .Return("y", "less:z"));
}

TEST_F(BasicDatasetTest, FilterAndTakeWhile) {
  Less(&graph_, 2);
  const AttrMap attrs = {{"predicate", Fn("IsLess")}, {"Targuments", std::vector<DataType>{}}};
  MakeIterator(Data("FilterDataset", {Range(7)}, attrs), {}, "filter");
  MakeIterator(Data("TakeWhileDataset", {Range(7)}, attrs), {}, "while");
  ASSERT_TRUE(Do("filter/init").ok());
  ASSERT_TRUE(Do("while/init").ok());
  EXPECT_THAT(Values(Drain({}, 100, "filter")), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(Values(Drain({}, 100, "while")), ElementsAre(0, 1));
}

TEST_F(BasicDatasetTest, ScanKeepsAState) {
  graph_.Function(FunctionBuilder("AddUp")
                      .Arg("state: int64")
                      .Arg("x: int64")
                      .Ret("next: int64")
                      .Ret("out: int64")
                      .Node("sum", "Add", {"state", "x"}, {{"T", DataType::kInt64}})
                      .Return("next", "sum:z")
                      .Return("out", "state"));
  const std::string scan = Data("ScanDataset", {Range(4), Int(100)},
                                {{"f", Fn("AddUp")},
                                 {"Tstate", std::vector<DataType>{DataType::kInt64}},
                                 {"Targuments", std::vector<DataType>{}}});
  EXPECT_THAT(Ints(scan), ElementsAre(100, 100, 101, 103));
}

TEST_F(BasicDatasetTest, Batches) {
  const auto all = All(Batch(Range(5), 2), Vectors(DataType::kInt64));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0][0].shape(), TensorShape({2}));
  EXPECT_EQ(all[2][0].shape(), TensorShape({1}));
  EXPECT_THAT(Values(all), ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(BasicDatasetTest, BatchesWithoutTheRest) {
  EXPECT_EQ(All(Batch(Range(5), 2, true), Vectors(DataType::kInt64)).size(), 2u);
}

TEST_F(BasicDatasetTest, BatchesAreOfOneShape) {
  graph_.Function(FunctionBuilder("FillWith")
                      .Arg("x: int64")
                      .Ret("y: int64")
                      .Node("dims", "Pack", {"x"}, {{"T", DataType::kInt64}, {"N", 1}})
                      .Node("fill", "Fill", {"dims:output", "x"},
                            {{"T", DataType::kInt64}, {"index_type", DataType::kInt64}})
                      .Return("y", "fill:output"));
  const std::string rows = Map(Range(3), "FillWith", Vectors(DataType::kInt64));
  const Type matrix{{DataType::kInt64}, {PartialShape({-1, -1})}};
  const Status status = Error(Data("BatchDataset", {rows, Int(3)}, {}, matrix), matrix);
  EXPECT_THAT(status.message(), HasSubstr("Cannot batch tensors with different shapes in component 0. First "
                                          "element had shape [0] and element 1 had shape [1]."));
}

TEST_F(BasicDatasetTest, PaddedBatches) {
  graph_.Function(FunctionBuilder("FillWith")
                      .Arg("x: int64")
                      .Ret("y: int64")
                      .Node("dims", "Pack", {"x", "x"}, {{"T", DataType::kInt64}, {"N", 2}})
                      .Node("fill", "Fill", {"dims:output", "x"},
                            {{"T", DataType::kInt64}, {"index_type", DataType::kInt64}})
                      .Return("y", "fill:output"));
  const Type matrix{{DataType::kInt64}, {PartialShape({-1, -1})}};
  const Type batch{{DataType::kInt64}, {PartialShape({-1, -1, -1})}};
  const std::string rows = Map(Range(3), "FillWith", matrix);
  const auto all =
      All(Data("PaddedBatchDataset", {rows, Int(3), Constant(Tensor::Vector<int64_t>({-1, 3})), Int(-7)},
               {{"N", 1}}, batch, "Toutput_types"),
          batch);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0][0].shape(), TensorShape({3, 2, 3}));
  EXPECT_THAT(Values(all), ElementsAre(-7, -7, -7, -7, -7, -7,  //
                                       1, -7, -7, -7, -7, -7,   //
                                       2, 2, -7, 2, 2, -7));
}

TEST_F(BasicDatasetTest, AnIteratorHasToBeInitialised) {
  MakeIterator(Range(3));
  EXPECT_THAT(
      Get({"it/next"}).status().message(),
      HasSubstr("GetNext() failed because the iterator has not been initialized. Ensure that you have "
                "run the initializer operation for this iterator before getting the next element."));
}

TEST_F(BasicDatasetTest, AnIteratorTakesDatasetsOfItsTypes) {
  MakeIterator(Slices({Tensor::Vector<float>({1})}));
  const Status status = Do("it/init");
  EXPECT_TRUE(errors::IsInvalidArgument(status));
  EXPECT_THAT(status.message(),
              HasSubstr("Data type mismatch at component 0: expected int64 but got float."));
}

TEST_F(BasicDatasetTest, AnIteratorCanStartAgain) {
  MakeIterator(Range(2));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Do("it/init").ok());
    EXPECT_THAT(Values(Drain()), ElementsAre(0, 1));
    EXPECT_THAT(Values(Drain()), IsEmpty());
  }
}

TEST_F(BasicDatasetTest, AOneShotIteratorMakesItsDataset) {
  graph_.Function(
      FunctionBuilder("Make")
          .Ret("dataset: variant")
          .Node("zero", "Const", {}, {{"dtype", DataType::kInt64}, {"value", Tensor::Scalar(int64_t{0})}})
          .Node("one", "Const", {}, {{"dtype", DataType::kInt64}, {"value", Tensor::Scalar(int64_t{1})}})
          .Node("three", "Const", {}, {{"dtype", DataType::kInt64}, {"value", Tensor::Scalar(int64_t{3})}})
          .Node("range", "RangeDataset", {"zero:output", "three:output", "one:output"},
                {{"output_types", Type().types}, {"output_shapes", Type().shapes}})
          .Return("dataset", "range:handle"));
  const AttrMap attrs = {{"output_types", Type().types}, {"output_shapes", Type().shapes}};
  AttrMap with_factory = attrs;
  with_factory.Set("dataset_factory", Fn("Make"));
  graph_.Node("it", "OneShotIterator", {}, with_factory);
  graph_.Node("it/next", "IteratorGetNext", {"it"}, attrs);
  EXPECT_THAT(Values(Drain()), ElementsAre(0, 1, 2));
  EXPECT_TRUE(errors::IsOutOfRange(last_));
}

TEST_F(BasicDatasetTest, OptionalsSayWhetherThereIsAnElement) {
  MakeIterator(Range(1));
  graph_.Node("optional", "IteratorGetNextAsOptional", {"it"},
              {{"output_types", Type().types}, {"output_shapes", Type().shapes}});
  graph_.Node("has", "OptionalHasValue", {"optional"}, {});
  graph_.Node("value", "OptionalGetValue", {"optional"},
              {{"output_types", Type().types}, {"output_shapes", Type().shapes}});
  ASSERT_TRUE(Do("it/init").ok());
  const auto first = Get({"has", "value"});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE((*first)[0].scalar<bool>());
  EXPECT_EQ((*first)[1].scalar<int64_t>(), 0);
  EXPECT_FALSE(GetOne("has").scalar<bool>());
  EXPECT_THAT(Get({"value"}).status().message(), HasSubstr("The given optional does not have a value."));
}

// As between tasks: the name and the metadata are TensorFlow's.
TEST_F(BasicDatasetTest, OptionalsAreWrittenAndRead) {
  graph_.Node("some", "OptionalFromValue", {Int(3)}, {{"Toutput_types", Type().types}});
  graph_.Node("none", "OptionalNone", {}, {});
  const auto made = Get({"some", "none"});
  ASSERT_TRUE(made.ok()) << made.status();
  const VariantData some = (*made)[0].scalar<Variant>().Encode(),
                    none = (*made)[1].scalar<Variant>().Encode();
  EXPECT_EQ(some.type_name, "tensorflow::data::Optional");
  EXPECT_EQ(some.metadata, std::string(1, '\1'));
  ASSERT_EQ(some.tensors.size(), 1u);
  EXPECT_EQ(some.tensors[0].scalar<int64_t>(), 3);
  EXPECT_EQ(none.metadata, std::string(1, '\0'));
  for (const VariantData& data : {some, none}) {
    const auto back = Variant::Decode(data);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->Encode().metadata, data.metadata);
    EXPECT_EQ(back->Encode().tensors.size(), data.tensors.size());
  }
  EXPECT_FALSE(Variant::Decode(VariantData("tensorflow::data::Optional", "", {})).ok());
  EXPECT_FALSE(Variant::Decode(VariantData("tensorflow::data::Optional", "xy", {})).ok());
}

TEST_F(BasicDatasetTest, WhatIsNoDatasetIsRefused) {
  graph_.Node("none", "OptionalNone", {}, {});
  MakeIterator("none");
  EXPECT_THAT(Do("it/init").message(), HasSubstr("Tensor must be a Dataset object."));
}

}  // namespace
}  // namespace millrace
