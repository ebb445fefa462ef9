"""Compiles kernels with numba to an object file with a plain C interface.

Every kernel is compiled to LLVM's code once; entries, the kernels that Python calls, get a function of C around them;
then all of it is optimized as one. An entry takes integers and floats as they are, an array as a pointer to its address
and shape, a record as a pointer to its words; a tuple of results is written to the memory that its last argument names.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import sys
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit
from numba.core import typed_passes, types, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.registry import CPUDispatcher, cpu_target
from records import WORD, type_of, value_at

from batfill.base import kernels

# What may be left to the C library; a square root becomes an instruction.
ALLOWED = {"log2f", "pow", "memset", "memcpy", "memmove", "sqrt"}
# The passes that kernels need; numba's own list takes a fifth longer.
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
        self.state.library = Part(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        passes = PassManager("kernel")
        for one in PASSES:
            passes.add_pass(one, one.__name__)
        passes.finalize()
        return [passes]


class Kernel(CPUDispatcher):
    """A kernel that kernels call."""

    every: ClassVar[list[Any]] = []  # all that has been compiled

    def add_overload(self, result: Any) -> None:
        """Note a version."""
        result = result._replace(entry_point=object())
        self.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
        self.overloads[tuple(result.signature.args)] = result
        self.every.append(result)


def call_type(function: Any, context: Any, args: Any, kws: Any, resolve: Any = types.Function.get_call_type) -> Any:
    """The signature of a call of a builtin, such as +; numba would try all its overloads again at each call."""
    known, place = function.__dict__.setdefault("known", {}), (args, tuple(kws.items()))
    if place not in known:
        known[place] = resolve(function, context, args, kws)
    return known[place]


types.Function.get_call_type = call_type

# Numba's reference counting would touch every array of every tuple at each call; kernels allocate nothing.
OPTIONS = {"error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def object_of(modules: list[str], triple: str, cpu: str, symbols: str | None) -> tuple[bytes, list[Path]]:
    """The object file of the entries of these modules, and the files that it is made from.

    Args:
        modules: their names.
        triple: the target.
        cpu: what the code may use of the target's processor.
        symbols: the version of the C library's functions; None for whatever the linker has.
    """
    gc.disable()  # nothing that numba makes is let go, and looking for it takes an eighth of the time
    functions = [each for name in modules for each in vars(importlib.import_module(name)).values()]
    entries = {each for each in functions if hasattr(each, "takes") and each.__module__ in modules}
    entries = sorted(entries, key=lambda each: (each.__module__, each.__code__.co_firstlineno))
    offer_kernels()
    wrappers = ir.Module("entries")
    wrappers.triple, wrappers.data_layout = (
        llvm.get_default_triple(),
        str(cpu_target.target_context.codegen()._data_layout),
    )
    for each in entries:
        add_entry(wrappers, each)
    files = {Path(inspect.getfile(sys.modules[result.fndesc.modname])) for result in Kernel.every}
    return emitted(joined(wrappers, symbols), triple, cpu), sorted({*files, Path(kernels.__file__)})


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
    parts = [result.library for result in Kernel.every]
    for part in parts:  # which grows: kernels first, then what numba brings
        parts += [other for other in part._linking_libraries if other not in parts]
        whole.link_in(part._final_module if isinstance(part, Part) else part._get_module_for_linking(), preserve=True)
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
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.slp_vectorization = True
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(whole, passes)
    names = {each.name for each in (*whole.functions, *whole.global_variables)}
    undefined = {each.name for each in whole.functions if each.is_declaration and not each.name.startswith("llvm.")}
    undefined |= {each.name for each in whole.global_variables if each.is_declaration}
    bad = undefined - ALLOWED | {name for name in names if "picklebuf" in name or name.startswith(("NRT_", "Py"))}
    if bad:
        sys.exit(f"kernels must not raise, allocate or call Python, but these do: {', '.join(sorted(bad))}")
    return machine.emit_object(whole)
