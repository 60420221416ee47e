// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/memmapped_package.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <tuple>

#include "base/mutex.h"
#include "base/temporary_file.h"
#include "tensor/allocator.h"
#include "tensor/buffer.h"
#include "tensor/dtype_table.h"
#include "tensorflow/core/util/memmapped_file_system.pb.h"

namespace millrace::io {
namespace {

constexpr uint64_t kTrailer = sizeof(uint64_t);  // the directory's offset, little-endian

std::string LittleEndian(uint64_t value) {
  std::string bytes;
  for (uint64_t i = 0; i < kTrailer; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return bytes;
}

uint64_t FromLittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (uint64_t i = 0; i < kTrailer; ++i) value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

class Part : public ReadOnlyMemoryRegion {
 public:
  Part(std::shared_ptr<const ReadOnlyMemoryRegion> file, std::string_view bytes)
      : file_(std::move(file)), bytes_(bytes) {}
  const char* data() const override { return bytes_.data(); }
  uint64_t length() const override { return bytes_.size(); }

 private:
  const std::shared_ptr<const ReadOnlyMemoryRegion> file_;
  const std::string_view bytes_;
};

class PartFile : public RandomAccessFile {
 public:
  PartFile(std::string name, std::shared_ptr<const ReadOnlyMemoryRegion> file, std::string_view bytes)
      : name_(std::move(name)), file_(std::move(file)), bytes_(bytes) {}
  Status Read(uint64_t offset, size_t n, std::string* out) const override {
    const std::string_view found = From(offset, n);
    out->assign(found);
    return found.size() == n ? Status() : errors::OutOfRange(name_, "; ends before ", n, " bytes");
  }
  StatusOr<size_t> ReadInto(uint64_t offset, size_t n, char* to) const override {
    const std::string_view found = From(offset, n);
    std::copy(found.begin(), found.end(), to);
    return found.size();
  }

 private:
  std::string_view From(uint64_t offset, size_t n) const {
    return offset >= bytes_.size() ? std::string_view() : bytes_.substr(static_cast<size_t>(offset), n);
  }

  const std::string name_;
  const std::shared_ptr<const ReadOnlyMemoryRegion> file_;
  const std::string_view bytes_;
};

// Memory that a file is mapped to, with its owner.
struct MappedMemory {
  std::string_view bytes;
  std::shared_ptr<const void> keeper;
};

// A file, or the region of a package that the name refers to.
StatusOr<MappedMemory> MapMemory(Env& env, const std::string& name) {
  std::unique_ptr<ReadOnlyMemoryRegion> mapped;
  std::shared_ptr<MemmappedEnv> package;
  if (const auto parts = SplitQualifiedName(name)) {
    MR_ASSIGN_OR_RETURN(package, MemmappedEnv::OpenShared(env, parts->first));
    MR_ASSIGN_OR_RETURN(mapped, package->NewReadOnlyMemoryRegion(parts->second));
  } else if (IsMemmappedName(name)) {
    return errors::NotFound("Region ", name, " is not found; LoadMemmappedGraph sets its package");
  } else {
    MR_ASSIGN_OR_RETURN(mapped, env.NewReadOnlyMemoryRegion(name));
  }
  const std::string_view bytes = mapped->bytes();
  using Both = std::pair<std::unique_ptr<ReadOnlyMemoryRegion>, std::shared_ptr<MemmappedEnv>>;
  return MappedMemory{bytes, std::make_shared<Both>(std::move(mapped), std::move(package))};
}

}  // namespace

bool IsMemmappedName(std::string_view name) {
  constexpr std::string_view kPrefix = kMemmappedPrefix;
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return false;
  return std::all_of(name.begin() + kPrefix.size(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

std::string QualifiedName(const std::string& package, const std::string& name) {
  return StrCat(package, "#", name);
}

std::optional<std::pair<std::string, std::string>> SplitQualifiedName(const std::string& name) {
  const size_t at = name.rfind(StrCat("#", kMemmappedPrefix));
  if (at == std::string::npos || at == 0) return std::nullopt;
  return std::pair(name.substr(0, at), name.substr(at + 1));
}

MemmappedPackageWriter::MemmappedPackageWriter(Env& env, std::string path, std::string temporary,
                                               std::unique_ptr<WritableFile> file)
    : env_(env),
      path_(std::move(path)),
      temporary_(std::move(temporary)),
      file_(std::move(file)),
      directory_(std::make_unique<tensorflow::MemmappedFileSystemDirectory>()) {}

StatusOr<std::unique_ptr<MemmappedPackageWriter>> MemmappedPackageWriter::Open(Env& env,
                                                                               const std::string& path) {
  std::string temporary = TemporaryName(path);
  MR_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, env.NewWritableFile(temporary));
  return std::unique_ptr<MemmappedPackageWriter>(
      new MemmappedPackageWriter(env, path, std::move(temporary), std::move(file)));
}

MemmappedPackageWriter::~MemmappedPackageWriter() {
  if (finished_) return;
  file_->Close().IgnoreError("the file is of no use");
  env_.DeleteFile(temporary_).IgnoreError("a destructor cannot return errors");
}

Status MemmappedPackageWriter::Append(std::string_view bytes) {
  MR_RETURN_IF_ERROR(file_->Append(bytes));
  offset_ += bytes.size();
  return Status();
}

Status MemmappedPackageWriter::Add(const std::string& name, std::string_view bytes, uint64_t alignment) {
  if (!IsMemmappedName(name)) {
    return errors::InvalidArgument(
        "MemmappedEnvWritter: element_name is invalid: must have memmapped package prefix ", kMemmappedPrefix,
        " and include [A-Za-z0-9_.]: ", name);
  }
  for (const auto& element : directory_->element()) {
    if (element.name() == name) return errors::InvalidArgument("The package has '", name, "' already");
  }
  MR_RETURN_IF_ERROR(Append(std::string((alignment - offset_ % alignment) % alignment, '\0')));
  auto* element = directory_->add_element();
  element->set_offset(offset_);
  element->set_name(name);
  element->set_length(bytes.size());
  return Append(bytes);
}

Status MemmappedPackageWriter::AddTensor(const std::string& name, const Tensor& tensor) {
  if (OwnsMemory(tensor.dtype()) || !tensor.IsInitialized()) {
    return errors::InvalidArgument("Tensors of type ", DataTypeName(tensor.dtype()),
                                   " cannot be mapped: ", name);
  }
  return Add(name, {static_cast<const char*>(tensor.raw_data()), tensor.num_bytes()}, Allocator::kAlignment);
}

Status MemmappedPackageWriter::AddMessage(const std::string& name,
                                          const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream sink(&bytes);
    google::protobuf::io::CodedOutputStream stream(&sink);
    stream.SetSerializationDeterministic(true);
    if (!message.SerializeToCodedStream(&stream)) {
      return errors::InvalidArgument("The message '", name, "' cannot be serialised");
    }
  }
  return Add(name, bytes, 1);
}

Status MemmappedPackageWriter::Finish() {
  if (finished_) return errors::FailedPrecondition("The package ", path_, " is finished already");
  const std::string offset = LittleEndian(offset_);
  MR_RETURN_IF_ERROR(Append(directory_->SerializeAsString()));
  MR_RETURN_IF_ERROR(Append(offset));
  MR_RETURN_IF_ERROR(file_->Sync());
  MR_RETURN_IF_ERROR(file_->Close());
  MR_RETURN_IF_ERROR(env_.RenameFile(temporary_, path_));
  finished_ = true;
  DeleteStaleTemporaries(env_, path_);
  return Status();
}

StatusOr<std::unique_ptr<MemmappedEnv>> MemmappedEnv::Open(Env& base, const std::string& path) {
  const auto corrupted = [&](std::string_view what) {
    return errors::DataLoss("Corrupted memmapped model file: ", path, " ", what);
  };
  MR_ASSIGN_OR_RETURN(std::unique_ptr<ReadOnlyMemoryRegion> mapped, base.NewReadOnlyMemoryRegion(path));
  const std::string_view bytes = mapped->bytes();
  if (bytes.size() < kTrailer) return corrupted("Invalid package size");
  const uint64_t end = bytes.size() - kTrailer;
  const uint64_t directory_offset = FromLittleEndian(bytes.substr(static_cast<size_t>(end)));
  if (directory_offset > end) return corrupted("Invalid directory offset");
  const std::string_view encoded =
      bytes.substr(static_cast<size_t>(directory_offset), static_cast<size_t>(end - directory_offset));
  tensorflow::MemmappedFileSystemDirectory directory;
  if (encoded.size() > INT32_MAX ||
      !directory.ParseFromArray(encoded.data(), static_cast<int>(encoded.size()))) {
    return corrupted("Can't parse its internal directory");
  }
  // Elements are in the order of their offsets; where one has no length, it ends where the next begins.
  std::map<std::string, Range> ranges;
  uint64_t next = directory_offset;
  for (int i = directory.element_size() - 1; i >= 0; --i) {
    const auto& element = directory.element(i);
    if (element.offset() > next) return corrupted("Invalid offset of internal component");
    const uint64_t room = next - element.offset();
    if (element.length() > room) return corrupted("Invalid length of internal component");
    const Range range{element.offset(), element.length() > 0 ? element.length() : room};
    if (!ranges.emplace(element.name(), range).second) {
      return corrupted("Duplicate name of internal component " + element.name());
    }
    next = element.offset();
  }
  return std::unique_ptr<MemmappedEnv>(new MemmappedEnv(base, std::move(mapped), std::move(ranges)));
}

StatusOr<std::shared_ptr<MemmappedEnv>> MemmappedEnv::OpenShared(Env& base, const std::string& path) {
  using Key = std::tuple<Env*, std::string, uint64_t, int64_t>;  // a changed file is another one
  struct Open {
    Mutex mu;
    std::map<Key, std::weak_ptr<MemmappedEnv>> envs MR_GUARDED_BY(mu);
  };
  static Open& open = *new Open;
  MR_ASSIGN_OR_RETURN(const FileStat stat, base.Stat(path));
  const Key key(&base, path, stat.length, stat.mtime_ns);
  MutexLock lock(open.mu);
  if (const auto it = open.envs.find(key); it != open.envs.end()) {
    if (auto env = it->second.lock()) return env;
  }
  std::erase_if(open.envs, [](const auto& entry) { return entry.second.expired(); });
  MR_ASSIGN_OR_RETURN(std::shared_ptr<MemmappedEnv> env, MemmappedEnv::Open(base, path));
  open.envs[key] = env;
  return env;
}

StatusOr<std::string_view> MemmappedEnv::Find(const std::string& name) const {
  const auto it = ranges_.find(name);
  if (it == ranges_.end()) return errors::NotFound("Region ", name, " is not found");
  return file_->bytes().substr(static_cast<size_t>(it->second.offset),
                               static_cast<size_t>(it->second.length));
}

StatusOr<std::unique_ptr<ReadOnlyMemoryRegion>> MemmappedEnv::NewReadOnlyMemoryRegion(
    const std::string& path) {
  if (!path.starts_with(kMemmappedPrefix)) return base_.NewReadOnlyMemoryRegion(path);
  MR_ASSIGN_OR_RETURN(const std::string_view bytes, Find(path));
  return std::unique_ptr<ReadOnlyMemoryRegion>(std::make_unique<Part>(file_, bytes));
}

StatusOr<std::unique_ptr<RandomAccessFile>> MemmappedEnv::NewRandomAccessFile(const std::string& path) {
  if (!path.starts_with(kMemmappedPrefix)) return base_.NewRandomAccessFile(path);
  MR_ASSIGN_OR_RETURN(const std::string_view bytes, Find(path));
  return std::unique_ptr<RandomAccessFile>(std::make_unique<PartFile>(path, file_, bytes));
}

StatusOr<FileStat> MemmappedEnv::Stat(const std::string& path) {
  if (!path.starts_with(kMemmappedPrefix)) return base_.Stat(path);
  MR_ASSIGN_OR_RETURN(const std::string_view bytes, Find(path));
  return FileStat{.length = bytes.size()};
}

StatusOr<Tensor> MapTensor(Env& env, const std::string& name, DataType dtype, const TensorShape& shape) {
  if (OwnsMemory(dtype) || DataTypeSize(dtype) <= 0) {
    return errors::Unimplemented("Sorry, ", DataTypeName(dtype),
                                 " is not currently supported by ImmutableConst");
  }
  MR_ASSIGN_OR_RETURN(const MappedMemory memory, MapMemory(env, name));
  const auto size = static_cast<int64_t>(DataTypeSize(dtype));
  if (shape.num_elements() > static_cast<int64_t>(memory.bytes.size()) / size) {
    return errors::InvalidArgument("Region ", name, " has ", memory.bytes.size(), " bytes, too few for ",
                                   shape, " elements of type ", DataTypeName(dtype));
  }
  const auto bytes = static_cast<size_t>(shape.num_elements() * size);
  // Elements must lie where the processor can read them, and a bool must be 0 or 1.
  constexpr uintptr_t kLargestAlignment = 16;
  if (dtype == DataType::kBool || reinterpret_cast<uintptr_t>(memory.bytes.data()) % kLargestAlignment != 0) {
    MR_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(dtype, shape));
    auto* to = static_cast<char*>(copy.raw_data());
    std::copy_n(memory.bytes.data(), bytes, to);
    for (size_t i = 0; dtype == DataType::kBool && i < bytes; ++i) to[i] = to[i] != 0 ? 1 : 0;
    return copy;
  }
  if (bytes == 0) return Tensor::Allocate(dtype, shape);
  // Memory of which the caller keeps a share is not written.
  void* const data = const_cast<char*>(memory.bytes.data());
  return Tensor::FromBuffer(dtype, shape, Buffer::Wrap(data, bytes, [kept = memory.keeper] {}), data);
}

std::vector<std::string> MemmappedEnv::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, range] : ranges_) names.push_back(name);
  return names;
}

}  // namespace millrace::io
