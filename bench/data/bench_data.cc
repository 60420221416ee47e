// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of input pipelines. Times are for one element ("items_per_second" counts elements).
//
// clang-format off
//   data/range_map_batch/N    numbers, a map that returns its argument, batches of N, read by Runs
//   data/range_map_add/N      the same with a map that adds
//   data/parallel_map/N       the same on N threads
//   data/prefetch             numbers through a prefetch, in batches of 100
//   data/records/N            a TFRecord file of 10^6 small Examples, shuffled by 1,000, in batches of N,
//                             parsed by two threads, which also read
//   data/records_by_hand/N    the baseline: a loop over the engine's readers on the calling thread
// clang-format on
#include <benchmark/benchmark.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/strings.h"
#include "bench/bench_graph.h"
#include "graph/function_def_builder.h"
#include "io/example/example_parser.h"
#include "io/record_file.h"
#include "op/attr_codec.h"
#include "tensorflow/core/example/example.pb.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

const std::vector<DataType> kInt = {DataType::kInt64};
const std::vector<PartialShape> kScalar = {PartialShape({})};
const std::vector<PartialShape> kAny = {PartialShape()};
const std::vector<DataType> kNone;

// A pipeline that is read by the node "next"; iterators start again at its end. Nodes are found by name.
struct PipelineBench {
  std::string Add(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                  const AttrMap& attrs) {
    tensorflow::NodeDef* const node = def.add_node();
    node->set_name(name);
    node->set_op(op);
    for (const std::string& input : inputs) node->add_input(input);
    AttrMapToProto(attrs, node->mutable_attr());
    return name;
  }
  std::string Const(const Tensor& value) {
    return Add(StrCat("c", next++), "Const", {}, {{"dtype", value.dtype()}, {"value", value}});
  }
  std::string Int(int64_t v) { return Const(Tensor::Scalar(v)); }
  std::string Data(const std::string& op, const std::vector<std::string>& inputs, AttrMap attrs = {},
                   std::vector<DataType> types = kInt, std::vector<PartialShape> shapes = kAny) {
    attrs.Set("output_types", std::move(types));
    attrs.Set("output_shapes", std::move(shapes));
    return Add(StrCat(op, next++), op, inputs, attrs);
  }
  std::string Range(int64_t n) { return Data("RangeDataset", {Int(0), Int(n), Int(1)}, {}, kInt, kScalar); }
  std::string Batch(const std::string& input, int64_t n, std::vector<DataType> types = kInt) {
    std::vector<PartialShape> shapes(types.size());
    return Data("BatchDataset", {input, Int(n)}, {}, std::move(types), std::move(shapes));
  }
  void Function(const FunctionBuilder& f) { bench::CheckOk(f.Build(def.mutable_library()->add_function())); }
  static NameAttrList Fn(const char* name) { return {name, std::make_shared<const AttrMap>()}; }
  void Finish(const std::string& dataset, const std::vector<DataType>& types = kInt) {
    AttrMap attrs{{"output_types", types}, {"output_shapes", std::vector<PartialShape>(types.size())}};
    AttrMap named = attrs;
    named.Set("shared_name", "");
    named.Set("container", "");
    Add("it", "IteratorV2", {}, named);
    Add("init", "MakeIterator", {dataset, "it"}, {});
    Add("next", "IteratorGetNext", {"it"}, attrs);
    SessionOptions options;
    options.inter_op_parallelism_threads = options.intra_op_parallelism_threads = 1;
    auto made = NewSession(options);
    bench::CheckOk(made.status());
    session = *std::move(made);
    bench::CheckOk(session->Create(def));
    init_call = bench::MakeCallable(*session, {}, {}, {"init"});
    next_call = bench::MakeCallable(*session, {}, {"next"}, {});
    Start();
  }
  void Start() { bench::RunOrDie(*session, init_call, {}); }
  // The number of rows of the next batch.
  int64_t Next() {
    while (true) {
      const Status status = session->RunCallable(next_call, {}, &out, nullptr);
      if (status.ok()) return out[0].dim(0);
      if (!errors::IsOutOfRange(status)) bench::CheckOk(status);
      Start();
    }
  }
  void Measure(benchmark::State& state) {
    int64_t rows = 0;
    for (auto _ : state) rows += Next();
    state.SetItemsProcessed(rows);
  }

  tensorflow::GraphDef def;
  std::unique_ptr<Session> session;
  Session::CallableHandle init_call, next_call;
  std::vector<Tensor> out;
  int next = 0;
};

void AddFunctions(PipelineBench& b) {
  b.Function(FunctionBuilder("Same").Arg("x: int64").Ret("y: int64").Return("y", "x"));
  b.Function(
      FunctionBuilder("AddOne")
          .Arg("x: int64")
          .Ret("y: int64")
          .Node("one", "Const", {}, {{"dtype", DataType::kInt64}, {"value", Tensor::Scalar(int64_t{1})}})
          .Node("sum", "Add", {"x", "one:output"}, {{"T", DataType::kInt64}})
          .Return("y", "sum:z"));
}

void Mapped(benchmark::State& state, const char* f) {
  PipelineBench b;
  AddFunctions(b);
  const std::string map =
      b.Data("MapDataset", {b.Range(100000000)}, {{"f", b.Fn(f)}, {"Targuments", kNone}}, kInt, kScalar);
  b.Finish(b.Batch(map, state.range(0)));
  b.Measure(state);
}

