// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/initializers.h"
#include "millrace/meta_graph.h"
#include "millrace/output.h"
#include "millrace/scope.h"
#include "millrace/shape.h"
#include "millrace/status.h"

// Variables: creation, sharing by name, grouping and initialisation; docs/training.md has examples.
namespace millrace {

// The part of a tensor that a variable is: of shape `var_shape`, at offset `var_offset`.
struct SaveSliceInfo {
  std::string full_name;
  std::vector<int64_t> full_shape;
  std::vector<int64_t> var_offset;
  std::vector<int64_t> var_shape;
  // "10 2 4,3:0,2": the form in checkpoints. "" for inconsistent sizes.
  std::string Spec() const;
};

// A variable of a graph, with the nodes of TensorFlow's Python client: a VariableV2 "W", an Assign
// "W/Assign" that initialises it, an Identity "W/read" that reads it, all on one device. A resource
// variable is a VarHandleOp "W", an AssignVariableOp and a ReadVariableOp "W/Read/ReadVariableOp". Values
// are not in the graph: they are kept in the session from the run of the initializer on. A value; unset
// after an error.
class GraphVariable {
 public:
  struct Options {
    bool trainable = true;              // optimizers without a list of variables change it
    std::optional<bool> resource = {};  // has a handle, and a step reads its value as a whole; unset:
                                        // as the variable scope
    std::vector<std::string> collections = {graph_keys::kVariables};
    std::optional<SaveSliceInfo> slice = {};  // how it is saved, if it is a part
  };

  GraphVariable() = default;
  // Named after the scope's op name ("Variable" without one). The initial value must have a known shape.
  GraphVariable(const Scope& scope, const Input& initial_value)
      : GraphVariable(scope, initial_value, Options()) {}
  GraphVariable(const Scope& scope, const Input& initial_value, const Options& options);
  // The nodes of the initial value are named "W/Initializer/…".
  GraphVariable(const Scope& scope, const InitialValue& initial_value, const Initializer& initializer,
                const Options& options);

  // The reference, or the handle of a resource variable.
  const Output& ref() const { return ref_; }
  bool is_resource() const { return Scope::TypeOf(ref_) == DataType::kResource; }
  DataType dtype() const { return Scope::TypeOf(value_); }
  const Output& value() const { return value_; }
  const Operation& initializer() const { return initializer_; }
  // Null unless it is a part of another.
  const SaveSliceInfo* slice() const { return slice_.get(); }
  std::string name() const { return Scope::NameOf(ref_); }
  operator Output() const { return value_; }  // NOLINT(google-explicit-constructor)

  // The value after the initializer has run in the same step: to be used in the initial value of another
  // variable.
  Output InitializedValue(const Scope& scope) const;
  // Nodes that change it. They return the new value: the reference, or a read after the change.
  Output Assign(const Scope& scope, const Input& value) const;
  Output AssignAdd(const Scope& scope, const Input& delta) const;
  Output AssignSub(const Scope& scope, const Input& delta) const;

 private:
  friend std::vector<GraphVariable> CollectVariables(const Scope& scope, std::string_view collection);
  void Make(const Scope& scope, const PartialShape& shape, DataType dtype, const Options& options,
            const std::function<Output(const Scope& root, const std::string& name)>& first_value);

