// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables, numbers for people, flags, and the search for programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <random>

#include "../temporary_folder.h"
#include "sdk/module/utf8.h"
#include "tools/heddle/flags.h"
#include "tools/heddle/output.h"
#include "tools/heddle/program_search.h"
#include "tools/heddle/same_file.h"

namespace heddle::tool {
namespace {

using ::testing::HasSubstr;

const Table kTable{{"name", "what"}, {{"a", "plain"}, {"é|b", "with, \"quotes\""}, {"short"}}};

TEST(Output, TableAlignsCharactersAndTrimsLines) {
  EXPECT_EQ(table_text(kTable, Format::kTable, false), "name   what\na      plain\né|b    with, \"quotes\"\nshort\n");
  EXPECT_THAT(table_text(kTable, Format::kTable, true), HasSubstr("\x1b[1mname"));
}

TEST(Output, ControlCharactersAreNotForTerminals) {
  EXPECT_EQ(printable("a\x1b[31m\tb\n\x07\x7f\u00fc"), "a?[31m\tb\n??\u00fc");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a?b");
  // C1 controls, marks of direction, ends of lines that are no line feed; what is no UTF-8, also at the end.
  EXPECT_EQ(printable("\u009b31m\u0085 \u202e\u2066\u200f\u061c\u2028 \r"), "?31m? ????? ?");
  EXPECT_EQ(printable("\xff\xc0\xaf \xed\xa0\x80 \xe2\x80 \U0001f600\xf0\x9f"), "??? ??? ?? \U0001f600??");
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 12, ' ');
    for (char& c : bytes) c = static_cast<char>(random() % 3 == 0 ? 0xe0 + random() % 32 : random() % 256);
    const std::string clean = module::one_line(bytes);
    ASSERT_TRUE(module::is_utf8_text(clean));
    ASSERT_EQ(module::one_line(clean), clean);
  }
  EXPECT_EQ(module::printable_json("{\n\"a\u009b\x7f\u202e\u00e9\U0001f600\xff\"}"), "{\n\"a\\u009b\\u007f\\u202e\u00e9\U0001f600?\"}");
  EXPECT_EQ(module::one_line("a\tb\r\nc\u00e9\u4e2d"), "a b  c\u00e9\u4e2d");
  const std::string text = table_text({{"name"}, {{"\x1b[2Jx"}}}, Format::kTable, false);
  EXPECT_NE(text.find("?[2Jx"), std::string::npos) << text;
}

TEST(Output, CsvQuotes) {
  EXPECT_EQ(table_text(kTable, Format::kCsv, false), "name,what\na,plain\né|b,\"with, \"\"quotes\"\"\"\nshort,\n");
}

TEST(Output, MarkdownEscapesBars) {
  EXPECT_EQ(table_text(kTable, Format::kMarkdown, false),
            "| name | what |\n| --- | --- |\n| a | plain |\n| é\\|b | with, \"quotes\" |\n| short |  |\n");
}

TEST(Output, NumbersForPeople) {
  EXPECT_EQ(duration_text(999), "999 ns");
  EXPECT_EQ(duration_text(1500), "1.50 us");
  EXPECT_EQ(duration_text(2.5e6), "2.500 ms");
  EXPECT_EQ(duration_text(3e9), "3.000 s");
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
}

struct Parsed {
  std::optional<int> code;
  std::string said;
  std::string text, choice = "a", word, file;
  std::vector<std::string> texts;
  uint64_t count = 7;
  double number = 1;
  bool on = false;
};

Parsed parse(const Arguments& arguments) {
  Parsed out;
  Flags flags("try", "A command.");
  flags.positional("FILE", out.file, "a file", false);
  flags.text("-t,--text", out.text, "text");
  flags.texts("--texts", out.texts, "texts", "TEXT");
  flags.count("--count", out.count, "count", 1, 100);
  flags.number("--number", out.number, "number", 0, 10);
  flags.on("--on", out.on, "on");
  flags.choice("--choice", out.choice, {"a", "b"}, "choice");
  flags.word("--word", out.word, "word");
  ::testing::internal::CaptureStderr();
  out.code = flags.parse(arguments);
  out.said = ::testing::internal::GetCapturedStderr();
  return out;
}

