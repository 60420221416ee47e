// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutate_message.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <iterator>
#include <limits>

namespace millrace {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int64_t kNumbers[] = {0,
                                1,
                                2,
                                3,
                                4,
                                7,
                                8,
                                16,
                                100,
                                255,
                                1000,
                                65536,
                                int64_t{1} << 31,
                                int64_t{1} << 32,
                                int64_t{1} << 40,
                                int64_t{1} << 62,
                                std::numeric_limits<int32_t>::max(),
                                std::numeric_limits<int64_t>::max()};
constexpr double kReals[] = {0,
                             1,
                             0.5,
                             2,
                             1e-30,
                             1e30,
                             1e300,
                             std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()};
constexpr int kMaxDepth = 6;  // a message type may contain itself

class Mutator {
 public:
  Mutator(const std::vector<std::string>& words, std::mt19937& rng) : words_(words), rng_(rng) {}

  void Run(Message* root) {
    messages_.clear();
    strings_.clear();
    Collect(root, 0);
    Message* message = messages_[Below(messages_.size())];
    std::vector<const FieldDescriptor*> fields;
    message->GetReflection()->ListFields(*message, &fields);
    const auto* type = message->GetDescriptor();
    if (type->field_count() == 0) return;
    // Existing fields, rather than new ones.
    const FieldDescriptor* field = !fields.empty() && Below(4) != 0
                                       ? fields[Below(fields.size())]
                                       : type->field(static_cast<int>(Below(type->field_count())));
    Change(message, field);
  }

 private:
  size_t Below(size_t n) { return rng_() % n; }
  template <typename T>
  T Number() {
    const auto n = static_cast<T>(kNumbers[Below(Below(3) == 0 ? std::size(kNumbers) : 6)]);
    return Below(4) == 0 ? static_cast<T>(uint64_t{0} - static_cast<uint64_t>(n)) : n;
  }
  double Real() { return kReals[Below(std::size(kReals))] * (Below(3) == 0 ? -1 : 1); }
  int EnumNumber(const EnumDescriptor* type) {
    return Below(20) == 0 ? Number<int32_t>()
                          : type->value(static_cast<int>(Below(type->value_count())))->number();
  }

  std::string Text() {
    if (!strings_.empty() && Below(2) != 0) {
      std::string text = strings_[Below(strings_.size())];
      const size_t how = Below(8);
      if (how == 0) text = "^" + text;
      if (how == 1) text += ":" + std::to_string(Number<int32_t>());
      return text;
    }
    if (!words_.empty() && Below(8) != 0) return words_[Below(words_.size())];
    std::string text(Below(24), '\0');
    for (char& c : text) c = static_cast<char>(rng_());
    return text;
  }

  void Collect(Message* message, int depth) {
    if (depth > 100) return;
    messages_.push_back(message);
    const Reflection* r = message->GetReflection();
    std::vector<const FieldDescriptor*> fields;
    r->ListFields(*message, &fields);
    for (const FieldDescriptor* f : fields) {
      const int n = f->is_repeated() ? r->FieldSize(*message, f) : 1;
      for (int i = 0; i < n; ++i) {
        if (f->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          Collect(f->is_repeated() ? r->MutableRepeatedMessage(message, f, i) : r->MutableMessage(message, f),
                  depth + 1);
        } else if (f->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
          strings_.push_back(f->is_repeated() ? r->GetRepeatedString(*message, f, i)
                                              : r->GetString(*message, f));
        }
      }
    }
  }

  void Change(Message* message, const FieldDescriptor* field) {
    const Reflection* r = message->GetReflection();
    if (!field->is_repeated()) {
      if (Below(8) == 0) return r->ClearField(message, field);
      return Set(message, field, 0);
    }
    const int n = r->FieldSize(*message, field);
    const size_t how = Below(6);
    if (n == 0 || how == 0) return Add(message, field, 0);
    const int at = static_cast<int>(Below(n));
    if (how == 1) {
      r->SwapElements(message, field, at, n - 1);
      return r->RemoveLast(message, field);
    }
    if (how == 2) return r->SwapElements(message, field, at, static_cast<int>(Below(n)));
    if (how == 3) return Repeat(message, field, at);
    SetRepeated(message, field, at);
  }

  // Adds an element that equals an earlier one.
  void Repeat(Message* message, const FieldDescriptor* field, int at) {
    const Reflection* r = message->GetReflection();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      r->AddMessage(message, field)->CopyFrom(r->GetRepeatedMessage(*message, field, at));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      r->AddString(message, field, r->GetRepeatedString(*message, field, at));
    } else {
      Add(message, field, 0);
    }
  }

  void FillIn(Message* message, int depth) {
    const auto* type = message->GetDescriptor();
    if (depth > kMaxDepth || type->field_count() == 0) return;
    for (int i = 0; i < 2; ++i) {
      const FieldDescriptor* field = type->field(static_cast<int>(Below(type->field_count())));
      if (field->is_repeated()) {
        Add(message, field, depth + 1);
      } else {
        Set(message, field, depth + 1);
      }
    }
  }

