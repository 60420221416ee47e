// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/denied_ops.h"

#include <span>
#include <utility>

#include "op/op_registry.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

// Ops with attributes or inputs that name files, among all of TensorFlow 1.15.
constexpr const char* kFileAccess[] = {"CSVDataset",
                                       "CacheDataset",
                                       "CacheDatasetV2",
                                       "CreateSummaryDbWriter",
                                       "CreateSummaryFileWriter",
                                       "DatasetToTFRecord",
                                       "DebugIdentity",
                                       "DebugNanCount",
                                       "DebugNumericSummary",
                                       "DecodeProtoV2",
                                       "EncodeProto",
                                       "ExperimentalCSVDataset",
                                       "ExperimentalDatasetToTFRecord",
                                       "ExperimentalLMDBDataset",
                                       "ExperimentalMatchingFilesDataset",
                                       "ExperimentalSqlDataset",
                                       "FixedLengthRecordDataset",
                                       "FixedLengthRecordDatasetV2",
                                       "FixedLengthRecordReader",
                                       "FixedLengthRecordReaderV2",
                                       "FixedUnigramCandidateSampler",
                                       "GenerateVocabRemapping",
                                       "ImmutableConst",
                                       "InitializeTableFromTextFile",
                                       "InitializeTableFromTextFileV2",
                                       "LMDBDataset",
                                       "LMDBReader",
                                       "LoadAndRemapMatrix",
                                       "MatchingFiles",
                                       "MatchingFilesDataset",
                                       "MergeV2Checkpoints",
                                       "PrintV2",
                                       "ReadFile",
                                       "RecordInput",
                                       "Restore",
                                       "RestoreSlice",
                                       "RestoreV2",
                                       "Save",
                                       "SaveSlices",
                                       "SaveV2",
                                       "Skipgram",
                                       "SnapshotDataset",
                                       "SqlDataset",
                                       "TFRecordDataset",
                                       "TFRecordReader",
                                       "TFRecordReaderV2",
                                       "TextLineDataset",
                                       "TextLineReader",
                                       "TextLineReaderV2",
                                       "WholeFileReader",
                                       "WholeFileReaderV2",
                                       "WriteFile"};
constexpr const char* kNetwork[] = {"Rpc", "TryRpc"};
constexpr const char* kCallback[] = {"EagerPyFunc", "PyFunc", "PyFuncStateless"};

const std::pair<std::string_view, std::span<const char* const>> kGroups[] = {
    {"file_access", kFileAccess}, {"network", kNetwork}, {"callback", kCallback}};

}  // namespace

StatusOr<DeniedOps> DeniedOps::Parse(const std::vector<std::string>& names) {
  DeniedOps denied;
  for (const std::string& name : names) {
    bool found = false;
    for (const auto& [group, ops] : kGroups) {
      if (name != group) continue;
      denied.ops_.insert(ops.begin(), ops.end());
      found = true;
    }
    if (found) continue;
    if (!OpRegistry::Global().LookUp(name).ok()) {
      return errors::NotFound(
          "\"", name, "\" can't be denied: it is neither an op nor one of file_access, network, callback");
    }
    denied.ops_.insert(name);
  }
  return denied;
}

Status DeniedOps::Check(const tensorflow::GraphDef& graph) const {
  if (ops_.empty()) return Status();
  const auto check_name = [&](const std::string& op, const std::string& node, const std::string& function) {
    if (!Has(op)) return Status();
    return errors::PermissionDenied("Op type ", op, " is denied by the operator of this task; node ", node,
                                    function.empty() ? "" : " of function ", function, " has it");
  };
  const auto check_nodes = [&](const auto& nodes, const std::string& function) -> Status {
    for (const tensorflow::NodeDef& node : nodes) {
      MR_RETURN_IF_ERROR(check_name(node.op(), node.name(), function));
      // An op may also be called as if it were a function.
      for (const auto& [key, value] : node.attr()) {
        MR_RETURN_IF_ERROR(check_name(value.func().name(), node.name(), function));
        for (const auto& callee : value.list().func())
          MR_RETURN_IF_ERROR(check_name(callee.name(), node.name(), function));
      }
    }
    return Status();
  };
  MR_RETURN_IF_ERROR(check_nodes(graph.node(), ""));
  for (const auto& function : graph.library().function())
    MR_RETURN_IF_ERROR(check_nodes(function.node_def(), function.signature().name()));
  return Status();
}

}  // namespace millrace
