// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz_targets.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/logging.h"
#include "builtin/register.h"
#include "graph/graph.h"
#include "graph/graph_import.h"
#include "millrace/session.h"
#include "tensor/cpu_allocator.h"
#include "tensor/tensor_codec.h"
#include "tensor/variant.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace millrace {
namespace {

constexpr int kMaxNodes = 200;

void Require(bool condition, const char* what) {
  if (condition) return;
  MR_LOG(Error) << "fuzzing: " << what;
  std::abort();
}

// Map entries are in the order of their keys.
std::string Bytes(const tensorflow::GraphDef& def) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);
  def.SerializeToCodedStream(&out);
  out.Trim();
  return bytes;
}

// An exported graph can be imported again, and then exports to the same bytes.
void CheckRoundTrip(const Graph& graph) {
  tensorflow::GraphDef once, twice;
  ExportGraphDef(graph, &once);
  Graph again(OpRegistry::Global());
  const Status imported = ImportGraphDef(once, ImportOptions(), &again);
  Require(imported.ok(), "an exported graph does not import");
  ExportGraphDef(again, &twice);
  Require(Bytes(once) == Bytes(twice), "export is not stable");
}

// Whether it may contain an op that ends the process.
bool MayAbort(const tensorflow::GraphDef& def) { return Bytes(def).find("Abort") != std::string::npos; }

void RunOnce(const tensorflow::GraphDef& def) {
  if (MayAbort(def)) return;
  SessionOptions options;
  options.inter_op_parallelism_threads = 1;
  options.intra_op_parallelism_threads = 1;
  options.device_count["CPU"] = 2;
  options.allow_soft_placement = true;
  auto session = NewSession(options);
  if (!session.ok()) return;
  if (!(*session)->Create(def).ok()) return;
  RunOptions run;
  run.timeout_in_ms = 20;  // some graphs wait
  std::vector<Tensor> outputs;
  int tried = 0;
  for (int i = def.node_size() - 1; i >= 0 && tried < 3; --i, ++tried) {
    (*session)->Run(run, {}, {}, {def.node(i).name()}, &outputs, nullptr).IgnoreError("any outcome will do");
    (*session)
        ->Run(run, {}, {def.node(i).name() + ":0"}, {}, &outputs, nullptr)
        .IgnoreError("any outcome will do");
  }
}

}  // namespace

void PrepareFuzzing() {
  static const bool prepared = [] {
    RegisterBuiltins().IgnoreError("a missing op shows as an error of the graph");
    GetCpuAllocatorImpl().SetMemoryLimit(int64_t{64} << 20);
    return true;
  }();
  (void)prepared;
}

void FuzzGraphDef(std::string_view bytes) {
  PrepareFuzzing();
  tensorflow::GraphDef def;
  if (!ParseGraphDef(bytes, &def).ok() || def.node_size() > kMaxNodes) return;
  Graph graph(OpRegistry::Global());
  if (!ImportGraphDef(def, ImportOptions(), &graph).ok()) {
    Require(graph.num_nodes() == 2, "a failed import left nodes behind");
    return;
  }
  Require(graph.Validate().ok(), "an imported graph is not valid");
  CheckRoundTrip(graph);
  RunOnce(def);
}

void FuzzTensorProto(std::string_view bytes) {
  PrepareFuzzing();
  tensorflow::TensorProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  TensorDecodeOptions options;
  options.max_bytes = int64_t{4} << 20;
  const auto tensor = TensorFromProto(proto, options);
  if (!tensor.ok()) return;
  // Values that were omitted on the wire are written in full, so the same tensor may take more to decode.
  TensorDecodeOptions roomy;
  roomy.max_bytes = 8 * options.max_bytes;
  tensorflow::TensorProto list, content;
  TensorToProto(*tensor, &list);
  TensorToProtoContent(*tensor, &content);
  for (const tensorflow::TensorProto* p : {&list, &content}) {
    const auto back = TensorFromProto(*p, roomy);
    // Content spells out every copy of a repeated string, handle or variant, which may exceed the budget that
    // the list stayed within.
    const bool owns_memory = DataTypeSize(tensor->dtype()) == 0;
    if (p == &content && owns_memory && errors::IsResourceExhausted(back.status())) continue;
    Require(back.ok(), "an encoded tensor does not decode");
    Require(back->dtype() == tensor->dtype() && back->shape() == tensor->shape(), "type or shape got lost");
    if (DataTypeSize(tensor->dtype()) > 0) {
      Require(std::memcmp(back->raw_data(), tensor->raw_data(), tensor->num_bytes()) == 0, "values got lost");
    }
  }
}

}  // namespace millrace
