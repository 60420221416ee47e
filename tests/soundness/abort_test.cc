// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Steps that are aborted at each of their kernels, one after the other: the error is the right one, nothing
// remains, and the next step gives the right results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "session/direct_session.h"
#include "tensor/cpu_allocator.h"
#include "tests/soundness/random_program.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

struct Setup {
  const char* name;
  int threads;
  int cpus;
  bool delays;
};
void PrintTo(const Setup& s, std::ostream* os) { *os << s.name; }

class AbortTest : public ::testing::TestWithParam<Setup> {
 protected:
  void Make(uint32_t seed) {
    program_ = std::make_unique<RandomProgram>(seed, /*size=*/8, GetParam().cpus);
    SessionOptions options;
    options.inter_op_parallelism_threads = options.intra_op_parallelism_threads = GetParam().threads;
    options.device_count["CPU"] = GetParam().cpus;
    TestConfig config;
    config.faults.by_hand = true;
    config.faults.delays = GetParam().delays;
    auto session = DirectSession::MakeForTest(options, config);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    const Status created = session_->Create(program_->def());
    ASSERT_TRUE(created.ok()) << created;
    ASSERT_TRUE(session_->Run({}, {}, {RandomProgram::kInit}, nullptr).ok());
    inputs_ = {5, 11, static_cast<int32_t>(seed)};
  }
  Status Run(std::vector<Tensor>* out) {
    Session::Feeds feeds;
    const std::vector<std::string> names = program_->feeds();
    for (size_t i = 0; i < names.size(); ++i) feeds.emplace_back(names[i], Tensor::Scalar(inputs_[i]));
    return session_->Run(feeds, program_->fetches(), {RandomProgram::kCount}, out);
  }
  void ExpectRight(const std::vector<Tensor>& out) {
    RandomProgram::Values values;
    for (const Tensor& t : out) values.push_back(t.scalar<int32_t>());
    EXPECT_EQ(values, program_->Evaluate(inputs_));
  }
  int64_t Counter() {
    std::vector<Tensor> out;
    EXPECT_TRUE(session_->Run({}, {RandomProgram::kCounter}, {}, &out).ok());
    return out.empty() ? -1 : out[0].scalar<int64_t>();
  }
  void Drain() {
    std::vector<Tensor> out;
    ASSERT_TRUE(session_->Run({}, {RandomProgram::kQueueSize}, {}, &out).ok());
    ASSERT_TRUE(
        session_->Run({{RandomProgram::kDrainCount, out[0]}}, {}, {RandomProgram::kDrain}, nullptr).ok());
  }
  int64_t BytesInUse() {
    Drain();
    return GetCpuAllocatorImpl().Stats().bytes_in_use;
  }
  // False if the step ended before that.
  bool AbortOnce(int64_t n, FaultInjector::AbortKind kind) {
    FaultInjector& faults = *session_->faults_for_test();
    faults.AbortAt(n, kind);
    std::vector<Tensor> out;
    const Status status = Run(&out);
    if (!faults.Disarm()) {
      EXPECT_TRUE(status.ok()) << status;
      return false;
    }
    if (kind == FaultInjector::AbortKind::kError) {
      EXPECT_EQ(status.code(), ErrorCode::kAborted);
      EXPECT_THAT(status.message(), HasSubstr(FaultInjector::kAbortText));
    } else if (!status.ok()) {  // it may have been the last kernel
      EXPECT_EQ(status.code(), ErrorCode::kCancelled) << status;
    }
    if (status.ok()) ExpectRight(out);
    return true;
  }

  std::unique_ptr<RandomProgram> program_;
  std::unique_ptr<DirectSession> session_;
  RandomProgram::Values inputs_;
};

