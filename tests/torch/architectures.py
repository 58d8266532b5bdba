# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks of transformers and of images under torch.compile: results and gradients against those in f64, fallbacks, and the time beside Inductor's.

    architectures.py [NAME ...] [--full] [--one-size] [--device cpu] [--type f32] [--backend heddle] [--no-gradients] [--time] [--rounds 10]
                     [--jobs 1] [--seconds 3600] [--results FILE] [--inductor-mode default] [--list]

Each network runs in a process of its own, for two sizes, in evaluation mode. The results of the compiled network, and the gradients of all parameters
for a random direction, are held against the same network in f64 on the same device: wrong is what is more than ten times as far from it as PyTorch's
eager mode (TF32 is off everywhere), and more than 1e-5 of the largest number; for a gradient, of the largest one of that parameter, or of a thousandth
of the largest of all, since some are zero but for rounding. Where a ReLU's argument is rounded to the other side of zero, a gradient changes by far
more than rounding; so if one is more than 1e-5 from f64, kinks.py looks for few such arguments with which f64 has eager mode's gradients, and then
Heddle's, and these are compared with f64 on the sides that were found. With --time, calls for inference are timed in turns with eager mode and with
Inductor. With --full and --time or --one-size, all calls are of one size. With --results, what each network gave is written to FILE as it ends, a line
of JSON, and networks that FILE has from a call with the same options are not run again; one that failed is. The networks of tests/networks, some more,
and those of networks_with_breaks.py, which must have breaks; needs torch and transformers.
"""
import argparse
import concurrent.futures
import contextlib
import copy
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "networks"), str(HERE.parent / "bench")]
LANGUAGE = ["bert", "distilbert", "deberta", "roberta", "albert", "electra", "mpnet", "gpt2", "llama", "qwen2", "mixtral", "mamba", "opt", "gpt_neox", "gemma", "t5", "bart",
            "whisper", "wav2vec2", "clip"]
BREAKS = ["early_exit", "rescaled", "routed", "generated", "quantized", "counted"]
IMAGES = ["resnet", "mobilenet_v2", "efficientnet", "convnext", "vit", "swin", "detr", "unet"]


def more_networks():
    """Beside those of tests/networks: name to function."""
    import text
    import transformers as t

    def of(kind, config, result="last_hidden_state", usual=None, **more):
        def made(full):
            return text.of_tokens(kind(config(**((usual or {}) if full else {**text.TINY, **more}))), [result], full)
        return made

    # By default these two have 20 and 8.5 billion parameters. Here they have the shapes of Pythia 160M and, since no Gemma of the first version is
    # as small, of Gemma 3 270M.
    pythia = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 50304, "use_cache": False}
    gemma = {"hidden_size": 640, "num_hidden_layers": 18, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 2048,
             "vocab_size": 262144, "use_cache": False}

    return {"roberta": of(t.RobertaModel, t.RobertaConfig, pad_token_id=1), "albert": of(t.AlbertModel, t.AlbertConfig, embedding_size=32),
            "electra": of(t.ElectraModel, t.ElectraConfig, embedding_size=32), "mpnet": of(t.MPNetModel, t.MPNetConfig),
            "opt": of(t.OPTForCausalLM, t.OPTConfig, "logits", ffn_dim=128, word_embed_proj_dim=64, use_cache=False),
            "gpt_neox": of(t.GPTNeoXForCausalLM, t.GPTNeoXConfig, "logits", pythia, use_cache=False),
            "gemma": of(t.GemmaForCausalLM, t.GemmaConfig, "logits", gemma, num_key_value_heads=2, head_dim=16, use_cache=False)}


OPTIONS = ["full", "one_size", "device", "type", "backend", "no_gradients", "time", "rounds", "inductor_mode"]  # that a result depends on
TYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def far(got, wanted, least=1e-30):
    """The largest error, relative to the largest number, or to `least` if that is more."""
    return float((got.detach().double() - wanted).abs().max()) / max(float(wanted.abs().max()), least)


LIMIT = 1e-5  # for a difference from f64 that eager mode does not have


def is_wrong(error, eager):
    return error > max(10 * eager, LIMIT) or error != error


def worst(pairs):
    """The pair of an error and that of eager mode that is wrong by most, and how many are wrong."""
    pairs = list(pairs)
    wrong = sum(is_wrong(error, eager) for error, eager in pairs)
    return max(pairs, key=lambda pair: pair[0] if pair[0] == pair[0] else float("inf"), default=(0.0, 0.0)), wrong


def compared(given, wanted, least, examined=None):
    """The errors of the gradients `given["heddle"]`, those of `given["eager"]`, and, by whose gradients they are, what `examined`, of kinks.Kinks, tells
    of arguments that are on the other side of a kink. What they explain is no error."""
    import kinks

    def errors(got, wanted):
        return [far(one, there, least) for one, there in zip(got, wanted, strict=True) if there is not None]

    scales = [1.0 if one is None else max(float(one.abs().max()), least) for one in wanted]
    found, told = {}, {}
    for who, beside in (("eager", None), ("heddle", "eager")):
        others = found.get(beside) or itertools.repeat(0.0)

        def within(got, exact, others=others):
            return not any(map(is_wrong, errors(got, exact), others))

        found[who] = errors(given[who], wanted)
        explained = examined and not within(given[who], wanted) and examined.explain(given[who], within, scales)
        if explained:
            told[who] = kinks.text_of(explained[0])
            found[who] = errors(given[who], explained[1])
    return found["heddle"], found["eager"], told


def breaks():
    """How often Dynamo broke a graph, or left a function to Python: for a break in a loop."""
    from torch._dynamo.utils import counters

    return sum(counters["graph_break"].values()) + counters["frames"]["total"] - counters["frames"]["ok"]


def child(arguments):
    import export
    import kinks
    import networks_with_breaks
    import torch
    from network import randomize

    import heddle.torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # the same math everywhere
    torch.manual_seed(1234)
    network = {**export.networks(), **more_networks(), **networks_with_breaks.networks()}[arguments.names[0]](arguments.full)
    randomize(network.model)
    kind = getattr(torch, TYPES[arguments.type])
    network.model.eval().to(arguments.device, kind)
    exact = copy.deepcopy(network.model).double()
    backend = heddle.torch.backend if arguments.backend == "heddle" else arguments.backend
    compiled = torch.compile(network.model, backend=backend)

    def tuple_of(results):
        return [one for one in (results if isinstance(results, tuple) else (results,)) if torch.is_tensor(one)]

    def parameters(model):
        return [one for one in model.parameters() if one.requires_grad]

    labels = [name for name, one in network.model.named_parameters() if one.requires_grad]

    def inputs_of(sizes):
        return [one.to(kind) if one.is_floating_point() else one for one in network.inputs_of(sizes, torch.Generator().manual_seed(7))]

    def gradients_of(model, given):
        results = [one for one in tuple_of(model(*given)) if one.requires_grad]
        directions = [torch.randn(one.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float32).to(one.device, one.dtype) for one in results]
        return torch.autograd.grad(results, parameters(exact if model is exact else network.model), directions, allow_unused=True)

    forward, backward, wrong, sides = [], [], [], []
    one_size = arguments.full and (arguments.time or arguments.one_size)
    for sizes in network.calls[-1:] if one_size else network.calls[:2]:
        inputs = [one.to(arguments.device) for one in inputs_of(sizes)]
        doubled = [one.double() if one.is_floating_point() else one for one in inputs]
        with torch.no_grad():
            got, right, eager = map(tuple_of, (compiled(*inputs), exact(*doubled), network.model(*inputs)))
        forward += zip(map(far, got, right), map(far, eager, right), strict=True)
        if arguments.no_gradients:
            continue
        wanted = gradients_of(exact, doubled)
        least = 1e-3 * max(float(one.abs().max()) for one in wanted if one is not None)  # some gradients are zero but for rounding

        given = {"heddle": gradients_of(compiled, inputs), "eager": gradients_of(network.model, inputs)}
        found, eager, told = compared(given, wanted, least)
        if kind is torch.float32 and max(found, default=0) > LIMIT:
            found, eager, told = compared(given, wanted, least, kinks.Kinks(exact, doubled, network.model, inputs, lambda: gradients_of(exact, doubled)))
        sides.append(told)
        backward += zip(found, eager, strict=True)
        present = [label for label, one in zip(labels, wanted, strict=True) if one is not None]
        wrong += [f"{label}: {error:.1e} ({other:.1e})" for label, error, other in zip(present, found, eager, strict=True) if is_wrong(error, other)]
    graphs = heddle.torch.graphs()
    report = {"forward": worst(forward), "backward": worst(backward), "wrong_gradients": wrong[:20], "sides": sides, "graphs": len(graphs),
             "nodes": sum(graph.nodes for graph in graphs),
             "modules": sum(len(graph.modules) for graph in graphs),
             "fallbacks": [f"{one.operator}: {one.reason}" for graph in graphs for one in graph.fallbacks], "seconds": sum(graph.seconds for graph in graphs),
             "breaks": breaks()}
    if arguments.time:
        import turns

        inputs = [one.to(arguments.device) for one in inputs_of(network.calls[-1 if arguments.full else 0])]
        if not one_size:  # a graph of symbolic sizes
            torch._dynamo.reset()
        torch.set_num_threads(turns.cores())

        def timed(model):
            def call():
                with torch.no_grad():
                    model(*inputs)
                    if arguments.device != "cpu":
                        torch.cuda.synchronize()
            return call

        contenders = {"heddle": timed(compiled), "eager": timed(network.model), "inductor": timed(torch.compile(network.model, mode=arguments.inductor_mode))}
        for call in contenders.values():
            call()
        print("READY", flush=True)
        sys.stdin.readline()  # until the networks before have been timed
        report["times"] = turns.measure(contenders, arguments.rounds, 0.1)
    print("FOUND " + json.dumps(report))


def report_of(child, lines, errors):
    """What the child reported, or the last line of its errors, and more of them."""
    found = [line[6:] for line in lines if line.startswith("FOUND ")]
    errors.seek(0)
    told = errors.read().strip()
    if found:
        return json.loads(found[0])
    error = f"ended by signal {-child.returncode}" if child.returncode < 0 else (told.splitlines() or [f"exit code {child.returncode}"])[-1][:300]
    return {"error": error, "told": told[-4000:]}


@contextlib.contextmanager
def started(name, given, seconds):
    """A process for one network, and the file of its errors. It is killed when its time is over."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        child = subprocess.Popen([sys.executable, "-B", __file__, name, "--child", *given], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=errors, text=True)
        clock = threading.Timer(seconds, child.kill)
        clock.start()
        try:
            with child:
                yield child, errors
        finally:
            clock.cancel()


