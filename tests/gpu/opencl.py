# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The example of sdk/examples/opencl over NVIDIA's OpenCL: digits and SqueezeNet, as OpenCL C that the driver writes from portable code, and that the
compiler target writes, against the CPU device. Skipped, with the reason, where there is no loader or NVIDIA is no platform.

    opencl.py DRIVER_FOLDER LOADER_FOLDER

LOADER_FOLDER has a libOpenCL.so.1 for machines that have NVIDIA's platform and no loader.
"""
import ctypes
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLATFORM = "NVIDIA"
PLATFORM_NAME, SKIPPED = 0x0902, 77


def platforms(loader):
    """The names of the platforms that a loader finds; OSError if there is no such loader."""
    opencl, count = ctypes.CDLL(loader), ctypes.c_uint32()
    if opencl.clGetPlatformIDs(0, None, ctypes.byref(count)) != 0:
        return []
    found, names = (ctypes.c_void_p * count.value)(), []
    opencl.clGetPlatformIDs(count, found, None)
    for each in found:
        name = ctypes.create_string_buffer(1000)
        opencl.clGetPlatformInfo(ctypes.c_void_p(each), PLATFORM_NAME, ctypes.c_size_t(len(name)), name, None)
        names.append(name.value.decode(errors="replace"))
    return names


def main():
    driver, own = map(pathlib.Path, sys.argv[1:])
    if not (driver / "org.example.opencl.toml").exists():
        print("SKIP: the driver is not in the pack, which was made without CL/cl.h")
        return SKIPPED
    environment = dict(os.environ)
    loader = "libOpenCL.so.1"
    try:
        names = platforms(loader)
    except OSError as error:
        print(f"this machine has no loader: {error}; the pack's own is taken")
        loader = str(own / loader)
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [environment.get("LD_LIBRARY_PATH"), str(own)]))
        try:
            names = platforms(loader)
        except OSError as missing:
            print(f"SKIP: there is no libOpenCL.so.1: {missing}")
            return SKIPPED
    print(f"platforms of OpenCL: {', '.join(names) or 'none'}", flush=True)
    if not any(PLATFORM in name for name in names) and "OCL_ICD_VENDORS" not in os.environ:
        # Containers often have the library of NVIDIA's platform without the file that names it; a loader reads this variable once.
        print("NVIDIA's is not registered; its library is named to the loader", flush=True)
        return subprocess.run([sys.executable, "-B", __file__, *sys.argv[1:]], check=False,
                              env={**environment, "OCL_ICD_VENDORS": "libnvidia-opencl.so.1", "OCL_ICD_FILENAMES": "libnvidia-opencl.so.1"}).returncode
    if not any(PLATFORM in name for name in names):
        print("SKIP: NVIDIA's platform of OpenCL is not installed")
        return SKIPPED
    wrong = 0
    for target in ("portable", "opencl"):
        print(f"--target {target}", flush=True)
        wrong += subprocess.run([sys.executable, "-B", ROOT / "tests/opencl/networks.py", "--driver", driver, "--only", "digits", "squeezenet", "--target", target,
                                 "--option", f'platform="{PLATFORM}"'], check=False, env=environment).returncode != 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
