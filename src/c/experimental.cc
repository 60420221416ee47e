// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tensorflow/c/c_api_experimental.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <google/protobuf/text_format.h>

#include "base/env.h"
#include "c/eager.h"
#include "c/function.h"
#include "graph/graph_import.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "kernel/kernel_registry.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/protobuf/tensorflow_server.pb.h"

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::AttrMap;
using millrace::MutexLock;
using millrace::OpRegistration;
using millrace::OpRegistry;
using millrace::Status;
using millrace::Tensor;
namespace errors = millrace::errors;

struct TF_CheckpointReader {
  std::unique_ptr<millrace::io::CheckpointReader> reader;
  std::vector<std::string> names;
};

struct TF_AttrBuilder {
  std::string op;
  AttrMap attrs;
};

struct TFE_ExecuteOpNotification {
  std::thread thread;
  TF_Status status;
};

namespace {

std::atomic<bool> lazy_compilation{true};

// A copy for free(), with an end.
char* CopyOf(const std::string& text, size_t* len) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) return nullptr;
  std::memcpy(copy, text.c_str(), text.size() + 1);
  if (len != nullptr) *len = text.size();
  return copy;
}

char* TextOf(const google::protobuf::Message& message, size_t* len) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return CopyOf(text, len);
}

void NotThere(const char* function, TF_Status* status) {
  Set(status, errors::Unimplemented(function, " is not implemented"));
}

}  // namespace

void TF_EnableXLACompilation(TF_SessionOptions* /*options*/, unsigned char /*enable*/) {}
unsigned char TF_SetXlaEnableLazyCompilation(unsigned char enable) {
  return lazy_compilation.exchange(enable != 0) ? 1 : 0;
}
void TF_SetXLaAutoJitMode(const char* /*mode*/) {}
void TF_SetXlaMinClusterSize(int /*size*/) {}

TF_Buffer* TF_CreateConfig(unsigned char enable_xla_compilation, unsigned char gpu_memory_allow_growth,
                           unsigned int num_cpu_devices) {
  return EnterOr<TF_Buffer*>(nullptr, [&] {
    tensorflow::ConfigProto config;
    tensorflow::OptimizerOptions* options = config.mutable_graph_options()->mutable_optimizer_options();
    options->set_global_jit_level(enable_xla_compilation != 0 ? tensorflow::OptimizerOptions::ON_1
                                                              : tensorflow::OptimizerOptions::OFF);
    config.mutable_gpu_options()->set_allow_growth(gpu_memory_allow_growth != 0);
    if (num_cpu_devices > 0) {
      (*config.mutable_device_count())["CPU"] = static_cast<int32_t>(num_cpu_devices);
    }
    return NewBufferOf(config.SerializeAsString());
  });
}

TF_Buffer* TF_CreateRunOptions(unsigned char enable_full_trace) {
  return EnterOr<TF_Buffer*>(nullptr, [&] {
    tensorflow::RunOptions options;
    options.set_trace_level(enable_full_trace != 0 ? tensorflow::RunOptions::FULL_TRACE
                                                   : tensorflow::RunOptions::NO_TRACE);
    return NewBufferOf(options.SerializeAsString());
  });
}

const char* TF_GraphDebugString(TF_Graph* graph, size_t* len) {
  if (graph == nullptr) return nullptr;
  return EnterOr<const char*>(nullptr, [&] {
    tensorflow::GraphDef def;
    {
      MutexLock lock(graph->mu);
      millrace::ExportGraphDef(graph->graph, &def);
    }
    return TextOf(def, len);
  });
}

char* TF_FunctionDebugString(TF_Function* func, size_t* len) {
  if (func == nullptr) return nullptr;
  return EnterOr<char*>(nullptr, [&] { return TextOf(*func->def, len); });
}

void TF_MakeInternalErrorStatus(TF_Status* status, const char* errMsg) {
  Set(status, errors::Internal(OrEmpty(errMsg)));
}

