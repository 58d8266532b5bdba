#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares records of single instructions with what AMD's guides say in words, where the pseudocode is incomplete or an emulator of it is.

  tests/amdgpu/instruction_records.py records
  tests/amdgpu/against_definitions.py records

The definitions below are of exact numbers, rounded once: of all instructions for which tests/amdgpu/against_tinygrad.py does not say 'equal', but for
v_div_scale, v_div_fmas and the v_div_fixup of f32 and f64, which are right if divisions are (tests/amdgpu/kernels), and s_bfe. Ends with 1 if a lane of a
record has another result. Where a result is not a number, any NaN will do.
"""
import argparse
import collections
import math
import pathlib
import re
import struct
import sys
from fractions import Fraction

from against_tinygrad import read

FIRST = (0x11111111, 0x22222222)  # what the results' registers have before
CONDITION = (0x5A0FF369, 0x96C3A53C)
CODES = {16: ("e", "H"), 32: ("f", "I"), 64: ("d", "Q")}
MANTISSAS = {16: (10, -14, 15), 32: (23, -126, 127), 64: (52, -1022, 1023)}  # bits; the smallest and the largest exponent
NAN, INFINITY = math.nan, math.inf


def real(bits, width):
    float_code, integer_code = CODES[width]
    return struct.unpack("<" + float_code, struct.pack("<" + integer_code, bits & (1 << width) - 1))[0]


def bits_of(value, width, toward_zero=False):
    """The number of that width that is nearest to an exact one, of two the even one. A Fraction has no sign of 0; a float has."""
    float_code, integer_code = CODES[width]
    mantissa, lowest, highest = MANTISSAS[width]
    if isinstance(value, float) and (not math.isfinite(value) or value == 0):
        return struct.unpack("<" + integer_code, struct.pack("<" + float_code, value))[0]
    exact = Fraction(value)
    if exact:
        exponent = abs(exact.numerator).bit_length() - exact.denominator.bit_length()
        exponent -= abs(exact) < Fraction(2) ** exponent
        unit = Fraction(2) ** (max(exponent, lowest) - mantissa)
        exact = (math.trunc(exact / unit) if toward_zero else round(exact / unit)) * unit
    largest = (2 - Fraction(1, 2**mantissa)) * Fraction(2) ** highest
    if abs(exact) > largest:
        exact = largest if toward_zero else INFINITY
    return struct.unpack("<" + integer_code, struct.pack("<" + float_code, math.copysign(float(exact), -1 if value < 0 else 1)))[0]


def flushed(x):
    return math.copysign(0.0, x) if abs(x) < 2.0**-126 else x


def signed(bits, width):
    bits &= (1 << width) - 1
    return bits - (bits >> width - 1 << width)


def total(values):
    """A product and a summand, or two summands, exactly; infinities and zeros as floats have them."""
    *factors, summand = values
    if not all(map(math.isfinite, values)):
        return summand if all(map(math.isfinite, factors)) else math.prod(factors) + summand
    exact = math.prod(map(Fraction, factors)) + Fraction(summand)
    if exact:
        return exact
    if all(factors):
        return 0.0 if summand or sign(factors) > 0 or math.copysign(1, summand) > 0 else -0.0
    return -0.0 if sign(factors) < 0 and math.copysign(1, summand) < 0 and not summand else 0.0


def sign(factors):
    return math.prod(math.copysign(1, factor) for factor in factors)


def product(a, b):
    """Exactly; a float where it is 0 or no number."""
    if not a or not b or not math.isfinite(a) or not math.isfinite(b):
        return a * b
    return Fraction(a) * Fraction(b)


def rounded(value, width):
    return real(bits_of(value, width), width)


def ordered(x):
    return (x, math.copysign(1, x))


def extreme(chip, largest, width, bits):
    """GFX9 and GFX11, in the mode of LLVM's kernels, give a signaling NaN back, otherwise the number, if there is one. GFX12 always gives that."""
    result = bits[0]
    for other in bits[1:]:
        pair = (result, other)
        signaling = [one for one in pair if math.isnan(real(one, width)) and not one >> MANTISSAS[width][0] - 1 & 1]
        numbers = [one for one in pair if not math.isnan(real(one, width))]
        if signaling and not chip.startswith("gfx12"):
            result = signaling[0] | 1 << MANTISSAS[width][0] - 1
        elif not numbers:
            result = bits_of(NAN, width)
        else:
            result = (max if largest else min)(numbers, key=lambda one: ordered(real(one, width)))
    return result


