// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Flags implemented with CLI11. Its exceptions do not leave this file.
#include "tools/heddle/flags.h"
#include "tools/heddle/output.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <map>

#include "sdk/module/error.h"
#include "sdk/module/nearest.h"
#include "tools/heddle/raised_rights.h"

namespace heddle::tool {
namespace {

constexpr int kMaxFlagfileDepth = 8;
constexpr size_t kMaxFlagfileLine = 65536;

std::string trimmed(const std::string& line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

// Replaces `--flagfile FILE` and `--flagfile=FILE` by the file's lines. Returns an error text, or nothing.
std::string expand_flagfiles(const Arguments& arguments, int depth, Arguments& out) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string path;
    if (arguments[i].rfind("--flagfile=", 0) == 0) {
      path = arguments[i].substr(11);
    } else if (arguments[i] == "--flagfile") {
      if (++i == arguments.size()) return "--flagfile needs a value: FILE";
      path = arguments[i];
    } else {
      out.push_back(arguments[i]);
      continue;
    }
    if (has_raised_rights()) return "--flagfile is not accepted with raised privileges; write out the flags";
    if (depth == kMaxFlagfileDepth)
      return "flag file '" + path + "' is nested more than " + std::to_string(kMaxFlagfileDepth) + " deep; write out its flags";
    std::ifstream file(path);
    if (!file) return "flag file '" + path + "' cannot be read: " + module::why_not_opened(errno);
    Arguments lines;
    for (std::string line; std::getline(file, line);) {
      if (line.size() > kMaxFlagfileLine)
        return "flag file '" + path + "' has a line of more than 65536 bytes; write one argument per line";
      line = trimmed(line);
      if (!line.empty() && line[0] != '#') lines.push_back(line);
    }
    if (std::string wrong = expand_flagfiles(lines, depth + 1, out); !wrong.empty()) return wrong;
  }
  return {};
}

template <typename T>
std::string range_text(T least, T most) {
  std::ostringstream text;
  text << least << ".." << most;
  return text.str();
}

template <typename T>
std::string in_range(const std::string& given, T value, T least, T most) {
  return value >= least && value <= most ? std::string() : given + " is outside " + range_text(least, most);
}

}  // namespace

struct Flags::State {
  CLI::App app;
  std::string command;
  std::string flagfile;  // only for the help: expanded before CLI11 sees it
  std::vector<std::string> names{"--help", "--flagfile"};
  // For completion: the words of a flag with a value (none: files), and of each positional argument.
  std::map<std::string, std::vector<std::string>> values{{"--flagfile", {}}};
  std::vector<std::vector<std::string>> positionals;
  // For error texts: the form of a flag's value, and name and help of each positional argument.
  std::map<std::string, std::string> forms{{"--flagfile", "FILE"}};
  std::vector<std::pair<std::string, std::string>> arguments;
  State(std::string about, std::string name) : app(std::move(about), "heddle " + name), command(std::move(name)) {}
  // Target of positionals(); null without one.
  std::vector<std::string>* rest = nullptr;
  std::string rest_name, rest_help;

