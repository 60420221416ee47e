// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// make_service_seeds DIR writes conversations with a task, one of each kind, to DIR/service.
#include <google/protobuf/dynamic_message.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>

#include "base/strings.h"
#include "proto/message_types.h"
#include "tests/fuzz/service_calls.h"

namespace millrace {
namespace {

using Texts = std::vector<std::pair<Method, std::string>>;

const std::string kSession = StrCat("session_handle: \"", kAnySession, "\" ");
const std::string kWorkerSession = "session_handle: \"s\" create_worker_session_called: true ";
const std::string kGraph = "graph_handle: \"0000000000000001\" ";
const std::string kDevice = "/job:w/replica:0/task:0/device:CPU:0";
const std::string kNodes = R"(
  node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "y" op: "Add" input: "x" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "v" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "shape" value { shape {} } } attr { key: "shared_name" value { s: "v" } } }
  node { name: "set" op: "AssignVariableOp" input: "v" input: "x"
         attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "q" op: "FIFOQueueV2" attr { key: "component_types" value { list { type: DT_FLOAT } } } }
  node { name: "take" op: "QueueDequeueV2" input: "q"
         attr { key: "component_types" value { list { type: DT_FLOAT } } } } )";
const std::string kFed = "dtype: DT_FLOAT tensor_shape {} float_val: 2";

std::vector<std::pair<std::string, Texts>> Conversations() {
  const std::string feed = StrCat("feed { name: \"x:0\" tensor { ", kFed, " } } ");
  const std::string create = StrCat("graph_def { versions { producer: 134 } ", kNodes, "}");
  const std::string on_device = StrCat(" device: \"", kDevice, "\" ");
  const std::string partition =
      StrCat("graph_def { node { name: \"c\" op: \"Const\"", on_device,
             "attr { key: \"dtype\" value { type: DT_FLOAT } } attr { key: \"value\" value { tensor { ", kFed,
             " } } } } node { name: \"s\" op: \"_Send\" input: \"c\"", on_device,
             "attr { key: \"T\" value { type: DT_FLOAT } } attr { key: \"tensor_name\" value { s: \"c\" } } ",
             "attr { key: \"send_device\" value { s: \"", kDevice, "\" } } ",
             "attr { key: \"send_device_incarnation\" value { i: 1 } } ",
             "attr { key: \"recv_device\" value { s: \"/job:v/replica:0/task:0/device:CPU:0\" } } } }");
  const std::string key = StrCat(kDevice, ";0000000000000001;/job:v/replica:0/task:0/device:CPU:0;c;0:0");
  return {
      {"master",
       {{Method::kCreateSession, create},
        {Method::kListDevices, kSession},
        {Method::kRunStep,
         StrCat(kSession, feed, "fetch: \"y:0\" target: \"set\" options { trace_level: 3 }")},
        {Method::kExtendSession, StrCat(kSession, "graph_def { node { name: \"n\" op: \"NoOp\" } }")},
        {Method::kRunStep, StrCat(kSession, "fetch: \"take:0\" store_errors_in_response_body: true")},
        {Method::kCloseSession, kSession},
        {Method::kReset, "container: \"c\" device_filters: \"/job:w\""}}},
      {"partial_run",
       {{Method::kCreateSession, create},
        {Method::kPartialRunSetup, StrCat(kSession, "feed: \"x:0\" fetch: \"y:0\"")},
        {Method::kRunStep, StrCat(kSession, feed, "fetch: \"y:0\" partial_run_handle: \"1\"")}}},
      {"callable",
       {{Method::kCreateSession, create},
        {Method::kMakeCallable, StrCat(kSession, "options { feed: \"x:0\" fetch: \"y:0\" }")},
        {Method::kRunCallable, StrCat(kSession, "handle: 0 feed { ", kFed, " }")},
        {Method::kReleaseCallable, StrCat(kSession, "handle: 0")}}},
      {"worker",
       {{Method::kCreateWorkerSession, "session_handle: \"s\" isolate_session_state: true"},
        {Method::kRegisterGraph, StrCat(kWorkerSession, partition)},
        {Method::kRunGraph, StrCat(kWorkerSession, kGraph, "step_id: 7 exec_opts { record_timeline: true }")},
        {Method::kRecvTensor, StrCat("step_id: 7 rendezvous_key: \"", key, "\" request_id: 3")},
        {Method::kCleanupGraph, "step_id: 7"},
        {Method::kDeregisterGraph, StrCat(kWorkerSession, kGraph)},
        {Method::kDeleteWorkerSession, "session_handle: \"s\""},
        {Method::kCleanupAll, "container: \"c\""}}},
      {"collective",
       {{Method::kCompleteGroup, StrCat("group_key: 1 group_size: 1 device_type: \"CPU\" device_name: \"",
                                        kDevice, "\" collective_type: 1")},
        {Method::kCompleteInstance,
         StrCat(
             "name: \"r\" type: 1 data_type: DT_FLOAT shape { dim { size: 2 } } group_key: 1 group_size: 1 ",
             "instance_key: 2 device_type: \"CPU\" device: \"", kDevice, "\" subdiv_offset: 0")},
        {Method::kGetStepSequence, "graph_key: 5"},
        {Method::kRecvBuf, StrCat("step_id: 7 buf_rendezvous_key: \"k\" num_bytes: 8 src_device: \"", kDevice,
                                  "\" dst_device: \"", kDevice, "\" request_id: 4")}}},
      {"others",
       {{Method::kGetStatus, ""},
        {Method::kLogging, "enable_rpc_logging: true fetch_step_id: 7"},
        {Method::kTracing, "options { duration: 0.1 }"}}},
  };
}

bool WriteSeeds(const std::filesystem::path& dir) {
  google::protobuf::DynamicMessageFactory factory;
  for (const auto& [name, texts] : Conversations()) {
    std::vector<ServiceCall> calls;
    for (const auto& [method, text] : texts) {
      const auto* const type = FindMessageType(StrCat("tensorflow.", MethodName(method), "Request"));
      if (type == nullptr) return false;
      const std::unique_ptr<google::protobuf::Message> message(factory.GetPrototype(type)->New());
      TextError error;
      if (!ParseMessageText(text, UnknownFields::kRefused, message.get(), &error)) {
        std::cerr << MethodName(method) << ": " << error.ToString() << "\n";
        return false;
      }
      calls.push_back({method, message->SerializeAsString()});
    }
    calls.push_back({Method::kDescribe, ""});
    std::ofstream(dir / name, std::ios::binary) << WriteServiceCalls(calls);
  }
  return true;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_service_seeds DIR\n";
    return 2;
  }
  const std::filesystem::path dir = std::filesystem::path(argv[1]) / "service";
  std::filesystem::create_directories(dir);
  return millrace::WriteSeeds(dir) ? 0 : 1;
}
