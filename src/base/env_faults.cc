// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/env.h"

namespace millrace {

StatusOr<std::unique_ptr<WritableFile>> EnvWrapper::NewWritableFile(const std::string& path) {
  return base_.NewWritableFile(path);
}
StatusOr<std::unique_ptr<WritableFile>> EnvWrapper::NewAppendableFile(const std::string& path) {
  return base_.NewAppendableFile(path);
}
StatusOr<std::unique_ptr<RandomAccessFile>> EnvWrapper::NewRandomAccessFile(const std::string& path) {
  return base_.NewRandomAccessFile(path);
}
StatusOr<std::unique_ptr<ReadOnlyMemoryRegion>> EnvWrapper::NewReadOnlyMemoryRegion(const std::string& path) {
  return base_.NewReadOnlyMemoryRegion(path);
}
StatusOr<FileStat> EnvWrapper::Stat(const std::string& path) { return base_.Stat(path); }
StatusOr<std::vector<std::string>> EnvWrapper::GetChildren(const std::string& dir) {
  return base_.GetChildren(dir);
}
Status EnvWrapper::DeleteFile(const std::string& path) { return base_.DeleteFile(path); }
Status EnvWrapper::CreateDir(const std::string& dir) { return base_.CreateDir(dir); }
Status EnvWrapper::DeleteDir(const std::string& dir) { return base_.DeleteDir(dir); }
Status EnvWrapper::RenameFile(const std::string& from, const std::string& to) {
  return base_.RenameFile(from, to);
}

namespace {

class FaultyWritableFile : public WritableFile {
 public:
  FaultyWritableFile(std::string path, std::unique_ptr<WritableFile> base, FaultyEnv::Fault fault)
      : path_(std::move(path)), base_(std::move(base)), fault_(std::move(fault)) {}
  Status Append(std::string_view data) override {
    if (Status status = fault_("append", path_); !status.ok()) {
      // A disk that fills up stores the beginning.
      base_->Append(data.substr(0, data.size() / 2)).IgnoreError("the fault is the error to report");
      return status;
    }
    return base_->Append(data);
  }
  Status Flush() override {
    MR_RETURN_IF_ERROR(fault_("flush", path_));
    return base_->Flush();
  }
  Status Sync() override {
    MR_RETURN_IF_ERROR(fault_("sync", path_));
    return base_->Sync();
  }
  Status Close() override {
    Status status = fault_("close", path_);
    status.Update(base_->Close());  // the descriptor is closed in any case
    return status;
  }

 private:
  const std::string path_;
  const std::unique_ptr<WritableFile> base_;
  const FaultyEnv::Fault fault_;
};

class FaultyRandomAccessFile : public RandomAccessFile {
 public:
  FaultyRandomAccessFile(std::string path, std::unique_ptr<RandomAccessFile> base, FaultyEnv::Fault fault)
      : path_(std::move(path)), base_(std::move(base)), fault_(std::move(fault)) {}
  Status Read(uint64_t offset, size_t n, std::string* out) const override {
    MR_RETURN_IF_ERROR(fault_("read", path_));
    return base_->Read(offset, n, out);
  }
  StatusOr<size_t> ReadInto(uint64_t offset, size_t n, char* to) const override {
    MR_RETURN_IF_ERROR(fault_("read", path_));
    return base_->ReadInto(offset, n, to);
  }

 private:
  const std::string path_;
  const std::unique_ptr<RandomAccessFile> base_;
  const FaultyEnv::Fault fault_;
};

}  // namespace

StatusOr<std::unique_ptr<WritableFile>> FaultyEnv::NewWritableFile(const std::string& path) {
  MR_RETURN_IF_ERROR(fault_("open", path));
  MR_ASSIGN_OR_RETURN(auto file, base_.NewWritableFile(path));
  return std::unique_ptr<WritableFile>(std::make_unique<FaultyWritableFile>(path, std::move(file), fault_));
}

StatusOr<std::unique_ptr<WritableFile>> FaultyEnv::NewAppendableFile(const std::string& path) {
  MR_RETURN_IF_ERROR(fault_("open", path));
  MR_ASSIGN_OR_RETURN(auto file, base_.NewAppendableFile(path));
  return std::unique_ptr<WritableFile>(std::make_unique<FaultyWritableFile>(path, std::move(file), fault_));
}

StatusOr<std::unique_ptr<RandomAccessFile>> FaultyEnv::NewRandomAccessFile(const std::string& path) {
  MR_RETURN_IF_ERROR(fault_("open", path));
  MR_ASSIGN_OR_RETURN(auto file, base_.NewRandomAccessFile(path));
  return std::unique_ptr<RandomAccessFile>(
      std::make_unique<FaultyRandomAccessFile>(path, std::move(file), fault_));
}

StatusOr<std::unique_ptr<ReadOnlyMemoryRegion>> FaultyEnv::NewReadOnlyMemoryRegion(const std::string& path) {
  MR_RETURN_IF_ERROR(fault_("open", path));
  return base_.NewReadOnlyMemoryRegion(path);
}

Status FaultyEnv::DeleteFile(const std::string& path) {
  MR_RETURN_IF_ERROR(fault_("delete", path));
  return base_.DeleteFile(path);
}

Status FaultyEnv::RenameFile(const std::string& from, const std::string& to) {
  MR_RETURN_IF_ERROR(fault_("rename", from));
  return base_.RenameFile(from, to);
}

}  // namespace millrace
