// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A GraphDef of 100 MB: a chain of 25 products with constants of 4 MB, each in tensor_content.
//
//   import/copy            the baseline: the constants' bytes copied once into new memory
//   import/parse           the bytes parsed, nothing more
//   import/c_api           TF_GraphImportGraphDef of the bytes
//   import/session_const   Session::Create of a GraphDef that stays with the caller
//   import/session_move    the bytes parsed, and Session::Create of a GraphDef that is given away
//   first_result/read_and_run   the baseline: the file's bytes read into memory, one Run of a warm session
//   first_result/c_api     the file's bytes read into memory, imported by the C API, one Run
//   first_result/cpp       the file mapped and parsed, a session, one Run
//   first_result/saved_model       the same graph as a SavedModel: SavedModelBundle::Load, one Run
//   first_result/saved_model_c_api TF_LoadSessionFromSavedModel, one Run
//
// peak_mb is the largest growth of the process over its size before (for c_api, import/* and session_const
// without the bytes or the GraphDef that the caller holds). The file is in the disk cache.
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/env.h"
#include "bench/bench_graph.h"
#include "graph/graph_import.h"
#include "millrace/saved_model.h"
#include "tensorflow/c/c_api.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/protobuf/saved_model.pb.h"

namespace millrace {
namespace {

constexpr int kLayers = 25;
constexpr int64_t kWidth = 1024;
constexpr size_t kLayerBytes = kWidth * kWidth * sizeof(float);

void Check(TF_Status* status) {
  if (TF_GetCode(status) == TF_OK) return;
  std::fprintf(stderr, "%s\n", TF_Message(status));
  std::abort();
}

tensorflow::NodeDef* AddNode(tensorflow::GraphDef* def, const std::string& name, const std::string& op) {
  tensorflow::NodeDef* node = def->add_node();
  node->set_name(name);
  node->set_op(op);
  return node;
}

tensorflow::GraphDef MakeDef() {
  tensorflow::GraphDef def;
  def.mutable_versions()->set_producer(134);
  (*AddNode(&def, "y0", "Placeholder")->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  for (int i = 0; i < kLayers; ++i) {
    const std::string number = std::to_string(i);
    tensorflow::NodeDef* weights = AddNode(&def, "w" + number, "Const");
    (*weights->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
    tensorflow::TensorProto* value = (*weights->mutable_attr())["value"].mutable_tensor();
    value->set_dtype(tensorflow::DT_FLOAT);
    value->mutable_tensor_shape()->add_dim()->set_size(kWidth);
    value->mutable_tensor_shape()->add_dim()->set_size(kWidth);
    std::string* content = value->mutable_tensor_content();
    content->resize(kLayerBytes);
    for (int64_t j = 0; j < kWidth * kWidth; ++j) {
      const float v = static_cast<float>((j * 2654435761 + i) % 2001 - 1000) * 5e-5f;
      std::memcpy(content->data() + static_cast<size_t>(j) * sizeof(float), &v, sizeof(float));
    }
    tensorflow::NodeDef* product = AddNode(&def, "y" + std::to_string(i + 1), "MatMul");
    (*product->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
    product->add_input("y" + number);
    product->add_input("w" + number);
  }
  return def;
}

const std::string& Bytes() {
  static const std::string& bytes = *new std::string(MakeDef().SerializeAsString());
  return bytes;
}

const std::string& Path() {
  static const std::string path = [] {
    std::string name =
        (std::filesystem::temp_directory_path() / ("bench_import." + std::to_string(::getpid()))).string();
    std::ofstream(name, std::ios::binary) << Bytes();
    std::atexit([] { std::filesystem::remove(Path()); });
    return name;
  }();
  return path;
}

double StatusMb(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key + ":", 0) == 0) return std::strtod(line.c_str() + key.size() + 1, nullptr) / 1024;
  }
  return 0;
}

// A folder with the graph as a SavedModel.
const std::string& ModelDir() {
  static const std::string& dir = *new std::string([] {  // never destroyed: used at exit
    const std::string name = Path() + ".model";
    std::filesystem::create_directories(name);
    tensorflow::SavedModel model;
    tensorflow::MetaGraphDef* meta = model.add_meta_graphs();
    meta->mutable_meta_info_def()->add_tags("serve");
    *meta->mutable_graph_def() = MakeDef();
    std::ofstream(name + "/saved_model.pb", std::ios::binary) << model.SerializeAsString();
    std::atexit([] { std::filesystem::remove_all(ModelDir()); });
    return name;
  }());
  return dir;
}

// Measures the growth of the process from its construction on.
class Peak {
 public:
  Peak() {
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
    before_ = StatusMb("VmRSS");
  }
  void Set(benchmark::State& state) const { state.counters["peak_mb"] = StatusMb("VmHWM") - before_; }

