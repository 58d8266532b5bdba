// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layers by longest path; order within layers by barycenters, keeping the order with the fewest crossings; positions by least squares under the
// constraint of the order (pool adjacent violators).
#include "tools/page/layout.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>

namespace heddle::tool {
namespace {

constexpr double kGap = 20, kTall = 1300, kColumnHeight = 900, kPageWidth = 1350, kTrack = 7;  // kTrack: between lines to the next column
constexpr double kTurn = 14, kFirstTurn = 7, kLastTurn = 17;  // of a line to the next column; of several, which turn at different heights
constexpr double kToMiddle = 0.5;                             // of a lane, relative to what the lines weigh
constexpr size_t kMostTracks = 5;
constexpr double kBetweenLayers = 15, kMargin = 14, kPassWidth = 6, kPort = 14, kStraight = 60;
constexpr int kOrderSweeps = 12, kPlaceSweeps = 16, kStraightSweeps = 3;

// A box, or the place where a trunk passes a layer.
struct Item {
  size_t box;  // the trunk's source for a place
  bool is_box;
  size_t layer, lane;
  double width;
  double x = 0;
  std::vector<size_t> above = {}, below = {};
};

class Layered {
 public:
  Layered(std::vector<LayoutBox>& boxes, const std::vector<LayoutLine>& lines, size_t lane_count)
      : boxes_(boxes), lines_(lines), lane_count_(std::max<size_t>(lane_count, 1)) {}

  Layout run() {
    find_layers();
    make_items();
    order();
    place();
    return draw();
  }

 private:
  void find_layers() {
    std::vector<std::vector<size_t>> readers(boxes_.size());
    for (LayoutBox& box : boxes_) box.layer = 0;
    std::vector<std::vector<size_t>> sources(boxes_.size());
    for (const LayoutLine& line : lines_) {
      readers[line.from].push_back(line.to);
      sources[line.to].push_back(line.from);
    }
    for (size_t i = 0; i < boxes_.size(); ++i) {
      for (const size_t from : sources[i]) boxes_[i].layer = std::max(boxes_[i].layer, boxes_[from].layer + 1);
    }
    for (size_t i = boxes_.size(); i-- > 0;) {
      if (!sources[i].empty() || readers[i].empty()) continue;
      size_t first = SIZE_MAX;
      for (const size_t to : readers[i]) first = std::min(first, boxes_[to].layer);
      boxes_[i].layer = first - 1;
    }
    for (const LayoutBox& box : boxes_) layers_.resize(std::max(layers_.size(), box.layer + 1));
  }

  void make_items() {
    std::vector<size_t> last(boxes_.size());
    for (const LayoutLine& line : lines_) last[line.from] = std::max(last[line.from], boxes_[line.to].layer);
    for (size_t i = 0; i < boxes_.size(); ++i) {
      const LayoutBox& box = boxes_[i];
      items_.push_back({i, true, box.layer, box.lane, std::max(box.width, box.label)});
    }
    passes_.resize(boxes_.size());
    for (size_t i = 0; i < boxes_.size(); ++i) {
      size_t previous = i;
      for (size_t layer = boxes_[i].layer + 1; layer < last[i]; ++layer) {
        items_.push_back({i, false, layer, boxes_[i].lane, kPassWidth});
        connect(previous, items_.size() - 1);
        previous = items_.size() - 1;
        passes_[i].push_back(previous);
      }
    }
    for (const LayoutLine& line : lines_) connect(trunk_at(line.from, boxes_[line.to].layer - 1), line.to);
    // In the order of the boxes, a trunk's places with its source: a good start.
    std::vector<size_t> all(items_.size());
    std::iota(all.begin(), all.end(), 0);
    std::stable_sort(all.begin(), all.end(), [&](size_t a, size_t b) { return items_[a].box < items_[b].box; });
    for (const size_t item : all) layers_[items_[item].layer].push_back(item);
    for (auto& layer : layers_) sort_lanes(layer);
  }
  void connect(size_t above, size_t below) {
    items_[above].below.push_back(below);
    items_[below].above.push_back(above);
  }
  // The item of a box's trunk in that layer.
  size_t trunk_at(size_t box, size_t layer) const { return layer == boxes_[box].layer ? box : passes_[box][layer - boxes_[box].layer - 1]; }
  void sort_lanes(std::vector<size_t>& layer) const {
    std::stable_sort(layer.begin(), layer.end(), [&](size_t a, size_t b) { return items_[a].lane < items_[b].lane; });
  }

