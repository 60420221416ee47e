// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The ops that create tables, and the ops on them.
#include "kernel/resource_op.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/lookup/table.h"

namespace millrace {
namespace {

enum class TableKind { kStatic, kMutable, kMutableOfTensors, kDense };

class TableKernel final : public ResourceOpKernel<LookupTable> {
 public:
  TableKernel(KernelConstruction& c, TableKind kind)
      : ResourceOpKernel(c, c.Attr<bool>("use_node_name_sharing") ? Unnamed::kNodeName : Unnamed::kPrivate),
        kind_(kind) {
    spec_.name = place().name;
    spec_.key_dtype = c.Attr<DataType>("key_dtype");
    spec_.value_dtype = c.Attr<DataType>("value_dtype");
    if (kind == TableKind::kMutableOfTensors || kind == TableKind::kDense) {
      if (auto shape = c.Attr<PartialShape>("value_shape").ToTensorShape(); shape.ok()) {
        spec_.value_shape = *std::move(shape);
      } else {
        c.SetError(shape.status());
      }
    }
    if (kind == TableKind::kMutableOfTensors && !spec_.value_shape.IsVector()) {
      c.SetError(errors::InvalidArgument("Default value must be a vector, got shape ", spec_.value_shape));
    }
    if (kind == TableKind::kDense) {
      buckets_ = c.Attr<int64_t>("initial_num_buckets");
      max_load_ = c.Attr<float>("max_load_factor");
    }
  }

 private:
  StatusOr<RefPtr<LookupTable>> Make(KernelContext& context) override {
    switch (kind_) {
      case TableKind::kStatic:
        return RefPtr<LookupTable>(MakeRef<StaticTable>(spec_));
      case TableKind::kDense: {
        MR_ASSIGN_OR_RETURN(
            RefPtr<DenseTable> made,
            DenseTable::Make(spec_, context.input(0), context.num_inputs() > 1 ? &context.input(1) : nullptr,
                             buckets_, max_load_));
        return RefPtr<LookupTable>(std::move(made));
      }
      default:
        return RefPtr<LookupTable>(MakeRef<MutableTable>(spec_));
    }
  }
  Status Verify(LookupTable& shared) override {
    const LookupTable::Spec& s = shared.spec();
    if (s.key_dtype == spec_.key_dtype && s.value_dtype == spec_.value_dtype) return Status();
    return errors::InvalidArgument("Conflicting key/value dtypes ", DataTypeName(spec_.key_dtype), "->",
                                   DataTypeName(spec_.value_dtype), " with ", DataTypeName(s.key_dtype), "-",
                                   DataTypeName(s.value_dtype), " for table ", spec_.name);
  }

  const TableKind kind_;
  LookupTable::Spec spec_;
  int64_t buckets_ = 0;
  float max_load_ = 0;
};

StatusOr<RefPtr<LookupTable>> Table(const KernelContext& context) {
  return FindResource<LookupTable>(context, 0);
}

class TableFindKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, Table(context));
    const Tensor& keys = context.input(1);
    const Tensor& default_value = context.input(2);
    MR_RETURN_IF_ERROR(table->CheckFind(keys, default_value));
    TensorShape shape = keys.shape();
    for (int i = 0; i < table->spec().key_shape.rank(); ++i) shape.RemoveDim(shape.rank() - 1);
    for (const int64_t size : table->spec().value_shape.dims()) MR_RETURN_IF_ERROR(shape.TryAddDim(size));
    MR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(0, shape));
    return table->Find(keys, default_value, *values);
  }
};

enum class Change { kInsert, kImport, kRemove };

class TableChangeKernel final : public OpKernel {
 public:
  TableChangeKernel(KernelConstruction& c, Change change) : OpKernel(c), change_(change) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, Table(context));
    const Tensor& keys = context.input(1);
    if (change_ == Change::kRemove) {
      MR_RETURN_IF_ERROR(table->CheckKeys(keys));
      return table->Remove(keys);
    }
    MR_RETURN_IF_ERROR(table->CheckEntries(keys, context.input(2)));
    return change_ == Change::kInsert ? table->Insert(keys, context.input(2))
                                      : table->Import(keys, context.input(2));
  }

 private:
  const Change change_;
};

class TableSizeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, Table(context));
    context.set_output(0, Tensor::Scalar<int64_t>(table->size()));
    return Status();
  }
};

class TableExportKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, Table(context));
    if (table->spec().key_dtype != output_type(0) || table->spec().value_dtype != output_type(1)) {
      return errors::InvalidArgument("Table ", table->spec().name, " has keys of ",
                                     DataTypeName(table->spec().key_dtype), " and values of ",
                                     DataTypeName(table->spec().value_dtype), ", requested ",
                                     DataTypeName(output_type(0)), " and ", DataTypeName(output_type(1)));
    }
    return table->Export(context);
  }
};

class InitializeTableKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, Table(context));
    const Tensor& keys = context.input(1);
    const Tensor& values = context.input(2);
    if (!keys.shape().IsVector()) {
      return errors::InvalidArgument("Keys must be a vector, but received shape ", keys.shape());
    }
    if (!values.shape().IsVector()) {
      return errors::InvalidArgument("Values must be a vector, but received shape ", values.shape());
    }
    if (keys.num_elements() != values.num_elements()) {
      return errors::InvalidArgument("Keys and values must have the same size ", keys.num_elements(), " vs ",
                                     values.num_elements());
    }
    return table->Initialize(keys, values);
  }
};

class InitializeFromFileKernel final : public OpKernel {
 public:
  explicit InitializeFromFileKernel(KernelConstruction& c) : OpKernel(c) {
    columns_.key = c.Attr<int64_t>("key_index");
    columns_.value = c.Attr<int64_t>("value_index");
    columns_.lines = c.Attr<int64_t>("vocab_size");
    const auto delimiter = c.Attr<std::string>("delimiter");
    if (delimiter.size() == 1) {
      columns_.delimiter = delimiter[0];
    } else {
      c.SetError(errors::InvalidArgument("delimiter should be only 1 char"));
    }
  }
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, Table(context));
    const Tensor& name = context.input(1);
    if (!name.shape().IsScalar()) {
      return errors::InvalidArgument("filename should be a single string, but got ", name.shape());
    }
    return InitializeFromTextFile(*table, name.scalar<std::string>(), columns_);
  }

 private:
  TextColumns columns_;
};

}  // namespace

void RegisterTableKernels(KernelRegistry& registry) {
  const TypeList keys{DataType::kInt32, DataType::kInt64, DataType::kString};
  const TypeList values = Concat(NumberTypes(), {DataType::kBool, DataType::kString});
  const TypeList any_values = Concat(values, {DataType::kVariant, DataType::kResource});
  for (const std::string version : {"", "V2"}) {
    const auto table = [&](const std::string& op, TableKind kind) {
      registry.Register(KernelDef(op + version)
                            .Types("key_dtype", keys)
                            .Types("value_dtype", kind == TableKind::kStatic ? values : any_values),
                        [kind](KernelConstruction& c) { return std::make_unique<TableKernel>(c, kind); });
    };
    table("HashTable", TableKind::kStatic);
    table("MutableHashTable", TableKind::kMutable);
    table("MutableHashTableOfTensors", TableKind::kMutableOfTensors);
    table("MutableDenseHashTable", TableKind::kDense);
    const auto change = [&](const std::string& op, Change kind) {
      registry.Register(KernelDef(op), [kind](KernelConstruction& c) {
        return std::make_unique<TableChangeKernel>(c, kind);
      });
    };
    change("LookupTableInsert" + version, Change::kInsert);
    change("LookupTableImport" + version, Change::kImport);
    if (version == "V2") change("LookupTableRemoveV2", Change::kRemove);
    registry.Register<TableFindKernel>(KernelDef("LookupTableFind" + version));
    registry.Register<TableSizeKernel>(KernelDef("LookupTableSize" + version));
    registry.Register<TableExportKernel>(KernelDef("LookupTableExport" + version));
    registry.Register<InitializeTableKernel>(KernelDef("InitializeTable" + version));
    registry.Register<InitializeFromFileKernel>(KernelDef("InitializeTableFromTextFile" + version));
  }
}

}  // namespace millrace
