// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The ops that write summaries to a database, which SQLite reads here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernel/testing.h"
#include "kernels/cpu/logging/summary_database.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/summary.pb.h"
#include "tensorflow/core/util/event.pb.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

using Rows = std::vector<std::string>;

Tensor Text(const std::string& text) { return Tensor::Scalar<std::string>(text); }
Tensor Step(int64_t step) { return Tensor::Scalar<int64_t>(step); }

// The bytes of numbers, as in a blob.
template <typename T>
std::string Bytes(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

class SummaryDatabaseTest : public testing::Test {
 protected:
  SummaryDatabaseTest()
      : folder_(std::filesystem::path(testing::TempDir()) / "summary_database_test"),
        path_((folder_ / "db.sqlite").string()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    handle_ = *KernelRunner("SummaryWriter").Resources(&resources_).Attr("shared_name", "w").RunOne();
  }
  ~SummaryDatabaseTest() override {
    sqlite3_close(reader_);
    resources_.Clear();
    std::filesystem::remove_all(folder_);
  }

  Status Run(const char* op, const std::vector<Tensor>& inputs) {
    KernelRunner runner(op);
    runner.Name("node").Resources(&resources_).Input(handle_);
    for (const Tensor& t : inputs) runner.Input(t);
    return runner.Run().status();
  }
  Status Create(const std::string& experiment = "e", const std::string& run = "r",
                const std::string& user = "u") {
    return Run("CreateSummaryDbWriter", {Text(path_), Text(experiment), Text(run), Text(user)});
  }
  Status WriteScalar(int64_t step, const Tensor& value) {
    return Run("WriteScalarSummary", {Step(step), Text("loss"), value});
  }
  Status Import(const tensorflow::Event& event) {
    return Run("ImportEvent", {Text(event.SerializeAsString())});
  }
  // The rows of a query, with "|" between columns; NULL is "-".
  Rows Query(const std::string& sql) {
    if (reader_ == nullptr) {
      EXPECT_EQ(sqlite3_open(path_.c_str(), &reader_), SQLITE_OK);
    }
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(reader_, sql.c_str(), -1, &statement, nullptr), SQLITE_OK)
        << sqlite3_errmsg(reader_);
    Rows rows;
    while (sqlite3_step(statement) == SQLITE_ROW) {
      std::string& row = rows.emplace_back();
      for (int i = 0; i < sqlite3_column_count(statement); ++i) {
        if (i > 0) row += "|";
        const char* const bytes = static_cast<const char*>(sqlite3_column_blob(statement, i));
        const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, i));
        if (sqlite3_column_type(statement, i) == SQLITE_NULL) row += "-";
        if (size > 0) row.append(bytes, size);
      }
    }
    sqlite3_finalize(statement);
    return rows;
  }
  void Execute(const char* sql) {
    if (reader_ == nullptr) {
      EXPECT_EQ(sqlite3_open(path_.c_str(), &reader_), SQLITE_OK);
    }
    EXPECT_EQ(sqlite3_exec(reader_, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(reader_);
  }

  const std::filesystem::path folder_;
  const std::string path_;
  ResourceManager resources_{std::string(KernelRunner::kDeviceName)};
  Tensor handle_;
  sqlite3* reader_ = nullptr;
};

TEST_F(SummaryDatabaseTest, TablesExistFromTheStart) {
  ASSERT_EQ(Create(), Status());
  EXPECT_THAT(Query("SELECT name FROM sqlite_master WHERE type = 'table'"),
              UnorderedElementsAre("Ids", "Descriptions", "Tensors", "TensorStrings", "Tags", "Runs",
                                   "Experiments", "Users", "Graphs", "Nodes", "NodeInputs"));
  EXPECT_THAT(Query("SELECT count(*) FROM sqlite_master WHERE type = 'index'"), ElementsAre("16"));
  EXPECT_THAT(Query("PRAGMA application_id"), ElementsAre(std::to_string(static_cast<int32_t>(0xfeedabee))));
  EXPECT_THAT(Query("SELECT * FROM Users"), IsEmpty());  // until something is written
}

TEST_F(SummaryDatabaseTest, ScalarsKeepTheirTypesUnderTheirRun) {
  ASSERT_EQ(Create("my experiment", "first run", "me"), Status());
  ASSERT_EQ(WriteScalar(3, Tensor::Scalar<int64_t>(int64_t{1} << 40)), Status());
  ASSERT_EQ(WriteScalar(4, Tensor::Scalar<double>(0.1)), Status());
  EXPECT_THAT(
      Query("SELECT user_name, experiment_name, run_name, tag_name, plugin_name, is_watching, finished_time "
            "FROM Users JOIN Experiments USING (user_id) JOIN Runs USING (experiment_id) "
            "JOIN Tags USING (run_id)"),
      ElementsAre("me|my experiment|first run|loss|scalars|0|-"));
  EXPECT_THAT(Query("SELECT step, dtype, shape, data FROM Tensors JOIN Tags ON series = tag_id"),
              ElementsAre("3|9||" + Bytes<int64_t>({int64_t{1} << 40}), "4|2||" + Bytes<double>({0.1})));
  // One id each for user, experiment, run and tag.
  EXPECT_THAT(Query("SELECT id FROM Ids"), SizeIs(4));
  EXPECT_THAT(Query("SELECT 1 FROM Runs WHERE inserted_time > 1e9 AND started_time > 1e9"), SizeIs(1));
}

TEST_F(SummaryDatabaseTest, ASecondValueOfAStepReplacesTheFirst) {
  ASSERT_EQ(Create(), Status());
  const Tensor texts = Tensor::Vector<std::string>({"a", "b"});
  for (const Tensor& t : {texts, Tensor::Vector<std::string>({"c"})})
    ASSERT_EQ(Run("WriteSummary", {Step(1), t, Text("t"), Text("")}), Status());
  EXPECT_THAT(Query("SELECT shape, data FROM Tensors"), ElementsAre("1|-"));
  EXPECT_THAT(Query("SELECT idx FROM TensorStrings JOIN Tensors ON tensor_rowid = Tensors.rowid"), SizeIs(1));
  EXPECT_THAT(Query("SELECT idx, data FROM TensorStrings"), ElementsAre("0|c"));
}

TEST_F(SummaryDatabaseTest, TensorsKeepShapesTextsAndMetadata) {
  ASSERT_EQ(Create(), Status());
  tensorflow::SummaryMetadata metadata;
  metadata.set_display_name("Shown");
  metadata.set_summary_description("*about*");
  metadata.mutable_plugin_data()->set_plugin_name("text");
  metadata.mutable_plugin_data()->set_content(std::string("\0\1", 2));
  const auto write = [&](const char* tag, const Tensor& t) {
    return Run("WriteSummary", {Step(1), t, Text(tag), Text(metadata.SerializeAsString())});
  };
  ASSERT_EQ(write("matrix", Tensor::From<float>({1, 2, 3, 4, 5, 6}, TensorShape({2, 3}))), Status());
  ASSERT_EQ(write("word", Text(std::string("a\0b", 3))), Status());
  ASSERT_EQ(write("words", Tensor::From<std::string>({"x", ""}, TensorShape({2, 1}))), Status());
  ASSERT_EQ(write("none", Tensor(DataType::kFloat, TensorShape({0, 2}))), Status());
  ASSERT_EQ(write("bool", Tensor::Scalar(true)), Status());
  EXPECT_THAT(
      Query("SELECT tag_name, dtype, shape, data FROM Tensors JOIN Tags ON series = tag_id ORDER BY 1"),
      ElementsAre("bool|10||\1", "matrix|1|2,3|" + Bytes<float>({1, 2, 3, 4, 5, 6}), "none|1|0,2|",
                  std::string("word|7||a\0b", 11), "words|7|2,1|-"));
  EXPECT_THAT(Query("SELECT idx, data FROM TensorStrings ORDER BY idx"), ElementsAre("0|x", "1|"));
  EXPECT_THAT(Query("SELECT display_name, plugin_name, plugin_data, description FROM Tags "
                    "JOIN Descriptions ON id = tag_id WHERE tag_name = 'word'"),
              ElementsAre(std::string("Shown|text|\0\1|*about*", 21)));
}

TEST_F(SummaryDatabaseTest, HistogramsImagesAndSoundsAreTensorsOfTheirPlugins) {
  ASSERT_EQ(Create(), Status());
  ASSERT_EQ(Run("WriteHistogramSummary", {Step(1), Text("h"), Tensor::Vector<float>({1, 2, 2})}), Status());
  ASSERT_EQ(Run("WriteImageSummary", {Step(1), Text("i"), Tensor(DataType::kUint8, TensorShape({1, 2, 5, 3})),
                                      Tensor::Vector<uint8_t>({255, 0, 0, 255})}),
            Status());
  ASSERT_EQ(Run("WriteAudioSummary", {Step(1), Text("a"), Tensor::From<float>({0, 0.5f}, TensorShape({1, 2})),
                                      Tensor::Scalar(8000.0f)}),
            Status());
  EXPECT_THAT(
      Query("SELECT tag_name, plugin_name, dtype FROM Tags JOIN Tensors ON series = tag_id ORDER BY 1"),
      ElementsAre("a/audio/0|audio|7", "h|histograms|2", "i/image/0|images|7"));
  EXPECT_THAT(Query("SELECT idx, substr(data || '', 1, 4) FROM TensorStrings ORDER BY tensor_rowid, idx"),
              ElementsAre("0|5", "1|2", "2|\x89PNG", "0|RIFF", "1|"));
  const Rows h = Query("SELECT data FROM Tensors JOIN Tags ON series = tag_id WHERE tag_name = 'h'");
  ASSERT_THAT(h, SizeIs(1));
  std::vector<double> rows(h[0].size() / sizeof(double));
  std::memcpy(rows.data(), h[0].data(), h[0].size());
  ASSERT_EQ(rows.size() % 3, 0u);
  double count = 0;
  for (size_t i = 0; i < rows.size(); i += 3) {
    count += rows[i + 2];
    EXPECT_LT(rows[i], rows[i + 1]);
    if (i > 0) {  // buckets are adjacent
      EXPECT_EQ(rows[i], rows[i - 2]);
    }
  }
  EXPECT_EQ(count, 3);
}

TEST_F(SummaryDatabaseTest, GraphsAreRowsOfNodes) {
  ASSERT_EQ(Create(), Status());
  tensorflow::GraphDef graph;
  graph.mutable_versions()->set_producer(134);
  const auto add = [&](const char* name, const char* op, const std::vector<std::string>& inputs) {
    tensorflow::NodeDef* const node = graph.add_node();
    node->set_name(name);
    node->set_op(op);
    node->set_device("/cpu:0");
    for (const std::string& input : inputs) node->add_input(input);
  };
  add("b", "Split", {"a", "^c", "a:3"});  // before its input
  add("a", "Const", {});
  add("c", "NoOp", {});
  (*graph.mutable_node(1)->mutable_attr())["n"].set_i(5);
  ASSERT_EQ(Run("WriteGraphSummary", {Step(0), Text(graph.SerializeAsString())}), Status());
  EXPECT_THAT(Query("SELECT node_id, node_name, op, device FROM Nodes"),
              ElementsAre("0|b|Split|/cpu:0", "1|a|Const|/cpu:0", "2|c|NoOp|/cpu:0"));
  EXPECT_THAT(Query("SELECT node_id, idx, input_node_id, input_node_idx, is_control FROM NodeInputs"),
              ElementsAre("0|0|1|0|0", "0|1|2|0|1", "0|2|1|3|0"));
  tensorflow::GraphDef rest;
  ASSERT_TRUE(rest.ParseFromString(Query("SELECT graph_def FROM Graphs JOIN Runs USING (run_id)").at(0)));
  EXPECT_EQ(rest.versions().producer(), 134);
  EXPECT_EQ(rest.node_size(), 0);
  tensorflow::NodeDef node;
  ASSERT_TRUE(node.ParseFromString(Query("SELECT node_def FROM Nodes WHERE node_name = 'a'").at(0)));
  EXPECT_EQ(node.attr().at("n").i(), 5);
  EXPECT_EQ(node.name() + node.op() + node.device(), "");

  graph.mutable_node(0)->set_input(0, "nowhere");
  EXPECT_EQ(Run("WriteGraphSummary", {Step(2), Text(graph.SerializeAsString())}),
            errors::DataLoss("Could not find node: nowhere\n\tSaveNodeInputs\n\tu/e/r/__graph__@2"));
  graph.mutable_node(0)->set_input(0, "a:x");
  EXPECT_THAT(Run("WriteGraphSummary", {Step(2), Text(graph.SerializeAsString())}).message(),
              HasSubstr("Bad NodeDef.input: a:x"));
  EXPECT_THAT(Query("SELECT * FROM Graphs"), SizeIs(1));  // without the invalid ones
}

TEST_F(SummaryDatabaseTest, EventsBringTheirTimes) {
  ASSERT_EQ(Create(), Status());
  tensorflow::Event event;
  event.set_step(5);
  tensorflow::Summary::Value* const value = event.mutable_summary()->add_value();
  value->set_tag("old");
  value->set_simple_value(0.5f);
  for (const double time : {200.5, 100.25}) {
    event.set_wall_time(time);
    ASSERT_EQ(Import(event), Status());
  }
  EXPECT_THAT(Query("SELECT step, computed_time, data FROM Tensors"),
              ElementsAre("5|100.25|" + Bytes<float>({0.5f})));
  // The earliest event determines the start times.
  EXPECT_THAT(
      Query("SELECT r.started_time, e.started_time FROM Runs r JOIN Experiments e USING (experiment_id)"),
      ElementsAre("100.25|100.25"));
  tensorflow::Event version;
  version.set_file_version("brain.Event:2");
  EXPECT_EQ(Import(version), Status());
  value->mutable_histo()->add_bucket(1);
  EXPECT_EQ(Import(event), errors::InvalidArgument("size mismatch\n\tu/e/r/old@5"));
}

TEST_F(SummaryDatabaseTest, EmptyNamesLeaveLevelsOut) {
  ASSERT_EQ(Create("", "", ""), Status());
  ASSERT_EQ(WriteScalar(1, Tensor::Scalar(1.0f)), Status());
  ASSERT_EQ(Run("CloseSummaryWriter", {}), Status());
  EXPECT_THAT(Query("SELECT run_id, tag_name FROM Tags"), ElementsAre("-|loss"));
  EXPECT_THAT(Query("SELECT * FROM Runs"), IsEmpty());
  ASSERT_EQ(Create("", "run", "u"), Status());
  ASSERT_EQ(WriteScalar(1, Tensor::Scalar(1.0f)), Status());
  EXPECT_THAT(Query("SELECT experiment_id, run_name FROM Runs"), ElementsAre("-|run"));
  EXPECT_THAT(Query("SELECT * FROM Users"), IsEmpty());
}

TEST_F(SummaryDatabaseTest, ALaterWriterFindsUserAndExperiment) {
  for (const char* run : {"one", "two", "two"}) {
    ASSERT_EQ(Create("e", run), Status());
    ASSERT_EQ(WriteScalar(1, Tensor::Scalar(1.0f)), Status());
    ASSERT_EQ(Run("CloseSummaryWriter", {}), Status());
  }
  EXPECT_THAT(Query("SELECT user_name FROM Users"), ElementsAre("u"));
  EXPECT_THAT(Query("SELECT experiment_name FROM Experiments"), ElementsAre("e"));
  // A run with an existing name is another attempt, which has the name from then on.
  EXPECT_THAT(Query("SELECT run_name FROM Runs WHERE finished_time >= started_time"),
              ElementsAre("one", "two"));
  EXPECT_EQ(Run("FlushSummaryWriter", {}).code(), ErrorCode::kNotFound);
}

TEST_F(SummaryDatabaseTest, WhatIsWrongIsRefused) {
  const auto create = [&](const std::string& uri) {
    return Run("CreateSummaryDbWriter", {Text(uri), Text("e"), Text("r"), Text("u")});
  };
  const std::string missing = (folder_ / "no" / "db").string();
  EXPECT_EQ(create(missing),
            errors::InvalidArgument("Sqlite::Open(", missing, ") failed: unable to open database file"));
  EXPECT_EQ(create(folder_.string()).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(create(std::string("a\0b", 3)).code(), ErrorCode::kInvalidArgument);
  std::ofstream(folder_ / "text") << std::string(5000, 'x');
  EXPECT_EQ(create((folder_ / "text").string()),
            errors::InvalidArgument("Step() failed: [26] file is not a database: BEGIN IMMEDIATE"));
  EXPECT_EQ(Create("a<b"),
            errors::InvalidArgument("experiment_name (a<b) must match ^[^\\x00-\\x1F<>]{0,256}$"));
  EXPECT_EQ(Create("e", std::string(513, 'r')).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Create("e", "\xff").code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Create("e", "r", "hi-"),
            errors::InvalidArgument("user_name (hi-) must match ^[a-z]([-a-z0-9]{0,29}[a-z0-9])?$"));
  ASSERT_EQ(Create(std::string(256, 'e'), "r", "Me-2"), Status());
  EXPECT_EQ(Run("WriteSummary", {Step(1), Text("x"), Text("t"), Text("\xFF")}),
            errors::InvalidArgument("summary_metadata is not a SummaryMetadata message"));
  EXPECT_EQ(Run("WriteSummary", {Step(1), handle_, Text("t"), Text("")}).code(), ErrorCode::kUnimplemented);
}

TEST_F(SummaryDatabaseTest, AFileThatIsLockedIsUnavailableAndLosesNothing) {
  const auto open = SummaryDatabase::Open(path_, {"e", "r", "u"}, std::chrono::milliseconds(0));
  ASSERT_TRUE(open.ok()) << open.status();
  tensorflow::Event event;
  event.mutable_summary()->add_value()->set_simple_value(1);
  Execute("BEGIN IMMEDIATE");
  EXPECT_EQ((*open)->Write(event, nullptr),
            errors::Unavailable("Step() failed: [5] database is locked: BEGIN IMMEDIATE"));
  EXPECT_EQ(SummaryDatabase::Open(path_, {"e", "r", "u"}, std::chrono::milliseconds(0)).status().code(),
            ErrorCode::kUnavailable);
  Execute("COMMIT");
  EXPECT_EQ((*open)->Write(event, nullptr), Status());
  EXPECT_THAT(Query("SELECT * FROM Tensors"), SizeIs(1));
}

TEST_F(SummaryDatabaseTest, AStepThatIsCancelledWaitsNoLonger) {
  ASSERT_EQ(Create(), Status());
  const auto open = SummaryDatabase::Open(path_, {"e", "r", "u"}, std::chrono::hours(1));
  ASSERT_TRUE(open.ok()) << open.status();
  Execute("BEGIN IMMEDIATE");
  CancellationManager cancellation;
  cancellation.StartCancel();
  tensorflow::Event event;
  event.mutable_summary()->add_value()->set_simple_value(1);
  EXPECT_EQ((*open)->Write(event, &cancellation).code(), ErrorCode::kCancelled);
  Execute("COMMIT");
}

TEST_F(SummaryDatabaseTest, WhatFailsInTheMiddleLeavesNothing) {
  ASSERT_EQ(Create(), Status());
  Execute("DROP TABLE Tensors");
  EXPECT_THAT(WriteScalar(1, Tensor::Scalar(1.0f)).message(), HasSubstr("no such table: Tensors"));
  EXPECT_THAT(Query("SELECT id FROM Ids UNION SELECT run_id FROM Runs UNION SELECT tag_id FROM Tags"),
              IsEmpty());
  Execute("CREATE TABLE Tensors (series, step, dtype, computed_time, shape, data)");
  ASSERT_EQ(WriteScalar(1, Tensor::Scalar(1.0f)), Status());
  EXPECT_THAT(Query("SELECT * FROM Tags JOIN Runs USING (run_id)"), SizeIs(1));
}

TEST_F(SummaryDatabaseTest, TriggersOfADatabaseDoNotRun) {
  ASSERT_EQ(Create(), Status());
  Execute("CREATE TRIGGER t AFTER INSERT ON Tags BEGIN DELETE FROM Tags; END");
  ASSERT_EQ(WriteScalar(1, Tensor::Scalar(1.0f)), Status());
  EXPECT_THAT(Query("SELECT * FROM Tags"), SizeIs(1));
}

// A file with changed bytes results in a status, whatever it is.
TEST_F(SummaryDatabaseTest, ChangedBytesEndInAStatus) {
  ASSERT_EQ(Create(), Status());
  ASSERT_EQ(WriteScalar(1, Tensor::Scalar(1.0f)), Status());
  ASSERT_EQ(Run("CloseSummaryWriter", {}), Status());
  std::ifstream file(path_, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  int failed = 0;
  for (size_t i = 0; i < good.size(); i += 211) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x5a);
    std::ofstream(path_, std::ios::binary) << bad;
    const Status created = Create();
    const Status written = created.ok() ? WriteScalar(2, Tensor::Scalar(1.0f)) : created;
    failed += written.ok() ? 0 : 1;
    if (created.ok()) Run("CloseSummaryWriter", {}).IgnoreError("the file is broken");
  }
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace millrace
