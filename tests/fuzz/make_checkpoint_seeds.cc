// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// make_checkpoint_seeds DIR writes small checkpoints in all forms that FuzzCheckpoint accepts to
// DIR/checkpoint.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "base/env.h"
#include "io/checkpoint/bundle.h"
#include "io/checkpoint/checkpoint_state.h"
#include "io/checkpoint/slices.h"
#include "io/checkpoint/table.h"
#include "tensor/variant.h"

namespace millrace {
namespace {

void Write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// An input of FuzzCheckpoint.
std::string CheckpointInput(char mode, const std::string& table, const std::string& data) {
  return std::string{mode, static_cast<char>(table.size() >> 8), static_cast<char>(table.size())} + table +
         data;
}

// The entries of a table in the form that FuzzCheckpoint accepts.
StatusOr<std::string> EntriesOf(Env& env, const std::string& path) {
  MR_ASSIGN_OR_RETURN(const auto table, io::TableReader::Open(env, path));
  MR_RETURN_IF_ERROR(table->Start());
  std::string text;
  while (true) {
    MR_ASSIGN_OR_RETURN(const bool there, table->Next());
    if (!there) return text;
    text += static_cast<char>(table->key().size());
    text += table->key();
    text += static_cast<char>(table->value().size() >> 8);
    text += static_cast<char>(table->value().size());
    text += table->value();
  }
}

Status WriteCheckpointSeeds(const std::filesystem::path& dir) {
  MemEnv env;
  MR_ASSIGN_OR_RETURN(const auto bundle, io::BundleWriter::Open(env, "/p"));
  io::SlicesWriter slices(env, "/v1");
  const Tensor row = Tensor::From<float>({1, 2}, {1, 2}), text = Tensor::Vector<std::string>({"a", "", "bc"});
  const Tensor variant = Tensor::Scalar<Variant>(VariantData("kind", "meta", {row}));
  for (const char* slice : {"0,1:-", "1,1:-"}) {
    MR_ASSIGN_OR_RETURN(const TensorSlice part, TensorSlice::Parse(slice));
    MR_RETURN_IF_ERROR(bundle->AddSlice("w", TensorShape({2, 2}), part, row));
    MR_RETURN_IF_ERROR(slices.Add("w", TensorShape({2, 2}), part, row));
  }
  MR_RETURN_IF_ERROR(bundle->Add("text", text));
  MR_RETURN_IF_ERROR(bundle->Add("variant", variant));
  MR_RETURN_IF_ERROR(bundle->Add("whole", Tensor::From<double>({1, 2, 3, 4}, {2, 2})));
  MR_RETURN_IF_ERROR(slices.Add("text", TensorShape({3}), TensorSlice::Full(1), text));
  MR_RETURN_IF_ERROR(bundle->Finish());
  MR_RETURN_IF_ERROR(slices.Finish());
  MR_ASSIGN_OR_RETURN(const std::string index, ReadFileToString(env, "/p.index"));
  MR_ASSIGN_OR_RETURN(const std::string data, ReadFileToString(env, "/p.data-00000-of-00001"));
  MR_ASSIGN_OR_RETURN(const std::string old, ReadFileToString(env, "/v1"));
  MR_ASSIGN_OR_RETURN(const std::string entries, EntriesOf(env, "/p.index"));
  // The first block ends before its kind and checksum and the empty block; the index ends alike.
  const std::string nothing("\0\0\0\0\1\0\0\0\0", 9);
  const std::string block = index.substr(0, index.rfind(nothing, index.rfind(nothing) - 1) - 5);
  Write(dir / "bundle", CheckpointInput(0, index, data));
  Write(dir / "bundle_block", CheckpointInput(1, block, data));
  Write(dir / "bundle_packed", CheckpointInput(2, std::string("\x08\x1c", 2) + block.substr(0, 8), data));
  Write(dir / "bundle_entries", CheckpointInput(3, entries, data));
  Write(dir / "slices", CheckpointInput(4, old, ""));
  Write(dir / "slices_block", CheckpointInput(5, old.substr(0, old.size() / 2), ""));
  Write(dir / "state", "\x07" + io::CheckpointStateText({"p-2", {"p-1", "p-2"}, {1, 2}, 3}));
  return Status::Ok();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_checkpoint_seeds DIR\n";
    return 2;
  }
  const std::filesystem::path dir = std::filesystem::path(argv[1]) / "checkpoint";
  std::filesystem::create_directories(dir);
  const millrace::Status status = millrace::WriteCheckpointSeeds(dir);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
