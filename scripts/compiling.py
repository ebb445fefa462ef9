"""Compiles kernels with numba to an object file with a plain C interface.

Every kernel is compiled to LLVM's code once; entries, the kernels that Python calls, get a function of C around them;
then all of it is optimized as one. LLVM's code of each kernel is kept for the next time, see `Kept`. An entry takes
integers and floats as they are, an array as a pointer to its address and shape, a record as a pointer to its words; a
tuple of results is written to the memory that its last argument names.

From numba are the types and the code of each kernel (`Compiler`, by those of its passes that kernels need), and the
two places where it lets others in: a dispatcher (`Kernel`) and a dispatcher's cache (`Kept`). Numba's own cache is not
used, because it does not notice that a called kernel in another file has changed. The interface of C (`add_entry`) and
the optimization of all kernels as one (`joined`, `emitted`) are ours: numba's `pycc` makes modules for one version of
Python.
"""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import pickle
import sys
import tempfile
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, ClassVar, NamedTuple

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import typed_passes, types, untyped_passes
from numba.core.cgutils import raw_memmove
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult
from numba.core.compiler_machinery import PassManager
from numba.core.errors import NumbaError
from numba.core.registry import CPUDispatcher, cpu_target
from numba.extending import lower_builtin, type_callable
from records import WORD, type_of, value_at

from batfill.base import kernels

# What may be left to the C library; a square root becomes an instruction.
ALLOWED = {"log2f", "pow", "memset", "memcpy", "memmove", "sqrt"}
# The passes that kernels need; with numba's own list compiling all takes a tenth longer.
PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)


@type_callable(np.bitwise_count)  # type: ignore[untyped-decorator]
def bitwise_count(_context: Any) -> Any:
    """One instruction, which numba does not know."""
    return lambda word: word


@lower_builtin(np.bitwise_count, types.uint64)  # type: ignore[untyped-decorator]
def add_count(_context: Any, builder: Any, _signature: Any, words: Any) -> Any:
    """Its code."""
    return builder.ctpop(words[0])


@type_callable(np.copyto)  # type: ignore[untyped-decorator]
def copyto(_context: Any) -> Any:
    """A call of memmove, for arrays without gaps; what numba makes of an assignment would allocate memory."""
    return lambda to, source: types.none if to.layout == source.layout == "C" else None


@lower_builtin(np.copyto, types.Array, types.Array)  # type: ignore[untyped-decorator]
def add_copy(context: Any, builder: Any, signature: Any, arrays: Any) -> Any:
    """Its code."""
    kinds = zip(signature.args, arrays, strict=True)
    to, source = (context.make_array(kind)(context, builder, array) for kind, array in kinds)
    raw_memmove(builder, to.data, source.data, to.nitems, to.itemsize)
    return context.get_dummy_value()


class Part(JITCodeLibrary):
    """The code of one kernel, not optimized, without that of the kernels it calls."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Leave the functions as they are: they are optimized once, with those that call them."""

    def finalize(self) -> None:
        """End the module."""
        self._finalized = True


