// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/saver_nodes.h"

#include <algorithm>
#include <map>
#include <random>

#include "base/strings.h"
#include "cc/scope_state.h"
#include "millrace/data.h"
#include "millrace/ops.h"

namespace millrace {
namespace {

using Saveables = std::vector<Saveable>;

bool IsResource(const Output& variable) { return Scope::TypeOf(variable) == DataType::kResource; }

bool IsIterator(const Output& variable) {
  const std::string& op = variable.node->op_name();
  return op == "IteratorV2" || op == "Iterator";
}

// The type of the variable's value, not that of a handle.
DataType ValueType(const Output& variable) {
  if (IsIterator(variable)) return DataType::kVariant;
  if (!IsResource(variable)) return Scope::TypeOf(variable);
  const AttrValue* const dtype = variable.node->attrs().Find("dtype");
  const auto* const type = dtype == nullptr ? nullptr : dtype->As<DataType>();
  return type == nullptr ? DataType::kInvalid : *type;
}

PartialShape ValueShape(const Scope& scope, const Output& variable) {
  if (!IsResource(variable)) return scope.ShapeOf(variable);
  const AttrValue* const shape = variable.node->attrs().Find("shape");
  const auto* const known = shape == nullptr ? nullptr : shape->As<PartialShape>();
  return known == nullptr ? PartialShape() : *known;
}

const std::string& DeviceOf(const Saveable& saveable) { return saveable.variable.node->requested_device(); }

// Checkpoints are read and written on the first CPU of the device's task. "" for "".
std::string FirstCpu(const std::string& device) {
  if (device.empty()) return "";
  std::string cpu;
  for (const std::string_view part : StrSplit(device, '/')) {
    std::string lower(part);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    const bool is_device =
        lower.starts_with("device:") || lower.starts_with("cpu:") || lower.starts_with("gpu:");
    if (!part.empty() && !is_device) cpu += StrCat("/", part);
  }
  return cpu + "/device:CPU:0";
}

Status CheckSaveables(const Saveables& saveables) {
  for (size_t i = 0; i < saveables.size(); ++i) {
    const Saveable& s = saveables[i];
    if (!s.variable.IsSet())
      return errors::InvalidArgument("the variable to save as '", s.name, "' is unset");
    const DataType type = s.variable.node->output_type(s.variable.index);
    if (!IsRefType(type) && type != DataType::kResource) {
      return errors::InvalidArgument(
          "names_to_saveables must be a dict mapping string names to "
          "Tensors/Variables. Not a variable: ",
          Scope::NameOf(s.variable));
    }
    if (ValueType(s.variable) == DataType::kInvalid) {
      return errors::InvalidArgument("the variable '", Scope::NameOf(s.variable), "' has no known type");
    }
    if (s.slice && s.slice->Spec().empty()) {
      return errors::InvalidArgument("the slice of '", Scope::NameOf(s.variable),
                                     "' has sizes of unlike ranks");
    }
    const bool same = i > 0 && saveables[i - 1].name == s.name;
    if (same && !(s.slice && saveables[i - 1].slice)) {
      return errors::InvalidArgument("At least two variables have the same name: ", s.name);
    }
  }
  return Status::Ok();
}

// Adds the nodes of one saver.
class SaverNodes {
 public:
  SaverNodes(const Scope& scope, const Saver::Options& options) : scope_(scope), options_(options) {}

  SaverDef Add(const Saveables& saveables) {
    filename_ = ops::Const(scope_.WithOpName("Const"), options_.filename);
    SaverDef def;
    Output saved;
    Operation restored;
    if (options_.sharded) {
      const std::map<std::string, Saveables> devices = ByDevice(saveables);
      saved = is_v2() ? SaveShards(devices) : SaveOldShards(devices);
      restored = RestoreShards(devices);
    } else {
      saved = Save(scope_, filename_, saveables);
      restored = Restore(scope_, saveables, "restore_all");
    }
    if (!scope_.ok()) return def;
    def.filename_tensor_name = StrCat(filename_.node->name(), ":0");
    def.save_tensor_name = StrCat(saved.node->name(), ":0");
    def.restore_op_name = restored.node->name();
    def.max_to_keep = options_.max_to_keep;
    def.sharded = options_.sharded;
    def.keep_checkpoint_every_n_hours = static_cast<float>(options_.keep_checkpoint_every_n_hours);
    def.version = options_.write_version;
    return def;
  }

