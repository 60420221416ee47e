// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages between two processes of one machine, and steps on both. The other process is forked at the start.
//
//   recv_tensor/BYTES     RecvTensor of a tensor of this size in one message (counter bytes_per_second)
//   recv_chunks/BYTES     the same in chunks, each a message
//   recv_socket/BYTES     the same through TCP connections beside gRPC
//   recv_shared/BYTES     the same through shared memory
//   bare_unary/BYTES      their baseline: a synchronous unary call of gRPC whose response has this size
//   raw_tcp/BYTES         this number of bytes through a socket into a reused buffer
//   memcpy/BYTES          the cost of a copy of this size
//   step_empty/TASKS      a step of one NoOp at each of TASKS tasks, this one included, by calls to the
//                         master of this process
//   step_feed_fetch       a step that feeds and fetches one float
//   step_direct           a feed and a fetch in a direct session
//   step_own_task         the same in a session whose target is the server of this process
//   softmax_direct        a step of softmax regression on 100 digits in a direct session
//   softmax_ps            the same with its variables at the other process
//
// With --simulate: a master with 10 to 10,000 tasks that answer and compute nothing, see simulate.h.
#include <benchmark/benchmark.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/impl/codegen/method_handler.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <thread>

#include "base/notification.h"
#include "cluster/simulate.h"
#include "distributed/free_port_testing.h"
#include "distributed/message_channel.h"
#include "distributed/remote_worker.h"
#include "distributed/shared_memory_channel.h"
#include "distributed/socket_channel.h"
#include "distributed/tensor_channels.h"
#include "distributed/tensor_message.h"
#include "millrace/cluster.h"
#include "proto/message_types.h"
#include "rpc/grpc_listener.h"
#include "rpc/grpc_transport.h"
#include "rpc/register.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

// Tasks of the cluster; all but the first one are in the other process.
constexpr int kTasks = 8;

struct Ports {
  int tasks[kTasks] = {};
  int tensors = 0, bare = 0, raw = 0;
};
Ports ports;

