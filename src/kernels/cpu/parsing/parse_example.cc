// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Examples and SequenceExamples as tensors. Parsing is in io/example; here are the attributes, the checks of
// the inputs, and the outputs.
#include <set>
#include <string>
#include <vector>

#include "io/example/example_parser.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

using io::FeatureSource;
using io::FeatureSpec;
using io::FeatureTable;
using Keys = std::vector<std::string>;

// The attributes that describe one group of features.
struct FeatureGroup {
  std::vector<DataType> sparse_types;
  std::vector<DataType> dense_types;
  std::vector<PartialShape> dense_shapes;

  int num_sparse() const { return static_cast<int>(sparse_types.size()); }
  int num_dense() const { return static_cast<int>(dense_types.size()); }
  int num_outputs() const { return 3 * num_sparse() + num_dense(); }
};

// The names of the attributes. InvalidArgument if their lengths differ.
struct GroupNames {
  const char* num_sparse;
  const char* num_dense;  // null: there is none
  const char* sparse_types;
  const char* dense_types;
  const char* dense_shapes;
};
constexpr GroupNames kBatchNames = {"Nsparse", "Ndense", "sparse_types", "Tdense", "dense_shapes"};
constexpr GroupNames kSingleNames = {"num_sparse", nullptr, "sparse_types", "Tdense", "dense_shapes"};
constexpr GroupNames kContextNames = {"Ncontext_sparse", "Ncontext_dense", "context_sparse_types",
                                      "Tcontext_dense", "context_dense_shapes"};
constexpr GroupNames kListNames = {"Nfeature_list_sparse", "Nfeature_list_dense", "feature_list_sparse_types",
                                   "feature_list_dense_types", "feature_list_dense_shapes"};

FeatureGroup ReadGroup(KernelConstruction& c, const GroupNames& names) {
  FeatureGroup group{c.Attr<std::vector<DataType>>(names.sparse_types),
                     c.Attr<std::vector<DataType>>(names.dense_types),
                     c.Attr<std::vector<PartialShape>>(names.dense_shapes)};
  if (c.Attr<int64_t>(names.num_sparse) != group.num_sparse()) {
    c.SetError(errors::InvalidArgument("len(sparse_keys) != len(sparse_types)"));
  }
  if (names.num_dense != nullptr && c.Attr<int64_t>(names.num_dense) != group.num_dense()) {
    c.SetError(errors::InvalidArgument("len(dense_keys) != len(dense_types)"));
  }
  if (group.dense_shapes.size() != group.dense_types.size()) {
    c.SetError(errors::InvalidArgument("len(dense_keys) != len(dense_shapes)"));
  }
  for (size_t i = 0; i < group.dense_shapes.size(); ++i) {
    const PartialShape& shape = group.dense_shapes[i];
    bool known = !shape.unknown_rank();
    for (int d = 1; known && d < shape.rank(); ++d) known = shape.dim(d) >= 0;
    if (!known) {
      c.SetError(errors::InvalidArgument("dense_shapes[", i,
                                         "] has unknown rank or unknown inner dimensions: ", shape));
    }
  }
  return group;
}

// Reads inputs and sets outputs one after the other.
class Walk {
 public:
  explicit Walk(KernelContext& context, int input) : context_(context), input_(input) {}

  StatusOr<Keys> TakeKeys(int n, const char* what) {
    Keys keys;
    for (int i = 0; i < n; ++i) {
      const Tensor& key = context_.input(input_++);
      if (!key.shape().IsScalar()) {
        return errors::InvalidArgument("Expected ", what, "[", i,
                                       "] to be a scalar, got shape: ", key.shape());
      }
      keys.push_back(key.scalar<std::string>());
    }
    return keys;
  }
  const Tensor& Take() { return context_.input(input_++); }

  void Put(const FeatureGroup& group, io::ParsedFeatures parsed) {
    const auto sparse = static_cast<size_t>(group.num_sparse());
    for (size_t part = 0; part < 3; ++part) {
      for (size_t i = 0; i < sparse; ++i) context_.set_output(output_++, std::move(parsed[i][part]));
    }
    for (size_t i = sparse; i < parsed.size(); ++i) context_.set_output(output_++, std::move(parsed[i][0]));
  }
  void PutLengths(const FeatureGroup& group, const io::ParsedFeatures& parsed) {
    for (size_t i = group.sparse_types.size(); i < parsed.size(); ++i) {
      context_.set_output(output_++, parsed[i][1]);
    }
  }

