// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes HTML without links, scripts or images; a content security policy in its head forbids them in case any input contains them.
#include "tools/heddle/explain_page.h"

#include <algorithm>
#include <map>

namespace heddle::tool {
namespace {

constexpr int kDeepest = 12;
constexpr size_t kColors = 6;  // slot colors in the style sheet

constexpr const char kHead[] = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<style>
:root{--back:#fff;--text:#1b1f24;--soft:#59636e;--line:#d1d9e0;--box:#f6f8fa}
@media(prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--soft:#9198a1;--line:#3d444d;--box:#161b22}}
body{background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}
h2{font-size:1.1rem;margin-top:2rem;border-bottom:1px solid var(--line)}
p{margin:.1rem 0;white-space:pre-wrap;overflow-wrap:anywhere}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}
td,th{text-align:left;vertical-align:top;padding:.15rem .8rem .15rem 0;border-bottom:1px solid var(--line);white-space:pre-wrap}
td.below,small{color:var(--soft)}ul{margin:.1rem 0;padding-left:1.2rem}
ol{list-style:none;padding:0;display:flex;flex-direction:column;align-items:flex-start}
ol li{background:var(--box);border:1px solid var(--line);border-left:.4rem solid var(--c);border-radius:.3rem;padding:.3rem .7rem;overflow-wrap:anywhere}
ol li+li{margin-top:1.1rem;position:relative}ol li+li::before{content:"\2193";position:absolute;top:-1.35rem;color:var(--soft)}
code{background:var(--back);border:1px solid var(--line);border-radius:.2rem;padding:0 .3rem;margin-right:.3rem}
.c0{--c:#0969da}.c1{--c:#bf8700}.c2{--c:#1a7f37}.c3{--c:#8250df}.c4{--c:#cf222e}.c5{--c:#1b7c83}
</style>
)";

class Page {
 public:
  Page& raw(std::string_view html) {
    html_ += html;
    return *this;
  }
  Page& text(std::string_view given) {
    for (const char c : module::one_line(given)) {
      switch (c) {
        case '&':
          html_ += "&amp;";
          break;
        case '<':
          html_ += "&lt;";
          break;
        case '>':
          html_ += "&gt;";
          break;
        case '"':
          html_ += "&quot;";
          break;
        case '\'':
          html_ += "&#39;";
          break;
        default:
          html_ += c;
      }
    }
    return *this;
  }
  Page& element(std::string_view name, std::string_view content) {
    return raw("<").raw(name).raw(">").text(content).raw("</").raw(name).raw(">");
  }
  std::string take() { return std::move(html_); }

 private:
  std::string html_;
};

void draw(const Table& table, Page& page) {
  page.raw("<div class=wide><table><tr>");
  for (const std::string& title : table.header) page.element("th", title);
  page.raw("</tr>\n");
  for (size_t i = 0; i < table.rows.size(); ++i) {
    page.raw("<tr>");
    for (const std::string& cell : table.rows[i]) page.element("td", cell);
    page.raw("</tr>\n");
    if (i >= table.below.size()) continue;
    for (const std::string& line : table.below[i])
      page.raw("<tr><td class=below colspan=" + std::to_string(table.header.size()) + ">").text(line).raw("</td></tr>\n");
  }
  page.raw("</table></div>\n");
}

void draw(const Json& tree, Page& page, int depth = 0) {
  if (depth > kDeepest) return (void)page.raw("...");
  page.raw("<ul>");
  for (auto part = tree.begin(); part != tree.end(); ++part) {
    page.raw("<li>");
    if (is_plain(*part)) {
      if (tree.is_object()) page.element("small", part.key()).raw(" ");
      page.text(cell_text(*part));
    } else if (tree.is_object()) {
      page.raw("<details><summary>").text(part.key()).raw(" <small>" + std::to_string(part->size()) + "</small></summary>");
      draw(*part, page, depth + 1);
      page.raw("</details>");
    } else if (part->is_object() && std::all_of(part->begin(), part->end(), is_plain)) {
      page.text(plain_fields(*part));
    } else {
      if (part->is_object()) page.text(plain_fields(*part));
      Json nested = part->is_object() ? Json::object() : Json::array();
      for (auto one = part->begin(); one != part->end(); ++one) {
        if (!part->is_object()) {
          nested.push_back(*one);
        } else if (!is_plain(*one)) {
          nested[one.key()] = *one;
        }
      }
      draw(nested, page, depth + 1);
    }
    page.raw("</li>");
  }
  page.raw("</ul>\n");
}

// Regions in the order in which a program enqueues them, each with what was fused into it, its slot and device, and what runs it.
void draw_regions(const Json& whole, Page& page) {
  static const Json kNone = Json::object();
  const Json& told = array(whole.contains("compiler_report") ? whole["compiler_report"] : kNone, "regions");
  const Json& regions = array(whole["places"], "regions");
  std::map<std::pair<std::string, std::string>, const Json*> told_of;
  for (const Json& one : told) told_of.try_emplace({text(one, "region"), text(one, "families")}, &one);
  std::vector<std::string> slots;
  std::string families;
  for (const Json& region : regions) {
    const std::string name = text(region, "region"), slot = text(region, "slot"), on = text(region, "device");
    if (const std::string own = text(region, "families"); own != families || &region == &regions.front()) {
      page.raw(families.empty() ? "" : "</ol>\n").raw("<h2>").text("regions in order, of the program for " + own).raw("</h2>\n<ol>");
      families = own;
    }
    size_t color = static_cast<size_t>(std::find(slots.begin(), slots.end(), slot) - slots.begin());
    if (color == slots.size()) slots.push_back(slot);
    page.raw("<li class=c" + std::to_string(color % kColors) + "><b>").text(name).raw("</b> <small>");
    page.text("slot " + slot + (on == "-" ? "" : ", on " + on));
    for (const auto& [field, words] : {std::pair("placed_by", "; placed by "), std::pair("runs", "; run by "), std::pair("why", "; ")}) {
      if (const std::string value = text(region, field); value != "-") page.text(words + value);
    }
    page.raw("</small>");
    if (const auto one = told_of.find({name, families}); one != told_of.end()) {
      page.raw("<br>");
      for (const Json& op : array(*one->second, "ops")) {
        page.element("code", text(op, "op") + (text(op, "node") == "-" ? "" : " " + text(op, "node")));
      }
    }
    for (const Json& passed : array(region, "passed")) page.raw("<br><small>").text("skipped " + cell_text(passed)).raw("</small>");
    page.raw("</li>\n");
  }
  if (!families.empty()) page.raw("</ol>\n");
}

}  // namespace

std::string explain_page(const Json& whole, const Document& document) {
  Page page;
  const std::string name = text(whole, "name");
  page.raw(kHead).element("title", name + " - heddle explain").raw("</head><body>\n").element("h1", name);
  draw_regions(whole, page);
  for (const Document::Section& section : document.sections()) {
    if (section.parts.empty()) continue;
    page.raw("<section>").element("h2", section.title).raw("\n");
    for (const auto& part : section.parts) {
      if (const auto* line = std::get_if<std::string>(&part)) {
        page.element("p", *line).raw("\n");
      } else if (const auto* table = std::get_if<Table>(&part)) {
        draw(*table, page);
      } else {
        draw(std::get<Json>(part), page);
      }
    }
    page.raw("</section>\n");
  }
  return page.raw("</body></html>\n").take();
}

}  // namespace heddle::tool
