// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <utility>

#include "base/logging.h"
#include "io/event_file.h"
#include "io/npy.h"
#include "io/record_file.h"
#include "io/record_index.h"
#include "io/zip_archive.h"
#include "tensorflow/core/util/event.pb.h"
#include "tests/fuzz/fuzz_targets.h"

namespace millrace {
namespace {

constexpr int kMostRecords = 1000;
constexpr uint64_t kDeflateExpands = 1032;

std::string_view Take(std::string_view* in, size_t n) {
  const std::string_view taken = in->substr(0, n);
  in->remove_prefix(taken.size());
  return taken;
}
size_t TakeNumber(std::string_view* in, size_t bytes) {
  size_t value = 0;
  for (const char c : Take(in, bytes)) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

void CheckSize(uint64_t bytes, uint64_t most) {
  if (bytes <= most) return;
  MR_LOG(Error) << "fuzzing: " << bytes << " bytes came out where " << most << " are the most";
  std::abort();
}

// Records with correct checksums: each the length in two bytes, and that many bytes.
Status WriteRecords(Env& env, std::string_view bytes, io::Compression compression) {
  MR_ASSIGN_OR_RETURN(const auto file, env.NewWritableFile("/r"));
  io::RecordWriter writer(*file, compression);
  while (!bytes.empty()) MR_RETURN_IF_ERROR(writer.Write(Take(&bytes, TakeNumber(&bytes, 2))));
  MR_RETURN_IF_ERROR(writer.Close());
  return file->Close();
}

Status ReadRecords(Env& env, io::Compression compression, uint64_t most) {
  MR_ASSIGN_OR_RETURN(const auto reader, io::RecordReader::Open(env, "/r", compression));
  std::string record;
  for (int i = 0; i < kMostRecords; ++i) {
    const uint64_t at = reader->offset();
    if (i % 3 == 2) {
      MR_RETURN_IF_ERROR(reader->Skip().status());
    } else {
      MR_RETURN_IF_ERROR(reader->Read(&record));
      CheckSize(record.size(), most);
    }
    if (reader->offset() < at + 16) std::abort();
  }
  return Status();
}

Status ReadEvents(Env& env) {
  MR_ASSIGN_OR_RETURN(const auto reader, io::EventReader::Open(env, "/r"));
  tensorflow::Event event;
  for (int i = 0; i < kMostRecords; ++i) MR_RETURN_IF_ERROR(reader->Read(&event));
  return Status();
}

// The index finds the same records as reading from the start.
Status ReadByIndex(Env& env, io::Compression compression) {
  MR_ASSIGN_OR_RETURN(io::RecordIndex index, io::RecordIndex::Build(env, "/r", compression));
  MR_ASSIGN_OR_RETURN(const io::RecordIndex again, io::RecordIndex::Parse(index.Bytes(), "index"));
  if (again.size() != index.size() || again.data_bytes() != index.data_bytes()) std::abort();
  if (index.size() == 0) return Status();
  const uint64_t last = index.size() - 1;
  const uint64_t length = index.length(last);
  MR_ASSIGN_OR_RETURN(const auto reader, io::IndexedRecordReader::Open(env, "/r", std::move(index)));
  std::string record;
  MR_RETURN_IF_ERROR(reader->Read(last, &record));
  if (record.size() != length) std::abort();
  return reader->Read(0, &record);
}

constexpr const char* kAny = "any status will do";

}  // namespace

void FuzzRecords(std::string_view bytes) {
  PrepareFuzzing();
  const size_t form = TakeNumber(&bytes, 1) % 7;
  if (form == 6) {
    io::RecordIndex::Parse(bytes, "index").status().IgnoreError(kAny);
    return;
  }
  const auto compression = static_cast<io::Compression>(form % 3);
  MemEnv env;
  const Status written =
      form < 3 ? WriteFileAtomically(env, "/r", bytes) : WriteRecords(env, bytes, compression);
  if (!written.ok()) std::abort();
  const uint64_t most = bytes.size() * (compression == io::Compression::kNone ? 1 : kDeflateExpands);
  ReadRecords(env, compression, most).IgnoreError(kAny);
  ReadByIndex(env, compression).IgnoreError(kAny);
  if (compression == io::Compression::kNone) ReadEvents(env).IgnoreError(kAny);
}

void FuzzNumpy(std::string_view bytes) {
  PrepareFuzzing();
  const size_t form = TakeNumber(&bytes, 1) % 3;
  if (form == 0) {
    const auto tensor = io::ParseNpy(bytes, "array");
    if (!tensor.ok()) return;
    CheckSize(tensor->num_bytes(), 40 * bytes.size() + 1024);
    const auto again = io::NpyBytes(*tensor);
    if (again.ok() && !io::ParseNpy(*again, "again").ok()) std::abort();
    return;
  }
  std::string archive(bytes);
  if (form == 2) {  // one array with correct checksums
    io::ZipWriter zip;
    zip.Add("a.npy", bytes).IgnoreError(kAny);
    archive = std::move(zip).Finish();
  }
  const auto arrays = io::ParseNpz(archive, "archive");
  if (!arrays.ok()) return;
  uint64_t total = 0;
  for (const auto& [name, tensor] : *arrays) total += tensor.num_bytes();
  CheckSize(total, 40 * kDeflateExpands * archive.size());
}

}  // namespace millrace
