// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/compile/reproducer.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include "sdk/module/output_file.h"
#include "tools/heddle/output.h"
#include "tools/heddle/report_view.h"

namespace heddle::tool {
namespace {

constexpr std::string_view kHead = "// heddle reproducer ";
constexpr std::string_view kModelLine = "//= ";  // of the model in base64
constexpr size_t kLineBytes = 96;                // of the model; 128 letters
constexpr uintmax_t kLargestModel = 64u << 20;
constexpr int kFormat = 1;
constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(bytes.size() - i, 3);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) out += j <= count ? kLetters[bits >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

// False for what is no base64.
bool add_base64(std::string_view letters, std::string& out) {
  if (letters.size() % 4 != 0) return false;
  for (size_t i = 0; i < letters.size(); i += 4) {
    uint32_t bits = 0;
    size_t count = 0;
    for (size_t j = 0; j < 4; ++j) {
      const char c = letters[i + j];
      const char* at = c == '=' ? nullptr : static_cast<const char*>(std::memchr(kLetters, c, sizeof(kLetters) - 1));
      if (!at && (c != '=' || j < 2 || i + 4 != letters.size())) return false;
      if (at && count < j) return false;  // a letter after a '='
      bits = bits << 6 | (at ? static_cast<uint32_t>(at - kLetters) : 0u);
      if (at) ++count;
    }
    for (size_t j = 0; j + 1 < count; ++j) out += static_cast<char>(bits >> (16 - 8 * j) & 255);
  }
  return true;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The last text that the child kept. In memory that both processes share.
struct Kept {
  std::atomic<uint32_t> size;
  char text[64 * 1024];
};

std::atomic<pid_t> g_child{0};
std::atomic<int> g_passed_on{0};

void pass_on(int number) {
  g_passed_on = number;
  if (const pid_t child = g_child; child > 0) kill(child, number);
}

}  // namespace

std::string Reproducer::write(const std::string& path) const {
  const bool has_ir = !ir.empty();
  std::vector<std::string> all = has_ir ? std::vector<std::string>() : flags_of_model;
  all.insert(all.end(), flags.begin(), flags.end());
  Json head = {{"format", kFormat},
               {"version", HEDDLE_VERSION},
               {"contents", has_ir ? "ir" : "model"},
               {"model", std::filesystem::path(model).filename().string()},
               {"flags", all},
               {"step", step},
               {"failure", failure}};
  std::string body = ir;
  if (!has_ir) {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(model, error);
    if (error) return "the model cannot be read: " + error.message();
    if (size > kLargestModel)
      return "the import failed, and the model, of " + bytes_text(size) +
             ", is too large to be part of it; keep the model, or make it smaller with heddle reduce";
    const std::string bytes = read_file(model);
    for (size_t i = 0; i < bytes.size(); i += kLineBytes)
      body.append(kModelLine).append(base64(std::string_view(bytes).substr(i, kLineBytes))).append("\n");
  }
  const std::string content = std::string(kHead) + head.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n" + body;
  module::OutputFile file(path);
  module::Status wrong = file.open();
  if (!wrong) wrong = file.append(std::as_bytes(std::span(content)));
  if (!wrong) wrong = file.commit(/*flush_to_disk=*/false);
  return wrong ? wrong->message : std::string();
}

std::optional<Rerun> read_reproducer(const std::string& path, std::string& wrong) {
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) {
    wrong = std::strerror(errno);
    return std::nullopt;
  }
  const std::string text = read_file(path);
  const size_t end = std::min(text.find('\n'), text.size());
  const Json head = text.starts_with(kHead) ? parse_json(text.substr(kHead.size(), end - kHead.size())) : Json();
  if (!head.is_object()) {
    wrong = "it does not begin with '" + std::string(kHead) + "', as files of --reproducer do";
    return std::nullopt;
  }
  if (number(head, "format") != kFormat) {
    wrong = "its format is " + std::to_string(number(head, "format")) + ", and this version reads " + std::to_string(kFormat) +
            "; use the version that wrote it, " + heddle::tool::text(head, "version");
    return std::nullopt;
  }
  Rerun rerun;
  for (const Json& flag : array(head, "flags")) {
    if (flag.is_string()) rerun.flags.push_back(flag.get<std::string>());
  }
  rerun.is_model = heddle::tool::text(head, "contents") == "model";
  rerun.name = std::filesystem::path(heddle::tool::text(head, "model")).filename().string();
  rerun.failure = heddle::tool::text(head, "failure");
  rerun.step = heddle::tool::text(head, "step");
  rerun.version = heddle::tool::text(head, "version");
  if (!rerun.is_model) {
    rerun.content = text;
    rerun.name = std::filesystem::path(rerun.name).stem().string() + ".mlir";
    return rerun;
  }
  for (size_t at = end; at < text.size();) {
    const size_t begin = at + 1, next = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(std::min(begin, text.size()), next - std::min(begin, text.size()));
    at = next;
    if (line.empty()) continue;
    if (!line.starts_with(kModelLine) || !add_base64(line.substr(kModelLine.size()), rerun.content)) {
      wrong = "the model in it is damaged; its lines are base64";
      return std::nullopt;
    }
  }
  return rerun;
}

ChildEnd run_in_child(const std::function<int(const std::function<void(const std::string&)>& keep)>& work, std::string& kept) {
  ChildEnd end;
  void* shared = mmap(nullptr, sizeof(Kept), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    end.wrong = std::strerror(errno);
    return end;
  }
  Kept& memory = *static_cast<Kept*>(shared);
  std::fflush(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) {
    end.wrong = std::strerror(errno);
    munmap(shared, sizeof(Kept));
    return end;
  }
  if (child == 0) {
    // A terminal's Ctrl-C reaches the parent alone, which passes it on: once, not twice.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const int code = work([&memory](const std::string& text) {
      const uint32_t size = static_cast<uint32_t>(std::min(text.size(), sizeof(memory.text)));
      memory.size = 0;
      std::memcpy(memory.text, text.data(), size);
      memory.size = size;
    });
    finish_output();
    std::fflush(nullptr);
    _exit(code);
  }
  g_child = child;
  std::array<void (*)(int), 3> before{};
  constexpr std::array numbers{SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < numbers.size(); ++i) {
    before[i] = signal(numbers[i], pass_on);
    if (before[i] == SIG_IGN) signal(numbers[i], SIG_IGN);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  g_child = 0;
  for (size_t i = 0; i < numbers.size(); ++i) signal(numbers[i], before[i]);
  kept.assign(memory.text, memory.size);
  munmap(shared, sizeof(Kept));
  end.interrupted = g_passed_on != 0;
  end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  end.code = end.signal != 0 ? 128 + end.signal : WEXITSTATUS(status);
  return end;
}

}  // namespace heddle::tool
