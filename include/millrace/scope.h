// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/output.h"
#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace tensorflow {
class GraphDef;
}

namespace millrace {

class AttrMap;
class Graph;
class OpMaker;
class Scope;
class ShapeRefiner;
struct VariableScope;

// A node as a whole: to be run, or as a control input. A value; the graph owns the node.
struct Operation {
  Operation() = default;
  explicit Operation(Node* n) : node(n) {}
  Operation(const Output& output) : node(output.node) {}  // NOLINT(google-explicit-constructor)

  Node* node = nullptr;
  bool IsSet() const { return node != nullptr; }
  friend bool operator==(const Operation&, const Operation&) = default;
};

// An input of an op wrapper: a tensor of the graph, or a literal, which becomes a Const.
class Input {
 public:
  Input(const Output& output) : output_(output) {}                      // NOLINT(google-explicit-constructor)
  Input(std::initializer_list<Literal> rows) : Input(Literal(rows)) {}  // NOLINT(google-explicit-constructor)
  template <typename T>
  requires(!std::same_as<std::remove_cvref_t<T>, Input> && !std::convertible_to<const T&, Output> &&
           std::convertible_to<const T&, Literal>)
      Input(const T& value)  // NOLINT(google-explicit-constructor)
      : literal_(std::make_shared<const Literal>(value)) {}
  // An op wrapper with one output.
  template <typename T>
  requires(!std::same_as<T, Output> && !std::same_as<T, Input> && std::convertible_to<const T&, Output>)
      Input(const T& wrapper)
      : output_(static_cast<Output>(wrapper)) {}  // NOLINT(google-explicit-constructor)

  const Output& output() const { return output_; }           // unset for a literal
  const Literal* literal() const { return literal_.get(); }  // null for a tensor of the graph

 private:
  Output output_;
  std::shared_ptr<const Literal> literal_;
};

// An input of an op wrapper that is a list of tensors.
class InputList {
 public:
  InputList(std::initializer_list<Input> inputs) : inputs_(inputs) {}   // NOLINT(google-explicit-constructor)
  InputList(std::vector<Input> inputs) : inputs_(std::move(inputs)) {}  // NOLINT(google-explicit-constructor)
  InputList(const std::vector<Output>& outputs)                         // NOLINT(google-explicit-constructor)
      : inputs_(outputs.begin(), outputs.end()) {}

  const std::vector<Input>& inputs() const { return inputs_; }

 private:
  std::vector<Input> inputs_;
};

// The arguments of a device function: a node to be created.
struct NodeToPlace {
  std::string op;
  std::string device;                   // the argument of WithDevice
  DataType dtype = DataType::kInvalid;  // the attributes of these names, as variables have them; kInvalid and
  PartialShape shape;                   // unknown without them
};
// Returns the requested device of a node; its error becomes the scope's.
using DeviceFunction = std::function<StatusOr<std::string>(const NodeToPlace&)>;

// Properties of new nodes of a graph: name prefix, device, control inputs, colocation. A value: the
// With… functions return changed copies, all of which share one graph and one status. The status keeps
// the first error; after it no nodes are added, and the outputs of wrappers are unset. Not
// thread-safe.
class Scope {
 public:
  // An empty graph over all registered ops.
  static Scope NewRootScope();
  // Moving copies, so that the source stays usable.
  Scope(const Scope&) = default;
  Scope& operator=(const Scope&) = default;

  // Node names in the result begin with `name`/, made unique: "layer", "layer_1", …
  Scope NewSubScope(std::string_view name) const;
  // The next node gets this name instead of its op's; a name that is
  // taken gets a suffix: "x_1". The name "/" is the name of the
  // scope.
  Scope WithOpName(std::string_view name) const;
  // The same scope without a name prefix: names of nodes are given in full.
  Scope AtRoot() const;
  // Adds control inputs to those of the scope.
  Scope WithControlDependencies(const std::vector<Operation>& operations) const;
  Scope WithNoControlDependencies() const;
  // The requested device, "" for none; replaces the scope's.
  Scope WithDevice(std::string_view device) const;
  // The function returns the device of each node, except for nodes that are colocated with others: these get
  // the device of the first of them. Null for none; replaces the scope's.
  Scope WithDeviceFunction(DeviceFunction function) const;
  // Colocates with that node, in addition to those of the scope.
  Scope ColocateWith(const Operation& operation) const;
  Scope WithNoColocation() const;
  // The same outside of all branches and loops, without control inputs: for nodes used by all steps.
  Scope OutsideControlFlow() const;
  // The options of variables (millrace/variables.h); null: the defaults.
  Scope WithVariableScope(std::shared_ptr<const VariableScope> variables) const;

  bool ok() const { return status().ok(); }
  const Status& status() const;
  // Keeps `error` if it is the first one.
  void UpdateStatus(const Status& error) const;

