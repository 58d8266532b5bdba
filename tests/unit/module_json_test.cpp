// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// JSON that is written without a tree, and the check of JSON of others: both against nlohmann-json.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "sdk/module/json.h"

namespace heddle::module {
namespace {

TEST(JsonWriter, WritesWhatAReaderReads) {
  JsonWriter out;
  out.open('{').key("a").open('[').number(1).number(-2).number(UINT64_MAX).number(INT64_MIN).close(']');
  out.key("b \"\\\n").open('{').close('}').key("c").open('[').close(']');
  out.key("d").open('[').real(0.5).real(3).real(1e300).real(-0.0).real(std::nan("")).real(INFINITY).close(']');
  out.key("e").boolean(true).key("f").null().key("g").json("[1, {\"x\": null}]").key("h").boolean(false).close('}');
  const std::string text = out.take();
  EXPECT_EQ(text, R"({"a":[1,-2,18446744073709551615,-9223372036854775808],"b \"\\\u000a":{},"c":[],)"
                  R"("d":[0.5,3.0,1e+300,-0.0,null,null],"e":true,"f":null,"g":[1, {"x": null}],"h":false})");
  EXPECT_TRUE(nlohmann::json::accept(text));
  EXPECT_TRUE(is_json(text));
}

TEST(JsonWriter, IndentsAsNlohmannDoes) {
  JsonWriter out(2);
  out.open('{').key("a").open('[').number(1).open('{').close('}').open('[').close(']').text("x: ").close(']');
  out.key("b").open('{').count("c", 2u).key("d").null().close('}').key("e").text("{").key("f").real(0).close('}');
  const std::string text = out.take();
  EXPECT_EQ(text, nlohmann::ordered_json::parse(text).dump(2));
}

TEST(JsonWriter, KeepsEveryTextAndReplacesWhatIsNoText) {
  std::string all;
  for (int c = 1; c < 0x80; ++c) all.push_back(static_cast<char>(c));
  all += "\xc3\xa4\xe2\x82\xac\xf0\x9f\xa7\xb5";
  JsonWriter out;
  out.text(all);
  EXPECT_EQ(nlohmann::json::parse(out.take()).get<std::string>(), all);

  const std::string replacement = "\xEF\xBF\xBD";
  for (const auto& [given, expected] : {std::pair<std::string, std::string>{"a\xff"
                                                                            "b",
                                                                            "a" + replacement + "b"},
                                        {"\xe2\x82", replacement + replacement},
                                        {"\xc3", replacement},
                                        {"\xed\xa0\x80", replacement + replacement + replacement},
                                        {std::string("\0x", 2), std::string("\0x", 2)}}) {
    JsonWriter broken;
    broken.text(given);
    EXPECT_EQ(nlohmann::json::parse(broken.take()).get<std::string>(), expected);
  }
}

TEST(IsJson, AgreesWithNlohmann) {
  for (const std::string text : {"",
                                 " ",
                                 "1",
                                 " 1 ",
                                 "-0",
                                 "-",
                                 "01",
                                 "1.",
                                 "1.5",
                                 ".5",
                                 "1e5",
                                 "1e",
                                 "1e+",
                                 "1E-2",
                                 "1e400",
                                 "-1e400",
                                 "+1",
                                 "0x1",
                                 "1 2",
                                 "nul",
                                 "null",
                                 "nulls",
                                 "true",
                                 "false",
                                 "True",
                                 "\"\"",
                                 "\"",
                                 "\"a",
                                 "\"\\",
                                 "\"\\\"",
                                 "\"\\\"\"",
                                 "\"\\x\"",
                                 "\"\\u12\"",
                                 "\"\\u12g4\"",
                                 "\"\\u0041\"",
                                 "\"\\ud800\"",
                                 "\"\\udc00\"",
                                 "\"\\ud83e\\uddf5\"",
                                 "\"\\ud83e\\u0041\"",
                                 "\"\\ud83ex\"",
                                 "\"\\u-123\"",
                                 "\"\n\"",
                                 "\"\t\"",
                                 "\"\x7f\"",
                                 "\"\xc3\xa4\"",
                                 "\"\xc3\"",
                                 "[",
                                 "]",
                                 "[]",
                                 "[ ]",
                                 "[1",
                                 "[1]",
                                 "[1,]",
                                 "[,1]",
                                 "[1 2]",
                                 "[1,2]",
                                 "[[],[[]]]",
                                 "[}",
                                 "{",
                                 "}",
                                 "{}",
                                 "{ }",
                                 "{1}",
                                 "{\"a\"}",
                                 "{\"a\":}",
                                 "{\"a\":1}",
                                 "{\"a\" : 1 , \"b\":[{}]}",
                                 "{\"a\":1,}",
                                 "{,}",
                                 "{\"a\":1 \"b\":2}",
                                 "{\"a\",1}",
                                 "{]",
                                 "[]]",
                                 "{\"a\":1}}",
                                 "[1]x",
                                 "/**/1",
                                 "[1]\r\n\t "}) {
    EXPECT_EQ(is_json(text), nlohmann::json::accept(text)) << text;
  }
  EXPECT_FALSE(is_json(std::string("1\0", 2)));
  EXPECT_FALSE(is_json(std::string("\"\0\"", 3)));
}

TEST(IsJson, AgreesOnRandomChanges) {
  const std::string good = R"({"regions":[{"name":"m\u00e4.0","ops":["tx.add",null,true],"share":-1.5e-3},{}],"x":[[],"\\\"",0,12]})";
  ASSERT_TRUE(is_json(good));
  const std::string_view pieces[] = {"{", "}", "[", "]", ",", ":",    "\"",   "\\",   "u",  "0",
                                     "1", "-", ".", "e", " ", "null", "\xc3", "\xa4", "\n", "\\ud800"};
  std::mt19937 random(1);
  int accepted = 0;
  for (int i = 0; i < 100000; ++i) {
    std::string text = good;
    for (uint32_t change = random() % 3; change != UINT32_MAX; --change)
      text.replace(random() % text.size(), random() % 3, pieces[random() % std::size(pieces)]);
    accepted += is_json(text);
    ASSERT_EQ(is_json(text), nlohmann::json::accept(text)) << text;
  }
  EXPECT_GT(accepted, 5000);
  EXPECT_LT(accepted, 95000);
}

