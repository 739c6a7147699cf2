#include "tree.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/time_util.h>

#include <array>
#include <string_view>

namespace cases {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string Base64(const std::string& bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    unsigned bits = 0;
    for (std::size_t one = at; one < at + 3; ++one)
      bits = bits << 8 | (one < bytes.size() ? static_cast<unsigned char>(bytes[one]) : 0u);
    for (int shift = 18; shift >= 0; shift -= 6) text += kAlphabet[bits >> shift & 63];
  }
  if (const auto over = bytes.size() % 3) text.replace(text.size() - (3 - over), 3 - over, 3 - over, '=');
  return text;
}

std::string Unbase64(const std::string& text) {
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char letter : text) {
    if (letter == '=') break;
    const auto digit = kAlphabet.find(letter);
    if (digit == std::string_view::npos) throw CaseError("no base64: " + text.substr(0, 40));
    bits = bits << 6 | static_cast<unsigned>(digit);
    if ((count += 6) >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 255);
  }
  return bytes;
}

Tree TreeOfValue(const statekeep::Value& value) {
  if (value.kind_case() == statekeep::Value::kJson)
    return {{"json", value.json()}, {"content_type", value.content_type()}};
  if (value.kind_case() == statekeep::Value::kText)
    return {{"text", value.text()}, {"content_type", value.content_type()}};
  if (value.kind_case() == statekeep::Value::kData)
    return {{"data", Base64(value.data())}, {"content_type", value.content_type()}};
  return nullptr;
}

Tree TreeOfTime(const google::protobuf::Timestamp& time) {
  char fraction[16];
  std::snprintf(fraction, sizeof fraction, ".%06dZ", time.nanos() / 1000);
  google::protobuf::Timestamp whole = time;
  whole.set_nanos(0);
  std::string text = google::protobuf::util::TimeUtil::ToString(whole);
  text.pop_back();
  return text + fraction;
}

Tree TreeOfEnum(const std::string& name) {
  constexpr std::string_view prefix = "SCOPE_TYPE_";
  std::string text = name.substr(name.starts_with(prefix) ? prefix.size() : 0);
  for (char& letter : text) letter = static_cast<char>(std::tolower(letter));
  return text;
}

Tree TreeOfField(const Message& message, const FieldDescriptor* field, int at) {
  const auto* reflection = message.GetReflection();
  const bool many = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return TreeOf(many ? reflection->GetRepeatedMessage(message, field, at) : reflection->GetMessage(message, field));
    case FieldDescriptor::CPPTYPE_STRING:
      return many ? reflection->GetRepeatedString(message, field, at) : reflection->GetString(message, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->GetInt64(message, field);
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->GetInt32(message, field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(message, field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return TreeOfEnum(reflection->GetEnum(message, field)->name());
    default:
      throw CaseError("no tree is made of a field like " + field->full_name());
  }
}

Tree TreeOfMany(const Message& message, const FieldDescriptor* field) {
  Tree list = field->is_map() ? Tree::object() : Tree::array();
  const int count = message.GetReflection()->FieldSize(message, field);
  for (int at = 0; at < count; ++at) {
    Tree one = TreeOfField(message, field, at);
    if (field->is_map())
      list[one["key"].get<std::string>()] = one["value"];
    else
      list.push_back(std::move(one));
  }
  return list;
}

std::string Told(const std::string& path, const Tree& right, const Tree& got) {
  return (path.empty() ? "answer" : path.substr(1)) + ": right is " + Shown(right) + ", came " + Shown(got);
}

bool IsNumber(const Tree& tree) { return tree.is_number_integer(); }

std::string DigitsOf(const Tree& tree) { return tree.is_string() ? tree.get<std::string>() : tree.dump(); }

std::string DifferenceOfPart(const Tree& wanted, const Tree& got, const std::string& path) {
  if (!got.is_array()) return Told(path, wanted, got);
  auto rest = got.begin();
  for (const auto& item : wanted) {
    while (rest != got.end() && !Difference(item, *rest, path).empty()) ++rest;
    if (rest == got.end()) return path + ": has no " + Shown(item) + ", or not in this order";
    ++rest;
  }
  return {};
}

std::string DifferenceOfList(const Tree& right, const Tree& got, const std::string& path) {
  if (!got.is_array() || got.size() != right.size()) return Told(path, right, got);
  for (std::size_t at = 0; at < right.size(); ++at) {
    if (auto found = Difference(right[at], got[at], path + "." + std::to_string(at)); !found.empty()) return found;
  }
  return {};
}

std::string DifferenceOfObject(const Tree& right, const Tree& got, const std::string& path) {
  if (right.contains("$any")) return got.is_null() ? Told(path, right, got) : "";
  if (right.contains("$has")) return DifferenceOfPart(right["$has"], got, path);
  if (right.contains("$count"))
    return got.is_array() && got.size() == right["$count"] ? "" : Told(path, right, got.size());
  if (!got.is_object()) return Told(path, right, got);
  for (const auto& [name, item] : right.items()) {
    const Tree one = got.value(name, Tree());
    if (auto found = Difference(item, one, path + "." + name); !found.empty()) return found;
  }
  return {};
}

Tree Repeated(const Tree& tree) {
  const auto part = tree["$repeat"].get<std::string>();
  const auto times = tree["times"].get<std::size_t>();
  std::string text;
  text.reserve(part.size() * times);
  for (std::size_t at = 0; at < times; ++at) text += part;
  return text;
}

std::string ReplacedText(std::string text, const std::string& run) {
  constexpr std::string_view name = "$run";
  for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at + run.size()))
    text.replace(at, name.size(), run);
  return text;
}

}  // namespace