  Graph& graph() const;
  // The name prefix of the scope's nodes, without the '/'; "" for the root.
  const std::string& path() const;
  // The name given to WithOpName.
  const std::string& op_name() const;
  void ToGraphDef(tensorflow::GraphDef* def) const;

  // Properties of a tensor of the graph. For unset ones: "", invalid, unknown.
  static std::string NameOf(const Output& tensor);  // "node:1", "node" for output 0
  static std::string NameOf(const Operation& operation);
  static DataType TypeOf(const Output& tensor);  // without the reference
  PartialShape ShapeOf(const Output& tensor) const;
  // Any node by its name; NotFound if there is none.
  StatusOr<Operation> FindOperation(std::string_view name) const;

  struct State;   // shared by all scopes of a graph
  class Context;  // the branch or loop that the scope's nodes belong to
  State& state() const { return *state_; }
  const std::shared_ptr<Context>& context() const { return context_; }  // null: none
  const std::shared_ptr<const VariableScope>& variable_scope() const { return variable_scope_; }

 private:
  friend class OpMaker;
  friend class ControlFlowBuilder;
  friend class GradientCallAccess;
  // For a graph that the scope does not own and that outlives it; `path` is not made unique.
  static Scope Over(Graph& graph, ShapeRefiner& shapes, std::string path);
  explicit Scope(std::shared_ptr<State> state) : state_(std::move(state)) {}
  // The device of a node to be created.
  StatusOr<std::string> DeviceOf(std::string_view op, const AttrMap& attrs) const;

  std::shared_ptr<State> state_;
  std::string path_;     // of the scope, without a '/' at the end
  std::string op_name_;  // "": named after the op
  std::string device_;
  std::shared_ptr<const DeviceFunction> device_function_;  // null: none
  std::vector<Node*> controls_;
  std::vector<std::string> colocation_;  // "loc@name"
  std::shared_ptr<Context> context_;     // null: none
  std::shared_ptr<const VariableScope> variable_scope_;
};

// Entry `i`; unset if there is none, for example after an error.
inline Output OutputAt(const std::vector<Output>& outputs, size_t i) {
  return i < outputs.size() ? outputs[i] : Output();
}

struct FunctionName;

// The attributes given to an op wrapper. A value.
class OpAttrs {
 public:
  void Set(const char* name, std::string_view value);
  void Set(const char* name, const char* value) {
    if (value == nullptr) [[unlikely]]
      internal::NullText();
    Set(name, std::string_view(value));
  }
  void Set(const char* name, int64_t value);
  void Set(const char* name, float value);
  void Set(const char* name, bool value);
  void Set(const char* name, DataType value);
  void Set(const char* name, const PartialShape& value);
  void Set(const char* name, const Tensor& value);
  void Set(const char* name, const std::vector<std::string>& value);
  void Set(const char* name, const std::vector<int64_t>& value);
  void Set(const char* name, const std::vector<float>& value);
  void Set(const char* name, const std::vector<bool>& value);
  void Set(const char* name, const std::vector<DataType>& value);
  void Set(const char* name, const std::vector<PartialShape>& value);
  void Set(const char* name, const std::vector<Tensor>& value);
  void Set(const char* name, const FunctionName& value);
  void Set(const char* name, const std::vector<FunctionName>& value);

 private:
  friend class OpMaker;
  struct Values;
  Values& Own();
  std::shared_ptr<Values> values_;  // null: none; copied before a change if it is shared
};

// A function of the graph, as an attribute of an op that calls it.
struct FunctionName {
  std::string name;
  OpAttrs attrs = {};  // of the function, if its definition has some
};

// Adds any op by name; the generated wrappers are written with it.
//   OpMaker maker(scope, "MatMul", {});
//   maker.Add(a);
//   maker.Add(b);
//   Node* node = maker.Finish();   // null after an error, which is in scope.status()
class OpMaker {
 public:
  // Copies all arguments.
  OpMaker(const Scope& scope, std::string_view op, OpAttrs attrs);
  ~OpMaker();
  OpMaker(const OpMaker&) = delete;
  OpMaker& operator=(const OpMaker&) = delete;

  // The inputs in the order of the op's declaration.
  void Add(const Input& input);
  void Add(const InputList& inputs);
  template <typename T>
  void SetAttr(const char* name, const T& value) {
    attrs_.Set(name, value);
  }
  // Infers attributes from the inputs and checks shapes.
  Node* Finish();

  // After Finish: one output, or those of one output argument. Unset, or empty, after an error.
  Output output(int argument) const;
  std::vector<Output> outputs(int argument) const;

 private:
  Status CaptureInputs(const std::string& name);

  struct Parts;
  const Scope scope_;
  const std::string op_;
  OpAttrs attrs_;
  std::unique_ptr<Parts> parts_;
};

namespace ops {

// A constant. With a shape: filled with one value, or with one value for each element.
Output Const(const Scope& scope, const Literal& value);
Output Const(const Scope& scope, const Literal& value, const TensorShape& shape);

}  // namespace ops

}  // namespace millrace
