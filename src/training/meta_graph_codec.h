// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/meta_graph.h"
#include "millrace/status.h"

namespace tensorflow {
class MetaGraphDef;
class SaverDef;
class SignatureDef;
}  // namespace tensorflow

namespace millrace {

// All but the graph. InvalidArgument for invalid shapes and assets; unknown types become
// kInvalid.
StatusOr<MetaGraph> MetaGraphFromProto(const tensorflow::MetaGraphDef& proto);
// Overwrites all but the graph and the list of ops.
void MetaGraphToProto(const MetaGraph& meta, tensorflow::MetaGraphDef* proto);

StatusOr<SignatureDef> SignatureFromProto(const tensorflow::SignatureDef& proto);
SaverDef SaverDefFromProto(const tensorflow::SaverDef& proto);
void SaverDefToProto(const SaverDef& saver, tensorflow::SaverDef* proto);

// The files of a model: those of asset_file_def, or else of the collection "saved_model_assets".
// FailedPrecondition for an entry that is not an AssetFileDef.
StatusOr<std::vector<AssetFileDef>> AssetFilesOf(const tensorflow::MetaGraphDef& proto);

}  // namespace millrace
