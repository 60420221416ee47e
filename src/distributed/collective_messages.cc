// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/collective_messages.h"

#include <climits>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "base/notification.h"
#include "step/worker.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/transport_options.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

// GetStepSequence does not wait; its answer takes only the time of messages.
constexpr int64_t kSequenceTimeoutMs = 30'000;

template <typename Message>
Status Parse(Method method, const MessageBytes& bytes, Message* message) {
  if (bytes.ParseInto(message)) return Status();
  return errors::InvalidArgument("The message of ", MethodName(method), " cannot be read");
}

StatusOr<Tensor> BufferFromResponse(const CollectivePeers::Buffer& wanted, const MessageBytes& bytes) {
  tensorflow::RecvBufResponse response;
  MR_RETURN_IF_ERROR(Parse(Method::kRecvBuf, bytes, &response));
  tensorflow::RecvBufRespExtra extra;
  if (!response.transport_options().UnpackTo(&extra) && response.num_bytes() > 0)
    return errors::Internal("RecvBuf of ", wanted.key, " returned no bytes");
  MR_ASSIGN_OR_RETURN(Tensor buffer, Tensor::Allocate(wanted.dtype, TensorShape({wanted.num_elements})));
  size_t size = 0;
  for (const std::string& part : extra.tensor_content()) size += part.size();
  if (size != buffer.num_bytes()) {
    return errors::Internal("RecvBuf of ", wanted.key, " returned ", size, " bytes, expected ",
                            buffer.num_bytes());
  }
  char* to = static_cast<char*>(buffer.raw_data());
  for (const std::string& part : extra.tensor_content()) {
    // NOLINTNEXTLINE(bugprone-not-null-terminated-result): elements, not text
    std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  return buffer;
}

// A call that waits for other members. It is answered once: with the result, or because its caller has
// cancelled it.
class WaitingCall : public RefCounted {
 public:
  static RefPtr<WaitingCall> Make(Method method, CancellationManager& caller, Reply reply) {
    RefPtr<WaitingCall> call = MakeRef<WaitingCall>(caller, std::move(reply));
    const auto gone = [call, method] {
      call->Answer(errors::Cancelled(MethodName(method), " was cancelled"), {});
    };
    const auto token = caller.Register(gone);
    if (token == CancellationManager::kInvalidToken) {
      gone();
    } else {
      MutexLock lock(call->mu_);
      call->token_ = token;
    }
    return call;
  }
  WaitingCall(CancellationManager& caller, Reply reply) : caller_(caller), reply_(std::move(reply)) {}
  void Answer(Status status, MessageBytes response) MR_EXCLUDES(mu_) {
    Reply reply;
    {
      MutexLock lock(mu_);
      if (std::exchange(answered_, true)) return;
      if (token_ != CancellationManager::kInvalidToken) caller_.TryDeregister(token_);
      reply = std::move(reply_);
    }
    reply(std::move(status), std::move(response));
  }

 private:
  CancellationManager& caller_;  // valid until the reply
  Mutex mu_;
  bool answered_ MR_GUARDED_BY(mu_) = false;
  CancellationManager::Token token_ MR_GUARDED_BY(mu_) = CancellationManager::kInvalidToken;
  Reply reply_ MR_GUARDED_BY(mu_);
};

void RecvBuf(TaskCollectives& collectives, const DeviceSet& devices, RecentRequests& recent,
             const MessageBytes& bytes, CancellationManager& cancellation, Reply reply) {
  tensorflow::RecvBufRequest request;
  if (Status s = Parse(Method::kRecvBuf, bytes, &request); !s.ok()) return reply(std::move(s), {});
  if (Status s = recent.CheckNew(request.request_id(), "RecvBuf (GrpcWorker)", request); !s.ok())
    return reply(std::move(s), {});
  const Device* const device = devices.Find(request.src_device());
  if (device == nullptr)
    return reply(errors::InvalidArgument("RecvBuf: no device '", request.src_device(), "' here"), {});
  const uint64_t incarnation = device->attributes().incarnation;
  if (request.src_incarnation() != 0 && request.src_incarnation() != incarnation) {
    return reply(
        errors::FailedPrecondition(
            "RecvBuf expects a different device incarnation: ", request.src_incarnation(), " vs. ",
            incarnation, ". Your worker job that contains the device (\"", request.src_device(),
            "\") was probably restarted. Check your worker job for the reason why it was restarted."),
        {});
  }
  const RefPtr<WaitingCall> call = WaitingCall::Make(Method::kRecvBuf, cancellation, std::move(reply));
  collectives.FetchHere(
      request.step_id(), request.buf_rendezvous_key(), request.src_device(), request.dst_device(),
      [call, wanted = request.num_bytes()](const Status& status, const Tensor& buffer) {
        if (!status.ok()) return call->Answer(status, {});
        const auto size = static_cast<int64_t>(buffer.num_bytes());
        if (size != wanted) {
          return call->Answer(
              errors::Internal("RecvBuf requests ", wanted, " bytes, but the buffer has ", size), {});
        }
        tensorflow::RecvBufRespExtra extra;
        extra.add_tensor_content(buffer.raw_data(), buffer.num_bytes());
        tensorflow::RecvBufResponse response;
        response.set_num_bytes(size);
        response.mutable_transport_options()->PackFrom(extra);
        if (response.ByteSizeLong() > INT_MAX) {
          return call->Answer(
              errors::ResourceExhausted("A buffer of ", size, " bytes exceeds the size of a message"), {});
        }
        call->Answer(Status(), MessageBytes::Of(response));
      });
}

void CompleteGroup(TaskCollectives& collectives, const MessageBytes& bytes, CancellationManager& cancellation,
                   Reply reply) {
  tensorflow::CompleteGroupRequest request;
  if (Status s = Parse(Method::kCompleteGroup, bytes, &request); !s.ok()) return reply(std::move(s), {});
  if (request.device_name_size() != 1)
    return reply(errors::InvalidArgument("CompleteGroup must have exactly one device, got ",
                                         request.device_name_size()),
                 {});
  CollectiveMember member;
  member.name = "of another task";
  member.group_key = request.group_key();
  member.group_size = request.group_size();
  member.device_type = request.device_type();
  member.device = request.device_name(0);
  const RefPtr<WaitingCall> call = WaitingCall::Make(Method::kCompleteGroup, cancellation, std::move(reply));
  collectives.groups().CompleteGroup(member,
                                     [call, member](const StatusOr<std::vector<std::string>>& devices) {
                                       if (!devices.ok()) return call->Answer(devices.status(), {});
                                       tensorflow::CompleteGroupResponse response;
                                       response.set_group_key(member.group_key);
                                       response.set_group_size(member.group_size);
                                       response.set_device_type(member.device_type);
                                       std::set<std::string> tasks;
                                       for (const std::string& device : *devices) {
                                         const std::string task = device.substr(0, device.find("/device:"));
                                         response.add_device_name(device);
                                         response.add_task_name(task);
                                         tasks.insert(task);
                                       }
                                       response.set_num_tasks(static_cast<int32_t>(tasks.size()));
                                       call->Answer(Status(), MessageBytes::Of(response));
                                     });
}

void CompleteInstance(TaskCollectives& collectives, const MessageBytes& bytes,
                      CancellationManager& cancellation, Reply reply) {
  tensorflow::CompleteInstanceRequest request;
  if (Status s = Parse(Method::kCompleteInstance, bytes, &request); !s.ok()) return reply(std::move(s), {});
  const auto dtype = DataTypeFromProto(request.data_type());
  if (!dtype.ok()) return reply(dtype.status(), {});
  auto shape = ShapeFromProto(request.shape());
  if (!shape.ok()) return reply(std::move(shape).status(), {});
  CollectiveMember member;
  member.name = request.name();
  member.kind = static_cast<CollectiveMember::Kind>(request.type());
  member.dtype = *dtype;
  member.shape = *std::move(shape);
  member.group_key = request.group_key();
  member.group_size = request.group_size();
  member.instance_key = request.instance_key();
  member.device_type = request.device_type();
  member.device = request.device();
  member.is_source = request.is_source();
  const RefPtr<WaitingCall> call =
      WaitingCall::Make(Method::kCompleteInstance, cancellation, std::move(reply));
  collectives.groups().CompleteInstance(member,
                                        [call, key = member.instance_key](const StatusOr<int>& source) {
                                          if (!source.ok()) return call->Answer(source.status(), {});
                                          tensorflow::CompleteInstanceResponse response;
                                          response.set_instance_key(key);
                                          response.set_source_rank(*source);
                                          call->Answer(Status(), MessageBytes::Of(response));
                                        });
}

void GetStepSequence(TaskCollectives& collectives, const MessageBytes& bytes, Reply reply) {
  tensorflow::GetStepSequenceRequest request;
  if (Status s = Parse(Method::kGetStepSequence, bytes, &request); !s.ok()) return reply(std::move(s), {});
  const StepTaker taker{request.task(), static_cast<int64_t>(request.incarnation()), request.last_step(),
                        request.last_step_failed()};
  tensorflow::GetStepSequenceResponse response;
  for (const int64_t key : request.graph_key()) {
    tensorflow::StepSequence* const sequence = response.add_step_sequence();
    sequence->set_graph_key(key);
    if (request.task().empty()) {
      sequence->set_next_step_id(collectives.sequences().Next(key));
    } else {
      sequence->set_next_step_id(collectives.sequences().Next(key, taker));
      sequence->set_for_task(true);
    }
  }
  reply(Status(), MessageBytes::Of(response));
}

}  // namespace