 private:
  KernelContext& context_;
  int input_;
  int output_ = 0;
};

Status CheckDefault(const FeatureGroup& group, int d, const Tensor& value) {
  const PartialShape& shape = group.dense_shapes[static_cast<size_t>(d)];
  const DataType type = group.dense_types[static_cast<size_t>(d)];
  if (shape.rank() > 0 && shape.dim(0) < 0) {
    if (value.num_elements() != 1) {
      return errors::InvalidArgument(
          "dense_shape[", d, "] is a variable length shape: ", shape, ", therefore def_value[", d,
          "] must contain a single element (the padding element).  But its shape is: ", value.shape());
    }
  } else if (value.num_elements() > 0 && !shape.IsCompatibleWith(value.shape())) {
    return errors::InvalidArgument("def_value[", d, "].shape() == ", value.shape(),
                                   " is not compatible with dense_shapes_[", d, "] == ", shape);
  }
  if (value.dtype() != type) {
    return errors::InvalidArgument("dense_defaults[", d, "].dtype() == ", DataTypeName(value.dtype()),
                                   " != dense_types_[", d, "] == ", DataTypeName(type));
  }
  return Status();
}

std::vector<FeatureSpec> MakeSpecs(const FeatureGroup& group, const Keys& sparse_keys,
                                   const Keys& dense_keys) {
  std::vector<FeatureSpec> specs;
  for (size_t i = 0; i < group.sparse_types.size(); ++i) {
    specs.push_back({.key = sparse_keys[i], .dtype = group.sparse_types[i], .is_sparse = true});
  }
  for (size_t i = 0; i < group.dense_types.size(); ++i) {
    const DataType type = group.dense_types[i];
    specs.push_back({.key = dense_keys[i],
                     .dtype = type,
                     .shape = group.dense_shapes[i],
                     .default_value = Tensor(type, TensorShape::EmptyVector())});
  }
  return specs;
}

// Takes the next inputs as defaults.
StatusOr<FeatureTable> MakeTable(const FeatureGroup& group, const Keys& sparse_keys, const Keys& dense_keys,
                                 Walk* walk) {
  std::vector<FeatureSpec> specs = MakeSpecs(group, sparse_keys, dense_keys);
  for (int d = 0; d < group.num_dense(); ++d) {
    const Tensor& value = walk->Take();
    MR_RETURN_IF_ERROR(CheckDefault(group, d, value));
    specs[static_cast<size_t>(group.num_sparse() + d)].default_value = value;
  }
  return FeatureTable::Make(std::move(specs));
}

// Steps are padded with zeros or empty strings.
StatusOr<FeatureTable> MakeListTable(const FeatureGroup& group, const Keys& sparse_keys,
                                     const Keys& dense_keys, const std::set<std::string>& may_be_missing) {
  std::vector<FeatureSpec> specs = MakeSpecs(group, sparse_keys, dense_keys);
  for (FeatureSpec& spec : specs) {
    spec.may_be_missing = may_be_missing.contains(spec.key);
    const bool is_variable = !spec.is_sparse && spec.shape.rank() > 0 && spec.shape.dim(0) < 0;
    if (!is_variable) continue;
    spec.default_value = VisitDataType(spec.dtype, Tensor(), []<typename T>() {
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, int64_t> ||
                    std::is_same_v<T, std::string>) {
        return Tensor::Scalar<T>(T());
      }
      return Tensor();
    });
  }
  return FeatureTable::Make(std::move(specs));
}

StatusOr<io::ParsedFeatures> Parse(const KernelContext& context, const FeatureTable& table,
                                   const io::ParseRequest& request) {
  return io::ParseFeatures(table, request, [&](int64_t total, int64_t cost_ns, ThreadPool::ShardFn fn) {
    context.ParallelFor(total, cost_ns, fn);
  });
}

Status CheckVector(const Tensor& t, const char* what) {
  if (t.shape().IsVector()) return Status();
  return errors::InvalidArgument("Expected ", what, " to be a vector, got shape: ", t.shape());
}
Status CheckScalar(const Tensor& t, const char* what) {
  if (t.shape().IsScalar()) return Status();
  return errors::InvalidArgument("Expected ", what, " to be a scalar, got shape: ", t.shape());
}
// Names are for errors and may be omitted.
Status CheckNames(const Tensor& names, const Tensor& serialized, const char* what) {
  if (names.num_elements() == 0) return Status();
  MR_RETURN_IF_ERROR(CheckVector(names, what));
  if (names.num_elements() == serialized.num_elements()) return Status();
  return errors::InvalidArgument("Expected len(", what,
                                 ") == len(serialized), but got: ", names.num_elements(), " vs. ",
                                 serialized.num_elements());
}

