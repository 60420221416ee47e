// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/message_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <optional>

#include "distributed/tensor_channels.h"
#include "tensorflow/core/protobuf/transport_options.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr int kElements = 1001;

Tensor Numbers() {
  std::vector<float> values(kElements);
  std::iota(values.begin(), values.end(), 0.f);
  return Tensor::Vector(values);
}

// Calls of RecvChunk are answered from the held tensors at once, unless `fail` returns an error.
class Loopback : public Transport {
 public:
  explicit Loopback(std::shared_ptr<HeldTensors> held) : held_(std::move(held)) {}
  void Start(RemoteCall call, Reply reply) override {
    EXPECT_EQ(call.task, "/job:w/replica:0/task:1");
    EXPECT_EQ(call.method, Method::kRecvChunk);
    const int number = calls++;
    if (change) {
      if (auto changed = change(number)) return reply(changed->status(), changed->value_or(MessageBytes()));
    }
    if (call.cancellation != nullptr && call.cancellation->IsCancelled())
      return reply(errors::Cancelled("RecvChunk was cancelled"), {});
    const auto bytes = ChunkOf(*held_, call.request);
    reply(bytes.status(), bytes.value_or(MessageBytes()));
  }
  int calls = 0;
  std::function<std::optional<StatusOr<MessageBytes>>(int number)> change;

 private:
  const std::shared_ptr<HeldTensors> held_;
};

class MessageChannelTest : public ::testing::Test {
 protected:
  std::unique_ptr<TensorChannels> Channels(int64_t min_bytes, int64_t chunk_bytes) {
    std::vector<std::unique_ptr<TensorChannel>> channels;
    channels.push_back(
        std::make_unique<MessageChannel>(transport_, MessageChannel::Options{min_bytes, chunk_bytes}));
    return std::make_unique<TensorChannels>(held_, std::move(channels));
  }
  // The offer for a receiver with these channels.
  StatusOr<std::optional<OfferedTensor>> Offer(TensorChannels& channels, const Tensor& tensor) {
    tensorflow::RecvTensorRequest request;
    channels.Introduce(&request);
    MR_ASSIGN_OR_RETURN(const auto response,
                        channels.Offer(TensorChannels::IntroductionsOf(&request), steps_, 1, tensor, 7));
    if (!response) return std::optional<OfferedTensor>();
    MR_ASSIGN_OR_RETURN(const ReceivedTensor received, TensorFromResponse(*response));
    return received.offer;
  }
  StatusOr<Tensor> Fetch(TensorChannels& channels, const OfferedTensor& offer) {
    StatusOr<Tensor> result = errors::Internal("done was not called");
    int answers = 0;
    channels.Fetch("/job:w/replica:0/task:1", offer, &cancellation_, [&](Status s, Tensor tensor, bool dead) {
      EXPECT_FALSE(dead);
      EXPECT_EQ(++answers, 1);
      if (s.ok()) {
        result = std::move(tensor);
      } else {
        result = std::move(s);
      }
    });
    return result;
  }
  StatusOr<Tensor> OfferAndFetch() {
    const auto channels = Channels(1, 1000);
    MR_ASSIGN_OR_RETURN(const auto offer, Offer(*channels, Numbers()));
    return Fetch(*channels, offer.value());
  }

  const std::shared_ptr<HeldTensors> held_ = HeldTensors::Make();
  Loopback transport_{held_};
  TaskSteps steps_{"/job:w/replica:0/task:1", nullptr};
  CancellationManager cancellation_;
};

TEST_F(MessageChannelTest, ChunksOfAnySizeGiveTheTensor) {
  for (const int64_t chunk :
       {int64_t{1}, int64_t{3}, int64_t{1000}, int64_t{4003}, int64_t{4004}, int64_t{1} << 40}) {
    const auto channels = Channels(1, chunk);
    const auto offer = Offer(*channels, Numbers());
    ASSERT_TRUE(offer.ok() && *offer) << offer.status();
    EXPECT_EQ((*offer)->channel, "messages");
    EXPECT_EQ((*offer)->num_bytes, 4 * kElements);
    EXPECT_EQ(held_->size(), 1u);
    transport_.calls = 0;
    const auto tensor = Fetch(*channels, **offer);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    ASSERT_EQ(tensor->shape(), TensorShape({kElements}));
    for (int i = 0; i < kElements; ++i) ASSERT_EQ(tensor->data<float>()[i], static_cast<float>(i));
    EXPECT_EQ(transport_.calls, chunk > 5000 ? 1 : (4 * kElements + chunk - 1) / chunk);
    EXPECT_EQ(held_->size(), 0u) << "what has been fetched is dropped";
  }
}

TEST_F(MessageChannelTest, SmallAndOddTensorsAreNotOffered) {
  const auto channels = Channels(4 * kElements, 1000);
  EXPECT_TRUE(Offer(*channels, Numbers())->has_value());
  const Tensor others[] = {Tensor::Scalar(1.f), Tensor::Vector<std::string>({std::string(9000, 'a')}),
                           Tensor(DataType::kBool, TensorShape({9000})), Tensor()};
  for (const Tensor& tensor : others) {
    const auto offer = Offer(*channels, tensor);
    ASSERT_TRUE(offer.ok()) << offer.status();
    EXPECT_FALSE(offer->has_value()) << tensor.ToString();
  }
}