void Die(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

ServerOptions Options(int task) {
  ServerOptions options;
  for (int i = 0; i < kTasks; ++i) Die(options.cluster.AddTask("w", i, StrCat("localhost:", ports.tasks[i])));
  options.job = "w";
  options.task = task;
  return options;
}

// ---- The other process

// Answers a call with the number of bytes that its request contains.
class BareService : public grpc::Service {
 public:
  BareService() {
    AddMethod(new grpc::internal::RpcServiceMethod(
        "/bench.Bare/Call", grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::RpcMethodHandler<BareService, grpc::ByteBuffer, grpc::ByteBuffer>(
            [](BareService* service, grpc::ServerContext*, const grpc::ByteBuffer* request,
               grpc::ByteBuffer* response) {
              grpc::Slice slice;
              if (!request->TrySingleSlice(&slice).ok()) return grpc::Status::CANCELLED;
              const std::string text(reinterpret_cast<const char*>(slice.begin()), slice.size());
              std::string& bytes = text.size() > 3 ? service->large_ : service->small_;
              bytes.resize(static_cast<size_t>(std::atoll(text.c_str())));
              grpc::Slice out(bytes.data(), bytes.size(), grpc::Slice::STATIC_SLICE);
              *response = grpc::ByteBuffer(&out, 1);
              return grpc::Status::OK;
            },
            this)));
  }

 private:
  std::string small_, large_;
};

enum class Way { kMessage, kChunks, kSocket, kShared, kAll };

// The channels for large tensors at one end.
std::unique_ptr<TensorChannels> Channels(Transport& transport, std::shared_ptr<HeldTensors> held, Way way) {
  std::vector<std::unique_ptr<TensorChannel>> channels;
  auto messages = std::make_unique<MessageChannel>(transport, MessageChannel::Options{0, 4 << 20});
  if (way == Way::kShared || way == Way::kAll) {
    channels.push_back(std::make_unique<SharedMemoryChannel>(
        held, *messages, SharedMemoryChannel::Options{.max_bytes = 1 << 30}));
  }
  if (way == Way::kSocket || way == Way::kAll) {
    channels.push_back(std::make_unique<SocketChannel>(
        held, *messages, SocketChannel::Options{.peers = {{"there", StrCat("localhost:", ports.tensors)}}}));
  }
  channels.push_back(std::move(messages));
  return std::make_unique<TensorChannels>(std::move(held), std::move(channels));
}

// Answers RecvTensor and RecvChunk as a task does.
class TensorService {
 public:
  void Handle(Method method, const MessageBytes& bytes, Reply reply) {
    if (method == Method::kRecvChunk) {
      const auto chunk = ChunkOf(*held_, bytes);
      return reply(chunk.status(), chunk.value_or(MessageBytes()));
    }
    tensorflow::RecvTensorRequest request;
    if (method != Method::kRecvTensor || !bytes.ParseInto(&request)) return reply(Status(), {});
    const auto size = static_cast<size_t>(std::atoll(request.rendezvous_key().c_str()));
    Tensor& tensor = tensors_[size];
    if (tensor.num_bytes() != size) {
      tensor = Tensor(DataType::kUint8, TensorShape({static_cast<int64_t>(size)}));
      std::memset(tensor.raw_data(), 1, size);
    }
    const std::string channels = TensorChannels::IntroductionsOf(&request);
    if (!channels.empty()) {
      steps_.CleanUp(request.step_id() - 1);
      auto offer = channels_->Offer(channels, steps_, request.step_id(), tensor, 1);
      Die(offer.status());
      if (*offer) return reply(Status(), **std::move(offer));
    }
    const auto response = TensorToResponse(tensor, false, 1);
    reply(response.status(), response.value_or(MessageBytes()));
  }

 private:
  const std::shared_ptr<Transport> transport_ = *ConnectWithGrpc({}, {});
  const std::shared_ptr<HeldTensors> held_ = HeldTensors::Make();
  const std::unique_ptr<TensorChannels> channels_ = Channels(*transport_, held_, Way::kAll);
  TaskSteps steps_{"there", nullptr};
  std::map<size_t, Tensor> tensors_;
};

int ListenOn(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  Die(bound && ::listen(fd, 8) == 0 ? Status() : errors::Internal("raw_tcp: no socket"));
  return fd;
}

// Reads numbers, and writes that many bytes for each.
void ServeRawTcp(int listening) {
  std::string bytes;
  while (true) {
    const int fd = ::accept(listening, nullptr, nullptr);
    int64_t wanted = 0;
    while (fd >= 0 && ::recv(fd, &wanted, sizeof(wanted), MSG_WAITALL) == sizeof(wanted)) {
      bytes.resize(static_cast<size_t>(wanted));
      for (size_t sent = 0; sent < bytes.size();) {
        const ssize_t more = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (more <= 0) break;
        sent += static_cast<size_t>(more);
      }
    }
    ::close(fd);
  }
}

void RunOtherProcess() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<std::unique_ptr<Server>> servers;
  for (int i = 1; i < kTasks; ++i) {
    auto server = Server::Make(Options(i));
    Die(server.status());
    Die((*server)->Start());
    servers.push_back(*std::move(server));
  }
  TensorService tensors;
  auto listener = ListenWithGrpc(StrCat("127.0.0.1:", ports.tensors), {});
  Die(listener.status());
  (*listener)->Start([&tensors](Method method, const MessageBytes& bytes, int64_t, CancellationManager&,
                                Reply reply) { tensors.Handle(method, bytes, std::move(reply)); });
  std::thread([fd = ListenOn(ports.raw)] { ServeRawTcp(fd); }).detach();
  BareService bare;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddListeningPort(StrCat("127.0.0.1:", ports.bare), grpc::InsecureServerCredentials());
  builder.RegisterService(&bare);
  const auto bare_server = builder.BuildAndStart();
  Die(servers[0]->Join());
}

// ---- Messages

