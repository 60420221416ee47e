// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// SqlDataset: the rows of a query.
#include <memory>
#include <string>

#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"
#include "kernels/data/sqlite_query.h"

namespace millrace::data {
namespace {

class SqlDataset final : public Dataset {
 public:
  SqlDataset(std::string kind, Signature signature, std::string path, std::string query)
      : Dataset(std::move(kind), std::move(signature)), path_(std::move(path)), query_(std::move(query)) {}

 protected:
  class It final : public Iterator {
   public:
    explicit It(const SqlDataset& dataset) : dataset_(dataset) {}
    bool MayWait(int64_t /*n*/) const override { return false; }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      *end = ended_;
      if (ended_) return Status();
      if (query_ == nullptr) {
        MR_ASSIGN_OR_RETURN(query_, SqliteQuery::Open(dataset_.path_, dataset_.query_, dataset_.types()));
      }
      MR_ASSIGN_OR_RETURN(const bool more, query_->Next(ctx, out));
      if (more) {
        ++read_;
        return Status();
      }
      *end = ended_ = true;
      query_.reset();
      return Status();
    }
    Status Save(Context& /*ctx*/, StateWriter& state) override {
      state.Write("read", read_);
      state.Write("ended", int64_t{ended_});
      return Status();
    }
    // The earlier rows are read again: rows can't be addressed by index.
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(const int64_t read, state.Count("read"));
      MR_ASSIGN_OR_RETURN(const int64_t ended, state.Count("ended", 1));
      query_.reset();
      ended_ = false;
      Element row;
      for (read_ = 0; read_ < read && ended == 0;) {
        bool end = false;
        MR_RETURN_IF_ERROR(GetNext(ctx, &row, &end));
        if (end) return errors::DataLoss("The saved state of the iterator is of another database");
      }
      read_ = read;
      ended_ = ended != 0;
      return Status();
    }

   private:
    const SqlDataset& dataset_;
    std::unique_ptr<SqliteQuery> query_;
    int64_t read_ = 0;
    bool ended_ = false;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& /*ctx*/) const override {
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this));
  }

 private:
  const std::string path_, query_;
};

StatusOr<RefPtr<const Dataset>> MakeSql(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(const std::string driver, args.Scalar<std::string>("driver_name"));
  MR_ASSIGN_OR_RETURN(std::string path, args.Scalar<std::string>("data_source_name"));
  MR_ASSIGN_OR_RETURN(std::string query, args.Scalar<std::string>("query"));
  for (const DataType type : signature.types) {
    if (SqliteQuery::IsSupported(type)) continue;
    return errors::InvalidArgument(
        "Each element of `output_types_` must be one of: DT_STRING, DT_INT8, DT_INT16, DT_INT32, DT_INT64, "
        "DT_UINT8, DT_UINT16, DT_BOOL, DT_DOUBLE ");
  }
  for (const PartialShape& shape : signature.shapes) {
    if (shape.unknown_rank() || shape.rank() != 0)
      return errors::InvalidArgument("Each element of `output_shapes_` must be a scalar.");
  }
  if (driver != "sqlite") {
    return errors::InvalidArgument("The database type, ", driver,
                                   ", is not supported by SqlDataset. The set of supported databases is: "
                                   "{'sqlite'}.");
  }
  return MakeRefDataset<SqlDataset>(args.Kind(), std::move(signature), std::move(path), std::move(query));
}

}  // namespace

void RegisterSqlDatasets(KernelRegistry& registry) { RegisterDataset(registry, "SqlDataset", MakeSql); }

}  // namespace millrace::data