TEST(Flags, ReadsEveryKind) {
  const Parsed got = parse(
      {"--texts", "1", "f.heddle", "--texts=2", "-t", "x y", "--count", "9", "--number", "2.5", "--on", "--choice", "b", "--word=json"});
  EXPECT_EQ(got.code, std::nullopt) << got.said;
  EXPECT_EQ(got.texts, (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(got.file, "f.heddle");
  EXPECT_EQ(got.text, "x y");
  EXPECT_EQ(got.count, 9u);
  EXPECT_EQ(got.number, 2.5);
  EXPECT_TRUE(got.on);
  EXPECT_EQ(got.choice, "b");
  EXPECT_EQ(got.word, "json");
  EXPECT_EQ(parse({"--word", "f.heddle"}).word, "true");
  EXPECT_EQ(parse({"--word", "f.heddle"}).file, "f.heddle");
  EXPECT_EQ(parse({}).count, 7u);
}

TEST(Flags, NamesWhatIsWrongAndGivesTwo) {
  const struct {
    Arguments arguments;
    const char* words;
  } cases[] = {{{"--no-such"}, "unknown option '--no-such'; see"},
               {{"--cuont", "3"}, "unknown option '--cuont' (did you mean '--count'?); see"},
               {{"--cuont=3"}, "unknown option '--cuont' (did you mean '--count'?); see"},
               {{"a", "b", "c"}, "unexpected arguments 'b', 'c'; heddle try takes FILE, and all else as flags; see"},
               {{"--count", "0"}, "0 is outside 1..100"},
               {{"--count", "x"}, "x is not an integer of 1..100"},
               {{"--count", "-1"}, "--count"},
               {{"--number", "11"}, "11 is outside 0..10"},
               {{"--number", "nan"}, "outside 0..10"},
               {{"--choice", "c"}, "'c' is not one of a|b"},
               {{"--text"}, "--text needs a value: "},
               {{"--flagfile", "/nonexistent/flags"}, "'/nonexistent/flags' cannot be read"},
               {{"--flagfile"}, "--flagfile needs a value: FILE"}};
  for (const auto& one : cases) {
    const Parsed got = parse(one.arguments);
    EXPECT_EQ(got.code, kUsage) << one.words;
    EXPECT_THAT(got.said, HasSubstr(one.words));
    EXPECT_THAT(got.said, HasSubstr("heddle try: "));
    EXPECT_THAT(got.said, HasSubstr("see heddle try --help"));
  }
}

TEST(Flags, FlagfileHoldsOneArgumentALine) {
  heddle::testing::TemporaryFolder folder;
  heddle::testing::write_file(folder.path("inner"), "--count=5\n");
  heddle::testing::write_file(folder.path("outer"), "# a comment\n\n  --text=with a blank  \n--flagfile=" + folder.path("inner") + "\n");
  const Parsed got = parse({"--flagfile", folder.path("outer"), "f.heddle"});
  EXPECT_EQ(got.code, std::nullopt) << got.said;
  EXPECT_EQ(got.text, "with a blank");
  EXPECT_EQ(got.count, 5u);
  EXPECT_EQ(got.file, "f.heddle");
}

TEST(Flags, FlagfileThatNamesItselfEnds) {
  heddle::testing::TemporaryFolder folder;
  heddle::testing::write_file(folder.path("loop"), "--flagfile=" + folder.path("loop") + "\n");
  EXPECT_THAT(parse({"--flagfile", folder.path("loop")}).said, HasSubstr("nested more than 8 deep"));
}

TEST(SameFile, SeesThroughFoldersAndLinks) {
  heddle::testing::TemporaryFolder folder;
  heddle::testing::write_file(folder.path("there"), "x");
  std::filesystem::create_directory(folder.path("inner"));
  std::filesystem::create_symlink("there", folder.path("link"));
  EXPECT_TRUE(same_file(folder.path("there"), folder.path("inner/../there")));
  EXPECT_TRUE(same_file(folder.path("there"), folder.path("link")));
  EXPECT_TRUE(same_file(folder.path("absent"), folder.path("inner/../absent")));
  EXPECT_FALSE(same_file(folder.path("there"), folder.path("absent")));
  EXPECT_FALSE(same_file(folder.path("absent"), folder.path("inner/absent")));
  EXPECT_FALSE(same_file("/dev/null", "/dev/null"));  // takes what several write
}

TEST(SameFile, NamesTheFlags) {
  EXPECT_EQ(file_named_twice({{"-o", "a"}, {"--report", ""}, {"--dump-to", "b"}}, {{"MODEL", "c"}, {"--params", ""}}), "");
  EXPECT_EQ(file_named_twice({{"-o", "a"}}, {{"MODEL", "./a"}}), "-o would overwrite MODEL, './a'; name another file");
  EXPECT_EQ(file_named_twice({{"-o", "a"}, {"--report", "./a"}}, {}), "-o and --report both write './a'; name two files");
}

TEST(ProgramSearch, FindsExecutablesOnPathOnly) {
  heddle::testing::TemporaryFolder folder;
  heddle::testing::write_file(folder.path("heddle-weave-x"), "#!/bin/sh\n");
  const std::string old = std::getenv("PATH");
  setenv("PATH", (":" + folder.path("") + ":" + old).c_str(), 1);
  EXPECT_EQ(find_program("heddle-weave-x"), "");  // not executable
  ASSERT_EQ(chmod(folder.path("heddle-weave-x").c_str(), 0755), 0);
  EXPECT_NE(find_program("heddle-weave-x"), "");
  EXPECT_EQ(find_program("heddle-weave-y"), "");
  setenv("PATH", old.c_str(), 1);
}

}  // namespace
}  // namespace heddle::tool
