// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/summary.h"

#include <cctype>

#include "base/env.h"
#include "base/strings.h"
#include "millrace/meta_graph.h"
#include "millrace/ops.h"
#include "training/summary_metadata.h"

namespace millrace {
namespace summary {
namespace {

// Replaces characters that names of nodes cannot have by '_'.
std::string CleanTag(std::string_view name) {
  std::string clean;
  for (const char c : name) {
    const bool allowed =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.' || c == '/';
    if (c != '/' || !clean.empty()) clean += allowed ? c : '_';
  }
  return clean;
}

// The separate scope of a summary; the summary's op has the scope's name.
struct Place {
  Place(const Scope& outer, std::string_view name, const Options& options)
      : scope(outer.NewSubScope(
            options.family.empty() ? CleanTag(name) : StrCat(CleanTag(options.family), "/", CleanTag(name)))),
        own(scope.WithOpName("/")),
        tag(options.family.empty() ? scope.path() : StrCat(CleanTag(options.family), "/", scope.path())) {}

  Output Tag(const char* input) const {
    return ops::Const(scope.WithOpName(input).WithNoControlDependencies(), tag);
  }

  const Scope scope;
  const Scope own;
  const std::string tag;
};

Output Collect(const Scope& scope, const Output& made, const Options& options) {
  if (!scope.ok()) return {};
  for (const std::string& collection : options.collections) AddToCollection(scope, collection, made);
  return made;
}

}  // namespace

Output Scalar(const Scope& scope, std::string_view name, const Input& value, const Options& options) {
  const Place place(scope, name, options);
  return Collect(scope, ops::ScalarSummary(place.own, place.Tag("tags"), value), options);
}

Output Histogram(const Scope& scope, std::string_view name, const Input& values, const Options& options) {
  const Place place(scope, name, options);
  return Collect(scope, ops::HistogramSummary(place.own, place.Tag("tag"), values), options);
}

Output Image(const Scope& scope, std::string_view name, const Input& tensor, int max_outputs,
             const Options& options) {
  const Place place(scope, name, options);
  return Collect(
      scope,
      ops::ImageSummary(place.own, place.Tag("tag"), tensor, ops::ImageSummary::MaxImages(max_outputs)),
      options);
}

Output Audio(const Scope& scope, std::string_view name, const Input& tensor, const Input& sample_rate,
             int max_outputs, const Options& options) {
  const Place place(scope, name, options);
  const Output rate = sample_rate.literal() == nullptr
                          ? sample_rate.output()
                          : ops::Const(place.scope.WithOpName("sample_rate"), *sample_rate.literal());
  return Collect(scope,
                 ops::AudioSummaryV2(place.own, place.Tag("tag"), tensor, rate,
                                     ops::AudioSummaryV2::MaxOutputs(max_outputs)),
                 options);
}

Output Tensor(const Scope& scope, std::string_view name, const Input& tensor,
              std::string_view serialized_metadata, const Options& options) {
  const Place place(scope, name, options);
  const Output tag = place.Tag("tag");
  const Output metadata = ops::Const(
      place.scope.WithOpName("serialized_summary_metadata").WithNoControlDependencies(), serialized_metadata);
  return Collect(scope, ops::TensorSummaryV2(place.own, tag, tensor, metadata), options);
}

Output Text(const Scope& scope, std::string_view name, const Input& tensor, const Options& options) {
  const DataType dtype =
      tensor.literal() != nullptr ? tensor.literal()->tensor().dtype() : Scope::TypeOf(tensor.output());
  if (dtype != DataType::kString) {
    scope.UpdateStatus(
        errors::InvalidArgument("Expected tensor ", name, " to have dtype string, got ", dtype));
    return {};
  }
  return Tensor(scope, name, tensor, PluginMetadata("text"), options);
}

Output Merge(const Scope& scope, const std::vector<Output>& summaries) {
  const Scope own = scope.op_name().empty() ? scope.NewSubScope("Merge").WithOpName("MergeSummary") : scope;
  return ops::MergeSummary(own, summaries);
}

Output MergeAll(const Scope& scope, const std::string& collection) {
  const auto& collections = Collections(scope);
  const auto found = collections.find(collection);
  if (found == collections.end()) return {};
  const auto* const nodes = std::get_if<NodeList>(&found->second);
  std::vector<Output> summaries;
  for (const std::string& name : nodes == nullptr ? std::vector<std::string>() : nodes->value) {
    const auto node = scope.FindOperation(name.substr(0, name.find(':')));
    if (!node.ok()) {
      scope.UpdateStatus(node.status().WithContext(StrCat("; in collection '", collection, "'")));
      return {};
    }
    summaries.push_back({node->node, 0});
  }
  return summaries.empty() ? Output() : Merge(scope, summaries);
}

}  // namespace summary

Status WriteProjectorConfig(const std::string& folder, const std::vector<Projection>& projections) {
  std::string text;
  for (const Projection& projection : projections) {
    if (projection.tensor_name.empty()) {
      return errors::InvalidArgument("a projection lacks the name of its tensor");
    }
    text += StrCat("embeddings {\n  tensor_name: \"", CEscape(projection.tensor_name), "\"\n");
    if (!projection.metadata_path.empty()) {
      text += StrCat("  metadata_path: \"", CEscape(projection.metadata_path), "\"\n");
    }
    if (!projection.sprite_path.empty()) {
      text += StrCat("  sprite {\n    image_path: \"", CEscape(projection.sprite_path),
                     "\"\n    single_image_dim: ", projection.sprite_width,
                     "\n    single_image_dim: ", projection.sprite_height, "\n  }\n");
    }
    text += "}\n";
  }
  return WriteFileAtomically(Env::Posix(), folder + "/projector_config.pbtxt", text);
}

}  // namespace millrace
