// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/util/event.pb.h"

namespace millrace::io {
namespace {

using ::testing::HasSubstr;

class EventFileTest : public testing::Test {
 protected:
  EventFileTest() { EXPECT_TRUE(env_.CreateDir("/logs").ok()); }
  EventWriter::Options Options() {
    EventWriter::Options o;
    o.now = [this] { return now_; };
    o.host = "host";
    return o;
  }
  std::unique_ptr<EventWriter> Open(EventWriter::Options options) {
    auto writer = EventWriter::Open(env_, "/logs/events", std::move(options));
    EXPECT_TRUE(writer.ok()) << writer.status().ToString();
    return *std::move(writer);
  }
  std::vector<tensorflow::Event> EventsOf(const std::string& path) {
    auto reader = EventReader::Open(env_, path);
    EXPECT_TRUE(reader.ok()) << reader.status().ToString();
    std::vector<tensorflow::Event> events;
    Status status;
    while (true) {
      tensorflow::Event event;
      status = (*reader)->Read(&event);
      if (!status.ok()) break;
      events.push_back(event);
    }
    EXPECT_TRUE(errors::IsOutOfRange(status)) << status.ToString();
    return events;
  }
  static tensorflow::Summary Scalar(const std::string& tag, float value) {
    tensorflow::Summary s;
    s.add_value()->set_tag(tag);
    s.mutable_value(0)->set_simple_value(value);
    return s;
  }

  MemEnv env_;
  double now_ = 1500000000.25;
};

TEST_F(EventFileTest, BeginsWithTheVersion) {
  const auto writer = Open(Options());
  EXPECT_EQ(writer->path(), "/logs/events.out.tfevents.1500000000.host");
  ASSERT_TRUE(writer->Close().ok());
  // By the definition: length 24, its checksum, the message (wall_time is field 1, file_version 3), its
  // checksum.
  const std::string bytes = *ReadFileToString(env_, writer->path());
  ASSERT_EQ(bytes.size(), 8u + 4 + 24 + 4);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x18\0\0\0\0\0\0\0", 8));
  double time = 0;
  EXPECT_EQ(bytes[12], 0x09);
  memcpy(&time, bytes.data() + 13, 8);
  EXPECT_EQ(time, now_);
  EXPECT_EQ(bytes.substr(21, 15),
            "\x1a\x0d"
            "brain.Event:2");
}

TEST_F(EventFileTest, EventsOfAllKinds) {
  const auto writer = Open(Options());
  now_ += 1;
  tensorflow::GraphDef graph;
  graph.add_node()->set_name("n");
  tensorflow::MetaGraphDef meta;
  meta.mutable_meta_info_def()->set_meta_graph_version("7");
  tensorflow::SessionLog log;
  log.set_status(tensorflow::SessionLog::CHECKPOINT);
  tensorflow::RunMetadata metadata;
  metadata.add_partition_graphs()->add_node()->set_name("p");
  ASSERT_TRUE(writer->AddSummary(Scalar("loss", 0.5f), 10).ok());
  ASSERT_TRUE(writer->AddSummary(Scalar("serialized", 2).SerializeAsString(), 11).ok());
  ASSERT_TRUE(writer->AddGraph(graph).ok());
  ASSERT_TRUE(writer->AddMetaGraph(meta).ok());
  ASSERT_TRUE(writer->AddSessionLog(log, 12).ok());
  ASSERT_TRUE(writer->AddRunMetadata(metadata, "step1", 13).ok());
  EXPECT_THAT(writer->AddRunMetadata(metadata, "step1", 14).ToString(), HasSubstr("already used"));
  EXPECT_THAT(writer->AddSummary(std::string("\x0a\xff", 2), 1).ToString(), HasSubstr("not a Summary"));
  ASSERT_TRUE(writer->Close().ok());
  const auto events = EventsOf(writer->path());
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].wall_time(), now_);
  EXPECT_EQ(events[1].step(), 10);
  EXPECT_EQ(events[1].summary().value(0).simple_value(), 0.5f);
  EXPECT_EQ(events[2].summary().value(0).tag(), "serialized");
  EXPECT_EQ(events[3].graph_def(), graph.SerializeAsString());
  EXPECT_EQ(events[4].meta_graph_def(), meta.SerializeAsString());
  EXPECT_EQ(events[5].session_log().status(), tensorflow::SessionLog::CHECKPOINT);
  EXPECT_EQ(events[6].tagged_run_metadata().tag(), "step1");
  EXPECT_EQ(events[6].tagged_run_metadata().run_metadata(), metadata.SerializeAsString());
}

