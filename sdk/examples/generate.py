# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes text that continues a beginning, byte by byte, with several sessions over one model's weights.

    pip install 'heddle[compiler]' numpy onnx
    python generate.py --model tests/models/text/step.onnx "The runtime " "A kernel "

The model is a small Llama that has learnt the spelling, though not the contents, of Heddle's documentation. Its caches are a state of the compiled module and stay
on the device; the next token is chosen there, too. `--save FILE` only compiles it, for generate.c.
"""
import argparse
import pathlib
import sys
import time

import heddle
from heddle import generation

CAPACITY = 512  # places of the caches of this model


def to_tokens(text):
    """Each byte of the text in UTF-8 is a token."""
    return list(text.encode())


def to_text(tokens):
    return bytes(tokens).decode(errors="replace")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("beginnings", nargs="*", default=["The runtime ", "A kernel ", "If a call fails, "], metavar="TEXT")
    parser.add_argument("--model", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "tests/models/text/step.onnx")
    parser.add_argument("--count", type=int, default=120, help="bytes to write")
    parser.add_argument("--temperature", type=float, default=0.6, help="0: always the likeliest byte")
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default=None)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--save", metavar="FILE", help="compile the model, and nothing else")
    arguments = parser.parse_args()
    try:
        import onnx
    except ImportError:
        sys.exit("generate: importing onnx failed; pip install onnx")
    path = arguments.save or "step.heddle"
    heddle.compile(generation.with_sampling(onnx.load(arguments.model)), path, target=arguments.target)
    if arguments.save:
        return
    beginnings = [text or "\n" for text in arguments.beginnings]
    with heddle.open(path, arguments.device) as module:
        sessions = [generation.Session(module, CAPACITY) for _ in beginnings]
        written = [[] for _ in beginnings]
        sampling = {"temperature": arguments.temperature, "top_k": arguments.top_k, "top_p": arguments.top_p, "seed": arguments.seed}
        began = time.perf_counter()
        for tokens in zip(*(session.generate(to_tokens(text), arguments.count, **sampling) for session, text in zip(sessions, beginnings))):
            for mine, token in zip(written, tokens):
                mine.append(token)
        took = time.perf_counter() - began
        for session in sessions:
            session.close()
    for text, tokens in zip(beginnings, written):
        print(f"{text}{to_text(tokens)}\n")
    print(f"{sum(map(len, written)) / took:.0f} tokens a second, of {len(sessions)} sessions in turns", file=sys.stderr)


if __name__ == "__main__":
    main()
