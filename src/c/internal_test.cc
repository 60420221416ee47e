// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "c/internal.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tensor/testing.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace::c_api {
namespace {

TEST(EnterTest, StatusesAreStoredAndExceptionsEnd) {
  TF_Status status;
  EXPECT_TRUE(Enter(&status, [] { return Status(); }));
  EXPECT_FALSE(Enter(&status, [] { return errors::NotFound("x"); }));
  EXPECT_TRUE(errors::IsNotFound(status.status));
  EXPECT_FALSE(Enter(&status, []() -> Status { throw std::bad_alloc(); }));
  EXPECT_TRUE(errors::IsResourceExhausted(status.status));
  EXPECT_FALSE(Enter(&status, []() -> Status { throw std::runtime_error("why"); }));
  EXPECT_EQ(status.status, Status(ErrorCode::kInternal, "why"));
  EXPECT_FALSE(Enter(nullptr, [] { return errors::NotFound("x"); })) << "there is no status to set";
  EXPECT_EQ(EnterOr(7, []() -> int { throw std::length_error("too long"); }), 7);
  EXPECT_EQ(EnterOr(7, [] { return 8; }), 8);
}

TEST(ShapeTest, DimensionsOfTheCaller) {
  const int64_t dims[] = {2, -1};
  EXPECT_EQ(MakeShape(dims, 2)->ToString(), "[2,?]");
  EXPECT_TRUE(MakeShape(dims, -1)->unknown_rank());
  EXPECT_TRUE(MakeShape(nullptr, 0).ok());
  EXPECT_TRUE(errors::IsInvalidArgument(MakeShape(nullptr, 1).status()));
  const int64_t wrong[] = {-2};
  EXPECT_FALSE(MakeShape(wrong, 1).ok());
}

TEST(TensorTest, BothFormsAreTheSame) {
  for (const Tensor& value :
       {Tensor::Vector<float>({1, 2, 3}), Tensor::Scalar(true), Tensor(DataType::kInt32, TensorShape({0, 4})),
        Tensor::Vector<std::string>({"a", "", std::string(500, 'b')})}) {
    const auto outside = FromTensor(value);
    ASSERT_TRUE(outside.ok()) << outside.status();
    const auto back = ToTensor(*outside);
    ASSERT_TRUE(back.ok()) << back.status();
    ExpectTensorEqual(value, *back);
    TF_DeleteTensor(*outside);
    ExpectTensorEqual(value, *back);
  }
  const auto empty = FromOutput(Tensor());
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(TF_TensorByteSize(*empty), 0U);
  TF_DeleteTensor(*empty);
}

TEST(TensorTest, ASnapshotDoesNotChangeWithItsSource) {
  const auto outside = FromTensor(Tensor::Vector<float>({1, 2}));
  const auto copy = CopyOfTensor(*outside);
  ASSERT_TRUE(copy.ok());
  static_cast<float*>(TF_TensorData(*outside))[0] = 9;
  EXPECT_EQ(copy->data<float>()[0], 1);
  TF_DeleteTensor(*outside);
}

TEST(BufferTest, MessagesGoInAndOut) {
  tensorflow::GraphDef graph;
  graph.add_node()->set_name("n");
  TF_Buffer* buffer = TF_NewBuffer();
  ASSERT_EQ(ToBuffer(graph, buffer), Status());
  EXPECT_FALSE(ToBuffer(graph, buffer).ok()) << "it has data already";
  tensorflow::GraphDef back;
  EXPECT_TRUE(Parse(buffer->data, buffer->length, &back));
  EXPECT_EQ(back.node(0).name(), "n");
  TF_DeleteBuffer(buffer);
  EXPECT_TRUE(Parse(nullptr, 0, &back));
  EXPECT_FALSE(Parse("\xff\xff", 2, &back));
}

TEST(NamesTest, NullNamesAreErrors) {
  const char* const names[] = {"a", "", nullptr};
  EXPECT_EQ(*NamesOf(names, 2), (std::vector<std::string>{"a", ""}));
  EXPECT_TRUE(errors::IsInvalidArgument(NamesOf(names, 3).status()));
  EXPECT_TRUE(NamesOf(nullptr, 0)->empty());
}

TEST(NamesTest, ScopesThatNoNodeHas) {
  OpRegistry registry;
  ASSERT_EQ(registry.Register(OpBuilder("Nothing: An op.")), Status());
  Graph graph(registry);
  EXPECT_EQ(UniqueScope(graph, "a"), "a");
  for (const char* const name : {"a/x", "b"}) {
    ASSERT_TRUE(graph.AddNode(name, "Nothing", {}).ok());
  }
  EXPECT_EQ(UniqueScope(graph, "a"), "a_1");
  EXPECT_EQ(UniqueScope(graph, "b"), "b_1");
  EXPECT_EQ(UniqueScope(graph, "c"), "c");
}

TEST(GraphHoldTest, TheLastUserDeletesAGraphThatIsNotKept) {
  TF_Graph* const graph = TF_NewGraph();
  {
    const GraphHold first(graph);
    const GraphHold second(graph);
    MutexLock lock(graph->mu);
    EXPECT_EQ(graph->num_users, 2);
    EXPECT_FALSE(graph->IsLeft());
  }
  auto hold = std::make_unique<GraphHold>(graph);
  TF_DeleteGraph(graph);
  {
    MutexLock lock(graph->mu);
    EXPECT_TRUE(graph->IsLeft());
  }
  hold.reset();  // a sanitizer reports a leak or a second deletion
}

}  // namespace
}  // namespace millrace::c_api
