// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/session/loop_testing.h"

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

// A number that depends on each element differently.
Output Mix(const Scope& scope, const Output& x) {
  return ops::Sum(scope, ops::Mul(scope, ops::Sin(scope, ops::Add(scope, x, 0.7)), x),
                  ops::Range(scope, 0, ops::Rank(scope, x), 1));
}

}  // namespace

void LoopTest::CheckGradients(const Output& y, const std::vector<std::pair<Output, Tensor>>& at, int orders,
                              const ClientSession::Feeds& others) {
  ASSERT_TRUE(scope_.ok()) << scope_.status();
  Outputs xs;
  for (const auto& [x, value] : at) xs.push_back(x);
  Output of = Mix(scope_, y);
  for (int order = 1; order <= orders; ++order) {
    Outputs grads;
    ASSERT_EQ(AddSymbolicGradients(scope_, {of}, xs, &grads), Status()) << "order " << order;
    ClientSession session(scope_, Options());
    const auto run = [&](const Output& fetch, size_t moved, int64_t element, double by) {
      ClientSession::Feeds feeds = others;
      for (size_t i = 0; i < at.size(); ++i) {
        Tensor value = at[i].second.DeepCopy();
        if (i == moved) value.data<double>()[element] += by;
        feeds.emplace_back(at[i].first, value);
      }
      std::vector<Tensor> out;
      const Status status = session.Run(feeds, {fetch}, &out);
      EXPECT_EQ(status, Status());
      return out.empty() ? Tensor(DataType::kDouble, TensorShape({0})) : out[0];
    };
    Output next;
    for (size_t i = 0; i < at.size(); ++i) {
      ASSERT_TRUE(grads[i].IsSet()) << "order " << order << ", x " << i;
      const Tensor got = run(grads[i], i, 0, 0);
      ASSERT_EQ(got.shape(), at[i].second.shape()) << "order " << order << ", x " << i;
      for (int64_t e = 0; e < got.num_elements(); ++e) {
        constexpr double kDelta = 1e-5;
        const Tensor above = run(of, i, e, kDelta), below = run(of, i, e, -kDelta);
        ASSERT_EQ(above.num_elements(), 1);
        ASSERT_EQ(below.num_elements(), 1);
        const double want = (above.scalar<double>() - below.scalar<double>()) / (2 * kDelta);
        EXPECT_NEAR(got.data<double>()[e], want, 1e-6 * std::max(1.0, std::abs(want)))
            << "order " << order << ", x " << i << ", element " << e;
      }
      const Output part = Mix(scope_, grads[i]);
      next = next.IsSet() ? Output(ops::Add(scope_, next, part)) : part;
    }
    of = next;
  }
}

}  // namespace millrace
