// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The documentation of ops for APIs of languages: that of the OpDefs, overridden by ApiDef texts.
#include <algorithm>
#include <map>

#include "base/mutex.h"
#include "c/internal.h"
#include "proto/message_types.h"
#include "tensorflow/core/framework/api_def.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

using millrace::MutexLock;
using millrace::Status;
using millrace::StatusOr;
using tensorflow::ApiDef;
namespace errors = millrace::errors;

struct TF_ApiDefMap {
  millrace::Mutex mu;
  std::map<std::string, ApiDef, std::less<>> defs MR_GUARDED_BY(mu);
  bool finished MR_GUARDED_BY(mu) = false;
};

namespace millrace::c_api {
namespace {

void AddArg(const tensorflow::OpDef::ArgDef& from, ApiDef::Arg* to) {
  to->set_name(from.name());
  to->set_rename_to(from.name());
  to->set_description(from.description());
}

ApiDef FromOp(const tensorflow::OpDef& op) {
  ApiDef api;
  api.set_graph_op_name(op.name());
  api.set_visibility(ApiDef::VISIBLE);
  api.add_endpoint()->set_name(op.name());
  for (const auto& arg : op.input_arg()) {
    AddArg(arg, api.add_in_arg());
    api.add_arg_order(arg.name());
  }
  for (const auto& arg : op.output_arg()) AddArg(arg, api.add_out_arg());
  for (const auto& attr : op.attr()) {
    ApiDef::Attr* to = api.add_attr();
    to->set_name(attr.name());
    to->set_rename_to(attr.name());
    if (attr.has_default_value()) *to->mutable_default_value() = attr.default_value();
    to->set_description(attr.description());
  }
  api.set_summary(op.summary());
  api.set_description(op.description());
  return api;
}

// Lines between "field: <<END" and "END" are one string, an extension of protobuf's text format.
StatusOr<std::string> WithoutMultiline(std::string_view text) {
  std::string out;
  std::string end;  // of the string that is being read
  std::string value;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    const size_t mark = end.empty() ? line.find("<<") : std::string_view::npos;
    if (!end.empty() && line == end) {
      for (const char c : value) {
        if (c == '\n') {
          out += "\\n";
        } else {
          if (c == '"' || c == '\\') out += '\\';
          out += c;
        }
      }
      out += "\"\n";
      end.clear();
    } else if (!end.empty()) {
      value += value.empty() ? "" : "\n";
      value += line;
    } else if (mark != std::string_view::npos &&
               line.substr(0, mark).find_first_of("\"'") == std::string_view::npos &&
               line.size() > mark + 2) {
      out += StrCat(line.substr(0, mark), "\"");
      end = line.substr(mark + 2);
      value.clear();
    } else {
      out += StrCat(line, "\n");
    }
  }
  if (!end.empty()) return errors::InvalidArgument("Unterminated text: ", end, " is missing");
  return out;
}

template <typename List>
auto* FindNamed(List* list, const std::string& name) {
  const auto found =
      std::find_if(list->begin(), list->end(), [&](const auto& e) { return e.name() == name; });
  return found == list->end() ? nullptr : &*found;
}

template <typename List, typename Part>
Status MergePart(const ApiDef& base, const char* kind, const Part& change, List* list) {
  auto* part = FindNamed(list, change.name());
  if (part == nullptr) {
    return errors::FailedPrecondition(kind, " ", change.name(), " not defined in base api for ",
                                      base.graph_op_name());
  }
  if (!change.rename_to().empty()) part->set_rename_to(change.rename_to());
  if (!change.description().empty()) part->set_description(change.description());
  return Status();
}

Status CheckOrder(const ApiDef& base, const ApiDef& change) {
  std::vector<std::string> names(change.arg_order().begin(), change.arg_order().end());
  std::vector<std::string> known(base.arg_order().begin(), base.arg_order().end());
  if (names.size() != known.size()) {
    return errors::FailedPrecondition("Invalid number of arguments ", names.size(), " for ",
                                      base.graph_op_name(), ". Expected: ", known.size());
  }
  std::sort(names.begin(), names.end());
  std::sort(known.begin(), known.end());
  if (names == known) return Status();
  return errors::FailedPrecondition("Invalid arg_order for ", base.graph_op_name());
}

Status Merge(const ApiDef& change, ApiDef* base) {
  if (change.visibility() != ApiDef::DEFAULT_VISIBILITY) base->set_visibility(change.visibility());
  if (!change.deprecation_message().empty()) base->set_deprecation_message(change.deprecation_message());
  if (change.deprecation_version() > 0) base->set_deprecation_version(change.deprecation_version());
  if (change.endpoint_size() > 0) *base->mutable_endpoint() = change.endpoint();
  for (const auto& arg : change.in_arg()) {
    MR_RETURN_IF_ERROR(MergePart(*base, "Argument", arg, base->mutable_in_arg()));
  }
  for (const auto& arg : change.out_arg()) {
    MR_RETURN_IF_ERROR(MergePart(*base, "Argument", arg, base->mutable_out_arg()));
  }
  for (const auto& attr : change.attr()) {
    MR_RETURN_IF_ERROR(MergePart(*base, "Attribute", attr, base->mutable_attr()));
    if (attr.has_default_value()) {
      *FindNamed(base->mutable_attr(), attr.name())->mutable_default_value() = attr.default_value();
    }
  }
  if (change.arg_order_size() > 0) {
    MR_RETURN_IF_ERROR(CheckOrder(*base, change));
    *base->mutable_arg_order() = change.arg_order();
  }
  if (!change.summary().empty()) base->set_summary(change.summary());
  if (!change.description().empty()) base->set_description(change.description());
  const std::string gap = base->description().empty() ? "" : "\n";
  if (!change.description_prefix().empty()) {
    base->set_description(StrCat(change.description_prefix(), gap, base->description()));
  }
  if (!change.description_suffix().empty()) {
    base->set_description(StrCat(base->description(), gap, change.description_suffix()));
  }
  return Status();
}

void ReplaceAll(const std::string& from, const std::string& to, std::string* text) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size())) {
    text->replace(at, from.size(), to);
  }
}

