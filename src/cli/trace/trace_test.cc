// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "cli/trace/report.h"
#include "cli/trace/trace_reader.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace millrace::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kCpu[] = "/job:localhost/replica:0/task:0/device:CPU:0";
constexpr char kGpu[] = "/job:localhost/replica:0/task:0/device:GPU:0";

// A message like that of a step, built event by event.
class Metadata {
 public:
  tensorflow::NodeExecStats* Event(const std::string& device, const std::string& name, const std::string& op,
                                   int64_t start_ns, int64_t took_ns, uint32_t thread = 0,
                                   const std::string& inputs = "") {
    tensorflow::NodeExecStats* const n = Device(device)->add_node_stats();
    n->set_node_name(name);
    n->set_timeline_label(name + " = " + op + "(" + inputs + ")");
    n->set_all_start_nanos(kStart + start_ns);
    n->set_all_start_micros((kStart + start_ns) / 1000);
    n->set_all_end_rel_nanos(took_ns);
    n->set_all_end_rel_micros(took_ns / 1000);
    n->set_thread_id(thread);
    return n;
  }
  tensorflow::DeviceStepStats* Device(const std::string& name) {
    for (auto& d : *proto_.mutable_step_stats()->mutable_dev_stats()) {
      if (d.device() == name) return &d;
    }
    auto* const d = proto_.mutable_step_stats()->add_dev_stats();
    d->set_device(name);
    return d;
  }
  tensorflow::GraphDef* AddGraph() { return proto_.add_partition_graphs(); }
  std::string Serialize() const { return proto_.SerializeAsString(); }
  TraceReport Report(const std::string& graph = "") const {
    auto report = MakeTraceReport(Serialize(), graph, "step.pb");
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : TraceReport();
  }

  static constexpr int64_t kStart = 1'500'000'000'000'000'000;

 private:
  tensorflow::RunMetadata proto_;
};

tensorflow::NodeDef* AddNode(tensorflow::GraphDef* graph, const std::string& name, const std::string& op,
                             const std::vector<std::string>& inputs, const std::string& device = kCpu) {
  tensorflow::NodeDef* const n = graph->add_node();
  n->set_name(name);
  n->set_op(op);
  n->set_device(device);
  for (const std::string& input : inputs) n->add_input(input);
  return n;
}

std::vector<std::string> PathOf(const TraceReport& report) {
  std::vector<std::string> names;
  for (const uint32_t e : report.path.events)
    names.push_back(report.trace.nodes[report.trace.events[e].node].name);
  return names;
}

google::protobuf::Struct Parse(const std::string& json) {
  google::protobuf::Struct parsed;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(json, &parsed).ok()) << json.substr(0, 2000);
  return parsed;
}

TEST(TraceTest, TotalsCountEachOp) {
  Metadata m;
  m.Event(kCpu, "a", "MatMul", 0, 600);
  m.Event(kCpu, "b", "MatMul", 600, 200);
  m.Event(kGpu, "c", "MatMul", 100, 100);
  m.Event(kCpu, "d", "Add", 900, 300);
  m.Event(kCpu, "e", "NoOp", 1300, 0);
  const TraceReport report = m.Report();
  EXPECT_EQ(report.trace.length_ns, 1300);
  ASSERT_EQ(report.totals.size(), 3u);
  const OpTotal& first = report.totals[0];
  EXPECT_EQ(report.trace.ops[first.op], "MatMul");
  EXPECT_EQ(first.count, 3);
  EXPECT_EQ(first.total_ns, 900);
  EXPECT_EQ(first.mean_ns, 300);
  EXPECT_EQ(first.longest_ns, 600);
  EXPECT_EQ(first.share, 0.75);
  EXPECT_EQ(report.trace.ops[report.totals[1].op], "Add");
  EXPECT_EQ(report.totals[1].share, 0.25);
  EXPECT_EQ(report.totals[2].count, 1);
  EXPECT_EQ(report.totals[2].share, 0);
}