  Output ref_;
  Output value_;
  Operation initializer_;
  std::shared_ptr<const SaveSliceInfo> slice_;
};

// The variables of the scope's graph that are in a collection, in creation order.
std::vector<GraphVariable> CollectVariables(const Scope& scope, std::string_view collection);
// Variables shared by all processes of a job, including slots of optimizers.
std::vector<GraphVariable> GlobalVariables(const Scope& scope);
// Variables of one process, which are not saved: epoch counters, accumulators of metrics.
std::vector<GraphVariable> LocalVariables(const Scope& scope);
std::vector<GraphVariable> TrainableVariables(const Scope& scope);
// Adds a variable to another collection; no effect if it is already in it.
void AddToCollection(const Scope& scope, const std::string& name, const GraphVariable& variable);

// Adds "init", which initialises variables.
Operation VariablesInitializer(const Scope& scope, const std::vector<GraphVariable>& variables);
Operation GlobalVariablesInitializer(const Scope& scope);
Operation LocalVariablesInitializer(const Scope& scope);
// The names of uninitialised variables, a string vector. Without `variables`: global and local ones.
Output ReportUninitializedVariables(const Scope& scope, const std::vector<GraphVariable>& variables = {});

// The regularization loss of a variable, a scalar; null if there is none.
using Regularizer = std::function<Output(const Scope&, const Output& value)>;
Regularizer L1Regularizer(double scale);  // scale * sum |w|
Regularizer L2Regularizer(double scale);  // scale * sum w^2 / 2

// The number of parts along each axis of a variable: ones, and at most one larger number.
using Partitioner = std::function<StatusOr<std::vector<int64_t>>(const TensorShape&, DataType)>;
Partitioner FixedSizePartitioner(int64_t num_shards, int axis = 0);
struct AxisSizePartitionerOptions {
  int64_t max_shard_bytes = 64 << 20;
  int axis = 0;
  int64_t bytes_per_string_element = 16;
  int64_t max_shards = 0;  // 0: any number
};
Partitioner AxisSizePartitioner(const AxisSizePartitionerOptions& options);
struct MinMaxPartitionerOptions {
  int64_t max_partitions = 1;
  int axis = 0;
  int64_t min_slice_size = 256 << 10;  // bytes
  int64_t bytes_per_string_element = 16;
};
Partitioner MinMaxPartitioner(const MinMaxPartitionerOptions& options);

// How GetVariable treats names that exist or do not exist.
enum class Reuse {
  kInherit,  // as the enclosing scope; at the outermost the name must be new
  kReuse,    // the variable must exist
  kAuto,     // either
};

// Options of the variables created in a scope; unset ones are inherited from the enclosing scope.
struct VariableScopeOptions {
  Reuse reuse = Reuse::kInherit;
  Initializer initializer = {};
  Regularizer regularizer = {};
  Partitioner partitioner = {};
  std::optional<DataType> dtype = {};
  std::optional<bool> resource = {};
};

// The variable scope in a Scope, used by GetVariable. A value.
struct VariableScope {
  std::string name;  // "" for the outermost
  VariableScopeOptions options;
};

// TensorFlow's variable_scope: variables are called `name`/…, nodes too, but the prefix of nodes is made
// unique ("name_1/…") if the scope is entered again.
Scope EnterVariableScope(const Scope& scope, std::string_view name, const VariableScopeOptions& options = {});
// The same with the first unused name among the variable scopes: "dense", "dense_1".
Scope EnterUniqueVariableScope(const Scope& scope, std::string_view default_name,
                               const VariableScopeOptions& options = {});
// The same scope with other options, as after TensorFlow's reuse_variables().
Scope WithVariableOptions(const Scope& scope, const VariableScopeOptions& options);
// The variable scope of `scope`; the outermost one by default.
VariableScope VariableScopeOf(const Scope& scope);

struct GetVariableOptions {
  std::optional<DataType> dtype = {};       // unset: the scope's, or float
  Initializer initializer = {};             // unset: the scope's, or Glorot's uniform for floats, else zeros
  std::optional<Input> initial_value = {};  // replaces the initializer; determines the shape
  Regularizer regularizer = {};             // its loss is added to graph_keys::kRegularizationLosses
  bool trainable = true;
  std::vector<std::string> collections = {graph_keys::kVariables};
  Partitioner partitioner = {};
  std::optional<bool> resource = {};
};

// The variable of that name in the variable scope: an existing one, or a new one, according to Reuse. A
// scalar has the shape TensorShape(); PartialShape() is any shape, for an existing variable. Error messages
// are TensorFlow's: "Variable w already exists, disallowed. …", "Variable w does not exist, …", "Trying to
// share variable w, but specified shape …".
GraphVariable GetVariable(const Scope& scope, std::string_view name, const PartialShape& shape,
                          const GetVariableOptions& options = {});
// The same, in the collection of local variables and not trainable.
GraphVariable GetLocalVariable(const Scope& scope, std::string_view name, const PartialShape& shape,
                               GetVariableOptions options = {});

// A variable that may be divided into parts "w/part_0", "w/part_1", … along one axis. Checkpoints contain it
// as one tensor, so that it may be restored with another partitioning. A value; without parts after an error.
class PartitionedVariable {
 public:
  PartitionedVariable() = default;
  PartitionedVariable(const GraphVariable& whole)  // NOLINT(google-explicit-constructor)
      : parts_({whole}), value_(whole.value()) {}
  PartitionedVariable(std::vector<GraphVariable> parts, const Output& value, int axis)
      : parts_(std::move(parts)), value_(value), axis_(axis) {}

  const std::vector<GraphVariable>& parts() const { return parts_; }
  int axis() const { return axis_; }
  DataType dtype() const { return Scope::TypeOf(value_); }
  const Output& value() const { return value_; }  // the concatenated parts
  operator Output() const { return value_; }      // NOLINT(google-explicit-constructor)

 private:
  std::vector<GraphVariable> parts_;
  Output value_;
  int axis_ = 0;
};

// As GetVariable; divided by the partitioner of the options or the scope, one part if there is none.
PartitionedVariable GetPartitionedVariable(const Scope& scope, std::string_view name,
                                           const PartialShape& shape, const GetVariableOptions& options = {});

// The global step: "global_step", an int64 scalar that is global and not trainable. Create… is an error if it
// exists; Get… returns an unset variable if it does not exist.
GraphVariable CreateGlobalStep(const Scope& scope);
GraphVariable GetGlobalStep(const Scope& scope);
GraphVariable GetOrCreateGlobalStep(const Scope& scope);

}  // namespace millrace
