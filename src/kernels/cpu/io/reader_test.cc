// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/io/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "io/record_file.h"
#include "kernels/cpu/io/reader_work.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using KeyValues = std::vector<std::pair<std::string, std::string>>;

RefPtr<Queue> MakeQueue() {
  QueueSpec spec;
  spec.name = "q";
  spec.types = {DataType::kString};
  return *Queue::Make(QueueKind::kFifo, spec);
}

void Enqueue(Queue& queue, const std::string& work) {
  Queue::Attempt attempt;
  attempt.tensors = {Tensor::Scalar<std::string>(work)};
  Status status;
  EXPECT_TRUE(queue.RunNow(attempt, &status) && status.ok()) << status;
}

void Close(Queue& queue) {
  Queue::Attempt attempt;
  attempt.action = Queue::Action::kClose;
  Status status;
  EXPECT_TRUE(queue.RunNow(attempt, &status));
}

// A read and its result.
struct Read {
  explicit Read(RefPtr<Queue> q) : queue(std::move(q)) {}
  void Submit(Reader& reader, int64_t wanted = 1) {
    Reader::Attempt attempt;
    attempt.queue = queue;
    attempt.wanted = wanted;
    attempt.done = [this](const Status& s, Reader::Attempt& a) {
      EXPECT_FALSE(done) << "ended twice";
      status = s;
      for (size_t i = 0; i < a.keys.size(); ++i) records.emplace_back(a.keys[i], a.values[i]);
      done = true;
    };
    reader.Submit(std::move(attempt), cancellation);
  }
  const RefPtr<Queue> queue;
  CancellationManager cancellation;
  std::atomic<bool> done{false};
  Status status;
  KeyValues records;
};

// The records of a work unit from a position on, and its end.
struct Outcome {
  KeyValues records;
  std::vector<ReaderPosition> positions;  // before each record, and at the end
  Status status;
};
Outcome ReadAll(const WorkOpener& open, const std::string& work, const ReaderPosition& from = {}) {
  Outcome out;
  auto unit = open(work, from);
  if (!unit.ok()) {
    out.status = unit.status();
    return out;
  }
  for (;;) {
    out.positions.push_back((*unit)->position());
    std::string key, value;
    const auto more = (*unit)->Next(&key, &value);
    if (!more.ok()) out.status = more.status();
    if (!more.ok() || !*more) return out;
    out.records.emplace_back(key, value);
  }
}

class WorkTest : public ::testing::Test {
 protected:
  void Write(const std::string& bytes) { ASSERT_TRUE(WriteFileAtomically(env_, "/f", bytes).ok()); }
  // Reading on from each position gives the rest.
  void ExpectResumable(const WorkOpener& open) {
    const Outcome all = ReadAll(open, "/f");
    ASSERT_TRUE(all.status.ok()) << all.status;
    for (size_t i = 0; i < all.positions.size(); ++i) {
      const Outcome rest = ReadAll(open, "/f", all.positions[i]);
      EXPECT_TRUE(rest.status.ok()) << rest.status;
      EXPECT_EQ(rest.records, KeyValues(all.records.begin() + static_cast<ptrdiff_t>(i), all.records.end()))
          << i;
    }
  }
  MemEnv env_;
};

TEST_F(WorkTest, LinesHaveNumbersAndNoEnds) {
  Write("h1\r\nh2\nfirst\r\n\nlast");
  EXPECT_THAT(ReadAll(TextLineWork(env_, 2), "/f").records,
              ElementsAre(Pair("/f:3", "first"), Pair("/f:4", ""), Pair("/f:5", "last")));
  EXPECT_THAT(ReadAll(TextLineWork(env_, 9), "/f").records, ElementsAre());
  ExpectResumable(TextLineWork(env_, 2));
  ExpectResumable(TextLineWork(env_, 0));
  Write("");
  EXPECT_TRUE(ReadAll(TextLineWork(env_, 0), "/f").records.empty());
  Write("x\n");
  EXPECT_THAT(ReadAll(TextLineWork(env_, 0), "/f").records, ElementsAre(Pair("/f:1", "x")));
  EXPECT_TRUE(errors::IsNotFound(ReadAll(TextLineWork(env_, 0), "/none").status));
}