  void Set(Message* m, const FieldDescriptor* f, int depth) {
    const Reflection* r = m->GetReflection();
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return r->SetInt32(m, f, Number<int32_t>());
      case FieldDescriptor::CPPTYPE_INT64:
        return r->SetInt64(m, f, Number<int64_t>());
      case FieldDescriptor::CPPTYPE_UINT32:
        return r->SetUInt32(m, f, Number<uint32_t>());
      case FieldDescriptor::CPPTYPE_UINT64:
        return r->SetUInt64(m, f, Number<uint64_t>());
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return r->SetDouble(m, f, Real());
      case FieldDescriptor::CPPTYPE_FLOAT:
        return r->SetFloat(m, f, ToFloat(Real()));
      case FieldDescriptor::CPPTYPE_BOOL:
        return r->SetBool(m, f, Below(2) == 0);
      case FieldDescriptor::CPPTYPE_ENUM:
        return r->SetEnumValue(m, f, EnumNumber(f->enum_type()));
      case FieldDescriptor::CPPTYPE_STRING:
        return r->SetString(m, f, Utf8(f, Text()));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return FillIn(r->MutableMessage(m, f), depth);
    }
  }

  void SetRepeated(Message* m, const FieldDescriptor* f, int at) {
    const Reflection* r = m->GetReflection();
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return r->SetRepeatedInt32(m, f, at, Number<int32_t>());
      case FieldDescriptor::CPPTYPE_INT64:
        return r->SetRepeatedInt64(m, f, at, Number<int64_t>());
      case FieldDescriptor::CPPTYPE_UINT32:
        return r->SetRepeatedUInt32(m, f, at, Number<uint32_t>());
      case FieldDescriptor::CPPTYPE_UINT64:
        return r->SetRepeatedUInt64(m, f, at, Number<uint64_t>());
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return r->SetRepeatedDouble(m, f, at, Real());
      case FieldDescriptor::CPPTYPE_FLOAT:
        return r->SetRepeatedFloat(m, f, at, ToFloat(Real()));
      case FieldDescriptor::CPPTYPE_BOOL:
        return r->SetRepeatedBool(m, f, at, Below(2) == 0);
      case FieldDescriptor::CPPTYPE_ENUM:
        return r->SetRepeatedEnumValue(m, f, at, EnumNumber(f->enum_type()));
      case FieldDescriptor::CPPTYPE_STRING:
        return r->SetRepeatedString(m, f, at, Utf8(f, Text()));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return FillIn(r->MutableRepeatedMessage(m, f, at), 0);
    }
  }

  void Add(Message* m, const FieldDescriptor* f, int depth) {
    const Reflection* r = m->GetReflection();
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return r->AddInt32(m, f, Number<int32_t>());
      case FieldDescriptor::CPPTYPE_INT64:
        return r->AddInt64(m, f, Number<int64_t>());
      case FieldDescriptor::CPPTYPE_UINT32:
        return r->AddUInt32(m, f, Number<uint32_t>());
      case FieldDescriptor::CPPTYPE_UINT64:
        return r->AddUInt64(m, f, Number<uint64_t>());
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return r->AddDouble(m, f, Real());
      case FieldDescriptor::CPPTYPE_FLOAT:
        return r->AddFloat(m, f, ToFloat(Real()));
      case FieldDescriptor::CPPTYPE_BOOL:
        return r->AddBool(m, f, Below(2) == 0);
      case FieldDescriptor::CPPTYPE_ENUM:
        return r->AddEnumValue(m, f, EnumNumber(f->enum_type()));
      case FieldDescriptor::CPPTYPE_STRING:
        return r->AddString(m, f, Utf8(f, Text()));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return FillIn(r->AddMessage(m, f), depth);
    }
  }

  // A double beyond the range of floats becomes an infinity explicitly, to avoid undefined behaviour.
  static float ToFloat(double x) {
    constexpr double kMax = std::numeric_limits<float>::max();
    if (x > kMax) return std::numeric_limits<float>::infinity();
    return x < -kMax ? -std::numeric_limits<float>::infinity() : static_cast<float>(x);
  }
  // A `string` field with invalid UTF-8 would not parse.
  static std::string Utf8(const FieldDescriptor* field, std::string text) {
    if (field->type() != FieldDescriptor::TYPE_STRING) return text;
    for (char& c : text) c = static_cast<char>(c & 0x7f);
    return text;
  }

  const std::vector<std::string>& words_;
  std::mt19937& rng_;
  std::vector<Message*> messages_;
  std::vector<std::string> strings_;
};

}  // namespace

void MutateMessage(const std::vector<std::string>& words, std::mt19937& rng, Message* message) {
  Mutator mutator(words, rng);
  for (uint32_t n = 1 + rng() % 4; n > 0; --n) mutator.Run(message);
}

}  // namespace millrace
