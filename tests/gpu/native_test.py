# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls between PyTorch's work: its tensors as arguments and results, its streams as the order, nothing waited for on the host."""
import ctypes
import gc
import pathlib
import sys
import time
import unittest

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
from gpu import GpuTestCase  # noqa: E402
import heddle_ctypes  # noqa: E402

SIZE, STEPS, TURNS = 64, 8, 30
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class View:
    """Memory on the device as what torch.as_tensor takes; keeps its owner alive."""
    def __init__(self, owner, shape):
        self.owner = owner
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "<f4", "data": (owner.address(), False), "version": 2, "strides": None}


class Native(GpuTestCase):
    def setUp(self):
        super().setUp()
        # y = x / 2 + 1, STEPS times, each step a product with w / 2 plus 1, so that the list is long enough to be recorded.
        info = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIZE, SIZE])  # noqa: E731
        nodes, last = [], "x"
        for step in range(STEPS):
            out = "y" if step + 1 == STEPS else f"y{step}"
            nodes += [helper.make_node("MatMul", [last, "w"], [f"m{step}"]), helper.make_node("Add", [f"m{step}", "b"], [out])]
            last = out
        graph = helper.make_graph(nodes, "chain", [info("x"), info("w"), info("b")], [info("y")])
        path = self.folder / "chain.onnx"
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
        self.runtime = heddle_ctypes.Runtime()
        self.instance = self.runtime.open(self.compile(path, "--target", "cpu,cuda")).instance(self.device)
        self.function = self.instance.function()
        self.releases = 0
        self.release = RELEASE(self.count_release)
        self.w, self.b = torch.eye(SIZE, device="cuda") / 2, torch.ones(SIZE, SIZE, device="cuda")

    def count_release(self, _):
        self.releases += 1

    def over(self, index, tensor, result=False):
        return self.function.tensor_over(index, np.float32, tensor.shape, tensor.data_ptr(), tensor.nbytes, self.release, result)

    @staticmethod
    def expected(value):
        for _ in range(STEPS):
            value = value / 2 + 1
        return value

    def run_turns(self, stream):
        """Every turn: torch lingers and fills x, the call follows, torch takes the result; then torch replays a graph."""
        x, y = torch.zeros(SIZE, SIZE, device="cuda"), torch.zeros(SIZE, SIZE, device="cuda")
        counter, graph = torch.zeros(1, device="cuda"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            counter.add_(1)
        torch.cuda.synchronize()
        arguments = [self.over(0, x), self.over(1, self.w), self.over(2, self.b)]
        into = self.over(0, y, result=True)
        taken, calls, kept = [], [], []
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(stream):
            begin.record()
            started = time.perf_counter()
            for turn in range(TURNS):
                torch.cuda._sleep(20_000_000)  # cycles: more than 10 ms
                x.fill_(turn)
                if turn % 2:  # into torch's memory
                    call, _ = self.function.start(arguments, [into], stream.cuda_stream)
                    taken.append(y.clone())
                else:  # into ours
                    call, (result,) = self.function.start(arguments, stream=stream.cuda_stream)
                    taken.append(torch.as_tensor(View(result, (SIZE, SIZE)), device="cuda").clone())
                    kept.append(result)
                x.fill_(-1000)  # what the call reads is not overtaken
                y.fill_(-1000)
                graph.replay()
                calls.append(call)
            on_host = time.perf_counter() - started
            end.record()
        stream.synchronize()
        on_device = begin.elapsed_time(end) / 1e3
        self.assertLess(on_host, on_device / 3, "something waited on the host")
        for turn, got in enumerate(taken):
            wanted = np.full((SIZE, SIZE), self.expected(np.float32(turn)), np.float32)
            self.assert_close(got.cpu().numpy(), wanted, 1e-5, 1e-5)
        self.assertEqual(counter.item(), TURNS)
        for call in calls:
            call.wait(0)  # over: the stream was behind it
        print(f"{TURNS} calls: {on_host * 1e3:.1f} ms on the host, {on_device * 1e3:.1f} ms on the device; {self.instance.report('statistics')}",
              flush=True)

    def test_calls_are_ordered_with_a_stream(self):
        self.run_turns(torch.cuda.Stream())

    def test_calls_are_ordered_with_the_default_stream(self):
        self.run_turns(torch.cuda.default_stream())

    def test_calls_are_ordered_with_many_streams_in_turns(self):
        x = [torch.zeros(SIZE, SIZE, device="cuda") for _ in range(40)]
        taken, kept = [], []
        for turn, one in enumerate(x):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                torch.cuda._sleep(1_000_000)
                one.fill_(turn)
                arguments = [self.over(0, one), self.over(1, self.w), self.over(2, self.b)]
                call, (result,) = self.function.start(arguments, stream=stream.cuda_stream)
                taken.append(torch.as_tensor(View(result, (SIZE, SIZE)), device="cuda").clone())
                kept.append((stream, call, result, arguments))
        torch.cuda.synchronize()
        for turn, got in enumerate(taken):
            self.assertAlmostEqual(got[3, 5].item(), self.expected(turn), places=4)

    def test_memory_is_released_once_and_not_before_its_calls_are_over(self):
        x = torch.full((SIZE, SIZE), 3.0, device="cuda")
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        arguments = [self.over(0, x), self.over(1, self.w), self.over(2, self.b)]
        with torch.cuda.stream(stream):
            torch.cuda._sleep(100_000_000)
        call, results = self.function.start(arguments, stream=stream.cuda_stream)
        arguments.clear()
        gc.collect()
        self.assertEqual(self.releases, 0, "the call still reads it")
        call.wait()
        self.assertEqual(self.releases, 3)
        self.assertAlmostEqual(results[0].numpy()[1, 2], self.expected(3.0), places=4)

    def test_says_what_it_cannot_use(self):
        x = torch.zeros(SIZE * SIZE + 8, device="cuda")
        size = SIZE * SIZE * 4

        def refused(address):
            with self.assertRaises(RuntimeError) as caught:
                self.function.tensor_over(0, np.float32, (SIZE, SIZE), address, size, self.release)
            return str(caught.exception)

        self.assertIn("a multiple of 256 bytes", refused(x.data_ptr() + 4))
        host = torch.zeros(SIZE * SIZE + 64)
        self.assertIn("not memory that CUDA knows", refused((host.data_ptr() + 255) // 256 * 256))
        self.assertIn("is host memory", refused((torch.zeros(SIZE * SIZE + 64).pin_memory().data_ptr() + 255) // 256 * 256))
        self.assertEqual(self.releases, 3)
        # A stream that is being captured: the capture stays whole.
        arguments = [self.over(0, x[:SIZE * SIZE].view(SIZE, SIZE)), self.over(1, self.w), self.over(2, self.b)]
        torch.cuda.synchronize()
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            x.add_(1)
            with self.assertRaisesRegex(RuntimeError, r"captured into a graph.*\[HD-Q-08\]"):
                self.function.start(arguments, stream=stream.cuda_stream)
        graph.replay()
        torch.cuda.synchronize()
        self.assertEqual(x[0].item(), 1)
        call, (result,) = self.function.start(arguments, stream=stream.cuda_stream)
        call.wait()
        self.assertAlmostEqual(result.numpy()[0, 0], self.expected(1.0), places=4)
        # A CPU has no streams; a pointer is all that it takes.
        on_cpu = self.runtime.open(next(self.folder.glob("*.heddle"))).instance("cpu").function()
        arguments = [on_cpu.tensor(index, np.zeros((SIZE, SIZE), np.float32)) for index in range(3)]
        with self.assertRaisesRegex(RuntimeError, "on device 'cpu:0' failed: .*heddle.native/1 queue_import"):
            on_cpu.start(arguments, stream=stream.cuda_stream)


if __name__ == "__main__":
    unittest.main(verbosity=2)