def median(chip, width, bits):
    if any(math.isnan(real(one, width)) for one in bits):
        return extreme(chip, False, width, bits)
    return sorted(bits, key=lambda one: ordered(real(one, width)))[1]


def whole(x, low, high, to=math.trunc):
    if math.isnan(x):
        return 0
    return low if x <= low else high if x >= high else to(x)


def packed(low, high):
    return low & 0xFFFF | (high & 0xFFFF) << 16


def normalized(x, scale):
    return 0 if math.isnan(x) else round(Fraction(max(min(x, 1.0), -1.0 if scale == 32767 else 0.0)) * scale)


def fraction(x, width):
    if not math.isfinite(x):
        return NAN
    exact = Fraction(x) - math.floor(x)
    below = 1 - Fraction(1, 2 ** (MANTISSAS[width][0] + 1))
    return min(Fraction(rounded(exact, width)) if exact else Fraction(0), below)


def scaled(x, exponent):
    if not math.isfinite(x) or x == 0:
        return x
    return Fraction(x) * Fraction(2) ** max(min(exponent, 5000), -5000)


def turns(function, x):
    if not math.isfinite(x):
        return NAN
    part = x - round(x)  # exact, as is the result in quarters of a turn
    quarters = {-0.5: (-0.0, -1.0), -0.25: (-1.0, 0.0), 0.0: (0.0, 1.0), 0.25: (1.0, 0.0), 0.5: (0.0, -1.0)}
    exact = quarters.get(part, (math.sin(2 * math.pi * part), math.cos(2 * math.pi * part)))
    return exact[0] if function == "sin" else exact[1]


def root(x):
    return NAN if x < 0 else math.sqrt(x) if x else x


def power(x):
    return x if math.isnan(x) else INFINITY if x > 1000 else 0.0 if x < -1000 else 2.0**x


def logarithm(x):
    return NAN if math.isnan(x) or x < 0 else -INFINITY if x == 0 else x if math.isinf(x) else math.log2(x)


def reciprocal(x):
    return math.copysign(INFINITY, x) if x == 0 else 1 / x


FUNCTIONS = {"rcp": reciprocal, "rcp_iflag": reciprocal, "rsq": lambda x: reciprocal(root(x)), "sqrt": root, "exp": power, "exp_legacy": power,
             "log": logarithm, "log_legacy": logarithm, "sin": lambda x: turns("sin", x), "cos": lambda x: turns("cos", x)}


def near(exact, got, width, units):
    """Whether a result is within so many units in the last place of the exact one."""
    got = real(got, width)
    if not math.isfinite(exact) or not math.isfinite(got):
        return math.isnan(exact) and math.isnan(got) or got == rounded(exact, width)
    mantissa, lowest, _ = MANTISSAS[width]
    unit = 2.0 ** (max(math.frexp(exact)[1] - 1, lowest) - mantissa)
    return abs(got - exact) <= units * unit


def same(a, b, width):
    """Whether two numbers have the same bits, or neither is a number."""
    return (a ^ b) & (1 << width) - 1 == 0 or (math.isnan(real(a, width)) and math.isnan(real(b, width)))


