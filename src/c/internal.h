// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "c/graph_handle.h"
#include "graph/graph.h"
#include "millrace/output.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "tensor/buffer.h"
#include "tensorflow/c/c_api.h"

namespace google::protobuf {
class MessageLite;
}

struct TF_Status {
  millrace::Status status;
};

// Elements of fixed-size types lie in `value`. Strings and handles have two forms: the engine's, and the
// bytes of the C API, which `encoded` holds here; `value` then only has type and shape.
struct TF_Tensor {
  millrace::Tensor value;
  millrace::RefPtr<millrace::Buffer> encoded;
  void* data = nullptr;
  size_t size = 0;
  bool owns_memory = false;  // made by a step of the engine, not by the program
};

namespace millrace::c_api {

inline Node* NodeOf(TF_Operation* op) { return reinterpret_cast<Node*>(op); }
inline const Node* NodeOf(const TF_Operation* op) { return reinterpret_cast<const Node*>(op); }
inline TF_Operation* OperationOf(Node* node) { return reinterpret_cast<TF_Operation*>(node); }
inline const char* OrEmpty(const char* text) { return text == nullptr ? "" : text; }

inline void Set(TF_Status* status, Status value) {
  if (status != nullptr) status->status = std::move(value);
}

// The entry of API functions: runs `body`, which returns a Status, and stores that. Catches exceptions.
template <typename F>
bool Enter(TF_Status* status, F&& body) {
  Status result;
  try {
    result = body();
  } catch (const std::bad_alloc&) {
    result = Status(ErrorCode::kResourceExhausted, "Out of memory");
  } catch (const std::exception& e) {
    result = Status(ErrorCode::kInternal, e.what());
  }
  const bool ok = result.ok();
  Set(status, std::move(result));
  return ok;
}

// The entry of functions without a status: returns `otherwise` after an exception.
template <typename T, typename F>
T EnterOr(T otherwise, F&& body) {
  try {
    return body();
  } catch (const std::exception&) {
    return otherwise;
  }
}

// InvalidArgument "<what> is null".
Status NullArgument(const char* what);
// Whether `output` is a tensor of `graph` (null: of any graph).
Status CheckOutput(const Graph* graph, const TF_Output& output);
Status CheckShape(const int64_t* dims, int num_dims);
// num_dims < 0: unknown rank. REQUIRES: CheckShape.
StatusOr<PartialShape> MakeShape(const int64_t* dims, int num_dims);
inline DataType TypeOf(TF_DataType dtype) { return static_cast<DataType>(dtype); }

// A copy for an attribute, independent of later changes by the caller.
StatusOr<Tensor> CopyOfTensor(const TF_Tensor* tensor);
// The engine's form; elements of fixed-size types are shared.
StatusOr<Tensor> ToTensor(const TF_Tensor* tensor);
// The C API's form; elements of fixed-size types are shared. FailedPrecondition for uninitialised tensors.
StatusOr<TF_Tensor*> FromTensor(const Tensor& tensor);
// The same for an output of a Run: an empty tensor if it is not initialised.
StatusOr<TF_Tensor*> FromOutput(Tensor tensor);

// Serialises into an empty buffer.
Status ToBuffer(const google::protobuf::MessageLite& message, TF_Buffer* buffer);
// Parses without protobuf's usual limit; false when the bytes are not such a message. Null data is empty.
bool Parse(const void* data, size_t length, google::protobuf::MessageLite* message);
// A buffer with a copy of the bytes.
TF_Buffer* NewBufferOf(std::string_view bytes);

// The `count` strings; InvalidArgument for null ones.
StatusOr<std::vector<std::string>> NamesOf(const char* const* names, int count);
// `name`, or `name_1`, … : the first that is neither the name of a node nor a prefix of one before '/'.
std::string UniqueScope(const Graph& graph, const std::string& name);

// Types of attributes in the C API: NotFound and InvalidArgument texts are TensorFlow's.
StatusOr<const AttrValue*> FindAttr(TF_Operation* op, const char* name);

}  // namespace millrace::c_api