class ParseExampleKernel final : public OpKernel {
 public:
  explicit ParseExampleKernel(KernelConstruction& c) : OpKernel(c), group_(ReadGroup(c, kBatchNames)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& serialized = context.input(0);
    const Tensor& names = context.input(1);
    MR_RETURN_IF_ERROR(CheckVector(serialized, "serialized"));
    MR_RETURN_IF_ERROR(CheckNames(names, serialized, "names"));
    Walk walk(context, 2);
    MR_ASSIGN_OR_RETURN(const Keys sparse, walk.TakeKeys(group_.num_sparse(), "sparse_keys"));
    MR_ASSIGN_OR_RETURN(const Keys dense, walk.TakeKeys(group_.num_dense(), "dense_keys"));
    MR_ASSIGN_OR_RETURN(const FeatureTable table, MakeTable(group_, sparse, dense, &walk));
    MR_ASSIGN_OR_RETURN(io::ParsedFeatures parsed, Parse(context, table,
                                                         {.serialized = serialized.flat<std::string>(),
                                                          .names = names.flat<std::string>()}));
    walk.Put(group_, std::move(parsed));
    return Status();
  }

 private:
  const FeatureGroup group_;
};

// One Example or a batch, with keys in vectors. Ragged features are parsed as sparse ones, whose indices
// determine the row splits.
class ParseExampleV2Kernel final : public OpKernel {
 public:
  explicit ParseExampleV2Kernel(KernelConstruction& c)
      : OpKernel(c),
        group_(ReadGroup(c, kSingleNames)),
        split_types_(c.Attr<std::vector<DataType>>("ragged_split_types")) {
    const auto value_types = c.Attr<std::vector<DataType>>("ragged_value_types");
    if (value_types.size() != split_types_.size()) {
      c.SetError(errors::InvalidArgument("len(ragged_value_types) != len(ragged_split_types)"));
    }
    all_ = group_;
    all_.sparse_types.insert(all_.sparse_types.end(), value_types.begin(), value_types.end());
  }

  Status Compute(KernelContext& context) override {
    const Tensor& serialized = context.input(0);
    const Tensor& names = context.input(1);
    const bool batched = serialized.rank() == 1;
    if (serialized.rank() > 1) {
      return errors::InvalidArgument("Expected serialized to be a scalar or vector, got shape: ",
                                     serialized.shape());
    }
    if (names.num_elements() > 0 && names.shape() != serialized.shape()) {
      return errors::InvalidArgument("Expected names have the same shape as serialized: name.shape=",
                                     names.shape(), ", serialized.shape=", serialized.shape());
    }
    MR_ASSIGN_OR_RETURN(Keys sparse, ReadKeys(context.input(2), group_.sparse_types.size(), "sparse_keys"));
    MR_ASSIGN_OR_RETURN(const Keys dense,
                        ReadKeys(context.input(3), group_.dense_types.size(), "dense_keys"));
    MR_ASSIGN_OR_RETURN(const Keys ragged, ReadKeys(context.input(4), split_types_.size(), "ragged_keys"));
    sparse.insert(sparse.end(), ragged.begin(), ragged.end());
    Walk walk(context, 5);
    MR_ASSIGN_OR_RETURN(const FeatureTable table, MakeTable(all_, sparse, dense, &walk));
    MR_ASSIGN_OR_RETURN(io::ParsedFeatures parsed, Parse(context, table,
                                                         {.serialized = serialized.flat<std::string>(),
                                                          .names = names.flat<std::string>(),
                                                          .batched = batched}));
    const auto first = parsed.begin() + group_.num_sparse();
    const auto last = first + static_cast<int64_t>(split_types_.size());
    const std::vector<std::vector<Tensor>> of_ragged(first, last);
    parsed.erase(first, last);
    walk.Put(group_, std::move(parsed));
    int output = group_.num_outputs();
    for (const auto& feature : of_ragged) context.set_output(output++, feature[1]);
    for (size_t i = 0; i < of_ragged.size(); ++i) {
      const int64_t rows = batched ? serialized.dim(0) : -1;
      MR_ASSIGN_OR_RETURN(Tensor splits, RowSplits(of_ragged[i][0], rows, split_types_[i]));
      context.set_output(output++, std::move(splits));
    }
    return Status();
  }

