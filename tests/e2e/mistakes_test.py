# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mistakes that users of the command line make, one per row: the first message names the cause, with the value that is wrong, and the
remedy: the next step, the nearest name, the accepted values or a form that works. Nothing is left behind.

The first message is the first line on stderr with the indented lines that belong to it. In the errors of a configuration, the line that
counts them belongs to the first of them. The last line of this test's output has the number of messages that name both.
"""
import ctypes
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import tempfile
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heddle_command import DIGITS, TIMEOUT_S, CommandResult, HeddleTestCase, environment, heddle, heddle_path

FLOAT, INT64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
IMAGE = "--input image=f32[1,1,8,8]=0.5"  # an input that is right
FORM = r"for example --input 'image=f32\[1,1,8,8\]=0'"
SEE_HELP = r"see heddle {} --help"


class Mistake(NamedTuple):
    what: str
    command: str  # in a folder with the files that are made below
    code: int
    cause: str  # regular expressions
    remedy: str
    # How the process is started: the rights of a user who is not root; a full disk as stdout; a limit for the size of files; variables.
    is_plain_user: bool = False
    has_full_stdout: bool = False
    largest_file_bytes: int | None = None
    variables: dict = {}


FLAGS = [
    Mistake("a command with a letter missing", "comple digits.onnx -o m.heddle", 2, "unknown command 'comple'", r"did you mean 'compile'\?"),
    Mistake("an option with two letters swapped", f"run digits.heddle --inptu {IMAGE[8:]}", 2, "unknown option '--inptu'", r"did you mean '--input'\?"),
    Mistake("an option without its value", "run digits.heddle --input", 2, "--input needs a value", r"\[NAME=\]TYPE=VALUES\|@FILE"),
    Mistake("no output", "compile digits.onnx", 2, "-o FILE is missing", "such as -o digits.heddle"),
    Mistake("no module", "run", 2, "MODULE is required", "compiled .heddle file; see heddle run --help"),
    Mistake("an input as an argument", "run digits.heddle image.npy", 2, "unexpected argument 'image.npy'", "heddle run takes MODULE, and all else as flags"),
    Mistake("a number in words", "compile digits.onnx -o m.heddle --threads many", 2, "--threads: many is not an integer", r"of 0\.\.4096"),
    Mistake("a number out of range", "bench digits.heddle --iterations 0", 2, "--iterations: 0 is outside", r"1\.\.1000000000"),
    Mistake("a format that does not exist", "devices --format yaml", 2, "--format: 'yaml' is not one of", r"table\|json\|jsonl\|csv\|md"),
    Mistake("a target that does not exist", "compile digits.onnx -o m.heddle --target gpu", 2, "target 'gpu' is not known", "use cpu, cuda, hip, level_zero, portable, or one level"),
    Mistake("a chip that the compiler has no code for", "compile digits.onnx -o m.heddle --target hip:gfx950", 2, "target 'hip:gfx950' is not known",
            "use hip for all levels, or one of hip:gfx90a, hip:gfx942, hip:gfx1100, hip:gfx1201"),
    Mistake("an action with a letter too many", "params lst weights.safetensors", 2, "unknown action 'lst'", r"did you mean 'ls'\?"),
    Mistake("an action that does not exist", "config verify good.toml", 2, "unknown action 'verify'", "expected check, effective or schema"),
    Mistake("a check that does not exist", f"run digits.heddle {IMAGE} --validate=nans", 2, "'nans' is not a check", "expected calls, nan or inf"),
    Mistake("a symbol that does not exist", "bench digits.heddle --dim bacth=4", 2, "--dim 'bacth' is not a symbol of the function", "it has batch"),
    Mistake("an extent without its symbol", "bench digits.heddle --dim 4", 2, "--dim '4'", "expected NAME=N, such as batch=4"),
    Mistake("two devices for one slot", f"run digits.heddle {IMAGE} --device cpu:0 --device default=cpu:1", 2, "the default slot is bound twice.*'cpu:1'", "name one device for it"),
    Mistake("a pass with a letter missing", "compile digits.onnx -o m.heddle --dump-after heddle-form-dispatch", 2, "no pass 'heddle-form-dispatch' was run", r"did you mean 'heddle-form-dispatches'\?"),
    Mistake("a placement that matches no node", "compile digits.onnx -o m.heddle --place Softmax=@host", 2, "placement 'Softmax=@host' matches no node", "the nearest names are '"),
    Mistake("a dump that matches no region", f"run digits.heddle {IMAGE} --dump conv9 --dump-to dumps", 1, "no region of .*digits.heddle has a name like 'conv9'", r"heddle explain lists the names, and \* matches any part"),
    Mistake("one dump of two that matches no region", f"run digits.heddle {IMAGE} --dump * --dump main.77* --dump-to dumps", 1, r"has a name like 'main\.77\*'", "heddle explain lists the names"),
    Mistake("a function that does not exist", f"run digits.heddle {IMAGE} --function forward", 2, "function 'forward' of digits.heddle failed: no function has that name", "it has 'main'"),
    Mistake("a module where a report is expected", "page digits.heddle", 2, "digits.heddle: this is no report of a module", "give the output of heddle explain --format json"),
]

VALUES = [
    Mistake("no input", "run digits.heddle", 2, r"input 'image' \(f32\[batch,1,8,8\]\) is missing", FORM),
    Mistake("a value without its type", "run digits.heddle --input image=0.5", 2, "'image=0.5': expected TYPE=VALUES", FORM),
    Mistake("a type that does not exist", "run digits.heddle --input image=f23[1,1,8,8]=0.5", 2, "'f23' is not an element type", FORM),
    Mistake("another type", "run digits.heddle --input image=f64[1,1,8,8]=0.5", 2, r"expected f32\[batch,1,8,8\], got f64\[1,1,8,8\]", FORM),
    Mistake("another rank", "run digits.heddle --input image=f32[8,8]=0.5", 2, r"expected f32\[batch,1,8,8\], got f32\[8,8\]", FORM),
    Mistake("another extent", "run digits.heddle --input image=f32[1,1,8,9]=0.5", 2, "dimension 3 is 9", "must be 8.*" + FORM),
    Mistake("the name of a symbol as its extent", "run digits.heddle --input image=f32[batch,1,8,8]=0.5", 2, "'batch' is not an extent", "expected a number.*" + FORM),
    Mistake("too few values", "run digits.heddle --input image=f32[1,1,8,8]=1,2,3", 2, r"3 values for f32\[1,1,8,8\], which has 64", FORM),
    Mistake("a value in words", "run digits.heddle --input image=f32[1,1,8,8]=white", 2, "'white' is not a number", FORM),
    Mistake("an input twice", f"run digits.heddle {IMAGE} {IMAGE}", 2, "'image' is given twice", "give one value for it"),
    Mistake("another name", "run digits.heddle --input img=f32[1,1,8,8]=0.5", 2, "there is no input 'img'", r"the function has image: f32\[batch,1,8,8\]"),
    Mistake("two extents for one symbol", "run add.heddle --input a=f32[2,4]=1 --input b=f32[3,4]=1", 1, r"input 'b' .*dimension 0 \('n'\) is 3", "must be 2, as dimension 0 of input 'a'"),
    Mistake("an index beyond its table", "run pick.heddle --input ids=i64[2]=1,99", 1, "node 'last', dimension 0 of its input: index 99 is outside", r"-8\.\.7$"),
    Mistake("an expected shape that differs", f"run digits.heddle {IMAGE} --expect f32[1,9]=0", 3, r"it is f32\[1,10\], expected f32\[1,9\]", "give expected values of the same type and shape"),
    Mistake("an output that does not exist", f"run digits.heddle {IMAGE} --output scores=@s.npy", 2, "there is no result 'scores'", r"the function has logits: f32"),
]

FILES = [
    Mistake("a module with a letter missing", "run digts.heddle", 1, "opening 'digts.heddle' failed: No such file or directory", "check the path"),
    Mistake("a model where a module is expected", "run digits.onnx", 1, "'digits.onnx' failed: it does not start like a .heddle file", "give a file written by heddle compile"),
    Mistake("a module that is cut short", "run cut.heddle", 1, r"'cut.heddle' failed: .*the file has \d+ bytes, expected \d+", "compile or copy the file again"),
    Mistake("a module with a byte changed", f"run flipped.heddle {IMAGE}", 1, "'flipped.heddle' failed: content hash", "compile or copy the file again"),
    Mistake("a model that does not exist", "compile absent.onnx -o m.heddle", 1, "opening 'absent.onnx' failed: No such file or directory", "check the path"),
    Mistake("a model as text that does not exist", "compile absent.mlir -o m.heddle", 1, "reading 'absent.mlir' failed: there is no such file", "check the path"),
    Mistake("a module where a model is expected", "compile digits.heddle -o m.heddle", 1, "'digits.heddle' failed: it is a compiled module already", "run it with heddle run"),
    Mistake("a checkpoint where a model is expected", "compile weights.safetensors -o m.heddle", 1, "it is a safetensors file, which holds parameters and no graph", "export the model as .onnx"),
    Mistake("a model that is cut short", "compile cut.onnx -o m.heddle", 1, r"'cut.onnx' failed: it is truncated, damaged or not an ONNX file \(\d+ bytes\)", "copy the file or export the model again"),
    Mistake("a directory as a model", "compile folder -o m.heddle", 1, "'folder' failed: it is not a regular file", "name a model file"),
    Mistake("an array that does not exist", "run digits.heddle --input image=@imgae.npy", 1, "'imgae.npy': No such file or directory", "check the path"),
    Mistake("a directory as an array", "run digits.heddle --input image=@folder", 1, "'folder': it is not a regular file but a directory", "name a file in it"),
    Mistake("an array that is cut short", "run digits.heddle --input image=@cut.npy", 1, r"'cut.npy': its data has 100 bytes, its shape f32\[1,1,8,8\] needs 256", "copy the file again, or save the array again"),
    Mistake("an array of another type", "run digits.heddle --input image=@doubles.npy", 1, r"'doubles.npy': expected f32\[batch,1,8,8\], got f64\[1,1,8,8\]", "convert the array to f32 and save it again"),
    Mistake("an array of strings", "run digits.heddle --input image=@strings.npy", 1, "'strings.npy': header: type '<U3' is not supported", r"save strings as UTF-8, such as with numpy.char.encode\(array, 'utf-8'\)"),
    Mistake("an array in Fortran's order", "run digits.heddle --input image=@fortran.npy", 1, "'fortran.npy': header: the data is in Fortran order", "save it with numpy.ascontiguousarray"),
    Mistake("a picture as an input", "run digits.heddle --input image=@photo.png", 1, "'photo.png': it is neither .npy nor .npz but plain values, whose shape is not known", r"save the array with numpy.save, or give the shape, as in 'f32\[1,1,8,8\]=@photo.png'"),
    Mistake("a compressed archive", "run digits.heddle --input image=@compressed.npz", 1, "'compressed.npz': member 'image.npy': it is deflated", "save them with numpy.savez, not savez_compressed"),
    Mistake("an array that an archive does not have", "run digits.heddle --input image=@data.npz:img", 1, "'data.npz': there is no array 'img' in it", "it has 'image'"),
    Mistake("choices that are none", "compile digits.onnx -o m.heddle --tuned good.toml", 1, "reading choices from 'good.toml' failed: ", "write the file anew with heddle tune"),
    Mistake("parameters that are cut short", "params ls cut.safetensors", 1, "the index of 'cut.safetensors' failed", "write or copy the file again"),
    Mistake("a checkpoint of PyTorch", "params ls model.pt", 1, "'model.pt': it is a pickle", "this version reads safetensors"),
    Mistake("a tensor that does not exist", "params dump weights.safetensors conv1.bias", 2, "no tensor of 'weights.safetensors' matches 'conv1.bias'", "heddle params ls lists its 1"),
    Mistake("an adapter with one factor", "params merge weights.safetensors half.safetensors -o m.safetensors", 1, r"'half.safetensors': tensor 'w.lora_A.weight' has no partner", "a weight needs lora_A and lora_B"),
]

PATHS = [
    Mistake("a directory that does not exist", "compile digits.onnx -o absent/m.heddle", 1, "'absent/m.heddle' failed: No such file or directory", "create the directory first"),
    Mistake("a file as a directory", f"run digits.heddle {IMAGE} --output @digits.onnx/s.npy", 1, "'digits.onnx/s.npy' failed: Not a directory", "choose another path"),
    Mistake("a directory as an output", "compile digits.onnx -o folder", 1, "'folder' failed: something that is not a regular file has this name", "choose another"),
    Mistake("a directory as a page", "explain digits.heddle --html folder", 1, "'folder': Is a directory", "name a file in it"),
    Mistake("the model as its own output", "compile digits.onnx -o digits.onnx", 2, "-o would overwrite MODEL, 'digits.onnx'", "name another file"),
    Mistake("a module that may not be read", f"run secret.heddle {IMAGE}", 1, "'secret.heddle' failed: Permission denied", "give this user the right to read it", is_plain_user=True),
    Mistake("a directory that may not be written to", "compile digits.onnx -o locked/m.heddle", 1, "'locked/m.heddle' failed: Permission denied", "choose a directory that this user may write to", is_plain_user=True),
    Mistake("a full disk for a result", f"run digits.heddle {IMAGE} --output @/dev/full", 1, "'/dev/full': No space left on device", "free space"),
    Mistake("a full disk for the standard output", "explain digits.heddle", 1, "writing results failed: No space left on device", "free space", has_full_stdout=True),
    Mistake("a limit that a file exceeds", "params convert weights.safetensors -o w.npz", 1, "writing 'w.npz' at byte .* failed: File too large", "raise the limit for the size of files", largest_file_bytes=1000),
    Mistake("a trace in a directory that does not exist", f"profile digits.heddle {IMAGE} --trace absent/t.json", 1, "trace: opening 'absent/t.json' failed: No such file or directory", "name another file .* in a directory that exists"),
    Mistake("a trace on a full disk", f"profile digits.heddle {IMAGE} --trace /dev/full", 1, "trace: writing '/dev/full' failed: No space left on device", "free space on its disk or name a file on another"),
]

CONFIGURATION = [
    Mistake("a configuration that does not exist", f"run digits.heddle {IMAGE} --config absent.toml", 1, r"error\[E106\]: reading absent.toml failed: No such file", "correct the path"),
    Mistake("a key with a letter missing", "config check key.toml", 1, r"key.toml:2:1: error\[E102\]: unknown key 'treads'", r"did you mean 'threads'\?"),
    Mistake("a value of another type", "config check type.toml", 1, r"type.toml:2:11: error\[E103\]: option 'threads' is \"two\"", "an integer was expected"),
    Mistake("a line that is not TOML", "config check syntax.toml", 1, r"syntax.toml:2:\d+: error\[E101\]", "correct the line"),
    Mistake("a route to a device that does not exist", f"run digits.heddle {IMAGE} --config route.toml", 1, r"route.toml:\d+:\d+: error\[E202\]: no device is named 'gpu1'", r"did you mean 'gpu0'\?"),
    Mistake("a variable with a typing mistake", "config effective", 1, r"HEDDLE_SET:1:\d+: error\[E102\]: unknown key 'lgo'", r"did you mean 'log'\?", variables={"HEDDLE_SET": "lgo.level = 'debug'"}),
    Mistake("a manifest without a library", "config check plugins/com.acme.bare.toml", 1, r"error\[E104\]: \[plugin\] lacks the key 'library'", "add it"),
]

PLUGINS = [
    Mistake("a device that does not exist", f"run digits.heddle {IMAGE} --device gpu0", 4, "finding device gpu0 failed: no device has that name", "such as cpu:0"),
    Mistake("an ordinal that does not exist", f"run digits.heddle {IMAGE} --device cpu:77", 4, "finding device cpu:77 failed: heddle.cpu has 1 device", "the last is cpu:0"),
    Mistake("a slot that does not exist", f"run digits.heddle {IMAGE} --device @host=cpu:0", 2, "digits.heddle has no such slot", "it has default"),
    Mistake("a directory of plugins that does not exist", "devices --plugin-path absent", 2, "--plugin-path 'absent': ", "name a directory with plugin manifests"),
    Mistake("a plugin that is not installed", "devices --config require-absent.toml", 4, "the configuration requires acme.absent, which is in none of /", "install it, or name the directory of its manifest with --plugin-path"),
    Mistake("a plugin whose library is a text", "devices --plugin-path plugins --config require-text.toml", 4, "requires com.acme.text, .*its library .*text.so cannot be used", "reinstall the plugin, or correct `library`"),
    Mistake("a plugin of a newer ABI", "devices --plugin-path plugins --config require-newer.toml", 4, r"com.acme.newer 1.0.0 works with ABI 0\.7 to 0\.9, this libheddle with 0\.1 to 0\.\d", r"install a newer libheddle \[HD-E-02\]"),
    Mistake("an option of the kit with a letter missing", "conformance --plugn plugins/com.acme.text.toml", 2, "unknown argument '--plugn'", r"did you mean '--plugin'\?"),
    Mistake("a plugin for the kit that does not exist", "conformance --plugin absent.toml", 2, "there is no file .*absent.toml", "name the manifest or the library of a plugin"),
]

MODELS = [
    Mistake("an operator with a letter too many", "compile operator.onnx -o m.heddle", 1, r"node 'last' \(operator Reluu, opset 17\) failed: operator is not supported", "the nearest is Relu; see docs/operators.md"),
    Mistake("an operator of a plugin without its manifest", "compile domain.onnx -o m.heddle", 1, r"operator com.acme.Weave, opset 3\) failed: operator is not supported", "give the plugin's manifest with --operators"),
    Mistake("a model of a newer opset", "compile opset.onnx -o m.heddle", 1, "opset 9000 is outside of 1 to 27", "export the model with one of these"),
    Mistake("an input without an element type", "compile no_type.onnx -o m.heddle", 1, r"element type UNDEFINED \(opset 17\) in 1 input and 1 node, first input 'x'", "see docs/operators.md"),
    Mistake("strings", "compile strings.onnx -o m.heddle", 1, r"node 'last' \(operator Relu, opset 17\) failed: input 0 \('x'\) has element type STRING, which this operator does not support", "see docs/operators.md"),
    Mistake("a product of truth values", "compile bool.onnx -o m.heddle", 1, r"node 'last' .*bools have no products: input 'a' is bool\[2,2\]", "correct the model, or export it again"),
    Mistake("a function of integers", "compile integers.onnx -o m.heddle", 1, "node 'last': no code for tx.exp on elements of type 'i64'", "cast its inputs to f32, or see docs/operators.md"),
    Mistake("shapes that disagree", "compile shapes.onnx -o m.heddle", 1, r"inner extents of A and B differ: input 'a' is f32\[2,3\], 'b' is f32\[5,4\]", "correct the model, or export it again"),
    Mistake("a value that no node makes", "compile dangling.onnx -o m.heddle", 1, "node 'last' .*'never_made' is produced by no earlier node", "correct the model, or export it again"),
    Mistake("weights that were not copied with the model", "compile external.onnx -o m.heddle", 1, "external data 'w.bin' of tensor 'w' failed: No such file", "it must be below the model's directory"),
    Mistake("weights left to a file with other names", "compile apart.onnx -o m.heddle --params-in renamed.safetensors", 1, "no weight of the model is one of its 1 tensors; it has 'model.w'", "--param-name 'MODEL_NAME=model.w' takes a tensor of another name"),
    Mistake("weights left to the file of another model", "compile apart.onnx -o m.heddle --params-in other.safetensors", 1, r"taking tensor 'w' from 'other.safetensors' failed: the model has f32\[64,300\], the file has f32\[64,2\]", "give the file that belongs to this model"),
    Mistake("a name for a weight that the model lacks", "compile apart.onnx -o m.heddle --params-in weights.safetensors --param-name v=w", 2, "the model stores no tensor 'v'", "the model has 'w'"),
    Mistake("no file of parameters", "run apart.heddle --input x=f32[1,300]=1", 1, "finding parameter 'w' of apart.heddle failed: no file is given", r"pass one with --params FILE"),
    Mistake("the parameters of another model", "run apart.heddle --input x=f32[1,300]=1 --params other.safetensors", 1, r"parameter 'w' from other.safetensors failed: the module expects f32\[64,300\], the file has f32\[64,2\]", "give the file that was written for this model"),
    Mistake("parameters under other names", "run apart.heddle --input x=f32[1,300]=1 --params renamed.safetensors", 1, "finding parameter 'w' failed: no tensor of renamed.safetensors has that name", "heddle params ls lists them"),
]

MISTAKES = {"flags": FLAGS, "values": VALUES, "files": FILES, "paths, rights and disks": PATHS, "configuration": CONFIGURATION, "plugins and devices": PLUGINS, "models": MODELS}


def value(name, shape, element_type=FLOAT):
    return helper.make_tensor_value_info(name, element_type, shape)


def save_model(path, nodes, inputs, outputs, initializers=(), opsets=(("", 17),)):
    graph = helper.make_graph(nodes, "small", inputs, outputs, list(initializers))
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid(*opset) for opset in opsets])
    path.write_bytes(model.SerializeToString())


def save_safetensors(path, name, array):
    header = f'{{"{name}":{{"dtype":"F32","shape":{list(array.shape)},"data_offsets":[0,{array.nbytes}]}}}}'.encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + array.tobytes())


def make_models(folder):
    last = {"name": "last"}
    save_model(folder / "add.onnx", [helper.make_node("Add", ["a", "b"], ["y"])], [value("a", ["n", 4]), value("b", ["n", 4])], [value("y", ["n", 4])])
    table = numpy_helper.from_array(np.ones((8, 2), np.float32), "table")
    save_model(folder / "pick.onnx", [helper.make_node("Gather", ["table", "ids"], ["y"], **last)], [value("ids", ["k"], INT64)], [value("y", ["k", 2])], [table])
    weights = numpy_helper.from_array(np.ones((64, 300), np.float32), "w")  # above the size of constants in the code
    save_model(folder / "apart.onnx", [helper.make_node("Add", ["x", "w"], ["y"])], [value("x", ["n", 300])], [value("y", [64, 300])], [weights])
    save_model(folder / "operator.onnx", [helper.make_node("Reluu", ["x"], ["y"], **last)], [value("x", [2])], [value("y", [2])])
    save_model(folder / "domain.onnx", [helper.make_node("Weave", ["x"], ["y"], domain="com.acme", **last)], [value("x", [2])], [value("y", [2])], opsets=(("", 17), ("com.acme", 3)))
    save_model(folder / "opset.onnx", [helper.make_node("Relu", ["x"], ["y"], **last)], [value("x", [2])], [value("y", [2])], opsets=(("", 9000),))
    save_model(folder / "no_type.onnx", [helper.make_node("ConstantOfShape", ["x"], ["y"], **last)], [value("x", [2], 0)], [value("y", [3])])
    save_model(folder / "strings.onnx", [helper.make_node("Relu", ["x"], ["y"], **last)], [value("x", [2], STRING)], [value("y", [2], STRING)])
    save_model(folder / "bool.onnx", [helper.make_node("MatMul", ["a", "b"], ["y"], **last)], [value("a", [2, 2], BOOL), value("b", [2, 2], BOOL)], [value("y", [2, 2], BOOL)])
    save_model(folder / "integers.onnx", [helper.make_node("Exp", ["x"], ["y"], **last)], [value("x", [2], INT64)], [value("y", [2], INT64)])
    save_model(folder / "shapes.onnx", [helper.make_node("MatMul", ["a", "b"], ["y"], **last)], [value("a", [2, 3]), value("b", [5, 4])], [value("y", [2, 4])])
    save_model(folder / "dangling.onnx", [helper.make_node("Add", ["x", "never_made"], ["y"], **last)], [value("x", [2])], [value("y", [2])])
    outside = TensorProto(name="w", data_type=FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="w.bin")
    save_model(folder / "external.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"], **last)], [value("x", [2, 4])], [value("y", [2, 4])], [outside])


def make_files(folder):
    """All that the commands name, in order or not."""
    shutil.copy(DIGITS, folder / "digits.onnx")
    make_models(folder)
    for name, more in (("digits", ()), ("add", ()), ("pick", ()), ("apart", ("--params-out", "weights.safetensors"))):
        compiled = heddle("compile", f"{name}.onnx", "-o", f"{name}.heddle", *more, cwd=folder)
        assert compiled.code == 0, str(compiled)
    module, model = (folder / "digits.heddle").read_bytes(), DIGITS.read_bytes()
    (folder / "cut.heddle").write_bytes(module[:5000])
    (folder / "flipped.heddle").write_bytes(module[:300] + bytes([module[300] ^ 1]) + module[301:])
    (folder / "cut.onnx").write_bytes(model[: len(model) // 2])
    (folder / "secret.heddle").write_bytes(module)
    (folder / "secret.heddle").chmod(0)
    image = np.zeros((1, 1, 8, 8), np.float32)
    np.save(folder / "image.npy", image)
    (folder / "cut.npy").write_bytes((folder / "image.npy").read_bytes()[:-156])
    np.save(folder / "doubles.npy", image.astype(np.float64))
    np.save(folder / "strings.npy", np.array(["one", "two"]))
    np.save(folder / "fortran.npy", np.asfortranarray(np.zeros((2, 3), np.float32)))
    (folder / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n.")
    np.savez(folder / "data.npz", image=image)
    np.savez_compressed(folder / "compressed.npz", image=image)
    (folder / "model.pt").write_bytes(b"\x80\x02\x8a\x0a" + bytes(20))
    (folder / "cut.safetensors").write_bytes((folder / "weights.safetensors").read_bytes()[:20])
    save_safetensors(folder / "other.safetensors", "w", np.ones((64, 2), np.float32))
    save_safetensors(folder / "half.safetensors", "w.lora_A.weight", np.ones((4, 300), np.float32))
    save_safetensors(folder / "renamed.safetensors", "model.w", np.ones((64, 300), np.float32))
    for name in ("folder", "locked", "plugins"):
        (folder / name).mkdir()
    (folder / "locked").chmod(0o555)
    cpu = '[driver."heddle.cpu"]\n'
    for name, text in {
        "good.toml": f"{cpu}threads = 2\n", "key.toml": f"{cpu}treads = 2\n", "type.toml": f'{cpu}threads = "two"\n', "syntax.toml": f"{cpu}threads: 2\n",
        "route.toml": '[device.gpu0]\ndriver = "heddle.cpu"\nselect = { ordinal = 0 }\n[[route]]\nslot = "default"\nto = ["gpu1"]\n',
        "require-absent.toml": '[plugins]\nrequire = ["acme.absent"]\n', "require-text.toml": '[plugins]\nrequire = ["com.acme.text"]\n',
        "require-newer.toml": '[plugins]\nrequire = ["com.acme.newer"]\n',
        "plugins/text.so": "this is no library\n",
        "plugins/com.acme.text.toml": manifest("com.acme.text", "text.so", "0.1", "0.1"),
        "plugins/com.acme.newer.toml": manifest("com.acme.newer", "text.so", "0.7", "0.9"),
        "plugins/com.acme.bare.toml": manifest("com.acme.bare", "text.so", "0.1", "0.1").replace('library = "text.so"\n', ""),
    }.items():
        (folder / name).write_text(text)


def manifest(plugin, library, oldest, newest):
    return (f'manifest = 1\n[plugin]\nid = "{plugin}"\nversion = "1.0.0"\nkind = ["allocator"]\nlibrary = "{library}"\n'
            f'abi = ["{oldest}", "{newest}"]\n')


def become_plain_user():
    """Takes from root, in the started program, the capabilities to read and write whatever the modes of files say."""
    PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
    if os.geteuid() == 0:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            if ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "dropping a capability")


def first_message(text):
    lines = text.splitlines()
    end = 1
    if lines and re.fullmatch(r"config: reading the configuration failed: \d+ errors?", lines[0]):
        end = 2
    while end < len(lines) and lines[end].startswith(" "):
        end += 1
    return "\n".join(lines[:end])


def files_in(folder):
    return {str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in folder.rglob("*") if not path.is_dir()} | {
        str(path.relative_to(folder)): None for path in folder.rglob("*") if path.is_dir()}


class Mistakes(HeddleTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        kept = tempfile.TemporaryDirectory(prefix="heddle-mistakes-")
        cls.addClassCleanup(kept.cleanup)
        cls.made = pathlib.Path(kept.name)
        make_files(cls.made)
        cls.judged = {}

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        good = sum(cls.judged.values())
        for what, is_good in cls.judged.items():
            if not is_good:
                print(f"not both: {what}")
        print(f"{good} of {len(cls.judged)} first messages name cause and remedy")

    def start(self, row):
        def prepare():
            if row.is_plain_user:
                become_plain_user()
            if row.largest_file_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (row.largest_file_bytes, row.largest_file_bytes))

        arguments = shlex.split(row.command)
        with open("/dev/full" if row.has_full_stdout else os.devnull, "w") as standard_output:
            process = subprocess.run(
                [str(heddle_path()), *arguments], text=True, errors="replace", timeout=TIMEOUT_S, stdin=subprocess.DEVNULL, cwd=self.made,
                stdout=standard_output if row.has_full_stdout else subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=prepare,
                env={**environment(), **row.variables},
            )
        process.stdout = process.stdout or ""
        return CommandResult(arguments, process)

    def check(self, row):
        if row.largest_file_bytes is not None and os.environ.get("HEDDLE_SANITIZE") == "thread":
            self.skipTest("SKIP: ThreadSanitizer's own shadow memory is a file, and may not grow under the limit")
        self.judged[row.what] = False
        self.judge(row)
        self.judged[row.what] = True

    def judge(self, row):
        before = files_in(self.made)
        result = self.start(row)
        message = first_message(result.stderr)
        self.assert_clear_error(result)
        self.assertEqual(result.code, row.code, str(result))
        self.assertEqual(result.stdout, "", str(result))
        self.assertEqual(files_in(self.made), before, f"something was left or changed: {result}")
        self.assertRegex(message, row.cause, "the cause")
        self.assertRegex(message, row.remedy, "the remedy")

    def test_there_are_sixty_of_them(self):
        rows = [row for rows in MISTAKES.values() for row in rows]
        self.assertGreaterEqual(len(rows), 60)
        self.assertEqual(len({row.what for row in rows}), len(rows))
        self.assertEqual(len({(row.command, *row.variables) for row in rows}), len(rows))


    def test_a_message_without_one_of_the_two_is_found(self):
        row = FLAGS[0]
        for wrong in (row._replace(cause="'compile'$"), row._replace(remedy="run it as root"), row._replace(code=1), row._replace(command="--version")):
            with self.assertRaises(AssertionError):
                self.judge(wrong)
        self.assertEqual(first_message("heddle: a\n  b\nheddle: c; d\n"), "heddle: a\n  b")
        before = files_in(self.made)
        (self.made / "left.heddle").touch()
        self.assertNotEqual(files_in(self.made), before)
        (self.made / "left.heddle").unlink()


def add_tests():
    for group, rows in MISTAKES.items():
        for row in rows:
            name = "test_" + re.sub(r"\W+", "_", f"{group.split(',')[0].split(' ')[0]} {row.what}")
            setattr(Mistakes, name, lambda self, row=row: self.check(row))


add_tests()


if __name__ == "__main__":
    import unittest

    unittest.main()