 private:
  double before_;
};

// Runs `once`, whose result may be destroyed without being timed.
template <typename Once>
void Time(benchmark::State& state, const Once& once) {
  for (auto _ : state) {
    state.PauseTiming();
    const Peak peak;
    {
      state.ResumeTiming();
      auto kept = once();
      benchmark::DoNotOptimize(kept);
      state.PauseTiming();
      peak.Set(state);
    }
    state.ResumeTiming();
  }
}

void Copy(benchmark::State& state) {
  Bytes();
  Time(state, [] {
    std::vector<Tensor> tensors;
    for (int i = 0; i < kLayers; ++i) {
      tensors.emplace_back(DataType::kFloat, TensorShape({kWidth, kWidth}));
      std::memcpy(tensors.back().raw_data(), Bytes().data() + static_cast<size_t>(i) * kLayerBytes,
                  kLayerBytes);
    }
    return tensors;
  });
}

std::unique_ptr<tensorflow::GraphDef> Parse() {
  auto def = std::make_unique<tensorflow::GraphDef>();
  bench::CheckOk(ParseGraphDef(Bytes(), def.get()));
  return def;
}

SessionOptions Options() {
  SessionOptions options;
  options.inter_op_parallelism_threads = options.intra_op_parallelism_threads = 2;
  return options;
}

std::unique_ptr<Session> NewSessionOrDie() {
  auto session = NewSession(Options());
  bench::CheckOk(session.status());
  return *std::move(session);
}

using GraphPtr = std::unique_ptr<TF_Graph, decltype(&TF_DeleteGraph)>;

GraphPtr ImportByC(const std::string& bytes) {
  TF_Status* status = TF_NewStatus();
  GraphPtr graph(TF_NewGraph(), &TF_DeleteGraph);
  TF_ImportGraphDefOptions* options = TF_NewImportGraphDefOptions();
  TF_Buffer buffer{bytes.data(), bytes.size(), nullptr};
  TF_GraphImportGraphDef(graph.get(), &buffer, options, status);
  Check(status);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteStatus(status);
  return graph;
}

std::string ReadAll() {
  std::FILE* file = std::fopen(Path().c_str(), "rb");
  std::string bytes(Bytes().size(), '\0');
  if (file == nullptr || std::fread(bytes.data(), 1, bytes.size(), file) != bytes.size()) std::abort();
  std::fclose(file);
  return bytes;
}

std::vector<Tensor> Run(Session& session) {
  Tensor x(DataType::kFloat, TensorShape({1, kWidth}));
  for (float& v : x.flat<float>()) v = 1.0f;
  std::vector<Tensor> out;
  bench::CheckOk(session.Run({{"y0", x}}, {"y" + std::to_string(kLayers)}, {}, &out));
  return out;
}

void ReadAndRun(benchmark::State& state) {
  Path();
  const std::unique_ptr<Session> session = NewSessionOrDie();
  bench::CheckOk(session->Create(*Parse()));
  for (int i = 0; i < 3; ++i) Run(*session);
  Time(state, [&] { return std::pair(ReadAll(), Run(*session)); });
}

// A session on a graph of the C API, or that of the SavedModel when the graph is empty, and its first result.
struct CRun {
  GraphPtr graph;
  TF_Session* session = nullptr;
  explicit CRun(GraphPtr g, bool load = false) : graph(std::move(g)) {
    TF_Status* status = TF_NewStatus();
    TF_SessionOptions* options = TF_NewSessionOptions();
    TF_SetConfig(options, "\x10\x02\x28\x02", 4, status);
    const char* tag = "serve";
    session = load ? TF_LoadSessionFromSavedModel(options, nullptr, ModelDir().c_str(), &tag, 1, graph.get(),
                                                  nullptr, status)
                   : TF_NewSession(graph.get(), options, status);
    Check(status);
    const int64_t dims[] = {1, kWidth};
    TF_Tensor* x = TF_AllocateTensor(TF_FLOAT, dims, 2, kWidth * sizeof(float));
    std::fill_n(static_cast<float*>(TF_TensorData(x)), kWidth, 1.0f);
    const TF_Output in{TF_GraphOperationByName(graph.get(), "y0"), 0};
    const std::string last = "y" + std::to_string(kLayers);
    const TF_Output out{TF_GraphOperationByName(graph.get(), last.c_str()), 0};
    TF_Tensor* y = nullptr;
    TF_SessionRun(session, nullptr, &in, &x, 1, &out, &y, 1, nullptr, 0, nullptr, status);
    Check(status);
    TF_DeleteTensor(x);
    TF_DeleteTensor(y);
    TF_DeleteSessionOptions(options);
    TF_DeleteStatus(status);
  }
  CRun(CRun&& o) noexcept : graph(std::move(o.graph)), session(std::exchange(o.session, nullptr)) {}
  ~CRun() {
    if (session == nullptr) return;
    TF_Status* status = TF_NewStatus();
    TF_DeleteSession(session, status);
    TF_DeleteStatus(status);
  }
};

void FirstResultC(benchmark::State& state) {
  Path();
  Time(state, [] {
    const std::string bytes = ReadAll();
    return CRun(ImportByC(bytes));
  });
}

void FirstResultCpp(benchmark::State& state) {
  Path();
  Time(state, [] {
    std::unique_ptr<Session> session = NewSessionOrDie();
    tensorflow::GraphDef def;
    {
      const auto file = Env::Posix().NewReadOnlyMemoryRegion(Path());
      bench::CheckOk(file.status());
      bench::CheckOk(ParseGraphDef((*file)->bytes(), &def));
    }
    bench::CheckOk(session->Create(std::move(def)));
    Run(*session);
    return session;
  });
}

void SavedModelC(benchmark::State& state) {
  ModelDir();
  Time(state, [] { return CRun(GraphPtr(TF_NewGraph(), &TF_DeleteGraph), /*load=*/true); });
}

void SavedModelCpp(benchmark::State& state) {
  ModelDir();
  Time(state, [] {
    SavedModelBundle::Options options;
    options.session = Options();
    auto bundle = SavedModelBundle::Load(ModelDir(), {"serve"}, options);
    bench::CheckOk(bundle.status());
    Run((*bundle)->session());
    return *std::move(bundle);
  });
}

void SessionConst(benchmark::State& state) {
  const auto def = Parse();
  Time(state, [&] {
    auto session = NewSessionOrDie();
    bench::CheckOk(session->Create(*def));
    return session;
  });
}

void SessionMove(benchmark::State& state) {
  Bytes();
  Time(state, [] {
    auto session = NewSessionOrDie();
    auto def = Parse();
    bench::CheckOk(session->Create(std::move(*def)));
    return session;
  });
}

void Register() {
  const auto add = [](const char* name, void (*run)(benchmark::State&)) {
    benchmark::RegisterBenchmark(name, run)->UseRealTime()->Unit(benchmark::kMillisecond);
  };
  add("import/copy", Copy);
  add("import/parse", [](benchmark::State& state) {
    Bytes();
    Time(state, Parse);
  });
  add("import/c_api", [](benchmark::State& state) {
    Bytes();
    Time(state, [] { return ImportByC(Bytes()); });
  });
  add("import/session_const", SessionConst);
  add("import/session_move", SessionMove);
  add("first_result/read_and_run", ReadAndRun);
  add("first_result/c_api", FirstResultC);
  add("first_result/cpp", FirstResultCpp);
  add("first_result/saved_model", SavedModelCpp);
  add("first_result/saved_model_c_api", SavedModelC);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  millrace::Register();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
