// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>

#include "base/strings.h"
#include "cc/scope_state.h"
#include "millrace/ops.h"
#include "millrace/variables.h"
#include "training/formula.h"
#include "training/partitioner.h"

namespace millrace {

// The variables that GetVariable made in one graph, and the number of times scopes were entered.
class [[gnu::visibility("hidden")]] VariableStore {
 public:
  static VariableStore& Of(const Scope& scope) {
    auto& store = scope.state().variable_store;
    if (store == nullptr) store = std::make_shared<VariableStore>();
    return *store;
  }

  // The numbering of inner scopes restarts when a scope is entered, so that layers find their variables.
  void Enter(const std::string& name) {
    ++entered_[name];
    for (auto it = entered_.lower_bound(name + "/");
         it != entered_.end() && it->first.starts_with(name + "/"); ++it) {
      it->second = 0;
    }
  }
  bool WasEntered(const std::string& name) const {
    const auto found = entered_.find(name);
    return found != entered_.end() && found->second > 0;
  }

  struct Whole {
    PartitionedVariable variable;
    TensorShape shape;
    Cut cut;
  };
  std::map<std::string, GraphVariable> variables;
  std::map<std::string, Whole> partitioned;

 private:
  std::map<std::string, int> entered_;
};

namespace {

std::string Join(const std::string& scope, std::string_view name) {
  return scope.empty() ? std::string(name) : StrCat(scope, "/", name);
}

// As in TensorFlow's texts: "(2, 3)", "(2,)", "(?, 3)", "<unknown>".
std::string ShapeText(const PartialShape& shape) {
  if (shape.unknown_rank()) return "<unknown>";
  std::string text = "(";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ", ";
    text += shape.dim(i) < 0 ? "?" : std::to_string(shape.dim(i));
  }
  return text + (shape.rank() == 1 ? ",)" : ")");
}

std::string TypeText(DataType dtype) {
  switch (dtype) {
    case DataType::kHalf:
      return "float16";
    case DataType::kFloat:
      return "float32";
    case DataType::kDouble:
      return "float64";
    default:
      return DataTypeName(dtype);
  }
}

VariableScopeOptions Merge(const VariableScopeOptions& inner, const VariableScopeOptions& outer) {
  VariableScopeOptions merged = inner;
  if (merged.reuse == Reuse::kInherit) merged.reuse = outer.reuse;
  if (merged.initializer == nullptr) merged.initializer = outer.initializer;
  if (merged.regularizer == nullptr) merged.regularizer = outer.regularizer;
  if (merged.partitioner == nullptr) merged.partitioner = outer.partitioner;
  if (!merged.dtype) merged.dtype = outer.dtype;
  if (!merged.resource) merged.resource = outer.resource;
  return merged;
}

Scope Enter(const Scope& nodes, const VariableScope& outer, std::string name,
            const VariableScopeOptions& options) {
  VariableStore::Of(nodes).Enter(name);
  return nodes.WithVariableScope(
      std::make_shared<const VariableScope>(VariableScope{std::move(name), Merge(options, outer.options)}));
}

// The properties of a requested variable: the caller's, completed by those of the scope.
struct Wanted {
  std::string name;  // in full
  PartialShape shape;
  DataType dtype = DataType::kFloat;
  Reuse reuse = Reuse::kInherit;
  GetVariableOptions options;
};

StatusOr<Wanted> Resolve(const Scope& scope, std::string_view name, const PartialShape& shape,
                         const GetVariableOptions& options) {
  const VariableScope around = VariableScopeOf(scope);
  Wanted wanted{Join(around.name, name), shape, DataType::kFloat, around.options.reuse, options};
  if (wanted.options.initializer == nullptr) wanted.options.initializer = around.options.initializer;
  if (wanted.options.regularizer == nullptr) wanted.options.regularizer = around.options.regularizer;
  if (wanted.options.partitioner == nullptr) wanted.options.partitioner = around.options.partitioner;
  wanted.dtype = options.dtype.value_or(around.options.dtype.value_or(DataType::kFloat));
  if (!options.initial_value) return wanted;
  const Input& value = *options.initial_value;
  if (value.literal() != nullptr) MR_RETURN_IF_ERROR(value.literal()->status());
  const bool literal = value.literal() != nullptr;
  const DataType dtype = literal ? value.literal()->tensor().dtype() : Scope::TypeOf(value.output());
  if (options.dtype && dtype != *options.dtype) {
    return errors::InvalidArgument("Initializer type '", TypeText(dtype), "' and explicit dtype '",
                                   TypeText(*options.dtype), "' don't match.");
  }
  wanted.dtype = dtype;
  MR_ASSIGN_OR_RETURN(wanted.shape, shape.MergeWith(literal ? PartialShape(value.literal()->tensor().shape())
                                                            : scope.ShapeOf(value.output())));
  return wanted;
}

StatusOr<TensorShape> ShapeOfNew(const Wanted& wanted) {
  if (wanted.shape.IsFullyDefined()) return wanted.shape.ToTensorShape();
  return errors::InvalidArgument("Shape of a new variable (", wanted.name,
                                 ") must be fully defined, but instead was ", ShapeText(wanted.shape), ".");
}

// `what` is "share variable" or "reuse partitioned variable".
Status CheckFits(const Wanted& wanted, const char* what, const PartialShape& shape, DataType dtype) {
  if (!wanted.shape.IsCompatibleWith(shape)) {
    return errors::InvalidArgument("Trying to ", what, " ", wanted.name, ", but specified shape ",
                                   ShapeText(wanted.shape), " and found shape ", ShapeText(shape), ".");
  }
  if (wanted.dtype != dtype) {
    return errors::InvalidArgument("Trying to ", what, " ", wanted.name, ", but specified dtype ",
                                   TypeText(wanted.dtype), " and found dtype ", TypeText(dtype), ".");
  }
  return Status();
}

void AddRegularization(const Scope& root, const Wanted& wanted, const GraphVariable& variable) {
  if (wanted.options.regularizer == nullptr || !variable.ref().IsSet()) return;
  const Scope own = root.ColocateWith(variable.ref()).NewSubScope(wanted.name + "/Regularizer");
  const Output loss = wanted.options.regularizer(own, variable.value());
  if (root.ok() && loss.IsSet()) AddToCollection(root, graph_keys::kRegularizationLosses, loss);
}

Initializer DefaultInitializer(DataType dtype) {
  return IsFloatingType(dtype) ? initializers::GlorotUniform() : initializers::Zeros();
}

// Creates a variable `name`; `part` is its initial value, or the part of it.
GraphVariable Make(const Scope& scope, const Wanted& wanted, const std::string& name,
                   const InitialValue& part, std::optional<SaveSliceInfo> slice) {
  const Scope root = scope.OutsideControlFlow().AtRoot();
  const GraphVariable::Options options{.trainable = wanted.options.trainable,
                                       .resource = wanted.options.resource,
                                       .collections = wanted.options.collections,
                                       .slice = std::move(slice)};
  const Scope named = root.WithOpName(name);
  const bool is_part = !(part.shape == part.full_shape);
  GraphVariable variable;
  if (!wanted.options.initial_value) {
    Initializer initializer = wanted.options.initializer;
    if (initializer == nullptr) initializer = DefaultInitializer(wanted.dtype);
    variable = GraphVariable(named, part, initializer, options);
  } else if (!is_part) {
    variable = GraphVariable(named, *wanted.options.initial_value, options);
  } else {
    const Scope own = root.NewSubScope(name + "/PartitionedInitializer");
    const Output whole = AsTensor(own, "Const", *wanted.options.initial_value, wanted.dtype);
    const std::vector<int64_t> sizes(part.shape.dims().begin(), part.shape.dims().end());
    const Output slice_of_it = AddOp(own, "Slice", {whole, Vector(own, part.offset), Vector(own, sizes)});
    variable = GraphVariable(named, slice_of_it, options);
  }
  if (!variable.ref().IsSet()) return variable;
  VariableStore::Of(scope).variables[name] = variable;
  AddRegularization(root, wanted, variable);
  return variable;
}

StatusOr<GraphVariable> GetOrMake(const Scope& scope, const Wanted& wanted) {
  VariableStore& store = VariableStore::Of(scope);
  if (store.variables.contains(wanted.name + "/part_0")) {
    return errors::InvalidArgument(
        "No partitioner was provided, but a partitioned version of the variable was found: ", wanted.name,
        "/part_0. Perhaps a variable of the same name was already created with partitioning?");
  }
  if (const auto found = store.variables.find(wanted.name); found != store.variables.end()) {
    if (wanted.reuse == Reuse::kInherit) {
      return errors::InvalidArgument("Variable ", wanted.name,
                                     " already exists, disallowed. Did you mean to set reuse=True or "
                                     "reuse=tf.AUTO_REUSE in VarScope?");
    }
    const GraphVariable& variable = found->second;
    MR_RETURN_IF_ERROR(
        CheckFits(wanted, "share variable", scope.ShapeOf(variable.value()), variable.dtype()));
    return variable;
  }
  if (wanted.reuse == Reuse::kReuse) {
    return errors::InvalidArgument("Variable ", wanted.name,
                                   " does not exist, or was not created with tf.get_variable(). Did you "
                                   "mean to set reuse=tf.AUTO_REUSE in VarScope?");
  }
  MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOfNew(wanted));
  GraphVariable variable =
      Make(scope, wanted, wanted.name, {.shape = shape, .dtype = wanted.dtype}, std::nullopt);
  MR_RETURN_IF_ERROR(scope.status());
  return variable;
}

