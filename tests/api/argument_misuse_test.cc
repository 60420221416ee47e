// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Null pointers, numbers out of range, and functions that throw: each returns a Status, or ends the program
// with a message that names the function.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "millrace/client_session.h"
#include "millrace/cluster.h"
#include "millrace/control_flow.h"
#include "millrace/coordinator.h"
#include "millrace/json_writer.h"
#include "millrace/ops.h"
#include "millrace/queue_input.h"
#include "millrace/records.h"
#include "millrace/saved_model.h"
#include "millrace/saver.h"
#include "millrace/variables.h"

namespace millrace {
namespace {

constexpr const char* kNoText = nullptr;
constexpr int kHuge = std::numeric_limits<int>::max();

// Expects InvalidArgument with this text.
void ExpectInvalid(const Status& status, const std::string& text, int line = __builtin_LINE()) {
  EXPECT_TRUE(errors::IsInvalidArgument(status)) << "line " << line << ": " << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(text)) << "line " << line;
}

TEST(ArgumentMisuseDeathTest, NullTexts) {
  EXPECT_DEATH(JsonWriter().Value(kNoText), "JsonWriter::Value: the text is a null pointer");
  EXPECT_DEATH(JsonWriter().BeginObject().Field("key", kNoText), "JsonWriter::Value");
  EXPECT_DEATH(Example().Set("a", kNoText), "Example::Set: a text is a null pointer");
  EXPECT_DEATH(Example().Set("a", {"b", kNoText}), "Example::Set");
  EXPECT_DEATH(OpAttrs().Set("a", kNoText), "OpAttrs.*: a text is a null pointer");
}

TEST(ArgumentMisuseDeathTest, NullMessagesAndClocks) {
  EXPECT_DEATH(RunMetadata().ToProto(nullptr), "RunMetadata::ToProto: the message is null");
  EXPECT_DEATH(ClusterSpec().ToProto(nullptr), "ClusterSpec::ToProto: the message is null");
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.WithOpName("w"), {1.f, 2.f});
  const ClientSession session(scope);
  ASSERT_EQ(session.Run({}, {}, {w.initializer()}, nullptr), Status());
  const std::string folder = ::testing::TempDir() + "/argument_misuse_model";
  ASSERT_EQ(SimpleSave(session, scope, folder, {}, {{"w", w}}), Status());
  const auto bundle = SavedModelBundle::Load(folder, {saved_model::kServe});
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_DEATH((*bundle)->ToGraphDef(nullptr), "SavedModelBundle::ToGraphDef: the message is null");
  Saver saver(scope);
  EXPECT_DEATH(saver.set_clock_for_test(nullptr), "Saver::set_clock_for_test: the clock is null");
}

TEST(ArgumentMisuseDeathTest, SizesNameTheFunction) {
  EXPECT_DEATH(TensorShape({1}).AddDim(-5), "TensorShape::AddDim: ");
  EXPECT_DEATH(TensorShape({1}).InsertDim(0, -5), "TensorShape::InsertDim: ");
}

TEST(ArgumentMisuse, NumbersOfThreads) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Add(scope, {1.f}, {2.f});
  const auto with = [&](const std::function<void(SessionOptions&)>& change) {
    SessionOptions options;
    change(options);
    return ClientSession(scope, options).Run({x}, nullptr);
  };
  for (const int threads : {kHuge, 65537, -5}) {
    ExpectInvalid(with([&](SessionOptions& o) { o.intra_op_parallelism_threads = threads; }), "intra_op");
    ExpectInvalid(with([&](SessionOptions& o) { o.inter_op_parallelism_threads = threads; }), "inter_op_par");
    ExpectInvalid(with([&](SessionOptions& o) { o.inter_op_pools = {{threads, ""}}; }), "_pools");
    ExpectInvalid(with([&](SessionOptions& o) { o.inter_op_pools = {{threads, "misuse"}}; }), "_pools");
  }
  // In the thread that calls Run.
  EXPECT_EQ(with([](SessionOptions& o) { o.inter_op_parallelism_threads = -1; }), Status());
}

