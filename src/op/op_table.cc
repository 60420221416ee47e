// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/op_table.h"

#include <optional>
#include <string>
#include <utility>

#include "base/strings.h"

namespace millrace {
namespace {

// The declaration that is being read.
struct Declaration {
  explicit Declaration(std::string_view name) : op(std::string(name)) {}

  StatusOr<OpRegistration> Finish() {
    if (deprecated_version > 0) op.Deprecated(deprecated_version, explanation);
    return op.Finalize();
  }

  OpBuilder op;
  int deprecated_version = 0;
  std::string explanation;
};

Status AddFlag(std::string_view flag, Declaration* to) {
  if (flag == "is_commutative") {
    to->op.Commutative();
  } else if (flag == "is_aggregate") {
    to->op.Aggregate();
  } else if (flag == "is_stateful") {
    to->op.Stateful().Traits({.has_side_effects = true});
  } else if (flag == "allows_uninitialized_input") {
    to->op.AllowsUninitializedInput();
  } else if (ConsumePrefix(&flag, "deprecated@") && SafeStringToInt32(flag).value_or(0) > 0) {
    to->deprecated_version = *SafeStringToInt32(flag);
  } else {
    return errors::InvalidArgument("unknown flag '", flag, "'");
  }
  return Status();
}

Status AddPart(std::string_view line, Declaration* to) {
  std::string_view rest = StripWhitespace(line);
  const std::string_view kind = rest.substr(0, rest.find(' '));
  rest = StripWhitespace(rest.substr(kind.size()));
  if (kind == "in") {
    to->op.Input(std::string(rest));
  } else if (kind == "out") {
    to->op.Output(std::string(rest));
  } else if (kind == "attr") {
    to->op.Attr(std::string(rest));
  } else if (kind == "flag") {
    for (const std::string_view flag : StrSplitSkipEmpty(rest, ' ')) MR_RETURN_IF_ERROR(AddFlag(flag, to));
  } else if (kind == "why") {
    to->explanation = std::string(rest);
  } else {
    return errors::InvalidArgument("unknown part '", kind, "'");
  }
  return Status();
}

}  // namespace

StatusOr<std::vector<OpRegistration>> ParseOpTable(std::string_view text) {
  std::vector<OpRegistration> ops;
  std::optional<Declaration> op;
  const auto finish = [&]() -> Status {
    if (!op.has_value()) return Status();
    MR_ASSIGN_OR_RETURN(OpRegistration done, op->Finish());
    ops.push_back(std::move(done));
    op.reset();
    return Status();
  };
  for (const std::string_view line : StrSplitSkipEmpty(text, '\n')) {
    if (line.front() != ' ') {
      MR_RETURN_IF_ERROR(finish());
      op.emplace(StripWhitespace(line));
      continue;
    }
    if (!op.has_value())
      return errors::InvalidArgument("The table begins with '", line, "', not with a name");
    const Status status = AddPart(line, &*op);
    if (!status.ok()) return status.WithContext(StrCat("; in line '", line, "'"));
  }
  MR_RETURN_IF_ERROR(finish());
  return ops;
}

}  // namespace millrace
