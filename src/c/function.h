// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "c/internal.h"
#include "graph/function_writer.h"

namespace tensorflow {
class FunctionDef;
}

struct TF_Function {
  TF_Function();
  ~TF_Function();
  std::unique_ptr<tensorflow::FunctionDef> def;  // never null
};
