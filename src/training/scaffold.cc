// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cc/scope_state.h"
#include "millrace/data.h"
#include "millrace/monitored_session.h"
#include "millrace/ops.h"
#include "millrace/summary.h"
#include "millrace/variables.h"
#include "tensorflow/core/protobuf/saver.pb.h"
#include "training/meta_graph_codec.h"
#include "training/proto_file.h"

namespace millrace {
namespace {

Status Ambiguous(const char* key, const char* part) {
  return errors::FailedPrecondition("More than one item in the collection \"", key,
                                    "\". Please indicate which one to use by passing it to the tf.Scaffold "
                                    "constructor as:  tf.Scaffold(",
                                    part, "=item to use)");
}

// The one element of a collection, or the result of `make`, which is added to it.
template <typename T>
Status GetOrMake(const Scope& scope, const char* key, const char* part, T* value,
                 const std::vector<T>& collected, const std::function<T()>& make) {
  if (value->IsSet()) return Status();
  if (collected.size() > 1) return Ambiguous(key, part);
  if (!collected.empty()) {
    *value = collected.front();
    return Status();
  }
  *value = make();
  if (scope.ok() && value->IsSet()) AddToCollection(scope, key, *value);
  return scope.status();
}

Status GetOrMake(const Scope& scope, const char* key, const char* part, Operation* value,
                 const std::function<Operation()>& make) {
  return GetOrMake<Operation>(scope, key, part, value, CollectedOperations(scope, key), make);
}

Status GetOrMake(const Scope& scope, const char* key, const char* part, Output* value,
                 const std::function<Output()>& make) {
  return GetOrMake<Output>(scope, key, part, value, CollectedTensors(scope, key), make);
}

Operation Group(const Scope& scope, std::vector<Operation> operations) {
  return ops::NoOp(scope.WithOpName("group_deps").WithControlDependencies(operations));
}

// The saver in the graph, or one for all variables, whose definition is added to the collection.
StatusOr<std::shared_ptr<Saver>> FindOrMakeSaver(const Scope& scope) {
  constexpr const char* kSavers = "savers";
  CollectionDef& collection = Collections(scope)[kSavers];
  if (std::holds_alternative<std::monostate>(collection)) collection = BytesList();
  auto* const bytes = std::get_if<BytesList>(&collection);
  if (bytes == nullptr) return errors::InvalidArgument("collection 'savers' is not a list of messages");
  if (bytes->value.size() > 1) return Ambiguous(kSavers, "saver");
  tensorflow::SaverDef proto;
  if (!bytes->value.empty()) {
    MR_RETURN_IF_ERROR(ParseBinaryProto(bytes->value[0], &proto));
    return std::make_shared<Saver>(Saver::FromDef(scope, SaverDefFromProto(proto)));
  }
  auto saver = std::make_shared<Saver>(scope, Saver::Options{.sharded = true, .allow_empty = true});
  MR_RETURN_IF_ERROR(scope.status());
  if (!saver->empty()) {
    SaverDefToProto(saver->def(), &proto);
    bytes->value.push_back(proto.SerializeAsString());
  }
  return saver;
}

}  // namespace

Status Scaffold::FindOrMake() {
  const Scope scope = scope_.AtRoot().OutsideControlFlow();
  Options& p = parts_;
  MR_RETURN_IF_ERROR(GetOrMake(scope, "init_op", "init_op", &p.init_op, [&] {
    std::vector<Operation> all = CollectedOperations(scope, kSavedIteratorInitializers);
    all.push_back(GlobalVariablesInitializer(scope));
    return Group(scope, all);
  }));
  MR_RETURN_IF_ERROR(GetOrMake(scope, "ready_op", "ready_op", &p.ready_op,
                               [&] { return ReportUninitializedVariables(scope); }));
  MR_RETURN_IF_ERROR(
      GetOrMake(scope, "ready_for_local_init_op", "ready_for_local_init_op", &p.ready_for_local_init_op, [&] {
        const auto global = GlobalVariables(scope);
        if (!global.empty()) return ReportUninitializedVariables(scope, global);
        return ops::Const(scope, Tensor(DataType::kString, TensorShape({0})));
      }));
  MR_RETURN_IF_ERROR(GetOrMake(scope, "local_init_op", "local_init_op", &p.local_init_op, [&] {
    const Operation locals = LocalVariablesInitializer(scope);
    const Operation tables =
        ops::NoOp(scope.WithOpName("init_all_tables")
                      .WithControlDependencies(CollectedOperations(scope, "table_initializer")));
    return Group(scope, {locals, tables});
  }));
  MR_RETURN_IF_ERROR(
      GetOrMake(scope, "summary_op", "summary_op", &p.summary_op, [&] { return summary::MergeAll(scope); }));
  if (p.saver == nullptr) {
    MR_ASSIGN_OR_RETURN(p.saver, FindOrMakeSaver(scope));
  }
  return scope.status();
}

Status Scaffold::Finalize() {
  MR_RETURN_IF_ERROR(scope_.status());
  if (finalized_) return Status();
  MR_RETURN_IF_ERROR(FindOrMake());
  finalized_ = true;
  scope_.state().finalized = true;
  return Status();
}

StatusOr<std::unique_ptr<ClientSession>> ChiefSessionCreator::CreateSession() {
  if (scaffold_ == nullptr) return errors::InvalidArgument("The creator of sessions has no scaffold");
  MR_RETURN_IF_ERROR(scaffold_->Finalize());
  const Scaffold::Options& parts = scaffold_->parts();
  const SessionManager manager(scaffold_->scope(), {.local_init_op = parts.local_init_op,
                                                    .ready_op = parts.ready_op,
                                                    .ready_for_local_init_op = parts.ready_for_local_init_op,
                                                    .recovery_wait_secs = options_.recovery_wait_secs});
  return manager.PrepareSession(
      {.session = options_.session,
       .saver = scaffold_->saver(),
       .checkpoint_dir = options_.checkpoint_dir,
       .checkpoint_path = options_.checkpoint_path},
      {.init_op = parts.init_op, .init_feeds = parts.init_feeds, .init_fn = parts.init_fn});
}

StatusOr<std::unique_ptr<ClientSession>> WorkerSessionCreator::CreateSession() {
  if (scaffold_ == nullptr) return errors::InvalidArgument("The creator of sessions has no scaffold");
  MR_RETURN_IF_ERROR(scaffold_->Finalize());
  const Scaffold::Options& parts = scaffold_->parts();
  const SessionManager manager(scaffold_->scope(), {.local_init_op = parts.local_init_op,
                                                    .ready_op = parts.ready_op,
                                                    .ready_for_local_init_op = parts.ready_for_local_init_op,
                                                    .recovery_wait_secs = options_.recovery_wait_secs});
  return manager.WaitForSession(options_.session, options_.max_wait_secs);
}

}  // namespace millrace
