// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Readers and files between steps of a session.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/env.h"
#include "base/strings.h"
#include "tensor/testing.h"
#include "tests/session/def_builder.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Texts(const Tensor& t) {
  const auto flat = t.flat<std::string>();
  return {flat.begin(), flat.end()};
}

// Both kinds of handles.
class SessionReaderTest : public ::testing::TestWithParam<const char*> {
 protected:
  SessionReaderTest() : folder_(StrCat(::testing::TempDir(), "reader_test.", ::getpid())) {
    graph_.Placeholder("work", tensorflow::DT_STRING);
    graph_.Placeholder("n", tensorflow::DT_INT64);
    graph_.Placeholder("text", tensorflow::DT_STRING);
    auto* const queue = graph_.Add("q", V("FIFOQueue"), {});
    (*queue->mutable_attr())["component_types"].mutable_list()->add_type(tensorflow::DT_STRING);
    auto* const enqueue = graph_.Add("enqueue", V("QueueEnqueue"), {"q", "work"});
    (*enqueue->mutable_attr())["Tcomponents"].mutable_list()->add_type(tensorflow::DT_STRING);
    graph_.Add("close", V("QueueClose"), {"q"});
    Env::Posix().CreateDir(folder_).IgnoreError("another test may have made it");
  }
  ~SessionReaderTest() override {
    const auto names = Env::Posix().GetChildren(folder_);
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
      Env::Posix().DeleteFile(folder_ + "/" + name).IgnoreError("a leftover in the temporary folder");
    }
    Env::Posix().DeleteDir(folder_).IgnoreError("a leftover in the temporary folder");
  }

  std::string V(const std::string& op) const { return op + GetParam(); }
  std::string File(const std::string& name, const std::string& bytes) const {
    std::string path = folder_ + "/" + name;
    EXPECT_TRUE(WriteFileAtomically(Env::Posix(), path, bytes).ok());
    return path;
  }
  // A reader with all ops on it.
  tensorflow::NodeDef* AddReader(const std::string& op) {
    tensorflow::NodeDef* const reader = graph_.Add("r", V(op), {});
    graph_.Add("read", V("ReaderRead"), {"r", "q"});
    graph_.Add("read_up_to", V("ReaderReadUpTo"), {"r", "q", "n"});
    graph_.Add("produced", V("ReaderNumRecordsProduced"), {"r"});
    graph_.Add("completed", V("ReaderNumWorkUnitsCompleted"), {"r"});
    graph_.Add("save", V("ReaderSerializeState"), {"r"});
    graph_.Add("restore", V("ReaderRestoreState"), {"r", "text"});
    graph_.Add("reset", V("ReaderReset"), {"r"});
    return reader;
  }
  void Enqueue(Session& s, const std::string& work) {
    const Status status = s.Run({{"work", Tensor::Scalar(work)}}, {}, {"enqueue"}, nullptr);
    ASSERT_TRUE(status.ok()) << status;
  }
  // "key=value", or the error.
  static std::string ReadOne(Session& s) {
    std::vector<Tensor> out;
    const Status status = s.Run({}, {"read", "read:1"}, {}, &out);
    return status.ok() ? out[0].scalar<std::string>() + "=" + out[1].scalar<std::string>()
                       : status.ToString();
  }
  static std::vector<std::string> ReadUpTo(Session& s, int64_t n) {
    std::vector<Tensor> out;
    const Status status = s.Run({{"n", Tensor::Scalar(n)}}, {"read_up_to:1"}, {}, &out);
    return status.ok() ? Texts(out[0]) : std::vector<std::string>{status.ToString()};
  }
  static int64_t Count(Session& s, const char* fetch) {
    std::vector<Tensor> out;
    const Status status = s.Run({}, {fetch}, {}, &out);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? out[0].scalar<int64_t>() : -1;
  }

  const std::string folder_;
  DefBuilder graph_;
};

TEST_P(SessionReaderTest, LinesFromFileToFile) {
  (*AddReader("TextLineReader")->mutable_attr())["skip_header_lines"].set_i(1);
  const auto s = SessionWith(graph_);
  const std::string a = File("a", "head\none\r\ntwo"), b = File("b", ""), c = File("c", "head\nthree\n");
  for (const std::string& file : {a, b, c}) Enqueue(*s, file);
  EXPECT_EQ(ReadOne(*s), a + ":2=one");
  EXPECT_EQ(Count(*s, "produced"), 1);
  EXPECT_EQ(Count(*s, "completed"), 0);
  std::vector<Tensor> state;
  ASSERT_TRUE(s->Run({}, {"save"}, {}, &state).ok());
  EXPECT_EQ(ReadOne(*s), a + ":3=two");
  EXPECT_EQ(ReadOne(*s), c + ":2=three");
  EXPECT_EQ(Count(*s, "completed"), 2);
  ASSERT_TRUE(s->Run({{"text", state[0]}}, {}, {"restore"}, nullptr).ok());
  EXPECT_EQ(ReadOne(*s), a + ":3=two") << "as it was then";
  EXPECT_EQ(Count(*s, "produced"), 2);
  ASSERT_TRUE(s->Run({}, {}, {"reset"}, nullptr).ok());
  EXPECT_EQ(Count(*s, "produced"), 0);
  ASSERT_TRUE(s->Run({}, {}, {"close"}, nullptr).ok());
  EXPECT_THAT(ReadOne(*s),
              HasSubstr("is closed and has insufficient elements (requested 1, current size 0)"));
}

