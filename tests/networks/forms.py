# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small parts of networks, each with something that exporters write in a form of its own: control flow, lists of positions, and shapes that depend on values."""
import torch
from torch import nn
from torch.nn import functional

from network import Network

CALLS = [{"batch": 2, "length": 7}, {"batch": 1, "length": 1}, {"batch": 4, "length": 20}]


def of_states(forward, outputs=1, width=6, calls=CALLS, more=(), **settings):
    """forward(states) of [batch, length, width]; `more` are further inputs: name, symbols, and a function of sizes and a generator."""
    class Part(nn.Module):
        def forward(self, *inputs):
            results = forward(*inputs)
            return results if isinstance(results, tuple) else (results,)

    def inputs_of(sizes, generator):
        states = torch.randn((sizes["batch"], sizes["length"], width), generator=generator)
        return (states, *(make(sizes, generator) for _, _, make in more))

    symbols = {"states": {0: "batch", 1: "length"}, **{name: axes for name, axes, _ in more}}
    return Network(Part(), list(symbols), [f"result_{index}" for index in range(outputs)], symbols, calls, inputs_of, **settings)


def lengths(sizes, generator):
    return torch.randint(1, sizes["length"] + 1, (sizes["batch"],), generator=generator)


LENGTHS = ("lengths", {0: "batch"}, lengths)
MASK = ("mask", {0: "batch", 1: "length"}, lambda sizes, generator: torch.rand((sizes["batch"], sizes["length"]), generator=generator) < 0.6)


def flipped(full):
    """Backwards along a symbolic dimension."""
    return of_states(lambda x: (x.flip(1), torch.cat((x, x.flip([1, 2])), 1)), 2)


def last_of_each(full):
    """The state at the end of each row."""
    return of_states(lambda x, n: x[torch.arange(x.shape[0]), n - 1], more=[LENGTHS])


def mask_of_lengths(full):
    return of_states(lambda x, n: x.masked_fill((torch.arange(x.shape[1])[None] >= n[:, None])[..., None], -1e9).softmax(1), more=[LENGTHS])


def chosen_rows(full):
    """A list of rows whose length is data."""
    return of_states(lambda x, mask: (x[mask] * 2, mask.nonzero()), 2, more=[MASK])


def written_rows(full):
    def forward(x, mask):
        x = x.clone()
        x[mask] = x[mask].tanh() + 1
        return x
    return of_states(forward, more=[MASK])


def packed_positions(full):
    """Positions that count the tokens of the mask."""
    table = torch.randn(64, 6, generator=torch.Generator().manual_seed(3))
    return of_states(lambda x, mask: x + table[(mask.long().cumsum(1) * mask).clamp(min=0)], more=[MASK])


def windows(full):
    """Overlapping windows, padded to a multiple of their step."""
    def forward(x):
        x = functional.pad(x.transpose(1, 2), (2, (3 - x.shape[1] % 3) % 3 + 2))
        return functional.conv1d(x, torch.ones(6, 1, 5) / 5, stride=3, groups=6).transpose(1, 2)
    return of_states(forward)


def blocks(full):
    """Attention in blocks of 4, the last one padded."""
    def forward(x):
        batch, length, width = x.shape
        count = (length + 3) // 4
        x = functional.pad(x, (0, 0, 0, count * 4 - length)).reshape(batch, count, 4, width)
        return ((x @ x.transpose(2, 3)).softmax(-1) @ x).reshape(batch, count * 4, width)[:, :length]
    return of_states(forward)


def repeated(full):
    """Each state as often as a static number, and whole rows as often as there are states."""
    return of_states(lambda x: (x.repeat_interleave(3, 1), x.mean(1, keepdim=True).repeat(1, x.shape[1], 2), x[:, :1].expand(-1, x.shape[1], -1) + x), 3)


def relative_bias(full):
    """Distances in buckets, as logarithms."""
    table = torch.randn(16, 4, generator=torch.Generator().manual_seed(4))

    def forward(x):
        places = torch.arange(x.shape[1])
        distance = places[None] - places[:, None]
        far = 4 + (torch.log(distance.abs().float().clamp(min=1) / 4) / 1.5 * 4).long().clamp(max=3, min=0)
        bucket = torch.where(distance.abs() < 4, distance.abs(), far) + 8 * (distance > 0)
        return (x @ x.transpose(1, 2))[:, None] + table[bucket].permute(2, 0, 1)
    return of_states(forward)


