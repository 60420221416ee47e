// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/meta_graph_codec.h"

#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"

namespace millrace {
namespace {

namespace tf = ::tensorflow;

constexpr char kAssetsKey[] = "saved_model_assets";
constexpr char kAssetType[] = "tensorflow.AssetFileDef";

template <typename T, typename Repeated>
std::vector<T> ToVector(const Repeated& values) {
  return std::vector<T>(values.begin(), values.end());
}

CollectionDef CollectionFromProto(const tf::CollectionDef& proto) {
  switch (proto.kind_case()) {
    case tf::CollectionDef::kNodeList:
      return NodeList{ToVector<std::string>(proto.node_list().value())};
    case tf::CollectionDef::kBytesList:
      return BytesList{ToVector<std::string>(proto.bytes_list().value())};
    case tf::CollectionDef::kInt64List:
      return Int64List{ToVector<int64_t>(proto.int64_list().value())};
    case tf::CollectionDef::kFloatList:
      return FloatList{ToVector<float>(proto.float_list().value())};
    case tf::CollectionDef::kAnyList: {
      AnyList list;
      for (const auto& any : proto.any_list().value()) list.value.push_back({any.type_url(), any.value()});
      return list;
    }
    case tf::CollectionDef::KIND_NOT_SET:
      break;
  }
  return std::monostate();
}

// Adds the values of a collection to its message.
struct CollectionWriter {
  tf::CollectionDef* proto;

