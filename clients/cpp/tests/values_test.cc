// No digit is lost: not on the way, and not by nlohmann::json.
#include <gtest/gtest.h>

#include "server.h"
#include "statekeep/client.h"
#include "statekeep/nlohmann.h"

namespace statekeep::testing {
namespace {

TEST(Values, ComeBackByteForByte) {
  const ServerProcess server;
  const Client client({.address = server.address()});
  const auto scope = NamespaceScope("s");
  const auto kept = [&client, &scope](const Value& value) {
    client.memory().Set(scope, "k", value);
    return client.memory().Get(scope, "k").value().value();
  };
  for (const std::string text : {"18446744073709551616", "9007199254740993", "-0.0", "1e999", "[1.0, 1]"})
    EXPECT_EQ(kept(Json(text)).json(), text);
  const std::string bytes("\0\xff\r\n", 4);
  EXPECT_EQ(kept(Data(bytes, "image/png")).data(), bytes);
  EXPECT_EQ(kept(Data(bytes, "image/png")).content_type(), "image/png");
  EXPECT_EQ(kept(Text(std::string("a\0b", 3))).text(), std::string("a\0b", 3));
}

TEST(Values, AreParsedWhereNlohmannHoldsEveryDigit) {
  const auto json = ToNlohmann(Json(R"({"a": [9007199254740993, 18446744073709551615, -9223372036854775808]})"));
  EXPECT_EQ(json["a"][0].get<std::int64_t>(), 9007199254740993);
  EXPECT_EQ(json["a"][1].get<std::uint64_t>(), 18446744073709551615u);
  EXPECT_EQ(json["a"][2].get<std::int64_t>(), std::numeric_limits<std::int64_t>::min());
  for (const auto* text : {"0.1", "1.50", "-0.0", "1e2", "123.456e-7", "[null, true, \"1e999\"]", "100.0"})
    EXPECT_NO_THROW(ToNlohmann(Json(text))) << text;
}

TEST(Values, AreRefusedWhereNlohmannWouldLoseDigits) {
  for (const auto* text : {"18446744073709551616", "-9223372036854775809", "[0.12345678901234567890123]",
                           "9007199254740993.0", "1e-999", "1e999"})
    EXPECT_THROW(ToNlohmann(Json(text)), NumberError) << text;
  EXPECT_THROW(ToNlohmann(Text("1")), std::invalid_argument);
  EXPECT_THROW(ToNlohmann(Json("{")), std::invalid_argument);
}

TEST(Values, OfNlohmannAreTheirText) {
  EXPECT_EQ(FromNlohmann({{"a", 9007199254740993}, {"b", 0.1}}).json(), R"({"a":9007199254740993,"b":0.1})");
  for (const double number : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_THROW(FromNlohmann({{"a", {1, number}}}), NumberError) << number;
}

}  // namespace
}  // namespace statekeep::testing