TF_CheckpointReader* TF_NewCheckpointReader(const char* filename, TF_Status* status) {
  TF_CheckpointReader* result = nullptr;
  Enter(status, [&]() -> Status {
    if (filename == nullptr) return NullArgument("The name of the checkpoint");
    auto made = std::make_unique<TF_CheckpointReader>();
    MR_ASSIGN_OR_RETURN(made->reader, millrace::io::CheckpointReader::Open(millrace::Env::Posix(), filename));
    for (const auto& variable : made->reader->variables()) made->names.push_back(variable.first);
    result = made.release();
    return Status();
  });
  return result;
}

void TF_DeleteCheckpointReader(TF_CheckpointReader* reader) { delete reader; }

int TF_CheckpointReaderHasTensor(TF_CheckpointReader* reader, const char* name) {
  return reader != nullptr && name != nullptr && reader->reader->HasTensor(name) ? 1 : 0;
}

int TF_CheckpointReaderSize(TF_CheckpointReader* reader) {
  return reader == nullptr ? 0 : static_cast<int>(reader->names.size());
}

const char* TF_CheckpointReaderGetVariable(TF_CheckpointReader* reader, int index) {
  if (index < 0 || index >= TF_CheckpointReaderSize(reader)) return nullptr;
  return reader->names[static_cast<size_t>(index)].c_str();
}

TF_DataType TF_CheckpointReaderGetVariableDataType(TF_CheckpointReader* reader, const char* name) {
  if (TF_CheckpointReaderHasTensor(reader, name) == 0) return static_cast<TF_DataType>(0);
  return static_cast<TF_DataType>(reader->reader->variables().at(name).dtype);
}

int TF_CheckpointReaderGetVariableNumDims(TF_CheckpointReader* reader, const char* name) {
  if (TF_CheckpointReaderHasTensor(reader, name) == 0) return -1;
  return reader->reader->variables().at(name).shape.rank();
}

void TF_CheckpointReaderGetVariableShape(TF_CheckpointReader* reader, const char* name, int64_t* dims,
                                         int num_dims, TF_Status* status) {
  Enter(status, [&]() -> Status {
    const int rank = TF_CheckpointReaderGetVariableNumDims(reader, name);
    if (rank < 0) return errors::NotFound("Key ", OrEmpty(name), " not found in checkpoint");
    if (rank != num_dims)
      return errors::InvalidArgument("Expected rank is ", num_dims, " but actual rank is ", rank);
    if (rank > 0 && dims == nullptr) return NullArgument("The array of dimensions");
    for (int d = 0; d < rank; ++d) dims[d] = reader->reader->variables().at(name).shape.dim(d);
    return Status();
  });
}

TF_Tensor* TF_CheckpointReaderGetTensor(TF_CheckpointReader* reader, const char* name, TF_Status* status) {
  TF_Tensor* result = nullptr;
  Enter(status, [&]() -> Status {
    if (reader == nullptr || name == nullptr) return NullArgument("The reader or the name");
    MR_ASSIGN_OR_RETURN(const Tensor value, reader->reader->GetTensor(name));
    MR_ASSIGN_OR_RETURN(result, FromTensor(value));
    return Status();
  });
  return result;
}

TF_AttrBuilder* TF_NewAttrBuilder(const char* op_name) {
  return EnterOr<TF_AttrBuilder*>(nullptr, [&] { return new TF_AttrBuilder{OrEmpty(op_name), {}}; });
}

void TF_DeleteAttrBuilder(TF_AttrBuilder* builder) { delete builder; }

void TF_AttrBuilderSetType(TF_AttrBuilder* builder, const char* attr_name, TF_DataType value) {
  if (builder == nullptr || attr_name == nullptr) return;
  Enter(nullptr, [&] {
    builder->attrs.Set(attr_name, TypeOf(value));
    return Status();
  });
}

