// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A program with its own copy of TensorFlow's messages, registered as protobuf does it, that shares the
// system's protobuf with libmillrace_c and libmillrace, both in one process.
#include <string>

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/core/framework/api_def.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#ifdef HAS_LIBMILLRACE
#include "millrace/client_session.h"
#include "millrace/ops.h"
#include "millrace/scope.h"
#endif

namespace {

class MessagesBesideTest : public testing::Test {
 protected:
  ~MessagesBesideTest() override {
    TF_DeleteGraph(graph_);
    TF_DeleteStatus(status_);
  }

  TF_Output Placeholder(const char* name) {
    TF_OperationDescription* desc = TF_NewOperation(graph_, "Placeholder", name);
    TF_SetAttrType(desc, "dtype", TF_FLOAT);
    return {TF_FinishOperation(desc, status_), 0};
  }

  TF_Graph* const graph_ = TF_NewGraph();
  TF_Status* const status_ = TF_NewStatus();
};

TEST_F(MessagesBesideTest, GraphsGoThroughTheProgramsOwnMessages) {
  ASSERT_NE(Placeholder("x").oper, nullptr) << TF_Message(status_);
  TF_Buffer* bytes = TF_NewBuffer();
  TF_GraphToGraphDef(graph_, bytes, status_);
  tensorflow::GraphDef def;
  ASSERT_TRUE(def.ParseFromArray(bytes->data, static_cast<int>(bytes->length)));
  TF_DeleteBuffer(bytes);
  ASSERT_EQ(def.node_size(), 1);
  EXPECT_EQ(def.node(0).attr().at("dtype").type(), tensorflow::DT_FLOAT);
  EXPECT_NE(def.DebugString().find("DT_FLOAT"), std::string::npos);
  def.mutable_node(0)->set_name("y");

  const std::string changed = def.SerializeAsString();
  TF_Buffer* again = TF_NewBufferFromString(changed.data(), changed.size());
  TF_ImportGraphDefOptions* options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(graph_, again, options, status_);
  EXPECT_EQ(TF_GetCode(status_), TF_OK) << TF_Message(status_);
  EXPECT_NE(TF_GraphOperationByName(graph_, "y"), nullptr);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(again);
}

TEST_F(MessagesBesideTest, TheProgramsMessagesAreThoseOfTheProcess) {
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  EXPECT_EQ(pool->FindMessageTypeByName("tensorflow.GraphDef"), tensorflow::GraphDef::descriptor());
}

// Text format is parsed by reflection, in the library with its own descriptors.
TEST_F(MessagesBesideTest, TheLibraryReadsTexts) {
  TF_Buffer* ops = TF_GetAllOpList();
  TF_ApiDefMap* map = TF_NewApiDefMap(ops, status_);
  const std::string text = "op { graph_op_name: 'Add' visibility: HIDDEN summary: 'as told' }";
  TF_ApiDefMapPut(map, text.data(), text.size(), status_);
  EXPECT_EQ(TF_GetCode(status_), TF_OK) << TF_Message(status_);
  TF_Buffer* bytes = TF_ApiDefMapGet(map, "Add", 3, status_);
  tensorflow::ApiDef api;
  ASSERT_TRUE(api.ParseFromArray(bytes->data, static_cast<int>(bytes->length)));
  EXPECT_EQ(api.summary(), "as told");
  EXPECT_EQ(api.visibility(), tensorflow::ApiDef::HIDDEN);
  TF_DeleteBuffer(bytes);
  TF_DeleteApiDefMap(map);
  TF_DeleteBuffer(ops);
}

#ifdef HAS_LIBMILLRACE
TEST_F(MessagesBesideTest, BothLibrariesRun) {
  const millrace::Scope scope = millrace::Scope::NewRootScope();
  const millrace::Output sum = millrace::ops::Add(scope, 1.0f, 2.0f);
  millrace::ClientSession session(scope);
  std::vector<millrace::Tensor> results;
  ASSERT_TRUE(session.Run({sum}, &results).ok());
  EXPECT_EQ(results[0].scalar<float>(), 3.0f);

  const TF_Output x = Placeholder("x");
  TF_Session* other = TF_NewSession(graph_, nullptr, status_);
  TF_Tensor* value = TF_AllocateTensor(TF_FLOAT, nullptr, 0, sizeof(float));
  *static_cast<float*>(TF_TensorData(value)) = 5;
  TF_Tensor* result = nullptr;
  TF_SessionRun(other, nullptr, &x, &value, 1, &x, &result, 1, nullptr, 0, nullptr, status_);
  EXPECT_EQ(TF_GetCode(status_), TF_OK) << TF_Message(status_);
  EXPECT_EQ(*static_cast<float*>(TF_TensorData(result)), 5);
  TF_DeleteTensor(result);
  TF_DeleteTensor(value);
  TF_DeleteSession(other, status_);
}
#endif

}  // namespace
