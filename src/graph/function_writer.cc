// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/function_writer.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "graph/graph_import.h"
#include "op/attr_codec.h"
#include "op/op_def_codec.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

using tensorflow::FunctionDef;

// Names of arguments: lower-case letters, digits and '_', with a letter in front.
std::string ArgumentName(std::string_view name) {
  std::string result;
  for (const char c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (result.empty() && std::isalpha(u) == 0) continue;
    result += std::isalnum(u) != 0 ? static_cast<char>(std::tolower(u)) : '_';
  }
  return result.empty() ? "unknown" : result;
}

// Names of parameters, results and nodes, which share a space: the first free one of "n", "n_0", "n_1", ….
class UniqueNames {
 public:
  std::string Add(const std::string& name) {
    std::string unique = name;
    for (int& i = counters_[name]; !taken_.insert(unique).second; ++i) unique = StrCat(name, "_", i);
    return unique;
  }
  bool AddExactly(const std::string& name) { return taken_.insert(name).second; }

 private:
  std::set<std::string> taken_;
  std::map<std::string, int> counters_;
};

// Eight bytes as letters and digits.
std::string Encode(uint64_t hash) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789aA";
  std::string text;
  for (int i = 0; i < 11; ++i, hash >>= 6) text += kDigits[hash & 63];
  return text;
}

// FNV-1a over the definition, independent of the order of its maps.
uint64_t HashOf(const FunctionDef& def) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    def.SerializeToCodedStream(&out);
  }
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

class Writer {
 public:
  Writer(const FunctionParts& parts, FunctionDef* def) : parts_(parts), def_(*def) {}

  Status Run() {
    def_.Clear();
    tensorflow::OpDef& signature = *def_.mutable_signature();
    signature.set_name(parts_.name);
    signature.set_description(parts_.description);
    for (const Output& input : parts_.inputs) AddInput(input);
    for (size_t i = 0; i < parts_.outputs.size(); ++i) MR_RETURN_IF_ERROR(AddOutput(i));
    MR_RETURN_IF_ERROR(NameBody());
    for (const Node* node : parts_.body) MR_RETURN_IF_ERROR(AddNode(*node));
    for (size_t i = 0; i < parts_.outputs.size(); ++i) MR_RETURN_IF_ERROR(SetResult(i));
    for (size_t i = 0; i < parts_.controls.size(); ++i) MR_RETURN_IF_ERROR(AddControlOutput(i));
    if (parts_.append_hash) signature.set_name(StrCat(parts_.name, "_", Encode(HashOf(def_))));
    return Status();
  }

 private:
  using Key = std::pair<const Node*, int>;

  void AddInput(const Output& input) {
    tensorflow::OpDef::ArgDef* arg = def_.mutable_signature()->add_input_arg();
    arg->set_name(names_.Add(ArgumentName(input.node->name())));
    arg->set_type(DataTypeToProto(input.node->output_type(input.index)));
    tensors_[{input.node, input.index}] = arg->name();
    node_names_.try_emplace(input.node, arg->name());  // its control edges start at the parameter
    // Attributes that every op may have suit the parameter, too.
    AttrMap own;
    for (const auto& [name, value] : input.node->attrs()) {
      if (name.starts_with('_')) own.Set(name, value);
    }
    if (own.empty()) return;
    const auto index = static_cast<uint32_t>(def_.signature().input_arg_size() - 1);
    AttrMapToProto(own, (*def_.mutable_arg_attr())[index].mutable_attr());
  }

  // Gives the tensors of the body their names within a function: "node:argument:index".
  Status NameBody() {
    for (const Node* node : parts_.body) {
      const std::string& name = node_names_[node] = names_.Add(node->name());
      std::vector<ArgRange> ranges;
      MR_RETURN_IF_ERROR(InferArgRanges(node->op_def().outputs, node->attrs(), &ranges));
      for (const ArgRange& range : ranges) {
        for (int i = range.begin; i < range.end; ++i) {
          tensors_.try_emplace({node, i}, StrCat(name, ":", range.name, ":", i - range.begin));
        }
      }
    }
    return Status();
  }