class Lane:
    """The sources of one lane, as the kernels of instruction_records.py have them."""

    def __init__(self, chip, sources, index):
        self.chip, self.bits, self.index = chip, sources, index

    def low(self, n, width):
        return self.bits[n] & (1 << width) - 1

    def real(self, n, width):
        return real(self.bits[n], width)

    def reals(self, count, width):
        return [real(self.bits[n], width) for n in range(count)]


def integers(name, lane):
    """The result's bits and its width."""
    a, b, c = (lane.low(n, 32) for n in range(3))
    has_sign = "_i" in name
    if name.endswith(("_u32_u24", "_i32_i24")):
        x, y = (signed(one, 24) if has_sign else one & 0xFFFFFF for one in (a, b))
        value = x * y + (c if "mad" in name else 0)
        return (value >> 32 if "_hi_" in name else value) & 0xFFFFFFFF, 32
    if name in ("v_mad_u64_u32", "v_mad_i64_i32"):
        x, y, z = (a, b, lane.bits[2]) if not has_sign else (signed(a, 32), signed(b, 32), signed(lane.bits[2], 64))
        return x * y + z & (1 << 65) - 1, 65
    x, y, z = (signed(one, 16) if has_sign else one & 0xFFFF for one in (a, b, c))
    kinds = {"add": lambda: x + y, "sub": lambda: x - y, "mad": lambda: x * y + z, "mad_legacy": lambda: x * y + z, "max3": lambda: max(x, y, z),
             "min3": lambda: min(x, y, z), "med3": lambda: sorted((x, y, z))[1]}
    return kinds[name[2:-4]]() & 0xFFFF, 16


def conversions(name, lane):
    x, y = lane.reals(2, 32)
    a, b = lane.low(0, 32), lane.low(1, 32)
    ranges = {"i16": (-32768, 32767), "u16": (0, 65535), "i32": (-(2**31), 2**31 - 1), "u32": (0, 2**32 - 1)}
    if name == "v_cvt_off_f32_i4":
        return bits_of(signed(a, 4) / 16, 32), 32
    if not re.fullmatch(r"v_cvt_(flr_|pk_|pknorm_|pkrtz_)?([iu](16|32)_(f(16|32|64)|[iu]32)|f16_f32)", name) or name == "v_cvt_f16_f32":
        raise KeyError(name)
    if name == "v_cvt_flr_i32_f32":
        return whole(x, *ranges["i32"], math.floor) & 0xFFFFFFFF, 32
    if name == "v_cvt_pkrtz_f16_f32":
        return packed(*(bits_of(one, 16, True) for one in (x, y))), 32
    to, source = name.split("_")[-2:]
    if "pknorm" in name:
        return packed(*(normalized(one, ranges[to][1]) for one in (x, y))), 32
    if "_pk_" in name:
        values = (x, y) if source == "f32" else (signed(a, 32), signed(b, 32)) if source == "i32" else (a, b)
        return packed(*(whole(one, *ranges[to]) for one in values)), 32
    width = int(to[1:])
    return whole(lane.real(0, int(source[1:])), *ranges[to]) & (1 << width) - 1, width