void RecvTensors(benchmark::State& state, Way way) {
  const std::string task = "there";
  const auto transport = *ConnectWithGrpc({{task, StrCat("localhost:", ports.tensors)}}, {});
  const auto channels = Channels(*transport, HeldTensors::Make(), way);
  const Rendezvous::Key key{StrCat(state.range(0)), 1};
  static int64_t step_id = 0;
  for (auto _ : state) {
    Notification answered;
    RecvTensorFrom(*transport, way == Way::kMessage ? nullptr : channels.get(), task, ++step_id, key, nullptr,
                   [&](const Status& status, const Tensor& tensor, bool) {
                     Die(status);
                     benchmark::DoNotOptimize(tensor.raw_data());
                     answered.Notify();
                   });
    answered.Wait();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
  channels->Stop();
}
void BM_RecvTensor(benchmark::State& state) { RecvTensors(state, Way::kMessage); }
BENCHMARK(BM_RecvTensor)
    ->Name("recv_tensor")
    ->Arg(8)
    ->Arg(64 << 10)
    ->Arg(256 << 10)
    ->Arg(64 << 20)
    ->UseRealTime();
void BM_RecvChunks(benchmark::State& state) { RecvTensors(state, Way::kChunks); }
BENCHMARK(BM_RecvChunks)->Name("recv_chunks")->Arg(64 << 20)->UseRealTime();
void BM_RecvSocket(benchmark::State& state) { RecvTensors(state, Way::kSocket); }
BENCHMARK(BM_RecvSocket)
    ->Name("recv_socket")
    ->Arg(64 << 10)
    ->Arg(256 << 10)
    ->Arg(1 << 20)
    ->Arg(64 << 20)
    ->UseRealTime();
void BM_RecvShared(benchmark::State& state) { RecvTensors(state, Way::kShared); }
BENCHMARK(BM_RecvShared)->Name("recv_shared")->Arg(256 << 10)->Arg(1 << 20)->Arg(64 << 20)->UseRealTime();

void BM_RawTcp(benchmark::State& state) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(ports.raw));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return state.SkipWithError("no connection");
  const int64_t size = state.range(0);
  std::string buffer(static_cast<size_t>(size), 'a');
  for (auto _ : state) {
    ::send(fd, &size, sizeof(size), MSG_NOSIGNAL);
    for (size_t got = 0; got < buffer.size();) {
      const ssize_t more = ::recv(fd, buffer.data() + got, buffer.size() - got, 0);
      if (more <= 0) return state.SkipWithError("the connection is closed");
      got += static_cast<size_t>(more);
    }
  }
  ::close(fd);
  state.SetBytesProcessed(state.iterations() * size);
}
BENCHMARK(BM_RawTcp)->Name("raw_tcp")->Arg(64 << 20)->UseRealTime();

void BM_BareUnary(benchmark::State& state) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  const auto channel = grpc::CreateCustomChannel(StrCat("localhost:", ports.bare),
                                                 grpc::InsecureChannelCredentials(), arguments);
  const grpc::internal::RpcMethod method("/bench.Bare/Call", grpc::internal::RpcMethod::NORMAL_RPC);
  const std::string text = StrCat(state.range(0));
  const grpc::Slice slice(text);
  const grpc::ByteBuffer request(&slice, 1);
  for (auto _ : state) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    grpc::ByteBuffer response;
    const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
        channel.get(), method, &context, request, &response);
    if (!status.ok()) return state.SkipWithError(status.error_message().c_str());
    benchmark::DoNotOptimize(response.Length());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_BareUnary)->Name("bare_unary")->Arg(8)->Arg(64 << 20)->UseRealTime();

void BM_Memcpy(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  std::string from(size, 'a'), to(size, 'b');
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), size);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Memcpy)->Name("memcpy")->Arg(64 << 20)->UseRealTime();

// ---- Steps

std::string here_target;

std::string DeviceOf(int task) { return StrCat("/job:w/task:", task); }

tensorflow::GraphDef GraphOf(const std::string& text) {
  tensorflow::GraphDef graph;
  TextError error;
  if (!ParseMessageText(text, UnknownFields::kRefused, &graph, &error))
    Die(errors::InvalidArgument(error.ToString()));
  return graph;
}

