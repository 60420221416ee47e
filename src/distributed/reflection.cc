// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/unknown_field_set.h>

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "base/strings.h"
#include "distributed/transport.h"
#include "proto/message_types.h"

namespace millrace {
namespace {

using google::protobuf::FileDescriptorProto;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

// Field numbers of ServerReflectionRequest and of ServerReflectionResponse.
enum RequestField {
  kHost = 1,
  kFileByName = 3,
  kFileBySymbol = 4,
  kFileByExtension = 5,
  kExtensions = 6,
  kList = 7
};
enum ResponseField { kValidHost = 1, kOriginal = 2, kFiles = 4, kServices = 6, kError = 7 };
constexpr size_t kLargestRequest = 64 << 10;
constexpr int kNotFound = 5, kInvalidArgument = 3;  // codes of gRPC

// The files of gRPC's own services; their messages are not TensorFlow's.
constexpr char kHealthFile[] = R"(
  name: "grpc/health/v1/health.proto" package: "grpc.health.v1" syntax: "proto3"
  message_type { name: "HealthCheckRequest" field { name: "service" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING } }
  message_type { name: "HealthCheckResponse"
    field { name: "status" number: 1 label: LABEL_OPTIONAL type: TYPE_ENUM
            type_name: ".grpc.health.v1.HealthCheckResponse.ServingStatus" }
    enum_type { name: "ServingStatus" value { name: "UNKNOWN" number: 0 } value { name: "SERVING" number: 1 }
                value { name: "NOT_SERVING" number: 2 } value { name: "SERVICE_UNKNOWN" number: 3 } } }
  service { name: "Health"
    method { name: "Check" input_type: ".grpc.health.v1.HealthCheckRequest"
             output_type: ".grpc.health.v1.HealthCheckResponse" }
    method { name: "Watch" input_type: ".grpc.health.v1.HealthCheckRequest"
             output_type: ".grpc.health.v1.HealthCheckResponse" server_streaming: true } })";

// VERSION is v1 or v1alpha.
constexpr char kReflectionFile[] = R"(
  name: "grpc/reflection/VERSION/reflection.proto" package: "grpc.reflection.VERSION" syntax: "proto3"
  message_type { name: "ExtensionRequest"
    field { name: "containing_type" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "extension_number" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 } }
  message_type { name: "ServerReflectionRequest"
    field { name: "host" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "file_by_filename" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
    field { name: "file_containing_symbol" number: 4 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
    field { name: "file_containing_extension" number: 5 label: LABEL_OPTIONAL type: TYPE_MESSAGE oneof_index: 0
            type_name: ".grpc.reflection.VERSION.ExtensionRequest" }
    field { name: "all_extension_numbers_of_type" number: 6 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
    field { name: "list_services" number: 7 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
    oneof_decl { name: "message_request" } }
  message_type { name: "FileDescriptorResponse"
    field { name: "file_descriptor_proto" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
  message_type { name: "ExtensionNumberResponse"
    field { name: "base_type_name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "extension_number" number: 2 label: LABEL_REPEATED type: TYPE_INT32 } }
  message_type { name: "ServiceResponse" field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING } }
  message_type { name: "ListServiceResponse"
    field { name: "service" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
            type_name: ".grpc.reflection.VERSION.ServiceResponse" } }
  message_type { name: "ErrorResponse"
    field { name: "error_code" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
    field { name: "error_message" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING } }
  message_type { name: "ServerReflectionResponse"
    field { name: "valid_host" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "original_request" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
            type_name: ".grpc.reflection.VERSION.ServerReflectionRequest" }
    field { name: "file_descriptor_response" number: 4 label: LABEL_OPTIONAL type: TYPE_MESSAGE oneof_index: 0
            type_name: ".grpc.reflection.VERSION.FileDescriptorResponse" }
    field { name: "all_extension_numbers_response" number: 5 label: LABEL_OPTIONAL type: TYPE_MESSAGE oneof_index: 0
            type_name: ".grpc.reflection.VERSION.ExtensionNumberResponse" }
    field { name: "list_services_response" number: 6 label: LABEL_OPTIONAL type: TYPE_MESSAGE oneof_index: 0
            type_name: ".grpc.reflection.VERSION.ListServiceResponse" }
    field { name: "error_response" number: 7 label: LABEL_OPTIONAL type: TYPE_MESSAGE oneof_index: 0
            type_name: ".grpc.reflection.VERSION.ErrorResponse" }
    oneof_decl { name: "message_response" } }
  service { name: "ServerReflection"
    method { name: "ServerReflectionInfo" input_type: ".grpc.reflection.VERSION.ServerReflectionRequest"
             output_type: ".grpc.reflection.VERSION.ServerReflectionResponse" client_streaming: true
             server_streaming: true } })";

FileDescriptorProto FileFromText(std::string text, std::string_view version) {
  constexpr std::string_view kVersion = "VERSION";
  for (size_t at = 0; (at = text.find(kVersion, at)) != std::string::npos;)
    text.replace(at, kVersion.size(), version);
  FileDescriptorProto file;
  if (!google::protobuf::TextFormat::ParseFromString(text, &file)) file.Clear();
  return file;
}

void NameSymbols(const std::string& package, const FileDescriptorProto& file,
                 std::map<std::string, std::string>* files) {
  const std::string prefix = package.empty() ? "" : package + ".";
  const std::function<void(const std::string&, const google::protobuf::DescriptorProto&)> message =
      [&](const std::string& outer, const google::protobuf::DescriptorProto& type) {
        const std::string name = outer + type.name();
        files->emplace(name, file.name());
        for (const auto& field : type.field()) files->emplace(StrCat(name, ".", field.name()), file.name());
        for (const auto& nested : type.nested_type()) message(name + ".", nested);
        for (const auto& enumeration : type.enum_type())
          files->emplace(StrCat(name, ".", enumeration.name()), file.name());
      };
  for (const auto& type : file.message_type()) message(prefix, type);
  for (const auto& enumeration : file.enum_type()) files->emplace(prefix + enumeration.name(), file.name());
  for (const auto& service : file.service()) {
    const std::string name = prefix + service.name();
    files->emplace(name, file.name());
    for (const auto& method : service.method()) files->emplace(StrCat(name, ".", method.name()), file.name());
  }
}

// The files of all messages and services, and the file of each declared name. Created at the first request,
// exists as long as the process.
class Files {
 public:
  static const Files& Get() {
    static const auto* const files = new Files;
    return *files;
  }
  const FileDescriptorProto* Find(const std::string& name) const {
    const auto it = files_.find(name);
    return it == files_.end() ? nullptr : &it->second;
  }
  const FileDescriptorProto* FindSymbol(const std::string& symbol) const {
    const auto it = symbols_.find(symbol);
    return it == symbols_.end() ? nullptr : Find(it->second);
  }

 private:
  Files() {
    for (const google::protobuf::FileDescriptor* file : MessageFiles()) Add(*file);
    for (const auto& file : {FileFromText(kHealthFile, ""), FileFromText(kReflectionFile, "v1"),
                             FileFromText(kReflectionFile, "v1alpha")}) {
      NameSymbols(file.package(), file, &symbols_);
      files_.emplace(file.name(), file);
    }
  }
  void Add(const google::protobuf::FileDescriptor& file) {
    const auto [it, is_new] = files_.try_emplace(file.name());
    if (!is_new) return;
    file.CopyTo(&it->second);
    // The files declare tensorflow.grpc, but the services of TensorFlow's tasks have this package.
    if (file.service_count() > 0 && file.package() == "tensorflow.grpc") it->second.set_package("tensorflow");
    NameSymbols(it->second.package(), it->second, &symbols_);
    for (int i = 0; i < file.dependency_count(); ++i) Add(*file.dependency(i));
  }

  std::map<std::string, FileDescriptorProto> files_;  // by name
  std::map<std::string, std::string> symbols_;        // the file of each full name
};

std::string Serialize(const UnknownFieldSet& fields) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.type() == UnknownField::TYPE_VARINT) {
      out.WriteTag(static_cast<uint32_t>(field.number()) << 3);
      out.WriteVarint64(field.varint());
    } else if (field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      out.WriteTag(static_cast<uint32_t>(field.number()) << 3 | 2);
      out.WriteVarint32(static_cast<uint32_t>(field.length_delimited().size()));
      out.WriteString(field.length_delimited());
    }
  }
  out.Trim();
  return bytes;
}

std::string Error(int code, const std::string& text) {
  UnknownFieldSet error;
  error.AddVarint(1, static_cast<uint64_t>(code));
  *error.AddLengthDelimited(2) = text;
  return Serialize(error);
}

// The file and its dependencies, each once.
std::string WithDependencies(const FileDescriptorProto& file) {
  UnknownFieldSet files;
  std::set<std::string> sent{file.name()};
  std::vector<const FileDescriptorProto*> left{&file};
  while (!left.empty()) {
    const FileDescriptorProto& next = *left.back();
    left.pop_back();
    *files.AddLengthDelimited(1) = next.SerializeAsString();
    for (const std::string& name : next.dependency()) {
      const FileDescriptorProto* const needed = Files::Get().Find(name);
      if (needed != nullptr && sent.insert(name).second) left.push_back(needed);
    }
  }
  return Serialize(files);
}

std::string Services() {
  std::set<std::string> names = {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                                 "grpc.reflection.v1alpha.ServerReflection"};
  for (int i = 0; i < kNumMethods; ++i) {
    const std::string path = MethodPath(static_cast<Method>(i));
    names.insert(path.substr(1, path.rfind('/') - 1));
  }
  UnknownFieldSet list;
  for (const std::string& name : names) {
    UnknownFieldSet service;
    *service.AddLengthDelimited(1) = name;
    *list.AddLengthDelimited(1) = Serialize(service);
  }
  return Serialize(list);
}

void Answer(const UnknownFieldSet& request, UnknownFieldSet* response) {
  for (int i = 0; i < request.field_count(); ++i) {
    const UnknownField& field = request.field(i);
    if (field.number() == kHost || field.type() != UnknownField::TYPE_LENGTH_DELIMITED) continue;
    const std::string& name = field.length_delimited();
    if (field.number() == kList) {
      *response->AddLengthDelimited(kServices) = Services();
    } else if (field.number() == kFileByName || field.number() == kFileBySymbol) {
      const FileDescriptorProto* const file =
          field.number() == kFileByName ? Files::Get().Find(name) : Files::Get().FindSymbol(name);
      if (file != nullptr) {
        *response->AddLengthDelimited(kFiles) = WithDependencies(*file);
      } else {
        *response->AddLengthDelimited(kError) = Error(kNotFound, name + " is not known here");
      }
    } else if (field.number() == kFileByExtension || field.number() == kExtensions) {
      *response->AddLengthDelimited(kError) = Error(kNotFound, "Extensions are not supported");
    } else {
      continue;
    }
    return;
  }
  *response->AddLengthDelimited(kError) = Error(kInvalidArgument, "The request is empty");
}

}  // namespace

std::string AnswerReflection(std::string_view request) {
  UnknownFieldSet parsed, response;
  const bool is_message = request.size() <= kLargestRequest &&
                          parsed.ParseFromArray(request.data(), static_cast<int>(request.size()));
  if (is_message) {
    for (int i = 0; i < parsed.field_count(); ++i) {
      const UnknownField& field = parsed.field(i);
      if (field.number() == kHost && field.type() == UnknownField::TYPE_LENGTH_DELIMITED)
        *response.AddLengthDelimited(kValidHost) = field.length_delimited();
    }
    *response.AddLengthDelimited(kOriginal) = std::string(request);
    Answer(parsed, &response);
  } else {
    *response.AddLengthDelimited(kError) = Error(kInvalidArgument, "The request is not a message");
  }
  return Serialize(response);
}

}  // namespace millrace