void TF_AttrBuilderSetTypeList(TF_AttrBuilder* builder, const char* attr_name, const TF_DataType* values,
                               int num_values) {
  if (builder == nullptr || attr_name == nullptr) return;
  Enter(nullptr, [&] {
    std::vector<millrace::DataType> types;
    for (int i = 0; values != nullptr && i < num_values; ++i) types.push_back(TypeOf(values[i]));
    builder->attrs.Set(attr_name, std::move(types));
    return Status();
  });
}

// Attributes that are not set stand for any that would do.
void TF_AttrBuilderCheckCanRunOnDevice(TF_AttrBuilder* builder, const char* device_type, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (builder == nullptr || device_type == nullptr) return NullArgument("The builder or the type");
    MR_ASSIGN_OR_RETURN(const OpRegistration* op, OpRegistry::Global().LookUp(builder->op));
    millrace::NodeProps props;
    props.op = op;
    props.attrs = builder->attrs;
    return millrace::KernelRegistry::Global().Find(device_type, props).status();
  });
}

const char* TF_GetNumberAttrForOpListInput(const char* op_name, int input_index, TF_Status* status) {
  const char* result = nullptr;
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const OpRegistration* op, OpRegistry::Global().LookUp(OrEmpty(op_name)));
    if (input_index < 0 || static_cast<size_t>(input_index) >= op->def.inputs.size()) {
      return errors::InvalidArgument(input_index, " out of range for ", op->def.name);
    }
    const std::string& number = op->def.inputs[static_cast<size_t>(input_index)].number_attr;
    if (!number.empty()) result = number.c_str();
    return Status();
  });
  return result;
}

int TF_OpIsStateful(const char* op_type, TF_Status* status) {
  int result = -1;
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const OpRegistration* op, OpRegistry::Global().LookUp(OrEmpty(op_type)));
    result = op->def.is_stateful ? 1 : 0;
    return Status();
  });
  return result;
}

void TF_InitMain(const char* /*usage*/, int* /*argc*/, char*** /*argv*/) {}

int TF_PickUnusedPortOrDie(void) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return 0;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool found = bind(fd, any, length) == 0 && getsockname(fd, any, &length) == 0;
  close(fd);
  return found ? ntohs(address.sin_port) : 0;
}

TFE_TensorHandle* TFE_NewTensorHandleFromScalar(TF_DataType data_type, void* data, size_t len,
                                                TF_Status* status) {
  TFE_TensorHandle* result = nullptr;
  Enter(status, [&]() -> Status {
    if (data == nullptr) return NullArgument("The value");
    TF_Tensor* tensor = TF_AllocateTensor(data_type, nullptr, 0, len);
    if (tensor == nullptr) {
      return errors::InvalidArgument("A scalar of type ", TypeOf(data_type), " of ", len, " bytes");
    }
    std::memcpy(TF_TensorData(tensor), data, len);
    TF_Status made;
    result = TFE_NewTensorHandle(tensor, &made);
    TF_DeleteTensor(tensor);
    return made.status;
  });
  return result;
}

void TFE_TensorHandlePrintDebugString(TFE_TensorHandle* handle) {
  Enter(nullptr, [&] {
    std::string text = "(null)";
    if (handle != nullptr) {
      const Status status = TensorOf(handle)->Await();
      text = status.ok() ? TensorOf(handle)->value().DebugString() : status.ToString();
    }
    std::fprintf(stderr, "%s\n", text.c_str());
    return Status();
  });
}

TF_Buffer* TFE_GetServerDef(const char* text_proto, TF_Status* status) {
  TF_Buffer* result = nullptr;
  Enter(status, [&]() -> Status {
    tensorflow::ServerDef server;
    if (!google::protobuf::TextFormat::ParseFromString(OrEmpty(text_proto), &server)) {
      return errors::Internal("Invalid text proto for ServerDef: ", OrEmpty(text_proto));
    }
    result = NewBufferOf(server.SerializeAsString());
    return Status();
  });
  return result;
}

