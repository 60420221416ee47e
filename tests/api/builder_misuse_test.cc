// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Wrong use of functions that add nodes: datasets, functions, layers, losses, metrics; and of files of
// records. Each returns a Status, and unset results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "millrace/client_session.h"
#include "millrace/data.h"
#include "millrace/functions.h"
#include "millrace/layers.h"
#include "millrace/losses.h"
#include "millrace/metrics.h"
#include "millrace/ops.h"
#include "millrace/records.h"
#include "millrace/recurrent.h"

namespace millrace {
namespace {

using Outputs = std::vector<Output>;

template <typename T>
void ExpectError(const StatusOr<T>& result, int line = __builtin_LINE()) {
  EXPECT_FALSE(result.ok()) << "line " << line;
  EXPECT_FALSE(result.status().message().empty()) << "line " << line;
}
void ExpectError(const Status& status, int line = __builtin_LINE()) {
  EXPECT_FALSE(status.ok()) << "line " << line;
  EXPECT_FALSE(status.message().empty()) << "line " << line;
}

// Expects that `build` leaves an error in the scope.
void ExpectWrong(const std::function<void(const Scope&)>& build, int line = __builtin_LINE()) {
  const Scope scope = Scope::NewRootScope();
  build(scope);
  ExpectError(scope.status(), line);
}

// Expects that building or running fails.
void ExpectFails(const std::function<Outputs(const Scope&)>& build, int line = __builtin_LINE()) {
  const Scope scope = Scope::NewRootScope();
  const Outputs fetches = build(scope);
  if (!scope.ok()) return;
  const ClientSession session(scope);
  std::vector<Tensor> out;
  ExpectError(session.Run(RunOptions{.timeout_in_ms = 5000}, {}, fetches, {}, &out, nullptr), line);
}

// --- Functions

TEST(FunctionMisuse, BodiesAndTypesThatCannotBe) {
  const auto one = [](const Scope& s, const Outputs&) -> Outputs { return {ops::Const(s, 1)}; };
  ExpectWrong([&](const Scope& s) { MakeGraphFunction(s, "f", {}, {}, nullptr); });
  ExpectWrong([&](const Scope& s) { MakeGraphFunction(s, "", {}, {}, one); });
  ExpectWrong([&](const Scope& s) { MakeGraphFunction(s, "f", {DataType::kInvalid}, {}, one); });
  ExpectWrong([&](const Scope& s) { MakeGraphFunction(s, "f", {DataType::kInt32}, {{}, {}, {}}, one); });
  ExpectWrong([&](const Scope& s) {
    MakeGraphFunction(s, "f", {}, {}, [](const Scope&, const Outputs&) -> Outputs { return {Output()}; });
  });
  ExpectWrong([&](const Scope& s) {
    const Scope other = Scope::NewRootScope();
    const Output foreign = ops::Const(other, 1);
    MakeGraphFunction(s, "f", {}, {}, [&](const Scope&, const Outputs&) -> Outputs { return {foreign}; });
  });
  ExpectWrong([&](const Scope& s) { CallFunction(s, GraphFunction(), {}); });
  ExpectWrong([&](const Scope& s) {
    const GraphFunction f = MakeGraphFunction(s, "f", {}, {}, one);
    CallFunction(s, f, {1, 2, 3});
  });
  ExpectWrong([&](const Scope& s) {
    const GraphFunction f = MakeGraphFunction(s, "f", {DataType::kInt32}, {PartialShape()}, one);
    CallFunction(s, f, {Output()});
  });
}

TEST(FunctionMisuse, HostFunctions) {
  const auto of = [](HostFn fn, std::vector<DataType> types, std::vector<PartialShape> shapes = {}) {
    return [=](const Scope& s) { return CallHostFunction(s, fn, {ops::Const(s, 1)}, types, shapes); };
  };
  const HostFn same = [](const std::vector<Tensor>& x) { return StatusOr<std::vector<Tensor>>(x); };
  ExpectWrong(of(nullptr, {DataType::kInt32}));
  ExpectWrong(of(same, {DataType::kInvalid}));
  ExpectWrong(of(same, {DataType::kInt32}, {PartialShape(), PartialShape()}));
  ExpectWrong([&](const Scope& s) { CallHostFunction(s, same, {Output()}, {DataType::kInt32}); });
  ExpectFails(of(same, {DataType::kFloat}));
  ExpectFails(of(same, {DataType::kInt32}, {PartialShape({3})}));
  ExpectFails(of(same, {DataType::kInt32, DataType::kInt32}));
  ExpectFails(
      of([](const std::vector<Tensor>&) { return StatusOr<std::vector<Tensor>>(std::vector<Tensor>(1)); },
         {DataType::kInt32}));
}

// --- Datasets

Dataset Range(const Scope& s) { return Dataset::Range(s, int64_t{3}); }
// The results of fetching an element.
Outputs Next(const Scope& s, const Dataset& dataset) {
  return Iterator::OneShot(s, [&](const Scope&) { return dataset; }).GetNext(s);
}

TEST(FunctionMisuse, HostFunctionsThatThrow) {
  const Scope scope = Scope::NewRootScope();
  const auto call = [&](const HostFn& fn) {
    return CallHostFunction(scope, fn, {}, {DataType::kFloat}, {PartialShape({})})[0];
  };
  const Output error = call([](const std::vector<Tensor>&) -> StatusOr<std::vector<Tensor>> {
    throw std::runtime_error("no table today");
  });
  const Output object = call([](const std::vector<Tensor>&) -> StatusOr<std::vector<Tensor>> { throw 7; });
  const Output memory =
      call([](const std::vector<Tensor>&) -> StatusOr<std::vector<Tensor>> { throw std::bad_alloc(); });
  const ClientSession session(scope);
  std::vector<Tensor> out;
  const Status first = session.Run({error}, &out);
  EXPECT_EQ(first.code(), ErrorCode::kInternal);
  EXPECT_THAT(first.message(), ::testing::HasSubstr("A C++ function threw an exception: no table today"));
  const Status second = session.Run({object}, &out);
  EXPECT_EQ(second.code(), ErrorCode::kInternal);
  EXPECT_THAT(second.message(), ::testing::HasSubstr("threw an object that is not a std::exception"));
  EXPECT_EQ(session.Run({memory}, &out).code(), ErrorCode::kResourceExhausted);
  // Also on the threads of a parallel map.
  const Dataset mapped = Dataset::Range(scope, int64_t{3})
                             .MapHost(
                                 [](const std::vector<Tensor>&) -> StatusOr<std::vector<Tensor>> {
                                   throw std::runtime_error("no table today");
                                 },
                                 {DataType::kInt64}, {PartialShape({})}, {.num_parallel_calls = 2});
  const Iterator iterator = Iterator::Initializable(mapped);
  const Output next = iterator.GetNext(scope)[0];
  ASSERT_EQ(scope.status(), Status());
  const ClientSession other(scope);
  ASSERT_EQ(other.Run(RunOptions(), {}, {}, {iterator.initializer()}, nullptr, nullptr), Status());
  const Status third = other.Run({next}, &out);
  EXPECT_EQ(third.code(), ErrorCode::kInternal);
  EXPECT_THAT(third.message(), ::testing::HasSubstr("no table today"));
}

TEST(ScopeMisuse, ConstantsWithoutAValue) {
  Tensor moved = Tensor::Vector({1.f, 2.f});
  const Tensor taken = std::move(moved);
  ExpectWrong([&](const Scope& s) { ops::Const(s, moved); });               // NOLINT(bugprone-use-after-move)
  ExpectWrong([&](const Scope& s) { ops::Neg(s, ops::Const(s, moved)); });  // NOLINT(bugprone-use-after-move)
  ExpectWrong([&](const Scope& s) { ops::Concat(s, 0, {taken, moved}); });  // NOLINT(bugprone-use-after-move)
}

TEST(DatasetMisuse, UnsetDatasetsAndIterators) {
  const Dataset unset;
  EXPECT_FALSE(unset.handle().IsSet());
  EXPECT_FALSE(unset.Batch(2)
                   .Repeat()
                   .Shuffle(3)
                   .Map([](const Scope&, const Outputs& v) { return v; })
                   .handle()
                   .IsSet());
  EXPECT_FALSE(unset.Concatenate(unset).handle().IsSet());
  EXPECT_FALSE(unset.Take(1).Skip(1).Cache().Prefetch().Unbatch().Enumerate().handle().IsSet());
  EXPECT_FALSE(unset.WithOptions({}).ForIterator().handle().IsSet());
  EXPECT_FALSE(Iterator::Initializable(unset).handle().IsSet());
  ExpectWrong([&](const Scope& s) { Dataset::Zip(s, {}); });
  ExpectWrong([&](const Scope& s) { Dataset::Zip(s, {unset}); });
  ExpectWrong([&](const Scope& s) { Range(s).Concatenate(unset); });
  ExpectWrong([&](const Scope& s) { Iterator::OneShot(s, [&](const Scope&) { return unset; }); });
  const Iterator none;
  ExpectWrong([&](const Scope& s) { none.GetNext(s); });
  ExpectWrong([&](const Scope& s) { none.StringHandle(s); });
  ExpectWrong([&](const Scope& s) { none.SaveState(s); });
  ExpectWrong([&](const Scope& s) { none.RestoreState(s, Output()); });
  ExpectWrong([&](const Scope& s) { none.SaveWithModel(s); });
  ExpectWrong([&](const Scope& s) { none.MakeInitializer(Range(s)); });
  ExpectWrong([&](const Scope& s) {
    Iterator::FromStructure(s, {DataType::kInt64}, {PartialShape({})}).MakeInitializer(unset);
    s.UpdateStatus(errors::Aborted("an unset dataset has no scope that could say it"));
  });
  ExpectWrong([&](const Scope& s) { Iterator::FromStructure(s, {DataType::kInt64}, {}); });
  ExpectWrong([&](const Scope& s) {
    Iterator::FromStructure(s, {DataType::kFloat}, {PartialShape({})}).MakeInitializer(Range(s));
  });
  ExpectWrong([&](const Scope& s) {
    Iterator::FromStringHandle(s, Output(), {DataType::kInt64}, {PartialShape({})});
  });
}

TEST(DatasetMisuse, SourcesThatCannotBe) {
  ExpectWrong([](const Scope& s) { Dataset::Range(s, Output()); });
  ExpectWrong([](const Scope& s) { Dataset::Range(s, 1.5f); });
  ExpectWrong([](const Scope& s) { Dataset::FromTensors(s, {}); });
  ExpectWrong([](const Scope& s) { Dataset::FromTensors(s, {Output()}); });
  ExpectWrong([](const Scope& s) { Dataset::FromTensorSlices(s, {}); });
  ExpectFails([](const Scope& s) { return Next(s, Dataset::FromTensorSlices(s, {ops::Const(s, 1)})); });
  ExpectFails([](const Scope& s) {
    return Next(s, Dataset::FromTensorSlices(s, {ops::Const(s, {1, 2}), ops::Const(s, {1, 2, 3})}));
  });
  ExpectWrong([](const Scope& s) { Dataset::TFRecord(s, Output()); });
  ExpectWrong([](const Scope& s) { Dataset::TextLine(s, 7); });
  ExpectFails([](const Scope& s) { return Next(s, Dataset::TFRecord(s, "/no/such/file")); });
  ExpectFails([](const Scope& s) { return Next(s, Dataset::TextLine(s, "/dev/null", "NONSENSE")); });
  ExpectFails([](const Scope& s) { return Next(s, Dataset::FixedLengthRecord(s, "/dev/null", -1)); });
  ExpectFails([](const Scope& s) { return Next(s, Dataset::FixedLengthRecord(s, "/dev/null", 0)); });
  ExpectFails(
      [](const Scope& s) { return Next(s, Dataset::FixedLengthRecord(s, "/dev/null", 1, -1, -1, -1)); });
  ExpectFails([](const Scope& s) { return Next(s, Dataset::TFRecord(s, "/dev/null", "", INT64_MIN)); });
  ExpectWrong([](const Scope& s) { Dataset::Csv(s, "/dev/null", {}); });
  ExpectFails([](const Scope& s) { return Next(s, Dataset::Csv(s, "/dev/null", {Tensor()})); });
  ExpectFails([](const Scope& s) {
    return Next(s, Dataset::Csv(s, "/dev/null", {Tensor::Scalar(1.f)}, false, {-7, INT64_MAX}));
  });
  ExpectFails([](const Scope& s) { return Next(s, Dataset::ListFiles(s, "/no/such/*")); });
}

TEST(DatasetMisuse, GeneratorsThatGiveTheWrongThings) {
  using Elements = StatusOr<std::optional<std::vector<Tensor>>>;
  const auto of = [](const std::function<Dataset::Generator()>& make) {
    return [=](const Scope& s) {
      return Next(s, Dataset::FromGenerator(s, {DataType::kInt32}, {PartialShape({2})}, make));
    };
  };
  ExpectFails(of(nullptr));
  ExpectFails(of([] { return Dataset::Generator(); }));
  ExpectFails(of([] { return [] { return Elements(std::vector<Tensor>{}); }; }));
  ExpectFails(of([] { return [] { return Elements(std::vector<Tensor>{Tensor()}); }; }));
  ExpectFails(of([] { return [] { return Elements(std::vector<Tensor>{Tensor::Scalar(1)}); }; }));
  ExpectFails(of([] { return [] { return Elements(std::vector<Tensor>{Tensor::Vector({1.f, 2.f})}); }; }));
  ExpectFails(of([] { return [] { return Elements(errors::Aborted("the generator's")); }; }));
  ExpectWrong([](const Scope& s) {
    Dataset::FromGenerator(s, {DataType::kInt32}, {}, [] { return Dataset::Generator(); });
  });
}

TEST(DatasetMisuse, StagesWithSizesThatCannotBe) {
  const auto fails = [](const std::function<Dataset(const Dataset&)>& stage, int line = __builtin_LINE()) {
    ExpectFails([&](const Scope& s) { return Next(s, stage(Range(s))); }, line);
  };
  for (const int64_t wrong : {int64_t{0}, int64_t{-5}, INT64_MIN}) {
    fails([=](const Dataset& d) { return d.Batch(wrong); });
    fails([=](const Dataset& d) { return d.PaddedBatch(wrong); });
    fails([=](const Dataset& d) { return d.Shard(wrong, 0); });
    fails([=](const Dataset& d) {
      return d.Window({.size = wrong}, [](const Scope&, const std::vector<Dataset>& w) { return w[0]; });
    });
    fails([=](const Dataset& d) {
      return d.Interleave([](const Scope& s, const Outputs&) { return Range(s); }, {.cycle_length = wrong});
    });
  }
  fails([](const Dataset& d) { return d.Shuffle(0); });
  fails([](const Dataset& d) { return d.Shuffle(-5); });
  fails([](const Dataset& d) { return d.Prefetch(-5); });
  fails([](const Dataset& d) { return d.Shard(2, 2); });
  fails([](const Dataset& d) { return d.Shard(2, -1); });
  fails([](const Dataset& d) { return d.PaddedBatch(2, {PartialShape({-1, -1})}); });
  fails([](const Dataset& d) { return d.PaddedBatch(2, {PartialShape(), PartialShape()}); });
  fails([](const Dataset& d) { return d.Unbatch(); });
  fails([](const Dataset& d) { return d.Take(1.5f); });
  fails([](const Dataset& d) { return d.Skip(Output()); });
  fails([](const Dataset& d) { return d.Cache("/no/such/folder/cache"); });
  fails([](const Dataset& d) {
    return d.Map([](const Scope&, const Outputs& v) { return v; }, {.num_parallel_calls = -7});
  });
  // Elements larger than the shape, and a batch that exceeds memory.
  fails([](const Dataset& d) { return d.Batch(3).PaddedBatch(1, {PartialShape({2})}); });
  fails([](const Dataset& d) { return d.Batch(INT64_MAX, true); });
}

TEST(DatasetMisuse, FunctionsThatGiveTheWrongThings) {
  const auto fails = [](const std::function<Dataset(const Dataset&)>& stage, int line = __builtin_LINE()) {
    ExpectFails([&](const Scope& s) { return Next(s, stage(Range(s))); }, line);
  };
  fails([](const Dataset& d) { return d.Map([](const Scope&, const Outputs&) { return Outputs(); }); });
  fails([](const Dataset& d) {
    return d.Map([](const Scope&, const Outputs&) -> Outputs { return {Output()}; });
  });
  fails([](const Dataset& d) { return d.Filter([](const Scope&, const Outputs& v) { return v; }); });
  fails([](const Dataset& d) { return d.Filter([](const Scope&, const Outputs&) { return Outputs(); }); });
  fails([](const Dataset& d) {
    return d.Filter([](const Scope& s, const Outputs&) -> Outputs { return {ops::Const(s, {true, false})}; });
  });
  fails([](const Dataset& d) { return d.TakeWhile([](const Scope&, const Outputs& v) { return v; }); });
  fails([](const Dataset& d) { return d.TakeWhile(nullptr); });
  fails([](const Dataset& d) { return d.FlatMap([](const Scope&, const Outputs&) { return Dataset(); }); });
  fails([](const Dataset& d) { return d.Window({}, nullptr); });
  fails([](const Dataset& d) {
    return d.Window({}, [](const Scope&, const std::vector<Dataset>&) { return Dataset(); });
  });
  fails([](const Dataset& d) { return d.MapHost(nullptr, {DataType::kInt64}, {PartialShape({})}, {}); });
  fails([](const Dataset& d) {
    return d.MapHost([](const std::vector<Tensor>& v) { return StatusOr<std::vector<Tensor>>(v); },
                     {DataType::kFloat}, {PartialShape({})}, {});
  });
}

// --- Layers, losses, metrics

TEST(LayerMisuse, ShapesAndSizesThatCannotBe) {
  const auto images = [](const Scope& s) { return Output(ops::Fill(s, {1, 8, 8, 3}, 1.f)); };
  const auto rows = [](const Scope& s) { return Output(ops::Fill(s, {4, 3}, 1.f)); };
  using layers::Conv2D, layers::Dense;
  ExpectWrong([&](const Scope& s) { Dense(s, Output(), 2); });
  ExpectWrong([&](const Scope& s) { Dense(s, ops::Const(s, 1.f), 2); });
  ExpectWrong([&](const Scope& s) { Dense(s, ops::Const(s, "text"), 2); });
  ExpectWrong([&](const Scope& s) { Dense(s, rows(s), -1); });
  ExpectWrong([&](const Scope& s) { Dense(s, rows(s), INT64_MAX); });
  ExpectWrong([&](const Scope& s) { Dense(s, ops::Placeholder(s, DataType::kFloat), 2); });
  ExpectWrong([&](const Scope& s) { Dense(s, rows(s), 2, {.name = "a b"}); });
  ExpectWrong([&](const Scope& s) {
    Dense(s, rows(s), 2, {.activation = [](const Scope&, const Output&) { return Output(); }});
    ops::Identity(s, Output());
  });
  for (const layers::Pair& pair :
       std::vector<layers::Pair>{{}, {0}, {-1}, {1, 2, 3}, {INT64_MAX, INT64_MAX}}) {
    ExpectWrong([&](const Scope& s) { Conv2D(s, images(s), 2, pair); });
    ExpectFails([&](const Scope& s) -> Outputs { return {layers::MaxPooling2D(s, images(s), pair, {1})}; });
    ExpectFails(
        [&](const Scope& s) -> Outputs { return {layers::AveragePooling2D(s, images(s), {2}, pair)}; });
  }
  ExpectWrong([&](const Scope& s) { Conv2D(s, images(s), -2, {3}); });
  ExpectWrong([&](const Scope& s) { Conv2D(s, rows(s), 2, {3}); });
  ExpectWrong([&](const Scope& s) { Conv2D(s, images(s), 2, {3}, {.strides = {}}); });
  ExpectWrong([&](const Scope& s) { Conv2D(s, images(s), 2, {3}, {.strides = {0}}); });
  ExpectWrong([&](const Scope& s) { Conv2D(s, images(s), 2, {3}, {.dilation = {-1, 2}}); });
  ExpectWrong(
      [&](const Scope& s) { layers::SeparableConv2D(s, images(s), 2, {3}, {.depth_multiplier = -1}); });
  ExpectWrong([&](const Scope& s) { layers::Conv2DTranspose(s, rows(s), 2, {3}); });
  ExpectWrong([&](const Scope& s) { layers::Conv3D(s, images(s), 2, {3}); });
  ExpectWrong([&](const Scope& s) { layers::MaxPooling3D(s, images(s), {2}, {2}); });
  ExpectWrong([&](const Scope& s) { layers::Flatten(s, Output()); });
  ExpectWrong([&](const Scope& s) { layers::Flatten(s, ops::Const(s, 1.f)); });
  ExpectWrong([&](const Scope& s) { layers::Dropout(s, rows(s), {.rate = 2}); });
  ExpectWrong([&](const Scope& s) { layers::Dropout(s, rows(s), {.rate = -1}); });
  ExpectWrong([&](const Scope& s) { layers::Dropout(s, rows(s), {.training = Output()}); });
  ExpectWrong([&](const Scope& s) { layers::Dropout(s, rows(s), {.training = "yes"}); });
  ExpectWrong([&](const Scope& s) { layers::BatchNormalization(s, Output()); });
  ExpectWrong([&](const Scope& s) { layers::BatchNormalization(s, ops::Const(s, 1.f)); });
  ExpectWrong([&](const Scope& s) { layers::BatchNormalization(s, ops::Const(s, {1, 2})); });
  ExpectWrong([&](const Scope& s) { layers::EmbeddingLookup(s, {}, ops::Const(s, 1)); });
  ExpectWrong([&](const Scope& s) { layers::EmbeddingLookup(s, {GraphVariable()}, ops::Const(s, 1)); });
  ExpectWrong([&](const Scope& s) {
    layers::EmbeddingLookup(s, {GraphVariable(s, {{1.f}, {2.f}})}, ops::Const(s, 1.5f));
  });
  ExpectWrong([&](const Scope& s) {
    layers::EmbeddingLookup(s, {GraphVariable(s, {{1.f}, {2.f}})}, Output());
  });
  ExpectWrong([&](const Scope& s) {
    layers::EmbeddingLookupSparse(s, {GraphVariable(s, {{1.f}, {2.f}})}, layers::SparseInput());
  });
}

TEST(RecurrentMisuse, SizesStacksAndActivationsThatCannotBe) {
  const auto wrong = [](RnnCell& cell, int line = __builtin_LINE()) {
    ExpectWrong(
        [&](const Scope& scope) {
          DynamicRnn(scope, cell,
                     ops::Placeholder(scope, DataType::kFloat, ops::Placeholder::Shape({2, 3, 4})));
        },
        line);
  };
  for (const int64_t units : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    BasicRnnCell basic(units);
    LstmCell lstm(units);
    GruCell gru(units);
    wrong(basic);
    wrong(lstm);
    wrong(gru);
  }
  LstmCell projected(3, {.num_proj = std::numeric_limits<int64_t>::max()});
  wrong(projected);
  BasicRnnCell basic_without(3, nullptr);
  wrong(basic_without);
  LstmCell lstm_without(3, {.activation = nullptr});
  wrong(lstm_without);
  MultiRnnCell nothing({});
  wrong(nothing);
  MultiRnnCell null({nullptr});
  wrong(null);
  MultiRnnCell second_null({std::make_shared<GruCell>(3), nullptr});
  wrong(second_null);
}

TEST(LossMisuse, ShapesTypesAndUnsetTensors) {
  const auto x = [](const Scope& s) { return ops::Const(s, {1.f, 2.f}); };
  using Loss = std::function<Output(const Scope&, const Output&, const Output&, const losses::LossOptions&)>;
  const std::vector<Loss> all = {
      losses::AbsoluteDifference,
      losses::MeanSquaredError,
      losses::MeanPairwiseSquaredError,
      losses::HingeLoss,
      [](auto& s, auto& a, auto& b, auto& o) { return losses::CosineDistance(s, a, b, 0, o); },
      [](auto& s, auto& a, auto& b, auto& o) { return losses::HuberLoss(s, a, b, 1, o); },
      [](auto& s, auto& a, auto& b, auto& o) { return losses::LogLoss(s, a, b, 1e-7, o); },
      [](auto& s, auto& a, auto& b, auto& o) { return losses::SigmoidCrossEntropy(s, a, b, 0, o); },
      [](auto& s, auto& a, auto& b, auto& o) { return losses::SoftmaxCrossEntropy(s, a, b, 0, o); },
      losses::SparseSoftmaxCrossEntropy};
  for (const Loss& loss : all) {
    ExpectWrong([&](const Scope& s) { loss(s, Output(), Output(), {}); });
    ExpectWrong([&](const Scope& s) { loss(s, x(s), Output(), {}); });
    ExpectWrong([&](const Scope& s) { loss(s, ops::Const(s, {1.f, 2.f, 3.f}), x(s), {}); });
    ExpectFails(
        [&](const Scope& s) -> Outputs { return {loss(s, ops::Const(s, "a"), ops::Const(s, "b"), {})}; });
    ExpectWrong([&](const Scope& s) { loss(s, x(s), x(s), {.weights = Output()}); });
    ExpectFails([&](const Scope& s) -> Outputs { return {loss(s, x(s), x(s), {.weights = "text"})}; });
    ExpectWrong([&](const Scope& s) { loss(s, x(s), x(s), {.weights = {1.f, 2.f, 3.f, 4.f}}); });
  }
  ExpectWrong([&](const Scope& s) { losses::CosineDistance(s, x(s), x(s), 7); });
  ExpectWrong([&](const Scope& s) { losses::CosineDistance(s, x(s), x(s), INT64_MIN); });
  ExpectWrong([&](const Scope& s) { losses::ComputeWeightedLoss(s, Output()); });
}

TEST(MetricMisuse, ShapesTypesAndUnsetTensors) {
  const auto x = [](const Scope& s) { return ops::Const(s, {1.f, 2.f}); };
  using Of = std::function<metrics::Metric(const Scope&, const Output&, const Output&)>;
  const std::vector<Of> all = {
      [](auto& s, auto& a, auto& b) { return metrics::Accuracy(s, a, b); },
      [](auto& s, auto& a, auto& b) { return metrics::MeanAbsoluteError(s, a, b); },
      [](auto& s, auto& a, auto& b) { return metrics::RootMeanSquaredError(s, a, b); },
      [](auto& s, auto& a, auto& b) { return metrics::MeanRelativeError(s, a, b, b); },
      [](auto& s, auto& a, auto& b) { return metrics::MeanCosineDistance(s, a, b, 0); },
      [](auto& s, auto& a, auto& b) { return metrics::TruePositives(s, a, b); },
      [](auto& s, auto& a, auto& b) { return metrics::FalseNegatives(s, a, b); },
      [](auto& s, auto& a, auto& b) { return metrics::Precision(s, a, b); },
      [](auto& s, auto& a, auto& b) { return metrics::Recall(s, a, b); },
      [](auto& s, auto& a, auto& b) { return metrics::PrecisionAtThresholds(s, a, b, {0.5f}); },
      [](auto& s, auto& a, auto& b) { return metrics::Auc(s, a, b); },
      [](auto& s, auto& a, auto& b) { return metrics::SensitivityAtSpecificity(s, a, b, 0.5); },
      [](auto& s, auto& a, auto& b) { return metrics::PrecisionAtK(s, a, b, 1); },
      [](auto& s, auto& a, auto& b) { return metrics::MeanPerClassAccuracy(s, a, b, 2); },
      [](auto& s, auto& a, auto& b) { return metrics::MeanIou(s, a, b, 2); }};
  int index = 0;
  for (const Of& of : all) {
    SCOPED_TRACE(index++);
    ExpectWrong([&](const Scope& s) { of(s, Output(), Output()); });
    ExpectWrong([&](const Scope& s) { of(s, x(s), Output()); });
    // The number of labels of precision at k may differ from that of the classes.
    if (index == 13) continue;
    ExpectWrong([&](const Scope& s) { of(s, ops::Const(s, {1.f, 2.f, 3.f}), x(s)); });
  }
  ExpectWrong([&](const Scope& s) { metrics::Mean(s, Output()); });
  ExpectWrong([&](const Scope& s) { metrics::MeanTensor(s, ops::Placeholder(s, DataType::kFloat)); });
  ExpectWrong([&](const Scope& s) { metrics::Mean(s, x(s), {.weights = Input(Output())}); });
  ExpectWrong([&](const Scope& s) { metrics::Mean(s, x(s), {.name = "a b"}); });
  for (const int64_t wrong : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    ExpectWrong([&](const Scope& s) { metrics::Auc(s, x(s), x(s), {.num_thresholds = wrong}); });
    ExpectFails([&](const Scope& s) -> Outputs {
      const Output labels = ops::Const(s, {{int64_t{0}}});
      return {metrics::PrecisionAtK(s, labels, ops::Const(s, {{0.1f, 0.9f}}), wrong).update};
    });
    ExpectWrong([&](const Scope& s) {
      metrics::MeanIou(s, ops::Const(s, {0, 1}), ops::Const(s, {0, 1}), wrong);
    });
  }
}

// --- Records

TEST(RecordMisuse, FilesThatAreNoneAndUseAfterClose) {
  for (const char* path : {"", "/", "/no/such/folder/file"}) {
    ExpectError(RecordWriter::Open(path));
    ExpectError(RecordReader::Open(path));
  }
  const std::string path = ::testing::TempDir() + "/misuse_records";
  auto writer = RecordWriter::Open(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Write("record").ok());
  ASSERT_TRUE((*writer)->Close().ok());
  EXPECT_TRUE((*writer)->Close().ok()) << "further calls do nothing";
  ExpectError((*writer)->Write("late"));
  (*writer)->Flush().IgnoreError("it is closed");
  for (const RecordCompression wrong : {RecordCompression::kZlib, RecordCompression::kGzip}) {
    auto reader = RecordReader::Open(path, wrong);
    std::string record;
    if (reader.ok()) ExpectError((*reader)->Read(&record));
  }
  auto reader = RecordReader::Open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::string record;
  for (const uint64_t offset : {uint64_t{1}, uint64_t{1} << 40, UINT64_MAX}) {
    Status status = (*reader)->SkipTo(offset);
    if (status.ok()) status = (*reader)->Read(&record);
    ExpectError(status);
  }
  ExpectError((*reader)->SkipTo(0));
  reader = RecordReader::Open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_TRUE((*reader)->Read(&record).ok());
  EXPECT_EQ(record, "record");
  ExpectError((*reader)->Read(nullptr));
}

TEST(RecordMisuse, ExamplesOfOtherKinds) {
  Example example;
  example.Set("i", 1).Set("f", 1.5f).Set("s", "text").Set("", "no name");
  ExpectError(example.Ints("f"));
  ExpectError(example.Floats("s"));
  ExpectError(example.Strings("i"));
  ExpectError(example.Ints("none"));
  ExpectError(Example::Parse("\xff\xff\xff"));
  ExpectError(Example::Parse(example.Serialize() + "\x0a"));
}

}  // namespace
}  // namespace millrace