TEST(ArgumentMisuse, IterationsInParallel) {
  const auto with = [](int64_t parallel_iterations) {
    const Scope scope = Scope::NewRootScope();
    const auto more = [](const Scope& s, const std::vector<Output>& v) -> Output {
      return ops::Less(s, v[0], 3);
    };
    const auto next = [](const Scope& s, const std::vector<Output>& v) -> std::vector<Output> {
      return {ops::Add(s, v[0], 1)};
    };
    const auto last = While(scope, {Input(0)}, more, next, {.parallel_iterations = parallel_iterations});
    return ClientSession(scope).Run(last, nullptr);
  };
  EXPECT_EQ(with(kHuge), Status());
  ExpectInvalid(with(int64_t{kHuge} + 1), "parallel_iterations must be at most 2147483647, got 2147483648");
  ExpectInvalid(with(0), "parallel_iterations must be a positive integer.");
}

TEST(ArgumentMisuse, BucketsAndThreadsOfQueues) {
  const auto bucket = [](int num_buckets, const BatchOptions& options) {
    const Scope scope = Scope::NewRootScope();
    Bucket(scope, {ops::Const(scope, 1.f)}, 0, 2, num_buckets, options);
    return scope.status();
  };
  EXPECT_EQ(bucket(2, {}), Status());
  ExpectInvalid(bucket(kHuge, {}), "Bucket needs 2 to 10000 buckets");
  for (const int threads : {kHuge, 0, -1}) {
    ExpectInvalid(bucket(2, {.num_threads = threads}), "num_threads must be at ");
    const Scope scope = Scope::NewRootScope();
    Batch(scope, {ops::Const(scope, 1.f)}, 2, {.num_threads = threads});
    ExpectInvalid(scope.status(), "num_threads must be at ");
  }
}

TEST(ArgumentMisuse, CompressionsThatAreNone) {
  const std::string path = ::testing::TempDir() + "/argument_misuse.records";
  const auto none = static_cast<RecordCompression>(9);
  ExpectInvalid(RecordWriter::Open(path, none).status(),
                "RecordWriter::Open: there is no RecordCompression 9");
  ExpectInvalid(RecordReader::Open(path, none).status(),
                "RecordReader::Open: there is no RecordCompression 9");
}

[[noreturn]] Status ThrowText() { throw std::runtime_error("boo"); }
[[noreturn]] Status ThrowNumber() { throw 7; }
[[noreturn]] Status ThrowBadAlloc() { throw std::bad_alloc(); }

TEST(ArgumentMisuse, FunctionsOfThreadsThatThrow) {
  const auto start = [](const std::function<Status()>& function) {
    Coordinator coordinator;
    coordinator.StartThread("throws", function);
    return coordinator.Join();
  };
  EXPECT_EQ(start(ThrowText), errors::Internal("the function of Coordinator::StartThread threw: boo"));
  EXPECT_TRUE(errors::IsInternal(start(ThrowNumber)));
  EXPECT_TRUE(errors::IsResourceExhausted(start(ThrowBadAlloc)));
  for (const std::optional<double>& interval : {std::optional<double>(), std::optional<double>(0.001)}) {
    Coordinator coordinator;
    LooperThread::Loop(coordinator, interval, "throws", ThrowText);
    EXPECT_EQ(coordinator.Join(), errors::Internal("the function of LooperThread::Loop threw: boo"));
  }
}

TEST(ArgumentMisuse, FunctionsOfBackgroundSavesThatThrow) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.WithOpName("w"), {1.f, 2.f});
  Saver saver(scope);
  const ClientSession session(scope);
  ASSERT_EQ(session.Run({}, {}, {w.initializer()}, nullptr), Status());
  int calls = 0;
  const auto second_throws = [&calls]() -> Status {
    if (++calls == 1) return Status();
    throw std::runtime_error("boo");
  };
  const std::string path = ::testing::TempDir() + "/argument_misuse_behind";
  ASSERT_TRUE(saver.Save(session, path, {.write_behind = true, .may_save = second_throws}).ok());
  EXPECT_EQ(saver.Finish(), errors::Internal("the function of Saver::SaveOptions::may_save threw: boo"));
}

}  // namespace
}  // namespace millrace
