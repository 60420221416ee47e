// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Candidate samplers: their distributions, expected counts, and learning.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <set>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

Tensor Classes(std::vector<int64_t> values, int64_t columns) {
  Tensor t(DataType::kInt64, TensorShape({static_cast<int64_t>(values.size()) / columns, columns}));
  std::copy(values.begin(), values.end(), t.data<int64_t>());
  return t;
}

KernelRunner& Prepare(KernelRunner& runner, int64_t sampled, bool unique, int64_t range) {
  return runner.Attr("num_true", int64_t{1})
      .Attr("num_sampled", sampled)
      .Attr("unique", unique)
      .Attr("range_max", range)
      .Attr("seed", int64_t{17});
}

// Compares half of the positions of each sampler with the probabilities that it states.
void ExpectDistribution(KernelRunner& runner, const std::function<double(int)>& probability) {
  auto out = runner.Input(Classes({0, 3}, 1)).Run();
  ASSERT_TRUE(out.ok()) << out.status();
  const int64_t n = (*out)[0].num_elements();
  std::vector<double> counts(5);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t value = (*out)[0].data<int64_t>()[i];
    ASSERT_TRUE(value >= 0 && value < 5);
    counts[static_cast<size_t>(value)] += 1;
    EXPECT_NEAR((*out)[2].data<float>()[i], probability(static_cast<int>(value)) * static_cast<double>(n),
                0.01);
  }
  for (int v = 0; v < 5; ++v)
    EXPECT_NEAR(counts[static_cast<size_t>(v)] / static_cast<double>(n), probability(v), 0.02) << v;
  EXPECT_NEAR((*out)[1].data<float>()[1], probability(3) * static_cast<double>(n), 0.01);
}

TEST(CandidateTest, SamplersFollowTheirDistributions) {
  KernelRunner uniform("UniformCandidateSampler"), log_uniform("LogUniformCandidateSampler");
  ExpectDistribution(Prepare(uniform, 10000, false, 5), [](int) { return 0.2; });
  ExpectDistribution(Prepare(log_uniform, 10000, false, 5),
                     [](int v) { return std::log((v + 2.0) / (v + 1.0)) / std::log(6.0); });
  KernelRunner fixed("FixedUnigramCandidateSampler");
  Prepare(fixed, 10000, false, 5)
      .Attr("num_reserved_ids", int64_t{1})
      .Attr("distortion", 2.0f)
      .Attr("unigrams", std::vector<float>{1, 2, 3, 4});
  ExpectDistribution(fixed, [](int v) { return v * v / 30.0; });
}

TEST(CandidateTest, WhatOccursIsLearned) {
  for (const char* op : {"LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"}) {
    KernelRunner runner(op);
    Prepare(runner, 10000, false, 5).Input(Classes({4, 4, 4, 1, 4}, 1));
    auto first = runner.Run();
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_FLOAT_EQ((*first)[1].data<float>()[0], 2000);  // all equal so far
    auto second = runner.Run();
    ASSERT_TRUE(second.ok());
    EXPECT_FLOAT_EQ((*second)[1].data<float>()[0], 5000);  // 1 + 4 of 5 + 5
    EXPECT_FLOAT_EQ((*second)[1].data<float>()[3], 2000);
    double fours = 0;
    for (int i = 0; i < 10000; ++i) fours += (*second)[0].data<int64_t>()[i] == 4 ? 1 : 0;
    EXPECT_NEAR(fours / 10000, 0.5, 0.02);
  }
}

TEST(CandidateTest, UniqueCandidatesAreAllDifferent) {
  KernelRunner runner("LogUniformCandidateSampler");
  auto out = Prepare(runner, 50, true, 60).Input(Classes({0}, 1)).Run();
  ASSERT_TRUE(out.ok()) << out.status();
  const auto* values = (*out)[0].data<int64_t>();
  EXPECT_EQ(std::set<int64_t>(values, values + 50).size(), 50u);
  EXPECT_GT((*out)[1].data<float>()[0], 0.99f);  // the most probable class is almost surely among them
  EXPECT_LE((*out)[1].data<float>()[0], 1.0f);
  KernelRunner small("UniformCandidateSampler");
  EXPECT_EQ(Prepare(small, 6, true, 5).Input(Classes({0}, 1)).Run().status(),
            errors::InvalidArgument("Sampler's range is too small."));
  // Classes of weight 0 can't be drawn, so that the draws would never end.
  KernelRunner weights("FixedUnigramCandidateSampler");
  Prepare(weights, 3, true, 3).Attr("unigrams", std::vector<float>{1, 0, 2});
  EXPECT_EQ(weights.Input(Classes({0}, 1)).Run().status(),
            errors::InvalidArgument("Sampler's range is too small."));
}