TEST_F(WorkTest, RecordsOfFixedLength) {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    const FixedLength format = {.header_bytes = random() % 5,
                                .record_bytes = 1 + random() % 6,
                                .footer_bytes = random() % 5,
                                .hop_bytes = random() % 8};
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>('a' + random() % 26);
    Write(bytes);
    // From the definition: every hop bytes from the header on, as long as the record ends before the footer.
    KeyValues expected;
    const uint64_t hop = format.hop_bytes == 0 ? format.record_bytes : format.hop_bytes;
    for (uint64_t at = format.header_bytes; at + format.record_bytes + format.footer_bytes <= bytes.size();
         at += hop) {
      expected.emplace_back(StrCat("/f:", expected.size()), bytes.substr(at, format.record_bytes));
    }
    const Outcome out = ReadAll(FixedLengthWork(env_, format), "/f");
    EXPECT_TRUE(out.status.ok()) << out.status;
    EXPECT_EQ(out.records, expected) << format.header_bytes << " " << format.record_bytes << " "
                                     << format.footer_bytes << " " << format.hop_bytes << " " << bytes.size();
    ExpectResumable(FixedLengthWork(env_, format));
  }
  constexpr uint64_t kHuge = INT64_MAX;
  for (const FixedLength& format :
       {FixedLength{.record_bytes = kHuge},
        FixedLength{.header_bytes = kHuge, .record_bytes = kHuge, .hop_bytes = kHuge},
        FixedLength{.record_bytes = 1, .footer_bytes = kHuge}}) {
    EXPECT_TRUE(ReadAll(FixedLengthWork(env_, format), "/f").records.empty());
  }
  Write("abc");
  EXPECT_THAT(ReadAll(FixedLengthWork(env_, {.record_bytes = 1, .hop_bytes = kHuge}), "/f").records,
              ElementsAre(Pair("/f:0", "a")));
}

TEST_F(WorkTest, RecordsWithSumsAndWhatIsLeftOfBrokenOnes) {
  for (const io::Compression c : {io::Compression::kNone, io::Compression::kZlib, io::Compression::kGzip}) {
    auto file = env_.NewWritableFile("/f");
    ASSERT_TRUE(file.ok());
    io::RecordWriter writer(**file, c);
    for (const char* r : {"one", "", "three"}) ASSERT_TRUE(writer.Write(r).ok());
    ASSERT_TRUE(writer.Close().ok() && (*file)->Close().ok());
    const WorkOpener open = RecordWork(env_, c);
    EXPECT_THAT(ReadAll(open, "/f").records,
                ElementsAre(Pair("/f:0", "one"), Pair("/f:19", ""), Pair("/f:35", "three")));
    ExpectResumable(open);
    EXPECT_TRUE(errors::IsDataLoss(ReadAll(open, "/f", {.offset = 1u << 30}).status));
    const std::string bytes = *ReadFileToString(env_, "/f");
    for (size_t n = 1; n < bytes.size(); ++n) {
      Write(bytes.substr(0, n));
      const Outcome out = ReadAll(open, "/f");
      const bool at_border = c == io::Compression::kNone && (n == 19 || n == 35);
      EXPECT_EQ(errors::IsDataLoss(out.status), !at_border) << n << " " << out.status;
    }
  }
}

TEST_F(WorkTest, WholeFilesAndNames) {
  Write("contents");
  EXPECT_THAT(ReadAll(WholeFileWork(env_), "/f").records, ElementsAre(Pair("/f", "contents")));
  EXPECT_THAT(ReadAll(IdentityWork(), "x").records, ElementsAre(Pair("x", "x")));
  EXPECT_TRUE(errors::IsNotFound(ReadAll(WholeFileWork(env_), "/none").status));
}

// Units of work of the form "name*count": that many records; "bad" can't be begun.
WorkOpener CountedWork() {
  class Counted : public WorkUnit {
   public:
    Counted(std::string name, int count, uint64_t from)
        : name_(std::move(name)), count_(count), next_(from) {}
    StatusOr<bool> Next(std::string* key, std::string* value) override {
      if (next_ == static_cast<uint64_t>(count_)) return false;
      *key = StrCat(name_, next_++);
      *value = "v" + *key;
      return true;
    }
    ReaderPosition position() const override { return {next_, 0}; }

   private:
    const std::string name_;
    const int count_;
    uint64_t next_;
  };
  return [](const std::string& work, const ReaderPosition& from) -> StatusOr<std::unique_ptr<WorkUnit>> {
    const size_t star = work.find('*');
    if (star == std::string::npos) return errors::NotFound(work);
    return std::unique_ptr<WorkUnit>(
        std::make_unique<Counted>(work.substr(0, star), std::stoi(work.substr(star + 1)), from.offset));
  };
}