  std::string help() const {
    std::string text = app.help();
    if (!rest) return text;
    // In the same form as CLI11's own entries.
    text.insert(text.find('\n', text.find("Usage:")), " [" + rest_name + "...]");
    const std::string name = "  " + rest_name;
    text.insert(text.find("\n\nOptions:"), "\n" + name + std::string(30 - std::min<size_t>(name.size(), 29), ' ') + rest_help);
    return text;
  }
  // Handles leftover arguments: values for positionals(), or unknown ones.
  std::string take_rest() {
    if (!rest) return {};
    *rest = app.remaining();
    const auto flag = std::find_if(rest->begin(), rest->end(), [](const std::string& one) { return one.size() > 1 && one[0] == '-'; });
    return flag == rest->end() ? "" : unknown({*flag});
  }
  // Names the leftover arguments that are unknown. If any are options, only these are named, since the value of an unknown option is left
  // over with it.
  std::string unknown(std::vector<std::string> left) const {
    auto is_option = [](const std::string& one) { return one.size() > 1 && one[0] == '-'; };
    if (std::any_of(left.begin(), left.end(), is_option)) std::erase_if(left, [&](const std::string& one) { return !is_option(one); });
    const bool are_options = !left.empty() && is_option(left.front());
    std::string text = std::string(are_options ? "unknown option" : "unexpected argument") + (left.size() == 1 ? "" : "s"), separator = " ";
    for (const std::string& one : left) {
      const std::string name = are_options ? one.substr(0, one.find('=')) : one;
      const std::string meant = are_options ? module::nearest(name, names) : std::string();
      text += separator + "'" + name + "'" + (meant.empty() ? "" : " (did you mean '" + meant + "'?)");
      separator = ", ";
    }
    return are_options ? text : text + "; heddle " + command + " takes " + argument_names();
  }
  // "MODULE, and all else as flags"
  std::string argument_names() const {
    std::string text;
    for (const auto& [name, help] : arguments) text += (text.empty() ? "" : " ") + name;
    return text.empty() ? "only flags" : text + ", and all else as flags";
  }
  // CLI11's "--input: 1 required TEXT missing" as "--input needs a value: FILE".
  std::string without_value(const std::string& text) const {
    const std::string name = text.substr(0, text.find(':'));
    const auto form = forms.find(name);
    return form == forms.end() ? text : name + " needs a value: " + form->second;
  }
  // "MODULE is required" with what it is.
  std::string without_argument(const std::string& text) const {
    for (const auto& [name, help] : arguments) {
      if (text == name + " is required") return text + ": " + help;
    }
    return text;
  }
  // words: of the option's value.
  CLI::Option* remember(const std::string& name, CLI::Option* option, const std::string& form, const std::vector<std::string>& words = {}) {
    for (size_t begin = 0; begin < name.size();) {
      const size_t comma = std::min(name.find(',', begin), name.size());
      names.push_back(name.substr(begin, comma - begin));
      if (option->get_items_expected_min() > 0) values[names.back()] = words;
      if (option->get_items_expected_min() > 0) forms[names.back()] = form;
      begin = comma + 1;
    }
    return form.empty() ? option : option->option_text(form);
  }
  // Prints the candidates for the last word; none if it is a file's name, which the shell completes itself.
  void complete(Arguments words) const {
    // bash splits --name=value at the equals sign, other shells do not.
    std::string before, last = words.empty() ? "" : words.back();
    if (!words.empty()) words.pop_back();
    if (!words.empty() && last == "=") last.clear();
    if (!words.empty() && words.back() == "=") words.pop_back();
    if (const size_t equals = last.find('='); last.starts_with("--") && equals != std::string::npos) {
      words.push_back(last.substr(0, equals));
      before = last.substr(0, equals + 1);
      last.erase(0, equals + 1);
    }
    static const std::vector<std::string> kFiles;
    size_t position = 0;
    const std::vector<std::string>* wanted = nullptr;  // words of the value that comes next
    for (const std::string& word : words) {
      const auto value = values.find(word);
      if (word == "=") {
        if (!wanted) wanted = &kFiles;
      } else if (wanted) {
        wanted = nullptr;
      } else if (value != values.end()) {
        wanted = &value->second;
      } else if (!word.starts_with("-")) {
        ++position;
      }
    }
    std::vector<std::string> candidates;
    if (!wanted && last.starts_with("-")) {
      candidates = names;
    } else if (wanted) {
      candidates = *wanted;
    } else if (position < positionals.size()) {
      candidates = positionals[position];
    }
    for (std::string& one : candidates) one.insert(0, before);
    print_candidates(candidates, before + last);
  }
};

Flags::Flags(std::string command, std::string about) : state_(std::make_unique<State>(std::move(about), std::move(command))) {
  state_->app.add_option("--flagfile", state_->flagfile, "read arguments from FILE, one per line")->option_text("FILE");
}
Flags::~Flags() = default;