  Status AddNode(const Node& node) {
    tensorflow::NodeDef* def = def_.add_node_def();
    ExportNodeDef(node, def);
    def->set_name(node_names_[&node]);
    def->clear_input();
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Edge* edge = node.in_edges()[static_cast<size_t>(i)];
      const auto found = edge == nullptr ? tensors_.end() : tensors_.find({edge->src, edge->src_output});
      if (found == tensors_.end()) {
        return errors::InvalidArgument(
            "Input ", i, ", '", edge == nullptr ? "" : StrCat(edge->src->name(), ":", edge->src_output),
            "', of node '", node.name(), "' in function '", parts_.name,
            "' is not available. You might need to include it in inputs or include its source node in the "
            "body");
      }
      def->add_input(found->second);
    }
    std::set<std::string> controls;
    for (const Edge* edge : node.control_in_edges()) {
      if (!edge->src->IsOp()) continue;
      const auto found = node_names_.find(edge->src);
      if (found == node_names_.end()) {
        return errors::InvalidArgument(
            "The source of control edge [id=", edge->id, " ", edge->src->name(), ":-1 -> ", node.name(),
            ":-1] is not in the body. Encountered while creating function '", parts_.name, "'");
      }
      controls.insert(found->second);
    }
    for (const std::string& control : controls) def->add_input(StrCat("^", control));
    if (node.op_def().is_stateful) def_.mutable_signature()->set_is_stateful(true);
    AddPlaceholders(node);
    return Status();
  }

  // An attribute that names one of the function makes that an attribute of the signature.
  void AddPlaceholders(const Node& node) {
    for (const auto& [name, value] : node.attrs()) {
      const auto* placeholder = value.As<AttrPlaceholder>();
      const AttrDef* declared = placeholder == nullptr ? nullptr : node.op_def().FindAttr(name);
      if (declared == nullptr || !attrs_.insert(placeholder->name).second) continue;
      tensorflow::OpDef::AttrDef* attr = def_.mutable_signature()->add_attr();
      attr->set_name(placeholder->name);
      attr->set_type(declared->type);
    }
  }

  Status AddOutput(size_t i) {
    const Output& output = parts_.outputs[i];
    tensorflow::OpDef::ArgDef* arg = def_.mutable_signature()->add_output_arg();
    arg->set_type(DataTypeToProto(BaseType(output.node->output_type(output.index))));
    if (parts_.output_names.empty()) {
      arg->set_name(names_.Add(ArgumentName(output.node->name())));
    } else {
      arg->set_name(parts_.output_names[i]);
      if (!names_.AddExactly(arg->name())) {
        return errors::InvalidArgument("Cannot have duplicate output names. Name '", arg->name(),
                                       "' appears more than once in 'output_names' array.");
      }
    }
    return Status();
  }

  Status SetResult(size_t i) {
    const Output& output = parts_.outputs[i];
    const auto found = tensors_.find({output.node, output.index});
    if (found == tensors_.end()) {
      return errors::InvalidArgument("TF_Output ", output.node->name(), ":", output.index,
                                     " is neither in the function body nor among function inputs. "
                                     "Encountered while creating function '",
                                     parts_.name, "'");
    }
    (*def_.mutable_ret())[def_.signature().output_arg(static_cast<int>(i)).name()] = found->second;
    return Status();
  }

  Status AddControlOutput(size_t i) {
    const Node* node = parts_.controls[i];
    const auto found = node_names_.find(node);
    if (found == node_names_.end()) {
      return errors::InvalidArgument("The control output ", node->name(),
                                     " is not in the body. Encountered while creating function '",
                                     parts_.name, "'");
    }
    const std::string name = parts_.control_names.empty() ? node->name() : parts_.control_names[i];
    if (name.empty()) {
      return errors::InvalidArgument("Control output name must not be empty for control output ", i, ".");
    }
    if (!(*def_.mutable_control_ret()).insert({name, found->second}).second) {
      return errors::InvalidArgument("Repeated control output name: ", name);
    }
    def_.mutable_signature()->add_control_output(name);
    return Status();
  }

  const FunctionParts& parts_;
  FunctionDef& def_;
  UniqueNames names_;
  std::set<std::string> attrs_;
  std::map<Key, std::string> tensors_;
  std::map<const Node*, std::string> node_names_;
};

}  // namespace

Status WriteFunction(const FunctionParts& parts, tensorflow::FunctionDef* def) {
  return Writer(parts, def).Run();
}

}  // namespace millrace
