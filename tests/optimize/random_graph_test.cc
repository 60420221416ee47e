// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Random graphs give the same results, and leave the same state, with all passes on, with all off, with each
// single one off, and aggressively.
#include "tests/optimize/random_graph.h"
#include "tests/optimize/first_seed.h"

#include <gtest/gtest.h>

#include "compile/pipeline.h"
#include "millrace/session.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

struct Outcome {
  std::vector<Tensor> results;
  std::vector<std::pair<bool, Tensor>> maybe_dead;  // whether there was a value, and which one
  Tensor state;
};

Outcome RunWith(const RandomGraph& random, const SessionOptions& wanted) {
  SessionOptions options = wanted;
  options.inter_op_parallelism_threads = 1;
  Outcome outcome;
  auto session = NewSession(options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return outcome;
  Status status = (*session)->ExtendFrom(*random.graph);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<Tensor> out;
  if (!random.init.empty()) status = (*session)->Run({}, {}, {random.init}, &out);
  EXPECT_TRUE(status.ok()) << status;
  status = (*session)->Run(random.feeds, random.fetches, {}, &outcome.results);
  EXPECT_TRUE(status.ok()) << status;
  for (const std::string& fetch : random.maybe_dead) {
    out.clear();
    const bool alive = (*session)->Run(random.feeds, {fetch}, {}, &out).ok();
    outcome.maybe_dead.emplace_back(alive, alive ? out[0] : Tensor());
  }
  if (random.state.empty()) return outcome;
  status = (*session)->Run({}, {random.state}, {}, &out);
  EXPECT_TRUE(status.ok()) << status;
  if (status.ok()) outcome.state = out[0];
  return outcome;
}

Outcome RunWithout(const RandomGraph& random, const std::set<std::string>& disabled) {
  SessionOptions options;
  options.disabled_passes = disabled;
  return RunWith(random, options);
}

void ExpectSame(const RandomGraph& random, const Outcome& a, const Outcome& b, double tolerance) {
  ASSERT_EQ(a.results.size(), random.fetches.size());
  ASSERT_EQ(b.results.size(), random.fetches.size());
  for (size_t i = 0; i < a.results.size(); ++i) {
    const double t = random.exact[i] ? 0 : tolerance;
    EXPECT_TRUE(TensorsNear(a.results[i], b.results[i], t, 10 * t)) << random.fetches[i];
  }
  for (size_t i = 0; i < a.maybe_dead.size(); ++i) {
    EXPECT_EQ(a.maybe_dead[i].first, b.maybe_dead[i].first) << random.maybe_dead[i];
    EXPECT_TRUE(TensorsNear(a.maybe_dead[i].second, b.maybe_dead[i].second, tolerance, 10 * tolerance));
  }
  if (!random.state.empty()) ExpectTensorEqual(a.state, b.state);
}

void Check(const RandomGraph& random, uint32_t seed) {
  const Outcome plain = RunWithout(random, {"all"});
  ASSERT_EQ(plain.results.size(), random.fetches.size()) << "a graph that cannot be run is no test";
  {
    SCOPED_TRACE("all passes");
    ExpectSame(random, plain, RunWithout(random, {}), 1e-4);
  }
  const auto passes = OptionalPasses();
  const PassInfo& off = passes[seed % passes.size()];
  {
    SCOPED_TRACE(off.name);
    ExpectSame(random, plain, RunWithout(random, {off.name}), 1e-4);
  }
  if (seed % 3 != 0) return;
  SCOPED_TRACE("aggressive");
  SessionOptions aggressive;
  aggressive.aggressive_arithmetic = true;
  ExpectSame(random, plain, RunWith(random, aggressive), 1e-3);
}

constexpr uint32_t kGraphs = 600;
constexpr uint32_t kBatch = 60;

class RandomGraphTest : public testing::TestWithParam<uint32_t> {};

TEST_P(RandomGraphTest, ResultsAreTheSameWithAndWithoutPasses) {
  for (uint32_t i = 0; i < kBatch && !HasFailure(); ++i) {
    const uint32_t seed = FirstSeed() + GetParam() * kBatch + i;
    SCOPED_TRACE(seed);
    Check(MakeRandomGraph(seed, {}), seed);
  }
}

TEST_P(RandomGraphTest, SoAreThoseOfConditionsLoopsAndFunctions) {
  for (uint32_t i = 0; i < kBatch && !HasFailure(); ++i) {
    const uint32_t seed = FirstSeed() + GetParam() * kBatch + i;
    SCOPED_TRACE(seed);
    Check(MakeRandomGraph(seed, {.nodes = 60, .flow = true}), seed);
  }
}

TEST_P(RandomGraphTest, OnePassOverMemoryGivesTheSameBits) {
  for (uint32_t i = 0; i < kBatch && !HasFailure(); ++i) {
    const uint32_t seed = FirstSeed() + GetParam() * kBatch + i;
    SCOPED_TRACE(seed);
    const RandomGraph random = MakeRandomGraph(seed, {.nodes = 60, .flow = i % 2 == 1});
    ExpectSame(random, RunWithout(random, {"elementwise"}), RunWithout(random, {}), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphTest, testing::Range(0u, kGraphs / kBatch));

TEST(RandomGraphTest, ACallThatWaitsForWhatIsDeadIsDead) {
  constexpr uint32_t kSeed = 501367;
  Check(MakeRandomGraph(kSeed, {.nodes = 60, .flow = true}), kSeed);
}

TEST(RandomGraphTest, TheSameSeedGivesTheSameGraph) {
  const RandomGraphOptions options{.nodes = 40, .flow = true};
  const RandomGraph a = MakeRandomGraph(7, options);
  const RandomGraph b = MakeRandomGraph(7, options);
  EXPECT_EQ(a.fetches, b.fetches);
  EXPECT_EQ(a.graph->num_nodes(), b.graph->num_nodes());
  EXPECT_GT(a.graph->num_nodes(), 40);
}

}  // namespace
}  // namespace millrace
