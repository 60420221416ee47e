// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/env.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

// NumPy's files. ".npy" is one array: "\x93NUMPY", a version, a Python dictionary with type, order and shape,
// and the elements. ".npz" is a zip archive of such files.
//
// Types: bool, integers, float16 to float64, complex64 and complex128, in either byte order; "S" is a string
// whose trailing zeros are left out, "U" a string in UTF-8. Arrays in Fortran's order are brought into C's.
// Objects, dates and records are refused.
namespace millrace::io {

// `what` names the bytes in errors: InvalidArgument for unsupported contents, DataLoss for corrupt ones.
StatusOr<Tensor> ParseNpy(std::string_view bytes, const std::string& what);
// bfloat16, quantised types and handles are not supported: InvalidArgument. Strings become "S", with the
// length of the longest; Unimplemented when one ends in a zero byte, which NumPy would drop.
StatusOr<std::string> NpyBytes(const Tensor& tensor);

StatusOr<Tensor> ReadNpyFile(Env& env, const std::string& path);
Status WriteNpyFile(Env& env, const std::string& path, const Tensor& tensor);

// The arrays of an archive by name, without ".npy". Members are stored or deflated; checksums are checked.
StatusOr<std::map<std::string, Tensor>> ParseNpz(std::string_view bytes, const std::string& what);
// An archive whose members are stored, as numpy.savez makes it.
StatusOr<std::string> NpzBytes(const std::map<std::string, Tensor>& arrays);

StatusOr<std::map<std::string, Tensor>> ReadNpzFile(Env& env, const std::string& path);
Status WriteNpzFile(Env& env, const std::string& path, const std::map<std::string, Tensor>& arrays);

}  // namespace millrace::io
