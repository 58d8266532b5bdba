// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each struct is visited once, for both directions. See messages.h.
#include "heddle/sdk/target/messages.h"

#include <bit>
#include <cstring>

namespace heddle::sdk::target {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers of frames are little-endian, and copied as they are");

class Writer {
 public:
  template <class T>
  void number(T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string& value) {
    count(value.size());
    bytes_ += value;
  }
  template <class T, class Visit>
  void list(std::vector<T>& values, uint32_t, Visit&& visit) {
    count(values.size());
    for (T& value : values) visit(value);
  }
  std::string frame(Kind kind) {
    if (is_too_long_ || bytes_.size() > UINT32_MAX) return {};
    return write_header({static_cast<uint32_t>(bytes_.size()), static_cast<uint16_t>(kind), kProtocol}) + bytes_;
  }

 private:
  void count(uint64_t value) {
    is_too_long_ |= value > UINT32_MAX;
    auto narrow = static_cast<uint32_t>(value);
    number(narrow);
  }
  std::string bytes_;
  bool is_too_long_ = false;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  template <class T>
  void number(T& value) {
    if (!take(sizeof value)) return;
    std::memcpy(&value, left_.data() - sizeof value, sizeof value);
  }
  void text(std::string& value) {
    const uint32_t size = count();
    if (take(size)) value.assign(left_.data() - size, size);
  }
  // least_bytes: of an element of the list.
  template <class T, class Visit>
  void list(std::vector<T>& values, uint32_t least_bytes, Visit&& visit) {
    const uint32_t size = count();
    if (!is_good_ || size > left_.size() / least_bytes) {
      is_good_ = false;
      return;
    }
    values.resize(size);
    for (T& value : values) visit(value);
  }
  bool is_complete() const { return is_good_ && left_.empty(); }

 private:
  bool take(size_t size) {
    is_good_ = is_good_ && size <= left_.size();
    if (is_good_) left_.remove_prefix(size);
    return is_good_;
  }
  uint32_t count() {
    uint32_t value = 0;
    number(value);
    return value;
  }
  std::string_view left_;
  bool is_good_ = true;
};

template <class A>
void visit(A& a, std::vector<uint32_t>& values) {
  a.list(values, 4, [&](uint32_t& value) { a.number(value); });
}

template <class A>
void visit(A& a, std::vector<Expression>& expressions) {
  a.list(expressions, 24,
         [&](Expression& each) { a.number(each.kind), a.number(each.a), a.number(each.b), a.number(each.reserved), a.number(each.value); });
}

template <class A>
void visit(A& a, Hello& m) {
  a.text(m.library), a.text(m.id), a.text(m.version), a.text(m.name), a.text(m.level), a.number(m.fast_math);
  a.list(m.facts, 28,
         [&](Fact& fact) { a.text(fact.name), a.number(fact.kind), a.number(fact.integer), a.number(fact.number), a.text(fact.text); });
  a.number(m.memory_bytes), a.number(m.cpu_seconds);
}

template <class A>
void visit(A& a, Ready& m) {
  a.number(m.abi_minor), a.number(m.can_inspect);
}

template <class A>
void visit(A& a, Failed& m) {
  a.number(m.code), a.text(m.message);
}

template <class A>
void visit(A& a, Graph& m) {
  a.text(m.function), a.text(m.code), a.number(m.symbol_count), a.number(m.group_count);
  visit(a, m.expressions);
  a.list(m.values, 12, [&](Value& value) { a.number(value.type), a.number(value.flags), visit(a, value.extents); });
  a.list(m.nodes, 24, [&](Node& node) {
    a.number(node.kernel), a.number(node.group), a.text(node.name), a.text(node.location);
    visit(a, node.inputs), visit(a, node.outputs);
  });
}

template <class A>
void visit(A& a, Answer& m) {
  a.list(m.claims, 20, [&](Claim& claim) { visit(a, claim.nodes), a.text(claim.name), a.text(claim.reason), a.number(claim.cost_ns); });
  a.list(m.refusals, 8, [&](Refusal& refusal) { a.number(refusal.node), a.text(refusal.reason); });
}

template <class A>
void visit(A& a, Kernel& m) {
  a.text(m.name), a.text(m.claim), a.text(m.code), a.number(m.symbol_count), a.number(m.input_count), a.number(m.output_count);
}

template <class A>
void visit(A& a, Code& m) {
  a.text(m.format), a.text(m.target), a.text(m.bytes), a.text(m.note);
  visit(a, m.expressions);
  a.list(m.entries, 52, [&](Entry& entry) {
    a.text(entry.name);
    a.list(entry.guards, 24,
           [&](Guard& guard) { a.number(guard.expression), a.number(guard.reserved), a.number(guard.min), a.number(guard.max); });
    for (uint32_t* number :
         {&entry.workgroups, &entry.workgroup_size, &entry.subgroup_size, &entry.binding_count, &entry.constants_bytes}) {
      a.number(*number);
    }
    a.number(entry.shared_memory_bytes), a.number(entry.workspace_bytes), a.number(entry.cost_ns);
  });
}

template <class Message>
std::string encoded(const Message& message, Kind kind) {
  Writer writer;
  visit(writer, const_cast<Message&>(message));  // a writer changes nothing
  return writer.frame(kind);
}

template <class Message>
bool decoded(std::string_view payload, Message* out) {
  Reader reader(payload);
  visit(reader, *out);
  return reader.is_complete();
}

}  // namespace

std::string encode(const Hello& message) {
  return encoded(message, Kind::kHello);
}
std::string encode(const Ready& message) {
  return encoded(message, Kind::kReady);
}
std::string encode(const Failed& message) {
  return encoded(message, Kind::kFailed);
}
std::string encode(const Graph& message) {
  return encoded(message, Kind::kClaim);
}
std::string encode(const Answer& message) {
  return encoded(message, Kind::kAnswer);
}
std::string encode(const Kernel& message) {
  return encoded(message, Kind::kEmit);
}
std::string encode(const Code& message, Kind kind) {
  return encoded(message, kind);
}

bool decode(std::string_view payload, Hello* out) {
  return decoded(payload, out);
}
bool decode(std::string_view payload, Ready* out) {
  return decoded(payload, out);
}
bool decode(std::string_view payload, Failed* out) {
  return decoded(payload, out);
}
bool decode(std::string_view payload, Graph* out) {
  return decoded(payload, out);
}
bool decode(std::string_view payload, Answer* out) {
  return decoded(payload, out);
}
bool decode(std::string_view payload, Kernel* out) {
  return decoded(payload, out);
}
bool decode(std::string_view payload, Code* out) {
  return decoded(payload, out);
}

std::string write_header(const FrameHeader& header) {
  std::string bytes(kHeaderBytes, '\0');
  std::memcpy(bytes.data(), &header.bytes, 4);
  std::memcpy(bytes.data() + 4, &header.kind, 2);
  std::memcpy(bytes.data() + 6, &header.protocol, 2);
  return bytes;
}

FrameHeader read_header(const char (&bytes)[kHeaderBytes]) {
  FrameHeader header;
  std::memcpy(&header.bytes, bytes, 4);
  std::memcpy(&header.kind, bytes + 4, 2);
  std::memcpy(&header.protocol, bytes + 6, 2);
  return header;
}

}  // namespace heddle::sdk::target