def floats(name, lane):
    if not re.search("_f(16|32|64)$", name):
        raise KeyError(name)
    operation, width = name[2:].rsplit("_", 1)[0], int(name[-2:])
    x, y, z = lane.reals(3, width)
    bits = [lane.low(n, width) for n in range(3)]
    chip = lane.chip
    for kind, largest in (("min", False), ("max", True)):
        if operation == kind + "3":
            return extreme(chip, largest, width, bits), width
        if operation == kind + "imum3":
            return (bits_of(NAN, width) if any(map(math.isnan, (x, y, z))) else extreme(chip, largest, width, bits)), width
        if operation == "pk_" + kind:
            return packed(*(extreme(chip, largest, 16, [lane.low(n, 32) >> at & 0xFFFF for n in (0, 1)]) for at in (0, 16))), 32
    if operation == "med3":
        return median(chip, width, bits), width
    if operation in ("maxmin", "minmax"):
        first = operation == "maxmin"
        return extreme(chip, not first, width, [extreme(chip, first, width, bits[:2]), bits[2]]), width
    if operation == "fract":
        return bits_of(fraction(x, width), width), width
    if operation == "frexp_mant":
        return bits_of(math.frexp(x)[0] if math.isfinite(x) else x, width), width
    if operation == "ldexp":
        return bits_of(scaled(x, signed(bits[1], 16) if width == 16 else signed(lane.bits[1], 32)), width), width
    if operation == "rndne":
        return bits_of(math.copysign(float(round(Fraction(x))), x) if math.isfinite(x) else x, width), width
    if operation in ("fma", "fma_legacy"):
        return bits_of(total((x, y, z)), width), width
    if operation == "fma_mixlo":
        return bits_of(rounded(total(lane.reals(3, 32)), 32), 16), 16
    if operation in ("mad", "mad_legacy", "mac"):
        first = [flushed(one) if width == 32 else one for one in (x, y, z if operation != "mac" else real(FIRST[0], width))]
        inner = rounded(product(*first[:2]), width)
        value = rounded(total((flushed(inner) if width == 32 else inner, first[2])) if math.isfinite(inner + first[2]) else inner + first[2], width)
        return bits_of(flushed(value) if width == 32 else value, width), width
    if operation in ("div_fixup", "div_fixup_legacy") and width == 16:
        negative = math.copysign(1, y) * math.copysign(1, z)
        if math.isnan(y) or math.isnan(z) or (y == 0 and z == 0) or (math.isinf(y) and math.isinf(z)):
            return bits_of(NAN, 16), 16
        return bits_of(math.copysign(INFINITY if y == 0 or math.isinf(z) else 0.0 if math.isinf(y) or z == 0 else abs(x), negative), 16), 16
    raise KeyError(name)


def exponents(name, lane):  # v_frexp_exp_i16_f16 and its relatives
    width, result_width = int(name[-2:]), int(name[-6:-4])
    x = lane.real(0, width)
    return (math.frexp(x)[1] if math.isfinite(x) else 0) & (1 << result_width) - 1, result_width


def scalars(name, words):
    """Of an instruction on s[12:15]: the 64 bits at s[16:17], and scc, or None where it is not defined here."""
    first = FIRST[0] | FIRST[1] << 32
    source = words[0] | words[1] << 32
    condition = int(words[3] == words[0])
    if name in ("s_bitset0_b64", "s_bitset1_b64"):
        bit = 1 << (words[0] & 63)
        return (first & ~bit if name == "s_bitset0_b64" else first | bit), condition
    if name == "s_cmov_b64":
        return (source if condition else first), condition
    if name == "s_bitreplicate_b64_b32":
        return sum((words[0] >> n & 1) * 3 << 2 * n for n in range(32)), condition
    raise KeyError(name)


INTEGERS = {f"v_{hi}{kind}" for hi in ("mul_", "mul_hi_", "mad_") for kind in ("u32_u24", "i32_i24")} | {
    "v_mad_u64_u32", "v_mad_i64_i32", "v_add_i16", "v_sub_i16", "v_mad_i16", "v_mad_u16", "v_mad_legacy_i16"} | {
    f"v_{kind}3_{of}16" for kind in ("max", "min", "med") for of in "iu"}
# Of the instructions with a result of 16 bits, those that keep the upper half of the register on GFX9, as LLVM's zeroesHigh16BitsOfDest has it. From
# GFX11 on, all do.
KEEP = {"v_add_i16", "v_sub_i16", "v_mad_i16", "v_mad_u16", "v_mad_f16", "v_fma_f16", "v_fma_mixlo_f16", "v_div_fixup_f16"} | {
    f"v_{kind}3_{of}16" for kind in ("max", "min", "med") for of in "iuf"}