void Flags::positional(const std::string& name, std::string& target, const std::string& help, bool required,
                       std::vector<std::string> words) {
  state_->positionals.push_back(std::move(words));
  state_->arguments.emplace_back(name, help);
  state_->app.add_option(name, target, help)->required(required)->option_text(" ");
}
void Flags::positionals(const std::string& name, std::vector<std::string>& target, const std::string& help) {
  // Handles leftovers here, since CLI11 would take "[a,b]", which may be a glob, for a list of values of an option.
  state_->app.allow_extras();
  state_->rest = &target;
  state_->rest_name = name;
  state_->rest_help = help;
}
void Flags::text(const std::string& name, std::string& target, const std::string& help, const std::string& value_name) {
  state_->remember(name, state_->app.add_option(name, target, help), value_name);
}
void Flags::texts(const std::string& name, std::vector<std::string>& target, const std::string& help, const std::string& value_name) {
  // One value per occurrence, so that `--input A B` does not swallow a positional.
  auto take = [&target](const std::string& value) { target.push_back(value); };
  state_->remember(name, state_->app.add_option_function<std::string>(name, take, help + "; may be repeated"), value_name)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->trigger_on_parse();
}
void Flags::number(const std::string& name, double& target, const std::string& help, double least, double most) {
  state_->remember(name, state_->app.add_option(name, target, help), "NUMBER")->check([least, most](const std::string& given) {
    double value = 0;
    return CLI::detail::lexical_cast(given, value) ? in_range(given, value, least, most)
                                                   : given + " is not a number of " + range_text(least, most);
  });
}
void Flags::count(const std::string& name, uint64_t& target, const std::string& help, uint64_t least, uint64_t most) {
  state_->remember(name, state_->app.add_option(name, target, help), "N")->check([least, most](const std::string& given) {
    uint64_t value = 0;
    const bool digits = !given.empty() && given.find_first_not_of("0123456789") == std::string::npos;
    return digits && CLI::detail::lexical_cast(given, value) ? in_range(given, value, least, most)
                                                             : given + " is not an integer of " + range_text(least, most);
  });
}
void Flags::on(const std::string& name, bool& target, const std::string& help) {
  state_->remember(name, state_->app.add_flag(name, target, help), "");
}
void Flags::word(const std::string& name, std::string& target, const std::string& help) {
  state_->remember(name, state_->app.add_flag(name, target, help), "");
}
void Flags::choice(const std::string& name, std::string& target, const std::vector<std::string>& choices, const std::string& help) {
  std::string list;
  for (const std::string& one : choices) list += (list.empty() ? "" : "|") + one;
  state_->remember(name, state_->app.add_option(name, target, help), list, choices)->check([choices, list](const std::string& given) {
    const bool known = std::find(choices.begin(), choices.end(), given) != choices.end();
    return known ? std::string() : "'" + given + "' is not one of " + list;
  });
}

std::optional<int> Flags::parse(const Arguments& arguments) {
  if (!arguments.empty() && arguments[0] == "--words") {
    state_->complete(Arguments(arguments.begin() + 1, arguments.end()));
    return kFine;
  }
  Arguments expanded;
  if (const std::string wrong = expand_flagfiles(arguments, 0, expanded); !wrong.empty()) return misuse(wrong);
  try {
    std::reverse(expanded.begin(), expanded.end());  // CLI11 takes arguments from the back
    state_->app.parse(expanded);
    if (const std::string wrong = state_->take_rest(); !wrong.empty()) return misuse(wrong);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    std::fputs(state_->help().c_str(), stdout);
    return kFine;
  } catch (const CLI::ExtrasError&) {
    return misuse(state_->unknown(state_->app.remaining()));
  } catch (const CLI::ArgumentMismatch& error) {
    return misuse(state_->without_value(error.what()));
  } catch (const CLI::RequiredError& error) {
    return misuse(state_->without_argument(error.what()));
  } catch (const CLI::ParseError& error) {
    return misuse(error.what());
  }
}

bool Flags::given(const std::string& name) const {
  return state_->app.get_option(name)->count() != 0;
}

int Flags::misuse(const std::string& what) const {
  std::fprintf(stderr, "heddle %s: %s; see heddle %s --help\n", state_->command.c_str(), printable(what).c_str(), state_->command.c_str());
  return kUsage;
}

int Flags::failed(const std::string& what) const {
  std::fprintf(stderr, "heddle %s: %s\n", state_->command.c_str(), printable(what).c_str());
  return kFailed;
}

}  // namespace heddle::tool
