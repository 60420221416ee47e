// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/tensor_message.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"
#include "tensorflow/core/protobuf/transport_options.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

// Tags of fields: field number and wire type.
constexpr uint64_t kResponseTensor = 1 << 3 | 2;
constexpr uint64_t kResponseIsDead = 2 << 3 | 0;
constexpr uint64_t kResponseSendStart = 3 << 3 | 0;
constexpr uint64_t kResponseRequireAck = 5 << 3 | 0;
constexpr uint64_t kTensorDtype = 1 << 3 | 0;
constexpr uint64_t kTensorShape = 2 << 3 | 2;
constexpr uint64_t kTensorVersion = 3 << 3 | 0;
constexpr uint64_t kTensorContent = 4 << 3 | 2;

// Fewer bytes are copied into the rest rather than sent as a separate piece.
constexpr size_t kSmall = 1024;
constexpr char kOffer[] = "type.googleapis.com/tensorflow.TensorOffer";
// A shape takes a few bytes per dimension; larger ones are left to the parser of messages.
constexpr uint64_t kMaxShapeBytes = 4096;

bool IsPlain(DataType dtype) {
  return dtype != DataType::kString && dtype != DataType::kResource && dtype != DataType::kVariant;
}

void AppendVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

size_t VarintSize(uint64_t value) {
  size_t size = 1;
  while (value >= 0x80) {
    value >>= 7;
    ++size;
  }
  return size;
}

// Reads the pieces of a message one after the other. Missing data gives nullopt.
class Cursor {
 public:
  explicit Cursor(const MessageBytes& bytes) : pieces_(bytes.pieces()), left_(bytes.size()) {}
  uint64_t left() const { return left_; }

  std::optional<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      char byte = 0;
      if (!Read(&byte, 1)) return std::nullopt;
      const auto bits = static_cast<unsigned char>(byte);
      value |= uint64_t{bits & 0x7fu} << shift;
      if (bits < 0x80) return value;
    }
    return std::nullopt;
  }
  // A varint that is the length of existing bytes.
  std::optional<uint64_t> Length() {
    const auto length = Varint();
    if (!length || *length > left_) return std::nullopt;
    return length;
  }
  bool Read(void* to, size_t count) {
    if (count > left_) return false;
    left_ -= count;
    auto* out = static_cast<char*>(to);
    while (count > 0) {
      const std::string_view rest = pieces_[piece_].bytes.substr(at_);
      const size_t taken = std::min(rest.size(), count);
      std::memcpy(out, rest.data(), taken);
      out += taken;
      count -= taken;
      at_ += taken;
      if (at_ == pieces_[piece_].bytes.size()) {
        ++piece_;
        at_ = 0;
      }
    }
    return true;
  }

 private:
  const std::vector<MessageBytes::Piece>& pieces_;
  size_t piece_ = 0;
  size_t at_ = 0;
  uint64_t left_;
};

// The fast path for the usual form: dtype and shape before the elements, nothing else. nullopt for any other
// form, which may be valid as well.
class ResponseReader {
 public:
  explicit ResponseReader(const MessageBytes& bytes) : in_(bytes) {}

  // Errors are those of the tensor.
  StatusOr<std::optional<ReceivedTensor>> Read() {
    while (in_.left() > 0) {
      const auto tag = in_.Varint();
      if (!tag) return Unusual();
      if (*tag == kResponseTensor && !has_tensor_) {
        const auto length = in_.Length();
        if (!length) return Unusual();
        MR_ASSIGN_OR_RETURN(const bool usual, ReadTensor(in_.left() - *length));
        if (!usual) return Unusual();
      } else if (*tag == kResponseIsDead || *tag == kResponseSendStart || *tag == kResponseRequireAck) {
        const auto value = in_.Varint();
        if (!value) return Unusual();
        if (*tag == kResponseIsDead) result_.is_dead = *value != 0;
      } else {
        return Unusual();
      }
    }
    if (!has_tensor_ && !result_.is_dead) return Unusual();
    return std::optional<ReceivedTensor>(std::move(result_));
  }

 private:
  static std::optional<ReceivedTensor> Unusual() { return std::nullopt; }

  // Reads until `end` bytes are left.
  StatusOr<bool> ReadTensor(uint64_t end) {
    std::optional<DataType> dtype;
    std::optional<TensorShape> shape;
    has_tensor_ = true;
    while (in_.left() > end) {
      const auto tag = in_.Varint();
      if (!tag) return false;
      if (*tag == kTensorDtype) {
        const auto value = in_.Varint();
        if (!value || *value > INT_MAX) return false;
        MR_ASSIGN_OR_RETURN(dtype, DataTypeFromProto(static_cast<tensorflow::DataType>(*value)));
        // The bytes of bools are checked by the parser of messages.
        if (!IsPlain(*dtype) || IsRefType(*dtype) || *dtype == DataType::kBool) return false;
      } else if (*tag == kTensorVersion) {
        if (!in_.Varint()) return false;
      } else if (*tag == kTensorShape) {
        const auto length = in_.Length();
        if (!length || *length > kMaxShapeBytes) return false;
        std::array<char, kMaxShapeBytes> bytes;
        in_.Read(bytes.data(), *length);
        tensorflow::TensorShapeProto proto;
        if (!proto.ParseFromArray(bytes.data(), static_cast<int>(*length))) return false;
        MR_ASSIGN_OR_RETURN(shape, ShapeFromProto(proto));
      } else if (*tag == kTensorContent && dtype && shape) {
        const auto length = in_.Length();
        if (!length || in_.left() - *length != end) return false;
        const uint64_t each = DataTypeSize(*dtype);
        if (*length % each != 0 || *length / each != static_cast<uint64_t>(shape->num_elements()))
          return false;
        MR_ASSIGN_OR_RETURN(result_.tensor, Tensor::Allocate(*dtype, *shape));
        return in_.Read(result_.tensor.raw_data(), *length);
      } else {
        return false;
      }
    }
    // The message may lack elements, if the tensor has none.
    if (in_.left() != end || !dtype || !shape || shape->num_elements() != 0) return false;
    MR_ASSIGN_OR_RETURN(result_.tensor, Tensor::Allocate(*dtype, *shape));
    return true;
  }

