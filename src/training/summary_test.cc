// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/env.h"
#include "io/event_file.h"
#include "millrace/client_session.h"
#include "millrace/meta_graph.h"
#include "millrace/ops.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/util/event.pb.h"
#include "training/saved_model_testing.h"

namespace millrace {
namespace {

using saved_model_testing::NewFolder;
using testing::ElementsAre;
using testing::HasSubstr;

// All events of the files of a folder.
std::vector<tensorflow::Event> EventsIn(const std::string& folder) {
  std::vector<tensorflow::Event> events;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().find("tfevents") == std::string::npos) continue;
    auto reader = io::EventReader::Open(Env::Posix(), entry.path().string());
    EXPECT_TRUE(reader.ok()) << reader.status();
    Status status;
    for (;;) {
      tensorflow::Event event;
      status = (*reader)->Read(&event);
      if (!status.ok()) break;
      events.push_back(event);
    }
    EXPECT_EQ(status.code(), ErrorCode::kOutOfRange) << status;
  }
  return events;
}

tensorflow::Summary Evaluate(const Scope& scope, const Output& op) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  std::vector<Tensor> value;
  const Status status = ClientSession(scope).Run({op}, &value);
  EXPECT_TRUE(status.ok()) << status;
  tensorflow::Summary summary;
  EXPECT_TRUE(status.ok() && summary.ParseFromString(value[0].scalar<std::string>()));
  return summary;
}

TEST(SummaryOps, TagsAreTheNamesOfTheOps) {
  const Scope scope = Scope::NewRootScope();
  const Output first = summary::Scalar(scope.NewSubScope("train"), "loss", 2.5f);
  const Output second = summary::Scalar(scope.NewSubScope("train"), "my loss", 3.5f);
  const Output third = summary::Histogram(scope, "w", {1.f, 2.f}, {.family = "layers"});
  EXPECT_EQ(Scope::NameOf(first), "train/loss");
  EXPECT_EQ(Scope::NameOf(second), "train_1/my_loss");
  EXPECT_EQ(Scope::NameOf(third), "layers/w");
  EXPECT_TRUE(scope.FindOperation("train/loss/tags").ok());
  EXPECT_THAT(std::get<NodeList>(Collections(scope).at("summaries")).value,
              ElementsAre("train/loss:0", "train_1/my_loss:0", "layers/w:0"));
  const tensorflow::Summary all = Evaluate(scope, summary::MergeAll(scope));
  ASSERT_EQ(all.value_size(), 3);
  EXPECT_EQ(all.value(0).tag(), "train/loss");
  EXPECT_EQ(all.value(0).simple_value(), 2.5f);
  EXPECT_EQ(all.value(1).tag(), "train_1/my_loss");
  EXPECT_EQ(all.value(2).tag(), "layers/layers/w");
  EXPECT_EQ(all.value(2).histo().num(), 2);
  EXPECT_EQ(all.value(2).histo().sum(), 3);
}

TEST(SummaryOps, PicturesSoundsAndTexts) {
  const Scope scope = Scope::NewRootScope();
  const Output image = summary::Image(scope, "digit", Tensor(DataType::kUint8, TensorShape({2, 3, 4, 1})), 1);
  const Output sound = summary::Audio(scope, "tone", Tensor(DataType::kFloat, TensorShape({1, 8})), 8000.f);
  const Output text = summary::Text(scope, "note", "*hello*", {.collections = {}});
  const tensorflow::Summary of_image = Evaluate(scope, image);
  ASSERT_EQ(of_image.value_size(), 1);
  EXPECT_EQ(of_image.value(0).image().height(), 3);
  EXPECT_EQ(of_image.value(0).image().width(), 4);
  const tensorflow::Summary of_sound = Evaluate(scope, sound);
  ASSERT_EQ(of_sound.value_size(), 1);
  EXPECT_EQ(of_sound.value(0).audio().sample_rate(), 8000);
  const tensorflow::Summary of_text = Evaluate(scope, text);
  ASSERT_EQ(of_text.value_size(), 1);
  EXPECT_EQ(of_text.value(0).tag(), "note");
  EXPECT_EQ(of_text.value(0).metadata().plugin_data().plugin_name(), "text");
  EXPECT_EQ(std::get<NodeList>(Collections(scope).at("summaries")).value.size(), 2);
}

TEST(SummaryOps, WithoutSummariesThereIsNothingToMerge) {
  const Scope scope = Scope::NewRootScope();
  EXPECT_FALSE(summary::MergeAll(scope).IsSet());
  EXPECT_TRUE(scope.ok());
}