TEST(TraceTest, SummaryIsJsonWithTheSameNumbers) {
  Metadata m;
  m.Event(kCpu, "a", "MatMul", 0, 600);
  m.Event(kCpu, "b", "Add", 600, 200, 0, "a, a:1");
  const auto summary = Parse(SummaryJson(m.Report())).fields();
  EXPECT_EQ(summary.at("events_count").number_value(), 2);
  EXPECT_EQ(summary.at("length_ns").number_value(), 800);
  const auto& path = summary.at("critical_path").struct_value().fields();
  EXPECT_EQ(path.at("busy_ns").number_value(), 800);
  EXPECT_EQ(path.at("nodes").list_value().values(1).string_value(), "b");
  const auto& total = summary.at("totals").list_value().values(0).struct_value().fields();
  EXPECT_EQ(total.at("op").string_value(), "MatMul");
  EXPECT_EQ(total.at("total_ns").number_value(), 600);
  EXPECT_EQ(total.at("share").number_value(), 0.75);
}

// a -> long -> end, and a -> short -> end: the chain over `long` is critical although `short` ended last.
TEST(TraceTest, CriticalPathIsTheLongestChainOfThePartitionGraphs) {
  Metadata m;
  m.Event(kCpu, "a", "Op", 0, 100);
  m.Event(kCpu, "long", "Op", 100, 500);
  m.Event(kCpu, "short", "Op", 650, 50, 1);
  m.Event(kCpu, "end", "Op", 700, 100);
  m.Event(kCpu, "unrelated", "Op", 0, 650, 2);
  tensorflow::GraphDef* const g = m.AddGraph();
  AddNode(g, "end", "Op", {"short", "^long"});
  AddNode(g, "short", "Op", {"a:1"});
  AddNode(g, "long", "Op", {"a"});
  AddNode(g, "a", "Op", {"not_there"});
  AddNode(g, "unrelated", "Op", {});
  const TraceReport report = m.Report();
  EXPECT_THAT(PathOf(report), ElementsAre("a", "long", "end"));
  EXPECT_EQ(report.path.busy_ns, 700);
  EXPECT_THAT(report.path.origin, HasSubstr("partition graphs"));
  EXPECT_EQ(report.events_in_graph, 5u);
}

TEST(TraceTest, CriticalPathCrossesDevicesAndNodesThatLeftNoEvent) {
  Metadata m;
  m.Event(kCpu, "x", "Op", 0, 100);
  m.Event(kCpu, "send", "_Send", 200, 10);
  m.Event(kGpu, "recv", "_Recv", 0, 220);
  m.Event(kGpu, "y", "Op", 230, 70);
  tensorflow::GraphDef* const cpu = m.AddGraph();
  AddNode(cpu, "x", "Op", {});
  AddNode(cpu, "silent", "Identity", {"x", "silent"});
  (*AddNode(cpu, "send", "_Send", {"silent"})->mutable_attr())["tensor_name"].set_s("edge_1_x");
  tensorflow::GraphDef* const gpu = m.AddGraph();
  (*AddNode(gpu, "recv", "_Recv", {}, kGpu)->mutable_attr())["tensor_name"].set_s("edge_1_x");
  AddNode(gpu, "y", "Op", {"recv"}, kGpu);
  // The receive overlaps the send that it waits for, so by its own time it is no successor of it.
  EXPECT_THAT(PathOf(m.Report()), ElementsAre("recv", "y"));

  Metadata late;  // here it starts when the send has ended
  late.Event(kCpu, "x", "Op", 0, 100);
  late.Event(kCpu, "send", "_Send", 200, 10);
  late.Event(kGpu, "recv", "_Recv", 210, 10);
  late.Event(kGpu, "y", "Op", 230, 70);
  *late.AddGraph() = *cpu;
  *late.AddGraph() = *gpu;
  const TraceReport report = late.Report();
  EXPECT_THAT(PathOf(report), ElementsAre("x", "send", "recv", "y"));
  EXPECT_EQ(report.path.busy_ns, 190);
}

TEST(TraceTest, RunsOfALoopDependOnTheLatestRunsBeforeThem) {
  Metadata m;
  tensorflow::GraphDef* const g = m.AddGraph();
  AddNode(g, "enter", "Enter", {});
  AddNode(g, "merge", "Merge", {"enter", "next"});
  AddNode(g, "body", "Op", {"merge"});
  AddNode(g, "next", "NextIteration", {"body"});
  m.Event(kCpu, "enter", "Enter", 0, 5);
  for (int64_t i = 0; i < 3; ++i) {
    m.Event(kCpu, "merge", "Merge", 10 + 100 * i, 1);
    m.Event(kCpu, "body", "Op", 20 + 100 * i, 50);
    m.Event(kCpu, "next", "NextIteration", 80 + 100 * i, 2);
  }
  const TraceReport report = m.Report();
  EXPECT_EQ(report.path.events.size(), 10u);
  EXPECT_EQ(report.path.busy_ns, 5 + 3 * 53);
}