TEST_P(SessionReaderTest, UpToSoManyRecords) {
  (*AddReader("FixedLengthRecordReader")->mutable_attr())["record_bytes"].set_i(2);
  const auto s = SessionWith(graph_);
  Enqueue(*s, File("a", "aabbcc?"));
  Enqueue(*s, File("b", "dd"));
  EXPECT_THAT(ReadUpTo(*s, 0), ElementsAre());
  EXPECT_THAT(ReadUpTo(*s, 2), ElementsAre("aa", "bb"));
  EXPECT_THAT(ReadUpTo(*s, 2), ElementsAre("cc")) << "the end of a file is an end";
  EXPECT_THAT(ReadUpTo(*s, INT64_MAX), ElementsAre("dd"));
  EXPECT_THAT(ReadUpTo(*s, -1)[0], HasSubstr("num_records must be >= 0 not -1"));
}

TEST_P(SessionReaderTest, BrokenRecordsNameFileAndOffset) {
  (*AddReader("TFRecordReader")->mutable_attr())["compression_type"].set_s("");
  const auto s = SessionWith(graph_);
  const std::string file = File("broken", std::string("\x01\0\0\0\0\0\0\0", 8) + "zzzz" + "a" + "zzzz");
  Enqueue(*s, file);
  EXPECT_THAT(ReadOne(*s), HasSubstr("corrupted record at 0 (in file " + file + ")"));
  Enqueue(*s, "/none");
  ASSERT_TRUE(s->Run({}, {}, {"reset"}, nullptr).ok());
  EXPECT_THAT(ReadOne(*s), HasSubstr("/none"));
}

TEST_P(SessionReaderTest, NamesAndWholeFiles) {
  AddReader("WholeFileReader");
  graph_.Add("identity", V("IdentityReader"), {});
  graph_.Add("name", V("ReaderRead"), {"identity", "q"});
  const auto s = SessionWith(graph_);
  const std::string file = File("whole", std::string("\0\xff\n", 3));
  Enqueue(*s, file);
  Enqueue(*s, "any");
  EXPECT_EQ(ReadOne(*s), file + "=" + std::string("\0\xff\n", 3));
  EXPECT_EQ(Count(*s, "completed"), 1) << "a file is done with its only record";
  std::vector<Tensor> out;
  ASSERT_TRUE(s->Run({}, {"name:1"}, {}, &out).ok());
  EXPECT_EQ(out[0].scalar<std::string>(), "any");
}

TEST_P(SessionReaderTest, AReadThatWaitsEndsWithItsStep) {
  AddReader("IdentityReader");
  const auto s = SessionWith(graph_);
  RunOptions options;
  options.timeout_in_ms = 5;
  for (const char* target : {"read", "read_up_to"}) {
    const Status status =
        s->Run(options, {{"n", Tensor::Scalar<int64_t>(1)}}, {}, {target}, nullptr, nullptr);
    EXPECT_TRUE(errors::IsDeadlineExceeded(status)) << status;
  }
  Enqueue(*s, "x");
  EXPECT_EQ(ReadOne(*s), "x=x");
}