def run(names, given, jobs, seconds):
    """Pairs of a name and what a process of its own found, or its error, as they end; `jobs` run at a time."""
    def one(name):
        with started(name, given, seconds) as (child, errors):
            output, _ = child.communicate()
            return name, report_of(child, output.splitlines(), errors)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for ended in concurrent.futures.as_completed([pool.submit(one, name) for name in names]):
            yield ended.result()


def run_timed(names, given, jobs, seconds):
    """The same, `jobs` after `jobs`: these compile at the same time, and one is timed after the other."""
    for first in range(0, len(names), jobs):
        with contextlib.ExitStack() as stack:
            batch = names[first:first + jobs]
            children = [stack.enter_context(started(name, given, seconds)) for name in batch]
            before = [list(itertools.takewhile(lambda line: line != "READY\n", child.stdout)) for child, _ in children]
            for name, (child, errors), lines in zip(batch, children, before, strict=True):
                output, _ = child.communicate("go\n")
                yield name, report_of(child, [*lines, *output.splitlines()], errors)


def known_results(path, options):
    """Name to what earlier calls with these options found, without errors."""
    lines = path.read_text(encoding="utf-8").splitlines() if path and path.exists() else []
    return {one["name"]: one["found"] for one in map(json.loads, lines) if one["options"] == options and "error" not in one["found"]}