 private:
  static StatusOr<Keys> ReadKeys(const Tensor& keys, size_t count, const char* what) {
    MR_RETURN_IF_ERROR(CheckVector(keys, what));
    if (keys.num_elements() != static_cast<int64_t>(count)) {
      return errors::InvalidArgument("Expected len(", what, ") == ", count,
                                     ", but got: ", keys.num_elements());
    }
    const std::span<const std::string> texts = keys.flat<std::string>();
    return Keys(texts.begin(), texts.end());
  }

  // The row splits of the values; empty for one Example.
  static StatusOr<Tensor> RowSplits(const Tensor& indices, int64_t rows, DataType dtype) {
    MR_ASSIGN_OR_RETURN(Tensor splits, Tensor::Allocate(dtype, TensorShape({rows + 1})));
    const auto set = [&](int64_t row, int64_t end) {
      if (dtype == DataType::kInt32) {
        splits.data<int32_t>()[row] = static_cast<int32_t>(end);
      } else {
        splits.data<int64_t>()[row] = end;
      }
    };
    if (rows < 0) return splits;
    int64_t next = 0;
    for (int64_t row = 0; row <= rows; ++row) {
      while (next < indices.dim(0) && indices.data<int64_t>()[next * indices.dim(1)] < row) ++next;
      set(row, next);
    }
    return splits;
  }

  const FeatureGroup group_;
  FeatureGroup all_;  // ragged features follow the sparse ones
  const std::vector<DataType> split_types_;
};

class ParseSingleExampleKernel final : public OpKernel {
 public:
  explicit ParseSingleExampleKernel(KernelConstruction& c)
      : OpKernel(c),
        group_(ReadGroup(c, kSingleNames)),
        sparse_keys_(c.Attr<Keys>("sparse_keys")),
        dense_keys_(c.Attr<Keys>("dense_keys")) {
    if (sparse_keys_.size() != group_.sparse_types.size()) {
      c.SetError(errors::InvalidArgument("len(sparse_keys) != len(sparse_types)"));
    }
    if (dense_keys_.size() != group_.dense_types.size()) {
      c.SetError(errors::InvalidArgument("len(dense_keys) != len(dense_types)"));
    }
  }
  Status Compute(KernelContext& context) override {
    const Tensor& serialized = context.input(0);
    MR_RETURN_IF_ERROR(CheckScalar(serialized, "serialized"));
    Walk walk(context, 1);
    MR_ASSIGN_OR_RETURN(const FeatureTable table, MakeTable(group_, sparse_keys_, dense_keys_, &walk));
    MR_ASSIGN_OR_RETURN(
        io::ParsedFeatures parsed,
        Parse(context, table, {.serialized = serialized.flat<std::string>(), .batched = false}));
    walk.Put(group_, std::move(parsed));
    return Status();
  }

 private:
  const FeatureGroup group_;
  const Keys sparse_keys_;
  const Keys dense_keys_;
};

// Context and lists, of one SequenceExample whose keys are inputs.
class ParseSingleSequenceExampleKernel final : public OpKernel {
 public:
  explicit ParseSingleSequenceExampleKernel(KernelConstruction& c)
      : OpKernel(c), context_(ReadGroup(c, kContextNames)), lists_(ReadGroup(c, kListNames)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& serialized = context.input(0);
    const Tensor& missing = context.input(1);
    const Tensor& debug_name = context.input(num_inputs() - 1);
    MR_RETURN_IF_ERROR(CheckScalar(serialized, "serialized"));
    MR_RETURN_IF_ERROR(CheckVector(missing, "feature_list_dense_missing_assumed_empty"));
    if (debug_name.num_elements() > 0) MR_RETURN_IF_ERROR(CheckScalar(debug_name, "debug_name"));
    Walk walk(context, 2);
    MR_ASSIGN_OR_RETURN(const Keys sparse, walk.TakeKeys(context_.num_sparse(), "context_sparse_keys"));
    MR_ASSIGN_OR_RETURN(const Keys dense, walk.TakeKeys(context_.num_dense(), "context_dense_keys"));
    MR_ASSIGN_OR_RETURN(const Keys list_sparse,
                        walk.TakeKeys(lists_.num_sparse(), "feature_list_sparse_keys"));
    MR_ASSIGN_OR_RETURN(const Keys list_dense, walk.TakeKeys(lists_.num_dense(), "feature_list_dense_keys"));
    MR_ASSIGN_OR_RETURN(const FeatureTable table, MakeTable(context_, sparse, dense, &walk));
    const std::span<const std::string> may = missing.flat<std::string>();
    MR_ASSIGN_OR_RETURN(const FeatureTable list_table,
                        MakeListTable(lists_, list_sparse, list_dense, {may.begin(), may.end()}));
    io::ParseRequest request{.source = FeatureSource::kSequenceContext,
                             .serialized = serialized.flat<std::string>(),
                             .names = debug_name.flat<std::string>(),
                             .batched = false};
    MR_ASSIGN_OR_RETURN(io::ParsedFeatures features, Parse(context, table, request));
    request.source = FeatureSource::kSequenceLists;
    MR_ASSIGN_OR_RETURN(io::ParsedFeatures lists, Parse(context, list_table, request));
    walk.Put(context_, std::move(features));
    walk.Put(lists_, std::move(lists));
    return Status();
  }

