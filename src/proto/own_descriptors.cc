// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/own_descriptors.h"

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/once.h>

#include "proto/message_types.h"

#ifdef AssignDescriptors

namespace google::protobuf {

// The name of a class that is a friend of Reflection.
class GeneratedMessageReflectionTestHelper {
 public:
  static const Reflection* New(const Descriptor* type, const internal::ReflectionSchema& schema,
                               const DescriptorPool* pool, MessageFactory* factory) {
    return new Reflection(type, schema, pool, factory);
  }
};

namespace internal {
namespace {

constinit const MillraceFile* all_files = nullptr;  // written before main only

// The offsets of a message begin with these, followed by those of its fields.
enum Special { kHasBits, kMetadata, kExtensions, kOneofCase, kWeakFields, kInlinedStrings, kSpecials };

ReflectionSchema SchemaOf(const Message* instance, const uint32_t* offsets, const MigrationSchema& message) {
  const uint32_t* const own = offsets + message.offsets_index;
  ReflectionSchema schema;
  schema.default_instance_ = instance;
  schema.offsets_ = own + kSpecials;
  schema.has_bit_indices_ = offsets + message.has_bit_indices_index;
  schema.has_bits_offset_ = static_cast<int>(own[kHasBits]);
  schema.metadata_offset_ = static_cast<int>(own[kMetadata]);
  schema.extensions_offset_ = static_cast<int>(own[kExtensions]);
  schema.oneof_case_offset_ = static_cast<int>(own[kOneofCase]);
  schema.object_size_ = message.object_size;
  schema.weak_field_map_offset_ = static_cast<int>(own[kWeakFields]);
  schema.inlined_string_indices_ = offsets + message.inlined_string_indices_index;
  schema.inlined_string_donated_offset_ = static_cast<int>(own[kInlinedStrings]);
  return schema;
}

// The descriptors of all files, built at the first look-up and never destroyed. Thread-safe.
class OwnPool final : public MessageFactory {
 public:
  static OwnPool& Get() {
    static auto* const pool = new OwnPool;
    return *pool;
  }

  void Assign(const DescriptorTable& table) {
    const std::lock_guard<std::mutex> lock(mu_);
    const FileDescriptor* file = Build(table);
    Cursor at{table.file_level_metadata, table.file_level_enum_descriptors, table.schemas,
              table.default_instances};
    for (int i = 0; i < file->message_type_count(); ++i) AssignMessage(table, file->message_type(i), &at);
    for (int i = 0; i < file->enum_type_count(); ++i) *at.enums++ = file->enum_type(i);
  }

  const Message* GetPrototype(const Descriptor* type) override {
    if (const Message* instance = Find(type); instance != nullptr) return instance;
    for (const MillraceFile* file = all_files; file != nullptr; file = file->next) {
      if (type->file()->name() == file->table->filename) {
        MillraceAssign(file->table);
        return Find(type);
      }
    }
    // One of protobuf's own, whose instances belong to the pool of the process.
    const Descriptor* of_process = DescriptorPool::generated_pool()->FindMessageTypeByName(type->full_name());
    return of_process == nullptr ? nullptr : generated_factory()->GetPrototype(of_process);
  }

  const Descriptor* FindType(const std::string& name) {
    Files();
    return pool_.FindMessageTypeByName(name);
  }

  std::vector<const FileDescriptor*> Files() {
    const std::lock_guard<std::mutex> lock(mu_);
    std::vector<const FileDescriptor*> files;
    for (const MillraceFile* file = all_files; file != nullptr; file = file->next) {
      files.push_back(Build(*file->table));
    }
    return files;
  }

 private:
  struct Cursor {
    Metadata* metadata;
    const EnumDescriptor** enums;
    const MigrationSchema* schemas;
    const Message* const* instances;
  };

  // With mu_ held, as the next.
  const FileDescriptor* Build(const DescriptorTable& table) {
    if (const FileDescriptor* file = pool_.FindFileByName(table.filename); file != nullptr) return file;
    for (int i = 0; i < table.num_deps; ++i) Build(*table.deps[i]);
    FileDescriptorProto proto;
    GOOGLE_CHECK(proto.ParseFromArray(table.descriptor, table.size));
    const FileDescriptor* file = pool_.BuildFile(proto);
    GOOGLE_CHECK(file != nullptr) << table.filename;
    return file;
  }

  // Inner messages come first, and the enums of a message after it: the order of the generated tables.
  void AssignMessage(const DescriptorTable& table, const Descriptor* type, Cursor* at) {
    for (int i = 0; i < type->nested_type_count(); ++i) AssignMessage(table, type->nested_type(i), at);
    const Message* const instance = *at->instances++;
    instances_.emplace(type, instance);
    at->metadata->descriptor = type;
    at->metadata->reflection = GeneratedMessageReflectionTestHelper::New(
        type, SchemaOf(instance, table.offsets, *at->schemas++), &pool_, this);
    ++at->metadata;
    for (int i = 0; i < type->enum_type_count(); ++i) *at->enums++ = type->enum_type(i);
  }

  const Message* Find(const Descriptor* type) {
    const std::lock_guard<std::mutex> lock(mu_);
    const auto found = instances_.find(type);
    return found == instances_.end() ? nullptr : found->second;
  }

  std::mutex mu_;
  DescriptorPool pool_;
  std::unordered_map<const Descriptor*, const Message*> instances_;
};

}  // namespace

MillraceFile::MillraceFile(const DescriptorTable* t) : table(t), next(all_files) { all_files = this; }

void MillraceAssign(const DescriptorTable* table) {
  call_once(*table->once, [table] { OwnPool::Get().Assign(*table); });
}

Metadata MillraceAssign(const DescriptorTable* (*table)(), once_flag* once, const Metadata& metadata) {
  call_once(*once, [table] { OwnPool::Get().Assign(*table()); });
  return metadata;
}

}  // namespace internal
}  // namespace google::protobuf

namespace millrace {

const google::protobuf::Descriptor* FindMessageType(const std::string& name) {
  return google::protobuf::internal::OwnPool::Get().FindType(name);
}

std::vector<const google::protobuf::FileDescriptor*> MessageFiles() {
  return google::protobuf::internal::OwnPool::Get().Files();
}

}  // namespace millrace

#else

#include <google/protobuf/descriptor_database.h>

namespace millrace {

using google::protobuf::DescriptorPool;

const google::protobuf::Descriptor* FindMessageType(const std::string& name) {
  return DescriptorPool::generated_pool()->FindMessageTypeByName(name);
}

std::vector<const google::protobuf::FileDescriptor*> MessageFiles() {
  std::vector<std::string> names;
  DescriptorPool::internal_generated_database()->FindAllFileNames(&names);
  std::vector<const google::protobuf::FileDescriptor*> files;
  for (const std::string& name : names) {
    if (name.starts_with("tensorflow/"))
      files.push_back(DescriptorPool::generated_pool()->FindFileByName(name));
  }
  return files;
}

}  // namespace millrace

#endif