def verdict(name, found, backend):
    """Whether what a network gave is right, or why it is not."""
    if found["forward"][1] + found["backward"][1]:
        return "WRONG"
    if name in BREAKS and not found["breaks"]:
        return "no break"
    return "right" if found["graphs"] or backend != "heddle" else "no graph"


def milliseconds(found):
    import turns

    return ", ".join(f"{turns.milliseconds(one)}" for one in found.get("times", {}).values())


def row(name, found, backend):
    """Of the table at the end."""
    import turns

    if "error" in found:
        return [name, "error: " + found["error"].replace("|", " "), *[""] * 6]
    texts = [f"{error:.1e} ({eager:.1e})" + (f", {count} wrong" if count else "") for (error, eager), count in (found["forward"], found["backward"])]
    if any(found.get("sides", [])):
        texts[1] += ", on other sides"
    return [name, verdict(name, found, backend), *texts, f"{found['graphs']}, {found['modules']} ({found['breaks']})",
            f"{len(found['fallbacks'])} of {found['nodes']}", milliseconds(found),
            f"{turns.ratio(found['times'], 'heddle', 'inductor'):.2f}" if "times" in found else ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--full", action="store_true", help="networks of their usual sizes")
    parser.add_argument("--one-size", action="store_true", help="with --full: all calls are of one size, so that graphs are static")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--type", default="f32", choices=sorted(TYPES), help="of parameters and inputs")
    parser.add_argument("--backend", default="heddle")
    parser.add_argument("--no-gradients", action="store_true")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1, help="networks that are compiled at a time")
    parser.add_argument("--seconds", type=float, default=3600, help="after which a network that has not ended is given up")
    parser.add_argument("--results", type=pathlib.Path, metavar="FILE", help="is added to as networks end; those in it are not run again")
    parser.add_argument("--inductor-mode", default="default", help="for example max-autotune")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.names or LANGUAGE + IMAGES + BREAKS
    if arguments.list:
        print("\n".join(names))
        return 0
    if arguments.child:
        try:
            child(arguments)
        except Exception:  # of any kind: its last line is the reason
            traceback.print_exc()
            return 1
        return 0
    import statistics

    import turns

    options = {name: getattr(arguments, name) for name in OPTIONS}
    known = known_results(arguments.results, options)
    given = [one for one in sys.argv[1:] if one not in arguments.names]
    left = [name for name in names if name not in known]
    for name, found in (run_timed if arguments.time else run)(left, given, arguments.jobs, arguments.seconds):
        known[name] = found
        if arguments.results:
            with arguments.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"name": name, "options": options, "found": found}) + "\n")
        if "error" in found:
            print(f"{name}: {found['error']}", file=sys.stderr, flush=True)
            continue
        for told in found.get("sides", []):
            for who, text in told.items():
                print(f"{name}, {who}: {text}", file=sys.stderr, flush=True)
        times = f", {milliseconds(found)} ms, ratio {turns.ratio(found['times'], 'heddle', 'inductor'):.2f}" if "times" in found else ""
        print(f"{name}: {verdict(name, found, arguments.backend)}, {len(found['fallbacks'])} of {found['nodes']} nodes in PyTorch "
              f"{sorted(set(found['fallbacks']))}, compiled in {found['seconds']:.1f} s{times}", file=sys.stderr, flush=True)
    whole = [known[name] for name in names if "error" not in known[name]]
    right = sum("error" not in known[name] and verdict(name, known[name], arguments.backend) == "right" for name in names)
    fallbacks, nodes = sum(len(one["fallbacks"]) for one in whole), sum(one["nodes"] for one in whole)
    print(f"{turns.machine()}; {right} of {len(names)} right; {fallbacks} of {nodes} nodes run in PyTorch\n")
    print(turns.table(["network", "", "results (eager)", "gradients (eager)", "graphs, modules (breaks)", "in PyTorch", "ms: Heddle, eager, Inductor",
                       "Heddle / Inductor"], [row(name, known[name], arguments.backend) for name in names]))
    ratios = [turns.ratio(one["times"], "heddle", "inductor") for one in whole if "times" in one]
    if ratios:
        print(f"\ngeometric mean {statistics.geometric_mean(ratios):.2f}")
    return 0 if right == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