def angles(full):
    """Sines of positions times frequencies."""
    def forward(x):
        frequencies = 1.0 / (100.0 ** (torch.arange(0, 6, 2).float() / 6))
        phase = torch.outer(torch.arange(x.shape[1], dtype=torch.float32), frequencies)
        return x * torch.cat((phase.cos(), phase.sin()), -1)
    return of_states(forward)


def linear_steps(full):
    """Numbers between 0 and 1, as many as there are states. Dynamo makes that number static."""
    return of_states(lambda x: x * torch.linspace(0, 1, x.shape[1])[None, :, None] + torch.arange(0, x.shape[1] / 2, 0.5)[None, :, None],
                     calls=[{"batch": 2, "length": 7}, {"batch": 1, "length": 2}, {"batch": 4, "length": 20}], exporters=("old",))


def best(full):
    """The best 3 of what may be fewer, and their states."""
    def forward(x):
        scores, places = x.sum(-1).topk(min(3, x.shape[1]) if isinstance(x.shape[1], int) else torch.sym_min(3, x.shape[1]), 1)
        return scores, x.gather(1, places[..., None].expand(-1, -1, 6))
    return of_states(forward, 2, calls=[{"batch": 2, "length": 7}, {"batch": 1, "length": 3}, {"batch": 4, "length": 20}],
                     exporters=("dynamo",))


def sorted_rows(full):
    return of_states(lambda x: (x.sum(-1).argsort(1), x.sort(1, descending=True).values), 2, calls=[{"batch": 2, "length": 7}, {"batch": 1, "length": 2}, {"batch": 4, "length": 20}])


def summed_by_kind(full):
    """Sums over the rows of each kind, scattered."""
    def forward(x):
        kinds = (x.sum(-1).abs() * 3).long() % 5
        zeros = torch.zeros(x.shape[0], 5, x.shape[2])
        return zeros.scatter_add(1, kinds[..., None].expand_as(x), x), functional.one_hot(kinds, 5)
    return of_states(forward, 2)


def resized(full):
    """An image of rows, resized to a size that is another input's."""
    def forward(x, other):
        image = functional.interpolate(x[:, None], size=other.shape[1:], mode="bilinear", align_corners=False)
        return image + functional.interpolate(x[:, None], scale_factor=(2, 1), mode="nearest").mean() + other[:, None]
    other = ("other", {0: "batch", 1: "rows", 2: "columns"}, lambda sizes, generator: torch.randn((sizes["batch"], sizes["rows"], sizes["columns"]), generator=generator))
    calls = [{"batch": 2, "length": 7, "rows": 5, "columns": 9}, {"batch": 1, "length": 2, "rows": 2, "columns": 3}, {"batch": 3, "length": 12, "rows": 30, "columns": 4}]
    return of_states(forward, more=[other], calls=calls)


def rolled(full):
    return of_states(lambda x: (x.roll(2, 1), x.roll((1, -2), (1, 2))), 2, calls=[{"batch": 2, "length": 7}, {"batch": 1, "length": 2}, {"batch": 4, "length": 20}])


def squeezed(full):
    """Dimensions of 1 that are left out, which an exporter that does not know them makes a branch."""
    weight = torch.randn(6, 1, generator=torch.Generator().manual_seed(5))
    return of_states(lambda x: ((x @ weight).squeeze(-1), x.sum(-1, keepdim=True).squeeze(2)), 2)


def halves(full):
    """Parts of half a symbolic extent, and windows that unfold."""
    def forward(x):
        half = x.shape[1] // 2
        return x[:, :half] + x[:, half:2 * half], x[:, ::2], x[:, 1:] - x[:, :-1]
    return of_states(forward, 3, calls=[{"batch": 2, "length": 8}, {"batch": 1, "length": 2}, {"batch": 3, "length": 21}])


def branched(full):
    """One of two branches, by a value."""
    def forward(x):
        return torch.cond(x.mean() > 0, lambda x: x.relu() * 2, lambda x: x.tanh() - 1, (x,))
    return of_states(forward, exporters=("dynamo",))


class Stepped(nn.Module):
    def forward(self, states):
        total, count = states[:, 0] * 0, 0
        for step in range(states.shape[1]):
            total = (total * 0.5 + states[:, step]).tanh()
            count += 1
        return total, total * count


def looped(full):
    """A loop over the states, as scripted code has it."""
    network = of_states(lambda x: x, 2, exporters=("old",))
    network.model = torch.jit.script(Stepped())
    return network