TEST(ReaderTest, ReadsTakeTurnsAndWorkAsItComes) {
  const auto reader = MakeRef<Reader>("r", CountedWork());
  const auto queue = MakeQueue();
  Read a(queue), b(queue), c(queue), d(queue);
  for (Read* read : {&a, &b, &c, &d}) read->Submit(*reader);
  EXPECT_FALSE(a.done);
  Enqueue(*queue, "e*0");  // nothing in it
  EXPECT_FALSE(a.done);
  Enqueue(*queue, "x*3");
  EXPECT_THAT(a.records, ElementsAre(Pair("x0", "vx0")));
  EXPECT_THAT(b.records, ElementsAre(Pair("x1", "vx1")));
  EXPECT_THAT(c.records, ElementsAre(Pair("x2", "vx2")));
  EXPECT_FALSE(d.done);
  EXPECT_EQ(reader->records_produced(), 3);
  EXPECT_EQ(reader->work_units_completed(), 2);
  Close(*queue);
  EXPECT_TRUE(errors::IsOutOfRange(d.status)) << d.status;
  EXPECT_THAT(std::string(d.status.message()), HasSubstr("is closed and has insufficient elements"));
}

TEST(ReaderTest, ManyRecordsAreOfOneUnitOfWork) {
  const auto reader = MakeRef<Reader>("r", CountedWork());
  const auto queue = MakeQueue();
  for (const char* work : {"e*0", "x*3", "y*2"}) Enqueue(*queue, work);
  for (const size_t expected : {2u, 1u, 2u}) {
    Read read(queue);
    read.Submit(*reader, 2);
    EXPECT_TRUE(read.status.ok());
    EXPECT_EQ(read.records.size(), expected);
  }
  Reader::Attempt now;
  now.queue = queue;
  Status status;
  EXPECT_FALSE(reader->RunNow(now, &status)) << "it would have to ask the queue";
}

TEST(ReaderTest, WorkThatCannotBeBegunIsAnErrorOfOneRead) {
  const auto reader = MakeRef<Reader>("r", CountedWork());
  const auto queue = MakeQueue();
  for (const char* work : {"bad", "x*1"}) Enqueue(*queue, work);
  Read bad(queue), good(queue);
  bad.Submit(*reader);
  good.Submit(*reader);
  EXPECT_TRUE(errors::IsNotFound(bad.status));
  EXPECT_THAT(good.records, ElementsAre(Pair("x0", "vx0")));
  EXPECT_EQ(reader->work_units_completed(), 0);
}

TEST(ReaderTest, CancellingEndsReadsThatWait) {
  const auto reader = MakeRef<Reader>("r", CountedWork());
  const auto queue = MakeQueue();
  Read first(queue), in_line(queue), last(queue), late(queue);
  for (Read* read : {&first, &in_line, &last}) read->Submit(*reader);
  in_line.cancellation.StartCancel();
  EXPECT_TRUE(errors::IsCancelled(in_line.status));
  first.cancellation.StartCancel();
  EXPECT_TRUE(errors::IsCancelled(first.status));
  EXPECT_FALSE(last.done);
  late.cancellation.StartCancel();
  late.Submit(*reader);
  EXPECT_TRUE(errors::IsCancelled(late.status));
  Enqueue(*queue, "x*1");
  EXPECT_THAT(last.records, ElementsAre(Pair("x0", "vx0"))) << "cancelled callers got no records";
  Read alone(queue);
  alone.cancellation.StartCancel();
  alone.Submit(*reader);
  EXPECT_TRUE(errors::IsCancelled(alone.status));
}