  void operator()(std::monostate) const {}
  void operator()(const NodeList& list) const {
    auto* const to = proto->mutable_node_list();
    for (const auto& value : list.value) to->add_value(value);
  }
  void operator()(const BytesList& list) const {
    auto* const to = proto->mutable_bytes_list();
    for (const auto& value : list.value) to->add_value(value);
  }
  void operator()(const Int64List& list) const {
    proto->mutable_int64_list()->mutable_value()->Add(list.value.begin(), list.value.end());
  }
  void operator()(const FloatList& list) const {
    proto->mutable_float_list()->mutable_value()->Add(list.value.begin(), list.value.end());
  }
  void operator()(const AnyList& list) const {
    auto* const to = proto->mutable_any_list();
    for (const AnyList::Any& any : list.value) {
      auto* const entry = to->add_value();
      entry->set_type_url(any.type_url);
      entry->set_value(any.value);
    }
  }
};

StatusOr<TensorInfo> InfoFromProto(const tf::TensorInfo& proto) {
  TensorInfo info;
  if (proto.encoding_case() == tf::TensorInfo::kCooSparse) {
    const auto& sparse = proto.coo_sparse();
    info.sparse = TensorInfo::Sparse{sparse.values_tensor_name(), sparse.indices_tensor_name(),
                                     sparse.dense_shape_tensor_name()};
  } else {
    info.name = proto.name();
  }
  if (const auto dtype = DataTypeFromProto(proto.dtype()); dtype.ok()) info.dtype = *dtype;
  if (!proto.has_tensor_shape()) return info;
  MR_ASSIGN_OR_RETURN(info.shape, PartialShapeFromProto(proto.tensor_shape()));
  return info;
}

void InfoToProto(const TensorInfo& info, tf::TensorInfo* proto) {
  if (info.sparse) {
    auto* const sparse = proto->mutable_coo_sparse();
    sparse->set_values_tensor_name(info.sparse->values);
    sparse->set_indices_tensor_name(info.sparse->indices);
    sparse->set_dense_shape_tensor_name(info.sparse->dense_shape);
  } else {
    proto->set_name(info.name);
  }
  proto->set_dtype(static_cast<tf::DataType>(info.dtype));
  ShapeToProto(info.shape, proto->mutable_tensor_shape());
}

Status InfosFromProto(const google::protobuf::Map<std::string, tf::TensorInfo>& protos,
                      std::map<std::string, TensorInfo>* infos) {
  for (const auto& [key, proto] : protos) {
    StatusOr<TensorInfo> info = InfoFromProto(proto);
    if (!info.ok()) return info.status().WithContext(StrCat("; tensor '", key, "' of a signature"));
    infos->emplace(key, *std::move(info));
  }
  return Status::Ok();
}

void SignatureToProto(const SignatureDef& signature, tf::SignatureDef* proto) {
  for (const auto& [key, info] : signature.inputs) InfoToProto(info, &(*proto->mutable_inputs())[key]);
  for (const auto& [key, info] : signature.outputs) InfoToProto(info, &(*proto->mutable_outputs())[key]);
  proto->set_method_name(signature.method_name);
}

AssetFileDef AssetFromProto(const tf::AssetFileDef& proto) {
  return {.tensor = proto.tensor_info().name(), .filename = proto.filename()};
}

}  // namespace

SaverDef SaverDefFromProto(const tf::SaverDef& proto) {
  SaverDef saver;
  saver.filename_tensor_name = proto.filename_tensor_name();
  saver.save_tensor_name = proto.save_tensor_name();
  saver.restore_op_name = proto.restore_op_name();
  saver.max_to_keep = proto.max_to_keep();
  saver.sharded = proto.sharded();
  saver.keep_checkpoint_every_n_hours = proto.keep_checkpoint_every_n_hours();
  const bool known = tf::SaverDef::CheckpointFormatVersion_IsValid(proto.version());
  saver.version = known ? static_cast<CheckpointFormat>(proto.version()) : CheckpointFormat::kV2;
  return saver;
}

void SaverDefToProto(const SaverDef& saver, tf::SaverDef* proto) {
  proto->set_filename_tensor_name(saver.filename_tensor_name);
  proto->set_save_tensor_name(saver.save_tensor_name);
  proto->set_restore_op_name(saver.restore_op_name);
  proto->set_max_to_keep(saver.max_to_keep);
  proto->set_sharded(saver.sharded);
  proto->set_keep_checkpoint_every_n_hours(saver.keep_checkpoint_every_n_hours);
  proto->set_version(static_cast<tf::SaverDef::CheckpointFormatVersion>(saver.version));
}

StatusOr<std::vector<AssetFileDef>> AssetFilesOf(const tf::MetaGraphDef& proto) {
  std::vector<AssetFileDef> assets;
  for (const tf::AssetFileDef& asset : proto.asset_file_def()) assets.push_back(AssetFromProto(asset));
  const auto collection = proto.collection_def().find(kAssetsKey);
  if (!assets.empty() || collection == proto.collection_def().end()) return assets;
  for (const auto& any : collection->second.any_list().value()) {
    const std::string_view type(any.type_url());
    if (type.substr(type.rfind('/') + 1) != kAssetType) {
      return errors::FailedPrecondition("Expected Any type_url for: ", kAssetType, ". Got: ", type, ".");
    }
    tf::AssetFileDef asset;
    if (!asset.ParseFromString(any.value())) {
      return errors::FailedPrecondition("Failed to unpack: ", any.ShortDebugString());
    }
    assets.push_back(AssetFromProto(asset));
  }
  return assets;
}

StatusOr<SignatureDef> SignatureFromProto(const tf::SignatureDef& proto) {
  SignatureDef signature;
  MR_RETURN_IF_ERROR(InfosFromProto(proto.inputs(), &signature.inputs));
  MR_RETURN_IF_ERROR(InfosFromProto(proto.outputs(), &signature.outputs));
  signature.method_name = proto.method_name();
  return signature;
}

StatusOr<MetaGraph> MetaGraphFromProto(const tf::MetaGraphDef& proto) {
  MetaGraph meta;
  const auto& info = proto.meta_info_def();
  meta.tags = ToVector<std::string>(info.tags());
  meta.meta_graph_version = info.meta_graph_version();
  meta.tensorflow_version = info.tensorflow_version();
  meta.tensorflow_git_version = info.tensorflow_git_version();
  meta.stripped_default_attrs = info.stripped_default_attrs();
  for (const tf::OpDef& op : info.stripped_op_list().op()) meta.ops.push_back(op.name());
  if (proto.has_saver_def()) meta.saver = SaverDefFromProto(proto.saver_def());
  for (const auto& [key, collection] : proto.collection_def()) {
    meta.collections.emplace(key, CollectionFromProto(collection));
  }
  for (const auto& [key, signature] : proto.signature_def()) {
    MR_ASSIGN_OR_RETURN(meta.signatures[key], SignatureFromProto(signature));
  }
  MR_ASSIGN_OR_RETURN(meta.assets, AssetFilesOf(proto));
  return meta;
}

void MetaGraphToProto(const MetaGraph& meta, tf::MetaGraphDef* proto) {
  auto* const info = proto->mutable_meta_info_def();
  info->mutable_tags()->Assign(meta.tags.begin(), meta.tags.end());
  info->set_meta_graph_version(meta.meta_graph_version);
  info->set_tensorflow_version(meta.tensorflow_version);
  info->set_tensorflow_git_version(meta.tensorflow_git_version);
  info->set_stripped_default_attrs(meta.stripped_default_attrs);
  proto->clear_saver_def();
  if (meta.saver) SaverDefToProto(*meta.saver, proto->mutable_saver_def());
  proto->clear_collection_def();
  for (const auto& [key, collection] : meta.collections) {
    std::visit(CollectionWriter{&(*proto->mutable_collection_def())[key]}, collection);
  }
  proto->clear_signature_def();
  for (const auto& [key, signature] : meta.signatures) {
    SignatureToProto(signature, &(*proto->mutable_signature_def())[key]);
  }
  proto->clear_asset_file_def();
  // The assets of the collection are already in it.
  if (meta.collections.contains(kAssetsKey)) return;
  for (const AssetFileDef& asset : meta.assets) {
    tf::AssetFileDef* const to = proto->add_asset_file_def();
    to->mutable_tensor_info()->set_name(asset.tensor);
    to->set_filename(asset.filename);
  }
}

}  // namespace millrace