TEST(CandidateTest, WeightsComeFromAFileToo) {
  const std::string path = testing::TempDir() + "vocabulary.csv";
  std::ofstream(path) << "word,1\nother,word,2\r\n3\n";
  KernelRunner runner("FixedUnigramCandidateSampler");
  Prepare(runner, 2000, false, 3).Attr("vocab_file", path);
  auto out = runner.Input(Classes({2}, 1)).Run();
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_FLOAT_EQ((*out)[1].data<float>()[0], 1000);
  std::ofstream(path) << "word,one\n";
  KernelRunner bad("FixedUnigramCandidateSampler");
  EXPECT_TRUE(errors::IsInvalidArgument(
      Prepare(bad, 2, false, 1).Attr("vocab_file", path).Input(Classes({0}, 1)).Run().status()));
  KernelRunner none("FixedUnigramCandidateSampler");
  EXPECT_EQ(Prepare(none, 2, false, 1).Input(Classes({0}, 1)).Run().status(),
            errors::InvalidArgument("Must provide either vocab_file or unigrams."));
}

TEST(CandidateTest, HugeSizesAreErrorsAtOnce) {
  KernelRunner shards("FixedUnigramCandidateSampler");
  Prepare(shards, 1, false, 1)
      .Attr("num_reserved_ids", int64_t{INT32_MAX})
      .Attr("num_shards", int64_t{INT64_MAX})
      .Attr("shard", int64_t{0})
      .Attr("unigrams", std::vector<float>{1});
  // The single class of the shard is reserved.
  EXPECT_EQ(shards.Input(Classes({0}, 1)).Run().status().message(), "No class has a weight above 0");
  KernelRunner ids("FixedUnigramCandidateSampler");
  Prepare(ids, 1, false, 1)
      .Attr("num_reserved_ids", int64_t{INT64_MAX})
      .Attr("num_shards", int64_t{INT64_MAX})
      .Attr("shard", int64_t{INT64_MAX})
      .Attr("unigrams", std::vector<float>{1});
  EXPECT_TRUE(errors::IsInvalidArgument(ids.Input(Classes({0}, 1)).Run().status()));
  for (const int64_t sampled : {int64_t{1} << 40, int64_t{1} << 61, INT64_MAX}) {
    KernelRunner all("AllCandidateSampler"), uniform("UniformCandidateSampler");
    all.Attr("num_true", int64_t{1}).Attr("num_sampled", sampled).Attr("unique", true);
    EXPECT_FALSE(all.Input(Classes({0}, 1)).Run().ok());
    Prepare(uniform, sampled, false, INT64_MAX);
    EXPECT_FALSE(uniform.Input(Classes({0}, 1)).Run().ok());
  }
}

TEST(CandidateTest, AllCandidatesAndAccidentalHits) {
  KernelRunner all("AllCandidateSampler");
  all.Attr("num_true", int64_t{2}).Attr("num_sampled", int64_t{3}).Attr("unique", true);
  auto out = all.Input(Classes({0, 1}, 2)).Run();
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE(TensorsEqual((*out)[0], Tensor::Vector<int64_t>({0, 1, 2})));
  EXPECT_EQ((*out)[1].shape(), TensorShape({1, 2}));
  KernelRunner hits("ComputeAccidentalHits");
  hits.Attr("num_true", int64_t{2})
      .Input(Classes({5, 6, 7, 8, 9, 5}, 2))
      .Input(Tensor::Vector<int64_t>({8, 5, 1}));
  out = hits.Run();
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE(TensorsEqual((*out)[0], Tensor::Vector<int32_t>({0, 1, 2})));
  EXPECT_TRUE(TensorsEqual((*out)[1], Tensor::Vector<int64_t>({1, 0, 1})));
  EXPECT_EQ((*out)[2].data<float>()[0], -std::numeric_limits<float>::max());
}

