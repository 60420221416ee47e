// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/event_store.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/strings.h"
#include "cli/watch/watch_data.h"
#include "io/crc32c.h"
#include "io/record_file.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/util/event.pb.h"

namespace millrace::cli {
namespace {

using tensorflow::Event;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Event Scalar(int64_t step, const std::string& tag, float value) {
  Event event;
  event.set_step(step);
  event.set_wall_time(1000 + static_cast<double>(step));
  auto* const v = event.mutable_summary()->add_value();
  v->set_tag(tag);
  v->set_simple_value(value);
  return event;
}

Event Version(const std::string& version = "brain.Event:2") {
  Event event;
  event.set_file_version(version);
  return event;
}

Event Start(int64_t step) {
  Event event;
  event.set_step(step);
  event.mutable_session_log()->set_status(tensorflow::SessionLog::START);
  return event;
}

const Series* Find(const EventStore& store, const std::string& run, const std::string& tag,
                   SeriesKind kind = SeriesKind::kScalars) {
  const auto found = store.runs().find(run);
  if (found == store.runs().end()) return nullptr;
  const auto series = found->second->series.find({kind, tag});
  return series == found->second->series.end() ? nullptr : series->second.get();
}

std::vector<int64_t> Steps(const EventStore& store, const std::string& run, const std::string& tag) {
  std::vector<int64_t> steps;
  const Series* const series = Find(store, run, tag);
  for (size_t i = 0; series != nullptr && i < series->scalars.items().size(); ++i) {
    steps.push_back(series->scalars.items()[i].step);
  }
  return steps;
}

TEST(ReservoirTest, KeepsASampleInOrderWithTheLast) {
  Reservoir<int> reservoir(10);
  for (int i = 0; i < 1000; ++i) {
    reservoir.Add(i);
    ASSERT_EQ(reservoir.items().back(), i);
  }
  EXPECT_EQ(reservoir.items().size(), 10u);
  EXPECT_EQ(reservoir.seen(), 1000u);
  EXPECT_TRUE(std::is_sorted(reservoir.items().begin(), reservoir.items().end()));
}

TEST(ReservoirTest, EachItemHasTheSameChance) {
  // Of 100,000 items 1,000 are kept: the mean of their places is near the middle (standard error 0.9 %).
  Reservoir<int> reservoir(1000);
  for (int i = 0; i < 100'000; ++i) reservoir.Add(i);
  double sum = 0;
  for (const int i : reservoir.items()) sum += i;
  EXPECT_NEAR(sum / 1000, 50'000, 4'500);
}

TEST(ReservoirTest, WhatIsRemovedIsNoLongerCounted) {
  Reservoir<int> reservoir(4);
  for (int i = 0; i < 4; ++i) reservoir.Add(i);
  EXPECT_EQ(reservoir.RemoveIf([](int i) { return i >= 2; }), 2u);
  EXPECT_EQ(reservoir.seen(), 2u);
  reservoir.Add(7);
  EXPECT_THAT(reservoir.items(), ElementsAre(0, 1, 7));
}

TEST(RebinTest, SpreadsBucketsOverEqualParts) {
  // 30 values spread over [0, 30] and 6 in [2, 4]: 1 in each part, and 3 more in parts 2 and 3.
  const std::vector<HistogramBucket> buckets = {{0, 30, 30}, {2, 4, 6}};
  const auto point = Rebin(buckets, 0, 30);
  ASSERT_TRUE(point.has_value());
  for (size_t i = 0; i < kHistogramBins; ++i) {
    EXPECT_NEAR(point->counts[i], i == 2 || i == 3 ? 4.0F : 1.0F, 1e-5F) << i;
  }
}

TEST(RebinTest, TakesAnyLimits) {
  const double inf = std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::max();
  const auto last = Rebin(std::vector<HistogramBucket>{{0, most, 3}}, 0, 3);  // the last bucket has no end
  ASSERT_TRUE(last.has_value());
  EXPECT_FLOAT_EQ(last->counts[29], 0.1F);
  const auto same = Rebin(std::vector<HistogramBucket>{{5, 5, 2}}, 5, 5);
  ASSERT_TRUE(same.has_value());
  EXPECT_LT(same->low, 5);
  EXPECT_GT(same->high, 5);
  const std::vector<HistogramBucket> wild = {
      {-inf, inf, 1}, {std::nan(""), std::nan(""), 1}, {9, -9, 1}, {0, 1, -5}, {0, 1, inf}};
  const auto all = Rebin(wild, -1, 1);
  ASSERT_TRUE(all.has_value());
  float sum = 0;
  for (const float count : all->counts) sum += count;
  EXPECT_NEAR(sum, 3, 1e-4);
  EXPECT_FALSE(Rebin(wild, 1, -1).has_value());
  EXPECT_FALSE(Rebin(wild, std::nan(""), 1).has_value());
  EXPECT_FALSE(Rebin(wild, -most, most).has_value());
  EXPECT_FALSE(Rebin({}, 0, 1).has_value());
}

TEST(EventStoreTest, AStartRemovesWhatComesAgain) {
  EventStore store({});
  auto& run = store.GetRun("r");
  store.Apply(Version(), &run);
  store.Apply(Start(0), &run);
  for (int step = 1; step <= 5; ++step) store.Apply(Scalar(step, "loss", 1), &run);
  store.Apply(Version(), &run);
  store.Apply(Start(3), &run);  // from the checkpoint at step 3
  EXPECT_THAT(Steps(store, "r", "loss"), ElementsAre(1, 2));
  store.Apply(Scalar(3, "loss", 2), &run);
  store.Apply(Scalar(4, "loss", 2), &run);
  EXPECT_THAT(Steps(store, "r", "loss"), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(run.restarts, 2u);
  EXPECT_EQ(run.purged, 3u);
}

TEST(EventStoreTest, WithVersion2StepsMayFallWithoutARestart) {
  EventStore store({});
  auto& run = store.GetRun("r");
  store.Apply(Version(), &run);
  for (const int step : {5, 3, 4}) store.Apply(Scalar(step, "loss", 1), &run);
  EXPECT_THAT(Steps(store, "r", "loss"), ElementsAre(5, 3, 4));
}

TEST(EventStoreTest, InOlderFilesASmallerStepRemovesWhatComesAgainOfItsTag) {
  for (const char* const version : {"brain.Event:1", "", "nonsense", "brain.Event:x"}) {
    EventStore store({});
    auto& run = store.GetRun("r");
    store.Apply(Version(version), &run);
    for (int step = 1; step <= 5; ++step) {
      store.Apply(Scalar(step, "loss", 1), &run);
      store.Apply(Scalar(step, "other", 1), &run);
    }
    store.Apply(Start(2), &run);  // has no effect in such a file
    store.Apply(Scalar(6, "loss", 1), &run);
    store.Apply(Scalar(3, "loss", 1), &run);
    EXPECT_THAT(Steps(store, "r", "loss"), ElementsAre(1, 2, 3)) << version;
    EXPECT_THAT(Steps(store, "r", "other"), ElementsAre(1, 2, 3, 4, 5)) << version;
  }
}

TEST(EventStoreTest, VersionsTellThatSomethingChanged) {
  EventStore store({});
  auto& run = store.GetRun("r");
  store.Apply(Version(), &run);
  store.Apply(Scalar(1, "a", 1), &run);
  store.Apply(Scalar(1, "b", 1), &run);
  const uint64_t a = Find(store, "r", "a")->version, b = Find(store, "r", "b")->version;
  const uint64_t generation = store.generation();
  store.Apply(Scalar(2, "b", 1), &run);
  EXPECT_EQ(Find(store, "r", "a")->version, a);
  EXPECT_GT(Find(store, "r", "b")->version, b);
  EXPECT_GT(store.generation(), generation);
  EXPECT_EQ(store.FindSeries(Find(store, "r", "b")->id), Find(store, "r", "b"));
}

TEST(EventStoreTest, KeepsNoMoreThanTheLimits) {
  EventStore store({.scalars = 100, .blobs = 3, .series = 5, .blob_bytes = 64, .bytes_of_one = 32});
  auto& run = store.GetRun("r");
  store.Apply(Version(), &run);
  for (int step = 0; step < 1000; ++step) store.Apply(Scalar(step, "loss", 1), &run);
  EXPECT_EQ(Find(store, "r", "loss")->scalars.items().size(), 100u);
  EXPECT_EQ(Find(store, "r", "loss")->seen(), 1000u);
  for (int i = 0; i < 10; ++i) store.Apply(Scalar(1, StrCat("t", i), 1), &run);
  EXPECT_EQ(run.series.size(), 5u);
  const auto image = [](size_t bytes, int64_t step) {
    Event event;
    event.set_step(step);
    auto* const v = event.mutable_summary()->add_value();
    v->set_tag("x");
    v->mutable_image()->set_encoded_image_string("\x89PNG" + std::string(bytes - 4, 'x'));
    return event;
  };
  EventStore images({.blobs = 3, .blob_bytes = 64, .bytes_of_one = 32});
  auto& other = images.GetRun("");
  images.Apply(image(33, 0), &other);
  EXPECT_EQ(Find(images, "", "x", SeriesKind::kImages)->blobs.items().size(), 0u);
  // Replaced data no longer counts against the limit.
  for (int step = 1; step < 50; ++step) images.Apply(image(20, step), &other);
  EXPECT_EQ(Find(images, "", "x", SeriesKind::kImages)->blobs.items().size(), 3u);
  EXPECT_EQ(images.notes().size(), 1u);
}

TEST(EventStoreTest, ReadsTensorsOfPlugins) {
  EventStore store({});
  auto& run = store.GetRun("r");
  Event event;
  event.set_step(7);
  const auto add = [&](const char* tag, const char* plugin, tensorflow::DataType type,
                       std::vector<int64_t> dims) {
    auto* const value = event.mutable_summary()->add_value();
    value->set_tag(tag);
    value->mutable_metadata()->mutable_plugin_data()->set_plugin_name(plugin);
    value->mutable_tensor()->set_dtype(type);
    for (const int64_t dim : dims) value->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(dim);
    return value->mutable_tensor();
  };
  add("s", "scalars", tensorflow::DT_FLOAT, {})->add_float_val(2.5F);
  auto* const histogram = add("h", "histograms", tensorflow::DT_DOUBLE, {2, 3});
  for (const double v : {0.0, 1.0, 4.0, 1.0, 2.0, 8.0}) histogram->add_double_val(v);
  auto* const images = add("i", "images", tensorflow::DT_STRING, {4});
  for (const char* const v : {"1", "1", "\x89PNG a", "GIF8 b"}) images->add_string_val(v);
  add("t", "text", tensorflow::DT_STRING, {})->add_string_val("some text");
  add("bad", "images", tensorflow::DT_STRING, {3})->add_string_val("<svg onload=alert(1)>");
  add("odd", "histograms", tensorflow::DT_FLOAT, {4})->add_float_val(1);
  add("broken", "text", tensorflow::DT_STRING, {1 << 30, 1 << 30});
  store.Apply(event, &run);
  EXPECT_EQ(Find(store, "r", "s")->scalars.items().at(0).value, 2.5);
  const auto& counts = Find(store, "r", "h", SeriesKind::kHistograms)->histograms.items().at(0).counts;
  EXPECT_NEAR(counts[0], 4.0 / 15, 1e-6);
  EXPECT_NEAR(counts[29], 8.0 / 15, 1e-6);
  EXPECT_EQ(Find(store, "r", "i/0", SeriesKind::kImages)->blobs.items().at(0).type, "image/png");
  EXPECT_EQ(Find(store, "r", "i/1", SeriesKind::kImages)->blobs.items().at(0).type, "image/gif");
  EXPECT_EQ(Find(store, "r", "t", SeriesKind::kText)->blobs.items().at(0).bytes, "some text");
  EXPECT_EQ(Find(store, "r", "bad", SeriesKind::kImages), nullptr);
  EXPECT_EQ(store.notes().size(), 3u);  // bad, odd, broken
}

TEST(EventStoreTest, NumbersOfAnySizeAreWritten) {
  EventStore store({});
  auto& run = store.GetRun("r");
  const double inf = std::numeric_limits<double>::infinity();
  for (const double number : {0.1, 1e300, -inf, std::nan("")}) {
    Event event;
    auto* const value = event.mutable_summary()->add_value();
    value->set_tag("s");
    value->mutable_tensor()->set_dtype(tensorflow::DT_DOUBLE);
    value->mutable_tensor()->add_double_val(number);
    store.Apply(event, &run);
  }
  const Series* const series = Find(store, "r", "s");
  ASSERT_NE(series, nullptr);
  EXPECT_THAT(SeriesJson(store, std::vector<uint64_t>{series->id}, false),
              HasSubstr("\"value\":[0.1,1e+300,\"NaN\",\"NaN\"]"));
}

TEST(EventStoreTest, TheGraphItselfIsBetterThanThatOfAMetaGraph) {
  EventStore store({});
  auto& run = store.GetRun("r");
  tensorflow::MetaGraphDef meta_graph;
  meta_graph.mutable_graph_def()->add_node()->set_name("from_meta");
  tensorflow::GraphDef graph;
  graph.add_node()->set_name("from_graph");
  Event meta, plain, broken;
  meta.set_meta_graph_def(meta_graph.SerializeAsString());
  plain.set_graph_def(graph.SerializeAsString());
  store.Apply(meta, &run);
  EXPECT_THAT(run.graph, HasSubstr("from_meta"));
  store.Apply(plain, &run);
  store.Apply(meta, &run);
  EXPECT_THAT(run.graph, HasSubstr("from_graph"));
  EXPECT_THAT(*GraphPage(run), HasSubstr("from_graph"));
  broken.set_graph_def("\xff\xff");
  store.Apply(broken, &run);
  EXPECT_EQ(GraphPage(run).status().code(), ErrorCode::kDataLoss);
  EXPECT_EQ(GraphPage(store.GetRun("empty")).status().code(), ErrorCode::kNotFound);
}

// ---- Files

class EventWatcherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        StrCat(testing::TempDir(), "watch_", testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string Record(const Event& event) {
    MemEnv env;
    auto file = env.NewWritableFile("/r");
    EXPECT_TRUE(file.ok());
    io::RecordWriter writer(**file, io::Compression::kNone);
    EXPECT_TRUE(writer.Write(event.SerializeAsString()).ok());
    EXPECT_TRUE(writer.Close().ok());
    EXPECT_TRUE((*file)->Close().ok());
    return *ReadFileToString(env, "/r");
  }
  void Append(const std::string& name, std::string_view bytes) {
    const std::filesystem::path path = std::filesystem::path(folder_) / name;
    std::filesystem::create_directories(path.parent_path());
    auto file = Env::Posix().NewAppendableFile(path.string());
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(bytes).ok());
    ASSERT_TRUE((*file)->Close().ok());
  }

  std::string folder_;
};

TEST_F(EventWatcherTest, ReadsWhatFilesGrowBy) {
  EventWatcher watcher(Env::Posix(), {folder_}, {});
  ASSERT_TRUE(watcher.ReadAll().ok());
  EXPECT_EQ(watcher.num_files(), 0u);
  Append("a/events.out.tfevents.1", Record(Version()) + Record(Scalar(1, "loss", 1)));
  ASSERT_TRUE(watcher.ReadAll().ok());
  EXPECT_THAT(Steps(watcher.store(), "a", "loss"), ElementsAre(1));
  // An incomplete record is not read until its last byte has arrived.
  const std::string record = Record(Scalar(2, "loss", 2));
  for (const char byte : record.substr(0, record.size() - 1)) {
    Append("a/events.out.tfevents.1", {&byte, 1});
    ASSERT_TRUE(watcher.ReadAll().ok());
    ASSERT_THAT(Steps(watcher.store(), "a", "loss"), ElementsAre(1));
  }
  Append("a/events.out.tfevents.1", record.substr(record.size() - 1) + Record(Scalar(3, "loss", 3)));
  ASSERT_TRUE(watcher.ReadAll().ok());
  EXPECT_THAT(Steps(watcher.store(), "a", "loss"), ElementsAre(1, 2, 3));
  EXPECT_EQ(watcher.bytes(), watcher.bytes_read());
  EXPECT_TRUE(watcher.store().notes().empty());
  const uint64_t generation = watcher.store().generation();
  ASSERT_TRUE(watcher.ReadAll().ok());
  EXPECT_EQ(watcher.store().generation(), generation);
}

TEST_F(EventWatcherTest, FilesOfARunAreReadInOrderAndARestartPurges) {
  Append("events.out.tfevents.20", Record(Version()) + Record(Start(2)) + Record(Scalar(2, "loss", 9)));
  Append("events.out.tfevents.10", Record(Version()) + Record(Scalar(1, "loss", 1)) +
                                       Record(Scalar(2, "loss", 1)) + Record(Scalar(3, "loss", 1)));
  EventWatcher watcher(Env::Posix(), {folder_}, {});
  ASSERT_TRUE(watcher.ReadAll().ok());
  EXPECT_THAT(Steps(watcher.store(), "", "loss"), ElementsAre(1, 2));
  EXPECT_EQ(Find(watcher.store(), "", "loss")->scalars.items().back().value, 9);
  EXPECT_EQ(watcher.store().runs().at("")->name, ".");
}

TEST_F(EventWatcherTest, ContinuesWhereItWasStopped) {
  std::string bytes = Record(Version());
  for (int step = 0; step < 300; ++step) bytes += Record(Scalar(step, "loss", 1));
  Append("a/events.out.tfevents.1", bytes);
  EventWatcher watcher(Env::Posix(), {folder_}, {});
  int calls = 1;
  for (;; ++calls) {
    const auto more = watcher.Refresh([] { return true; });
    ASSERT_TRUE(more.ok());
    if (!*more) break;
    ASSERT_LT(calls, 100);
  }
  EXPECT_GT(calls, 3);
  EXPECT_EQ(Steps(watcher.store(), "a", "loss").size(), 300u);
}

TEST_F(EventWatcherTest, BrokenRecordsAreReportedAndTheRestOfTheFileIsSkipped) {
  std::string broken = Record(Version()) + Record(Scalar(1, "loss", 1)) + Record(Scalar(2, "loss", 1));
  broken[broken.size() - 5] ^= 1;
  Append("a/x.tfevents.1", broken + Record(Scalar(3, "loss", 1)));
  Append("a/x.tfevents.2", Record(Version()) + Record(Scalar(4, "loss", 1)));
  Append("b/x.tfevents", "this is no event file at all, but it is named like one");
  EventWatcher watcher(Env::Posix(), {folder_}, {});
  ASSERT_TRUE(watcher.ReadAll().ok());
  EXPECT_THAT(Steps(watcher.store(), "a", "loss"), ElementsAre(1, 4));
  ASSERT_EQ(watcher.store().notes().size(), 2u);
  EXPECT_THAT(watcher.store().notes()[0], HasSubstr("corrupted record at"));
  EXPECT_THAT(watcher.store().notes()[1], HasSubstr("b/x.tfevents"));
  // It is not read again, nor is a file that has become shorter.
  Append("a/x.tfevents.1", Record(Scalar(5, "loss", 1)));
  std::filesystem::resize_file(folder_ + "/a/x.tfevents.2", 5);
  ASSERT_TRUE(watcher.ReadAll().ok());
  EXPECT_THAT(Steps(watcher.store(), "a", "loss"), ElementsAre(1, 4));
  EXPECT_THAT(watcher.store().notes().back(), HasSubstr("has become shorter"));
}

TEST_F(EventWatcherTest, ARecordThatClaimsTooMuchIsNotWaitedFor) {
  // Only the length and its checksum, as a record of 1 TiB has them.
  const std::string length("\0\0\0\0\0\1\0\0", 8);
  uint32_t crc = io::MaskCrc(io::Crc32c(length));
  Append("a/x.tfevents", length + std::string(reinterpret_cast<const char*>(&crc), 4));
  EventWatcher watcher(Env::Posix(), {folder_}, {});
  ASSERT_TRUE(watcher.ReadAll().ok());
  ASSERT_EQ(watcher.store().notes().size(), 1u);
  EXPECT_THAT(watcher.store().notes()[0], HasSubstr("1099511627776 bytes"));
}

TEST_F(EventWatcherTest, ARunGoesWithItsFiles) {
  Append("a/x.tfevents", Record(Version()) + Record(Scalar(1, "loss", 1)));
  Append("b/x.tfevents", Record(Version()) + Record(Scalar(1, "loss", 1)));
  EventWatcher watcher(Env::Posix(), {folder_}, {});
  ASSERT_TRUE(watcher.ReadAll().ok());
  const uint64_t id = Find(watcher.store(), "a", "loss")->id;
  std::filesystem::remove_all(folder_ + "/a");
  ASSERT_TRUE(watcher.ReadAll().ok());
  EXPECT_EQ(watcher.store().runs().size(), 1u);
  EXPECT_EQ(watcher.store().FindSeries(id), nullptr);
  EXPECT_EQ(SeriesJson(watcher.store(), std::vector<uint64_t>{id}, false), "{}");
  std::filesystem::remove_all(folder_);
  EXPECT_EQ(watcher.Refresh([] { return false; }).status().code(), ErrorCode::kNotFound);
  EXPECT_THAT(watcher.store().notes().back(), HasSubstr(folder_));
}

TEST_F(EventWatcherTest, AnyChangedByteGivesAnAnswer) {
  Event rich = Scalar(1, "loss", 1);
  auto* const histogram = rich.mutable_summary()->add_value()->mutable_histo();
  histogram->set_max(1);
  histogram->add_bucket_limit(1);
  histogram->add_bucket(3);
  rich.mutable_summary()->add_value()->mutable_image()->set_encoded_image_string("\x89PNG");
  auto* const text = rich.mutable_summary()->add_value();
  text->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  text->mutable_tensor()->set_dtype(tensorflow::DT_STRING);
  text->mutable_tensor()->add_string_val("hello");
  const std::string message = rich.SerializeAsString();
  const google::protobuf::LogSilencer silence;
  uint64_t state = 12345;
  size_t parsed = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string changed = message;
    for (int change = 0; change < 3; ++change) {
      state = state * 6364136223846793005 + 1442695040888963407;
      changed[(state >> 33) % changed.size()] = static_cast<char>(state >> 20);
    }
    Event event;
    if (!event.ParseFromString(changed)) continue;
    ++parsed;
    EventStore store({});
    auto& run = store.GetRun("r");
    store.Apply(event, &run);
    for (const auto& [key, series] : run.series) {
      EXPECT_THAT(SeriesJson(store, std::vector<uint64_t>{series->id}, true), HasSubstr("version"));
    }
  }
  EXPECT_GT(parsed, 100u);
}

}  // namespace
}  // namespace millrace::cli