  Cursor in_;
  ReceivedTensor result_;
  bool has_tensor_ = false;
};

StatusOr<OfferedTensor> OfferFromResponse(const tensorflow::RecvTensorResponse& response) {
  tensorflow::TensorOffer proto;
  if (!proto.ParseFromString(response.transport_options().value()))
    return errors::Internal("The offer of a tensor is not a message");
  OfferedTensor offer;
  MR_ASSIGN_OR_RETURN(offer.dtype, DataTypeFromProto(response.tensor().dtype()));
  MR_ASSIGN_OR_RETURN(offer.shape, ShapeFromProto(response.tensor().tensor_shape()));
  if (!IsPlain(offer.dtype) || IsRefType(offer.dtype) || offer.dtype == DataType::kBool)
    return errors::Internal("A tensor of type ", DataTypeName(offer.dtype), " can't be offered");
  const auto each = static_cast<int64_t>(DataTypeSize(offer.dtype));
  if (proto.num_bytes() <= 0 || proto.num_bytes() % each != 0 ||
      proto.num_bytes() / each != offer.shape.num_elements()) {
    return errors::Internal("A tensor of type ", DataTypeName(offer.dtype), " and shape ", offer.shape,
                            " does not have ", proto.num_bytes(), " bytes");
  }
  offer.channel = proto.channel();
  offer.address = proto.address();
  offer.ticket = proto.ticket();
  offer.num_bytes = proto.num_bytes();
  return offer;
}

}  // namespace

bool IsSentAsBytes(const Tensor& tensor) {
  return tensor.IsInitialized() && IsPlain(tensor.dtype()) && tensor.dtype() != DataType::kBool;
}

MessageBytes OfferToResponse(const OfferedTensor& offer, int64_t send_start_us) {
  tensorflow::TensorOffer proto;
  proto.set_channel(offer.channel);
  proto.set_address(offer.address);
  proto.set_ticket(offer.ticket);
  proto.set_num_bytes(offer.num_bytes);
  tensorflow::RecvTensorResponse response;
  response.set_send_start_micros(send_start_us);
  response.mutable_tensor()->set_dtype(DataTypeToProto(offer.dtype));
  ShapeToProto(offer.shape, response.mutable_tensor()->mutable_tensor_shape());
  response.mutable_transport_options()->set_type_url(kOffer);
  response.mutable_transport_options()->set_value(proto.SerializeAsString());
  return MessageBytes::Of(response);
}

StatusOr<MessageBytes> TensorToResponse(const Tensor& tensor, bool is_dead, int64_t send_start_us) {
  tensorflow::RecvTensorResponse response;
  response.set_is_dead(is_dead);
  response.set_send_start_micros(send_start_us);
  if (is_dead) return MessageBytes::Of(response);
  if (tensor.num_bytes() > size_t{INT_MAX} - 4 * kMaxShapeBytes) {
    return errors::ResourceExhausted("A tensor of type ", DataTypeName(tensor.dtype()), " and shape ",
                                     tensor.shape(), " has ", tensor.num_bytes(),
                                     " bytes, more than the size of a message between tasks");
  }
  if (!IsPlain(tensor.dtype()) || !tensor.IsInitialized()) {
    TensorToProtoContent(tensor, response.mutable_tensor());
    return MessageBytes::Of(response);
  }
  std::string head = response.SerializeAsString();
  tensorflow::TensorProto proto;
  proto.set_dtype(DataTypeToProto(tensor.dtype()));
  ShapeToProto(tensor.shape(), proto.mutable_tensor_shape());
  const std::string start = proto.SerializeAsString();
  const size_t content = tensor.num_bytes();
  AppendVarint(kResponseTensor, &head);
  AppendVarint(start.size() + (content == 0 ? 0 : 1 + VarintSize(content) + content), &head);
  head.append(start);
  if (content == 0) return MessageBytes(std::move(head));
  AppendVarint(kTensorContent, &head);
  AppendVarint(content, &head);
  const std::string_view elements(static_cast<const char*>(tensor.raw_data()), content);
  if (content <= kSmall) return MessageBytes(head.append(elements));
  MessageBytes bytes(std::move(head));
  bytes.Append(elements, std::make_shared<const Tensor>(tensor));
  return bytes;
}

StatusOr<ReceivedTensor> TensorFromResponse(const MessageBytes& bytes) {
  MR_ASSIGN_OR_RETURN(std::optional<ReceivedTensor> usual, ResponseReader(bytes).Read());
  if (usual) return *std::move(usual);
  tensorflow::RecvTensorResponse response;
  if (!bytes.ParseInto(&response)) return errors::Internal("The response to RecvTensor is not a message");
  ReceivedTensor result;
  result.is_dead = response.is_dead();
  if (response.transport_options().type_url() == kOffer && !result.is_dead) {
    MR_ASSIGN_OR_RETURN(result.offer, OfferFromResponse(response));
  } else if (!result.is_dead) {
    MR_ASSIGN_OR_RETURN(result.tensor, TakeTensorFromProto(response.mutable_tensor()));
  }
  return result;
}

}  // namespace millrace
