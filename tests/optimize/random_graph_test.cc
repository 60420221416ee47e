// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Random graphs give the same results with all passes on, with all of them off, and with each one alone off.
#include "tests/optimize/random_graph.h"

#include <gtest/gtest.h>

#include "compile/pipeline.h"
#include "millrace/session.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

std::vector<Tensor> Results(const RandomGraph& random, const std::set<std::string>& disabled) {
  SessionOptions options;
  options.inter_op_parallelism_threads = 1;
  options.disabled_passes = disabled;
  auto session = NewSession(options);
  EXPECT_TRUE(session.ok()) << session.status();
  std::vector<Tensor> results;
  if (!session.ok()) return results;
  const Status made = (*session)->ExtendFrom(*random.graph);
  EXPECT_TRUE(made.ok()) << made;
  const Status ran = (*session)->Run(random.feeds, random.fetches, {}, &results);
  EXPECT_TRUE(ran.ok()) << ran;
  return results;
}

void ExpectSame(const RandomGraph& random, const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), random.fetches.size());
  ASSERT_EQ(b.size(), random.fetches.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const bool exact = random.exact[i];
    EXPECT_TRUE(TensorsNear(a[i], b[i], exact ? 0 : 1e-4, exact ? 0 : 1e-3)) << random.fetches[i];
  }
}

constexpr uint32_t kGraphs = 600;
constexpr uint32_t kBatch = 60;

class RandomGraphTest : public testing::TestWithParam<uint32_t> {};

TEST_P(RandomGraphTest, ResultsAreTheSameWithAndWithoutPasses) {
  for (uint32_t i = 0; i < kBatch && !HasFailure(); ++i) {
    const uint32_t seed = GetParam() * kBatch + i;
    SCOPED_TRACE(seed);
    const RandomGraph random = MakeRandomGraph(seed, 40);
    const std::vector<Tensor> plain = Results(random, {"all"});
    ExpectSame(random, plain, Results(random, {}));
    const auto passes = OptionalPasses();
    ExpectSame(random, plain, Results(random, {passes[seed % passes.size()].name}));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphTest, testing::Range(0u, kGraphs / kBatch));

TEST(RandomGraphTest, TheSameSeedGivesTheSameGraph) {
  const RandomGraph a = MakeRandomGraph(7, 40);
  const RandomGraph b = MakeRandomGraph(7, 40);
  EXPECT_EQ(a.fetches, b.fetches);
  EXPECT_EQ(a.graph->num_nodes(), b.graph->num_nodes());
  EXPECT_GT(a.graph->num_nodes(), 40);
}

}  // namespace
}  // namespace millrace
