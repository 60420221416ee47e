// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <google/protobuf/text_format.h>

#include "io/checkpoint/bundle.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/protobuf/saved_model.pb.h"

// SavedModels built node by node, in TensorFlow 1.x's layout.
namespace millrace::saved_model_testing {

// A new, empty folder for the current test.
inline std::string NewFolder(const std::string& name = "model") {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / (std::string("saved_model_") + info->name()) / name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path.string();
}

inline void WriteText(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

class ModelGraph {
 public:
  using Attrs = std::vector<std::pair<std::string, std::string>>;  // name, AttrValue as text

  explicit ModelGraph(tensorflow::GraphDef* def) : def_(*def) { def_.mutable_versions()->set_producer(24); }

  void Add(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
           const Attrs& attrs = {}) {
    tensorflow::NodeDef* const node = def_.add_node();
    node->set_name(name);
    node->set_op(op);
    for (const std::string& input : inputs) node->add_input(input);
    for (const auto& [key, value] : attrs) {
      EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(value, &(*node->mutable_attr())[key]))
          << value;
    }
  }
  void Strings(const std::string& name, const std::vector<std::string>& values, bool scalar = false) {
    std::string tensor = "tensor { dtype: DT_STRING tensor_shape { ";
    if (!scalar) tensor += "dim { size: " + std::to_string(values.size()) + " } ";
    tensor += "} ";
    for (const std::string& value : values) tensor += "string_val: \"" + value + "\" ";
    Add(name, "Const", {}, {{"dtype", "type: DT_STRING"}, {"value", tensor + "}"}});
  }
  // A vector variable of floats, or part of one, and y = 2 v.
  void RefVariable(const std::string& name, int size) {
    Add(name, "VariableV2", {},
        {{"dtype", "type: DT_FLOAT"}, {"shape", "shape { dim { size: " + std::to_string(size) + " } }"}});
    Add(name + "/read", "Identity", {name},
        {{"T", "type: DT_FLOAT"}, {"_class", "list { s: \"loc:@" + name + "\" }"}});
  }
  void ResourceVariable(const std::string& name, int size) {
    Add(name, "VarHandleOp", {},
        {{"dtype", "type: DT_FLOAT"},
         {"shape", "shape { dim { size: " + std::to_string(size) + " } }"},
         {"shared_name", "s: \"" + name + "\""}});
    Add(name + "/Read/ReadVariableOp", "ReadVariableOp", {name}, {{"dtype", "type: DT_FLOAT"}});
  }
  // Names of variables in the checkpoint, their slices, and the nodes that they are assigned to.
  struct Saved {
    std::string variable;
    std::string key;
    std::string slice = "";
    bool is_resource = false;
  };
  // The nodes of a saver in the form of 1.15: one RestoreV2 for all.
  tensorflow::SaverDef Saver(const std::vector<Saved>& saved) {
    Strings("save/filename/input", {"model"}, true);
    Add("save/filename", "PlaceholderWithDefault", {"save/filename/input"},
        {{"dtype", "type: DT_STRING"}, {"shape", "shape { }"}});
    Add("save/Const", "PlaceholderWithDefault", {"save/filename"},
        {{"dtype", "type: DT_STRING"}, {"shape", "shape { }"}});
    std::vector<std::string> keys, slices,
        tensors{"save/Const", "save/SaveV2/tensor_names", "save/SaveV2/shape_and_slices"};
    std::string types;
    for (const Saved& s : saved) {
      keys.push_back(s.key);
      slices.push_back(s.slice);
      tensors.push_back(s.is_resource ? s.variable + "/Read/ReadVariableOp" : s.variable);
      types += "type: DT_FLOAT ";
    }
    Strings("save/SaveV2/tensor_names", keys);
    Strings("save/SaveV2/shape_and_slices", slices);
    Add("save/SaveV2", "SaveV2", tensors, {{"dtypes", "list { " + types + "}"}});
    Add("save/control_dependency", "Identity", {"save/Const", "^save/SaveV2"},
        {{"T", "type: DT_STRING"}, {"_class", "list { s: \"loc:@save/Const\" }"}});
    Strings("save/RestoreV2/tensor_names", keys);
    Strings("save/RestoreV2/shape_and_slices", slices);
    Add("save/RestoreV2", "RestoreV2",
        {"save/Const", "save/RestoreV2/tensor_names", "save/RestoreV2/shape_and_slices"},
        {{"dtypes", "list { " + types + "}"}, {"_output_shapes", "list { }"}});
    std::vector<std::string> assigns;
    for (size_t i = 0; i < saved.size(); ++i) assigns.push_back("^" + Assign(saved[i], i));
    Add("save/restore_all", "NoOp", assigns);
    tensorflow::SaverDef saver;
    saver.set_filename_tensor_name("save/Const:0");
    saver.set_save_tensor_name("save/control_dependency:0");
    saver.set_restore_op_name("save/restore_all");
    saver.set_max_to_keep(5);
    saver.set_keep_checkpoint_every_n_hours(10000);
    saver.set_version(tensorflow::SaverDef::V2);
    return saver;
  }

 private:
  std::string Assign(const Saved& saved, size_t i) {
    const std::string suffix = i == 0 ? "" : "_" + std::to_string(i);
    const std::string restored = i == 0 ? "save/RestoreV2" : "save/RestoreV2:" + std::to_string(i);
    if (saved.is_resource) {
      Add("save/Identity" + suffix, "Identity", {restored}, {{"T", "type: DT_FLOAT"}});
      Add("save/AssignVariableOp" + suffix, "AssignVariableOp", {saved.variable, "save/Identity" + suffix},
          {{"dtype", "type: DT_FLOAT"}});
      return "save/AssignVariableOp" + suffix;
    }
    Add("save/Assign" + suffix, "Assign", {saved.variable, restored},
        {{"T", "type: DT_FLOAT"},
         {"use_locking", "b: true"},
         {"validate_shape", "b: true"},
         {"_class", "list { s: \"loc:@" + saved.variable + "\" }"}});
    return "save/Assign" + suffix;
  }

  tensorflow::GraphDef& def_;
};

inline tensorflow::MetaGraphDef* AddMetaGraph(tensorflow::SavedModel* model,
                                              const std::vector<std::string>& tags) {
  model->set_saved_model_schema_version(1);
  tensorflow::MetaGraphDef* const meta = model->add_meta_graphs();
  for (const std::string& tag : tags) meta->mutable_meta_info_def()->add_tags(tag);
  return meta;
}

inline void AddSignature(tensorflow::MetaGraphDef* meta, const std::string& key, const std::string& text) {
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &(*meta->mutable_signature_def())[key]))
      << text;
}

inline void WriteModel(const tensorflow::SavedModel& model, const std::string& dir) {
  WriteText(std::filesystem::path(dir) / "saved_model.pb", model.SerializeAsString());
}

// variables/variables of whole tensors.
inline void WriteVariables(const std::string& dir,
                           const std::vector<std::pair<std::string, Tensor>>& values) {
  auto writer = io::BundleWriter::Open(Env::Posix(), dir + "/variables/variables");
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const auto& [name, value] : values) ASSERT_TRUE((*writer)->Add(name, value).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
}

}  // namespace millrace::saved_model_testing
