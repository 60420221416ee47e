// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The ops that write event files: checks the events in the files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/env.h"
#include "io/event_file.h"
#include "kernel/testing.h"
#include "tensor/tensor_codec.h"
#include "tensor/testing.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/summary.pb.h"
#include "tensorflow/core/util/event.pb.h"

namespace millrace {
namespace {

using tensorflow::Event;
using testing::HasSubstr;

Tensor Text(const std::string& text) { return Tensor::Scalar<std::string>(text); }
Tensor Step(int64_t step) { return Tensor::Scalar<int64_t>(step); }

class SummaryWriterOpsTest : public testing::Test {
 protected:
  SummaryWriterOpsTest() : folder_(std::filesystem::path(testing::TempDir()) / "summary_writer_ops_test") {
    std::filesystem::remove_all(folder_);
    handle_ = *KernelRunner("SummaryWriter").Resources(&resources_).Attr("shared_name", "w").RunOne();
  }
  ~SummaryWriterOpsTest() override { std::filesystem::remove_all(folder_); }

  Status Run(const char* op, const std::vector<Tensor>& inputs) {
    KernelRunner runner(op);
    runner.Name("node").Resources(&resources_).Input(handle_);
    for (const Tensor& t : inputs) runner.Input(t);
    return runner.Run().status();
  }
  Status Create(int32_t max_queue = 10) {
    return Run("CreateSummaryFileWriter",
               {Text((folder_ / "deep" / "run").string()), Tensor::Scalar(max_queue),
                Tensor::Scalar<int32_t>(120000), Text(".v2")});
  }
  // The events of the only file, except for the first one, which contains the version.
  std::vector<Event> Events() {
    std::vector<Event> events;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "deep" / "run")) {
      const std::string path = entry.path().string();
      EXPECT_THAT(path, HasSubstr("events.out.tfevents."));
      EXPECT_TRUE(path.ends_with(".v2")) << path;
      auto reader = io::EventReader::Open(Env::Posix(), path);
      EXPECT_TRUE(reader.ok()) << reader.status();
      Event event;
      while ((*reader)->Read(&event).ok()) events.push_back(event);
    }
    EXPECT_FALSE(events.empty());
    if (!events.empty()) {
      EXPECT_EQ(events[0].file_version(), "brain.Event:2");
      events.erase(events.begin());
    }
    return events;
  }

  const std::filesystem::path folder_;
  ResourceManager resources_{std::string(KernelRunner::kDeviceName)};
  Tensor handle_;
};

TEST_F(SummaryWriterOpsTest, EachOpWritesAnEventOfItsKind) {
  ASSERT_EQ(Create(), Status());
  ASSERT_EQ(Run("WriteScalarSummary", {Step(3), Text("loss"), Tensor::Scalar<double>(0.5)}), Status());
  ASSERT_EQ(Run("WriteScalarSummary", {Step(3), Text("count"), Tensor::Scalar<int32_t>(7)}), Status());
  ASSERT_EQ(Run("WriteHistogramSummary", {Step(4), Text("h"), Tensor::Vector<float>({1, 2, 2})}), Status());
  ASSERT_EQ(Run("WriteImageSummary", {Step(5), Text("i"), Tensor(DataType::kUint8, TensorShape({1, 2, 2, 3})),
                                      Tensor::Vector<uint8_t>({255, 0, 0, 255})}),
            Status());
  ASSERT_EQ(Run("WriteAudioSummary", {Step(6), Text("a"), Tensor::From<float>({0, 0.5f}, TensorShape({1, 2})),
                                      Tensor::Scalar(8000.0f)}),
            Status());
  tensorflow::SummaryMetadata metadata;
  metadata.mutable_plugin_data()->set_plugin_name("scalars");
  ASSERT_EQ(Run("WriteSummary",
                {Step(7), Tensor::Vector<float>({1, 2}), Text("t"), Text(metadata.SerializeAsString())}),
            Status());
  ASSERT_EQ(Run("FlushSummaryWriter", {}), Status());
  const std::vector<Event> events = Events();
  ASSERT_EQ(events.size(), 6u);
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].step(), i == 0 ? 3 : static_cast<int64_t>(i) + 2);
    EXPECT_GT(events[i].wall_time(), 1e9);
    ASSERT_EQ(events[i].summary().value_size(), 1);
  }
  const auto value = [&](size_t i) -> const tensorflow::Summary::Value& {
    return events[i].summary().value(0);
  };
  EXPECT_EQ(value(0).tag(), "loss");
  EXPECT_EQ(value(0).simple_value(), 0.5f);
  EXPECT_EQ(value(1).simple_value(), 7.0f);
  EXPECT_EQ(value(2).histo().num(), 3);
  EXPECT_EQ(value(2).histo().sum(), 5);
  EXPECT_EQ(value(3).tag(), "i/image/0");
  EXPECT_EQ(value(3).image().width(), 2);
  EXPECT_EQ(value(4).audio().sample_rate(), 8000.0f);
  EXPECT_EQ(value(5).tag(), "t");
  EXPECT_EQ(value(5).metadata().plugin_data().plugin_name(), "scalars");
  const auto tensor = TensorFromProto(value(5).tensor());
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  ExpectTensorEqual(Tensor::Vector<float>({1, 2}), *tensor);
}