def is_right(name, lane, got, mask):
    """Whether four words are a lane's result; `mask` is the condition register of its wave."""
    wide = lane.chip.startswith("gfx9")
    condition = CONDITION if wide else (CONDITION[0], 0)
    operation, _, element = name[2:].rpartition("_")
    if operation in FUNCTIONS and element in ("f16", "f32"):
        if got[1:] != (FIRST[1], *condition):
            return False
        if element == "f32":  # whose unit has no denormals
            return near(flushed(FUNCTIONS[operation](flushed(lane.real(0, 32)))), got[0], 32, 1.0001)
        return near(FUNCTIONS[operation](lane.real(0, 16)), got[0] & 0xFFFF, 16, 0.5101) and got[0] >> 16 == (0 if wide else FIRST[0] >> 16)
    if name in INTEGERS:
        bits, width = integers(name, lane)
    elif name.startswith("v_cvt_"):
        bits, width = conversions(name, lane)
    elif name.startswith("v_frexp_exp"):
        bits, width = exponents(name, lane)
    else:
        bits, width = floats(name, lane)
    if width == 65:
        return got[0] | got[1] << 32 == bits & (1 << 64) - 1 and mask >> lane.index & 1 == bits >> 64
    if got[2:] != condition or (width < 64 and got[1] != FIRST[1]):
        return False
    value = got[0] | got[1] << 32 if width == 64 else got[0]
    if width == 16 and value >> 16 != (FIRST[0] >> 16 if not wide or name in KEEP else 0):
        return False
    if name.startswith("v_pk_") or name == "v_cvt_pkrtz_f16_f32":
        return same(value, bits, 16) and same(value >> 16, bits >> 16, 16)
    if name in INTEGERS or name.startswith(("v_cvt_", "v_frexp_exp")):
        return value & (1 << width) - 1 == bits
    return same(value, bits, width)


def check(path):
    """(chip, mnemonic, lanes that are wrong, the first of them in words); None for what has no definition."""
    header, _, _, blocks = read(path)
    chip, name = header["processor"], header["kernel"].removeprefix("k_")
    (_, sources, _), (_, _, results) = sorted(blocks, key=lambda block: -len(block[1]))[:2]
    size = 64 if chip.startswith("gfx9") else 32
    rows = list(struct.iter_unpack("<4I", results))
    wrong, first = 0, ""
    words = list(struct.iter_unpack("<6I", sources))
    for at, got in enumerate(rows):
        try:
            if name.startswith("s_"):
                bits, condition = scalars(name, words[at // size * size])
                right = got[0] | got[1] << 32 == bits and got[2] == condition
            else:
                lane = Lane(chip, [words[at][2 * n] | words[at][2 * n + 1] << 32 for n in range(3)], at % size)
                right = is_right(name, lane, got, got[2] | got[3] << 32)
        except KeyError:
            return None
        if not right:
            wrong += 1
            first = first or f"{' '.join(f'{word:08x}' for word in words[at])}: {' '.join(f'{word:08x}' for word in got)}"
    return chip, name, wrong, first


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=pathlib.Path, help="the folder of tests/amdgpu/instruction_records.py")
    options = parser.parse_args()
    paths = sorted(options.records.glob("*.dispatch"))
    if not paths:
        parser.error(f"{options.records} has no *.dispatch; tests/amdgpu/instruction_records.py writes them")
    defined, failed = collections.defaultdict(set), 0
    for path in paths:
        result = check(path)
        if result is None:
            continue
        chip, name, wrong, first = result
        defined[chip].add(name)
        if wrong:
            failed += 1
            print(f"{chip} {name}: {wrong} lanes differ; {first}")
    for chip, names in sorted(defined.items()):
        print(f"{chip}: {len(names)} instructions have a definition")
    print(f"{failed} differ")
    return 1 if failed or not defined else 0


if __name__ == "__main__":
    sys.exit(main())
