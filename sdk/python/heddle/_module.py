# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runtime and Module: opening, reports, functions by name."""
from __future__ import annotations

import _thread
import operator
import os
from _collections_abc import Mapping, Sequence  # collections.abc, without the import of collections

from . import _core
from ._check import class_of, flag_of, has, is_a, seconds_of, text_of, texts_of, wrong
from ._errors import Error, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any, Generator, Iterator, TypeVar, Union

    from typing_extensions import Buffer

    from . import _records

    PathLike = Union[str, "os.PathLike[str]"]
    ParameterFile = Union[PathLike, int, IO[bytes], Buffer]
    Parameters = Union[ParameterFile, Sequence[ParameterFile], Mapping[str, Union[ParameterFile, Sequence[ParameterFile]]]]
    Self = TypeVar("Self", bound="Module")
else:  # what typing.get_type_hints finds, without the import of typing
    import io
    from _collections_abc import Generator, Iterator

    from ._later import Later

    Any = Self = object
    _records = Later("heddle._records")
    PathLike = str | os.PathLike[str]
    ParameterFile = PathLike | int | io.IOBase | bytes | bytearray | memoryview
    Parameters = ParameterFile | Sequence[ParameterFile] | Mapping[str, ParameterFile | Sequence[ParameterFile]]


def _json(text: str) -> Any:
    import json

    return json.loads(text)


class Runtime(_core.Runtime):
    """Configuration, plugins and devices. `heddle.open` makes one for the process; more are for other configurations.

    config        the path of a heddle.toml; None: $HEDDLE_CONFIG, else the user's or the system's file
    config_text   TOML that overrides the file
    plugin_paths  directories with manifests, or one of them, searched first
    environment   False: no configuration file of the user, no environment variables, and no plugins of other packages
    """

    def __init__(self, config: PathLike | None = None, *, config_text: str = "", plugin_paths: PathLike | Sequence[PathLike] = (), environment: bool = True):
        paths = texts_of(plugin_paths, "making a runtime", "plugin_paths")
        environment = flag_of(environment, "making a runtime", "environment")
        if environment:
            from . import _plugins

            paths += _plugins.plugin_paths()
        path = "" if config is None else text_of(config, "making a runtime", "config")
        super().__init__(path, text_of(config_text, "making a runtime", "config_text", "a str"), paths, environment)

    def devices(self) -> list[_records.Device]:
        """Every device, as `heddle devices` lists them."""
        return [_records.device_of(device) for device in self.report("devices")["devices"]]

    def plugins(self) -> list[dict[str, Any]]:
        """Every plugin that was found, with its state and the reason."""
        plugins: list[dict[str, Any]] = self.report("plugins")["plugins"]
        return plugins

    def tensor(self, array: Any, device: str = "cpu") -> _core.Tensor:
        """A tensor with a copy of an array in host memory, for functions of all modules of this runtime on that device, such as "cpu" or "cuda:0"."""
        return self._tensor(text_of(device, "making a tensor", "device", "a str"), array)

    def report(self, topic: str) -> Any:
        """A report of heddle_runtime_report: "devices", "plugins", "config", "schema", "validation"."""
        return _json(self._report(text_of(topic, "asking for a report", "its topic", "a str")))

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_shared: tuple[int, Runtime] | None = None
_sharing = _thread.RLock()


def _shared_one() -> Runtime | None:
    found = _shared
    return found[1] if found is not None and found[0] == os.getpid() and not found[1].closed else None


def shared_runtime() -> Runtime:
    """The runtime of this process with the default configuration."""
    global _shared
    found = _shared_one()
    if found is not None:
        return found
    made = Runtime()  # without the lock: this delivers lines of the log, and a handler may come here, or wait for a thread that does
    with _sharing:
        found = _shared_one()
        if found is None:
            _shared = (os.getpid(), made)
            return made
    made.close()  # another thread, or a handler, was first
    return found


def _renew_lock() -> None:
    """In a forked child, where the thread that held the lock does not exist."""
    global _sharing
    _sharing = _thread.RLock()