TEST(TraceTest, WithoutPartitionGraphsTheGraphFileIsUsed) {
  Metadata m;
  m.Event(kCpu, "a", "Op", 0, 100, 0, "other");
  m.Event(kCpu, "b", "Op", 100, 100, 0, "other");
  m.Event(kCpu, "other", "Op", 0, 10, 1);
  tensorflow::GraphDef g;
  AddNode(&g, "b", "Op", {"a"}, "");
  AddNode(&g, "a", "Op", {}, "");
  const std::string text =
      "# a graph\nnode { name: 'b' op: 'Op' input: 'a' new_field_of_later: 3 } node { name: 'a' }";
  for (const std::string& file : {g.SerializeAsString(), g.DebugString(), text}) {
    const TraceReport report = m.Report(file);
    EXPECT_THAT(PathOf(report), ElementsAre("a", "b"));
    EXPECT_THAT(report.path.origin, HasSubstr("graph file"));
  }
  for (const char* const bad : {"", "node { name: ", "\x0a\x05zz", "{}", "versions { producer: 1 }"}) {
    DependencyGraph graph;
    EXPECT_EQ(ReadGraphFile(bad, &graph).code(), ErrorCode::kInvalidArgument) << bad;
  }
}

TEST(TraceTest, WithoutAnyGraphLabelsTellAndThenTimesAlone) {
  Metadata m;
  m.Event(kCpu, "a", "Op", 0, 100);
  m.Event(kCpu, "b", "Op", 150, 100, 0, "a, ^a");
  m.Event(kCpu, "c", "Op", 120, 300, 1);
  EXPECT_THAT(PathOf(m.Report()), ElementsAre("c")) << "c alone takes longer than a and b together";
  EXPECT_FALSE(m.Report().path.by_time_only);
  EXPECT_THAT(m.Report().path.origin, HasSubstr("labels"));

  Metadata bare;
  bare.Event(kCpu, "a", "Op", 0, 100);
  bare.Event(kCpu, "b", "Op", 150, 100);
  bare.Event(kCpu, "zero", "Op", 250, 0);
  bare.Event(kCpu, "c", "Op", 260, 40, 1);
  bare.Event(kCpu, "d", "Op", 0, 270, 2);
  const TraceReport report = bare.Report();
  EXPECT_THAT(PathOf(report), ElementsAre("a", "b", "zero", "c"));
  EXPECT_TRUE(report.path.by_time_only);
  EXPECT_THAT(report.path.origin, HasSubstr("need not depend"));
}

