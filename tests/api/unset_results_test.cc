// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// After an error, functions that add nodes return as many unset tensors as they otherwise would: programs use
// one of several results before they check the status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "millrace/client_session.h"
#include "millrace/control_flow.h"
#include "millrace/data.h"
#include "millrace/functions.h"
#include "millrace/ops.h"
#include "millrace/queue_input.h"
#include "millrace/schedules.h"

namespace millrace {
namespace {

using ::testing::Each;
using ::testing::SizeIs;
using Outputs = std::vector<Output>;

class UnsetResultsTest : public ::testing::Test {
 protected:
  // Checks the results of `build` in a scope with an error, and the results of `wrong` in a valid one.
  void Expect(size_t count, const std::function<Outputs(const Scope&)>& build,
              const std::function<Outputs(const Scope&)>& wrong, int line = __builtin_LINE()) {
    const Scope failed = Scope::NewRootScope();
    failed.UpdateStatus(errors::Aborted("before"));
    const Outputs none = build(failed);
    EXPECT_THAT(none, SizeIs(count)) << "line " << line;
    EXPECT_THAT(none, Each(Output())) << "line " << line;
    EXPECT_EQ(failed.status(), errors::Aborted("before")) << "line " << line;
    const Scope sound = Scope::NewRootScope();
    const Outputs wrong_results = wrong(sound);
    EXPECT_FALSE(sound.ok()) << "line " << line;
    EXPECT_THAT(wrong_results, SizeIs(count)) << "line " << line;
    EXPECT_THAT(wrong_results, Each(Output())) << "line " << line;
    const Scope right = Scope::NewRootScope();
    const Outputs results = build(right);
    EXPECT_EQ(right.status(), Status()) << "line " << line;
    EXPECT_THAT(results, SizeIs(count)) << "line " << line;
    EXPECT_THAT(results, Each(::testing::Truly([](const Output& o) { return o.IsSet(); })))
        << "line " << line;
  }
};

TEST_F(UnsetResultsTest, WrappersOfOpsWithSeveralOutputs) {
  const auto split = [](const Scope& s, const Input& value) -> Outputs {
    const ops::Split parts(s, 0, value, 2);
    EXPECT_FALSE(parts[7].IsSet());
    return {parts[0], parts[1]};
  };
  Expect(
      2,
      [&](const Scope& s) {
        return split(s, {1.f, 2.f});
      },
      [&](const Scope& s) {
        return split(s, {1.f, 2.f, 3.f});
      });
}

TEST_F(UnsetResultsTest, BranchesAndLoops) {
  const auto two = [](const Scope& s) -> Outputs { return {ops::Const(s, 1), ops::Const(s, 2.f)}; };
  const auto other = [](const Scope& s) -> Outputs { return {ops::Const(s, 1), ops::Const(s, 2)}; };
  Expect(
      2, [&](const Scope& s) { return Cond(s, true, two, two); },
      [&](const Scope& s) { return Cond(s, true, two, other); });
  Expect(
      2, [&](const Scope& s) { return Cond(s, true, two, two); },
      [&](const Scope& s) { return Cond(s, 1.5f, two, two); });
  const auto below = [](const Scope& s, const Outputs& v) -> Output { return ops::Less(s, v[0], 3); };
  const auto next = [](const Scope& s, const Outputs& v) -> Outputs { return {ops::Add(s, v[0], 1), v[1]}; };
  const auto fewer = [](const Scope& s, const Outputs& v) -> Outputs { return {ops::Add(s, v[0], 1)}; };
  Expect(
      2,
      [&](const Scope& s) {
        return While(s, {0, 1.f}, below, next);
      },
      [&](const Scope& s) {
        return While(s, {0, 1.f}, below, fewer);
      });
}

TEST_F(UnsetResultsTest, Datasets) {
  const auto pairs = [](const Scope& s, const Outputs& v) -> Outputs { return {v[0], ops::Square(s, v[0])}; };
  const auto wrong = [](const Scope& s, const Outputs& v) -> Outputs {
    return {v[0], ops::MatMul(s, v[0], v[0])};
  };
  const auto next = [](const Scope& s, const ElementFn& fn) {
    return Iterator::Initializable(Dataset::Range(s, int64_t{3}).Map(fn).Batch(2).Repeat()).GetNext(s);
  };
  const Scope sound = Scope::NewRootScope();
  EXPECT_THAT(next(sound, pairs), SizeIs(2));
  EXPECT_EQ(sound.status(), Status());
  const Scope scope = Scope::NewRootScope();
  const Outputs results = next(scope, wrong);
  EXPECT_FALSE(scope.ok());
  EXPECT_THAT(results, SizeIs(2));
  EXPECT_THAT(results, Each(Output()));
}

TEST_F(UnsetResultsTest, FunctionsThatAreNull) {
  const auto expect_error = [](const std::function<void(const Scope&)>& build) {
    const Scope scope = Scope::NewRootScope();
    build(scope);
    EXPECT_TRUE(errors::IsInvalidArgument(scope.status())) << scope.status();
  };
  const auto range = [](const Scope& s) { return Dataset::Range(s, int64_t{3}); };
  expect_error([&](const Scope& s) { range(s).Map(nullptr); });
  expect_error([&](const Scope& s) { range(s).Filter(nullptr); });
  expect_error([&](const Scope& s) { range(s).FlatMap(nullptr); });
  expect_error([&](const Scope& s) { range(s).Interleave(nullptr, {}); });
  expect_error([&](const Scope& s) { Iterator::OneShot(s, nullptr); });
  expect_error([&](const Scope& s) { CosineDecay(s, 0.1f, Output(), 10); });
}

TEST_F(UnsetResultsTest, QueuesOfBatches) {
  const auto tensors = [](const Scope& s) -> Outputs { return {ops::Const(s, 1.f), ops::Const(s, 2)}; };
  const auto batch = [&](const Scope& s) { return Batch(s, tensors(s), 4); };
  const BatchOptions one_shape{.shapes = {PartialShape()}};
  Expect(2, batch, [&](const Scope& s) { return Batch(s, tensors(s), 4, one_shape); });
  Expect(2, batch, [&](const Scope& s) { return BatchJoin(s, {tensors(s), tensors(s)}, 4, one_shape); });
  Expect(2, batch, [&](const Scope& s) { return ShuffleBatch(s, tensors(s), 4, {}, one_shape); });
  Expect(
      3, [&](const Scope& s) { return Bucket(s, tensors(s), 1, 4, 2); },
      [&](const Scope& s) { return Bucket(s, tensors(s), 1, 4, 1); });
  Expect(
      3,
      [&](const Scope& s) {
        return BucketBySequenceLength(s, ops::Const(s, 3), tensors(s), 4, {2, 5});
      },
      [&](const Scope& s) {
        return BucketBySequenceLength(s, ops::Const(s, 3), tensors(s), 4, {5, 2});
      });
  const auto slices = [](const Scope& s, const Input& second) {
    return SliceInputProducer(s, {ops::Const(s, {1.f, 2.f}), ops::Identity(s, second)});
  };
  Expect(
      2,
      [&](const Scope& s) {
        return slices(s, {3, 4});
      },
      [&](const Scope& s) { return slices(s, Output()); });
}

}  // namespace
}  // namespace millrace