TEST_P(SessionReaderTest, BadQueuesStatesAndAttributesAreErrors) {
  AddReader("IdentityReader");
  auto* const two = graph_.Add("q2", V("FIFOQueue"), {});
  for (int i = 0; i < 2; ++i) {
    (*two->mutable_attr())["component_types"].mutable_list()->add_type(tensorflow::DT_STRING);
  }
  graph_.Add("read2", V("ReaderRead"), {"r", "q2"});
  auto* const ints = graph_.Add("q3", V("FIFOQueue"), {});
  (*ints->mutable_attr())["component_types"].mutable_list()->add_type(tensorflow::DT_INT32);
  graph_.Add("read3", V("ReaderRead"), {"r", "q3"});
  (*graph_.Add("r4", V("FixedLengthRecordReader"), {})->mutable_attr())["record_bytes"].set_i(0);
  graph_.Add("read4", V("ReaderRead"), {"r4", "q"});
  (*graph_.Add("r5", V("TFRecordReader"), {})->mutable_attr())["compression_type"].set_s("LZ");
  graph_.Add("read5", V("ReaderRead"), {"r5", "q"});
  const auto s = SessionWith(graph_);
  const auto error = [&](const char* target, const Tensor& text = Tensor::Scalar<std::string>("")) {
    return s->Run({{"text", text}}, {}, {target}, nullptr).ToString();
  };
  EXPECT_THAT(error("read2"), HasSubstr("Expected single component queue"));
  EXPECT_THAT(error("read3"), HasSubstr("Expected queue with single string component"));
  EXPECT_THAT(error("read4"), HasSubstr("record_bytes must be > 0 not 0"));
  EXPECT_THAT(error("read5"), HasSubstr("Unsupported compression_type: LZ"));
  EXPECT_THAT(error("restore", Tensor::Vector<std::string>({"", ""})),
              HasSubstr("Reader state must be scalar, but had shape: [2]"));
  EXPECT_THAT(error("restore", Tensor::Scalar<std::string>("\x0f")),
              HasSubstr("Could not parse state for r: \\017"));
  EXPECT_EQ(s->Run({{"work", Tensor::Vector<std::string>({"a", "b"})}}, {}, {"enqueue"}, nullptr).ToString(),
            "OK");
  EXPECT_THAT(error("read"), HasSubstr("Expected to dequeue a one-element string tensor"));
}

INSTANTIATE_TEST_SUITE_P(Handles, SessionReaderTest, ::testing::Values("", "V2"), [](const auto& test) {
  return std::string(test.param).empty() ? std::string("Reference") : std::string("Resource");
});

TEST(SessionFileTest, FilesAreWrittenFoundAndRead) {
  DefBuilder graph;
  for (const char* name : {"name", "contents", "pattern"}) graph.Placeholder(name, tensorflow::DT_STRING);
  graph.Add("write", "WriteFile", {"name", "contents"});
  graph.Add("read", "ReadFile", {"name"});
  graph.Add("match", "MatchingFiles", {"pattern"});
  const auto s = SessionWith(graph);
  const std::string folder = StrCat(::testing::TempDir(), "file_test.", ::getpid());
  const auto text = [](const std::string& t) { return Tensor::Scalar(t); };
  const std::string name = folder + "/sub/a.bin", bytes("\0a\n", 3);
  for (const std::string& contents : {std::string("old"), bytes}) {
    const Status status =
        s->Run({{"name", text(name)}, {"contents", text(contents)}}, {}, {"write"}, nullptr);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::vector<Tensor> out;
  ASSERT_TRUE(s->Run({{"name", text(name)}}, {"read"}, {}, &out).ok());
  EXPECT_EQ(out[0].scalar<std::string>(), bytes);
  ASSERT_TRUE(s->Run({{"pattern", text(folder + "/*/*.bin")}}, {"match"}, {}, &out).ok());
  EXPECT_THAT(Texts(out[0]), ElementsAre(name));
  const Tensor both = Tensor::Vector<std::string>({name, folder + "/none*"});
  ASSERT_TRUE(s->Run({{"pattern", both}}, {"match"}, {}, &out).ok());
  EXPECT_THAT(Texts(out[0]), ElementsAre(name));
  Env::Posix().DeleteFile(name).IgnoreError("temporary");
  Env::Posix().DeleteDir(folder + "/sub").IgnoreError("temporary");
  Env::Posix().DeleteDir(folder).IgnoreError("temporary");

  const Tensor vector = Tensor::Vector<std::string>({"a", "b"}),
               matrix(DataType::kString, TensorShape({1, 1}));
  const auto error = [&](const Tensor& n, const Tensor& c, const char* target) {
    return s->Run({{"name", n}, {"contents", c}, {"pattern", matrix}}, {}, {target}, nullptr).ToString();
  };
  EXPECT_THAT(error(text(name), vector, "read"), HasSubstr(name));
  EXPECT_THAT(error(vector, vector, "read"),
              HasSubstr("Input filename tensor must be scalar, but had shape: [2]"));
  EXPECT_THAT(error(vector, text(""), "write"),
              HasSubstr("Input filename tensor must be scalar, but had shape: [2]"));
  EXPECT_THAT(error(text("x"), vector, "write"),
              HasSubstr("Contents tensor must be scalar, but had shape: [2]"));
  EXPECT_THAT(error(text(""), text(""), "match"),
              HasSubstr("Input patterns tensor must be scalar or vector, but had shape: [1,1]"));
}

}  // namespace
}  // namespace millrace
