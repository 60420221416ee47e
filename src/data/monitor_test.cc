// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace millrace::data {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Stage = PipelineMonitor::Stage;

Stage Of(int reader, double own, double input, double waited = 0, double ahead = 0) {
  Stage stage;
  stage.reader = reader;
  stage.own = own;
  stage.input = input;
  stage.waited = waited;
  stage.ahead = ahead;
  stage.total = own + input + waited;
  return stage;
}

auto Near(double seconds) { return DoubleNear(seconds, 1e-9); }

TEST(DelaysTest, StagesOfOneThreadDelayByWhatTheyCompute) {
  const auto delays = PipelineMonitor::Delays({Of(-1, 1, 9), Of(0, 6, 3), Of(1, 3, 0)});
  EXPECT_THAT(delays, ElementsAre(Near(1), Near(6), Near(3)));
  EXPECT_EQ(PipelineMonitor::Bottleneck(delays), 1);
}

TEST(DelaysTest, WorkBehindABufferCountsAsFarAsItIsWaitedFor) {
  // The first stage computes for 9 of 10 seconds; in that time the prefetching thread spends 5 in its input,
  // 1 of which is waited for.
  const auto delays = PipelineMonitor::Delays({Of(-1, 9, 1), Of(0, 0, 0, 1, 5), Of(1, 5, 0)});
  EXPECT_THAT(delays, ElementsAre(Near(9), Near(0), Near(1)));
}

TEST(DelaysTest, ThreadsThatAreWaitedForAndDoNotReadDelayByThemselves) {
  // A parallel map: 8 seconds of waiting, 2 of which for reading.
  const auto delays = PipelineMonitor::Delays({Of(-1, 0, 0, 8, 2), Of(0, 2, 0)});
  EXPECT_THAT(delays, ElementsAre(Near(6), Near(2)));
  EXPECT_EQ(PipelineMonitor::Bottleneck(delays), 0);
}

TEST(DelaysTest, SeveralThreadsShareTheTimeOfTheirInputs) {
  // Four threads read for 5 seconds each, all of which are waited for.
  const auto delays = PipelineMonitor::Delays({Of(-1, 0, 0, 5, 20), Of(0, 20, 0)});
  EXPECT_THAT(delays, ElementsAre(Near(0), Near(5)));
}

TEST(DelaysTest, WithoutMeasurementsThereIsNoBottleneck) {
  EXPECT_EQ(PipelineMonitor::Bottleneck({}), -1);
  EXPECT_EQ(PipelineMonitor::Bottleneck({0, 0}), -1);
}

// Numbers up to a limit, or those of an input.
class Numbers final : public Dataset {
 public:
  Numbers(std::string kind, int64_t limit, RefPtr<const Dataset> input, bool makes_again)
      : Dataset(std::move(kind), {{DataType::kInt64}, {PartialShape({})}}),
        limit_(limit),
        input_(std::move(input)),
        makes_again_(makes_again) {}

 protected:
  class It final : public Iterator {
   public:
    explicit It(const Numbers& dataset, std::unique_ptr<Iterator> input)
        : dataset_(dataset), input_(std::move(input)) {}
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      if (at_++ == dataset_.limit_) {
        *end = true;
        return Status();
      }
      if (dataset_.makes_again_) {
        MR_ASSIGN_OR_RETURN(input_, dataset_.input_->NewIterator(ctx));
      }
      if (input_ != nullptr) return input_->GetNext(ctx, out, end);
      *out = {Tensor::Scalar(at_)};
      return Status();
    }
    bool MayWait(int64_t) const override { return false; }
    BufferFill fill() const override { return {at_, dataset_.input_ == nullptr ? 10 : 0}; }
    Status Save(Context&, StateWriter&) override { return Status(); }
    Status Restore(Context&, const StateReader&) override { return Status(); }

   private:
    const Numbers& dataset_;
    std::unique_ptr<Iterator> input_;
    int64_t at_ = 0;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    std::unique_ptr<Iterator> input;
    if (input_ != nullptr && !makes_again_) {
      MR_ASSIGN_OR_RETURN(input, input_->NewIterator(ctx));
    }
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this, std::move(input)));
  }

 private:
  const int64_t limit_;
  const RefPtr<const Dataset> input_;
  const bool makes_again_;
};

RefPtr<const Dataset> Make(std::string kind, std::string_view node, int64_t limit,
                           RefPtr<const Dataset> input = nullptr, bool makes_again = false) {
  auto dataset = MakeRef<Numbers>(std::move(kind), limit, std::move(input), makes_again);
  dataset->SetNode(node);
  return dataset;
}

int Drain(const RefPtr<const Dataset>& dataset) {
  CancellationManager cancellation;
  Context ctx;
  ctx.cancellation = &cancellation;
  const auto iterator = dataset->NewIterator(ctx);
  if (!iterator.ok()) return -1;
  int n = 0;
  for (bool end = false; !end; ++n) {
    Element element;
    if (!(*iterator)->GetNext(ctx, &element, &end).ok()) return -1;
  }
  return n - 1;
}

TEST(PipelineMonitorTest, StagesAreKnownByReaderNodeAndKind) {
  const auto monitor = std::make_shared<PipelineMonitor>();
  const auto pipeline = Make("Top", "top", 5, Make("Source", "source", 5));
  EXPECT_EQ(Drain(Monitored(pipeline, monitor)), 5);
  const auto stages = monitor->Stages();
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].kind, "Top");
  EXPECT_EQ(stages[0].node, "top");
  EXPECT_EQ(stages[0].reader, -1);
  EXPECT_EQ(stages[0].elements, 5);
  EXPECT_EQ(stages[0].capacity, 0);
  EXPECT_EQ(stages[1].node, "source");
  EXPECT_EQ(stages[1].reader, 0);
  EXPECT_EQ(stages[1].elements, 5);
  EXPECT_EQ(stages[1].capacity, 10);
  EXPECT_DOUBLE_EQ(stages[1].fill, 2);  // of 0 to 4
  EXPECT_GE(stages[0].total, stages[1].total);
  EXPECT_DOUBLE_EQ(stages[0].input, stages[1].total);
}

TEST(PipelineMonitorTest, IteratorsThatAreMadeAgainCountAsOneStage) {
  const auto monitor = std::make_shared<PipelineMonitor>();
  EXPECT_EQ(Drain(Monitored(Make("Top", "top", 5, Make("Source", "source", 5), true), monitor)), 5);
  const auto stages = monitor->Stages();
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[1].reader, 0);
  EXPECT_EQ(stages[1].elements, 5);
}

TEST(PipelineMonitorTest, TwoMonitorsOfOneDatasetCountForThemselves) {
  const auto a = std::make_shared<PipelineMonitor>(), b = std::make_shared<PipelineMonitor>();
  const auto pipeline = Make("Source", "source", 3);
  EXPECT_EQ(Drain(Monitored(pipeline, a)), 3);
  EXPECT_EQ(Drain(Monitored(pipeline, b)), 3);
  EXPECT_EQ(Drain(Monitored(pipeline, b)), 3);
  ASSERT_EQ(a->Stages().size(), 1u);
  ASSERT_EQ(b->Stages().size(), 1u);
  EXPECT_EQ(a->Stages()[0].elements, 3);
  EXPECT_EQ(b->Stages()[0].elements, 6);
}

TEST(PipelineMonitorTest, OtherIteratorsAreNotMeasured) {
  PipelineMonitor monitor;
  EXPECT_EQ(Drain(Make("Source", "source", 3)), 3);
  EXPECT_THAT(monitor.Stages(), IsEmpty());
}

}  // namespace
}  // namespace millrace::data