// Replaces names of arguments and attributes in backticks by their new names.
void RenameInTexts(ApiDef* api) {
  const auto rename = [&](const auto& part) {
    if (part.rename_to().empty() || part.rename_to() == part.name()) return;
    const std::string from = StrCat("`", part.name(), "`"), to = StrCat("`", part.rename_to(), "`");
    ReplaceAll(from, to, api->mutable_summary());
    ReplaceAll(from, to, api->mutable_description());
    for (auto& arg : *api->mutable_in_arg()) ReplaceAll(from, to, arg.mutable_description());
    for (auto& arg : *api->mutable_out_arg()) ReplaceAll(from, to, arg.mutable_description());
    for (auto& attr : *api->mutable_attr()) ReplaceAll(from, to, attr.mutable_description());
  };
  const ApiDef names = *api;
  std::for_each(names.in_arg().begin(), names.in_arg().end(), rename);
  std::for_each(names.out_arg().begin(), names.out_arg().end(), rename);
  std::for_each(names.attr().begin(), names.attr().end(), rename);
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

TF_ApiDefMap* TF_NewApiDefMap(TF_Buffer* op_list_buffer, TF_Status* status) {
  TF_ApiDefMap* result = nullptr;
  Enter(status, [&]() -> Status {
    tensorflow::OpList ops;
    if (op_list_buffer == nullptr || !Parse(op_list_buffer->data, op_list_buffer->length, &ops)) {
      return errors::InvalidArgument("Unparseable OpList");
    }
    auto map = std::make_unique<TF_ApiDefMap>();
    MutexLock lock(map->mu);
    for (const tensorflow::OpDef& op : ops.op()) map->defs[op.name()] = FromOp(op);
    result = map.release();
    return Status();
  });
  return result;
}

void TF_DeleteApiDefMap(TF_ApiDefMap* apimap) { delete apimap; }

void TF_ApiDefMapPut(TF_ApiDefMap* api_def_map, const char* text, size_t text_len, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (api_def_map == nullptr || text == nullptr) return NullArgument("The map or the text");
    MutexLock lock(api_def_map->mu);
    if (api_def_map->finished) {
      return errors::FailedPrecondition(
          "TF_ApiDefMapPut cannot be called after TF_ApiDefMapGet has been called.");
    }
    MR_ASSIGN_OR_RETURN(const std::string plain, WithoutMultiline({text, text_len}));
    tensorflow::ApiDefs defs;
    millrace::TextError error;
    if (!millrace::ParseMessageText(plain, millrace::UnknownFields::kRefused, &defs, &error)) {
      return errors::InvalidArgument("Failed to parse ApiDefs: ", error.line, ":", error.column, ": ",
                                     error.message);
    }
    for (const ApiDef& def : defs.op()) {
      const auto base = api_def_map->defs.find(def.graph_op_name());
      if (base != api_def_map->defs.end()) MR_RETURN_IF_ERROR(Merge(def, &base->second));
    }
    return Status();
  });
}

TF_Buffer* TF_ApiDefMapGet(TF_ApiDefMap* api_def_map, const char* name, size_t name_len, TF_Status* status) {
  TF_Buffer* result = nullptr;
  Enter(status, [&]() -> Status {
    if (api_def_map == nullptr || name == nullptr) return NullArgument("The map or the name");
    MutexLock lock(api_def_map->mu);
    if (!std::exchange(api_def_map->finished, true)) {
      for (auto& [op, def] : api_def_map->defs) RenameInTexts(&def);
    }
    const auto found = api_def_map->defs.find(std::string_view(name, name_len));
    if (found == api_def_map->defs.end()) return Status();
    result = TF_NewBuffer();
    return ToBuffer(found->second, result);
  });
  return result;
}