 private:
  bool is_v2() const { return options_.write_version == CheckpointFormat::kV2; }

  static std::map<std::string, Saveables> ByDevice(const Saveables& saveables) {
    std::map<std::string, Saveables> devices;
    for (const Saveable& saveable : saveables) devices[DeviceOf(saveable)].push_back(saveable);
    return devices;
  }

  // The name that WithOpName will give, for constants named after the node.
  static std::string FreeName(const Scope& scope, const std::string& name) {
    const std::string full = scope.path().empty() ? name : StrCat(scope.path(), "/", name);
    if (!scope.state().IsTaken(full)) return name;
    for (int i = 1;; ++i) {
      if (!scope.state().IsTaken(StrCat(full, "_", i))) return StrCat(name, "_", i);
    }
  }
  static Output Texts(const Scope& scope, const std::string& name, const std::vector<std::string>& texts) {
    return ops::Const(scope.WithOpName(name).WithNoControlDependencies(), Tensor::Vector<std::string>(texts));
  }

  Output ValueOf(const Scope& scope, const Output& variable) const {
    if (IsIterator(variable)) return ops::SerializeIterator(scope, variable);
    if (!IsResource(variable)) return variable;
    const Scope read_scope = scope.WithOpName(FreeName(scope, "Read/ReadVariableOp"));
    OpMaker read(read_scope, "ReadVariableOp", {});
    read.Add(variable);
    read.SetAttr("dtype", ValueType(variable));
    if (read.Finish() == nullptr) return Output();
    return ops::Identity(scope.WithOpName("Identity"), read.output(0));
  }

  // Saves all of them to `filename`; returns that name after they were saved.
  Output Save(const Scope& scope, const Output& filename, const Saveables& saveables) {
    std::vector<std::string> names, slices;
    std::vector<Output> tensors;
    for (const Saveable& saveable : saveables) {
      names.push_back(saveable.slice ? saveable.slice->full_name : saveable.name);
      slices.push_back(saveable.slice ? saveable.slice->Spec() : "");
      tensors.push_back(ValueOf(scope, saveable.variable));
    }
    const std::string name = FreeName(scope, is_v2() ? "SaveV2" : "save");
    const Scope save_scope = scope.WithOpName(name);
    OpMaker save(save_scope, is_v2() ? "SaveV2" : "SaveSlices", {});
    save.Add(filename);
    save.Add(Texts(scope, name + "/tensor_names", names));
    save.Add(Texts(scope, name + (is_v2() ? "/shape_and_slices" : "/shapes_and_slices"), slices));
    save.Add(InputList(tensors));
    Node* const saved = save.Finish();
    if (saved == nullptr) return Output();
    return ops::Identity(scope.WithOpName("control_dependency")
                             .ColocateWith(filename)
                             .WithControlDependencies({Operation(saved)}),
                         filename);
  }

  // Restores one variable after `before` (unset: at once).
  Operation RestoreOne(const Scope& scope, const Saveable& saveable, const Operation& before) {
    const std::string device = FirstCpu(DeviceOf(saveable));
    Scope at = device.empty() ? scope : scope.WithDevice(device);
    if (before.IsSet()) at = at.WithControlDependencies({before});
    const std::string name = FreeName(at, "RestoreV2");
    const Scope restore_scope = at.WithOpName(name);
    OpMaker restore(restore_scope, "RestoreV2", {});
    restore.Add(filename_);
    restore.Add(
        Texts(at, name + "/tensor_names", {saveable.slice ? saveable.slice->full_name : saveable.name}));
    restore.Add(Texts(at, name + "/shape_and_slices", {saveable.slice ? saveable.slice->Spec() : ""}));
    restore.SetAttr("dtypes", std::vector<DataType>{ValueType(saveable.variable)});
    if (restore.Finish() == nullptr) return Operation();
    Output value = restore.outputs(0)[0];
    if (IsIterator(saveable.variable)) {
      const Scope after =
          saveable.initializer.IsSet() ? scope.WithControlDependencies({saveable.initializer}) : scope;
      return ops::DeserializeIterator(after, saveable.variable, value);
    }
    const PartialShape shape = ValueShape(scope, saveable.variable);
    if (options_.reshape) value = Reshaped(at, value, saveable.variable, shape);
    if (!scope.ok()) return Operation();
    const Scope there = scope.WithDevice(DeviceOf(saveable));
    if (IsResource(saveable.variable)) {
      const Output copied = ops::Identity(there.WithOpName("Identity"), value);
      return ops::AssignVariableOp(there.WithOpName("AssignVariableOp"), saveable.variable, copied);
    }
    const bool validate = !options_.reshape && shape.IsFullyDefined();
    return ops::Assign(there.WithOpName("Assign").ColocateWith(saveable.variable), saveable.variable, value,
                       ops::Assign::ValidateShape(validate));
  }

