// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Adds and removes scopes of names, in strings and in the messages in collections.
#include <array>
#include <memory>

#include <google/protobuf/message.h>

#include "tensorflow/core/framework/variable.pb.h"
#include "tensorflow/core/protobuf/control_flow.pb.h"
#include "tensorflow/core/protobuf/queue_runner.pb.h"
#include "tensorflow/core/protobuf/saver.pb.h"
#include "training/meta_graph_io.h"

namespace millrace {
namespace {

namespace pb = google::protobuf;

// The prefix of a name: "^" of control inputs, "loc:@" of colocation.
std::string_view Mark(std::string_view name) {
  if (name.starts_with('^')) return name.substr(0, 1);
  constexpr std::string_view kLoc = "loc:@";
  return name.starts_with(kLoc) ? name.substr(0, kLoc.size()) : std::string_view();
}

// Every string in these messages is the name of a node or tensor.
void PrependToTexts(std::string_view scope, pb::Message* message) {
  const pb::Reflection& reflection = *message->GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    const bool is_text = field->cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING;
    if (!is_text && field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated() && is_text) {
      reflection.SetString(message, field, PrependScope(scope, reflection.GetString(*message, field)));
    } else if (!field->is_repeated()) {
      PrependToTexts(scope, reflection.MutableMessage(message, field));
    } else {
      for (int i = 0; i < reflection.FieldSize(*message, field); ++i) {
        if (is_text) {
          const std::string name = reflection.GetRepeatedString(*message, field, i);
          reflection.SetRepeatedString(message, field, i, PrependScope(scope, name));
        } else {
          PrependToTexts(scope, reflection.MutableRepeatedMessage(message, field, i));
        }
      }
    }
  }
}

// The message type of a collection's entries; null if unknown.
std::unique_ptr<pb::Message> MessageOf(const std::string& collection) {
  constexpr std::array kOfVariables = {
      "variables",           "local_variables",        "model_variables",
      "trainable_variables", "metric_variables",       "moving_average_variables",
      "global_step",         "concatenated_variables", "trainable_resource_variables"};
  for (const char* name : kOfVariables) {
    if (collection == name) return std::make_unique<tensorflow::VariableDef>();
  }
  if (collection == "queue_runners") return std::make_unique<tensorflow::QueueRunnerDef>();
  if (collection == "savers") return std::make_unique<tensorflow::SaverDef>();
  if (collection == "cond_context") return std::make_unique<tensorflow::CondContextDef>();
  if (collection == "while_context") return std::make_unique<tensorflow::WhileContextDef>();
  return nullptr;
}

}  // namespace

std::string PrependScope(std::string_view scope, std::string_view name) {
  if (scope.empty() || name.empty()) return std::string(name);
  const std::string_view mark = Mark(name);
  return StrCat(mark, scope, scope.ends_with('/') ? "" : "/", name.substr(mark.size()));
}

bool IsBelowScope(std::string_view scope, std::string_view name) {
  name.remove_prefix(Mark(name).size());
  return scope.empty() || (name.starts_with(scope) && name.substr(scope.size()).starts_with('/'));
}

std::string StripScope(std::string_view scope, std::string_view name) {
  if (scope.empty() || !IsBelowScope(scope, name)) return std::string(name);
  const std::string_view mark = Mark(name);
  return StrCat(mark, name.substr(mark.size() + scope.size() + 1));
}

void PrependScope(std::string_view scope, const std::string& collection, CollectionDef* def) {
  if (scope.empty()) return;
  if (auto* const nodes = std::get_if<NodeList>(def)) {
    for (std::string& name : nodes->value) name = PrependScope(scope, name);
  }
  auto* const bytes = std::get_if<BytesList>(def);
  if (bytes == nullptr) return;
  const std::unique_ptr<pb::Message> message = MessageOf(collection);
  if (message == nullptr) return;
  for (std::string& value : bytes->value) {
    message->Clear();
    if (!message->ParseFromString(value)) continue;  // user data with that collection name
    PrependToTexts(scope, message.get());
    value = message->SerializeAsString();
  }
}

}  // namespace millrace