TEST_F(MessageChannelTest, APeerThatListsNoChannelsGetsNoOffer) {
  const auto channels = Channels(1, 1000);
  tensorflow::RecvTensorRequest request;
  EXPECT_EQ(TensorChannels::IntroductionsOf(&request), "");
  request.mutable_transport_options()->set_type_url("type.googleapis.com/tensorflow.Other");
  request.mutable_transport_options()->set_value("abc");
  EXPECT_EQ(TensorChannels::IntroductionsOf(&request), "");
  EXPECT_FALSE(channels->Offer("", steps_, 1, Numbers(), 7)->has_value());
  EXPECT_TRUE(errors::IsInvalidArgument(channels->Offer("\xff", steps_, 1, Numbers(), 7).status()));
  tensorflow::TensorChannelList list;
  list.add_channel()->set_name("rdma");
  EXPECT_FALSE(channels->Offer(list.SerializeAsString(), steps_, 1, Numbers(), 7)->has_value());
}

TEST_F(MessageChannelTest, AnErrorBetweenChunksIsTheResult) {
  transport_.change = [](int number) -> std::optional<StatusOr<MessageBytes>> {
    if (number < 3) return std::nullopt;
    return errors::Unavailable("Task /job:w/replica:0/task:1 is gone");
  };
  const Status gone = OfferAndFetch().status();
  EXPECT_TRUE(errors::IsUnavailable(gone)) << gone;
  EXPECT_EQ(transport_.calls, 4) << "nothing is requested after an error";
  EXPECT_EQ(held_->size(), 1u);
  steps_.CleanUp(1);
  EXPECT_EQ(held_->size(), 0u);
}

TEST_F(MessageChannelTest, ChunksOfAnotherSizeAreErrors) {
  for (const size_t size : {0, 999, 1001}) {
    transport_.change = [&](int) { return MessageBytes(std::string(size, 'x')); };
    const Status status = OfferAndFetch().status();
    EXPECT_TRUE(errors::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(StrCat("has ", size)));
  }
}

TEST_F(MessageChannelTest, CancellationEndsTheTransfer) {
  transport_.change = [&](int number) -> std::optional<StatusOr<MessageBytes>> {
    if (number == 2) cancellation_.StartCancel();
    return std::nullopt;
  };
  EXPECT_TRUE(errors::IsCancelled(OfferAndFetch().status()));
}

TEST_F(MessageChannelTest, TheEndOfTheStepDropsTheTensor) {
  transport_.change = [&](int number) -> std::optional<StatusOr<MessageBytes>> {
    if (number == 2) steps_.CleanUp(1);
    return std::nullopt;
  };
  const Status status = OfferAndFetch().status();
  EXPECT_TRUE(errors::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("its step has ended"));
  EXPECT_TRUE(errors::IsAborted(Offer(*Channels(1, 1000), Numbers()).status())) << "it came late";
}

TEST_F(MessageChannelTest, WrongRequestsAreErrors) {
  const auto offer = Offer(*Channels(1, 1000), Numbers());
  ASSERT_TRUE(offer.ok());
  const auto chunk = [&](uint64_t ticket, int64_t offset, int64_t num_bytes) {
    tensorflow::RecvChunkRequest request;
    request.set_ticket(ticket);
    request.set_offset(offset);
    request.set_num_bytes(num_bytes);
    return ChunkOf(*held_, MessageBytes::Of(request)).status();
  };
  const uint64_t ticket = (*offer)->ticket;
  EXPECT_TRUE(errors::IsAborted(chunk(ticket + 1, 0, 1)));
  for (const auto& [offset, size] : {std::pair<int64_t, int64_t>{-1, 1},
                                     {0, 0},
                                     {0, -1},
                                     {0, 4005},
                                     {4004, 1},
                                     {4003, 2},
                                     {INT64_MAX, INT64_MAX},
                                     {0, INT64_MAX}})
    EXPECT_TRUE(errors::IsInvalidArgument(chunk(ticket, offset, size))) << offset << " " << size;
  EXPECT_TRUE(errors::IsInvalidArgument(ChunkOf(*held_, MessageBytes("\xff")).status()));
  EXPECT_EQ(chunk(ticket, 4003, 1), Status());
}

TEST_F(MessageChannelTest, OffersThatMakeNoSenseAreErrors) {
  const auto channels = Channels(1, 1000);
  OfferedTensor offer;
  offer.dtype = DataType::kFloat;
  offer.shape = TensorShape({3});
  offer.channel = "messages";
  for (const int64_t wrong : {-12, 0, 4, 11, 13, 24}) {
    offer.num_bytes = wrong;
    EXPECT_TRUE(errors::IsInternal(TensorFromResponse(OfferToResponse(offer, 1)).status())) << wrong;
  }
  offer.num_bytes = 12;
  EXPECT_TRUE(TensorFromResponse(OfferToResponse(offer, 1)).ok());
  offer.shape = TensorShape({int64_t{1} << 60});
  offer.num_bytes = INT64_MAX;
  EXPECT_FALSE(TensorFromResponse(OfferToResponse(offer, 1)).ok());
  offer.dtype = DataType::kUint8;
  offer.num_bytes = int64_t{1} << 60;
  const auto huge = TensorFromResponse(OfferToResponse(offer, 1));
  ASSERT_TRUE(huge.ok()) << huge.status();
  EXPECT_FALSE(Fetch(*channels, *huge->offer).ok());
  offer.channel = "rdma";
  EXPECT_TRUE(errors::IsInternal(Fetch(*channels, offer).status()));
  offer.dtype = DataType::kString;
  EXPECT_TRUE(errors::IsInternal(TensorFromResponse(OfferToResponse(offer, 1)).status()));
}

}  // namespace
}  // namespace millrace