os.register_at_fork(after_in_child=_renew_lock)


class _ParameterFiles:
    """Files by scope, as the runtime wants them. Buffers are copied to files in memory, which the runtime opens before they are closed here."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self._given: dict[str, str] = {}  # what the caller passed, by the path that the runtime gets

    def __enter__(self) -> _ParameterFiles:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        if isinstance(error, Error):
            self.reword(error)

    def reword(self, error: Error) -> None:
        """Lets an error of the runtime name what the caller passed."""
        import re

        text = re.sub(r"/proc/self/fd/[0-9]+", lambda path: self._given.get(path[0], path[0]), str(error))
        text = text.replace("--params FILE", "parameters=FILE")
        error.args = (re.sub(r"--params (\S+)=FILE", r"parameters={'\1': FILE}", text), *error.args[1:])

    def named(self, parameters: Parameters | None, what: str) -> list[tuple[str, str]]:
        if parameters is None:
            return []
        scopes: Mapping[str, Any] = parameters if hasattr(parameters, "items") else {"": parameters}  # type: ignore[assignment]
        out: list[tuple[str, str]] = []
        for scope, files in scopes.items():
            scope = text_of(scope, f"reading {what}", "a scope", "a str")
            path = self._path(files, what)
            if path is not None:
                out.append((scope, path))
                continue
            try:
                several = list(files)
            except TypeError:
                raise self._unknown(files, what) from None
            for file in several:
                path = self._path(file, what)
                if path is None:
                    raise self._unknown(file, what)
                out.append((scope, path))
        return out

    @staticmethod
    def _unknown(file: Any, what: str) -> Error:
        return make("TYPE", f"heddle: {what}: expected a path, a descriptor, an open file or bytes, got {class_of(file)}")

    @staticmethod
    def _needed_path(file: Any) -> str | None:
        """The path of an open file that cannot be read without: an index and an ONNX model name files in its directory, and the
        tensor of an .npy file has its name."""
        path: Any = getattr(file, "name", None)
        if not has(path, "__fspath__") and not is_a(path, str) and not is_a(path, bytes):
            return None
        try:
            needs_it = os.pread(file.fileno(), 8, 0).lstrip().startswith((b"{", b"\x93NUMPY", b"\x08"))
            return os.fsdecode(path) if needs_it and os.path.samestat(os.stat(path), os.fstat(file.fileno())) else None
        except OSError:
            return None

    def _path(self, file: Any, what: str) -> str | None:
        if isinstance(file, (str, os.PathLike)):
            return text_of(file, f"reading {what}", "a path")
        given = file
        if hasattr(file, "getbuffer"):  # of io.BytesIO
            file = file.getbuffer()
        elif hasattr(file, "fileno"):
            path = self._needed_path(file)
            if path is not None:
                return path
            file = file.fileno()
        if isinstance(file, bool):
            return None
        if has(file, "__index__") and getattr(file, "ndim", 0) == 0:  # NumPy's integers too
            try:
                descriptor = operator.index(file)
            except TypeError:  # an array of NumPy with one element that is no integer
                return None
            if descriptor < 0:
                raise make("INVALID_ARGUMENT", f"heddle: {what}: a descriptor is 0 or more, got {descriptor}")
            name = getattr(given, "name", None)
            self._given[f"/proc/self/fd/{descriptor}"] = f"'{name}'" if isinstance(name, str) else f"descriptor {descriptor}"
            return f"/proc/self/fd/{descriptor}"
        try:
            view = memoryview(file)
        except TypeError:
            return None
        if view.ndim == 0:  # a number of NumPy
            return None
        if view.format.strip("@=<>!").strip("Z") in ("e", "f", "d", "g"):
            raise make("TYPE", f"heddle: {what}: got an array of type {view.format}, which is not the contents of a file; write arrays with numpy.savez "
                               "into an io.BytesIO, which gives them names, and pass that")
        if not view.c_contiguous:
            raise make("INVALID_ARGUMENT", f"heddle: {what}: the bytes of a {type(file).__name__} are not contiguous; pass a copy, such as bytes(...)")
        try:
            rest = view.cast("B")
        except TypeError:
            return None
        descriptor = os.memfd_create("heddle")
        self._descriptors.append(descriptor)
        self._given[f"/proc/self/fd/{descriptor}"] = f"the {type(given).__name__} of {len(rest)} bytes in {what}"
        while rest:
            rest = rest[os.write(descriptor, rest):]
        return f"/proc/self/fd/{descriptor}"


def _slots_of(devices: str | Mapping[str, str] | None, path: str) -> list[tuple[str, str]]:
    """Slots and devices. "default" is the default slot, whose name is empty."""
    doing = f"opening '{path}'"
    if devices is None or isinstance(devices, str):
        return [] if devices is None else [("", text_of(devices, doing, "devices"))]
    if not has(devices, "items"):
        raise wrong(doing, "devices", "the name of a device, such as 'cpu', or a dictionary of slots and names", devices)
    out: list[tuple[str, str]] = []
    for slot, device in devices.items():
        name = text_of(slot, doing, "a slot of devices", "a str")
        out.append(("" if name == "default" else name, text_of(device, doing, "a device of devices", "a str")))
    return out


class Module(_core.Module):
    """A compiled module on its devices, with its parameters. Made by `heddle.open`.

    Calling it calls its only function, or "main". Functions are attributes and items, too: `module.encode(x)`, `module["encode"](x)`.
    """

    def __init__(self, runtime: Runtime, path: PathLike, devices: str | Mapping[str, str] | None = None, parameters: Parameters | None = None,
                 profile: bool = False, background: bool = False, over: Parameters | None = None,
                 check_hashes: bool = False):
        path = text_of(path, "opening a module", "its path", of_bytes="os.fsdecode makes a path of bytes; write the contents of a module to a file first")
        if not is_a(runtime, Runtime):
            raise wrong(f"opening '{path}'", "runtime", "a heddle.Runtime", runtime)
        flags = 0
        for name, flag, given in (("profile", 1, profile), ("background", 4, background), ("check_hashes", 8, check_hashes)):
            flags |= flag if flag_of(given, f"opening '{path}'", name) else 0
        with _ParameterFiles() as files:
            super().__init__(runtime, path, _slots_of(devices, path), files.named(parameters, "parameters"), files.named(over, "over"), flags)
        self._loading = background
        self._profile = profile
        self._files = files  # for errors
        self._runtime = runtime
        self._functions: dict[str, _core.Function] = {}

    def function(self, name: str = "") -> _core.Function:
        """The function of that name; an empty name means the only one, or "main"."""
        asked = name = text_of(name, f"getting a function of '{self.path}'", "its name", "a str")
        found = self._functions.get(name)
        if found is None:
            if self.closed:
                raise make("FAILED_PRECONDITION", f"heddle: getting a function of '{self.path}' failed: the module is closed")
            if not name:
                names = self.functions
                name = names[0] if len(names) == 1 else "main"
            found = self._functions.setdefault(name, self._function(name))
            self._functions.setdefault(asked, found)
        return found

    def start(self, *arguments: Any, **named: Any) -> _core.Call:
        """Starts a call of the only function, or "main", and returns a heddle.Call without waiting for it.

        While parameters are loaded in the background, the call begins when they are; calls that were started earlier begin first.
        """
        return self.function().start(*arguments, **named)

    def state(self) -> _core.State:
        """A new state, for the option `state` of calls: its values are zero, and it shares the parameters and code of the module."""
        self.wait()
        return self._state()

    def wait(self, timeout: float | None = None) -> None:
        """Waits until the parameters are loaded, in a module that was opened with background=True; otherwise they are. Raises the error of loading."""
        seconds_of(timeout, f"waiting for the parameters of '{self.path}'")
        if self._loading and not self._is_loaded(timeout):
            raise make("DEADLINE_EXCEEDED", f"heddle: waiting for the parameters of '{self.path}' failed: they are still being loaded after {timeout} s")
        self._loading = False

    def _is_loaded(self, timeout: float | None) -> bool:
        try:
            return self._wait(timeout)
        except Error as error:
            self._files.reword(error)
            raise

    def __await__(self: Self) -> Generator[Any, Any, Self]:
        """Waits as wait() does, without blocking the event loop, and returns the module."""
        from ._async import await_module

        return await_module(self)

    def refit(self, parameters: Parameters, *, over: Parameters | None = None) -> None:
        """Gives the parameters that these files have new values; the others keep theirs. Nothing is compiled or opened again, and states stay.

        A call that began before uses only old values, one that begins afterwards only new ones. If it fails, or Ctrl-C ends it, the old values stay in use.
        `parameters` and `over` are those of `heddle.open`.
        """
        self.wait()
        with _ParameterFiles() as files:
            self._refit(files.named(parameters, "parameters"), files.named(over, "over"))

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of all functions."""
        return tuple(function["name"] for function in self.report()["functions"])

    def report(self) -> dict[str, Any]:
        """The contents of the module: functions, executables, parameters, the compiler's report."""
        report: dict[str, Any] = _json(self._module_report())
        return report

    def statistics(self) -> dict[str, Any]:
        """Calls, dispatches, copies, and the memory of each device."""
        self.wait()
        statistics: dict[str, Any] = _json(self._instance_report("statistics"))
        return statistics

    def memory(self) -> list[_records.DeviceMemory]:
        """The memory of each device, from the statistics."""
        return [_records.memory_of(device) for device in self.statistics()["devices"]]

    def route(self) -> dict[str, Any]:
        """The device of each slot and the variant of each executable, with the reasons."""
        self.wait()
        route: dict[str, Any] = _json(self._instance_report("route"))
        return route

    def profile(self) -> dict[str, Any]:
        """The time of each region; for a module that was opened with profile=True."""
        self.wait()
        if not self._profile and not self.closed:
            raise make("FAILED_PRECONDITION", f"heddle: reporting the profile of '{self.path}' failed: it records no times; open it with profile=True")
        profile: dict[str, Any] = _json(self._instance_report("profile"))
        return profile

    def __getattr__(self, name: str) -> _core.Function:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self.function(name)
        except LookupError:
            raise AttributeError(f"heddle: module '{self.path}' has no function '{name}'; its functions are {', '.join(self.functions)}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(() if self.closed else self.functions)]

    def __getitem__(self, name: str) -> _core.Function:
        return self.function(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def __enter__(self) -> Module:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<heddle.Module {self.path}{', closed' if self.closed else ''}>"


def open(path: PathLike, devices: str | Mapping[str, str] | None = None, config: PathLike | None = None, parameters: Parameters | None = None, *,
         runtime: Runtime | None = None, profile: bool = False, background: bool = False, over: Parameters | None = None,
         check_hashes: bool = False) -> Module:
    """Opens a .heddle file on devices.

    devices     the device of the default slot, such as "cpu" or "cuda:0", or a dictionary of slots and devices, such as {"default": "cpu"}; others are
                routed by the configuration
    config      the path of a heddle.toml, for a runtime of its own
    parameters  a file, such as safetensors or GGUF, several, or a dictionary of scopes; each is a path, a descriptor, an open file, or its bytes
    over        files that are laid over `parameters`: their tensors take the place of those of the same name, each file's of earlier ones'
    runtime     instead of that of the process
    profile     measures each region, for `profile()`; calls are slower
    background  returns as soon as the parameters are found; another thread loads them, and calls begin when it is done. `await module` and
                `module.wait()` wait for it
    check_hashes  reads the parameters once more and raises DataLossError if they are not those that the module was compiled with
    """
    if runtime is not None and config is not None:
        raise make("TYPE", f"heddle: opening '{path!s}' failed: it takes a runtime or a config, got both; pass the config to Runtime")
    if runtime is None:
        runtime = Runtime(config) if config is not None else shared_runtime()
    return Module(runtime, path, devices, parameters, profile, background, over, check_hashes)