  Output Reshaped(const Scope& at, const Output& value, const Output& variable, const PartialShape& shape) {
    const std::string name = FreeName(at, "Reshape");
    if (!shape.IsFullyDefined()) {
      const Output to = ops::Shape(at.WithOpName("Shape"), ValueOf(at, variable));
      return ops::Reshape(at.WithOpName(name), value, to);
    }
    std::vector<int32_t> sizes;
    sizes.reserve(static_cast<size_t>(shape.rank()));
    for (int i = 0; i < shape.rank(); ++i) sizes.push_back(static_cast<int32_t>(shape.dim(i)));
    const Output to = ops::Const(at.WithOpName(name + "/shape").WithNoControlDependencies(),
                                 Tensor::Vector<int32_t>(sizes));
    return ops::Reshape(at.WithOpName(name), value, to);
  }

  Operation Restore(const Scope& scope, const Saveables& saveables, const std::string& name) {
    std::vector<Operation> assigned;
    for (const Saveable& saveable : saveables) {
      const bool wait = options_.restore_sequentially && !assigned.empty();
      assigned.push_back(RestoreOne(scope, saveable, wait ? assigned.back() : Operation()));
      if (!scope.ok()) return Operation();
    }
    return Group(scope, assigned, name);
  }

  // A node that runs after all; those of one device are grouped there first.
  Operation Group(const Scope& scope, const std::vector<Operation>& operations, const std::string& name) {
    std::map<std::string, std::vector<Operation>> devices;
    for (const Operation& operation : operations) {
      devices[operation.node->requested_device()].push_back(operation);
    }
    const std::string group = FreeName(scope, name);
    if (devices.size() == 1) {
      const auto& [device, all] = *devices.begin();
      return ops::NoOp(scope.WithDevice(device).WithOpName(group).WithControlDependencies(all));
    }
    std::vector<Operation> gathered;
    gathered.reserve(devices.size());
    for (const auto& [device, all] : devices) {
      gathered.push_back(
          ops::NoOp(scope.WithDevice(device).WithOpName(group + "/NoOp").WithControlDependencies(all)));
    }
    return ops::NoOp(scope.WithOpName(group).WithControlDependencies(gathered));
  }

  Output ShardName(const Scope& at, const Output& basename, int shard, const Output& num_shards) {
    const std::string name = FreeName(at, "ShardedFilename");
    const Scope maker_scope = at.WithOpName(name);
    OpMaker maker(maker_scope, "ShardedFilename", {});
    maker.Add(basename);
    maker.Add(ops::Const(at.WithOpName(name + "/shard").WithNoControlDependencies(), shard));
    maker.Add(num_shards);
    return maker.Finish() == nullptr ? Output() : maker.output(0);
  }

  // Every device writes a separate checkpoint to a temporary folder; they are merged.
  Output SaveShards(const std::map<std::string, Saveables>& devices) {
    const Output suffix =
        ops::Const(scope_.WithOpName(FreeName(scope_, "StringJoin") + "/inputs_1"), TemporarySuffix());
    const Scope join_scope = scope_.WithOpName("StringJoin");
    OpMaker join(join_scope, "StringJoin", {});
    join.Add(InputList(std::vector<Output>{filename_, suffix}));
    if (join.Finish() == nullptr) return Output();
    const Output num_shards =
        ops::Const(scope_.WithOpName("num_shards"), static_cast<int32_t>(devices.size()));
    std::vector<Output> prefixes;
    std::vector<Operation> saved;
    int shard = 0;
    for (const auto& [device, saveables] : devices) {
      const Scope at = scope_.WithDevice(FirstCpu(device));
      prefixes.push_back(ShardName(at, join.output(0), shard++, num_shards));
      if (!scope_.ok()) return Output();
      saved.push_back(Save(at, prefixes.back(), saveables));
      if (!scope_.ok()) return Output();
    }
    const Scope last = scope_.WithDevice(FirstCpu(devices.rbegin()->first)).WithControlDependencies(saved);
    const std::string name = FreeName(last, "MergeV2Checkpoints");
    const Output packed = ops::Pack(last.WithOpName(name + "/checkpoint_prefixes"), InputList(prefixes));
    const Scope merge_scope = last.WithOpName(name);
    OpMaker merge(merge_scope, "MergeV2Checkpoints", {});
    merge.Add(packed);
    merge.Add(filename_);
    merge.SetAttr("delete_old_dirs", true);
    Node* const merged = merge.Finish();
    if (merged == nullptr) return Output();
    return ops::Identity(last.WithOpName("Identity").WithControlDependencies({Operation(merged)}), filename_);
  }