void TransportCollectivePeers::Fetch(const Buffer& buffer, CancellationManager& cancellation,
                                     StepCollectives::Fetched done) {
  tensorflow::RecvBufRequest request;
  request.set_step_id(buffer.step_id);
  request.set_buf_rendezvous_key(buffer.key);
  request.set_num_bytes(buffer.num_elements * static_cast<int64_t>(DataTypeSize(buffer.dtype)));
  request.set_src_device(std::string(buffer.from));
  request.set_dst_device(std::string(buffer.to));
  request.set_request_id(StepIds::NextShared());
  RemoteCall call{std::string(buffer.from.substr(0, buffer.from.find("/device:"))), Method::kRecvBuf,
                  MessageBytes::Of(request)};
  call.cancellation = &cancellation;
  Buffer wanted = buffer;
  wanted.from = wanted.to = {};
  transport_.Start(std::move(call), [wanted, finish = std::move(done)](const Status& status,
                                                                       const MessageBytes& bytes) mutable {
    if (!status.ok()) return finish(status, Tensor());
    StatusOr<Tensor> received = BufferFromResponse(wanted, bytes);
    if (!received.ok()) return finish(std::move(received).status(), Tensor());
    finish(Status(), *std::move(received));
  });
}

void TransportCollectivePeers::CompleteGroup(std::string_view leader, const CollectiveMember& member,
                                             CancellationManager& cancellation,
                                             CollectiveGroups::Completed done) {
  tensorflow::CompleteGroupRequest request;
  request.set_group_key(member.group_key);
  request.set_group_size(member.group_size);
  request.set_device_type(member.device_type);
  request.add_device_name(member.device);
  request.set_collective_type(static_cast<int32_t>(member.kind));
  RemoteCall call{std::string(leader), Method::kCompleteGroup, MessageBytes::Of(request)};
  call.cancellation = &cancellation;
  transport_.Start(
      std::move(call), [finish = std::move(done)](Status status, const MessageBytes& bytes) mutable {
        tensorflow::CompleteGroupResponse response;
        if (status.ok()) status = Parse(Method::kCompleteGroup, bytes, &response);
        if (!status.ok()) return finish(std::move(status));
        finish(std::vector<std::string>(response.device_name().begin(), response.device_name().end()));
      });
}

