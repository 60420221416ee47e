// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The average behaviour of ops that draw initial centers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

StatusOr<Tensor> PlusPlus(const Tensor& points, int64_t samples, int64_t seed, int64_t retries) {
  KernelRunner runner("KmeansPlusPlusInitialization");
  return runner.Input(points)
      .Input(Tensor::Scalar(samples))
      .Input(Tensor::Scalar(seed))
      .Input(Tensor::Scalar(retries))
      .RunOne();
}

TEST(ClusteringTest, EachClusterFarFromTheOthersGetsACenter) {
  // Four points around each of five positions.
  std::vector<float> points;
  for (int place = 0; place < 5; ++place) {
    for (int i = 0; i < 4; ++i) {
      points.push_back(1000.f * static_cast<float>(place));
      points.push_back(static_cast<float>(i));
    }
  }
  const Tensor all = Tensor::From(points, TensorShape({20, 2}));
  for (const int64_t retries : {0, 3, -1}) {
    for (int64_t seed = 0; seed < 20; ++seed) {
      auto out = PlusPlus(all, 5, seed, retries);
      ASSERT_TRUE(out.ok()) << out.status();
      std::set<float> places;
      for (int i = 0; i < 5; ++i) places.insert(out->data<float>()[2 * i]);
      EXPECT_EQ(places.size(), 5u) << seed;
    }
  }
}

TEST(ClusteringTest, NoPointIsTakenTwice) {
  std::vector<float> points(30);
  for (size_t i = 0; i < points.size(); ++i) points[i] = static_cast<float>(i * i);
  for (int64_t seed = 0; seed < 10; ++seed) {
    auto out = PlusPlus(Tensor::From(points, TensorShape({30, 1})), 30, seed, 2);
    ASSERT_TRUE(out.ok()) << out.status();
    std::vector<float> taken(out->data<float>(), out->data<float>() + 30);
    std::sort(taken.begin(), taken.end());
    EXPECT_EQ(taken, points);
  }
}

TEST(ClusteringTest, TheSameSeedDrawsTheSamePoints) {
  std::vector<float> points(40);
  for (size_t i = 0; i < points.size(); ++i) points[i] = static_cast<float>(i % 7 * i);
  const Tensor all = Tensor::From(points, TensorShape({20, 2}));
  std::set<float> firsts;
  for (int64_t seed = 0; seed < 20; ++seed) {
    auto one = PlusPlus(all, 3, seed, 1), other = PlusPlus(all, 3, seed, 1);
    ASSERT_TRUE(one.ok() && other.ok());
    ExpectTensorEqual(*one, *other);
    firsts.insert(one->data<float>()[1]);
  }
  EXPECT_GT(firsts.size(), 3u);
}

TEST(ClusteringTest, TheChainEndsAtAPointInProportionToItsDistance) {
  std::vector<float> distances;
  distances.reserve(400);
  for (int i = 0; i < 400; ++i) distances.push_back(static_cast<float>(4 - i % 2 * 3));
  int far = 0;
  for (int64_t seed = 0; seed < 1000; ++seed) {
    auto out = KernelRunner("KMC2ChainInitialization")
                   .Input(Tensor::Vector<float>(distances))
                   .Input(Tensor::Scalar(seed))
                   .RunOne();
    ASSERT_TRUE(out.ok()) << out.status();
    far += out->scalar<int64_t>() % 2 == 0;
  }
  // The last candidate is near: it replaces a far one with the probability of the ratio of the distances.
  EXPECT_NEAR(far, 750, 80);  // six standard deviations
}

TEST(ClusteringTest, DrawsWithoutEndStopWithTheStep) {
  KernelRunner runner("KmeansPlusPlusInitialization");
  runner.Input(Tensor::From<float>({1, 2}, TensorShape({2, 1})))
      .Input(Tensor::Scalar(int64_t{2}))
      .Input(Tensor::Scalar(int64_t{1}))
      .Input(Tensor::Scalar(INT64_MAX));
  runner.cancellation().StartCancel();
  EXPECT_TRUE(errors::IsCancelled(runner.Run().status()));
}

}  // namespace
}  // namespace millrace