TEST(TraceTest, MemoryFromAllocationsElseFromUseElseFromOutputs) {
  Metadata m;
  auto* a = m.Event(kCpu, "a", "Op", 0, 5'000);
  auto* b = m.Event(kCpu, "b", "Op", 5'000, 5'000, 0, "a");
  a->add_output()->mutable_tensor_description()->mutable_allocation_description()->set_requested_bytes(40);
  b->add_output()->mutable_tensor_description()->mutable_allocation_description()->set_requested_bytes(20);
  {
    const TraceReport report = m.Report();
    ASSERT_EQ(report.memory.size(), 1u);
    EXPECT_THAT(report.memory[0].origin, HasSubstr("estimate"));
    EXPECT_THAT(report.memory[0].ns, ElementsAre(0, 5'000, 10'000));
    EXPECT_THAT(report.memory[0].bytes, ElementsAre(40, 60, 0));
  }
  a->add_memory()->set_allocator_bytes_in_use(1000);
  b->add_memory()->set_allocator_bytes_in_use(700);
  {
    const TraceReport report = m.Report();
    EXPECT_THAT(report.memory[0].ns, ElementsAre(5'000, 10'000));
    EXPECT_THAT(report.memory[0].bytes, ElementsAre(1000, 700));
    EXPECT_EQ(report.memory[0].peak_bytes, 1000);
  }
  const auto record = [](tensorflow::NodeExecStats* n, int64_t us, int64_t bytes) {
    auto* const r = n->mutable_memory(0)->add_allocation_records();
    r->set_alloc_micros(Metadata::kStart / 1000 + us);
    r->set_alloc_bytes(bytes);
  };
  record(a, 1, 300);
  record(a, 7, -300);
  record(b, 6, 500);
  record(b, 7, 100);
  const TraceReport report = m.Report();
  ASSERT_EQ(report.memory.size(), 1u);
  EXPECT_THAT(report.memory[0].ns, ElementsAre(0, 1'000, 6'000, 7'000));
  EXPECT_THAT(report.memory[0].bytes, ElementsAre(0, 300, 800, 600));
  EXPECT_EQ(report.memory[0].peak_bytes, 800);
  EXPECT_EQ(report.memory[0].peak_ns, 6'000);
}

TEST(TraceTest, OverlappingEventsOfAThreadGetRowsOfTheirOwn) {
  Metadata m;
  m.Event(kCpu, "a", "Op", 0, 100, 7);
  m.Event(kCpu, "b", "Op", 50, 100, 7);
  m.Event(kCpu, "c", "Op", 100, 100, 7);
  m.Event(kCpu, "d", "Op", 0, 10, 8);
  (*m.Device(kCpu)->mutable_thread_names())[7] = "worker 3";
  const Trace trace = m.Report().trace;
  ASSERT_EQ(trace.rows.size(), 3u);
  EXPECT_EQ(trace.rows[0].name, "worker 3");
  EXPECT_EQ(trace.rows[1].part, 1u);
  EXPECT_EQ(trace.rows[2].name, "thread 8");
  std::map<std::string, uint32_t> row;
  for (const TraceEvent& e : trace.events) row[trace.nodes[e.node].name] = e.row;
  EXPECT_EQ(row["a"], 0u);
  EXPECT_EQ(row["b"], 1u);
  EXPECT_EQ(row["c"], 0u) << "a has ended by then";
  EXPECT_EQ(row["d"], 2u);
}

// As TensorFlow 1.x writes it: microseconds, and kernels of a GPU whose labels are not "name = Op(inputs)".
TEST(TraceTest, OldMessagesHaveMicrosecondsAndOtherLabels) {
  tensorflow::RunMetadata proto;
  auto* const d = proto.mutable_step_stats()->add_dev_stats();
  d->set_device("/gpu:0/stream:all");
  auto* const n = d->add_node_stats();
  n->set_node_name("MatMul_3:MatMul");
  n->set_all_start_micros(1'000'000);
  n->set_all_end_rel_micros(12);
  n->set_scheduled_micros(999'995);
  n->set_timeline_label("sgemm_128x64_nn");
  auto* const shape = n->add_output()->mutable_tensor_description();
  shape->set_dtype(tensorflow::DT_BFLOAT16);
  shape->mutable_shape()->add_dim()->set_size(4);
  shape->mutable_shape()->add_dim()->set_size(5);
  const auto trace = ReadTrace(proto.SerializeAsString());
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->resolution_ns, 1000);
  ASSERT_EQ(trace->events.size(), 1u);
  EXPECT_EQ(trace->events[0].duration_ns(), 12'000);
  EXPECT_EQ(trace->events[0].waited_ns, 5'000);
  EXPECT_EQ(trace->ops[trace->nodes[0].op], "MatMul");
  EXPECT_EQ(trace->shapes[trace->events[0].shapes], "bfloat16[4,5]");
}

Metadata Hostile() {
  Metadata m;
  auto* const n = m.Event(kCpu, "</script><script>alert(1)</script>", "O\"p\\\n", 0, 5, 0, "\u2028, a&b");
  n->set_all_start_nanos(INT64_MAX);
  n->set_all_end_rel_nanos(INT64_MAX);
  n->add_memory()->set_peak_bytes(INT64_MIN);
  auto* const record = n->mutable_memory(0)->add_allocation_records();
  record->set_alloc_micros(INT64_MAX);
  record->set_alloc_bytes(INT64_MAX);
  m.Event("@DATA@", "@SCRIPT@", "@TITLE@", -Metadata::kStart, -1, 3)->set_scheduled_nanos(INT64_MIN);
  return m;
}

// The data of the page: the text of the script element.
std::string EmbeddedData(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const size_t begin = page.find(open);
  const size_t end = page.find("</script>", begin);
  if (begin == std::string::npos || end == std::string::npos) return "";
  return page.substr(begin + open.size(), end - begin - open.size());
}

TEST(TraceTest, ThePageHoldsItsDataAsJsonWhateverTheNamesAre) {
  const TraceReport report = Hostile().Report();
  const std::string page = RenderPage(report);
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_EQ(EmbeddedData(page), PageData(report));
  const auto data = Parse(EmbeddedData(page)).fields();
  EXPECT_EQ(data.at("events").struct_value().fields().at("start").list_value().values_size(), 2);
  const auto& names = data.at("nodes").struct_value().fields().at("name").list_value();
  std::vector<std::string> found;
  for (const auto& name : names.values()) found.push_back(name.string_value());
  EXPECT_THAT(found, testing::UnorderedElementsAre("@SCRIPT@", "</script><script>alert(1)</script>"));
  std::string text = page;
  const std::string name_space = "http://www.w3.org/2000/svg";  // is not loaded
  text.replace(text.find(name_space), name_space.size(), "");
  for (const char* const outside : {"http://", "https://", "src=", "@import", "url("}) {
    EXPECT_THAT(text, Not(HasSubstr(outside))) << "a page loads nothing";
  }
}

TEST(TraceTest, ColumnsOfThePageBelongTogether) {
  Metadata m;
  for (int i = 0; i < 20; ++i) m.Event(kCpu, StrCat("n", i % 7), "Op", 10 * (19 - i), 8, i % 3);
  const auto data = Parse(PageData(m.Report())).fields();
  const auto& events = data.at("events").struct_value().fields();
  for (const auto& [name, column] : events) EXPECT_EQ(column.list_value().values_size(), 20) << name;
  double last = 0;
  for (const auto& start : events.at("start").list_value().values()) {
    EXPECT_GE(start.number_value(), last);
    last = start.number_value();
  }
  EXPECT_EQ(data.at("rows").list_value().values_size(), 3);
  EXPECT_EQ(data.at("nodes").struct_value().fields().at("name").list_value().values_size(), 7);
}

TEST(TraceTest, EveryTruncationAndManyMutationsGiveAStatusOrAPage) {
  Metadata m = Hostile();
  m.Event(kGpu, "recv", "_Recv", 3, 4)
      ->add_output()
      ->mutable_tensor_description()
      ->mutable_shape()
      ->add_dim();
  (*m.Device(kGpu)->mutable_thread_names())[0] = "t";
  tensorflow::GraphDef* const g = m.AddGraph();
  (*AddNode(g, "recv", "_Recv", {"recv:0"})->mutable_attr())["tensor_name"].set_s("e");
  (*AddNode(g, "send", "_Send", {"^recv"})->mutable_attr())["tensor_name"].set_s("e");
  const std::string whole = m.Serialize();
  const google::protobuf::LogSilencer silencer;
  int pages = 0;
  const auto try_out = [&](const std::string& bytes) {
    const auto report = MakeTraceReport(bytes, "", "x");
    if (!report.ok()) return;
    ++pages;
    Parse(EmbeddedData(RenderPage(*report)));
  };
  for (size_t n = 0; n <= whole.size(); ++n) try_out(whole.substr(0, n));
  EXPECT_GT(pages, 0);
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = whole;
    for (int k = 0; k < 1 + i % 4; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    try_out(bytes);
  }
  for (int i = 0; i < 300; ++i) {
    std::string noise(random() % 200, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    try_out(noise);
  }
}

TEST(TraceTest, MalformedMessagesSayWhere) {
  EXPECT_EQ(ReadTrace("").status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(ReadTrace("\x0a\x7f").status().code(), ErrorCode::kDataLoss);
  EXPECT_THAT(std::string(ReadTrace("\x0a\x00\x0b").status().message()), HasSubstr("malformed"));
  const std::string huge_length = "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
  EXPECT_EQ(ReadTrace(huge_length).status().code(), ErrorCode::kDataLoss);
}

}  // namespace
}  // namespace millrace::cli