// A session on the first `tasks` of the cluster; 0: a direct one.
std::unique_ptr<Session> MakeSession(int tasks, const tensorflow::GraphDef& graph) {
  SessionOptions options;
  if (tasks > 0) options.target = here_target;
  for (int i = 0; i < tasks; ++i) options.device_filters.push_back(DeviceOf(i));
  auto session = NewSession(options);
  Die(session.status());
  Die((*session)->Create(graph));
  return *std::move(session);
}

void BM_StepEmpty(benchmark::State& state) {
  const auto tasks = static_cast<int>(state.range(0));
  std::string graph;
  CallableOptions wanted;
  for (int i = 0; i < tasks; ++i) {
    graph += StrCat("node { name: 'n", i, "' op: 'NoOp' device: '", DeviceOf(i), "' }");
    wanted.targets.push_back(StrCat("n", i));
  }
  const auto session = MakeSession(tasks, GraphOf(graph));
  const auto callable = session->MakeCallable(wanted);
  Die(callable.status());
  std::vector<Tensor> out;
  for (auto _ : state) Die(session->RunCallable(*callable, {}, &out, nullptr));
}
BENCHMARK(BM_StepEmpty)->Name("step_empty")->Arg(2)->Arg(8)->UseRealTime();

// A feed and a fetch at a task.
void RunStep(benchmark::State& state, int tasks, const std::string& device) {
  const auto session = MakeSession(
      tasks,
      GraphOf(StrCat("node { name: 'x' op: 'Placeholder' device: '", device,
                     "' attr { key: 'dtype' value { type: DT_FLOAT } } } node { name: 'y' op: 'Neg' input: "
                     "'x' device: '",
                     device, "' attr { key: 'T' value { type: DT_FLOAT } } }")));
  CallableOptions wanted;
  wanted.feeds = {"x"};
  wanted.fetches = {"y"};
  const auto callable = session->MakeCallable(wanted);
  Die(callable.status());
  const std::vector<Tensor> feeds{Tensor::Scalar(1.f)};
  std::vector<Tensor> out;
  for (auto _ : state) Die(session->RunCallable(*callable, feeds, &out, nullptr));
}
void BM_StepFeedFetch(benchmark::State& state) { RunStep(state, 2, DeviceOf(1)); }
BENCHMARK(BM_StepFeedFetch)->Name("step_feed_fetch")->UseRealTime();
void BM_StepDirect(benchmark::State& state) { RunStep(state, 0, ""); }
BENCHMARK(BM_StepDirect)->Name("step_direct")->UseRealTime();
void BM_StepOwnTask(benchmark::State& state) { RunStep(state, 2, DeviceOf(0)); }
BENCHMARK(BM_StepOwnTask)->Name("step_own_task")->UseRealTime();