TEST(CandidateTest, PairsAreOfWordsWithinTheWindow) {
  const std::string path = testing::TempDir() + "text.txt";
  {
    std::ofstream text(path);
    for (int i = 0; i < 100; ++i) text << "a b\tc\n d ";
    text << "rare";
  }
  KernelRunner runner("Skipgram");
  runner.Attr("filename", path).Attr("batch_size", int64_t{3000}).Attr("window_size", int64_t{1});
  auto out = runner.Attr("subsample", 0.0f).Run();
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE(TensorsEqual((*out)[0], Tensor::Vector<std::string>({"UNK", "a", "b", "c", "d"})));
  EXPECT_TRUE(TensorsEqual((*out)[1], Tensor::Vector<int32_t>({1, 100, 100, 100, 100})));
  EXPECT_EQ((*out)[2].scalar<int64_t>(), 401);
  // Two sentences of 1000 words end in the fifth pass over the text. The first one has 1998 pairs: its ends
  // have one neighbour.
  EXPECT_EQ((*out)[3].scalar<int32_t>(), 4);
  EXPECT_EQ((*out)[4].scalar<int64_t>(), 1000 + 1 + 501);
  for (int i = 0; i < 3000; ++i) {
    const int example = (*out)[5].data<int32_t>()[i], label = (*out)[6].data<int32_t>()[i];
    // Neighbours in "a b c d", cyclically, or the rare word.
    if (example == 0 || label == 0) continue;
    EXPECT_TRUE((example - label + 4) % 4 == 1 || (label - example + 4) % 4 == 1) << example << " " << label;
  }
  KernelRunner few("Skipgram");
  few.Attr("filename", path).Attr("batch_size", int64_t{1}).Attr("window_size", int64_t{100});
  EXPECT_TRUE(errors::IsInvalidArgument(few.Run().status()));
}

TEST(CandidateTest, NegativeSamplingMovesPairsTogether) {
  Variable in(DataType::kFloat), away(DataType::kFloat);
  in.tensor() = Tensor::From<float>({1, 2, 0, 0}, TensorShape({2, 2}));
  away.tensor() = Tensor::From<float>({3, 1, 5, 6}, TensorShape({2, 2}));
  KernelRunner runner("NegTrain");
  // Word 1 is never a sample, and word 0 is the label: negative samples have no effect.
  runner.Attr("vocab_count", std::vector<int64_t>{5, 0}).Attr("num_negative_samples", int64_t{3});
  runner.RefInput(in).RefInput(away);
  runner.Input(Tensor::Vector<int32_t>({0})).Input(Tensor::Vector<int32_t>({0})).Input(Tensor::Scalar(0.5f));
  ASSERT_TRUE(runner.Run().ok());
  const double step = 0.5 / (std::exp(5.0) + 1);
  EXPECT_NEAR(in.tensor().data<float>()[0], 1 + 3 * step, 1e-6);
  EXPECT_NEAR(away.tensor().data<float>()[1], 1 + 2 * step, 1e-6);
  EXPECT_EQ(away.tensor().data<float>()[2], 5);
  KernelRunner sampled("NegTrain");
  sampled.Attr("vocab_count", std::vector<int64_t>{0, 5}).Attr("num_negative_samples", int64_t{1});
  sampled.RefInput(in).RefInput(away);
  sampled.Input(Tensor::Vector<int32_t>({0})).Input(Tensor::Vector<int32_t>({0})).Input(Tensor::Scalar(0.5f));
  const float before = away.tensor().data<float>()[2], x = in.tensor().data<float>()[0],
              y = in.tensor().data<float>()[1];
  ASSERT_TRUE(sampled.Run().ok());
  EXPECT_NEAR(away.tensor().data<float>()[2], before - 0.5 * x / (std::exp(-(5 * x + 6 * y)) + 1), 1e-5);
  KernelRunner outside("NegTrain");
  outside.Attr("vocab_count", std::vector<int64_t>{1, 5}).Attr("num_negative_samples", int64_t{1});
  outside.RefInput(in).RefInput(away);
  outside.Input(Tensor::Vector<int32_t>({2})).Input(Tensor::Vector<int32_t>({0})).Input(Tensor::Scalar(0.5f));
  EXPECT_EQ(outside.Run().status(), errors::InvalidArgument("Word 2 is not in [0, 2)"));
}

}  // namespace
}  // namespace millrace