// Concatenates the parts, with TensorFlow's names of the nodes.
Output JoinParts(const Scope& scope, const std::string& name, const std::vector<GraphVariable>& parts,
                 int axis) {
  const Scope root = scope.OutsideControlFlow().AtRoot();
  if (parts.size() == 1) return ops::Identity(root.WithOpName(name), parts[0].value());
  std::vector<Input> values;
  values.reserve(parts.size());
  for (const GraphVariable& part : parts) values.emplace_back(part.value());
  const Scope own = root.NewSubScope(name + "/ConcatPartitions");
  const Output joined = ops::ConcatV2(own.WithOpName("concat"), InputList(values),
                                      ops::Const(own.WithOpName("concat/axis"), axis));
  return ops::Identity(root.WithOpName(name), joined);
}

StatusOr<PartitionedVariable> MakeParts(const Scope& scope, const Wanted& wanted, const TensorShape& shape,
                                        const Cut& cut) {
  std::vector<GraphVariable> parts;
  std::vector<int64_t> offset(static_cast<size_t>(shape.rank()), 0);
  const std::vector<int64_t> full(shape.dims().begin(), shape.dims().end());
  for (const int64_t size : cut.Sizes(shape)) {
    TensorShape part_shape = shape;
    part_shape.SetDim(cut.axis, size);
    const std::string name = StrCat(wanted.name, "/part_", parts.size());
    const SaveSliceInfo slice{
        wanted.name, full, offset, {part_shape.dims().begin(), part_shape.dims().end()}};
    const InitialValue part{part_shape, wanted.dtype, shape, offset};
    parts.push_back(Make(scope, wanted, name, part, slice));
    MR_RETURN_IF_ERROR(scope.status());
    offset[static_cast<size_t>(cut.axis)] += size;
  }
  const Output joined = JoinParts(scope, wanted.name, parts, cut.axis);
  MR_RETURN_IF_ERROR(scope.status());
  return PartitionedVariable(std::move(parts), joined, cut.axis);
}