// Softmax regression on 100 digits of 784 pixels: PS is where the variables are, WORKER does the rest.
constexpr char kSoftmax[] = R"(
  node { name: 'W' op: 'VarHandleOp' device: 'PS' attr { key: 'dtype' value { type: DT_FLOAT } }
         attr { key: 'shape' value { shape { dim { size: 784 } dim { size: 10 } } } }
         attr { key: 'shared_name' value { s: 'W' } } }
  node { name: 'b' op: 'VarHandleOp' device: 'PS' attr { key: 'dtype' value { type: DT_FLOAT } }
         attr { key: 'shape' value { shape { dim { size: 10 } } } } attr { key: 'shared_name' value { s: 'b' } } }
  node { name: 'W0' op: 'Const' device: 'PS' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value'
         value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 784 } dim { size: 10 } } float_val: 0 } } } }
  node { name: 'b0' op: 'Const' device: 'PS' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value'
         value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 10 } } float_val: 0 } } } }
  node { name: 'init_W' op: 'AssignVariableOp' input: 'W' input: 'W0' device: 'PS'
         attr { key: 'dtype' value { type: DT_FLOAT } } }
  node { name: 'init_b' op: 'AssignVariableOp' input: 'b' input: 'b0' device: 'PS'
         attr { key: 'dtype' value { type: DT_FLOAT } } }
  node { name: 'read_W' op: 'ReadVariableOp' input: 'W' device: 'PS' attr { key: 'dtype' value { type: DT_FLOAT } } }
  node { name: 'read_b' op: 'ReadVariableOp' input: 'b' device: 'PS' attr { key: 'dtype' value { type: DT_FLOAT } } }
  node { name: 'x' op: 'Placeholder' device: 'WORKER' attr { key: 'dtype' value { type: DT_FLOAT } } }
  node { name: 'labels' op: 'Placeholder' device: 'WORKER' attr { key: 'dtype' value { type: DT_FLOAT } } }
  node { name: 'product' op: 'MatMul' input: 'x' input: 'read_W' device: 'WORKER'
         attr { key: 'T' value { type: DT_FLOAT } } }
  node { name: 'logits' op: 'BiasAdd' input: 'product' input: 'read_b' device: 'WORKER'
         attr { key: 'T' value { type: DT_FLOAT } } }
  node { name: 'loss' op: 'SoftmaxCrossEntropyWithLogits' input: 'logits' input: 'labels' device: 'WORKER'
         attr { key: 'T' value { type: DT_FLOAT } } }
  node { name: 'grad_W' op: 'MatMul' input: 'x' input: 'loss:1' device: 'WORKER'
         attr { key: 'T' value { type: DT_FLOAT } } attr { key: 'transpose_a' value { b: true } } }
  node { name: 'grad_b' op: 'BiasAddGrad' input: 'loss:1' device: 'WORKER' attr { key: 'T' value { type: DT_FLOAT } } }
  node { name: 'rate' op: 'Const' device: 'PS' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value'
         value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 0.001 } } } }
  node { name: 'train_W' op: 'ResourceApplyGradientDescent' input: 'W' input: 'rate' input: 'grad_W' device: 'PS'
         attr { key: 'T' value { type: DT_FLOAT } } }
  node { name: 'train_b' op: 'ResourceApplyGradientDescent' input: 'b' input: 'rate' input: 'grad_b' device: 'PS'
         attr { key: 'T' value { type: DT_FLOAT } } })";

void Softmax(benchmark::State& state, int tasks) {
  std::string text = kSoftmax;
  const auto replace = [&text](std::string_view word, const std::string& device) {
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos;)
      text.replace(at, word.size(), device);
  };
  replace("PS", tasks == 0 ? "" : DeviceOf(1));
  replace("WORKER", tasks == 0 ? "" : DeviceOf(0));
  const auto session = MakeSession(tasks, GraphOf(text));
  Die(session->Run({}, {}, {"init_W", "init_b"}, nullptr));
  CallableOptions wanted;
  wanted.feeds = {"x", "labels"};
  wanted.targets = {"train_W", "train_b"};
  const auto callable = session->MakeCallable(wanted);
  Die(callable.status());
  std::vector<Tensor> feeds{Tensor(DataType::kFloat, TensorShape({100, 784})),
                            Tensor(DataType::kFloat, TensorShape({100, 10}))},
      out;
  for (Tensor& feed : feeds) std::fill_n(feed.data<float>(), feed.num_elements(), 0.1f);
  for (auto _ : state) Die(session->RunCallable(*callable, feeds, &out, nullptr));
}
void BM_SoftmaxDirect(benchmark::State& state) { Softmax(state, 0); }
BENCHMARK(BM_SoftmaxDirect)->Name("softmax_direct")->UseRealTime();
void BM_SoftmaxPs(benchmark::State& state) { Softmax(state, 2); }
BENCHMARK(BM_SoftmaxPs)->Name("softmax_ps")->UseRealTime();

}  // namespace

int Main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--simulate") == 0) {
    Die(Simulate());
    return 0;
  }
  for (int& port : ports.tasks) port = FreePort();
  ports.tensors = FreePort();
  ports.bare = FreePort();
  ports.raw = FreePort();
  const pid_t child = fork();  // before there are threads
  Die(RegisterGrpc());
  if (child == 0) {
    RunOtherProcess();
    return 0;
  }
  auto server = Server::Make(Options(0));
  Die(server.status());
  Die((*server)->Start());
  here_target = (*server)->target();
  MakeSession(kTasks, GraphOf("node { name: 'n' op: 'NoOp' }"));  // waits for the others
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  server->reset();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return 0;
}

}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
