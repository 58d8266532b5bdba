#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Records what the interpreter makes of single vector and scalar instructions, for tests/amdgpu/against_tinygrad.py.

  instruction_records.py FOLDER [--chips gfx90a,gfx1201] [--run BUILD/tests/amdgpu-run] [--only REGEX]

The emulator of tinygrad executes AMD's pseudocode of each instruction, so that comparing the records with it compares the interpreter with that
pseudocode. For every instruction of the interpreter that takes registers and gives registers, and for which LLVM knows a form of those below, there is a
kernel that executes it on random and special values. Needs clang-19. What has no such form is not recorded: memory, branches, matrices, lanes.
"""
import argparse
import itertools
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

CHIPS = ("gfx90a", "gfx942", "gfx1100", "gfx1201")
CLANG = next((path for path in ("/usr/lib/llvm-19/bin/clang", "/usr/bin/clang-19") if pathlib.Path(path).exists()), "clang-19")
VECTOR_LANES, SCALAR_LANES, LANE_BYTES, RESULT_BYTES = 1024, 4096, 24, 16
# Instructions that go elsewhere, or change which lanes are on.
LEFT_OUT = re.compile(r"s_(load|buffer|store|swappc|getpc|setpc|rfe|call|getreg|setreg|mov_fed|movrel|quadmask|wqm)|saveexec|wrexec|"
                      r"^v_cmpx|^v_(mfma|wmma|swmmac|smfmac|movrel)")


def vector_forms(wide, compares):
    """Texts after the mnemonic. Sources are in v[8:13], the results in v[16:17] and the condition register."""
    condition = "vcc" if wide else "vcc_lo"
    sources = [("v8", "v[8:9]"), ("v10", "v[10:11]"), ("v12", "v[12:13]")]
    for count in () if compares else (3, 2, 1):
        for result in ("v16", "v[16:17]"):
            for chosen in itertools.product(*sources[:count]):
                listed = ", ".join(chosen)
                yield f"{result}, {listed}"
                yield f"{result}, {condition}, {listed}"
                if count == 2:
                    yield f"{result}, {condition}, {listed}, {condition}"
                    yield f"{result}, {listed}, {condition}"
    for chosen in itertools.product(*sources[:2]):
        yield f"{condition}, " + ", ".join(chosen)


def scalar_forms():
    """Sources are in s[12:15], the result in s[16:17]."""
    sources = [("s12", "s[12:13]"), ("s14", "s[14:15]")]
    for count in (2, 1):
        for result in ("s16", "s[16:17]"):
            for chosen in itertools.product(*sources[:count]):
                yield f"{result}, " + ", ".join(chosen)
    for chosen in itertools.product(*sources):
        yield ", ".join(chosen)


def assemble(chip, text, output):
    """The lines of the text that LLVM refuses."""
    command = [CLANG, "-x", "assembler", "--target=amdgcn-amd-amdhsa", f"-mcpu={chip}", "-nogpulib", "-mcode-object-version=5", "-o", output, "-"]
    if output == "/dev/null":
        command.insert(1, "-c")
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    lines = {int(number) for number in re.findall(r"^<stdin>:(\d+):\d+: error", result.stderr, re.MULTILINE)}
    if result.returncode and not lines:
        raise SystemExit(f"instruction_records: assembling for {chip} failed: {result.stderr[:2000]}")
    return lines


def known_forms(chip, names):
    """{mnemonic: the first form that LLVM assembles}."""
    wide = chip.startswith("gfx9")
    tried = [(name, form) for name in names for form in (scalar_forms() if name.startswith("s_") else vector_forms(wide, name.startswith("v_cmp_")))]
    refused = assemble(chip, "".join(f"{name} {form}\n" for name, form in tried), "/dev/null")
    found = {}
    for line, (name, form) in enumerate(tried, 1):
        if line not in refused:
            found.setdefault(name, form)
    return found


def body(chip, name, form):
    """A kernel's instructions: s[0:1] points to the arguments, which are the address of the values and that of the results."""
    gfx9, gfx12 = chip.startswith("gfx9"), chip.startswith("gfx12")
    loads = ("s_load_dwordx4", "global_load_dwordx4", "global_load_dwordx2", "global_store_dwordx4") if gfx9 else (
        "s_load_b128", "global_load_b128", "global_load_b64", "global_store_b128")
    scalar_wait, load_wait = ("s_wait_kmcnt 0x0", "s_wait_loadcnt 0x0") if gfx12 else ("s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)")
    lines = [f"{loads[0]} s[4:7], s[0:1], 0x0", f"s_lshl_b32 s8, {'ttmp9' if gfx12 else 's2'}, 6", "v_and_b32 v0, 0x3ff, v0",
             f"{'v_add_u32' if gfx9 else 'v_add_nc_u32'} v0, s8, v0", f"v_mul_u32_u24 v1, {LANE_BYTES}, v0", "v_lshlrev_b32 v2, 4, v0", scalar_wait,
             f"{loads[1]} v[8:11], v1, s[4:5]", f"{loads[2]} v[12:13], v1, s[4:5] offset:16", load_wait, "v_mov_b32 v16, 0x11111111",
             "v_mov_b32 v17, 0x22222222", "v_mov_b32 v18, 0", "v_mov_b32 v19, 0"]
    if name.startswith("s_"):
        lines += [f"v_readfirstlane_b32 s{12 + n}, v{8 + n}" for n in range(4)]
        if name.startswith("s_bfe"):  # the interpreter refuses fields that are wider than the operand
            lines.append(f"s_and_b32 s14, s14, {'0x3f003f' if name.endswith('64') else '0x1f001f'}")
        lines += ["s_mov_b32 s16, 0x11111111", "s_mov_b32 s17, 0x22222222", "s_cmp_eq_u32 s15, s12", f"{name} {form}", "s_cselect_b32 s18, 1, 0",
                  "v_mov_b32 v16, s16", "v_mov_b32 v17, s17", "v_mov_b32 v18, s18"]
    else:
        lines += ["s_mov_b32 vcc_lo, 0x5a0ff369"] + (["s_mov_b32 vcc_hi, 0x96c3a53c"] if gfx9 else [])
        lines += [f"{name} {form}", "v_mov_b32 v18, vcc_lo"] + (["v_mov_b32 v19, vcc_hi"] if gfx9 else [])
    return lines + [f"{loads[3]} v2, v[16:19], s[6:7]", "s_endpgm"]


