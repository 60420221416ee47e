// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls for values and registries, and ops and kernels in C.
#include <algorithm>
#include <cstdlib>

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tests/fuzz/c_api_world.h"

namespace millrace::c_api_fuzz {
namespace {

void MakeTensor(World& w) { w.tensors.Add(w.NewTensor()); }

void Free(void* data, size_t /*length*/, void* /*arg*/) { std::free(data); }

// A tensor over the caller's memory, aligned or not.
void WrapTensor(World& w) {
  const TF_DataType type = w.AnyType();
  const std::vector<int64_t> dims = w.AnyShape();
  const auto length = static_cast<size_t>(w.in.Below(256));
  auto* memory = static_cast<char*>(std::calloc(length + 1, 1));
  const std::string raw = w.in.Raw(32);
  std::copy_n(raw.begin(), std::min(raw.size(), length), memory);
  const int rank = w.in.Rarely() ? -1 : static_cast<int>(dims.size());
  if (w.in.Sometimes()) {  // the tensor does not own it: it must have copied the data or be deleted first
    TF_DeleteTensor(TF_NewTensor(type, dims.data(), rank, memory + 1, length, nullptr, nullptr));
    std::free(memory);
  } else {
    w.tensors.Add(TF_NewTensor(type, dims.data(), rank, memory, length, Free, nullptr));
  }
}

void ReadTensor(World& w) {
  TF_Tensor* tensor = w.tensors.Any(w.in);
  TF_TensorType(tensor), TF_NumDims(tensor), TF_Dim(tensor, w.in.Below(5) - 1), TF_TensorByteSize(tensor);
  TF_TensorData(tensor), TF_TensorElementCount(tensor), TF_TensorIsAligned(tensor),
      TF_TensorMaybeMove(tensor);
}

void Bitcast(World& w) {
  const std::vector<TF_Tensor*> two = w.AnyTensors(2);
  const std::vector<int64_t> dims = w.AnyShape();
  TF_TensorBitcastFrom(two[0], w.AnyType(), two[1], dims.data(), static_cast<int>(dims.size()), w.status);
}

void Strings(World& w) {
  const std::string raw = w.in.Raw(40);
  char encoded[32];
  TF_StringEncode(raw.data(), raw.size(), encoded, sizeof(encoded), w.status);
  const char* text = nullptr;
  size_t length = 0;
  TF_StringDecode(raw.data(), raw.size(), &text, &length, w.status);
}

void Buffers(World& w) {
  const std::string raw = w.in.Raw(40);
  w.buffers.Add(TF_NewBufferFromString(raw.data(), raw.size()));
  TF_GetBuffer(w.buffers.Any(w.in));
}

void Statuses(World& w) {
  TF_SetStatus(w.status, static_cast<TF_Code>(w.in.Below(32)),
               w.in.Sometimes() ? TF_Message(w.status) : w.AnyName());
  TF_GetCode(w.status), TF_Message(w.status);
}

void ApiDefs(World& w) {
  static constexpr const char* kTexts[] = {
      "op { graph_op_name: 'Add' summary: 'sum' }",
      "op {\n graph_op_name: 'Add'\n description: <<END\nmore \"of\" it\nEND\n}",
      "op { graph_op_name: 'Add' in_arg { name: 'x' rename_to: 'first' } arg_order: 'y' arg_order: 'x' }",
      "op { graph_op_name: 'Add' attr { name: 'T' default_value { list { s: '\\377' } } } }",
      "op { in_arg { name: 'none' } } op {",
      "<<",
      "op <",
      "<<END\n"};
  if (w.api_defs.objects().empty()) {
    TF_Buffer* ops = TF_NewBuffer();
    TF_GraphGetOpDef(w.AnyGraph(), "Add", ops, w.status);
    // As the only op of a list: field 1, a length of two bytes.
    std::string list = "\x0a";
    list += static_cast<char>(ops->length % 128 | 128);
    list += static_cast<char>(ops->length / 128);
    list.append(static_cast<const char*>(ops->data), ops->length);
    TF_DeleteBuffer(ops);
    TF_Buffer* buffer = TF_NewBufferFromString(list.data(), list.size());
    w.api_defs.Add(TF_NewApiDefMap(w.in.Rarely() ? w.buffers.Any(w.in) : buffer, w.status));
    TF_DeleteBuffer(buffer);
  }
  TF_ApiDefMap* map = w.api_defs.Any(w.in);
  std::string text = w.in.Any(kTexts);
  if (w.in.Sometimes())
    text.insert(static_cast<size_t>(w.in.Below(static_cast<int>(text.size()))), w.in.Raw(12));
  TF_ApiDefMapPut(map, text.data(), text.size(), w.status);
  if (w.in.Sometimes()) w.buffers.Add(TF_ApiDefMapGet(map, "Add", 3, w.status));
}

// Registrations are permanent, so there are few names.
void DefineOp(World& w) {
  static constexpr const char* kNames[] = {"FuzzOp", "FuzzOpB", "Add", "bad name", "", "_FuzzOp"};
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder(w.in.Any(kNames));
  for (int n = w.in.Below(4); n > 0; --n) {
    switch (w.in.Below(8)) {
      case 0:
      case 1:
        TF_OpDefinitionBuilderAddAttr(op, w.AnyName());
        break;
      case 2:
      case 3:
        TF_OpDefinitionBuilderAddInput(op, w.AnyName());
        break;
      case 4:
        TF_OpDefinitionBuilderAddOutput(op, w.AnyName());
        break;
      case 5:
        TF_OpDefinitionBuilderDeprecated(op, w.in.Next() - 1, w.AnyName());
        break;
      case 6:
        TF_OpDefinitionBuilderSetIsStateful(op, w.in.Next() % 2 == 0);
        TF_OpDefinitionBuilderSetIsCommutative(op, w.in.Next() % 2 == 0);
        break;
      default:
        TF_OpDefinitionBuilderSetIsAggregate(op, w.in.Next() % 2 == 0);
        TF_OpDefinitionBuilderSetAllowsUninitializedInput(op, w.in.Next() % 2 == 0);
    }
  }
  if (w.in.Sometimes()) {
    TF_RegisterOpDefinition(op, w.status);
  } else {
    TF_DeleteOpDefinitionBuilder(op);
  }
}

void DefineKernel(World& w) {
  TF_KernelBuilder* kernel =
      TF_NewKernelBuilder(w.AnyName(), w.in.Rarely() ? w.AnyName() : "CPU", nullptr, nullptr, nullptr);
  TF_KernelBuilder_TypeConstraint(kernel, w.AnyName(), w.AnyType(), w.status);
  TF_KernelBuilder_HostMemory(kernel, w.AnyName());
  if (w.in.Sometimes()) {
    TF_RegisterKernelBuilder(w.AnyName(), kernel, w.status);  // refused: it computes nothing
  } else {
    TF_DeleteKernelBuilder(kernel);
  }
}

void Lists(World& w) {
  if (w.in.Rarely()) TF_DeleteBuffer(TF_GetAllOpList());
  TF_DeleteBuffer(TF_GetRegisteredKernelsForOp(w.AnyName(), w.status));
  TF_Server* server = TF_NewServer("", 0, w.status);
  TF_ServerTarget(server);
  TF_DeleteServer(server);
  if (w.in.Rarely()) TF_DeleteLibraryHandle(TF_LoadLibrary("/dev/null", w.status));
}

// The behaviour that a kernel's attribute selects, correct or not.
struct Mode {
  int mode = 0;
};

void* CreateMode(TF_OpKernelConstruction* ctx) {
  auto* mode = new Mode;
  TF_Status* status = TF_NewStatus();
  TF_OpKernelConstruction_GetAttrInt32(ctx, "mode", &mode->mode, status);
  TF_DataType type;
  TF_OpKernelConstruction_GetAttrType(ctx, mode->mode == 1 ? "mode" : "T", &type, status);
  if (mode->mode == 2) TF_OpKernelConstruction_Failure(ctx, status);  // with an OK status
  if (mode->mode == 3) {
    TF_SetStatus(status, TF_ABORTED, "as asked");
    TF_OpKernelConstruction_Failure(ctx, status);
  }
  TF_DeleteStatus(status);
  return mode;
}

void DeleteMode(void* mode) { delete static_cast<Mode*>(mode); }

void ComputeMode(void* state, TF_OpKernelContext* ctx) {
  const int mode = static_cast<Mode*>(state)->mode;
  TF_Status* status = TF_NewStatus();
  TF_Tensor *x = nullptr, *none = nullptr;
  TF_GetInput(ctx, 0, &x, status);
  TF_GetInput(ctx, mode == 4 ? -1 : 7, &none, status);
  const TF_DataType type = TF_ExpectedOutputDataType(ctx, 0);
  TF_ExpectedOutputDataType(ctx, 9), TF_StepId(ctx), TF_NumInputs(ctx), TF_NumOutputs(ctx);
  int64_t dims[] = {2, mode == 5 ? -1 : mode == 6 ? INT64_MAX : 3};
  switch (mode) {
    case -1:
      TF_SetStatus(status, TF_DATA_LOSS, "as asked");
      TF_OpKernelContext_Failure(ctx, status);
      break;
    case 1:  // no output
      break;
    case 2:
      TF_SetOutput(ctx, 1, x, status);
      break;
    case 3:
      TF_SetOutput(ctx, 0, nullptr, status);
      break;
    case 4:
      TF_SetOutput(ctx, 0, x, status);  // whatever type it has
      break;
    default: {
      TF_Tensor* y = TF_AllocateOutput(ctx, 0, mode == 7 ? TF_STRING : type, dims, 2, 1000);
      if (y != nullptr) std::fill_n(static_cast<char*>(TF_TensorData(y)), TF_TensorByteSize(y), '\x7f');
      if (mode == 8) TF_DeleteTensor(TF_AllocateOutput(ctx, 0, type, dims, 1, 1000));
      if (mode == 9) TF_SetOutput(ctx, 0, y, status);
      TF_DeleteTensor(y);
    }
  }
  TF_DeleteTensor(x);
  TF_DeleteStatus(status);
}

// Does not check statuses: some runs fail.
void InferShapes(TF_ShapeInferenceContext* ctx, TF_Status* status) {
  TF_Status* ignored = TF_NewStatus();
  TF_ShapeHandle *x = TF_NewShapeHandle(), *y = TF_NewShapeHandle(), *unset = TF_NewShapeHandle();
  TF_ShapeInferenceContextGetInput(ctx, 0, x, status);
  TF_ShapeInferenceContextGetInput(ctx, -1, y, ignored);
  const int64_t rank = TF_ShapeInferenceContextRank(ctx, x);
  TF_ShapeInferenceContextSubshape(ctx, x, -rank, rank + 1, y, ignored);
  TF_ShapeInferenceContextSubshape(ctx, x, INT64_MIN, INT64_MAX, y, ignored);
  TF_ShapeInferenceContextSubshape(ctx, x, rank, 0, y, ignored);
  TF_ShapeInferenceContextWithRank(ctx, x, INT64_MAX, y, ignored);
  TF_ShapeInferenceContextWithRank(ctx, x, -1, y, ignored);
  TF_ShapeInferenceContextWithRankAtMost(ctx, unset, 1, y, ignored);
  TF_ShapeInferenceContextConcatenateShapes(ctx, x, x, x, ignored);
  TF_DimensionHandle* dim = TF_NewDimensionHandle();
  TF_ShapeInferenceContextDim(ctx, x, INT64_MIN, dim);
  TF_ShapeInferenceContextDim(ctx, unset, 0, dim);
  TF_DimensionHandleValue(dim), TF_DimensionHandleValueKnown(dim);
  TF_ShapeInferenceContextSetOutput(ctx, 3, x, ignored);
  if (rank == 0) TF_ShapeInferenceContextSetOutput(ctx, 0, unset, status);
  if (rank > 4) TF_ShapeInferenceContextSetOutput(ctx, 0, x, status);
  TF_DeleteDimensionHandle(dim);
  for (TF_ShapeHandle* handle : {x, y, unset}) TF_DeleteShapeHandle(handle);
  TF_DeleteStatus(ignored);
}

}  // namespace

void RegisterOpsInC() {
  TF_Status* status = TF_NewStatus();
  for (const char* name : {"FuzzKernel", "FuzzShapes"}) {
    TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder(name);
    TF_OpDefinitionBuilderAddAttr(op, "T: type");
    TF_OpDefinitionBuilderAddAttr(op, "mode: int = 0");
    TF_OpDefinitionBuilderAddInput(op, "x: T");
    TF_OpDefinitionBuilderAddOutput(op, "y: T");
    if (name[4] == 'S') TF_OpDefinitionBuilderSetShapeInferenceFunction(op, InferShapes);
    TF_RegisterOpDefinition(op, status);
    TF_RegisterKernelBuilder(
        name,
        TF_NewKernelBuilder(name, "CPU", name[4] == 'S' ? nullptr : CreateMode,
                            name[4] == 'S' ? [](void*, TF_OpKernelContext*) {} : ComputeMode,
                            name[4] == 'S' ? nullptr : DeleteMode),
        status);
  }
  TF_DeleteStatus(status);
}

const std::vector<Call>& ValueCalls() {
  static const auto* const calls = new std::vector<Call>{{"MakeTensor", 10, MakeTensor},
                                                         {"WrapTensor", 3, WrapTensor},
                                                         {"ReadTensor", 2, ReadTensor},
                                                         {"Bitcast", 2, Bitcast},
                                                         {"Strings", 1, Strings},
                                                         {"Buffers", 2, Buffers},
                                                         {"Statuses", 1, Statuses},
                                                         {"ApiDefs", 2, ApiDefs},
                                                         {"DefineOp", 2, DefineOp},
                                                         {"DefineKernel", 1, DefineKernel},
                                                         {"Lists", 1, Lists}};
  return *calls;
}

}  // namespace millrace::c_api_fuzz
