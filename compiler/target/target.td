// SPDX-License-Identifier: Apache-2.0
//
// Target IR: dialect `tessera_target`. A module for one target: kernels, their device code, and a host
// function for each entry, which gives every buffer an offset. The rules are checked in C
// (host/verify.c).
#ifndef TSR_TARGET_TD
#define TSR_TARGET_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Target_Dialect : Dialect {
  let name = "tessera_target";
  let cppNamespace = "::tessera::target";
  let useDefaultTypePrinterParser = 1;
}

def Target_TokenType : TypeDef<Target_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "an asynchronous operation that has begun, and is done after its await";
}

class Target_Op<string mnemonic, list<Trait> traits = []> : Op<Target_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
}
class Target_SymbolUse<string mnemonic, list<Trait> traits = []>
    : Target_Op<mnemonic, traits # [DeclareOpInterfaceMethods<SymbolUserOpInterface>]>;

// The element type is the host's: a tensor element type.
def Target_Buffer : StaticShapeMemRefOf<[AnyType]>;

//===--- contents of a module --------------------------------------------------------------------===//

def Target_KernelOp : Target_SymbolUse<"kernel", [Symbol]> {
  let summary = "declares a kernel to the host";
  let description = [{
    ```mlir
    tessera_target.kernel @k0 : (memref<64xf32>) -> memref<64xf32> grid 4 {bytes = 512 : i64}
    ```

    The type lists the buffers read, then the buffers written, as the device stores them (`ui8` and `i1`
    are `i8`). The body is the `tile.func` of the same name in the module `@device`; it has these arguments
    and this grid.

    grid      the number of programs of one launch, at least 1.
    in_place  the inputs that an output of the same type may overwrite.
    faults    the kernel can report a bad index.
    prepacks  the kernel reads one tensor and writes a buffer that all entries share; its launches may be
              skipped while the tensor has not changed.
    flops, bytes  estimates for one launch, for messages and expected durations.
    requires  a feature of host/features.def that the device must have.
    threads, registers, shared_bytes, cluster  the resources of a program on a GPU: threads per program,
              registers per thread, shared memory, programs per cluster; within the limits of the
              device that `requires` names.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
      I64Attr:$grid, OptionalAttr<StrAttr>:$requires, OptionalAttr<I64ArrayAttr>:$in_place,
      OptionalAttr<UnitAttr>:$faults, OptionalAttr<UnitAttr>:$prepacks, OptionalAttr<I64Attr>:$flops,
      OptionalAttr<I64Attr>:$bytes, OptionalAttr<I64Attr>:$threads, OptionalAttr<I64Attr>:$registers,
      OptionalAttr<I64Attr>:$shared_bytes, OptionalAttr<I64Attr>:$cluster);
  let assemblyFormat = [{
    $sym_name `:` $function_type `grid` $grid (`requires` `=` $requires^)? attr-dict
  }];
}

def Target_DataOp : Target_Op<"data"> {
  let summary = "the elements of a tensor without an init rule";
  let description = "`tessera_target.data \"w\" dense<[1.0, 2.0]> : tensor<2xf32>`";
  let arguments = (ins StrAttr:$name, ElementsAttr:$value);
  let assemblyFormat = "$name $value attr-dict";
}

def Target_DocumentOp : Target_Op<"document"> {
  let summary = "a text for the bundle that is not available to later stages in another form";
  let description = [{
    `tessera_target.document "config" "{...}"`

    A written module ends with its documents, so that the module alone is sufficient input for later stages.

    name      the model's name if its module has no name
    graph     the source as Graph IR, with locations
    schedule  the groups and the operations of each entry, as JSON
    config    tensors, their init rules, entries and their ports, as JSON (manifests/config.h)
    deployment  shards, collectives and recomputation, as JSON (manifests/deployment.h)
  }];
  let arguments = (ins StrAttr:$kind, StrAttr:$text);
  let assemblyFormat = "$kind $text attr-dict";
}

def Target_FuncOp : Target_Op<"func", [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator]> {
  let summary = "the host program of an entry: buffers, then commands in order";
  let description = [{
    ```mlir
    tessera_target.func @infer workspace 256 {
      %w = tessera_target.tensor "w" : memref<64xf32>
      %x = tessera_target.input 0 : memref<64xf32>
      %h = tessera_target.alloc offset 0 : memref<64xf32>
      %y = tessera_target.output 0 : memref<64xf32>
      tessera_target.launch @k0(%x, %w) writes(%h) : (memref<64xf32>, memref<64xf32>) -> memref<64xf32>
      tessera_target.copy %y, %h : memref<64xf32>
    }
    ```

    workspace  its size in bytes, a multiple of 64.
    on_recovery  the function that runs once after a restart, before the first step.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$workspace,
      OptionalAttr<FlatSymbolRefAttr>:$on_recovery);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `workspace` $workspace attr-dict-with-keyword $body";
}

//===--- buffers ---------------------------------------------------------------------------------===//

class Target_BufferOp<string mnemonic> : Target_Op<mnemonic, [HasParent<"FuncOp">]> {
  let results = (outs Target_Buffer:$result);
}

def Target_TensorOp : Target_BufferOp<"tensor"> {
  let summary = "a parameter, state or constant, used in place";
  let description = [{
    `name` is one of the bundle's tensors; the buffer has its type, as the host stores it.
  }];
  let arguments = (ins StrAttr:$name);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Target_TensorPartOp : Target_BufferOp<"tensor_part"> {
  let summary = "a virtual rank's part of a tensor: a vector of ceil(n / V) of its n elements";
  let description = [{
    Virtual rank i has the elements from i * ceil(n / V) on; the contents after element n are undefined. If a program
    only uses parts of a tensor, a rank only stores the parts of its virtual ranks. Commands of loops read and write
    parts, and an all_gather reads them.
  }];
  let arguments = (ins StrAttr:$name);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Target_InputOp : Target_BufferOp<"input"> {
  let summary = "an input of the entry, by its index";
  let description = [{
    0 <= index < number of the entry's inputs. The buffer is the caller's memory, which is only read.
  }];
  let arguments = (ins I64Attr:$index);
  let assemblyFormat = "$index attr-dict `:` type($result)";
}

def Target_OutputOp : Target_BufferOp<"output"> {
  let summary = "an output of the entry, by its index";
  let description = [{
    0 <= index < number of the entry's outputs. The buffer is the caller's memory.
  }];
  let arguments = (ins I64Attr:$index);
  let assemblyFormat = "$index attr-dict `:` type($result)";
}

def Target_AllocOp : Target_BufferOp<"alloc"> {
  let summary = "a part of the workspace: offset in bytes, a multiple of 64";
  let description = [{
    The buffer is inside the function's workspace. Buffers that are used at different times may share bytes.
  }];
  let arguments = (ins I64Attr:$offset);
  let assemblyFormat = "`offset` $offset attr-dict `:` type($result)";
}

def Target_PrepackedOp : Target_BufferOp<"prepacked"> {
  let summary = "a buffer that all entries share and that persists between runs, by its number";
  let description = [{
    The launch of one prepacking kernel writes it, from one tensor; other launches read it after that launch.
  }];
  let arguments = (ins I64Attr:$index);
  let assemblyFormat = "$index attr-dict `:` type($result)";
}

def Target_HostAllocOp : Target_BufferOp<"host_alloc"> {
  let summary = "a part of the entry's page-locked host memory: offset in bytes, a multiple of 64";
  let description = [{
    It is for a device with its own memory: only tessera_target.offload writes it, only prefetch reads it.
  }];
  let arguments = (ins I64Attr:$offset);
  let assemblyFormat = "`offset` $offset attr-dict `:` type($result)";
}

def Target_VrankAllocOp : Target_BufferOp<"vrank_alloc"> {
  let summary = "a buffer that each virtual rank keeps for a later loop";
  let description = [{
    The type is the buffer type of one virtual rank; `offset` is the offset of virtual rank 0 in the space of the
    virtual ranks, in bytes. Commands outside of loops do not use it.
  }];
  let arguments = (ins I64Attr:$offset);
  let assemblyFormat = "`offset` $offset attr-dict `:` type($result)";
}

def Target_SumAllocOp : Target_BufferOp<"sum_alloc"> {
  let summary = "a sum over leaves, and buffers for the partial sums of its subtrees";
  let description = [{
    The type is the type of the sum; `offset` is in bytes. A rank needs one buffer for each level of
    the tree that it works on at the same time.
  }];
  let arguments = (ins I64Attr:$offset);
  let assemblyFormat = "`offset` $offset attr-dict `:` type($result)";
}

def Target_VrankNumberOp : Target_BufferOp<"vrank_number"> {
  let summary = "the number of the current virtual rank, from 0; only read";
  let description = [{
    It is a scalar; only commands between tessera_target.each_vrank and its end read it.
  }];
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Target_SizeOp : Target_BufferOp<"size"> {
  let summary = "a size that follows from the open dim of the entry, by its number; only read";
  let description = [{
    It is a scalar i64. Number 0 is the dim itself.
  }];
  let arguments = (ins I64Attr:$index);
  let assemblyFormat = "$index attr-dict `:` type($result)";
}

//===--- commands --------------------------------------------------------------------------------===//

def Target_LaunchOp : Target_SymbolUse<"launch", [HasParent<"FuncOp">, AttrSizedOperandSegments]> {
  let summary = "runs a kernel";
  let description = [{
    `tessera_target.launch @k0(%x, %w) writes(%h) : (memref<64xf32>, memref<64xf32>) -> memref<64xf32>`

    The number of buffers and their types are those that the kernel declares. An output only overlaps an input
    if the kernel's `in_place` allows it.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Target_Buffer>:$inputs,
      Variadic<Target_Buffer>:$outputs);
  let assemblyFormat = [{
    $kernel `(` $inputs `)` `writes` `(` $outputs `)` attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def Target_CopyOp : Target_Op<"copy", [HasParent<"FuncOp">, SameTypeOperands]> {
  let summary = "first operand <- second operand; they do not overlap";
  let description = [{
    Both have the same type; all bytes are copied. The buffers may be on one device or on different ones.
  }];
  let arguments = (ins Target_Buffer:$to, Target_Buffer:$from);
  let assemblyFormat = "$to `,` $from attr-dict `:` type($to)";
}

def Target_VerifyOp : Target_Op<"verify", [HasParent<"FuncOp">]> {
  let summary = "fails the run if an element of the buffer is not between `low` and `high`, or not finite";
  let description = "`tessera_target.verify %y {low = 0.0, high = 1.0} : memref<4xf32>`";
  let arguments = (ins Target_Buffer:$checked, F64Attr:$low, F64Attr:$high);
  let assemblyFormat = "$checked attr-dict `:` type($checked)";
}

def Target_EachVrankOp : Target_Op<"each_vrank", [HasParent<"FuncOp">]> {
  let summary = "the next commands run once for each virtual rank, then ranks communicate";
  let description = [{
    `commands` is the number of the following commands that belong to the loop. Loops are not nested. A rank runs
    its own virtual ranks in ascending order; the results of tessera_target.vrank_sum and vrank_gather are available
    after the loop.
  }];
  let arguments = (ins I64Attr:$commands);
  let assemblyFormat = "$commands attr-dict";
}

def Target_ControlOp : Target_Op<"control", [HasParent<"FuncOp">]> {
  let summary = "loops and branches: repeat, stop, when, unless, take, put";
  let description = [{
    "repeat"          the next `commands` commands run `times` times, or until a "stop" among them ends the loop
    "stop"            (i1): the innermost loop ends if it is false
    "when", "unless"  (i1): the next `commands` commands run if it is true, or false
    "take"            (slice, sequence): copies the sequence's slice of the current iteration to `slice`; with `reverse`
                      slices are counted from the last one
    "put"             (sequence, slice): copies `slice` to the sequence's slice of the current iteration

    These ranges are nested or disjoint. Launches and copies inside them only write the workspace.
  }];
  let arguments = (ins StrAttr:$kind, Variadic<Target_Buffer>:$buffers,
      DefaultValuedAttr<I64Attr, "0">:$commands, DefaultValuedAttr<I64Attr, "0">:$times, UnitAttr:$reverse);
  let assemblyFormat = "$kind (`(` $buffers^ `:` type($buffers) `)`)? attr-dict";
}

def Target_VrankSumOp : Target_SymbolUse<"vrank_sum", [HasParent<"FuncOp">, SameTypeOperands]> {
  let summary = "first operand <- the sum of the second one over virtual ranks, by the binary tree";
  let description = "`kernel` adds two buffers. The sum is available when the loop has ended on all ranks.";
  let arguments = (ins FlatSymbolRefAttr:$kernel, Target_Buffer:$sum, Target_Buffer:$part);
  let assemblyFormat = "$kernel `(` $sum `,` $part `)` attr-dict `:` type($sum)";
}

def Target_VrankGatherOp : Target_Op<"vrank_gather", [HasParent<"FuncOp">]> {
  let summary = "first operand <- the second ones of all virtual ranks, concatenated along dim 0";
  let description = [{
    `[N, ...] -> [N * V, ...]` for V virtual ranks, in their order. The result is available when the loop has ended on
    all ranks.
  }];
  let arguments = (ins Target_Buffer:$all, Target_Buffer:$part);
  let assemblyFormat = "$all `,` $part attr-dict `:` type($all) `,` type($part)";
}

def Target_CollectiveOp : Target_Op<"collective", [HasParent<"FuncOp">]> {
  let summary = "ranks of an axis exchange a buffer";
  let description = [{
    `tessera_target.collective "all_gather" %all, %mine over "dp" ranks 4 : memref<16xf32>, memref<4xf32>`

    The `ranks` positions of an axis take part. They are the virtual ranks, and do not depend on the number of
    processes. Each virtual rank's own buffer is a vrank_alloc. If a collective other than slice reads a sum_alloc,
    no other command reads it. With one position every collective is a copy, of any buffers.

    all_reduce      any buffer <- a sum_alloc: the sum of all
    broadcast       any buffer <- a vrank_alloc: the buffer of virtual rank 0
    all_gather      any buffer <- a vrank_alloc, or a tensor_part, possibly a part of that buffer: the parts of all,
                    concatenated
    reduce_scatter  a vrank_alloc <- a sum_alloc: a part of the sum of all
    slice           a vrank_alloc <- any buffer: a part of it; no bytes are sent
    all_to_all      a vrank_alloc <- a vrank_alloc: part p of virtual rank q goes to slot q of virtual rank p

    Both have the same type, except that dim 0 of a part is dim 0 of the whole divided by `ranks`, or the part is
    a vector of ceil(n / ranks) of n elements: bytes after the last element are not changed. algo, "ring" or
    "tree", is the planned algorithm: ranks send as many bytes as in a ring.
  }];
  let arguments = (ins StrAttr:$kind, Target_Buffer:$to, Target_Buffer:$from, StrAttr:$axis,
      I64Attr:$ranks, OptionalAttr<StrAttr>:$algo);
  let assemblyFormat = [{
    $kind $to `,` $from `over` $axis `ranks` $ranks attr-dict `:` type($to) `,` type($from)
  }];
}

class Target_Ordered<string mnemonic, list<Trait> traits = []>
    : Target_Op<mnemonic, [HasParent<"FuncOp">] # traits> {
  let results = (outs Target_TokenType:$token);
}

def Target_EnterOp : Target_Ordered<"enter"> {
  let summary = "begins the region with this name";
  let description = [{
    `%e = tessera_target.enter "stage" mode "replay" on_failure @mend after (%t)`

    If the region fails, @mend runs; with mode "replay" the commands after this one then run again.
  }];
  let arguments = (ins StrAttr:$name, StrAttr:$mode, OptionalAttr<FlatSymbolRefAttr>:$on_failure,
      Variadic<Target_TokenType>:$after);
  let assemblyFormat = [{
    $name `mode` $mode (`on_failure` $on_failure^)? (`after` `(` $after^ `)`)? attr-dict
  }];
}

def Target_LeaveOp : Target_Ordered<"leave"> {
  let summary = "ends the region with this name; the region fails if one of the buffers is not finite";
  let description = "`%l = tessera_target.leave \"stage\" after (%e) checks (%y : memref<4xf32>)`";
  let arguments = (ins StrAttr:$name, Target_TokenType:$after, Variadic<Target_Buffer>:$checked);
  let assemblyFormat = [{
    $name `after` `(` $after `)` (`checks` `(` $checked^ `:` type($checked) `)`)? attr-dict
  }];
}

def Target_ExportOp : Target_Ordered<"export", [AttrSizedOperandSegments]> {
  let summary = "begins to store buffers in tensors, under the resilience token with this name";
  let description = [{
    `%t = tessera_target.export "step" to (%w : memref<4xf32>) from (%y : memref<4xf32>) after (%a)`

    The token must be awaited. The tensors are committed with the state of the step.
  }];
  let arguments = (ins StrAttr:$name, Variadic<Target_Buffer>:$to, Variadic<Target_Buffer>:$from,
      Variadic<Target_TokenType>:$after);
  let assemblyFormat = [{
    $name (`to` `(` $to^ `:` type($to) `)`)? (`from` `(` $from^ `:` type($from) `)`)?
    (`after` `(` $after^ `)`)? attr-dict
  }];
}

def Target_ImportOp : Target_Ordered<"import", [AttrSizedOperandSegments]> {
  let summary = "begins to restore the buffers stored under the resilience token with this name";
  let description = [{
    `%t = tessera_target.import "step" to (%y : memref<4xf32>) from (%w : memref<4xf32>)`
  }];
  let arguments = (ins StrAttr:$name, Variadic<Target_Buffer>:$to, Variadic<Target_Buffer>:$from,
      Variadic<Target_TokenType>:$after);
  let assemblyFormat = [{
    $name (`to` `(` $to^ `:` type($to) `)`)? (`from` `(` $from^ `:` type($from) `)`)?
    (`after` `(` $after^ `)`)? attr-dict
  }];
}

class Target_OffloadingOp<string mnemonic>
    : Target_Ordered<mnemonic, [SameTypeOperands]> {
  let arguments = (ins Target_Buffer:$to, Target_Buffer:$from);
  let assemblyFormat = "$to `,` $from attr-dict `:` type($to)";
}

def Target_OffloadOp : Target_OffloadingOp<"offload"> {
  let summary = "begins to copy a part of the workspace to host memory";
  let description = [{
    `%t = tessera_target.offload %h, %x : memref<64xf32>`

    The copy begins when the commands before it are done, and runs concurrently with the commands after it until its
    await. The token must be awaited, and no command writes %x before the await.
  }];
}

def Target_PrefetchOp : Target_OffloadingOp<"prefetch"> {
  let summary = "begins to copy an offloaded buffer back";
  let description = [{
    `%t = tessera_target.prefetch %y, %h : memref<64xf32>`

    Like tessera_target.offload; no command reads or writes %y before the await. %y may have another slot than the
    offloaded buffer.
  }];
}

def Target_AwaitOp : Target_Op<"await"> {
  let summary = "waits until all of these operations are done; each token is awaited once";
  let description = [{
    `tessera_target.await %t`

    The tokens are those of exports, imports, offloads, prefetches and async copies. A token that is never awaited, or
    awaited twice, is an error.
  }];
  let arguments = (ins Variadic<Target_TokenType>:$tokens);
  let assemblyFormat = "$tokens attr-dict";
}

//===--- in the bodies of kernels ----------------------------------------------------------------===//

// Memory spaces of GPUs have LLVM's numbers: 0 generic, 1 global, 3 shared, 4 constant, 5 private.
// No stage creates the ops of this section, and code generation has no machine code for these ops yet: the
// ops are checked, printed and parsed, and a kernel that contains one is an error (TSR-0511).
class Target_Instr<string mnemonic> : Target_Op<mnemonic> {
  let arguments = (ins StrAttr:$text, StrAttr:$constraints, Variadic<AnyType>:$inputs,
      OptionalAttr<StrAttr>:$requires, UnitAttr:$deterministic);
  let results = (outs Variadic<AnyType>:$outputs);
  let assemblyFormat = [{
    $text `,` $constraints `(` $inputs `)` (`requires` `=` $requires^)? attr-dict
    `:` functional-type($inputs, $outputs)
  }];
}

def Target_PtxInstrOp : Target_Instr<"ptx_instr"> {
  let summary = "PTX instructions";
  let description = [{
    `%d = tessera_target.ptx_instr "ex2.approx.f32 $0, $1;", "=f,f"(%x) requires = "sm_80" : (f32) -> f32`

    One constraint for each result ("=h", "=r", "=l", "=f", "=d"), then for each input (or "n", or the number
    of the result that shares its register); `$i` is the i-th of them. The text ends with ';'. Instructions in
    host/features.def require the features listed there. `{deterministic}` says that the bits of the
    results depend on the inputs alone; kernels of deterministic entries need it. Code generation does not support this op yet: TSR-0511.
  }];
}

def Target_HipInstrOp : Target_Instr<"hip_instr"> {
  let summary = "instructions of an AMD GPU";
  let description = [{
    `%d = tessera_target.hip_instr "v_exp_f32 $0, $1", "=v,v"(%x) requires = "gfx90a" : (f32) -> f32`

    Like ptx_instr; registers are "v" (vector), "a" (accumulator) or "s" (scalar). No target supports this op yet:
    TSR-0511.
  }];
}

def Target_LoadOp : Target_Op<"load"> {
  let summary = "loads elements at a flat offset, with a known alignment in bytes";
  let description = [{
    Loads a scalar or a 1-D vector from a tile kernel's memref with the same element type. The address is a
    multiple of `align`, a power of two; memory spaces are LLVM's. Code generation does not support this op yet
    (TSR-0511): kernels load with tile.load.
  }];
  let arguments = (ins AnyMemRef:$buffer, Index:$offset, I64Attr:$align);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $buffer `[` $offset `]` `align` $align attr-dict `:` type($buffer) `->` type($result)
  }];
}

def Target_StoreOp : Target_Op<"store"> {
  let summary = "stores elements at a flat offset, with a known alignment in bytes";
  let description = [{
    The inverse of load. The address is a multiple of `align`, a power of two. Code generation does not support this
    op yet (TSR-0511): kernels store with tile.store.
  }];
  let arguments = (ins AnyType:$value, AnyMemRef:$buffer, Index:$offset, I64Attr:$align);
  let assemblyFormat = [{
    $value `,` $buffer `[` $offset `]` `align` $align attr-dict `:` type($value) `,` type($buffer)
  }];
}

def Target_AsyncCopyOp : Target_Op<"async_copy"> {
  let summary = "begins to copy 4, 8 or 16 bytes from global to shared memory";
  let description = [{
    `%t = tessera_target.async_copy %s[%i], %g[%j] bytes 16 requires = "sm_80" : memref<64xf32, 3>, memref<64xf32, 1>`

    Both addresses are aligned to `bytes`. Code generation does not support this op yet (TSR-0511): kernels copy with
    tile.async_copy and tile.fetch.
  }];
  let arguments = (ins AnyMemRef:$to, Index:$to_offset, AnyMemRef:$from, Index:$from_offset,
      I64Attr:$bytes, StrAttr:$requires);
  let results = (outs Target_TokenType:$token);
  let assemblyFormat = [{
    $to `[` $to_offset `]` `,` $from `[` $from_offset `]` `bytes` $bytes `requires` `=` $requires attr-dict
    `:` type($to) `,` type($from)
  }];
}

#endif
