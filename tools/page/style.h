// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The head of the page. The policy forbids scripts and everything from elsewhere, in case a name should get past the escaping.
#pragma once

namespace heddle::tool {

constexpr const char kHead[] = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<style>
:root{--back:#fff;--text:#1b1f24;--soft:#59636e;--line:#d1d9e0;--edge:#8c959f;--box:#f6f8fa;--lane:#f6f8fa;--frame:#57606a;--bar:#cf222e;
--f0:#eaeef2;--f1:#ddf4ff;--f2:#fbefff;--f3:#fff1d6;--f4:#dafbe1;--f5:#eff1f3;--f6:#ffeff7;--f7:#ffe2d9;--f8:#fff8c5;--f9:#eff1f3;
--s0:#8c959f;--s1:#0969da;--s2:#8250df;--s3:#bc4c00;--s4:#1a7f37;--s5:#6e7781;--s6:#bf3989;--s7:#cf222e;--s8:#9a6700;--s9:#6e7781;
--h1:#fff6f0;--h2:#ffeade;--h3:#ffdcc8;--h4:#ffcbae;--h5:#ffb894;--h6:#ffa37b;--h7:#fd8c63;--h8:#f5744f;--h9:#e95c43}
@media(prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--soft:#9198a1;--line:#3d444d;--edge:#6e7681;--box:#161b22;--lane:#12171e;--frame:#8b949e;--bar:#f85149;
--f0:#21262d;--f1:#0c2d4f;--f2:#2f1c4d;--f3:#3d2304;--f4:#0f3119;--f5:#21262d;--f6:#42162f;--f7:#4a1512;--f8:#3a2b03;--f9:#21262d;
--s0:#6e7681;--s1:#4493f8;--s2:#ab7df8;--s3:#db6d28;--s4:#3fb950;--s5:#8b949e;--s6:#db61a2;--s7:#f85149;--s8:#d29922;--s9:#8b949e;
--h1:#241a17;--h2:#35201a;--h3:#46261c;--h4:#582c1e;--h5:#6b3220;--h6:#7e3822;--h7:#923f24;--h8:#a0431f;--h9:#b04623}}
body{background:var(--back);color:var(--text);font:15px/1.45 system-ui,sans-serif;margin:1.2rem auto;padding:0 1.2rem;max-width:110rem}
h1{font-size:1.5rem;margin:.2rem 0 .6rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:1.2rem 0 .3rem}h3{margin:.1rem 2rem .4rem 0;font-size:1rem;overflow-wrap:anywhere}
h4{margin:.7rem 0 .1rem;font-size:.9rem}
p{margin:.1rem 0;white-space:pre-wrap;overflow-wrap:anywhere}small{color:var(--soft)}a{color:inherit}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.05rem .9rem;margin:0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
ul{margin:.1rem 0;padding-left:1.1rem;overflow-wrap:anywhere}summary{cursor:pointer}details>summary{margin:.6rem 0;font-weight:600}ul details>summary{margin:0;font-weight:400}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.88rem}
td,th{text-align:left;vertical-align:top;padding:.1rem .8rem .1rem 0;border-bottom:1px solid var(--line);white-space:pre-wrap}
td.below{color:var(--soft)}td.meter{min-width:9rem}td.meter i{display:block;height:.7em;margin-top:.35em;background:var(--bar)}
.key{display:inline-block;border:1px solid var(--s);border-left-width:5px;background:var(--f);border-radius:3px;padding:0 .5rem;margin:.1rem .5rem .1rem 0;font-size:.85rem}
svg{display:block;font:12px/1 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
svg text{fill:var(--text)}svg text.first{font-weight:600}svg .second,svg .label,svg .badge,svg .roofline{font-size:10.5px}svg .small text.first{font-weight:400}
svg .second,svg .roofline{fill:var(--soft)}svg .roofline{text-anchor:end}svg text.label{fill:var(--soft);text-anchor:middle}svg rect.label{fill:var(--back);stroke:none}svg text.badge{text-anchor:end;font-weight:600}
svg .line{fill:none;stroke:var(--edge);stroke-width:1.3}
svg.lanes rect.label{fill:var(--lane)}svg rect.lane{fill:var(--lane);stroke:var(--line)}svg text.lane{font-weight:600}
svg rect.block{fill:none;stroke:var(--frame);stroke-dasharray:5 3}
svg .box rect{fill:var(--f);stroke:var(--s)}svg .box:hover rect,svg .box:focus rect{stroke-width:2.5}svg .box rect.strip{fill:var(--s);stroke:none}svg .box rect.bar{fill:var(--bar);stroke:none}
.k0{--f:var(--f0);--s:var(--s0)}.k1{--f:var(--f1);--s:var(--s1)}.k2{--f:var(--f2);--s:var(--s2)}.k3{--f:var(--f3);--s:var(--s3)}.k4{--f:var(--f4);--s:var(--s4)}
.k5{--f:var(--f5);--s:var(--s5)}.k6{--f:var(--f6);--s:var(--s6)}.k7{--f:var(--f7);--s:var(--s7)}.k8{--f:var(--f8);--s:var(--s8)}.k9{--f:var(--f9);--s:var(--s9)}
#heat:checked~main .h0{--f:var(--back)}#heat:checked~main .h1{--f:var(--h1)}#heat:checked~main .h2{--f:var(--h2)}#heat:checked~main .h3{--f:var(--h3)}
#heat:checked~main .h4{--f:var(--h4)}#heat:checked~main .h5{--f:var(--h5)}#heat:checked~main .h6{--f:var(--h6)}#heat:checked~main .h7{--f:var(--h7)}
#heat:checked~main .h8{--f:var(--h8)}#heat:checked~main .h9{--f:var(--h9)}
#heat:checked~main .box .second,#heat:checked~main .box .roofline{fill:var(--text)}#heat:checked~main .box rect.bar{fill:var(--text)}
#all:checked~main .folded,#folded:checked~main .all{display:none}
.panel{display:none;position:fixed;top:0;right:0;bottom:0;width:min(31rem,92vw);overflow-y:auto;background:var(--box);border-left:1px solid var(--line);
box-shadow:0 0 1rem #0003;padding:.8rem 1rem;box-sizing:border-box;font-size:.88rem}
.panel:target{display:block}.close{float:right;text-decoration:none;font-size:1.4rem;line-height:1;padding:0 .3rem}
input[type=radio]{margin:0 .2rem 0 0}input[type=radio]+label{margin-right:1rem}
@media print{.panel,.panel:target,body>input,body>label{display:none}body{margin:0;padding:0;max-width:none;font-size:11px}.wide{overflow:visible}
svg{max-width:100%;height:auto}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
</style>
)";

}  // namespace heddle::tool