TEST_F(SummaryWriterOpsTest, MessagesAreWrittenAsTheyAre) {
  ASSERT_EQ(Create(), Status());
  tensorflow::Summary one, two;
  one.add_value()->set_tag("one");
  two.add_value()->set_tag("two");
  const Tensor both = Tensor::Vector<std::string>({one.SerializeAsString(), two.SerializeAsString()});
  ASSERT_EQ(Run("WriteRawProtoSummary", {Step(1), both}), Status());
  Event event;
  event.set_step(42);
  event.set_wall_time(5);
  ASSERT_EQ(Run("ImportEvent", {Text(event.SerializeAsString())}), Status());
  tensorflow::GraphDef graph;
  graph.add_node()->set_name("n");
  ASSERT_EQ(Run("WriteGraphSummary", {Step(2), Text(graph.SerializeAsString())}), Status());
  ASSERT_EQ(Run("CloseSummaryWriter", {}), Status());
  const std::vector<Event> events = Events();
  ASSERT_EQ(events.size(), 3u);
  ASSERT_EQ(events[0].summary().value_size(), 2);
  EXPECT_EQ(events[0].summary().value(1).tag(), "two");
  EXPECT_EQ(events[1].step(), 42);
  EXPECT_EQ(events[1].wall_time(), 5);
  EXPECT_EQ(events[2].graph_def(), graph.SerializeAsString());
  EXPECT_EQ(Run("FlushSummaryWriter", {}).code(), ErrorCode::kNotFound);
}

TEST_F(SummaryWriterOpsTest, AFullQueueIsWrittenAtOnce) {
  ASSERT_EQ(Create(1), Status());
  ASSERT_EQ(Run("WriteScalarSummary", {Step(1), Text("a"), Tensor::Scalar(1.0f)}), Status());
  ASSERT_EQ(Run("WriteScalarSummary", {Step(2), Text("a"), Tensor::Scalar(2.0f)}), Status());
  EXPECT_EQ(Events().size(), 2u);
  // A second node with the same writer creates no second file.
  ASSERT_EQ(Create(), Status());
  ASSERT_EQ(Run("WriteScalarSummary", {Step(3), Text("a"), Tensor::Scalar(2.0f)}), Status());
  ASSERT_EQ(Run("FlushSummaryWriter", {}), Status());
  EXPECT_EQ(Events().size(), 3u);
}

TEST_F(SummaryWriterOpsTest, WhatIsWrongIsRefused) {
  EXPECT_EQ(Run("WriteScalarSummary", {Step(1), Text("a"), Tensor::Scalar(1.0f)}).code(),
            ErrorCode::kNotFound);
  ASSERT_EQ(Create(), Status());
  EXPECT_EQ(Run("WriteScalarSummary", {Step(1), Text("a"), Tensor::Vector<float>({1})}),
            errors::InvalidArgument("value must be a scalar, got shape [1]"));
  EXPECT_EQ(Run("WriteRawProtoSummary", {Step(1), Text("\xFF")}),
            errors::DataLoss("Bad tf.compat.v1.Summary binary proto tensor string at index 0"));
  EXPECT_EQ(Run("WriteGraphSummary", {Step(1), Text("\xFF")}),
            errors::DataLoss("Bad tf.GraphDef binary proto scalar string"));
  EXPECT_EQ(Run("ImportEvent", {Text("\xFF")}), errors::DataLoss("Bad tf.Event binary proto tensor string"));
  EXPECT_EQ(Run("WriteHistogramSummary", {Step(1), Text("h"), Tensor::Vector<float>({NAN})}),
            errors::InvalidArgument("Nan in summary histogram for: node"));
}

}  // namespace
}  // namespace millrace
