# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every two plugins of the tree work in one process, whichever is loaded first."""
import concurrent.futures
import itertools
import unittest

import kit

MANIFESTS = sorted([*(kit.BUILD / "lib/heddle/plugins.d").glob("*.toml"), *(kit.BUILD / "tests/template").glob("*/*/*.toml"),
                    kit.BUILD / "tests/plugins.d/test.streams.toml", kit.BUILD / "tests/library/plugins.d/test.library.toml"])
# Work as the first of a pair where they have a device: a job of tests/gpu. Elsewhere they are loaded and asked, and have none.
NEEDS_A_DEVICE = {"heddle.cuda", "heddle.hip", "heddle.level_zero"}


def beside(pair):
    one, other = pair
    code, cases = kit.run(one, "--beside", str(other), "--filter", "beside_another", "--jobs", "1")
    case = cases["concurrency.beside_another"]
    return None if (code, case["outcome"]) == (0, "passed") else f"{one.stem}, then {other.stem}: {case['outcome']} {case['texts']}"


class Pairs(unittest.TestCase):
    def test_pairs_in_both_orders(self):
        self.assertGreaterEqual(len(MANIFESTS), 15)
        pairs = [pair for pair in itertools.permutations(MANIFESTS, 2) if pair[0].stem not in NEEDS_A_DEVICE]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual([wrong for wrong in pool.map(beside, pairs) if wrong], [])


if __name__ == "__main__":
    unittest.main()
