// Values as nlohmann::json, for programs that use that library. Nothing else of this client needs it.
#pragma once

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "statekeep/values.h"

namespace statekeep {

/// A number that nlohmann::json cannot hold with all its digits, or JSON not at all (NaN, infinity). Of the first the
/// text has them all the same: `value.json()`.
class NumberError : public std::range_error {
 public:
  using std::range_error::range_error;
};

namespace internal {

// Reads a JSON text for its numbers alone: integers that fit no 64 bits come here as floats, with their digits.
class NumberCheck : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }

  bool number_float(number_float_t number, const string_t& digits) override {
    const bool whole = digits.find_first_of(".eE") == string_t::npos;
    if (!whole && Digits(digits) == Digits(Shortest(number))) return true;
    throw NumberError("nlohmann::json cannot hold the number " + digits.substr(0, 40) + " with all its digits");
  }

  bool parse_error(std::size_t, const std::string& token, const nlohmann::detail::exception& error) override {
    constexpr int overflow = 406;  // nlohmann's number of what is beyond a double
    if (error.id == overflow) throw NumberError("nlohmann::json cannot hold the number " + token.substr(0, 40));
    throw std::invalid_argument(error.what());
  }

 private:
  static std::string Shortest(double number) {
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, number).ptr};
  }

  // The significant digits with the power of ten they are counted in: equal where two texts name one number.
  static std::string Digits(const std::string& number) {
    std::string digits;
    long power = 0;
    bool fraction = false;
    std::size_t at = 0;
    for (; at < number.size() && number[at] != 'e' && number[at] != 'E'; ++at) {
      if (number[at] == '.') fraction = true;
      if (number[at] < '0' || number[at] > '9') continue;
      digits += number[at];
      power -= fraction;
    }
    if (at < number.size()) power += std::strtol(number.c_str() + at + 1, nullptr, 10);
    digits.erase(0, digits.find_first_not_of('0'));
    for (; !digits.empty() && digits.back() == '0'; ++power) digits.pop_back();
    const std::string sign = number.front() == '-' ? "-" : "";
    return digits.empty() ? sign + "0" : sign + digits + "e" + std::to_string(power);
  }
};

// nlohmann would write null.
inline void RefuseNonFinite(const nlohmann::json& json) {
  if (json.is_number_float() && !std::isfinite(json.get<double>()))
    throw NumberError("JSON has neither NaN nor infinity");
  if (json.is_structured())
    for (const auto& item : json) RefuseNonFinite(item);
}

}  // namespace internal

/// The value of an nlohmann::json, as its shortest JSON text.
/// Throws NumberError where it holds a NaN or an infinity, nlohmann::json::type_error where a string in it is not
/// UTF-8.
inline Value FromNlohmann(const nlohmann::json& json) {
  internal::RefuseNonFinite(json);
  return Json(json.dump());
}

/// The parsed JSON of a value.
/// Throws NumberError where nlohmann::json cannot hold a number with all its digits (integers beyond 64 bits,
/// decimals that no double names), std::invalid_argument where the value is not JSON.
inline nlohmann::json ToNlohmann(const Value& value) {
  if (value.kind_case() != Value::kJson) throw std::invalid_argument("the value is text or bytes, not JSON");
  internal::NumberCheck check;
  nlohmann::json::sax_parse(value.json(), &check);
  return nlohmann::json::parse(value.json());
}

}  // namespace statekeep