Tree TreeOf(const Message& message) {
  if (const auto* value = dynamic_cast<const statekeep::Value*>(&message)) return TreeOfValue(*value);
  if (const auto* time = dynamic_cast<const google::protobuf::Timestamp*>(&message)) return TreeOfTime(*time);
  Tree tree = Tree::object();
  const auto* descriptor = message.GetDescriptor();
  for (int at = 0; at < descriptor->field_count(); ++at) {
    const auto* field = descriptor->field(at);
    if (field->is_repeated())
      tree[field->name()] = TreeOfMany(message, field);
    else if (!field->has_presence() || message.GetReflection()->HasField(message, field))
      tree[field->name()] = TreeOfField(message, field, 0);
  }
  return tree;
}

Tree TreeOf(const statekeep::Error& error, const Tree& right) {
  static constexpr std::array kCodes = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  const auto& fields = error.fields();
  auto field = fields.find(right.value("field", ""));
  if (field == fields.end()) field = fields.begin();
  return {{"code", kCodes.at(static_cast<std::size_t>(error.code()))},
          {"reason", error.reason()},
          {"metadata", error.metadata()},
          {"field", field == fields.end() ? "" : field->first},
          {"message", error.what()}};
}

statekeep::Value ValueOf(const Tree& tree) {
  if (tree.is_null()) return {};
  const std::string content_type = tree.value("content_type", "");
  if (tree.contains("json")) return statekeep::Json(tree["json"], content_type);
  if (tree.contains("text")) return statekeep::Text(tree["text"], content_type);
  return statekeep::Data(Unbase64(tree.at("data")), content_type);
}

std::string Difference(const Tree& right, const Tree& got, const std::string& path) {
  if (right.is_object()) return DifferenceOfObject(right, got, path);
  if (right.is_array()) return DifferenceOfList(right, got, path);
  const bool digits = (IsNumber(right) && (IsNumber(got) || got.is_string())) || (right.is_string() && IsNumber(got));
  if (digits ? DigitsOf(right) == DigitsOf(got) : right == got) return {};
  return Told(path, right, got);
}

Tree Replaced(const Tree& tree, const Replacements& replacements) {
  if (tree.is_string()) return ReplacedText(tree.get<std::string>(), replacements.run);
  if (!tree.is_structured()) return tree;
  if (tree.is_object() && tree.contains("$repeat")) return Repeated(tree);
  if (tree.is_object() && tree.contains("$oddity")) return replacements.oddity;
  if (tree.is_object() && tree.contains("$saved")) {
    const Tree& saved = replacements.saved.at(tree["$saved"]);
    return tree.contains("plus") ? Tree(NumberOf(saved) + NumberOf(tree["plus"])) : saved;
  }
  Tree copy = tree;
  for (auto& item : copy) item = Replaced(item, replacements);
  return copy;
}

const Tree& At(const Tree& tree, const std::string& path) {
  const Tree* part = &tree;
  for (std::size_t at = 0; at <= path.size();) {
    const auto end = std::min(path.find('.', at), path.size());
    const auto name = path.substr(at, end - at);
    part = part->is_array() ? &part->at(std::stoul(name)) : &part->at(name);
    at = end + 1;
  }
  return *part;
}

std::int64_t NumberOf(const Tree& tree) {
  return tree.is_string() ? std::stoll(tree.get<std::string>()) : tree.get<std::int64_t>();
}

std::string Shown(const Tree& tree) {
  const auto text = tree.dump(-1, ' ', true, Tree::error_handler_t::replace);
  return text.size() <= 400 ? text : text.substr(0, 400) + "… (" + std::to_string(text.size()) + " characters)";
}

}  // namespace cases
