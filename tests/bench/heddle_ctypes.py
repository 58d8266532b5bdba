# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""libheddle through ctypes: just enough of heddle/runtime.h to time calls inside a Python process.

Used by the benchmarks, where Heddle and another runtime must take turns in one process, on the same
data. Not the Python package; every struct here mirrors one of the header.
"""
import ctypes
import json
import os
import pathlib

import numpy as np

MAX_RANK = 16
TYPES = {np.dtype(name): code for name, code in (
    ("bool", 0x0801), ("int8", 0x0804), ("uint8", 0x0805), ("int16", 0x1006), ("uint16", 0x1007), ("int32", 0x2008), ("uint32", 0x2009), ("int64", 0x400A),
    ("uint64", 0x400B), ("float16", 0x100C), ("float32", 0x200E), ("float64", 0x400F))}
try:
    import ml_dtypes
    TYPES[np.dtype(ml_dtypes.bfloat16)] = 0x100D
    for name, code in (("float8_e4m3fn", 0x0810), ("float8_e5m2", 0x0811), ("float8_e4m3fnuz", 0x0812), ("float8_e5m2fnuz", 0x0813), ("float8_e8m0fnu", 0x0814),
                       ("float4_e2m1fn", 0x0415), ("int4", 0x0402), ("uint4", 0x0403), ("int2", 0x0216), ("uint2", 0x0217)):
        TYPES[np.dtype(getattr(ml_dtypes, name))] = code
except ImportError:  # NumPy by itself has no such type
    pass
DTYPES = {code: dtype for dtype, code in TYPES.items()}


def bits_of(code):
    """The width of an element of this type."""
    return code >> 8 & 0xFF


def packed(array):
    """The bytes of a tensor in memory: elements of less than 8 bits, which NumPy has in a byte each, one behind the other from the lowest bits on."""
    bits = bits_of(TYPES[array.dtype])
    if bits >= 8:
        return array
    count = 8 // bits
    elements = np.zeros(-(-array.size // count) * count, np.uint8)
    elements[:array.size] = array.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    return np.bitwise_or.reduce(elements.reshape(-1, count) << np.arange(0, 8, bits, dtype=np.uint8), axis=1)


def unpacked(data, code, dims):
    """The array of such bytes."""
    bits, count = bits_of(code), int(np.prod(dims))
    elements = (data[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & ((1 << bits) - 1)).reshape(-1)[:count]
    if DTYPES[code].name.startswith("int"):
        elements = (elements ^ (1 << bits - 1)) - np.uint8(1 << bits - 1)
    return elements.astype(np.uint8).view(DTYPES[code]).reshape(dims)


class String(ctypes.Structure):
    _fields_ = [("data", ctypes.POINTER(ctypes.c_char)), ("size", ctypes.c_uint64)]

    def __init__(self, text=""):
        encoded = str(text).encode()
        # The cast keeps the bytes alive, also in a structure or array that this string is copied into.
        super().__init__(ctypes.cast(ctypes.c_char_p(encoded), ctypes.POINTER(ctypes.c_char)), len(encoded))

    def text(self):
        return ctypes.string_at(self.data, self.size).decode() if self.size else ""


class RuntimeParams(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("config_path", String), ("config_text", String),
        ("plugin_path_count", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("plugin_paths", ctypes.POINTER(String)),
    ]


class ModuleParams(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32)]


class SlotBinding(ctypes.Structure):
    _fields_ = [("slot", String), ("device", String)]


class InstanceParams(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32), ("slot_count", ctypes.c_uint32), ("slots", ctypes.POINTER(SlotBinding)),
        ("parameter_files", ctypes.c_void_p), ("parameter_file_count", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
    ]


class DeviceMemory(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("address", ctypes.c_uint64), ("size_bytes", ctypes.c_uint64),
        ("release", ctypes.c_void_p), ("context", ctypes.c_void_p),
    ]


class CallParams(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("deadline_ns", ctypes.c_uint64), ("native_stream", ctypes.c_uint64),
    ]


def library_path():
    """libheddle.so beside the folder that HEDDLE_BIN names, else that of the release build."""
    root = pathlib.Path(__file__).resolve().parents[2]
    return pathlib.Path(os.environ.get("HEDDLE_BIN", root / "build" / "release" / "bin")).parent / "lib" / "libheddle.so"


def command_path():
    """The `heddle` command of the same build."""
    return library_path().parent.parent / "bin" / "heddle"


def one_core_config():
    """A second CPU device of a single core: the first one that this process may use."""
    core = min(os.sched_getaffinity(0))
    return (
        'version = 1\n[device.one]\ndriver = "heddle.cpu"\nselect = { ordinal = 0 }\n'
        f'affinity = {{ cpus = "{core}" }}\n'
    )


class CompileParams(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32), ("threads", ctypes.c_uint32), ("input_path", String), ("output_path", String), ("targets", String),
        ("parameters_path", String), ("dump_after", String), ("dump_path", String), ("report_path", String), ("reproducer_path", String),
        ("progress", ctypes.c_void_p), ("context", ctypes.c_void_p), ("ptxas", String), ("placement_count", ctypes.c_uint32),
        ("slot_count", ctypes.c_uint32), ("placements", ctypes.c_void_p), ("slots", ctypes.c_void_p), ("affinity_path", String), ("math", String),
        ("operator_count", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("operators", ctypes.c_void_p), ("cache_path", String),
        ("tuned_path", String), ("donations", ctypes.c_void_p), ("donation_count", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
        ("warning", ctypes.c_void_p), ("states", ctypes.c_void_p), ("state_count", ctypes.c_uint32), ("reserved_2", ctypes.c_uint32),
        ("parameter_files", ctypes.c_void_p), ("parameter_names", ctypes.c_void_p), ("parameter_file_count", ctypes.c_uint32),
        ("parameter_name_count", ctypes.c_uint32), ("code_path", String), ("specializations", ctypes.POINTER(String)),
        ("specialization_count", ctypes.c_uint32), ("reserved_3", ctypes.c_uint32),
    ]


class Library:
    """The functions of runtime.h, with a Python exception for each status that is not NULL."""

    # Functions that return something other than a status.
    PLAIN = {
        "heddle_status_message": String, "heddle_text_view": String, "heddle_status_free": None, "heddle_text_free": None,
        "heddle_runtime_release": None, "heddle_module_release": None, "heddle_instance_release": None,
        "heddle_tensor_release": None, "heddle_call_release": None, "heddle_tensor_element_type": ctypes.c_uint32, "heddle_tensor_rank": ctypes.c_uint32,
        "heddle_tensor_dims": ctypes.POINTER(ctypes.c_int64), "heddle_tensor_size": ctypes.c_uint64,
        "heddle_function_argument_count": ctypes.c_uint32, "heddle_function_result_count": ctypes.c_uint32,
    }

    def __init__(self, path=None):
        self.functions = ctypes.CDLL(str(path or library_path()))
        for name, result in self.PLAIN.items():
            function = getattr(self.functions, name)
            function.restype = result
            # A status or any other handle is a pointer; without this ctypes would cut it to 32 bits.
            function.argtypes = [ctypes.c_void_p]

    def plain(self, name, handle):
        return getattr(self.functions, name)(handle)

    def checked(self, name, *arguments):
        function = getattr(self.functions, name)
        function.restype = ctypes.c_void_p
        status = function(*arguments)
        if status:
            message = self.plain("heddle_status_message", status).text()
            self.plain("heddle_status_free", status)
            raise RuntimeError(f"{name}: {message}")

    def compile(self, compiler, model, module, target="cpu", flags=1, dump_after="", dump_path="", cache="", threads=0, specializations=()):
        """heddle_compile of libheddle_compiler, by default without its cache."""
        params = CompileParams(struct_size=ctypes.sizeof(CompileParams), threads=threads, input_path=String(model), output_path=String(module),
                               targets=String(target), dump_after=String(dump_after), dump_path=String(dump_path), flags=flags, cache_path=String(cache))
        texts = (String * len(specializations))(*map(String, specializations))
        params.specializations, params.specialization_count = texts, len(specializations)
        compiler.heddle_compile.restype = ctypes.c_void_p
        status = compiler.heddle_compile(ctypes.byref(params))
        if status:
            message = self.plain("heddle_status_message", status).text()
            self.plain("heddle_status_free", status)
            raise RuntimeError(message)

    def report(self, name, *arguments):
        text = ctypes.c_void_p()
        self.checked(name, *arguments, ctypes.byref(text))
        result = self.plain("heddle_text_view", text).text()
        self.plain("heddle_text_free", text)
        return result


class Tensor:
    def __init__(self, library, handle):
        self.library, self.handle = library, handle

    def __del__(self):
        self.library.plain("heddle_tensor_release", self.handle)

    def address(self):
        address = ctypes.c_uint64()
        self.library.checked("heddle_tensor_address", self.handle, ctypes.byref(address))
        return address.value

    def numpy(self):
        plain = self.library.plain
        dims = plain("heddle_tensor_dims", self.handle)[: plain("heddle_tensor_rank", self.handle)]
        code = plain("heddle_tensor_element_type", self.handle)
        is_packed = bits_of(code) < 8
        array = np.empty(-(-int(np.prod(dims)) * bits_of(code) // 8), np.uint8) if is_packed else np.empty(dims, DTYPES[code])
        pointer, size = array.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(array.nbytes)
        self.library.checked("heddle_tensor_read", self.handle, pointer, size)
        return unpacked(array, code, dims) if is_packed else array


class Call:
    def __init__(self, library, handle):
        self.library, self.handle = library, handle

    def wait(self, timeout_ns=0xFFFFFFFFFFFFFFFF):
        self.library.checked("heddle_call_wait", self.handle, ctypes.c_uint64(timeout_ns))

    def __del__(self):
        self.library.plain("heddle_call_release", self.handle)


class Function:
    """One function of one instance; keeps its instance alive."""

    def __init__(self, instance, handle):
        self.instance, self.library, self.handle = instance, instance.library, handle
        self.argument_count = self.library.plain("heddle_function_argument_count", handle)
        self.result_count = self.library.plain("heddle_function_result_count", handle)

    def tensor(self, argument, array):
        array = np.ascontiguousarray(array).reshape(np.shape(array))  # which makes a vector of a scalar
        dims = (ctypes.c_int64 * array.ndim)(*array.shape)
        handle, data = ctypes.c_void_p(), packed(array)
        self.library.checked(
            "heddle_tensor_from_host", self.handle, ctypes.c_uint32(argument), ctypes.c_uint32(TYPES[array.dtype]), dims,
            ctypes.c_uint32(array.ndim), data.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(data.nbytes), ctypes.byref(handle),
        )
        return Tensor(self.library, handle)

    def tensor_over(self, index, dtype, shape, address, size_bytes, release=None, result=False):
        """A tensor over device memory; `release` is a ctypes callback that outlives the tensor."""
        dims, handle = (ctypes.c_int64 * len(shape))(*shape), ctypes.c_void_p()
        memory = DeviceMemory(struct_size=ctypes.sizeof(DeviceMemory), flags=int(result), address=address, size_bytes=size_bytes)
        memory.release = ctypes.cast(release, ctypes.c_void_p) if release else None
        self.library.checked(
            "heddle_tensor_from_device", self.handle, ctypes.c_uint32(index), ctypes.c_uint32(TYPES[np.dtype(dtype)]), dims,
            ctypes.c_uint32(len(shape)), ctypes.byref(memory), ctypes.byref(handle),
        )
        return Tensor(self.library, handle)

    def start(self, arguments, results=None, stream=None):
        """Starts a call, ordered with a native stream if there is one; (call, results)."""
        given = (ctypes.c_void_p * len(arguments))(*(tensor.handle for tensor in arguments))
        got = (ctypes.c_void_p * self.result_count)(*(tensor.handle for tensor in results or ()))
        params, handle = CallParams(struct_size=ctypes.sizeof(CallParams)), ctypes.c_void_p()
        if stream is not None:
            params.flags, params.native_stream = 1, stream
        self.library.checked(
            "heddle_call_start", self.handle, ctypes.byref(params), given, ctypes.c_uint32(len(arguments)), got,
            ctypes.c_uint32(self.result_count), ctypes.byref(handle),
        )
        return Call(self.library, handle), results or [Tensor(self.library, ctypes.c_void_p(result)) for result in got]

    def prepare(self, *arrays):
        """(call, results): `call()` runs the function on these inputs once and waits.

        The first call, made here, allocates the results; all later ones write into them.
        """
        arguments = [self.tensor(index, array) for index, array in enumerate(arrays)]
        given = (ctypes.c_void_p * len(arguments))(*(tensor.handle for tensor in arguments))
        got = (ctypes.c_void_p * self.result_count)()
        function = self.library.functions.heddle_call
        function.restype = ctypes.c_void_p
        counts = ctypes.c_uint32(len(arguments)), ctypes.c_uint32(self.result_count)
        self.library.checked("heddle_call", self.handle, given, counts[0], got, counts[1])
        results = [Tensor(self.library, ctypes.c_void_p(handle)) for handle in got]
        handle = self.handle

        # What the call points to has to live as long as the call itself.
        def call(keep=(self, arguments, results)):
            status = function(handle, given, counts[0], got, counts[1])
            if status:
                raise RuntimeError("heddle_call: " + self.library.plain("heddle_status_message", status).text())

        return call, results

    def prepare_many(self, count, *arrays, each=None):
        """`call()` starts `count` calls, each with results of its own, and waits for all of them.

        `each` are the inputs of every call by itself, instead of `arrays` for all of them.
        """
        library, functions = self.library, self.library.functions
        sets = [[self.tensor(index, array) for index, array in enumerate(one)] for one in each or [arrays]]
        given = [(ctypes.c_void_p * len(one))(*(tensor.handle for tensor in one)) for one in (sets[i % len(sets)] for i in range(count))]
        got = [(ctypes.c_void_p * self.result_count)() for _ in range(count)]
        arguments, results = ctypes.c_uint32(self.argument_count), ctypes.c_uint32(self.result_count)
        for one, result in zip(given, got):
            library.checked("heddle_call", self.handle, one, arguments, result, results)
        kept = [Tensor(library, ctypes.c_void_p(handle)) for result in got for handle in result]
        start, wait, release = functions.heddle_call_start, functions.heddle_call_wait, functions.heddle_call_release
        start.restype = wait.restype = ctypes.c_void_p
        wait.argtypes, release.argtypes = [ctypes.c_void_p, ctypes.c_uint64], [ctypes.c_void_p]
        calls = [ctypes.c_void_p() for _ in range(count)]

        def call(keep=(self, sets, kept)):
            for one, result, handle in zip(given, got, calls):
                if start(self.handle, None, one, arguments, result, results, ctypes.byref(handle)):
                    raise RuntimeError("heddle_call_start failed")
            for handle in calls:
                if wait(handle, 0xFFFFFFFFFFFFFFFF):
                    raise RuntimeError("heddle_call_wait failed")
                release(handle)

        return call, kept


class ParameterFile(ctypes.Structure):
    _fields_ = [("scope", String), ("path", String)]


class Instance:
    """`device` is that of the default slot, or a dictionary of slots and devices."""

    def __init__(self, module, device, parameters=()):
        self.module, self.library, self.handle = module, module.library, ctypes.c_void_p()
        params = InstanceParams(struct_size=ctypes.sizeof(InstanceParams))
        files = (ParameterFile * len(parameters))(*(ParameterFile(String(""), String(path)) for path in parameters))
        if parameters:
            params.parameter_files, params.parameter_file_count = ctypes.cast(files, ctypes.c_void_p), len(parameters)
        bindings = device if isinstance(device, dict) else {"": device} if device else {}
        slots = (SlotBinding * len(bindings))(*(SlotBinding(String(slot), String(alias)) for slot, alias in bindings.items()))
        params.slot_count, params.slots = len(bindings), slots
        self.library.checked("heddle_instance_create", module.handle, ctypes.byref(params), ctypes.byref(self.handle))

    def __del__(self):
        if self.handle:
            self.library.plain("heddle_instance_release", self.handle)

    def function(self, name=""):
        handle = ctypes.c_void_p()
        self.library.checked("heddle_instance_function", self.handle, String(name), ctypes.byref(handle))
        return Function(self, handle)

    def report(self, topic):
        return self.library.report("heddle_instance_report", self.handle, String(topic))


class Module:
    def __init__(self, runtime, path, flags=0):
        self.runtime, self.library, self.handle = runtime, runtime.library, ctypes.c_void_p()
        params = ModuleParams(struct_size=ctypes.sizeof(ModuleParams), flags=flags)
        self.library.checked("heddle_module_open", runtime.handle, String(path), ctypes.byref(params), ctypes.byref(self.handle))

    def __del__(self):
        if self.handle:
            self.library.plain("heddle_module_release", self.handle)

    def instance(self, device="", parameters=()):
        return Instance(self, device, parameters)

    def report(self):
        return json.loads(self.library.report("heddle_module_report", self.handle))


class Runtime:
    """A host. `config` is TOML text that wins over every file."""

    def __init__(self, config="", library=None):
        self.library, self.handle = library or Library(), ctypes.c_void_p()
        params = RuntimeParams(struct_size=ctypes.sizeof(RuntimeParams), config_text=String(config))
        self.library.checked("heddle_runtime_create", ctypes.byref(params), ctypes.byref(self.handle))

    def __del__(self):
        if self.handle:
            self.library.plain("heddle_runtime_release", self.handle)

    def open(self, path, flags=0):
        return Module(self, path, flags)