TEST(SummaryWriter, WritesEventsOfAllKindsInOrder) {
  const std::string folder = NewFolder() + "/made/here";
  auto writer = SummaryWriter::Open(folder);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const Scope scope = Scope::NewRootScope();
  ops::Const(scope.WithOpName("c"), 1.f);
  tensorflow::Summary summary;
  summary.add_value()->set_tag("t");
  EXPECT_TRUE((*writer)->AddGraph(scope).ok());
  EXPECT_TRUE((*writer)->AddSummary(summary.SerializeAsString(), 7).ok());
  EXPECT_TRUE((*writer)->AddScalar("loss", 0.5f, 8).ok());
  EXPECT_TRUE((*writer)->AddText("note", Tensor::Scalar("hi"), 9).ok());
  EXPECT_TRUE((*writer)->AddSessionLog(SummaryWriter::SessionStatus::kCheckpoint, 10, "model.ckpt-10").ok());
  EXPECT_TRUE((*writer)->AddRunMetadata(RunMetadata(), "step_11", 11).ok());
  EXPECT_EQ((*writer)->AddRunMetadata(RunMetadata(), "step_11", 12).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ((*writer)->AddText("note", Tensor::Scalar(1), 9).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ((*writer)->AddSummary("\x07", 1).code(), ErrorCode::kInvalidArgument);
  ASSERT_TRUE((*writer)->Flush().ok());
  const auto events = EventsIn(folder);
  ASSERT_EQ(events.size(), 7);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  tensorflow::GraphDef graph;
  ASSERT_TRUE(graph.ParseFromString(events[1].graph_def()));
  EXPECT_EQ(graph.node(0).name(), "c");
  EXPECT_EQ(events[2].step(), 7);
  EXPECT_EQ(events[2].summary().value(0).tag(), "t");
  EXPECT_EQ(events[3].summary().value(0).simple_value(), 0.5f);
  EXPECT_EQ(events[4].summary().value(0).metadata().plugin_data().plugin_name(), "text");
  EXPECT_EQ(events[4].summary().value(0).tensor().string_val(0), "hi");
  EXPECT_EQ(events[5].session_log().status(), tensorflow::SessionLog::CHECKPOINT);
  EXPECT_EQ(events[5].session_log().checkpoint_path(), "model.ckpt-10");
  EXPECT_EQ(events[6].tagged_run_metadata().tag(), "step_11");
  EXPECT_TRUE((*writer)->Close().ok());
  EXPECT_EQ((*writer)->AddScalar("loss", 0, 9).code(), ErrorCode::kFailedPrecondition);
}

TEST(SummaryWriter, AShortQueueLosesNothing) {
  const std::string folder = NewFolder();
  auto writer = SummaryWriter::Open(folder, {.max_queue = 1});
  ASSERT_TRUE(writer.ok());
  for (int i = 0; i < 200; ++i) ASSERT_TRUE((*writer)->AddScalar("x", static_cast<float>(i), i).ok());
  ASSERT_TRUE((*writer)->Close().ok());
  const auto events = EventsIn(folder);
  ASSERT_EQ(events.size(), 201);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(events[static_cast<size_t>(i) + 1].step(), i);
}

TEST(SummaryWriter, AFolderHasOneWriter) {
  const std::string folder = NewFolder();
  auto first = SummaryWriter::ForFolder(folder);
  auto second = SummaryWriter::ForFolder(folder);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ((*first)->folder(), folder);
  EXPECT_FALSE(SummaryWriter::Open("/proc/none/such").ok());
}

TEST(SummaryWriter, TheLayoutOfCustomScalarsIsAMessage) {
  const std::string folder = NewFolder();
  auto writer = SummaryWriter::Open(folder);
  ASSERT_TRUE(writer.ok());
  const CustomScalars layout{{{"C", {{"A", {"x", "y"}, {}}, {"B", {}, {{"v", "l", "u"}}}}, /*closed=*/true}}};
  ASSERT_TRUE((*writer)->AddCustomScalars(layout).ok());
  ASSERT_TRUE((*writer)->Close().ok());
  const auto events = EventsIn(folder);
  ASSERT_EQ(events.size(), 2);
  const auto& value = events[1].summary().value(0);
  EXPECT_EQ(value.tag(), "custom_scalars__config__");
  EXPECT_EQ(value.metadata().plugin_data().plugin_name(), "custom_scalars");
  // Encoded by hand: Layout{category{title "C", chart{"A", multiline{x, y}}, chart{"B", margin{…}},
  // closed}}.
  const std::string chart_a = std::string("\x0a\x01") + "A" + "\x12\x06" + "\x0a\x01x" + "\x0a\x01y";
  const std::string series = std::string("\x0a\x01v") + "\x12\x01l" + "\x1a\x01u";
  const std::string chart_b = std::string("\x0a\x01") + "B" + "\x1a\x0b" + "\x0a\x09" + series;
  const std::string category =
      std::string("\x0a\x01") + "C" + "\x12\x0b" + chart_a + "\x12\x10" + chart_b + "\x18\x01";
  EXPECT_EQ(value.tensor().string_val(0),
            std::string("\x12") + static_cast<char>(category.size()) + category);
}

TEST(Projector, TheConfigurationIsText) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(
      WriteProjectorConfig(
          folder, {{.tensor_name = "emb\"", .metadata_path = "words.tsv"},
                   {.tensor_name = "b", .sprite_path = "s.png", .sprite_width = 28, .sprite_height = 29}})
          .ok());
  const auto text = ReadFileToString(Env::Posix(), folder + "/projector_config.pbtxt");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text,
            "embeddings {\n  tensor_name: \"emb\\\"\"\n  metadata_path: \"words.tsv\"\n}\n"
            "embeddings {\n  tensor_name: \"b\"\n  sprite {\n    image_path: \"s.png\"\n"
            "    single_image_dim: 28\n    single_image_dim: 29\n  }\n}\n");
  EXPECT_EQ(WriteProjectorConfig(folder, {{}}).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace
