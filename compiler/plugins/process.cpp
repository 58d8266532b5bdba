// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See process.h. A pair of sockets instead of pipes: writing to a process that is gone is an error and no signal.
#include "compiler/plugins/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

extern char** environ;

namespace heddle::plugins {
namespace {

using Clock = std::chrono::steady_clock;
namespace target = sdk::target;

// Whether the socket is ready before the deadline.
bool wait_for(int socket, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd one{socket, events, 0};
    const int ready = poll(&one, 1, static_cast<int>(std::min<int64_t>(left, 1 << 20)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace

TargetProcess::~TargetProcess() {
  stop();
}

std::string TargetProcess::start(const std::string& program) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return std::string("making a pair of sockets failed: ") + std::strerror(errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  // Not the mask or the handling of signals of the application.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string path = program;
  char* arguments[] = {path.data(), nullptr};
  const int error = posix_spawn(&pid_, path.c_str(), &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    pid_ = 0;
    return "starting '" + program + "' failed: " + std::strerror(error);
  }
  socket_ = ends[0];
  fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL) | O_NONBLOCK);
  return {};
}

void TargetProcess::stop() {
  if (pid_ <= 0) return;
  close(socket_);
  socket_ = -1;
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

std::string TargetProcess::ended(const std::string& otherwise) {
  // A process that has crashed may need a moment until it can be waited for.
  int status = 0;
  pid_t found = 0;
  for (int i = 0; i < 200 && found == 0; ++i) {
    found = waitpid(pid_, &status, WNOHANG);
    if (found == 0 && otherwise.empty()) usleep(5000);
    if (found == 0 && !otherwise.empty()) break;
  }
  if (found != pid_) {
    stop();
    return otherwise.empty() ? "it closed its output" : otherwise;
  }
  pid_ = 0;
  close(socket_);
  socket_ = -1;
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    if (number == SIGXCPU) return "it used all processor time that it may use";
    return "it was ended by signal " + std::to_string(number) + " (" + strsignal(number) + ")";
  }
  return "it ended with exit code " + std::to_string(WEXITSTATUS(status));
}

std::string TargetProcess::exchange(const std::string& frame, std::chrono::milliseconds timeout, uint64_t most_bytes, Frame& answer) {
  const Clock::time_point deadline = Clock::now() + timeout;
  const std::string late = "it did not answer within " + std::to_string(timeout.count()) + " ms";
  for (size_t sent = 0; sent < frame.size();) {
    if (!wait_for(socket_, POLLOUT, deadline)) return ended(late);
    const ssize_t count = send(socket_, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return ended("");
    sent += static_cast<size_t>(count);
  }
  auto take = [&](char* to, size_t size) -> std::string {
    while (size != 0) {
      if (!wait_for(socket_, POLLIN, deadline)) return ended(late);
      const ssize_t count = recv(socket_, to, size, 0);
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count <= 0) return ended("");
      to += count;
      size -= static_cast<size_t>(count);
    }
    return {};
  };
  char bytes[target::kHeaderBytes];
  if (std::string wrong = take(bytes, sizeof bytes); !wrong.empty()) return wrong;
  const target::FrameHeader header = target::read_header(bytes);
  if (header.protocol != target::kProtocol) {
    return ended("it speaks protocol " + std::to_string(header.protocol) + ", and this compiler " + std::to_string(target::kProtocol) +
                 "; install both of one version");
  }
  if (header.bytes > most_bytes)
    return ended("its answer has " + std::to_string(header.bytes) + " bytes, more than the " + std::to_string(most_bytes) +
                 " that it may have");
  answer.kind = static_cast<target::Kind>(header.kind);
  answer.payload.resize(header.bytes);
  return take(answer.payload.data(), answer.payload.size());
}

}  // namespace heddle::plugins