StatusOr<PartitionedVariable> GetOrMakeParts(const Scope& scope, const Wanted& wanted) {
  VariableStore& store = VariableStore::Of(scope);
  const auto found = store.partitioned.find(wanted.name);
  const bool exists = found != store.partitioned.end();
  const bool cuts = wanted.options.partitioner != nullptr && wanted.shape.rank() != 0;
  if (!cuts && !(exists && wanted.reuse == Reuse::kReuse)) {
    MR_ASSIGN_OR_RETURN(const GraphVariable whole, GetOrMake(scope, wanted));
    return PartitionedVariable(whole);
  }
  if (store.variables.contains(wanted.name)) {
    return errors::InvalidArgument(
        "A partitioner was provided, but an unpartitioned version of the variable was found: ", wanted.name,
        ".  Perhaps a variable of the same name was already created without partitioning?");
  }
  if (exists) {
    const VariableStore::Whole& whole = found->second;
    if (wanted.reuse == Reuse::kInherit) {
      return errors::InvalidArgument("Partitioned variable with name ", wanted.name,
                                     " already exists. Did you mean to set reuse=True or "
                                     "reuse=tf.AUTO_REUSE in VarScope?");
    }
    MR_RETURN_IF_ERROR(CheckFits(wanted, "reuse partitioned variable", whole.shape, whole.variable.dtype()));
    MR_ASSIGN_OR_RETURN(const Cut cut, CutBy(wanted.options.partitioner, whole.shape, wanted.dtype));
    if (cuts && (cut.parts != whole.cut.parts || cut.axis != whole.cut.axis)) {
      return errors::InvalidArgument(
          "Trying to reuse partitioned variable ", wanted.name, ", but specified partitions ", cut.parts,
          " on axis ", cut.axis, " and found partitions ", whole.cut.parts, " on axis ", whole.cut.axis, ".");
    }
    return whole.variable;
  }
  if (wanted.reuse == Reuse::kReuse) {
    return errors::InvalidArgument("PartitionedVariable ", wanted.name,
                                   " does not exist, or was not created with tf.get_variable(). Did you "
                                   "mean to set reuse=False or reuse=tf.AUTO_REUSE in VarScope?");
  }
  MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOfNew(wanted));
  MR_ASSIGN_OR_RETURN(const Cut cut, CutBy(wanted.options.partitioner, shape, wanted.dtype));
  MR_ASSIGN_OR_RETURN(PartitionedVariable made, MakeParts(scope, wanted, shape, cut));
  store.partitioned[wanted.name] = {made, shape, cut};
  return made;
}

}  // namespace

