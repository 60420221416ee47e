// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/tensor_channels.h"

#include <utility>

#include "distributed/message_channel.h"
#include "tensorflow/core/protobuf/transport_options.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

constexpr char kIntroductions[] = "type.googleapis.com/tensorflow.TensorChannelList";

}  // namespace

TensorChannels::TensorChannels(std::shared_ptr<HeldTensors> held,
                               std::vector<std::unique_ptr<TensorChannel>> channels, Traffic* traffic)
    : held_(std::move(held)), channels_(std::move(channels)), traffic_(traffic) {
  tensorflow::TensorChannelList list;
  for (const auto& channel : channels_) {
    tensorflow::TensorChannelList::Channel* const listed = list.add_channel();
    listed->set_name(std::string(channel->name()));
    listed->set_introduction(channel->Introduction());
  }
  introductions_ = list.SerializeAsString();
}

void TensorChannels::Introduce(tensorflow::RecvTensorRequest* request) const {
  if (channels_.empty()) return;
  request->mutable_transport_options()->set_type_url(kIntroductions);
  request->mutable_transport_options()->set_value(introductions_);
}

std::string TensorChannels::IntroductionsOf(tensorflow::RecvTensorRequest* request) {
  if (request->transport_options().type_url() != kIntroductions) return "";
  return std::move(*request->mutable_transport_options()->mutable_value());
}

TensorChannel* TensorChannels::Find(std::string_view name) const {
  for (const auto& channel : channels_) {
    if (channel->name() == name) return channel.get();
  }
  return nullptr;
}

StatusOr<std::optional<MessageBytes>> TensorChannels::Offer(std::string_view introductions, TaskSteps& steps,
                                                            int64_t step_id, const Tensor& tensor,
                                                            int64_t send_start_us) {
  if (introductions.empty() || !IsSentAsBytes(tensor)) return std::optional<MessageBytes>();
  tensorflow::TensorChannelList list;
  if (!list.ParseFromArray(introductions.data(), static_cast<int>(introductions.size())))
    return errors::InvalidArgument("The transport_options of RecvTensor are not a message");
  const auto num_bytes = static_cast<int64_t>(tensor.num_bytes());
  for (const auto& channel : channels_) {
    for (const tensorflow::TensorChannelList::Channel& peer : list.channel()) {
      if (peer.name() != channel->name()) continue;
      std::optional<std::string> address = channel->AddressFor(peer.introduction(), num_bytes);
      if (!address) continue;
      MR_ASSIGN_OR_RETURN(const RefPtr<TaskSteps::Step> step, steps.Find(step_id));
      OfferedTensor offer;
      offer.dtype = tensor.dtype();
      offer.shape = tensor.shape();
      offer.channel = std::string(channel->name());
      offer.address = *std::move(address);
      offer.num_bytes = num_bytes;
      MR_ASSIGN_OR_RETURN(offer.ticket, held_->Hold(*step, tensor));
      if (traffic_ != nullptr && channel->name() != MessageChannel::kName) traffic_->AddSent(num_bytes);
      return std::optional<MessageBytes>(OfferToResponse(offer, send_start_us));
    }
  }
  return std::optional<MessageBytes>();
}

void TensorChannels::Fetch(std::string_view task, const OfferedTensor& offer,
                           CancellationManager* cancellation, Rendezvous::RecvDone done) {
  TensorChannel* const channel = Find(offer.channel);
  if (channel == nullptr) {
    return done(errors::Internal("Task ", task, " offers a tensor by ", offer.channel,
                                 ", which this task does not have"),
                Tensor(), false);
  }
  TensorFetch fetch{std::string(task), offer.address,   offer.ticket, offer.dtype,
                    offer.shape,       offer.num_bytes, cancellation, {}};
  Traffic* const traffic = channel->name() == MessageChannel::kName ? nullptr : traffic_;
  fetch.done = [traffic, finish = std::move(done)](StatusOr<Tensor> tensor) mutable {
    if (!tensor.ok()) return finish(std::move(tensor).status(), Tensor(), false);
    if (traffic != nullptr) traffic->AddReceived(static_cast<int64_t>(tensor->num_bytes()));
    finish(Status(), *std::move(tensor), false);
  };
  channel->Fetch(std::move(fetch));
}

void TensorChannels::Stop() {
  for (const auto& channel : channels_) channel->Stop();
}

}  // namespace millrace