TEST_P(AbortTest, AStepAbortedAtAnyKernelLeavesTheSessionWhole) {
  constexpr int64_t kMaxKernels = 60;
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    ASSERT_NO_FATAL_FAILURE(Make(seed));
    std::vector<Tensor> out;
    for (int i = 0; i < 3; ++i) ASSERT_EQ(Run(&out), Status());
    out.clear();
    const int64_t bytes = BytesInUse();
    int64_t counter = Counter();
    bool more = true;
    for (int64_t n = 0; more && n < kMaxKernels; ++n) {
      for (const auto kind : {FaultInjector::AbortKind::kError, FaultInjector::AbortKind::kCancel}) {
        SCOPED_TRACE(n);
        more = AbortOnce(n, kind);
        const int64_t counted = Counter();
        EXPECT_TRUE(counted == counter || counted == counter + 1) << counter << " -> " << counted;
        counter = counted;
        EXPECT_EQ(BytesInUse(), bytes);
        const Status status = Run(&out);
        ASSERT_TRUE(status.ok()) << status;
        ExpectRight(out);
        out.clear();
        EXPECT_EQ(Counter(), ++counter);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Setups, AbortTest,
                         ::testing::Values(Setup{"OneThread", 1, 1, false}, Setup{"FourThreads", 4, 1, false},
                                           Setup{"Delays", 4, 1, true}, Setup{"ThreeCpus", 4, 3, false},
                                           Setup{"ThreeCpusDelays", 4, 3, true}),
                         [](const auto& setup) { return setup.param.name; });

TEST(RandomProgramTest, GraphAndTreeComputeTheSame) {
  for (uint32_t seed = 100; seed < 130; ++seed) {
    const int cpus = 1 + static_cast<int>(seed % 3);
    const RandomProgram program(seed, 20, cpus);
    SessionOptions options;
    options.device_count["CPU"] = cpus;
    const auto session = NewSession(options);
    ASSERT_TRUE(session.ok());
    ASSERT_EQ((*session)->Create(program.def()), Status());
    ASSERT_EQ((*session)->Run({}, {}, {RandomProgram::kInit}, nullptr), Status());
    for (int32_t x = 0; x < 4; ++x) {
      const RandomProgram::Values inputs = {x, 7 * x + 2, 999 - x};
      Session::Feeds feeds;
      const std::vector<std::string> names = program.feeds();
      for (size_t i = 0; i < names.size(); ++i) feeds.emplace_back(names[i], Tensor::Scalar(inputs[i]));
      std::vector<Tensor> out;
      ASSERT_EQ((*session)->Run(feeds, program.fetches(), {}, &out), Status()) << "seed " << seed;
      RandomProgram::Values values;
      for (const Tensor& t : out) values.push_back(t.scalar<int32_t>());
      EXPECT_EQ(values, program.Evaluate(inputs)) << "seed " << seed;
    }
  }
}

// Sets the variable during its lifetime.
class TestConfigTest : public ::testing::Test {
 protected:
  TestConfigTest() {
    if (const char* value = std::getenv(kVariable)) before_ = value;
  }
  ~TestConfigTest() override { ::setenv(kVariable, before_.c_str(), 1); }
  StatusOr<TestConfig> Read(const char* value) {
    ::setenv(kVariable, value, 1);
    return ReadTestConfig();
  }

  static constexpr const char* kVariable = "MILLRACE_TEST_CONFIG";
  std::string before_;
};

TEST_F(TestConfigTest, NothingIsDifferentWithoutIt) {
  const auto config = Read("");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->threads, 0);
  EXPECT_EQ(config->spread_seed, 0u);
  EXPECT_FALSE(config->faults.any());
}

TEST_F(TestConfigTest, ItemsAreSeparatedByCommas) {
  const auto config = Read("threads=3,two_cpus=5,delays=7");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->threads, 3);
  EXPECT_EQ(config->spread_seed, 5u);
  EXPECT_TRUE(config->faults.delays);
  EXPECT_FALSE(config->faults.aborts);
  EXPECT_EQ(config->faults.seed, 7u);
  SessionOptions options = WithTestConfig(*config, SessionOptions());
  EXPECT_EQ(options.inter_op_parallelism_threads, 3);
  EXPECT_EQ(options.device_count["CPU"], 2);
  options.device_count["CPU"] = 1;
  EXPECT_EQ(WithTestConfig(*config, options).device_count["CPU"], 1) << "the requested number is used";
}

TEST_F(TestConfigTest, TasksTalkInTheProcessOrByGrpc) {
  for (const char* value : {"cluster=7", "cluster_grpc=7"}) {
    const auto config = Read(value);
    ASSERT_TRUE(config.ok()) << value << ": " << config.status();
    EXPECT_EQ(config->spread_seed, 7u) << value;
    EXPECT_TRUE(config->spread_over_tasks) << value;
    const auto session = NewSession(SessionOptions());
    ASSERT_TRUE(session.ok()) << value << ": " << session.status();
    const auto devices = (*session)->ListDevices();
    ASSERT_TRUE(devices.ok()) << value << ": " << devices.status();
    EXPECT_EQ(devices->size(), 3u) << value;
  }
}

TEST_F(TestConfigTest, SessionsRefuseWhatItCannotMean) {
  for (const char* value :
       {"delay", "threads", "threads=0", "threads=x", "two_cpus=-1", "delays,,aborts", "cluster_grpc=0"}) {
    EXPECT_EQ(Read(value).status().code(), ErrorCode::kInvalidArgument) << value;
    EXPECT_EQ(NewSession(SessionOptions()).status().code(), ErrorCode::kInvalidArgument) << value;
  }
}

}  // namespace
}  // namespace millrace