TEST_F(EventFileTest, ReadsFromAnOffsetOn) {
  const auto writer = Open(Options());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(writer->AddSummary(Scalar("loss", 1), i).ok());
  ASSERT_TRUE(writer->Close().ok());
  tensorflow::Event event;
  const auto all = *EventReader::Open(env_, writer->path());
  EXPECT_EQ(all->offset(), 0u);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(all->Read(&event).ok());
  const auto rest = *EventReader::Open(env_, writer->path(), {.offset = all->offset()});
  EXPECT_EQ(rest->offset(), all->offset());
  ASSERT_TRUE(rest->Read(&event).ok());
  EXPECT_EQ(event.step(), 2);
  EXPECT_EQ(rest->offset(), ReadFileToString(env_, writer->path())->size());
  EXPECT_TRUE(errors::IsOutOfRange(rest->Read(&event)));
  EXPECT_TRUE(
      errors::IsOutOfRange((*EventReader::Open(env_, writer->path(), {.offset = 9999}))->Read(&event)));
}

TEST_F(EventFileTest, ARecordOfMoreThanTheLimitIsAnError) {
  const auto writer = Open(Options());
  ASSERT_TRUE(writer->AddSummary(Scalar(std::string(100, 'x'), 1), 1).ok());
  ASSERT_TRUE(writer->Close().ok());
  const auto reader = *EventReader::Open(env_, writer->path(), {.most_bytes = 100});
  tensorflow::Event event;
  ASSERT_TRUE(reader->Read(&event).ok());
  EXPECT_EQ(reader->Read(&event).code(), ErrorCode::kResourceExhausted);
}

TEST_F(EventFileTest, RotatesAndKeepsNamesApart) {
  EventWriter::Options options = Options();
  options.suffix = ".v2";
  options.rotate_after_bytes = 100;
  const auto writer = Open(options);
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(writer->AddSummary(Scalar("loss", 1), i).ok());
  ASSERT_TRUE(writer->Close().ok());
  auto files = *env_.GetChildren("/logs");
  std::sort(files.begin(), files.end());
  ASSERT_GE(files.size(), 3u);
  EXPECT_EQ(files[0], "events.out.tfevents.1500000000.host.1.v2");
  size_t summaries = 0;
  for (const std::string& file : files) {
    const auto events = EventsOf("/logs/" + file);
    EXPECT_EQ(events[0].file_version(), "brain.Event:2");
    summaries += events.size() - 1;
  }
  EXPECT_EQ(summaries, 12u);
}

TEST_F(EventFileTest, IsOnDiskAfterAWhile) {
  int syncs = 0;
  FaultyEnv env(env_, [&](std::string_view operation, const std::string&) {
    syncs += operation == "sync" ? 1 : 0;
    return Status();
  });
  EventWriter::Options options = Options();
  options.flush_after_secs = 10;
  auto writer = *EventWriter::Open(env, "/logs/events", options);
  ASSERT_TRUE(writer->AddSummary(Scalar("a", 1), 1).ok());
  EXPECT_EQ(syncs, 0);
  now_ += 11;
  ASSERT_TRUE(writer->AddSummary(Scalar("a", 1), 2).ok());
  EXPECT_EQ(syncs, 1);
}

TEST_F(EventFileTest, ContinuesInANewFileWhenTheOldOneWasDeleted) {
  const auto writer = Open(Options());
  const std::string first = writer->path();
  ASSERT_TRUE(env_.DeleteFile(first).ok());
  now_ += 5;
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_NE(writer->path(), first);
  ASSERT_TRUE(writer->AddSummary(Scalar("a", 1), 1).ok());
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_EQ(EventsOf(writer->path()).size(), 2u);
}

TEST_F(EventFileTest, ErrorsOfTheDiskAreReported) {
  bool full = false;
  FaultyEnv env(env_, [&](std::string_view operation, const std::string&) {
    return full && operation == "append" ? errors::ResourceExhausted("disk full") : Status();
  });
  auto writer = *EventWriter::Open(env, "/logs/events", Options());
  full = true;
  EXPECT_THAT(writer->AddSummary(Scalar("a", 1), 1).ToString(), HasSubstr("disk full"));
  full = false;
  now_ += 1;
  ASSERT_TRUE(writer->AddSummary(Scalar("a", 2), 2).ok());
  ASSERT_TRUE(writer->Close().ok());
  const auto events = EventsOf(writer->path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].step(), 2);
  FaultyEnv closed(env_, [](std::string_view operation, const std::string&) {
    return operation == "open" ? errors::PermissionDenied("no entry") : Status();
  });
  EXPECT_THAT(EventWriter::Open(closed, "/logs/events", Options()).status().ToString(),
              HasSubstr("no entry"));
}

TEST_F(EventFileTest, BrokenEventsAreDataLoss) {
  const auto writer = Open(Options());
  ASSERT_TRUE(writer->AddSummary(Scalar("loss", 0.5f), 10).ok());
  ASSERT_TRUE(writer->Close().ok());
  std::string bytes = *ReadFileToString(env_, writer->path());
  bytes[60] = static_cast<char>(bytes[60] ^ 1);
  ASSERT_TRUE(WriteFileAtomically(env_, "/logs/broken", bytes).ok());
  auto reader = *EventReader::Open(env_, "/logs/broken");
  tensorflow::Event event;
  ASSERT_TRUE(reader->Read(&event).ok());
  EXPECT_THAT(reader->Read(&event).ToString(), HasSubstr("corrupted record at 52"));
}

}  // namespace
}  // namespace millrace::io