void TransportCollectivePeers::CompleteInstance(std::string_view leader, const CollectiveMember& member,
                                                CancellationManager& cancellation,
                                                CollectiveGroups::Source done) {
  tensorflow::CompleteInstanceRequest request;
  request.set_name(member.name);
  request.set_type(static_cast<int32_t>(member.kind));
  request.set_data_type(DataTypeToProto(member.dtype));
  ShapeToProto(member.shape, request.mutable_shape());
  request.set_group_key(member.group_key);
  request.set_group_size(member.group_size);
  request.set_instance_key(member.instance_key);
  request.set_device_type(member.device_type);
  request.set_device(member.device);
  request.set_is_source(member.is_source);
  RemoteCall call{std::string(leader), Method::kCompleteInstance, MessageBytes::Of(request)};
  call.cancellation = &cancellation;
  transport_.Start(std::move(call),
                   [finish = std::move(done)](Status status, const MessageBytes& bytes) mutable {
                     tensorflow::CompleteInstanceResponse response;
                     if (status.ok()) status = Parse(Method::kCompleteInstance, bytes, &response);
                     if (!status.ok()) return finish(std::move(status));
                     finish(static_cast<int>(response.source_rank()));
                   });
}

StatusOr<CollectivePeers::NumberedStep> TransportCollectivePeers::NextStep(std::string_view leader,
                                                                           int64_t graph_key,
                                                                           const StepTaker& taker) {
  tensorflow::GetStepSequenceRequest request;
  request.add_graph_key(graph_key);
  request.set_task(taker.task);
  request.set_incarnation(static_cast<uint64_t>(taker.incarnation));
  request.set_last_step(taker.last);
  request.set_last_step_failed(taker.last_failed);
  RemoteCall call{std::string(leader), Method::kGetStepSequence, MessageBytes::Of(request)};
  call.timeout_in_ms = kSequenceTimeoutMs;
  Status status;
  MessageBytes bytes;
  Notification answered;
  transport_.Start(std::move(call), [&](Status s, MessageBytes b) {
    status = std::move(s);
    bytes = std::move(b);
    answered.Notify();
  });
  answered.Wait();
  tensorflow::GetStepSequenceResponse response;
  MR_RETURN_IF_ERROR(status);
  MR_RETURN_IF_ERROR(Parse(Method::kGetStepSequence, bytes, &response));
  if (response.step_sequence_size() != 1 || response.step_sequence(0).graph_key() != graph_key)
    return errors::Internal("GetStepSequence of ", leader, " does not have the requested step");
  return NumberedStep{response.step_sequence(0).next_step_id(), response.step_sequence(0).for_task()};
}

void HandleCollective(TaskCollectives& collectives, const DeviceSet& devices, RecentRequests& recent,
                      Method method, const MessageBytes& request, CancellationManager& cancellation,
                      Reply reply) {
  switch (method) {
    case Method::kRecvBuf:
      return RecvBuf(collectives, devices, recent, request, cancellation, std::move(reply));
    case Method::kCompleteGroup:
      return CompleteGroup(collectives, request, cancellation, std::move(reply));
    case Method::kCompleteInstance:
      return CompleteInstance(collectives, request, cancellation, std::move(reply));
    default:
      return GetStepSequence(collectives, request, std::move(reply));
  }
}

}  // namespace millrace