void ParallelMap(benchmark::State& state) {
  PipelineBench b;
  AddFunctions(b);
  const std::string calls = b.Const(Tensor::Scalar(static_cast<int32_t>(state.range(0))));
  const std::string map = b.Data("ParallelMapDataset", {b.Range(100000000), calls},
                                 {{"f", b.Fn("AddOne")}, {"Targuments", kNone}}, kInt, kScalar);
  b.Finish(b.Batch(map, 100));
  b.Measure(state);
}

void Prefetch(benchmark::State& state) {
  PipelineBench b;
  const std::string prefetch = b.Data("PrefetchDataset", {b.Range(100000000), b.Int(100)}, {}, kInt, kScalar);
  b.Finish(b.Batch(prefetch, 100));
  b.Measure(state);
}

constexpr int kRecords = 1'000'000;
constexpr size_t kShuffle = 1000;

// A file of Examples with three features.
std::string RecordFile() {
  static const std::string path = [] {
    std::string name = (std::filesystem::temp_directory_path() / "millrace_bench_data.tfrecord").string();
    const auto file = *Env::Posix().NewWritableFile(name);
    io::RecordWriter writer(*file, io::Compression::kNone);
    for (int i = 0; i < kRecords; ++i) {
      tensorflow::Example example;
      auto& features = *example.mutable_features()->mutable_feature();
      features["label"].mutable_int64_list()->add_value(i % 10);
      for (int k = 0; k < 8; ++k) features["x"].mutable_float_list()->add_value(static_cast<float>(i + k));
      features["name"].mutable_bytes_list()->add_value("row" + std::to_string(i));
      if (!writer.Write(example.SerializeAsString()).ok()) std::abort();
    }
    if (!writer.Close().ok() || !file->Close().ok()) std::abort();
    return name;
  }();
  return path;
}

std::vector<io::FeatureSpec> Features() {
  return {{.key = "label", .dtype = DataType::kInt64, .shape = PartialShape({})},
          {.key = "name", .dtype = DataType::kString, .shape = PartialShape({})},
          {.key = "x", .dtype = DataType::kFloat, .shape = PartialShape({8})}};
}

void Records(benchmark::State& state) {
  PipelineBench b;
  const std::vector<DataType> text = {DataType::kString};
  const std::string files = b.Const(Tensor::Vector<std::string>({RecordFile()}));
  const std::string none = b.Const(Tensor::Scalar(""));
  const std::string records = b.Add("records", "TFRecordDataset", {files, none, b.Int(0)}, {});
  const std::string shuffled =
      b.Data("ShuffleDataset", {records, b.Int(kShuffle), b.Int(1), b.Int(2)}, {}, text, kScalar);
  const std::string batched = b.Batch(shuffled, state.range(0), text);
  const std::vector<DataType> types = {DataType::kInt64, DataType::kString, DataType::kFloat};
  std::vector<std::string> inputs = {batched, b.Int(2)};
  std::vector<PartialShape> shapes;
  std::vector<std::string> keys;
  for (const io::FeatureSpec& f : Features()) {
    keys.push_back(f.key);
    shapes.push_back(f.shape);
    inputs.push_back(b.Const(Tensor(f.dtype, TensorShape({0}))));
  }
  const std::string parsed = b.Data("ParseExampleDataset", inputs,
                                    {{"sparse_keys", std::vector<std::string>{}},
                                     {"dense_keys", keys},
                                     {"sparse_types", kNone},
                                     {"Tdense", types},
                                     {"dense_shapes", shapes}},
                                    types, std::vector<PartialShape>(3));
  b.Finish(parsed, types);
  b.Measure(state);
}

// What a program would write with the readers: one thread.
void RecordsByHand(benchmark::State& state) {
  const io::FeatureTable table = *io::FeatureTable::Make(Features());
  const auto size = static_cast<size_t>(state.range(0));
  const std::string path = RecordFile();
  std::unique_ptr<io::RecordReader> reader;
  std::mt19937 random(1);
  std::vector<std::string> buffer, batch;
  int64_t rows = 0;
  for (auto _ : state) {
    batch.clear();
    while (batch.size() < size) {
      if (reader == nullptr && buffer.empty())
        reader = *io::RecordReader::Open(Env::Posix(), path, io::Compression::kNone);
      std::string record;
      while (reader != nullptr && buffer.size() < kShuffle) {
        if (!reader->Read(&record).ok()) {
          reader.reset();
        } else {
          buffer.push_back(std::move(record));
        }
      }
      std::swap(buffer[random() % buffer.size()], buffer.back());
      batch.push_back(std::move(buffer.back()));
      buffer.pop_back();
    }
    const auto parsed = io::ParseFeatures(
        table, {.serialized = batch}, [](int64_t total, int64_t, ThreadPool::ShardFn fn) { fn(0, total); });
    if (!parsed.ok()) std::abort();
    rows += static_cast<int64_t>(batch.size());
  }
  state.SetItemsProcessed(rows);
}

BENCHMARK_CAPTURE(Mapped, same, "Same")->Name("data/range_map_batch")->Arg(100)->Arg(1000)->UseRealTime();
BENCHMARK_CAPTURE(Mapped, add, "AddOne")->Name("data/range_map_add")->Arg(100)->UseRealTime();
BENCHMARK(ParallelMap)->Name("data/parallel_map")->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(Prefetch)->Name("data/prefetch")->UseRealTime();
BENCHMARK(Records)->Name("data/records")->Arg(100)->Arg(1000)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK(RecordsByHand)
    ->Name("data/records_by_hand")
    ->Arg(100)
    ->Arg(1000)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace millrace
