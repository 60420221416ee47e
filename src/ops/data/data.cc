// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Datasets and iterators. Nearly all declare types and shapes of their elements in two attributes.
#include <algorithm>
#include <array>

#include "op/op_table.h"
#include "ops/family.h"

namespace millrace::ops {
namespace {

constexpr std::string_view kTable =
#include "ops/data/data_ops.def"
    ;

// Inputs that are one value, by name.
constexpr std::string_view kScalars[] = {"batch_size",
                                         "block_length",
                                         "buffer_output_elements",
                                         "buffer_size",
                                         "compression_type",
                                         "count",
                                         "counter_prefix",
                                         "cycle_length",
                                         "data_source_name",
                                         "dataset",
                                         "driver_name",
                                         "drop_remainder",
                                         "field_delim",
                                         "filename",
                                         "footer_bytes",
                                         "header",
                                         "header_bytes",
                                         "index",
                                         "input_dataset",
                                         "max_buffer_size",
                                         "na_value",
                                         "num_replicas",
                                         "max_intra_op_parallelism",
                                         "num_parallel_calls",
                                         "num_shards",
                                         "num_threads",
                                         "num_workers",
                                         "prefetch_input_elements",
                                         "query",
                                         "rate",
                                         "record_bytes",
                                         "seed",
                                         "seed2",
                                         "shift",
                                         "size",
                                         "sleep_microseconds",
                                         "sloppy",
                                         "start",
                                         "step",
                                         "stop",
                                         "stride",
                                         "tag",
                                         "use_quote_delim",
                                         "window_shift",
                                         "window_size",
                                         "window_stride"};

Status CheckInputs(InferenceContext& c) {
  for (const ArgDef& arg : c.op().inputs) {
    if (std::ranges::find(kScalars, arg.name) == std::end(kScalars)) continue;
    MR_ASSIGN_OR_RETURN(const std::vector<ShapeHandle> shapes, c.InputsNamed(arg.name));
    for (const ShapeHandle shape : shapes) MR_RETURN_IF_ERROR(c.WithRank(shape, 0).status());
  }
  return Status();
}

Status DataShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckInputs(c));
  const std::vector<ArgDef>& outputs = c.op().outputs;
  if (outputs.empty() || outputs[0].type_list_attr.empty()) {
    for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.Scalar());
    return Status();
  }
  MR_ASSIGN_OR_RETURN(const auto shapes, c.Attr<std::vector<PartialShape>>("output_shapes"));
  if (static_cast<int>(shapes.size()) != c.num_outputs()) {
    return errors::InvalidArgument("`output_shapes` must be the same length as `output_types` (",
                                   shapes.size(), " vs. ", c.num_outputs(), ")");
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.MakeShapeFromPartial(shapes[static_cast<size_t>(i)]));
    c.set_output(i, shape);
  }
  return Status();
}

// An op that makes a dataset only describes it, so it is stateless, unlike in TensorFlow when its function is
// stateful. Constants cannot hold the outputs of these ops.
OpTraits TraitsOf(const OpDef& op) {
  const bool describes = op.name.ends_with("Dataset") || op.name.ends_with("DatasetV2");
  const bool makes = !op.outputs.empty() && op.outputs[0].type == DataType::kVariant;
  OpTraits traits;
  traits.never_fold = true;
  traits.not_differentiable = true;
  traits.has_side_effects = op.is_stateful && !(describes && makes);
  return traits;
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterDataOps(OpRegistry& registry) {
  MR_ASSIGN_OR_RETURN(std::vector<OpRegistration> table, ParseOpTable(ops::kTable));
  for (OpRegistration& op : table) {
    op.shape_fn = ops::DataShape;
    op.traits = ops::TraitsOf(op.def);
    MR_RETURN_IF_ERROR(registry.Register(std::move(op)));
  }
  return Status();
}

}  // namespace millrace