 private:
  const FeatureGroup context_;
  const FeatureGroup lists_;
};

// The same for a batch, with keys that are attributes.
class ParseSequenceExampleKernel final : public OpKernel {
 public:
  explicit ParseSequenceExampleKernel(KernelConstruction& c)
      : OpKernel(c), context_(ReadGroup(c, kContextNames)), lists_(ReadGroup(c, kListNames)) {
    const Keys may = c.Attr<Keys>("feature_list_dense_missing_assumed_empty");
    may_be_missing_.insert(may.begin(), may.end());
    const auto read = [&](const char* name, int n) {
      Keys keys = c.Attr<Keys>(name);
      if (static_cast<int>(keys.size()) != n) {
        c.SetError(errors::InvalidArgument("len(", name, ") != ", n, ", the number of its types"));
      }
      return keys;
    };
    sparse_keys_ = read("context_sparse_keys", context_.num_sparse());
    dense_keys_ = read("context_dense_keys", context_.num_dense());
    list_sparse_keys_ = read("feature_list_sparse_keys", lists_.num_sparse());
    list_dense_keys_ = read("feature_list_dense_keys", lists_.num_dense());
  }
  Status Compute(KernelContext& context) override {
    const Tensor& serialized = context.input(0);
    const Tensor& debug_name = context.input(1);
    MR_RETURN_IF_ERROR(CheckVector(serialized, "serialized"));
    MR_RETURN_IF_ERROR(CheckNames(debug_name, serialized, "debug_name"));
    Walk walk(context, 2);
    MR_ASSIGN_OR_RETURN(const FeatureTable table, MakeTable(context_, sparse_keys_, dense_keys_, &walk));
    MR_ASSIGN_OR_RETURN(const FeatureTable list_table,
                        MakeListTable(lists_, list_sparse_keys_, list_dense_keys_, may_be_missing_));
    io::ParseRequest request{.source = FeatureSource::kSequenceContext,
                             .serialized = serialized.flat<std::string>(),
                             .names = debug_name.flat<std::string>()};
    MR_ASSIGN_OR_RETURN(io::ParsedFeatures features, Parse(context, table, request));
    request.source = FeatureSource::kSequenceLists;
    MR_ASSIGN_OR_RETURN(io::ParsedFeatures lists, Parse(context, list_table, request));
    walk.Put(context_, std::move(features));
    const io::ParsedFeatures& kept = lists;
    walk.Put(lists_, kept);
    walk.PutLengths(lists_, kept);
    return Status();
  }

 private:
  const FeatureGroup context_;
  const FeatureGroup lists_;
  Keys sparse_keys_, dense_keys_, list_sparse_keys_, list_dense_keys_;
  std::set<std::string> may_be_missing_;
};

}  // namespace

void RegisterParseExampleKernels(KernelRegistry& registry) {
  registry.Register<ParseExampleKernel>(KernelDef("ParseExample"));
  registry.Register<ParseExampleV2Kernel>(KernelDef("ParseExampleV2"));
  registry.Register<ParseSingleExampleKernel>(KernelDef("ParseSingleExample"));
  registry.Register<ParseSingleSequenceExampleKernel>(KernelDef("ParseSingleSequenceExample"));
  registry.Register<ParseSequenceExampleKernel>(KernelDef("ParseSequenceExample"));
}

}  // namespace millrace