VariableScope VariableScopeOf(const Scope& scope) {
  return scope.variable_scope() == nullptr ? VariableScope() : *scope.variable_scope();
}

Scope EnterVariableScope(const Scope& scope, std::string_view name, const VariableScopeOptions& options) {
  const VariableScope outer = VariableScopeOf(scope);
  if (name.empty()) return WithVariableOptions(scope, options);
  return Enter(scope.NewSubScope(name), outer, Join(outer.name, name), options);
}

Scope EnterUniqueVariableScope(const Scope& scope, std::string_view default_name,
                               const VariableScopeOptions& options) {
  const VariableScope outer = VariableScopeOf(scope);
  const std::string wanted = Join(outer.name, default_name);
  std::string name = wanted;
  for (int i = 1; VariableStore::Of(scope).WasEntered(name); ++i) name = StrCat(wanted, "_", i);
  return Enter(scope.NewSubScope(default_name), outer, name, options);
}

Scope WithVariableOptions(const Scope& scope, const VariableScopeOptions& options) {
  VariableScope same = VariableScopeOf(scope);
  same.options = Merge(options, same.options);
  return scope.WithVariableScope(std::make_shared<const VariableScope>(std::move(same)));
}

PartitionedVariable GetPartitionedVariable(const Scope& scope, std::string_view name,
                                           const PartialShape& shape, const GetVariableOptions& options) {
  if (!scope.ok()) return {};
  const auto get = [&]() -> StatusOr<PartitionedVariable> {
    MR_ASSIGN_OR_RETURN(const Wanted wanted, Resolve(scope, name, shape, options));
    return GetOrMakeParts(scope, wanted);
  };
  auto variable = get();
  if (variable.ok()) return *std::move(variable);
  scope.UpdateStatus(variable.status());
  return {};
}

GraphVariable GetVariable(const Scope& scope, std::string_view name, const PartialShape& shape,
                          const GetVariableOptions& options) {
  const PartitionedVariable variable = GetPartitionedVariable(scope, name, shape, options);
  if (variable.parts().empty()) return {};
  const GraphVariable& whole = variable.parts()[0];
  if (variable.parts().size() == 1) return whole;
  scope.UpdateStatus(errors::InvalidArgument("variable '", Join(VariableScopeOf(scope).name, name),
                                             "' is cut into ", variable.parts().size(),
                                             " parts: GetPartitionedVariable gives all of them"));
  return {};
}

GraphVariable GetLocalVariable(const Scope& scope, std::string_view name, const PartialShape& shape,
                               GetVariableOptions options) {
  options.trainable = false;
  options.collections = {graph_keys::kLocalVariables};
  return GetVariable(scope, name, shape, options);
}

Regularizer L1Regularizer(double scale) {
  return [scale](const Scope& scope, const Output& value) -> Output {
    const Scope own = scope.NewSubScope("l1_regularizer");
    const Output sum = Formula(own, value).Call("Abs").Reduce("Sum");
    const Output factor = Number(own.WithOpName("scale"), scale, Scope::TypeOf(value));
    return AddOp(own.WithOpName("/"), "Mul", {factor, sum});
  };
}

Regularizer L2Regularizer(double scale) {
  return [scale](const Scope& scope, const Output& value) -> Output {
    const Scope own = scope.NewSubScope("l2_regularizer");
    const Output factor = Number(own.WithOpName("scale"), scale, Scope::TypeOf(value));
    return AddOp(own.WithOpName("/"), "Mul", {factor, AddOp(own, "L2Loss", {value})});
  };
}

GraphVariable GetGlobalStep(const Scope& scope) {
  const std::vector<GraphVariable> found = CollectVariables(scope, graph_keys::kGlobalStep);
  if (!found.empty()) return found.front();
  for (const GraphVariable& variable : GlobalVariables(scope)) {
    if (variable.name() == graph_keys::kGlobalStep) return variable;
  }
  return {};
}

GraphVariable CreateGlobalStep(const Scope& scope) {
  if (GetGlobalStep(scope).ref().IsSet()) {
    scope.UpdateStatus(errors::InvalidArgument("\"global_step\" already exists."));
    return {};
  }
  return GetVariable(scope.AtRoot().WithVariableScope(nullptr), graph_keys::kGlobalStep, TensorShape(),
                     {.dtype = DataType::kInt64,
                      .initializer = initializers::Zeros(),
                      .trainable = false,
                      .collections = {graph_keys::kVariables, graph_keys::kGlobalStep},
                      .resource = VariableScopeOf(scope).options.resource});
}

GraphVariable GetOrCreateGlobalStep(const Scope& scope) {
  const GraphVariable step = GetGlobalStep(scope);
  return step.ref().IsSet() || !scope.ok() ? step : CreateGlobalStep(scope);
}

}  // namespace millrace
