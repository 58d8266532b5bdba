// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes of text are known without a browser: it is in a font of fixed width, whose characters are at most 0.61 of its size wide.
#include "tools/page/drawing.h"

#include <algorithm>
#include <cmath>

#include "sdk/module/error.h"
#include "tools/page/layout.h"

namespace heddle::tool {
namespace {

using module::concat;

constexpr double kWide = 214, kWideTimed = 234, kRegionHeight = 38, kEndHeight = 22, kTimeHeight = 15, kLaneTitle = 26;
constexpr double kLargeColumn = 12 * 0.61, kSmallColumn = 10.5 * 0.61;  // as in the style sheet
constexpr double kTextBegin = 11, kPadding = 16;
constexpr size_t kLabelColumns = 34;
constexpr int kHeats = 9;
constexpr double kHottest = 0.25;  // the share of the time that has the last color, unless a box has a larger one

std::string times_sign(size_t count) {
  return concat("\xC3\x97", count);
}

// "conv, add, relu"; what does not fit is counted.
std::string ops_text(const Node& node, size_t most) {
  // What only moves elements says little where something is computed.
  static constexpr const char* kMovement[] = {"reshape", "transpose", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Expand"};
  std::vector<std::string> words;
  for (const std::string& op : node.ops) {
    if (std::find(std::begin(kMovement), std::end(kMovement), op) == std::end(kMovement)) words.push_back(op);
  }
  if (words.empty()) words = node.ops;
  if (words.empty()) words.push_back(node.name);
  // "3 MatMul, 3 Add"; a list that does not fit starts with the root.
  std::vector<std::pair<std::string, size_t>> counts;
  for (const std::string& word : words) {
    const auto same = std::find_if(counts.begin(), counts.end(), [&](const auto& one) { return one.first == word; });
    if (same == counts.end()) {
      counts.emplace_back(word, 1);
    } else {
      ++same->second;
    }
  }
  auto word_of = [](const std::pair<std::string, size_t>& one) { return one.second > 1 ? concat(one.second, " ", one.first) : one.first; };
  std::string line;
  for (const auto& one : counts) line += (line.empty() ? "" : ", ") + word_of(one);
  if (columns_of(line) <= most) return line;
  const auto root = std::find_if(counts.begin(), counts.end(), [&](const auto& one) { return one.first == node.root; });
  if (root != counts.end()) std::rotate(counts.begin(), root, root + 1);
  const size_t reserved = columns_of(concat(" +", words.size()));
  line = word_of(counts[0]);
  size_t left = words.size() - counts[0].second;
  for (size_t i = 1; i < counts.size(); ++i) {
    const std::string longer = line + ", " + word_of(counts[i]);
    if (columns_of(longer) + reserved > most) continue;
    line = longer;
    left -= counts[i].second;
  }
  return cut_end(left > 0 ? line + concat(" +", left) : line, most);
}

std::string nodes_text(const Node& node, size_t most) {
  if (node.nodes.empty()) return cut_begin(node.name, most);
  const std::string more = node.nodes.size() > 1 ? concat(" +", node.nodes.size() - 1) : std::string();
  return cut_begin(node.nodes[0], most - more.size()) + more;
}

std::string types_text(const std::vector<std::string>& types) {
  std::vector<std::pair<std::string, size_t>> counts;
  for (const std::string& type : types) {
    if (type.empty()) continue;
    const auto same = std::find_if(counts.begin(), counts.end(), [&](const auto& one) { return one.first == type; });
    if (same == counts.end()) {
      counts.emplace_back(type, 1);
    } else {
      ++same->second;
    }
  }
  std::string out;
  for (const auto& [type, count] : counts) out += (out.empty() ? "" : ", ") + (count > 1 ? concat(count, " of ", type) : type);
  return out;
}

struct Shown {
  const Node* node;
  std::string first, second, third, roofline, label, badge, target, title;
  double ns = 0;
  LayoutBox box;
};

class Drawing {
 public:
  Drawing(const Graph& graph, const Picture& picture, const std::vector<std::string>& slots, const std::string& prefix, const Times& times,
          Html& out)
      : graph_(graph), picture_(picture), slots_(slots), prefix_(prefix), times_(times), out_(out) {}

  void run() {
    for (const Node& node : graph_.nodes) lanes_ = std::max<size_t>(lanes_, std::min<size_t>(node.slot + 1, slots_.size()));
    for (const Box& box : picture_.boxes) {
      shown_.push_back(show(box));
      if (times_.sum_ns > 0) hottest_ = std::max(hottest_, shown_.back().ns / times_.sum_ns);
    }
    std::vector<LayoutBox> boxes;
    for (const Shown& one : shown_) boxes.push_back(one.box);
    std::vector<LayoutLine> lines;
    for (const Line& line : picture_.lines) lines.push_back({line.from, line.to});
    const Layout layout = lay_out(boxes, lines, lanes_);
    for (size_t i = 0; i < boxes.size(); ++i) shown_[i].box = boxes[i];
    const double top = lanes_ > 1 ? kLaneTitle : 0;
    out_.raw(lanes_ > 1 ? "<svg class=\"lanes\" width=\"" : "<svg width=\"")
        .number(layout.width)
        .raw("\" height=\"")
        .number(layout.height + top)
        .raw("\" viewBox=\"0 ")
        .number(top > 0 ? -top : 0)
        .raw(" ");
    out_.number(layout.width).raw(" ").number(layout.height + top).raw("\" role=\"img\">\n");
    draw_lanes(layout);
    draw_blocks();
    draw_lines(layout);
    for (const Shown& one : shown_) draw_box(one);
    out_.raw("</svg>\n");
  }

 private:
  // The time of all nodes of a box: of equal places of all repetitions.
  double time_of(const Box& box) const {
    const Node& first = graph_.nodes[box.node];
    if (box.count == 1) return times_.of(first);
    double sum = 0;
    for (const size_t node : picture_.nodes_of(static_cast<size_t>(&box - picture_.boxes.data()))) sum += times_.of(graph_.nodes[node]);
    return sum;
  }

  // The shortest time at the device's peaks by the measured one, of all nodes of a box; -1 if it is not known of each.
  double roofline_of(const Box& box) const {
    double shortest_ns = 0, sum_ns = 0;
    for (const size_t node : picture_.nodes_of(static_cast<size_t>(&box - picture_.boxes.data()))) {
      const Times::Time* time = times_.find(graph_.nodes[node]);
      if (!time || time->roofline < 0) return -1;
      shortest_ns += time->roofline * time->ns;
      sum_ns += time->ns;
    }
    return sum_ns > 0 ? shortest_ns / sum_ns : -1;
  }

  Shown show(const Box& box) const {
    const Node& node = graph_.nodes[box.node];
    Shown out{&node, {}, {}, {}, {}, {}, {}, {}, {}, time_of(box), {}};
    const double wide = times_.empty() ? kWide : kWideTimed;
    const auto large_columns = static_cast<size_t>((wide - kPadding) / kLargeColumn);
    const auto small_columns = static_cast<size_t>((wide - kPadding) / kSmallColumn);
    const bool is_end = node.kind == Node::Kind::kArgument || node.kind == Node::Kind::kResult || node.kind == Node::Kind::kState;
    if (box.count > 1) out.badge = times_sign(box.count);
    const size_t first_columns = large_columns - (out.badge.empty() ? 0 : columns_of(out.badge) + 1);
    LayoutBox& place = out.box;
    place.block = box.block;
    place.lane = std::min<size_t>(node.slot, lanes_ - 1);
    if (node.kind == Node::Kind::kRegion) {
      out.first = ops_text(node, first_columns);
      out.second = nodes_text(node, small_columns);
      place.width = wide;
      place.height = kRegionHeight;
      if (out.ns > 0) {
        out.third = duration_text(out.ns);
        if (times_.sum_ns > 0) out.third += ", " + share_text(out.ns / times_.sum_ns);
        const double roofline = roofline_of(box);
        const std::string words = concat("roofline ", std::lround(roofline * 100), " %");
        if (roofline >= 0 && columns_of(out.third) + 1 + columns_of(words) <= small_columns) out.roofline = words;
      }
      if (!times_.empty()) place.height += kTimeHeight;
    } else {
      const std::string bytes = node.size.empty() ? std::string() : " " + node.size;
      out.first = is_end ? cut_begin(node.name, first_columns) : cut_end(node.crosses() ? "copy" + bytes : node.name, first_columns);
      if (out.ns > 0) out.second = duration_text(out.ns);
      const size_t columns = columns_of(out.first) + (out.badge.empty() ? 0 : columns_of(out.badge) + 1);
      place.width = std::clamp(static_cast<double>(columns) * kLargeColumn + kPadding, 48.0, wide);
      place.height = kEndHeight;
      if (out.ns > 0) {
        place.width = std::max(place.width, static_cast<double>(columns_of(out.second)) * kSmallColumn + kPadding);
        place.height += kTimeHeight;
      }
    }
    place.width = std::ceil(place.width);
    if (node.kind != Node::Kind::kRead) out.label = cut_end(types_text(node.outputs), kLabelColumns);
    if (!out.label.empty()) place.label = static_cast<double>(columns_of(out.label)) * kSmallColumn + 6;
    out.target = (box.count > 1 ? "g" : "p") + prefix_ + "-" + std::to_string(box.node);
    out.title = node.name;
    for (const std::string& one : node.nodes) out.title += (&one == &node.nodes.front() ? ": " : ", ") + one;
    return out;
  }

  void draw_lanes(const Layout& layout) {
    if (lanes_ < 2) return;
    for (size_t i = 0; i < layout.lanes.size(); ++i) {
      const auto& [begin, end] = layout.lanes[i];
      if (end <= begin) continue;
      out_.raw("<rect class=\"lane\" x=\"").number(begin).raw("\" y=\"").number(-kLaneTitle).raw("\" width=\"").number(end - begin);
      out_.raw("\" height=\"")
          .number(layout.height + kLaneTitle)
          .raw("\"/><text class=\"lane\" x=\"")
          .number(begin + 10)
          .raw("\" y=\"-8\">");
      const auto columns = static_cast<size_t>((end - begin - 20) / kLargeColumn);
      out_.text(cut_end(i < slots_.size() ? slots_[i] : std::string(), columns)).raw("</text>\n");
    }
  }

  // A frame around the boxes of a block, unless other boxes are between them.
  void draw_blocks() {
    constexpr double kFrame = 7;
    for (size_t block = 1; block <= picture_.blocks; ++block) {
      double left = 1e30, right = -1e30, top = 1e30, bottom = -1e30;
      size_t count = 0;
      for (size_t i = 0; i < shown_.size(); ++i) {
        if (picture_.boxes[i].block != block) continue;
        const LayoutBox& box = shown_[i].box;
        left = std::min(left, box.x - box.width / 2 - kFrame);
        right = std::max(right, box.x + box.width / 2 + kFrame);
        top = std::min(top, box.y - kFrame);
        bottom = std::max(bottom, box.y + box.height + kLabelHeight);
        count = std::max(count, picture_.boxes[i].count);
      }
      bool is_free = true;
      for (size_t i = 0; i < shown_.size(); ++i) {
        const LayoutBox& box = shown_[i].box;
        if (picture_.boxes[i].block == block) continue;
        is_free &= box.x + box.width / 2 < left || box.x - box.width / 2 > right || box.y + box.height < top || box.y > bottom;
      }
      if (!is_free || count < 2) continue;
      out_.raw("<rect class=\"block\" x=\"")
          .number(left)
          .raw("\" y=\"")
          .number(top)
          .raw("\" width=\"")
          .number(right - left)
          .raw("\" height=\"");
      out_.number(bottom - top).raw("\" rx=\"6\"/>\n");
    }
  }

  Html& point(const Point& one) { return out_.number(one.x).raw(" ").number(one.y); }
  // With vertical tangents.
  void curve(const Point& from, const Point& to, double middle) {
    if (from.x == to.x) {
      out_.raw("V").number(to.y);
    } else {
      out_.raw("C");
      point({from.x, middle}).raw(" ");
      point({to.x, middle}).raw(" ");
      point(to);
    }
  }

  void draw_lines(const Layout& layout) {
    for (const Layout::Trunk& trunk : layout.trunks) {
      out_.raw("<path class=\"line\" data-of=\"").number(picture_.boxes[trunk.from].node).raw("\" d=\"M");
      point(trunk.points[0]);
      for (size_t i = 1; i < trunk.points.size(); i += 2) {
        // A straight run is one segment.
        while (i + 2 < trunk.points.size() && trunk.points[i + 2].x == trunk.points[i].x) i += 2;
        out_.raw("V").number(trunk.points[i].y);
        if (i + 1 >= trunk.points.size()) break;
        const Point &from = trunk.points[i], &to = trunk.points[i + 1];
        const bool goes_up = i + 2 < trunk.points.size() && trunk.points[i + 2].y < to.y;
        curve(from, to, from.y == to.y ? from.y + (goes_up ? from.turn : -from.turn) : (from.y + to.y) / 2);
      }
      out_.raw("\"/>\n");
    }
    for (const Layout::Branch& branch : layout.branches) {
      out_.raw("<path class=\"line end\" data-from=\"")
          .number(picture_.boxes[branch.from].node)
          .raw("\" data-to=\"")
          .number(picture_.boxes[branch.to].node);
      out_.raw("\" d=\"M");
      point(branch.begin);
      // From a line that came up from the column before, or from above.
      curve(branch.begin, branch.end,
            branch.begin.y == branch.end.y ? branch.begin.y - branch.begin.turn : (branch.begin.y + branch.end.y) / 2);
      out_.raw("\"/>\n");
    }
    for (const Shown& one : shown_) {
      if (one.label.empty()) continue;
      const double width = static_cast<double>(columns_of(one.label)) * kSmallColumn + 4, y = one.box.y + one.box.height + 2;
      out_.raw("<rect class=\"label\" x=\"").number(one.box.x - width / 2).raw("\" y=\"").number(y).raw("\" width=\"").number(width);
      out_.raw("\" height=\"14\"/><text class=\"label\" x=\"").number(one.box.x).raw("\" y=\"").number(y + 11).raw("\">");
      out_.text(one.label).raw("</text>\n");
    }
  }

  void draw_box(const Shown& one) {
    const LayoutBox& box = one.box;
    const double left = box.x - box.width / 2;
    const auto heat = one.ns > 0 && times_.sum_ns > 0
                          ? std::clamp(static_cast<int>(std::ceil(std::sqrt(one.ns / times_.sum_ns / hottest_) * kHeats)), 1, kHeats)
                          : 0;
    out_.raw("<a href=\"#")
        .raw(one.target)
        .raw("\" class=\"box ")
        .raw(group_class(one.node->group))
        .raw(" h")
        .number(static_cast<size_t>(heat));
    out_.raw(one.node->kind == Node::Kind::kRegion ? "" : " small")
        .raw("\" data-node=\"")
        .number(static_cast<size_t>(one.node - graph_.nodes.data()));
    out_.raw("\"><title>")
        .text(one.title)
        .raw("</title><rect x=\"")
        .number(left)
        .raw("\" y=\"")
        .number(box.y)
        .raw("\" width=\"")
        .number(box.width);
    out_.raw("\" height=\"").number(box.height).raw("\" rx=\"4\"/>");
    const bool is_region = one.node->kind == Node::Kind::kRegion;
    if (is_region) {
      out_.raw("<rect class=\"strip\" x=\"")
          .number(left)
          .raw("\" y=\"")
          .number(box.y)
          .raw("\" width=\"4\" height=\"")
          .number(box.height)
          .raw("\"/>");
    }
    auto line = [&](const char* kind, double y, const std::string& words) {
      if (words.empty()) return;
      out_.raw("<text class=\"")
          .raw(kind)
          .raw("\" x=\"")
          .number(left + (is_region ? kTextBegin : kPadding / 2))
          .raw("\" y=\"")
          .number(box.y + y)
          .raw("\">");
      out_.text(words).raw("</text>");
    };
    line("first", 16, one.first);
    line("second", 31, one.second);
    line("second", 45, one.third);
    auto right = [&](const char* kind, double y, const std::string& words) {
      if (words.empty()) return;
      out_.raw("<text class=\"").raw(kind).raw("\" x=\"").number(left + box.width - 5).raw("\" y=\"").number(box.y + y);
      out_.raw("\">").text(words).raw("</text>");
    };
    right("badge", 16, one.badge);
    right("roofline", 45, one.roofline);
    if (one.ns > 0 && is_region && times_.sum_ns > 0) {
      out_.raw("<rect class=\"bar\" x=\"").number(left + 4).raw("\" y=\"").number(box.y + box.height - 4).raw("\" width=\"");
      out_.number((box.width - 4) * std::min(1.0, one.ns / times_.sum_ns)).raw("\" height=\"4\"/>");
    }
    out_.raw("</a>\n");
  }

  const Graph& graph_;
  const Picture& picture_;
  const std::vector<std::string>& slots_;
  const std::string& prefix_;
  const Times& times_;
  Html& out_;
  size_t lanes_ = 1;
  double hottest_ = kHottest;
  std::vector<Shown> shown_;
};

}  // namespace

Times::Times(const Json& profile) {
  for (const Json& row : array(profile, "regions")) {
    if (!row.is_object() || !row.contains("time_ns") || !row["time_ns"].is_number()) continue;
    Time& sum = of_region[text(row, "region")];
    sum.ns += row["time_ns"].get<double>();
    if (row.contains("count") && row["count"].is_number()) sum.count += row["count"].get<double>();
    sum_ns += row["time_ns"].get<double>();
    if (text(row, "kind") == "copy") copies_ns += row["time_ns"].get<double>();
    // A region has several rows only if several kernels ran it; then there is no figure for all.
    auto take = [&](const char* name, double& out) {
      const bool is_known = row.contains(name) && row[name].is_number() && sum.ns == row["time_ns"].get<double>();
      out = is_known ? row[name].get<double>() : -1;
    };
    take("roofline", sum.roofline);
    take("gflops", sum.gflops);
    take("flops_share", sum.flops_share);
    take("gbytes", sum.gbytes);
    take("bytes_share", sum.bytes_share);
  }
  if (profile.is_object() && profile.contains("call_ns") && profile["call_ns"].is_number()) call_ns = profile["call_ns"].get<double>();
}

double Times::of(const Node& node) const {
  const Time* found = find(node);
  return found ? found->ns : 0;
}

const Times::Time* Times::find(const Node& node) const {
  if (node.kind != Node::Kind::kRegion) return nullptr;
  const auto found = of_region.find(node.whole_name);
  return found == of_region.end() ? nullptr : &found->second;
}

std::string group_class(const std::string& group) {
  static const std::map<std::string, const char*> kClasses{
      {"contraction", "k1"},     {"attention", "k2"}, {"rows", "k3"},     {"pooling", "k4"}, {"movement", "k5"}, {"element-wise", "k6"},
      {"plugin operator", "k7"}, {"copy", "k8"},      {"argument", "k0"}, {"result", "k0"},  {"state", "k0"}};
  const auto found = kClasses.find(group);
  return found == kClasses.end() ? "k9" : found->second;
}

void draw(const Graph& graph, const Picture& picture, const std::vector<std::string>& slots, const std::string& prefix, const Times& times,
          Html& out) {
  Drawing(graph, picture, slots, prefix, times, out).run();
}

}  // namespace heddle::tool