TFE_ExecuteOpNotification* TFE_ExecuteOpInNewThread(TFE_Op* op, TFE_TensorHandle** retvals, int* num_retvals,
                                                    TF_Status* status) {
  TFE_ExecuteOpNotification* result = nullptr;
  Enter(status, [&] {
    auto made = std::make_unique<TFE_ExecuteOpNotification>();
    TF_Status* const of_thread = &made->status;
    made->thread = std::thread([=] { TFE_Execute(op, retvals, num_retvals, of_thread); });
    result = made.release();
    return Status();
  });
  return result;
}

void TFE_ExecuteOpNotificationWaitAndDelete(TFE_ExecuteOpNotification* notification, TF_Status* status) {
  if (notification == nullptr) return Set(status, NullArgument("The notification"));
  notification->thread.join();
  Set(status, std::move(notification->status.status));
  delete notification;
}

TF_Operation* TF_MakeFakeIteratorGetNextWithDatasets(TF_Graph* /*graph*/, TF_Status* status) {
  NotThere("TF_MakeFakeIteratorGetNextWithDatasets", status);
  return nullptr;
}

TF_Operation* TF_MakeFileBasedIteratorGetNextWithDatasets(TF_Graph* /*graph*/, const char* /*file_path*/,
                                                          int /*batch_size*/, unsigned char /*is_mnist*/,
                                                          TF_Status* status) {
  NotThere("TF_MakeFileBasedIteratorGetNextWithDatasets", status);
  return nullptr;
}

TF_Tensor* TF_DequeueNamedTensor(TF_Session* /*session*/, int /*tensor_id*/, TF_Status* status) {
  NotThere("TF_DequeueNamedTensor", status);
  return nullptr;
}

void TF_EnqueueNamedTensor(TF_Session* /*session*/, int /*tensor_id*/, TF_Tensor* /*tensor*/,
                           TF_Status* status) {
  NotThere("TF_EnqueueNamedTensor", status);
}

TFE_Context* TFE_CreateContextFromSession(TF_Session* /*session*/, TF_Status* status) {
  NotThere("TFE_CreateContextFromSession", status);
  return nullptr;
}

TFE_TensorHandle* TFE_DequeueNamedTensor(TF_Session* /*session*/, int /*tensor_id*/, TF_DataType /*type*/,
                                         TF_Status* status) {
  NotThere("TFE_DequeueNamedTensor", status);
  return nullptr;
}

TFE_TensorHandle* TFE_DequeueNamedTensorFromCtx(TFE_Context* /*ctx*/, int /*tensor_id*/, TF_DataType /*type*/,
                                                TF_Status* status) {
  NotThere("TFE_DequeueNamedTensorFromCtx", status);
  return nullptr;
}

void TFE_EnqueueNamedTensor(TF_Session* /*session*/, int /*tensor_id*/, TFE_TensorHandle* /*tensor*/,
                            TF_Status* status) {
  NotThere("TFE_EnqueueNamedTensor", status);
}

void TFE_EnqueueNamedTensorFromCtx(TFE_Context* /*ctx*/, int /*tensor_id*/, TFE_TensorHandle* /*tensor*/,
                                   TF_Status* status) {
  NotThere("TFE_EnqueueNamedTensorFromCtx", status);
}

void TFE_EnqueueVariantTensor(TF_Session* /*session*/, int /*tensor_id*/, TFE_TensorHandle* /*tensor*/,
                              TF_Status* status) {
  NotThere("TFE_EnqueueVariantTensor", status);
}

TFE_TensorHandle* TFE_DequeueVariantTensor(TF_Session* /*session*/, int /*tensor_id*/, TF_Status* status) {
  NotThere("TFE_DequeueVariantTensor", status);
  return nullptr;
}

void TFE_EnableCollectiveOps(TFE_Context* /*ctx*/, const void* /*proto*/, size_t /*proto_len*/,
                             TF_Status* status) {
  NotThere("TFE_EnableCollectiveOps", status);
}