  void number_positions() {
    positions_.resize(items_.size());
    for (const auto& layer : layers_) {
      for (size_t i = 0; i < layer.size(); ++i) positions_[layer[i]] = i;
    }
  }

  // Inversions between the connections of neighboring layers, counted with a tree of partial sums.
  uint64_t crossings() {
    number_positions();
    uint64_t total = 0;
    for (size_t i = 0; i + 1 < layers_.size(); ++i) {
      const size_t width = layers_[i + 1].size();
      std::vector<uint64_t> sums(width + 1);
      uint64_t seen = 0;
      for (const size_t item : layers_[i]) {
        std::vector<size_t> ends;
        for (const size_t below : items_[item].below) ends.push_back(positions_[below]);
        for (const size_t end : ends) {
          uint64_t left = 0;
          for (size_t k = end + 1; k > 0; k -= k & (~k + 1)) left += sums[k];
          total += seen - left;
        }
        for (const size_t end : ends) {
          for (size_t k = end + 1; k <= width; k += k & (~k + 1)) ++sums[k];
          ++seen;
        }
      }
    }
    return total;
  }

  void sort_by_neighbors(std::vector<size_t>& layer, bool from_above) {
    std::vector<std::pair<double, size_t>> keys;
    for (const size_t item : layer) {
      const auto& neighbors = from_above ? items_[item].above : items_[item].below;
      double sum = 0;
      for (const size_t one : neighbors) sum += static_cast<double>(positions_[one]) + 0.5;
      // An item without neighbors keeps its place.
      const auto own = static_cast<double>(positions_[item]) + 0.5;
      keys.emplace_back(neighbors.empty() ? own : sum / static_cast<double>(neighbors.size()), item);
    }
    std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < layer.size(); ++i) layer[i] = keys[i].second;
    sort_lanes(layer);
    for (size_t i = 0; i < layer.size(); ++i) positions_[layer[i]] = i;
  }

  void order() {
    auto best = layers_;
    uint64_t fewest = crossings();
    for (int sweep = 0; sweep < kOrderSweeps && fewest > 0; ++sweep) {
      number_positions();
      if (sweep % 2 == 0) {
        for (size_t i = 1; i < layers_.size(); ++i) sort_by_neighbors(layers_[i], true);
      } else {
        for (size_t i = layers_.size() - 1; i-- > 0;) sort_by_neighbors(layers_[i], false);
      }
      if (const uint64_t now = crossings(); now < fewest) {
        fewest = now;
        best = layers_;
      }
    }
    layers_ = std::move(best);
  }