def program(chip, forms):
    text, kernels = f'.amdgcn_target "amdgcn-amd-amdhsa--{chip}"\n.text\n', ""
    wide = chip.startswith("gfx9")
    for name, form in forms.items():
        text += f".globl k_{name}\n.p2align 8\n.type k_{name},@function\nk_{name}:\n" + "".join(f"  {line}\n" for line in body(chip, name, form))
        text += (f".section .rodata\n.p2align 6\n.amdhsa_kernel k_{name}\n.amdhsa_kernarg_size 16\n.amdhsa_user_sgpr_kernarg_segment_ptr 1\n"
                 ".amdhsa_system_sgpr_workgroup_id_x 1\n.amdhsa_float_denorm_mode_32 3\n.amdhsa_next_free_vgpr 32\n.amdhsa_next_free_sgpr 32\n"
                 + (".amdhsa_accum_offset 32\n" if wide else ".amdhsa_wavefront_size32 1\n") + ".end_amdhsa_kernel\n.text\n")
        kernels += f"""
  - .name: k_{name}
    .symbol: k_{name}.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: {64 if wide else 32}
    .sgpr_count: 32
    .vgpr_count: 32
    .max_flat_workgroup_size: 256
    .args:
      - {{.name: values, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.name: results, .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}}"""
    return text + f".amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.target: amdgcn-amd-amdhsa--{chip}\namdhsa.kernels:{kernels}\n...\n.end_amdgpu_metadata\n"


def values(lanes):
    """Three sources of 64 bits for each lane: numbers of every kind that there is."""
    chosen = random.Random(7)
    singles = [0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001,
               0x3F000000, 0x40490FDB, 0x4B000000, 0x4F000000, 0xCF000000, 0x7FFFFFFF, 0xFFFFFFFF, 0x3C003C00, 0x7C00FC00, 0x00010001, 0x7BFF0400, 0xFF00FF]
    doubles = [0, 1 << 63, 1, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x3FF0000000000000, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FF8000000000000,
               0x41DFFFFFFFC00000, 0xC1E0000000000000, 0x43E0000000000000, 0xFFF0000000000000]

    def one():
        kind = chosen.randrange(8)
        if kind == 0:
            return chosen.choice(doubles)
        if kind == 1:
            return struct.unpack("<Q", struct.pack("<d", chosen.gauss(0, 1) * 10.0 ** chosen.randint(-12, 12)))[0]
        low, high = (chosen.choice(singles) if kind < 4 else struct.unpack("<I", struct.pack("<f", chosen.gauss(0, 1) * 10.0 ** chosen.randint(-6, 6)))[0]
                     if kind < 6 else chosen.getrandbits(32) if kind == 6 else chosen.randrange(64) for _ in range(2))
        return high << 32 | low

    return b"".join(struct.pack("<3Q", one(), one(), one()) for _ in range(lanes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the records go")
    parser.add_argument("--only", default="", metavar="REGEX", help="only mnemonics that this is found in")
    parser.add_argument("--chips", default=",".join(CHIPS), help=f"of {', '.join(CHIPS)}")
    parser.add_argument("--run", default="build/release/tests/amdgpu-run", metavar="FILE", help="amdgpu-run (build/release/tests/amdgpu-run)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    implemented = subprocess.run([options.run, "--implemented"], capture_output=True, text=True, check=True).stdout.split()
    names = [name for name in implemented if re.match(r"[vs]_", name) and not LEFT_OUT.search(name)
             and re.search(options.only, name)]
    with tempfile.TemporaryDirectory(prefix="instructions-") as work:
        inputs = {}
        for lanes in (VECTOR_LANES, SCALAR_LANES):
            inputs[lanes] = pathlib.Path(work) / f"values.{lanes}"
            inputs[lanes].write_bytes(values(lanes))
        for chip in options.chips.split(","):
            forms, image, failures = known_forms(chip, names), pathlib.Path(work) / f"{chip}.hsaco", 0
            if refused := assemble(chip, program(chip, forms), str(image)):
                raise SystemExit(f"instruction_records: {chip}: LLVM refuses lines {sorted(refused)[:5]} of the kernels")
            for name in forms:
                lanes = SCALAR_LANES if name.startswith("s_") else VECTOR_LANES
                result = subprocess.run([options.run, image, f"k_{name}", "--grid", str(lanes), "--block", "64", "--arg",
                                         f"buffer:{lanes * LANE_BYTES}={inputs[lanes]}", "--arg", f"buffer:{lanes * RESULT_BYTES}"], capture_output=True, text=True,
                                        check=False, env={"HEDDLE_AMDGPU_RECORD": str(options.folder)})
                if result.returncode:
                    failures += 1
                    print(f"{chip} {name} {forms[name]}: not recorded: {result.stderr.strip().splitlines()[0][:200]}")
            scalars = sum(name.startswith("s_") for name in forms)
            print(f"{chip}: {len(forms) - scalars} vector and {scalars} scalar instructions, {failures} not recorded", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