  // Files of the first format stay separate; the pattern of their names is the checkpoint's name.
  Output SaveOldShards(const std::map<std::string, Saveables>& devices) {
    const Output num_shards =
        ops::Const(scope_.WithOpName("num_shards"), static_cast<int32_t>(devices.size()));
    std::vector<Operation> saved;
    int shard = 0;
    for (const auto& [device, saveables] : devices) {
      const Scope at = scope_.WithDevice(device);
      const Output name = ShardName(at, filename_, shard++, num_shards);
      if (!scope_.ok()) return Output();
      saved.push_back(Save(at, name, saveables));
      if (!scope_.ok()) return Output();
    }
    const Scope after = scope_.WithOpName("ShardedFilespec").WithControlDependencies(saved);
    OpMaker pattern(after, "ShardedFilespec", {});
    pattern.Add(filename_);
    pattern.Add(num_shards);
    return pattern.Finish() == nullptr ? Output() : pattern.output(0);
  }

  Operation RestoreShards(const std::map<std::string, Saveables>& devices) {
    std::vector<Operation> restored;
    for (const auto& [device, saveables] : devices) {
      restored.push_back(Restore(scope_.WithDevice(device), saveables, "restore_shard"));
      if (!scope_.ok()) return Operation();
    }
    return Group(scope_, restored, "restore_all");
  }

  // Differs from that of any other saver, so that two may save under one name one after the other.
  static std::string TemporarySuffix() {
    std::random_device entropy;
    std::string digits;
    for (int i = 0; i < 32; ++i) digits += "0123456789abcdef"[entropy() % 16];
    return StrCat("_temp_", digits, "/part");
  }

  const Scope scope_;
  const Saver::Options& options_;
  Output filename_;
};

}  // namespace

std::string SaveSliceInfo::Spec() const {
  if (full_shape.size() != var_offset.size() || full_shape.size() != var_shape.size()) return "";
  std::string spec;
  for (const int64_t size : full_shape) spec += StrCat(size, " ");
  for (size_t i = 0; i < var_offset.size(); ++i) {
    spec += StrCat(i == 0 ? "" : ":", var_offset[i], ",", var_shape[i]);
  }
  return spec;
}

std::vector<Saveable> AllSaveables(const Scope& scope) {
  std::vector<Saveable> saveables;
  for (const VariableRecord& record : scope.state().variables) {
    if (!record.IsIn(graph_keys::kVariables)) continue;
    Saveable& saveable = saveables.emplace_back();
    saveable.variable = record.ref;
    saveable.name = record.slice == nullptr ? record.ref.node->name() : record.slice->full_name;
    if (record.slice != nullptr) saveable.slice = *record.slice;
  }
  const std::vector<Output> iterators = CollectedTensors(scope, kSavedIterators);
  const std::vector<Operation> initializers = CollectedOperations(scope, kSavedIteratorInitializers);
  for (size_t i = 0; i < iterators.size() && i < initializers.size(); ++i) {
    saveables.push_back(
        {.name = iterators[i].node->name(), .variable = iterators[i], .initializer = initializers[i]});
  }
  return saveables;
}

StatusOr<SaverDef> AddSaverNodes(const Scope& scope, std::vector<Saveable> saveables,
                                 const Saver::Options& options) {
  MR_RETURN_IF_ERROR(scope.status());
  std::stable_sort(saveables.begin(), saveables.end(),
                   [](const Saveable& a, const Saveable& b) { return a.name < b.name; });
  MR_RETURN_IF_ERROR(CheckSaveables(saveables));
  const Scope below = scope.NewSubScope(options.name.empty() ? "save" : options.name)
                          .WithNoControlDependencies()
                          .WithNoColocation()
                          .WithDevice("");
  SaverDef def = SaverNodes(below, options).Add(saveables);
  MR_RETURN_IF_ERROR(scope.status());
  return def;
}

}  // namespace millrace
