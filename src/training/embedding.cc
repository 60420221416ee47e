// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "millrace/clipping.h"
#include "millrace/layers.h"
#include "millrace/ops.h"
#include "training/formula.h"

namespace millrace::layers {
namespace {

Output Rows(const Scope& scope, const GraphVariable& table, const Output& ids) {
  const Scope beside = scope.ColocateWith(table.ref());
  if (table.is_resource()) return ops::ResourceGather(beside, table.ref(), ids, table.dtype());
  return ops::GatherV2(beside, table.value(), ids, 0);
}

Output Clip(const Scope& scope, const Output& rows, const EmbeddingOptions& options) {
  if (!options.max_norm || !scope.ok()) return rows;
  std::vector<int64_t> axes;
  for (int i = 1; i < scope.ShapeOf(rows).rank(); ++i) axes.push_back(i);
  return ClipByNorm(scope, rows, *options.max_norm, axes).dense;
}

// The part of each id, and the index in it.
struct Places {
  Output part;
  Output row;
};

StatusOr<Places> PlacesOf(const Scope& scope, const std::vector<GraphVariable>& parts, const Output& ids,
                          PartitionStrategy strategy) {
  const Formula id(scope, ids);
  const auto n = static_cast<double>(parts.size());
  if (strategy == PartitionStrategy::kMod) {
    return Places{Binary(scope, "FloorMod", "FloorMod", id, n), Binary(scope, "floordiv", "FloorDiv", id, n)};
  }
  int64_t rows = 0;
  for (const GraphVariable& part : parts) {
    const PartialShape shape = scope.ShapeOf(part.value());
    if (shape.rank() < 1 || shape.dim(0) < 0) {
      return errors::InvalidArgument("embedding_lookup: the number of rows of '", part.name(),
                                     "' is not known");
    }
    rows += shape.dim(0);
  }
  // The first parts have one row more than the others.
  const std::lldiv_t shares = std::lldiv(rows, static_cast<int64_t>(parts.size()));
  const double each = static_cast<double>(shares.quot);
  const double longer = static_cast<double>(shares.rem);
  if (each == 0) return errors::InvalidArgument("embedding_lookup: there are more parts than rows");
  const Formula beyond = id - longer;
  const Formula part = Maximum(Binary(scope, "floordiv", "FloorDiv", id, each + 1),
                               Binary(scope, "floordiv", "FloorDiv", beyond, each));
  const Output row = ops::Select(scope, Binary(scope, "Less", "Less", part, longer).tensor(),
                                 Binary(scope, "FloorMod", "FloorMod", id, each + 1).tensor(),
                                 Binary(scope, "FloorMod", "FloorMod", beyond, each).tensor());
  return Places{part, row};
}

Output Lookup(const Scope& scope, const std::vector<GraphVariable>& parts, const Output& ids,
              const EmbeddingOptions& options) {
  const Output flat = ops::Reshape(scope, ids, {-1});
  const auto places = PlacesOf(scope, parts, flat, options.strategy);
  scope.UpdateStatus(places.status());
  if (!scope.ok()) return {};
  const auto count = static_cast<int64_t>(parts.size());
  const auto split = [&](const Output& values) {
    OpMaker maker(scope, "DynamicPartition", {});
    maker.SetAttr("num_partitions", count);
    maker.Add(values);
    maker.Add(CastTo(scope, places->part, DataType::kInt32));
    maker.Finish();
    return maker.outputs(0);
  };
  const std::vector<Output> rows = split(places->row);
  const Scope range = scope.NewSubScope("range");
  const Output order = ops::Range(range.WithOpName("/"), 0, ops::Size(scope, flat).output, 1);
  const std::vector<Output> back = split(order);
  if (!scope.ok()) return {};
  std::vector<Input> found, indices;
  for (size_t i = 0; i < parts.size(); ++i) {
    found.emplace_back(Clip(scope, Rows(scope, parts[i], rows[i]), options));
    indices.emplace_back(back[i]);
  }
  OpMaker stitch(scope, "DynamicStitch", {});
  stitch.Add(InputList(indices));
  stitch.Add(InputList(found));
  stitch.Finish();
  const Output together = stitch.output(0);
  if (!scope.ok() || scope.ShapeOf(ids).rank() == 1) return together;
  const PartialShape row_shape = scope.ShapeOf(parts[0].value());
  const std::vector<int64_t> inner(row_shape.dims().begin() + 1, row_shape.dims().end());
  const Output shape = ops::Shape(scope, ids);
  return ops::Reshape(scope, together, ops::ConcatV2(scope, {shape, Vector(scope, inner)}, 0).output);
}

Status CheckParts(const Scope& scope, const std::vector<GraphVariable>& parts) {
  MR_RETURN_IF_ERROR(scope.status());
  if (parts.empty()) return errors::InvalidArgument("Need at least one param");
  for (const GraphVariable& part : parts) {
    if (!part.ref().IsSet()) return errors::InvalidArgument("embedding_lookup: a part of the table is unset");
  }
  if (scope.ShapeOf(parts[0].value()).rank() >= 1) return Status();
  return errors::InvalidArgument("embedding_lookup: '", parts[0].name(), "' has no rows");
}

}  // namespace

Output EmbeddingLookup(const Scope& scope, const std::vector<GraphVariable>& parts, const Output& ids,
                       const EmbeddingOptions& options) {
  scope.UpdateStatus(CheckParts(scope, parts));
  if (!scope.ok()) return {};
  const Scope own = scope.NewSubScope("embedding_lookup");
  if (parts.size() > 1) return Lookup(own, parts, ids, options);
  const Output rows = Rows(own, parts[0], ids);
  if (!options.max_norm) return ops::Identity(own, rows);
  // Each row separately, whatever the shape of the ids.
  const int axes = scope.ShapeOf(parts[0].value()).rank() - 1;
  std::vector<int64_t> last(std::max(axes, 0));
  std::iota(last.begin(), last.end(), -axes);
  if (last.empty()) return ClipByValue(own, rows, -*options.max_norm, *options.max_norm).dense;
  return ClipByNorm(own, rows, *options.max_norm, last).dense;
}

Output EmbeddingLookupSparse(const Scope& scope, const std::vector<GraphVariable>& parts,
                             const SparseInput& ids, const SparseEmbeddingOptions& options) {
  scope.UpdateStatus(CheckParts(scope, parts));
  if (!scope.ok()) return {};
  const Scope own = scope.NewSubScope("embedding_lookup_sparse");
  const Output column =
      ops::StridedSlice(own.WithOpName("strided_slice"), ids.indices, {0, 0}, {0, 1}, {1, 1},
                        ops::StridedSlice::BeginMask(1).EndMask(1).ShrinkAxisMask(2));
  const Output segments = CastTo(own, column, DataType::kInt32);
  const Output unique = AddOp(own, "Unique", {ids.values});
  if (!unique.IsSet()) return {};
  const Output places{unique.node, 1};
  const Output rows =
      EmbeddingLookup(own, parts, unique, {.strategy = options.strategy, .max_norm = options.max_norm});
  if (!options.weights.IsSet()) {
    const char* const op = options.combiner == Combiner::kSum    ? "SparseSegmentSum"
                           : options.combiner == Combiner::kMean ? "SparseSegmentMean"
                                                                 : "SparseSegmentSqrtN";
    return AddOp(own.WithOpName("/"), op, {rows, places, segments});
  }
  const Formula weights(own, CastTo(own, options.weights, Scope::TypeOf(rows)));
  // [n, 1, …], to be multiplied with the rows.
  std::vector<int64_t> ones(static_cast<size_t>(scope.ShapeOf(parts[0].value()).rank()), 1);
  ones[0] = -1;
  const auto expanded = [&](const Formula& x) {
    return Formula(own, ops::Reshape(own, x.tensor(), Vector(own, ones)));
  };
  const Formula picked(own, ops::GatherV2(own, rows, places, 0));
  const Formula sums = (picked * expanded(weights)).Call("SegmentSum", segments);
  switch (options.combiner) {
    case Combiner::kSum:
      return ops::Identity(own.WithOpName("/"), sums.tensor());
    case Combiner::kMean:
      return AddOp(own.WithOpName("/"), "RealDiv", {sums, expanded(weights.Call("SegmentSum", segments))});
    case Combiner::kSqrtN:
      break;
  }
  const Formula root = weights.Call("Square").Call("SegmentSum", segments).Call("Sqrt");
  return AddOp(own.WithOpName("/"), "RealDiv", {sums, expanded(root)});
}

}  // namespace millrace::layers