TEST(ReaderTest, StateContinuesWhereItWasSaved) {
  const auto reader = MakeRef<Reader>("r", CountedWork());
  const auto queue = MakeQueue();
  Enqueue(*queue, "x*3");
  Read one(queue), two(queue);
  one.Submit(*reader);
  const std::string state = reader->SerializeState();
  two.Submit(*reader);
  ASSERT_TRUE(reader->RestoreState(state).ok());
  EXPECT_EQ(reader->records_produced(), 1);
  Read again(queue);
  again.Submit(*reader, 10);
  EXPECT_THAT(again.records, ElementsAre(Pair("x1", "vx1"), Pair("x2", "vx2")));
  EXPECT_EQ(reader->work_units_completed(), 1);
  const auto other = MakeRef<Reader>("r", CountedWork());
  ASSERT_TRUE(other->RestoreState(state).ok());
  Read elsewhere(queue);
  elsewhere.Submit(*other);
  EXPECT_THAT(elsewhere.records, ElementsAre(Pair("x1", "vx1")));
  other->Reset();
  EXPECT_EQ(other->records_produced(), 0);
}

// Field 1: work started, 2: finished, 3: records, 4: current work.
TEST(ReaderTest, StatesThatMakeNoSenseAreRefused) {
  const auto reader = MakeRef<Reader>("r", CountedWork());
  const auto refused = [&](const std::string& state) {
    const Status status = reader->RestoreState(state);
    EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
    EXPECT_EQ(reader->records_produced(), 0);
    return std::string(status.message());
  };
  EXPECT_THAT(refused("\x22\x7f"), HasSubstr("Could not parse state for r: "));
  EXPECT_THAT(refused(std::string("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11)),
              HasSubstr("Unexpected negative value when restoring in r"));
  EXPECT_THAT(refused("\x08\x01\x10\x02"),
              HasSubstr("Inconsistent work started vs. finished when restoring in r"));
  EXPECT_TRUE(
      errors::IsNotFound(reader->RestoreState("\x08\x02\x10\x01\x22\x03"
                                              "bad")));
  EXPECT_TRUE(reader->RestoreState("").ok());
  const std::string whole("\x08\x02\x10\x01\x18\x07\x22\x03x*3\xa0\x06\x01", 14);
  for (size_t n = 0; n < whole.size(); ++n) {
    for (int flip = 0; flip < 256; flip += 5) {
      std::string bytes = whole;
      bytes[n] = static_cast<char>(bytes[n] ^ flip);
      if (bytes.find("*3") == 9) reader->RestoreState(bytes).IgnoreError("any result is acceptable");
    }
    reader->RestoreState(whole.substr(0, n)).IgnoreError("any result is acceptable");
  }
}

TEST(ReaderTest, ResetWhileAReadWaitsLosesNoWork) {
  const auto reader = MakeRef<Reader>("r", CountedWork());
  const auto queue = MakeQueue();
  Read waits(queue);
  waits.Submit(*reader);
  reader->Reset();
  ASSERT_TRUE(reader->RestoreState("\x08\x01\x22\x03y*1").ok());
  Enqueue(*queue, "x*1");
  EXPECT_THAT(waits.records, ElementsAre(Pair("y0", "vy0")));
  Read next(queue);
  next.Submit(*reader);
  EXPECT_THAT(next.records, ElementsAre(Pair("x0", "vx0")));
}

TEST(ReaderTest, ManyThreadsReadEachRecordOnce) {
  const auto reader = MakeRef<Reader>("r", CountedWork());
  const auto queue = MakeQueue();
  constexpr int kThreads = 4, kReads = 250;
  std::vector<std::unique_ptr<Read>> reads;
  for (int i = 0; i < kThreads * kReads; ++i) reads.push_back(std::make_unique<Read>(queue));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kReads; ++i) {
        Read& read = *reads[static_cast<size_t>(t * kReads + i)];
        read.Submit(*reader);
        if (i % 10 == 3) read.cancellation.StartCancel();
        if (i % 5 == 0) Enqueue(*queue, StrCat(t, "/", i, ":*7"));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  Close(*queue);
  std::map<std::string, int> seen;
  for (const auto& read : reads) {
    EXPECT_TRUE(read->done);
    for (const auto& [key, value] : read->records) ++seen[key];
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), reader->records_produced());
  for (const auto& [key, times] : seen) EXPECT_EQ(times, 1) << key;
}

}  // namespace
}  // namespace millrace