class Compiler(CompilerBase):
    """Compile a kernel to a Part."""

    def define_pipelines(self) -> list[Any]:
        """The passes."""
        self.state.flags.no_compile = True
        self.state.func_id.unique_id, self.state.func_id.unique_name = 0, self.state.func_id.func_qualname
        self.state.library = Part(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        passes = PassManager("kernel")
        for one in PASSES:
            passes.add_pass(one, one.__name__)
        passes.finalize()
        return [passes]


class Kernel(CPUDispatcher):
    """A kernel that kernels call."""

    every: ClassVar[list[Any]] = []  # all that has been compiled
    callers: ClassVar[list[list[Any]]] = [[]]  # what each kernel that is being compiled has called, the innermost last

    def compile(self, takes: Any) -> Any:
        """Compile a version, unless there is one; note the call."""
        made = super().compile(tuple(takes))
        self.callers[-1].append(Call(self.py_func.__module__, self.py_func.__name__, tuple(takes), *self.seen(takes)))
        return made

    def seen(self, takes: Any) -> tuple[Any, str]:
        """What a caller's code depends on in a version: its result's type, and its symbol.

        It names records by numbers that numba gives in the order in which it meets them, so an edit may change it.
        """
        made = self.overloads[tuple(takes)]
        return made.signature.return_type, made.fndesc.llvm_func_name

    def add_overload(self, result: Any) -> None:
        """Note a version."""
        result = result._replace(entry_point=object())
        self.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
        self.overloads[tuple(result.signature.args)] = result
        self.every.append(result)


class Call(NamedTuple):
    """A version that a kernel calls."""

    module: str
    name: str
    takes: tuple[Any, ...]
    gives: Any
    symbol: str

    def holds(self) -> bool:
        """Whether the version still gives the same type and has the same symbol; it is compiled if need be."""
        dispatcher = getattr(sys.modules.get(self.module), self.name, None)
        if not isinstance(dispatcher, Kernel):
            return False
        depth = len(Kernel.callers)
        try:
            dispatcher.compile(self.takes)
        except (TypeError, NumbaError):  # it takes other arguments now; its callers will say what is wrong
            del Kernel.callers[depth:]
            return False
        return dispatcher.seen(self.takes) == (self.gives, self.symbol)


class Kept:
    """The code of a kernel's versions from one time to the next; half of an edit's time went into the other kernels.

    A version is used again if the kernel's source, and all that its names stand for but other kernels, is what it was,
    and if every kernel that it calls still gives the same type and has the same symbol. The code of those is not in its
    own.
    """

    known: ClassVar[dict[str, bytes]] = {}
    used: ClassVar[dict[str, bytes]] = {}

    def __init__(self, dispatcher: Kernel) -> None:
        """Of a kernel."""
        self.function, self.calls = dispatcher.py_func, dispatcher.callers

    def key(self, takes: Any) -> str:
        """What decides a version's code, apart from the kernels that it calls."""
        return f"{self.function.__module__}.{self.function.__qualname__} {takes} {surroundings(self.function)}"

    def load_overload(self, takes: Any, context: Any) -> Any:
        """A version that was kept; None if there is none that may be used."""
        kept = self.known.get(self.key(takes))
        if kept is not None:
            calls, described, signed, code = pickle.loads(kept)
            if all(call.holds() for call in calls):
                self.used[self.key(takes)] = kept
                library = Part(context.codegen(), self.function.__name__)
                library._final_module = llvm.parse_bitcode(code)
                library.finalize()
                nothing = dict.fromkeys(CompileResult._fields)
                return CompileResult(**{**nothing, "fndesc": described, "signature": signed, "library": library})
        self.calls.append([])
        return None

    def save_overload(self, takes: Any, result: Any) -> None:
        """Keep a version, with what numba brings into it."""
        calls, brought = self.calls.pop(), result.library._linking_libraries
        for part in brought:  # which grows
            if not isinstance(part, Part):
                brought += [other for other in part._linking_libraries if other not in brought]
                result.library._final_module.link_in(part._get_module_for_linking(), preserve=True)
        brought.clear()
        for each in result.library._final_module.functions:
            if not each.is_declaration and each.name != result.fndesc.llvm_func_name:
                each.linkage = "internal"
        result.fndesc.typemap = result.fndesc.calltypes = None
        code = result.library._final_module.as_bitcode()
        self.used[self.key(takes)] = pickle.dumps((calls, result.fndesc, result.signature, code))


@cache
def surroundings(function: FunctionType) -> str:
    """A digest of the compiler, a kernel's source, and all that the kernel's names stand for, but other kernels."""
    digest = sha256(repr((numba.__version__, sys.version, inspect.getsource(function))).encode())
    names = sorted(function.__code__.co_names)
    meant = [function.__globals__[name] for name in names if name in function.__globals__]
    for module in [each for each in meant if isinstance(each, ModuleType)]:
        meant += [vars(module)[name] for name in names if name in vars(module)]
    for value in meant:
        if isinstance(value, type | FunctionType):
            file = getattr(sys.modules[value.__module__], "__file__", None)
            columns = kernels.layout(value) if hasattr(value, "columns") else None
            digest.update(
                pickle.dumps((value.__module__, value.__qualname__, columns, file and Path(file).read_bytes()))
            )
        elif not isinstance(value, Kernel | ModuleType):
            digest.update(pickle.dumps(value))
    return digest.hexdigest()


def call_type(function: Any, context: Any, args: Any, kws: Any, resolve: Any = types.Function.get_call_type) -> Any:
    """The signature of a call of a builtin, such as +; numba would try all its overloads again at each call.

    Compiling all would take a seventh longer.
    """
    known, place = function.__dict__.setdefault("known", {}), (args, tuple(kws.items()))
    if place not in known:
        known[place] = resolve(function, context, args, kws)
    return known[place]


types.Function.get_call_type = call_type

# How far LLVM looks for a store that a load could take its value from. Its own limits, 200 blocks and 100 instructions,
# take a quarter more time and make the kernels no faster; nor do its third level, its vectors, and unrolled loops.
LIMITS = ("-memdep-block-number-limit=20", "-memdep-block-scan-limit=30")

# Numba's reference counting would touch every array of every tuple at each call; kernels allocate nothing.
OPTIONS = {"error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def object_of(modules: list[str], triple: str, cpu: str, symbols: str | None, kept: Path) -> tuple[bytes, list[Path]]:
    """The object file of the entries of these modules, and the files that it is made from.

    Args:
        modules: their names.
        triple: the target.
        cpu: what the code may use of the target's processor.
        symbols: the version of the C library's functions; None for whatever the linker has.
        kept: the file that keeps the kernels' code.
    """
    gc.disable()  # nothing that numba makes is let go, and looking for it takes an eighth of the time
    functions = [each for name in modules for each in vars(importlib.import_module(name)).values()]
    entries = {each for each in functions if hasattr(each, "takes") and each.__module__ in modules}
    entries = sorted(entries, key=lambda each: (each.__module__, each.__code__.co_firstlineno))
    offer_kernels()
    cpu_target.target_context.refresh()  # which compiling a kernel would do, but all may have been kept
    wrappers = ir.Module("entries")
    wrappers.triple, wrappers.data_layout = (
        llvm.get_default_triple(),
        str(cpu_target.target_context.codegen()._data_layout),
    )
    with suppress(FileNotFoundError):
        Kept.known.update(pickle.loads(kept.read_bytes()))
    for each in entries:
        add_entry(wrappers, each)
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as new:
            new.write(pickle.dumps(Kept.used))
        Path(new.name).replace(kept)
    made = {sys.modules[result.fndesc.modname] for result in Kernel.every}
    files = {Path(inspect.getfile(each)) for module in made for each in (module, *named_by(module))}
    return emitted(joined(wrappers, symbols), triple, cpu), sorted({*files, Path(kernels.__file__)})


def named_by(module: ModuleType) -> set[ModuleType]:
    """The modules from which a module's functions import what they name: types of arguments, and constants."""
    tree = ast.parse(inspect.getsource(module))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    named = {node.id for function in functions for node in ast.walk(function) if isinstance(node, ast.Name)}
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module in sys.modules]
    found = {node.module for node in imports if named.intersection(alias.name for alias in node.names)}
    return {sys.modules[name] for name in found if name.startswith(("batfill", "studies"))}


def offer_kernels() -> None:
    """Replace every kernel in every module by its dispatcher, where numba looks for what a kernel calls."""
    found: dict[FunctionType, Any] = {}
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if isinstance(value, FunctionType) and hasattr(value, "inlined"):
                setattr(module, name, found.setdefault(value, value) if value in found else dispatcher_of(value, found))


def dispatcher_of(function: Any, found: dict[Any, Any]) -> Any:
    """The dispatcher of a kernel."""
    made = njit(pipeline_class=Compiler, forceinline=function.inlined, **OPTIONS)(function)
    made.__class__ = Kernel
    made._cache = Kept(made)
    found[function] = function.dispatcher = made
    return made


def add_entry(module: ir.Module, function: Any) -> None:
    """Compile an entry, and add the function of C that calls it."""
    context = cpu_target.target_context
    takes = tuple(map(type_of, function.takes))
    function.dispatcher.compile(takes)
    result = function.dispatcher.overloads[takes]
    given = function.gives if isinstance(function.gives, tuple) else (function.gives,)
    single = given[0] if not isinstance(function.gives, tuple) else None
    pointer = WORD.as_pointer()
    c_type = {float: ir.DoubleType(), int: WORD, None: ir.VoidType()}
    arguments = [c_type.get(kind, pointer) if isinstance(kind, type) else pointer for kind in function.takes]
    if isinstance(function.gives, tuple):
        arguments.append(pointer)
    made = ir.Function(module, ir.FunctionType(c_type[single], arguments), kernels.symbol_of(function))
    builder = ir.IRBuilder(made.append_basic_block())
    values = [
        argument if kind is float or kind is int else value_at(context, builder, taken, argument)
        for kind, taken, argument in zip(function.takes, takes, made.args, strict=False)
    ]
    callee = context.declare_function(module, result.fndesc)
    _, returned = context.call_conv.call_function(builder, callee, result.fndesc.restype, takes, values)
    kinds = result.fndesc.restype
    if isinstance(kinds, types.BaseTuple):
        for place, (kind, wanted) in enumerate(zip(kinds, function.gives, strict=True)):
            value = as_c(builder, function, kind, wanted, builder.extract_value(returned, place))
            target = builder.gep(made.args[-1], [ir.Constant(ir.IntType(32), place)])
            builder.store(value, builder.bitcast(target, value.type.as_pointer()))
        builder.ret_void()
    elif single is None:
        builder.ret_void()
    else:
        builder.ret(as_c(builder, function, kinds, single, returned))


def as_c(builder: Any, function: Any, kind: Any, wanted: Any, value: Any) -> Any:
    """A result as a double or an int64."""
    if isinstance(kind, types.Float) and wanted is float:
        return value if kind.bitwidth == 64 else builder.fpext(value, ir.DoubleType())
    if isinstance(kind, types.Boolean | types.Integer) and wanted is int:
        signed = isinstance(kind, types.Integer) and kind.signed
        return value if value.type.width == 64 else (builder.sext if signed else builder.zext)(value, WORD)
    raise TypeError(f"{function.__module__}.{function.__name__} returns {kind}, not what its decorator says: {wanted}")


def joined(wrappers: ir.Module, symbols: str | None) -> llvm.ModuleRef:
    """All parts as one module, which exports the wrappers alone."""
    exported = {each.name for each in wrappers.functions if not each.is_declaration}
    versions = [f'module asm ".symver {name},{name}@{symbols}"' for name in sorted(ALLOWED) if symbols]
    whole = llvm.parse_assembly("\n".join([str(wrappers), *versions]))
    for result in Kernel.every:
        whole.link_in(result.library._final_module)
    for each in (*whole.functions, *whole.global_variables):
        if not each.is_declaration and each.name not in exported:
            each.linkage = "internal"
    whole.verify()
    return whole


def emitted(whole: llvm.ModuleRef, triple: str, cpu: str) -> bytes:
    """The optimized object file, after a check of what it refers to.

    Raises:
        SystemExit: it needs Python, numba or memory, as it does for an exception, an allocation or a list.
    """
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3, reloc="pic", codemodel="default")
    whole.triple, whole.data_layout = triple, str(machine.target_data)
    for limit in LIMITS:
        llvm.set_option("kernels", limit)
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(whole, passes)
    names = {each.name for each in (*whole.functions, *whole.global_variables)}
    undefined = {each.name for each in whole.functions if each.is_declaration and not each.name.startswith("llvm.")}
    undefined |= {each.name for each in whole.global_variables if each.is_declaration}
    bad = undefined - ALLOWED | {name for name in names if "picklebuf" in name or name.startswith(("NRT_", "Py"))}
    if bad:
        sys.exit(f"kernels must not raise, allocate or call Python, but these do: {', '.join(sorted(bad))}")
    return machine.emit_object(whole)
