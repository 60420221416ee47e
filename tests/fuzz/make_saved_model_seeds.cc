// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// make_saved_model_seeds DIR writes small SavedModels, as messages and as text, to DIR/saved_model.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include <google/protobuf/text_format.h>

#include "builtin/register.h"
#include "millrace/ops.h"
#include "millrace/saver.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/protobuf/queue_runner.pb.h"
#include "tensorflow/core/protobuf/saved_model.pb.h"
#include "training/meta_graph_io.h"

namespace millrace {
namespace {

void AddCollections(const Scope& scope) {
  auto& collections = Collections(scope);
  collections["numbers"] = Int64List{{1, -5}};
  collections["rates"] = FloatList{{0.5f}};
  tensorflow::QueueRunnerDef runner;
  runner.set_queue_name("queue");
  runner.add_enqueue_op_name("enqueue");
  collections["queue_runners"] = BytesList{{runner.SerializeAsString()}};
  tensorflow::AssetFileDef asset;
  asset.mutable_tensor_info()->set_name("path:0");
  asset.set_filename("words.txt");
  collections["saved_model_assets"] =
      AnyList{{{"type.googleapis.com/tensorflow.AssetFileDef", asset.SerializeAsString()}}};
}

Status MakeModel(bool sharded, tensorflow::MetaGraphDef* proto) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Placeholder(scope.WithOpName("x"), DataType::kFloat);
  const GraphVariable top(scope.WithOpName("w/part_0"), Literal({{1.f, 2.f}}));
  const GraphVariable rest(scope.WithOpName("w/part_1"), Literal({{3.f, 4.f}}));
  const Output y = ops::Add(scope.WithOpName("y"), x, top);
  ops::Const(scope.WithOpName("path"), "/words.txt");
  AddToCollection(scope, "saved_model_main_op", top.initializer());
  AddCollections(scope);
  const Saver saver(scope,
                    {{"w", top.ref(), SaveSliceInfo{"w", {2, 2}, {0, 0}, {1, 2}}},
                     {"w", rest.ref(), SaveSliceInfo{"w", {2, 2}, {1, 0}, {1, 2}}}},
                    {.sharded = sharded});
  MetaGraph meta;
  meta.tags = {"serve"};
  meta.saver = saver.def();
  meta.signatures["serving_default"] = {
      .inputs = {{"x", {.name = "x:0", .dtype = DataType::kFloat}}},
      .outputs =
          {{"y", {.name = Scope::NameOf(y), .dtype = DataType::kFloat, .shape = PartialShape({1, 2})}},
           {"sparse",
            {.name = "", .sparse = TensorInfo::Sparse{"y:0", "y:0", "y:0"}, .dtype = DataType::kFloat}}},
      .method_name = saved_model::kPredictMethod};
  return BuildMetaGraphDef(scope, meta, {}, proto);
}

Status WriteSeeds(const std::filesystem::path& dir) {
  MR_RETURN_IF_ERROR(RegisterBuiltins());
  tensorflow::SavedModel model;
  model.set_saved_model_schema_version(1);
  MR_RETURN_IF_ERROR(MakeModel(false, model.add_meta_graphs()));
  std::ofstream(dir / "one", std::ios::binary) << "b" << model.SerializeAsString();
  std::string text;
  google::protobuf::TextFormat::PrintToString(model, &text);
  std::ofstream(dir / "one_text", std::ios::binary) << "t" << text;
  MR_RETURN_IF_ERROR(MakeModel(true, model.add_meta_graphs()));
  std::ofstream(dir / "two", std::ios::binary) << "b" << model.SerializeAsString();
  return Status::Ok();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_saved_model_seeds DIR\n";
    return 2;
  }
  const std::filesystem::path dir = std::filesystem::path(argv[1]) / "saved_model";
  std::filesystem::create_directories(dir);
  const millrace::Status status = millrace::WriteSeeds(dir);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
