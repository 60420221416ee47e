// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <climits>
#include <cstdlib>
#include <cstring>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message_lite.h>

#include "c/internal.h"

namespace {

void FreeData(void* data, size_t /*length*/) { std::free(data); }

}  // namespace

namespace millrace::c_api {

Status ToBuffer(const google::protobuf::MessageLite& message, TF_Buffer* buffer) {
  if (buffer == nullptr) return NullArgument("The buffer");
  if (buffer->data != nullptr) {
    return errors::InvalidArgument("Passing non-empty TF_Buffer is invalid.");
  }
  const size_t size = message.ByteSizeLong();
  if (size > INT_MAX) {
    return errors::InvalidArgument("Unable to serialize a protocol buffer, perhaps the serialized size (",
                                   size, " bytes) is too large?");
  }
  void* data = std::malloc(size == 0 ? 1 : size);
  if (data == nullptr) {
    return errors::ResourceExhausted("Failed to allocate memory to serialize a message of size ", size);
  }
  message.SerializeWithCachedSizesToArray(static_cast<uint8_t*>(data));
  buffer->data = data;
  buffer->length = size;
  buffer->data_deallocator = FreeData;
  return Status();
}

bool Parse(const void* data, size_t length, google::protobuf::MessageLite* message) {
  if (data == nullptr || length == 0) {
    message->Clear();
    return true;
  }
  if (length > INT_MAX) return false;
  google::protobuf::io::ArrayInputStream array(data, static_cast<int>(length));
  google::protobuf::io::CodedInputStream stream(&array);
  stream.SetTotalBytesLimit(INT_MAX);
  return message->ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

TF_Buffer* NewBufferOf(std::string_view bytes) { return TF_NewBufferFromString(bytes.data(), bytes.size()); }

}  // namespace millrace::c_api

TF_Buffer* TF_NewBuffer(void) { return new (std::nothrow) TF_Buffer{nullptr, 0, nullptr}; }

TF_Buffer* TF_NewBufferFromString(const void* proto, size_t proto_len) {
  if (proto == nullptr) proto_len = 0;
  void* copy = std::malloc(proto_len == 0 ? 1 : proto_len);
  if (copy == nullptr) return nullptr;
  if (proto_len > 0) std::memcpy(copy, proto, proto_len);
  auto* buffer = new (std::nothrow) TF_Buffer{copy, proto_len, FreeData};
  if (buffer == nullptr) std::free(copy);
  return buffer;
}

void TF_DeleteBuffer(TF_Buffer* buffer) {
  if (buffer == nullptr) return;
  if (buffer->data_deallocator != nullptr) {
    buffer->data_deallocator(const_cast<void*>(buffer->data), buffer->length);
  }
  delete buffer;
}

TF_Buffer TF_GetBuffer(TF_Buffer* buffer) {
  return buffer == nullptr ? TF_Buffer{nullptr, 0, nullptr} : *buffer;
}
