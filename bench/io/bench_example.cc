// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A batch of 256 Examples on one thread, beside protobuf's parsing of the same bytes into messages, from
// which values would still have to be copied. `items_per_second` are examples.
//
//   example/parser/clicks     20 sparse lists of 5 small numbers, 10 texts, 5 dense floats
//   example/protobuf/clicks
//   example/parser/image      784 dense floats, a label
//   example/protobuf/image
//   example/parser/ids        a list of 500 numbers of up to 28 bits
//   example/protobuf/ids
#include <benchmark/benchmark.h>
#include <google/protobuf/arena.h>

#include <string>
#include <vector>

#include "io/example/example_parser.h"
#include "tensorflow/core/example/example.pb.h"

namespace millrace::io {
namespace {

constexpr int kBatch = 256;

struct Workload {
  std::vector<FeatureSpec> specs;
  std::vector<std::string> serialized;
};

FeatureSpec Spec(const std::string& key, DataType dtype) {
  return {.key = key, .dtype = dtype, .is_sparse = true};
}
FeatureSpec DenseFloats(const std::string& key, int64_t n) {
  return {.key = key, .shape = {n}, .default_value = Tensor(DataType::kFloat, {0})};
}

template <typename Fill>
void AddExamples(Workload* work, Fill fill) {
  for (int e = 0; e < kBatch; ++e) {
    tensorflow::Example example;
    fill(e, *example.mutable_features()->mutable_feature());
    work->serialized.push_back(example.SerializeAsString());
  }
}

Workload Clicks() {
  Workload work;
  for (int i = 0; i < 20; ++i) work.specs.push_back(Spec("numbers_" + std::to_string(i), DataType::kInt64));
  for (int i = 0; i < 10; ++i) work.specs.push_back(Spec("text_" + std::to_string(i), DataType::kString));
  for (int i = 0; i < 5; ++i) work.specs.push_back(DenseFloats("dense_" + std::to_string(i), 1));
  AddExamples(&work, [](int e, auto& map) {
    for (int i = 0; i < 20; ++i) {
      auto* const list = map["numbers_" + std::to_string(i)].mutable_int64_list();
      for (int k = 0; k < 5; ++k) list->add_value((e * 7 + i * 3 + k) % 120);
    }
    for (int i = 0; i < 10; ++i) {
      map["text_" + std::to_string(i)].mutable_bytes_list()->add_value("value of example " +
                                                                       std::to_string(e));
    }
    for (int i = 0; i < 5; ++i) map["dense_" + std::to_string(i)].mutable_float_list()->add_value(0.5f);
  });
  return work;
}

Workload Image() {
  Workload work;
  work.specs = {DenseFloats("image", 784), Spec("label", DataType::kInt64)};
  AddExamples(&work, [](int e, auto& map) {
    for (int i = 0; i < 784; ++i) map["image"].mutable_float_list()->add_value(static_cast<float>(i) / 784);
    map["label"].mutable_int64_list()->add_value(e % 10);
  });
  return work;
}

Workload Ids() {
  Workload work;
  work.specs = {Spec("ids", DataType::kInt64)};
  AddExamples(&work, [](int e, auto& map) {
    for (int i = 0; i < 500; ++i)
      map["ids"].mutable_int64_list()->add_value((e * 7919LL + i * 104729LL) & 0xfffffff);
  });
  return work;
}

void BM_Parser(benchmark::State& state, Workload (*make)()) {
  Workload work = make();
  const FeatureTable table = *FeatureTable::Make(std::move(work.specs));
  const ParseRequest request{.serialized = work.serialized};
  for (auto _ : state) {
    auto parsed =
        ParseFeatures(table, request, [](int64_t total, int64_t, ThreadPool::ShardFn fn) { fn(0, total); });
    if (!parsed.ok()) state.SkipWithError(parsed.status().message().c_str());
    benchmark::DoNotOptimize(parsed);
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

void BM_Protobuf(benchmark::State& state, Workload (*make)()) {
  const Workload work = make();
  for (auto _ : state) {
    for (const std::string& bytes : work.serialized) {
      google::protobuf::Arena arena;
      auto* const example = google::protobuf::Arena::CreateMessage<tensorflow::Example>(&arena);
      benchmark::DoNotOptimize(example->ParseFromString(bytes));
    }
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

BENCHMARK_CAPTURE(BM_Parser, clicks, Clicks)->Name("example/parser/clicks");
BENCHMARK_CAPTURE(BM_Protobuf, clicks, Clicks)->Name("example/protobuf/clicks");
BENCHMARK_CAPTURE(BM_Parser, image, Image)->Name("example/parser/image");
BENCHMARK_CAPTURE(BM_Protobuf, image, Image)->Name("example/protobuf/image");
BENCHMARK_CAPTURE(BM_Parser, ids, Ids)->Name("example/parser/ids");
BENCHMARK_CAPTURE(BM_Protobuf, ids, Ids)->Name("example/protobuf/ids");

}  // namespace
}  // namespace millrace::io