TEST(IsJson, LimitsLevels) {
  auto nested = [](size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_TRUE(is_json(nested(64)));
  EXPECT_FALSE(is_json(nested(65)));
  EXPECT_FALSE(is_json(nested(1000000)));
  EXPECT_TRUE(is_json(nested(3), 3));
  EXPECT_FALSE(is_json(nested(4), 3));
  std::string objects;
  for (int i = 0; i < 64; ++i) objects += "{\"a\":";
  EXPECT_TRUE(is_json(objects + "1" + std::string(64, '}')));
  EXPECT_FALSE(is_json(objects + "[]" + std::string(64, '}')));
}

TEST(IsJson, TellsWhereItEnds) {
  size_t wrong = 0;
  EXPECT_FALSE(is_json("[1, 2", 64, &wrong));
  EXPECT_EQ(wrong, 5u);
  EXPECT_FALSE(is_json("[1, x]", 64, &wrong));
  EXPECT_EQ(wrong, 4u);
}

// The value that comes next, through the functions of JsonReader.
nlohmann::json read(JsonReader& reader) {
  std::string text;
  uint64_t number = 0;
  if (reader.enter('{')) {
    nlohmann::json out = nlohmann::json::object();
    while (reader.more()) {
      std::string key = reader.key();
      out[key] = read(reader);
    }
    return out;
  }
  if (reader.enter('[')) {
    nlohmann::json out = nlohmann::json::array();
    while (reader.more()) out.push_back(read(reader));
    return out;
  }
  if (reader.text(text)) return text;
  if (reader.natural(number)) return number;
  reader.skip();
  return nullptr;
}

TEST(JsonReader, ReadsWhatNlohmannReads) {
  for (const std::string text :
       {R"({"a":[1,2,18446744073709551615,"x",{"b":{}}],"c":"","d":[[],[[]]]})", " [ 1 , \"a\" , { \"b\" : [ ] } ] ",
        R"(["\"\\\/\b\f\n\r\t","\u0041\u00e4\u20ac\ud83e\uddf5x","a\\","\\u0041"])", "7", "\"a\"", "{\"\\u0061\":1}",
        "[\"[\",\"}\",\",\"]"}) {
    ASSERT_TRUE(is_json(text)) << text;
    JsonReader reader(text);
    EXPECT_EQ(read(reader), nlohmann::json::parse(text)) << text;
  }
}

TEST(JsonReader, SkipsValuesOfAnyType) {
  for (const std::string value :
       {"1", "-1.5e3", "true", "null", "\"a]\\\"}\"", "[]", "{}", "[1,[\"]\",{\"a\":[2]}],3]", "{\"a\":{\"b\":[{}]},\"c\":false}"}) {
    for (const std::string& text : {"[" + value + ",7]", "[ " + value + " , 7 ]"}) {
      ASSERT_TRUE(is_json(text)) << text;
      JsonReader reader(text);
      ASSERT_TRUE(reader.enter('[') && reader.more());
      reader.skip();
      uint64_t number = 0;
      EXPECT_TRUE(reader.more() && reader.natural(number) && number == 7 && !reader.more()) << text;
    }
  }
}

TEST(WithoutMembers, LeavesOutMembersOfTheseNamesInAnyObject) {
  for (const auto& [given, expected] : {std::pair<std::string, std::string>{R"({"a":1,"b":2,"c":3})", R"({"a":1,"c":3})"},
                                        {R"({"b":2})", "{}"},
                                        {R"({"b":2,"x":[],"c":3})", R"({"c":3})"},
                                        {R"({"a":1,"b":{"c":[{"b":1}]},"x":"b"})", R"({"a":1})"},
                                        {R"([{"b":"]}\",\\"},["b"],"b"])", R"([{},["b"],"b"])"},
                                        {R"({"a":{"x":null,"y":-1e3},"d":["x",{"x":true}]})", R"({"a":{"y":-1e3},"d":["x",{}]})"},
                                        {" { \"b\" : 1 , \"a\" : 2 , \"x\" : [ 3 ] } ", R"({"a":2})"},
                                        {"[]", "[]"},
                                        {"\"b\"", "\"b\""}}) {
    ASSERT_TRUE(is_json(given)) << given;
    const std::string out = without_members(given, {"b", "x"});
    EXPECT_TRUE(is_json(out)) << out;
    EXPECT_EQ(nlohmann::json::parse(out), nlohmann::json::parse(expected)) << given;
  }
}

TEST(JsonReader, ReadsOnlyNaturalNumbersAsSuch) {
  uint64_t number = 0;
  for (const char* text : {"-1", "-0", "1.0", "1e2", "1E2", "18446744073709551616", "\"1\"", "null"}) {
    JsonReader reader(text);
    EXPECT_FALSE(reader.natural(number)) << text;
  }
}

}  // namespace
}  // namespace heddle::module
