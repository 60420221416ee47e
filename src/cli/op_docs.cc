// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/op_docs.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "millrace/status.h"

namespace millrace::cli {
namespace {

struct Row {
  std::string_view op, doc;
};

// clang-format off
// In the order of the names.
constexpr Row kRows[] = {
#include "cli/op_docs.def"
};
// clang-format on

std::string_view Find(std::string_view op) {
  const auto* const row = std::lower_bound(std::begin(kRows), std::end(kRows), op,
                                           [](const Row& a, std::string_view b) { return a.op < b; });
  return row != std::end(kRows) && row->op == op ? row->doc : std::string_view();
}

// "MatMulV2" is a later "MatMul".
std::string_view WithoutVersion(std::string_view op) {
  const size_t n = op.size();
  if (n > 2 && op[n - 2] == 'V' && op[n - 1] >= '2' && op[n - 1] <= '9') op.remove_suffix(2);
  return op;
}

}  // namespace

std::string OpDoc(std::string_view op) {
  if (const auto doc = Find(op); !doc.empty()) return std::string(doc);
  const std::string_view base = WithoutVersion(op);
  if (const auto doc = Find(base); !doc.empty()) return std::string(doc);
  struct Form {
    std::string_view prefix, text;
  };
  constexpr Form kForms[] = {
      {"Resource", "On a resource variable: "},
      {"Ref", "Of a reference: "},
      {"SparseApply", "By rows: "},
      {"ResourceSparseApply", "By rows of a resource variable: "},
      {"Stateless", "Without effects: "},
      {"Ordered", "In the order of keys: "},
      {"Experimental", "Under its earlier name: "},
  };
  for (const Form& form : kForms) {
    std::string_view rest = base;
    if (!ConsumePrefix(&rest, form.prefix)) continue;
    std::string name(rest);
    if (form.prefix.ends_with("Apply")) name = StrCat("Apply", rest);
    if (const auto doc = Find(name); !doc.empty()) return StrCat(form.text, doc);
  }
  std::string_view single = base;
  if (ConsumePrefix(&single, "Batch") && !Find(WithoutVersion(single)).empty()) {
    return std::string(Find(WithoutVersion(single)));
  }
  std::string_view forward = base;
  if (ConsumeSuffix(&forward, "Grad") && !Find(forward).empty())
    return StrCat("The gradient of ", forward, ".");
  return "";
}

}  // namespace millrace::cli
