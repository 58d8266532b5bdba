# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Drivers stay thin: none says what another one says, which belongs into sdk/cpp, and those of AMD and Intel GPUs keep their budgets of lines."""
import itertools
import os
import pathlib
import unittest

PLUGINS = pathlib.Path(os.environ.get("HEDDLE_SOURCE", pathlib.Path(__file__).resolve().parents[2])) / "plugins"
DRIVERS = ("cpu", "cuda", "hip", "level_zero")
MOST_LINES = {"hip": 1500, "level_zero": 2500}
EQUAL_LINES = 6


def sources(driver):
    files = sorted(file for file in (PLUGINS / driver).iterdir() if file.suffix in (".cpp", ".h"))
    assert files, driver
    return files


def is_code(line):
    """Not blank, no comment, and more than brackets that close."""
    return bool(line.strip("{}();, ")) and not line.startswith("//")


def passages(driver):
    """{EQUAL_LINES lines of code in a row: where they are}."""
    found = {}
    for file in sources(driver):
        lines = [(number, line) for number, line in enumerate(map(str.strip, file.read_text().splitlines()), 1) if is_code(line)]
        for i in range(len(lines) - EQUAL_LINES + 1):
            found.setdefault(tuple(line for _, line in lines[i:i + EQUAL_LINES]), f"{driver}/{file.name}:{lines[i][0]}")
    return found


class Drivers(unittest.TestCase):
    def test_no_two_drivers_have_equal_passages(self):
        all_passages = {driver: passages(driver) for driver in DRIVERS}
        equal = [f"{all_passages[one][lines]} and {all_passages[other][lines]}: {lines[0]} ..."
                 for one, other in itertools.combinations(DRIVERS, 2) for lines in all_passages[one].keys() & all_passages[other].keys()]
        self.assertEqual(equal, [], "move what drivers share to sdk/cpp")

    def test_drivers_keep_their_budgets_of_lines(self):
        lines = {driver: sum(len(file.read_text().splitlines()) for file in sources(driver)) for driver in MOST_LINES}
        self.assertEqual({driver: count for driver, count in lines.items() if count > MOST_LINES[driver]}, {}, MOST_LINES)


if __name__ == "__main__":
    unittest.main()