  // The items of one lane of one layer, moved to where their neighbors want them, as far as their order and widths allow.
  void settle(const std::vector<size_t>& items, bool use_above, bool use_below) {
    struct Pool {
      double sum = 0, weight = 0;
      size_t count = 0;
      double mean() const { return sum / weight; }
    };
    std::vector<double> offsets;
    std::vector<Pool> pools;
    double offset = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      const Item& item = items_[items[i]];
      if (i > 0) offset += (items_[items[i - 1]].width + item.width) / 2 + kGap;
      offsets.push_back(offset);
      double sum = 0, weight = 0;
      auto pull = [&](const std::vector<size_t>& neighbors) {
        for (const size_t one : neighbors) {
          if (items_[one].lane != item.lane) continue;
          const double own = (item.is_box ? 1 : 4) * (items_[one].is_box ? 1 : 4) / static_cast<double>(neighbors.size());
          sum += own * items_[one].x;
          weight += own;
        }
      };
      if (use_above) pull(item.above);
      if (use_below) pull(item.below);
      if (weight == 0) {
        weight = 0.01;
        sum = weight * item.x;
      }
      if (item.is_box) weight += kToMiddle;  // otherwise a long drawing drifts to one side
      pools.push_back({sum - weight * offset, weight, 1});
      while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
        Pool& into = pools[pools.size() - 2];
        into.sum += pools.back().sum;
        into.weight += pools.back().weight;
        into.count += pools.back().count;
        pools.pop_back();
      }
    }
    size_t next = 0;
    for (const Pool& pool : pools) {
      for (size_t i = 0; i < pool.count; ++i, ++next) items_[items[next]].x = pool.mean() + offsets[next];
    }
  }

  // Small steps of lines are removed where there is room: an item moves under the only one above it.
  void straighten(const std::vector<std::vector<std::vector<size_t>>>& parts) {
    for (const auto& layer : parts) {
      for (const auto& part : layer) {
        for (size_t i = 0; i < part.size(); ++i) {
          Item& item = items_[part[i]];
          if (item.above.size() != 1 || items_[item.above[0]].lane != item.lane) continue;
          const double wanted = items_[item.above[0]].x;
          auto distance = [&](size_t a, size_t b) { return (items_[a].width + items_[b].width) / 2 + kGap; };
          if (i > 0 && wanted - items_[part[i - 1]].x < distance(part[i - 1], part[i])) continue;
          if (i + 1 < part.size() && items_[part[i + 1]].x - wanted < distance(part[i], part[i + 1])) continue;
          if (std::abs(wanted - item.x) < kStraight) item.x = wanted;
        }
      }
    }
  }

  void place() {
    // Per layer and lane.
    std::vector<std::vector<std::vector<size_t>>> parts(layers_.size(), std::vector<std::vector<size_t>>(lane_count_));
    for (size_t i = 0; i < layers_.size(); ++i) {
      for (const size_t item : layers_[i]) parts[i][std::min(items_[item].lane, lane_count_ - 1)].push_back(item);
      for (const auto& part : parts[i]) {
        double width = 0;
        for (const size_t item : part) width += items_[item].width + kGap;
        double x = -width / 2;
        for (const size_t item : part) {
          items_[item].x = x + items_[item].width / 2;
          x += items_[item].width + kGap;
        }
      }
    }
    for (int sweep = 0; sweep < kPlaceSweeps; ++sweep) {
      const bool is_last = sweep + 2 >= kPlaceSweeps;
      for (size_t i = 0; i < layers_.size(); ++i) {
        for (const auto& part : parts[i]) settle(part, true, is_last);
      }
      for (size_t i = layers_.size(); i-- > 0;) {
        for (const auto& part : parts[i]) settle(part, is_last, true);
      }
    }
    for (int sweep = 0; sweep < kStraightSweeps; ++sweep) straighten(parts);
    // Lanes side by side.
    double left = kMargin;
    for (size_t lane = 0; lane < lane_count_; ++lane) {
      double least = 0, most = 0;
      bool is_first = true;
      for (const Item& item : items_) {
        if (std::min(item.lane, lane_count_ - 1) != lane) continue;
        least = is_first ? item.x - item.width / 2 : std::min(least, item.x - item.width / 2);
        most = is_first ? item.x + item.width / 2 : std::max(most, item.x + item.width / 2);
        is_first = false;
      }
      if (is_first) {
        out_.lanes.push_back({left, left});
        continue;
      }
      for (Item& item : items_) {
        if (std::min(item.lane, lane_count_ - 1) == lane) item.x = std::round((item.x + left + kMargin - least) * 2) / 2;
      }
      out_.lanes.push_back({left, left + most - least + 2 * kMargin});
      left = out_.lanes.back().end + kMargin;
    }
    out_.width = left;
  }

  // Cuts a tall drawing below layers that few lines leave, and moves what is below a cut to the right of what is above it.
  void make_columns(std::vector<double>& tops, std::vector<double>& bottoms) {
    if (lane_count_ > 1 || out_.height < kTall) return;
    std::vector<std::vector<size_t>> leaving(layers_.size());  // the boxes whose trunks go on below a layer
    std::vector<bool> is_inside(layers_.size());               // of a block
    std::map<size_t, std::pair<size_t, size_t>> blocks;
    for (size_t i = 0; i < boxes_.size(); ++i) {
      const size_t layer = boxes_[i].layer;
      if (!items_[i].below.empty()) {
        for (size_t k = layer; k <= layer + passes_[i].size(); ++k) leaving[k].push_back(i);
      }
      if (boxes_[i].block == 0) continue;
      auto& [first, last] = blocks.try_emplace(boxes_[i].block, layer, layer).first->second;
      first = std::min(first, layer);
      last = std::max(last, layer);
    }
    for (const auto& [block, ends] : blocks)
      std::fill(is_inside.begin() + static_cast<ptrdiff_t>(ends.first), is_inside.begin() + static_cast<ptrdiff_t>(ends.second), true);
    // As many columns as the page has room for.
    std::vector<size_t> cuts;
    std::vector<double> shifts, ends;  // of the columns: to the right, and where they end
    const double most = kPageWidth / (2 * kMargin);
    for (double wanted = std::min(most, std::ceil(out_.height / kColumnHeight)); wanted >= 2; --wanted) {
      cuts = find_cuts(wanted, bottoms, leaving, is_inside);
      shifts.clear();
      ends.clear();
      double left = 0;
      for (size_t column = 0; column <= cuts.size(); ++column) {
        double least = 1e30, most_right = -1e30;
        for (size_t layer = column == 0 ? 0 : cuts[column - 1] + 1; layer <= (column == cuts.size() ? layers_.size() - 1 : cuts[column]);
             ++layer) {
          for (const size_t item : layers_[layer]) {
            least = std::min(least, items_[item].x - items_[item].width / 2);
            most_right = std::max(most_right, items_[item].x + items_[item].width / 2);
          }
        }
        shifts.push_back(std::round(left + kMargin - least));
        ends.push_back(shifts.back() + most_right + kMargin);
        left = ends.back() + kMargin + (column < cuts.size() ? kTrack * static_cast<double>(leaving[cuts[column]].size()) : 0);
      }
      if (ends.back() <= kPageWidth) break;
      cuts.clear();
    }
    if (cuts.empty()) return;
    out_.height = 0;
    double up = 0;
    for (size_t layer = 0, column = 0; layer < layers_.size(); ++layer) {
      if (column < cuts.size() && layer == cuts[column] + 1) {
        ++column;
        up = tops[layer] - kMargin;
      }
      tops[layer] -= up;
      bottoms[layer] -= up;
      for (const size_t item : layers_[layer]) items_[item].x += shifts[column];
      out_.height = std::max(out_.height, bottoms[layer] + kMargin);
      if (column == cuts.size() || layer != cuts[column]) continue;
      // The last line takes the first track and turns inside of the others, so that they do not cross.
      auto end = [&](size_t box) { return items_[trunk_at(box, layer)].x; };
      std::sort(leaving[layer].begin(), leaving[layer].end(), [&](size_t a, size_t b) { return end(a) > end(b); });
      const size_t count = leaving[layer].size();
      auto turn = [&](size_t k) {
        return count == 1 ? kTurn : kFirstTurn + (kLastTurn - kFirstTurn) * static_cast<double>(k) / static_cast<double>(count - 1);
      };
      for (size_t k = 0; k < count; ++k)
        tracks_[{leaving[layer][k], layer}] = {ends[column] + kTrack * static_cast<double>(k + 1), turn(k), turn(count - 1 - k)};
    }
    out_.width = ends.back();
  }

  // The last layers of the columns but the last one, for so many columns of about equal height.
  std::vector<size_t> find_cuts(double wanted, const std::vector<double>& bottoms, const std::vector<std::vector<size_t>>& leaving,
                                const std::vector<bool>& is_inside) const {
    std::vector<size_t> cuts;
    const double height = out_.height / wanted;
    for (double column = 1; column < wanted; ++column) {
      size_t best = SIZE_MAX;
      double least = height / 2;
      for (size_t i = cuts.empty() ? 0 : cuts.back() + 1; i + 1 < layers_.size(); ++i) {
        const double cost = std::abs(bottoms[i] - height * column) + 60 * static_cast<double>(leaving[i].size());
        if (is_inside[i] || leaving[i].size() > kMostTracks || cost >= least) continue;
        least = cost;
        best = i;
      }
      if (best != SIZE_MAX) cuts.push_back(best);
    }
    return cuts;
  }

  Layout draw() {
    std::vector<double> tops(layers_.size()), bottoms(layers_.size());
    double y = kMargin;
    for (size_t i = 0; i < layers_.size(); ++i) {
      double height = 0;
      for (const size_t item : layers_[i]) {
        if (items_[item].is_box) height = std::max(height, boxes_[items_[item].box].height);
      }
      tops[i] = y;
      bottoms[i] = y + height + kLabelHeight;
      y = bottoms[i] + kBetweenLayers;
    }
    out_.height = y - kBetweenLayers + kMargin;
    make_columns(tops, bottoms);
    for (const Item& item : items_) {
      if (!item.is_box) continue;
      boxes_[item.box].x = item.x;
      boxes_[item.box].y = tops[item.layer];
    }
    for (size_t i = 0; i < boxes_.size(); ++i) {
      if (items_[i].below.empty()) continue;
      Layout::Trunk trunk{i, {{items_[i].x, boxes_[i].y + boxes_[i].height}, {items_[i].x, bottoms[boxes_[i].layer]}}};
      auto turn = [&](size_t layer) {
        const auto track = tracks_.find({i, layer});
        if (track == tracks_.end()) return;
        trunk.points.back().turn = track->second.down;
        trunk.points.push_back({track->second.x, bottoms[layer]});
        trunk.points.push_back({track->second.x, tops[layer + 1], track->second.up});
      };
      turn(boxes_[i].layer);
      for (const size_t pass : passes_[i]) {
        trunk.points.push_back({items_[pass].x, tops[items_[pass].layer]});
        trunk.points.push_back({items_[pass].x, bottoms[items_[pass].layer]});
        turn(items_[pass].layer);
      }
      out_.trunks.push_back(std::move(trunk));
    }
    // The lines into a box end side by side, in the order in which they come.
    std::vector<std::vector<size_t>> into(boxes_.size());
    for (size_t i = 0; i < lines_.size(); ++i) into[lines_[i].to].push_back(i);
    for (size_t box = 0; box < boxes_.size(); ++box) {
      if (into[box].empty()) continue;
      const size_t above = boxes_[box].layer - 1;
      auto start = [&](size_t line) {
        const auto track = tracks_.find({lines_[line].from, above});
        return track == tracks_.end() ? Point{items_[trunk_at(lines_[line].from, above)].x, bottoms[above]}
                                      : Point{track->second.x, tops[above + 1], track->second.up};
      };
      std::stable_sort(into[box].begin(), into[box].end(), [&](size_t a, size_t b) { return start(a).x < start(b).x; });
      const auto count = static_cast<double>(into[box].size());
      const double step = count > 1 ? std::min(kPort, (boxes_[box].width - 2 * kPort) / (count - 1)) : 0;
      for (size_t k = 0; k < into[box].size(); ++k) {
        const size_t line = into[box][k];
        const double x = boxes_[box].x + (static_cast<double>(k) - (count - 1) / 2) * step;
        out_.branches.push_back({lines_[line].from, box, start(line), {x, boxes_[box].y}});
      }
    }
    return std::move(out_);
  }

  std::vector<LayoutBox>& boxes_;
  const std::vector<LayoutLine>& lines_;
  const size_t lane_count_;
  std::vector<Item> items_;                  // the boxes are the first
  std::vector<std::vector<size_t>> passes_;  // the items of each box's trunk, by layer
  std::vector<std::vector<size_t>> layers_;
  std::vector<size_t> positions_;
  // Where a trunk goes up to the next column, and how far its curves to and from there turn.
  struct Track {
    double x, down, up;
  };
  std::map<std::pair<size_t, size_t>, Track> tracks_;  // by box and the last layer of a column
  Layout out_;
};

}  // namespace

Layout lay_out(std::vector<LayoutBox>& boxes, const std::vector<LayoutLine>& lines, size_t lane_count) {
  if (boxes.empty()) return {};
  return Layered(boxes, lines, lane_count).run();
}

}  // namespace heddle::tool
